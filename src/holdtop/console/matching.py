"""Says which lines match a pattern: a program of its own, started by ``search``, that knows nothing of the console.

A pattern can be made to compute for ever, and no thread can be stopped while it does: here the kernel ends it.
stdin: the pattern, then batches of lines, each one line of JSON; stdout: an answer to each.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys

#: Seconds of a processor for a pattern or a batch; then SIGPROF ends the program (setitimer(2)).
PATIENCE = 1.0
#: Bytes of memory: a pattern's program can be large, too.
MEMORY = 512 * 1024 * 1024


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        match = re.compile(json.loads(sys.stdin.readline()), re.IGNORECASE).search
    except (re.error, RecursionError, OverflowError, MemoryError) as error:
        print(json.dumps(str(error) or "too large"), flush=True)
        return
    print(json.dumps(""), flush=True)
    for batch in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        print(json.dumps([place for place, line in enumerate(json.loads(batch)) if match(line)]), flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0.0)


if __name__ == "__main__":
    main()
