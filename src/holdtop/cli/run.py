"""``holdtop run``: hold, run, release. The exit status is the payload's own, or says what ended it."""

from __future__ import annotations

import argparse
import os
import signal

from holdtop.cli import types
from holdtop.errors import ConfigError, HoldError, UsageError
from holdtop.hold import lane, places
from holdtop.hold.life import Options, live
from holdtop.hold.narrate import Narrator
from holdtop.payload import signals
from holdtop.payload.ending import Bounds

EPILOG = """exit status: the command's own (128+n when it died of signal n); 120 evicted while waiting, 121 -w passed,
124 max-hold, 125 the hold itself failed, 126/127 not executable/not found, 129/130/143 HUP, INT or a stop, TERM"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("run", help="hold, run a command, release", epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    add(
        "-r",
        "--resource",
        default="gpu",
        metavar="NAME",
        help="gpu (default), npu, any name; gpu,npu for both",
    )
    add("--state-dir", metavar="DIR", help="where queue and token live")
    add(
        "-w",
        "--wait",
        type=types.duration,
        metavar="DURATION",
        help="give up waiting after this; 0: now or never",
    )
    add("--max-hold", type=types.positive_duration, metavar="DURATION", help="end the payload after this")
    add("--grace", type=types.duration, metavar="DURATION", help="from TERM to KILL (default 10s)")
    add(
        "--survive-wait",
        type=types.duration,
        metavar="DURATION",
        help="how long an unkillable process keeps the token (default 60s)",
    )
    add("--lane", metavar="NAME", help="who asks (default: from the CI job, tmux pane or terminal)")
    add("--nice", type=int, default=0, metavar="N", help="niceness added to the payload")
    add("--cpus", type=types.cpus, default=frozenset(), metavar="LIST|N", help="CPUs the payload may use")
    add("--log", metavar="FILE", help="append the payload's output to FILE")
    add(
        "--die-with-parent",
        action="store_true",
        default=None,
        help="end when the starter is gone and nobody can tell how (default under a CI runner)",
    )
    add("command", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the command and its arguments")


def run(args: argparse.Namespace) -> int:
    inbox = signals.capture()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("run needs a command: holdtop run [options] -- CMD …")
    narrator = Narrator()
    result = live(_options(args, command, narrator), inbox, narrator)
    if result.die_of is not None:
        signal.signal(result.die_of, signal.SIG_DFL)
        signal.raise_signal(result.die_of)
    return result.status


def _options(args: argparse.Namespace, command: list[str], narrator: Narrator) -> Options:
    resources = tuple(dict.fromkeys(places.check_resource(name) for name in args.resource.split(",")))
    first = places.prefix(resources[0])
    grace = _seconds(args.grace, f"{first}_HOLD_KILL_GRACE", 10.0)
    survive_wait = _seconds(args.survive_wait, f"{first}_HOLD_SURVIVE_WAIT", 60.0)
    _refuse_unarmed(first)
    in_ci = bool(os.environ.get("CI") or os.environ.get("GITHUB_ACTIONS"))
    return Options(
        argv=command,
        lane=lane.choose(args.lane),
        resources=resources,
        state_dir=args.state_dir,
        wait=args.wait,
        max_hold=args.max_hold,
        bounds=Bounds(grace, survive_wait),
        nice=args.nice,
        cpus=args.cpus,
        log=args.log,
        die_with_parent=in_ci if args.die_with_parent is None else args.die_with_parent,
        operators=_operators(narrator),
    )


def _seconds(flag: float | None, variable: str, default: float) -> float:
    """The flag, else the shell tool's variable, else the default."""
    if flag is not None:
        return flag
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        return types.duration(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{variable}: {error}") from error


def _refuse_unarmed(prefix: str) -> None:
    """A guard that was asked for and is not there must not be silently missing. Raises ``HoldError``."""
    for name in (f"{prefix}_HOLD_MEM_ABORT_GIB", f"{prefix}_HOLD_MEM_ABORT_GB"):
        if os.environ.get(name, "0") not in ("", "0"):
            raise HoldError(f"{name} asks for a memory guard, which this version cannot arm; unset it or set it to 0")


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
