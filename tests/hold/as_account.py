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
import multiprocessing.popen_fork
import os
import pathlib
import pkgutil
import sys
import time

import jeepney.io.blocking  # type: ignore[import-untyped]

import holdtop
from holdtop.cli import main

PR_SET_DUMPABLE = 4
#: What none of these commands needs, and what costs much.
_NEVER = ("holdtop.__main__", "holdtop.console", "holdtop.demo", "holdtop.watch", "holdtop.cli.watch")

for module in pkgutil.walk_packages(holdtop.__path__, "holdtop."):
    if not module.name.startswith(_NEVER):
        importlib.import_module(module.name)
assert jeepney.io.blocking
assert multiprocessing.popen_fork
assert pathlib
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
