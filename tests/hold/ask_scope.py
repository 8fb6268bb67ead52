"""``python ask_scope.py UID NAME PID``: ask as that account for a scope, and tell as JSON what came of it.

PID ``child`` is a child made for it, which is left in the scope for as long as this process reads its input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import jeepney.io.blocking  # type: ignore[import-untyped]

from holdtop.errors import ScopeRefused
from holdtop.systemd import start_scope, why_no_scope

assert jeepney.io.blocking  # loaded before the account is taken on: that one may not reach it
uid, name, whom = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)

reading, writing = os.pipe()
if (child := os.fork()) == 0:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
started = time.monotonic()
try:
    start_scope(name, child if whom == "child" else int(whom))
    error = None
except ScopeRefused as refused:
    error = str(refused)
said = {
    "reason": why_no_scope(),
    "error": error,
    "seconds": time.monotonic() - started,
    "place": Path(f"/proc/{child}/cgroup").read_text().rpartition("0::")[2].strip(),
}
print(json.dumps(said), flush=True)
sys.stdin.read()
os.close(writing)
os.waitpid(child, 0)
