"""Records as fast as it can: ``python -m tests.recorder.driver DIR``; says each look's number once it is stored.

The looks are far apart by their own clock: a recorder that has just read a long recording rests before the next.
"""

from __future__ import annotations

import itertools
import sys

from holdtop.recorder.recorder import Recorder
from tests.recorder.scenes import STORY, at


def main(directory: str) -> None:
    recorder = Recorder(directory, lambda said: print(said, file=sys.stderr, flush=True))
    for number in itertools.count(1):
        recorder.take(at(1000.0 * number, STORY[number % len(STORY)]))
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
