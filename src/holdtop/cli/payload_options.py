"""The options that ``run`` and ``guard`` share: how a payload is started, limited and ended."""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Any

from holdtop.cli import probes, types
from holdtop.errors import HoldError, UsageError
from holdtop.hold.life import Options
from holdtop.hold.narrate import Narrator
from holdtop.payload.containment import MODES
from holdtop.payload.ending import Bounds
from holdtop.payload.limits import HYSTERESIS, Limit, Limits, PauseLimit
from holdtop.systemd import UserScopes


def add(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--max-hold", type=types.positive_duration, metavar="DURATION", help="end the payload after this")
    option("--mem-abort-gib", type=types.positive_number, metavar="GIB", help="end it when MemAvailable stays below")
    option("--tctl-abort", type=types.celsius, metavar="C", help="end it when Tctl stays at or above")
    option(
        "--tctl-pause",
        type=types.pause_celsius,
        metavar="C",
        help=f"pause it when Tctl stays at or above, until it stays {HYSTERESIS:g} C below; max-hold goes on",
    )
    option(
        "--sensor-missing",
        choices=("refuse", "warn"),
        default="refuse",
        help="what to do when a limit has no sensor (default: refuse the start)",
    )
    option("--grace", type=types.duration, metavar="DURATION", help="from TERM to KILL (default 10s)")
    option(
        "--survive-wait",
        type=types.duration,
        metavar="DURATION",
        help="how long an unkillable process is waited for, and keeps the token (default 60s)",
    )
    option(
        "--contain",
        choices=MODES,
        default="auto",
        help="auto (default): a cgroup where one can be had; cgroup: or refuse; subreaper: none; pidns: also a pid"
        " namespace, at the prices that docs/containment.md names",
    )
    option(
        "--keep-daemons",
        action="store_true",
        help="spare, and name, what left the command's session and has no device open",
    )
    option("--nice", type=types.niceness, default=0, metavar="N", help="niceness added to the payload")
    option("--cpus", type=types.cpus, default=frozenset(), metavar="LIST|N", help="CPUs the payload may use")
    option("--log", metavar="FILE", help="append the payload's output to FILE")
    option(
        "--die-with-parent",
        action="store_true",
        default=None,
        help="end when the starter is gone and nobody can tell how (default under a CI runner)",
    )
    option("command", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the command and its arguments")


def options(args: argparse.Namespace, prefix: str, narrator: Narrator, **queueing: Any) -> Options:
    """What was asked for. ``prefix``: of the shell tool's variables. ``queueing``: the fields that the verb alone has.

    Raises ``UsageError``, and ``HoldError`` when a limit has no sensor.
    """
    return Options(
        argv=_command(args),
        max_hold=args.max_hold,
        bounds=_bounds(args, prefix),
        nice=args.nice,
        cpus=args.cpus,
        log=args.log,
        contain=args.contain,
        scopes=UserScopes(),
        keep_daemons=args.keep_daemons,
        devices=partial(probes.device_use, queueing["resources"]),
        gauge=probes.gauge(queueing["resources"]),
        die_with_parent=_die_with_parent(args),
        armed=_limits(args, prefix, narrator),
        **queueing,
    )


def _command(args: argparse.Namespace) -> list[str]:
    """The payload's words. Raises ``UsageError`` when there are none."""
    words: list[str] = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words:
        raise UsageError(f"{args.verb} needs a command: holdtop {args.verb} [options] -- CMD …")
    return words


def _bounds(args: argparse.Namespace, prefix: str) -> Bounds:
    """Flags, else the shell tool's variables, else the defaults."""
    return Bounds(
        _seconds(args.grace, f"{prefix}_HOLD_KILL_GRACE", 10.0),
        _seconds(args.survive_wait, f"{prefix}_HOLD_SURVIVE_WAIT", 60.0),
    )


def _die_with_parent(args: argparse.Namespace) -> bool:
    in_ci = bool(os.environ.get("CI") or os.environ.get("GITHUB_ACTIONS"))
    return in_ci if args.die_with_parent is None else bool(args.die_with_parent)


def _limits(args: argparse.Namespace, prefix: str, narrator: Narrator) -> Limits:
    """The limits that were asked for, each with a sensor that has answered once.

    Raises ``UsageError`` when they contradict each other, ``HoldError`` when one has no sensor.
    """
    floor, ceiling, pause = args.mem_abort_gib or _gib(prefix), args.tctl_abort, args.tctl_pause
    if pause and ceiling and pause >= ceiling:
        raise UsageError(f"--tctl-pause {pause:g} must be below --tctl-abort {ceiling:g}, which ends the payload")
    rules: list[Limit | PauseLimit] = []
    if floor:
        memory = probes.memory()
        rules.append(Limit(name="mem-abort-gib", threshold=floor, sensor=memory, ceiling=False, status=122))
    if ceiling or pause:
        tctl = probes.tctl()
        if ceiling:
            rules.append(Limit(name="tctl-abort", threshold=ceiling, sensor=tctl, ceiling=True, status=123))
        if pause:
            rules.append(PauseLimit(name="tctl-pause", threshold=pause, sensor=tctl))
    return _with_sensors(Limits(tuple(rules)), args.sensor_missing, narrator)


def _with_sensors(asked: Limits, missing: str, narrator: Narrator) -> Limits:
    """Those whose sensor answers."""
    blind = []
    for sensor in asked.sensors:
        sample = sensor.first()
        if sample.value is not None:
            narrator.say(f"{sensor.what} is {sample.value:.1f} {sensor.unit} ({sample.said})")
        elif missing == "refuse":
            flags = asked.flags(sensor)
            raise HoldError(f"{flags}: no sensor: {sample.said} (--sensor-missing warn starts without it)")
        else:
            narrator.warn(f"::warning::{asked.flags(sensor)}: off, no sensor: {sample.said}")
            blind.append(sensor)
    return Limits(tuple(rule for rule in asked.armed if rule.sensor not in blind))


def _gib(prefix: str) -> float:
    """The shell tool's variable, in both spellings; 0 is off."""
    for name in (f"{prefix}_HOLD_MEM_ABORT_GIB", f"{prefix}_HOLD_MEM_ABORT_GB"):
        if text := os.environ.get(name):
            try:
                return types.number(text)
            except argparse.ArgumentTypeError as error:
                raise UsageError(f"{name}: {error}") from error
    return 0.0


def _seconds(flag: float | None, variable: str, default: float) -> float:
    if flag is not None:
        return flag
    text = os.environ.get(variable)
    if not text:
        return default
    try:
        return types.duration(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{variable}: {error}") from error
