"""``holdtop guard``: the same containment and limits without a queue.

GTT escapes memory cgroups, so ``MemoryMax`` alone does not protect a box with an APU: this ends the tree when
MemAvailable falls under a floor.
"""

from __future__ import annotations

import argparse

from holdtop.cli import payload_options
from holdtop.cli.run import leave
from holdtop.hold.life import live
from holdtop.hold.narrate import Narrator
from holdtop.payload import signals

EPILOG = """exit status: the command's own (128+n when it died of signal n); 122 MemAvailable floor, 123 Tctl ceiling,
124 max-hold, 125 the guard itself failed, 126/127 not executable/not found, 129/130/143 HUP, INT, TERM"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "guard", help="limits and containment without the queue", epilog=EPILOG, allow_abbrev=False
    )
    payload_options.add(parser)


def run(args: argparse.Namespace) -> int:
    inbox = signals.capture()
    narrator = Narrator()
    options = payload_options.options(args, "GPU", narrator, lane="guard", resources=())
    return leave(live(options, inbox, narrator))
