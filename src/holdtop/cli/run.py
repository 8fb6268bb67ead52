"""``holdtop run``: hold, run, release. The exit status is the payload's own, or says what ended it."""

from __future__ import annotations

import argparse
import os
import signal
from typing import get_args

from holdtop.cli import payload_options, types
from holdtop.errors import ConfigError
from holdtop.hold import lane, places
from holdtop.hold.life import Options, live
from holdtop.hold.narrate import Narrator
from holdtop.hold.survivors import Policy
from holdtop.payload import signals
from holdtop.payload.supervisor import Result

EPILOG = """exit status: the command's own (128+n when it died of signal n); 120 evicted while waiting, 121 -w passed,
122 MemAvailable floor, 123 Tctl ceiling, 124 max-hold, 125 the hold itself failed, 126/127 not executable/not found,
129/130/143 HUP, INT or a stop, TERM"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("run", help="hold, run a command, release", epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    add("-r", "--resource", default="gpu", metavar="NAME", help="gpu (default), npu, any name; gpu,npu for both")
    add("--state-dir", metavar="DIR", help="where queue and token live")
    add("-w", "--wait", type=types.duration, metavar="DURATION", help="give up waiting after this; 0: now or never")
    add("--lane", metavar="NAME", help="who asks (default: from the CI job, tmux pane or terminal)")
    add(
        "--after-survivor",
        choices=get_args(Policy),
        default="warn",
        help="while a process of an earlier hold outlives its token: start with a warning (default), wait, or refuse",
    )
    payload_options.add(parser)


def run(args: argparse.Namespace) -> int:
    inbox = signals.capture()
    narrator = Narrator()
    return leave(live(_options(args, narrator), inbox, narrator))


def leave(result: Result) -> int:
    """The status; or the death that a shell around us has to see."""
    if result.die_of is not None:
        signal.signal(result.die_of, signal.SIG_DFL)
        signal.raise_signal(result.die_of)
    return result.status


def _options(args: argparse.Namespace, narrator: Narrator) -> Options:
    resources = tuple(dict.fromkeys(places.check_resource(name) for name in args.resource.split(",")))
    return payload_options.options(
        args,
        places.prefix(resources[0]),
        narrator,
        lane=lane.choose(args.lane),
        resources=resources,
        state_dir=args.state_dir,
        wait=args.wait,
        after_survivor=args.after_survivor,
        operators=_operators(narrator),
    )


def _operators(narrator: Narrator) -> frozenset[int]:
    """Uids of the operators that the system's configuration names; a broken one must not stop a lane's turn."""
    if not os.path.exists("/etc/holdtop/config.toml"):
        return frozenset()  # the usual case must not pay for a TOML parser
    from holdtop import config

    try:
        return config.operator_uids()
    except ConfigError as error:
        narrator.say(f"no operators are known: {error}")
        return frozenset()
