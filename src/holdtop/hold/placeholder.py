"""What a ``Hold`` has for a payload: says that the token is taken, then lives until it is told to end.

It is told by its stdin, and by the end of the program that opened the hold, of which it gets a pidfd: a child that
this program forked may keep the other end of stdin open. Run by its path, in an interpreter that imports little.
"""

import select
import sys

if __name__ == "__main__":
    print("held", flush=True)
    until = select.poll()
    for fd in (0, int(sys.argv[1])):
        until.register(fd, select.POLLIN)
    until.poll()
