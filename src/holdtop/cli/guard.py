"""``holdtop guard``: the same containment and limits without a queue.

GTT escapes memory cgroups, so ``MemoryMax`` alone does not protect a box with an APU: this ends the tree when
MemAvailable falls under a floor.
"""

from __future__ import annotations

import argparse
from functools import partial

from holdtop.cli import payload_options, probes
from holdtop.cli.run import leave
from holdtop.hold.life import Options, live
from holdtop.hold.narrate import Narrator
from holdtop.payload import signals
from holdtop.systemd import UserScopes

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
    options = Options(
        argv=payload_options.command(args),
        lane="guard",
        resources=(),
        max_hold=args.max_hold,
        bounds=payload_options.bounds(args, "GPU"),
        nice=args.nice,
        cpus=args.cpus,
        log=args.log,
        contain=args.contain,
        scopes=UserScopes(),
        keep_daemons=args.keep_daemons,
        devices=partial(probes.device_use, ()),
        die_with_parent=payload_options.die_with_parent(args),
        armed=payload_options.limits(args, "GPU", narrator),
    )
    return leave(live(options, inbox, narrator))
