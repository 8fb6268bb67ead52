"""``python race_driver.py STATE MARK TURNS SEED``: one lane's turns at the token, as tight as the code allows.

Each turn is a process of its own, which takes as a hold does, has the token for no time, and releases, or dies of KILL
with it: then the next one of any lane recovers the ghost. A shell lane does the same in ``race_driver.sh``.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import sys

from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold import token
from holdtop.hold.places import ensure, resolve
from holdtop.hold.ticket import Wish


def note(mark: str, what: str) -> None:
    with open(f"{mark}.{what}", "a") as file:
        file.write(f"{what}\n")


def turn(state: str, mark: str, die: bool) -> None:
    places = resolve("gpu", state)
    queue, directory = ensure(places), places.open_token_dir()
    lines = tickets.describe(Wish("gpu", "race", "true"), 1)
    ticket = tickets.parse(tickets.encode(lines), uid=os.geteuid(), locked=True)
    content = token.content(ticket, tickets.encode(lines), places.queue_path)
    own = None
    while own is None:
        with token.pinned(directory, places.token_name) as pin:
            found = token.look(directory, places.token_name)
            same = pin and found and found.ghost and (found.device, found.inode) == (pin.st_dev, pin.st_ino)
            with queues.locked(queue):
                if found is None:
                    own = token.take(directory, places.token_name, content)
                elif same:
                    own = token.exchange_for(directory, places.token_name, content, found, keep_as=None)
                    note(mark, "recovered" if own else "beaten")
    with open(mark, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(mark, "overlaps")
        note(mark, "turns")
        if die:
            os.kill(os.getpid(), signal.SIGKILL)
    with queues.locked(queue):
        if not own.release():
            note(mark, "lost")


def main() -> None:
    state, mark, turns, seed = sys.argv[1:]
    choice = random.Random(seed)
    for _ in range(int(turns)):
        die = choice.random() < 0.3
        if not (child := os.fork()):
            turn(state, mark, die)
            os._exit(0)
        os.waitpid(child, 0)


main()
