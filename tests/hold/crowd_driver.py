"""``python crowd_driver.py NUMBER ARGS…``: so many ``holdtop ARGS`` at one instant; prints their statuses.

Everything is imported once: so many interpreters would not be at one instant.
"""

from __future__ import annotations

import os
import sys

from holdtop.cli import main, run  # noqa: F401  the verb is imported when it is named

go, start = os.pipe()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.close(start)
        os.read(go, 1)
        os._exit(main.main(sys.argv[2:]))
os.close(start)
statuses = [os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(int(sys.argv[1]))]
print(*statuses)
