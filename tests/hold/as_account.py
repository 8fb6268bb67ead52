"""``python as_account.py UID GID-LIST UMASK ARGS…``: the ``holdtop`` command as another account.

The interpreter may lie where that account cannot reach it (a virtual environment below a private home), so everything
is loaded first and the account taken on afterwards.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import importlib
import io
import os
import pkgutil
import sys
import time

import jeepney.io.blocking  # type: ignore[import-untyped]

import holdtop.hold
import holdtop.host
import holdtop.payload
from holdtop import config
from holdtop.cli import main, run, state, state_init, state_steps

PR_SET_DUMPABLE = 4

for package in (holdtop.hold, holdtop.payload, holdtop.host):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
assert run
assert state
assert state_init
assert state_steps
assert config
assert jeepney.io.blocking
codecs.lookup("ascii")
time.strptime("0", "%S")
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    # What is loaded late: by the parser, and by a verb that only looks.
    main.main(sys.argv[4:] if sys.argv[4] == "status" else [sys.argv[4], "--help"])

uid = int(sys.argv[1])
os.setgroups([int(group) for group in sys.argv[2].split(",") if group])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
os.umask(int(sys.argv[3], 8))
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after any exec
sys.exit(main.main(sys.argv[4:]))
