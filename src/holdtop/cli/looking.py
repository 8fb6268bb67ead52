"""What the looking verbs share: what is looked at, and what the output can show."""

from __future__ import annotations

import argparse
import sys
from typing import TypedDict

from holdtop import config
from holdtop.errors import HoldtopError, UsageError
from holdtop.hold import places
from holdtop.model.raw import MIB, Limits, Runners, StateCheck
from holdtop.sampler import Setup
from holdtop.sources.roots import Roots


class Question(TypedDict):
    resources: tuple[str, ...] | None
    state_dir: str | None
    limits: Limits
    setup: Setup


def question(args: argparse.Namespace) -> Question:
    """By ``-r``, ``--state-dir`` and the configuration. Raises ``UsageError`` or ``ConfigError``."""
    resources = None
    if args.resource not in (None, "all"):
        resources = tuple(dict.fromkeys(places.check_resource(name) for name in args.resource.split(",")))
    check_state_dir(args.state_dir)
    loaded = config.load()
    limits = Limits(stray_bytes=loaded.stray_min_mib * MIB, stray_allow=frozenset(loaded.stray_allow))
    return {"resources": resources, "state_dir": args.state_dir, "limits": limits, "setup": setup(args.state_dir)}


def check_state_dir(said: str | None) -> None:
    """Raises ``UsageError`` for a ``--state-dir`` that cannot be; what the rule finds is judged by the look itself."""
    if said is not None:
        try:
            places.resolve("gpu", said)
        except HoldtopError as error:
            raise UsageError(str(error)) from error


def setup(state_dir: str | None) -> Setup:
    """How the box around the holds is looked at. Neither is, on a recorded box; nor a state that is meant to be apart.

    What looks is loaded in the thread that does, and the library of the bus on boxes with runners alone.
    """
    recorded = Roots.from_environ().said

    def runners() -> Runners:
        if recorded:
            return Runners(why=f"they are not looked for: {recorded[0]}")
        try:
            from holdtop.host.runner.watched import look

            return look()
        except Exception as error:  # noqa: BLE001  a fault of ours takes no other look with it
            return Runners(why=f"{type(error).__name__}: {error}")

    def state() -> StateCheck:
        if recorded or state_dir is not None:
            return StateCheck()
        try:
            from holdtop.host.check import checked

            return checked(places.DEFAULT_STATE_DIR)
        except Exception as error:  # noqa: BLE001  likewise
            return StateCheck(why=f"{type(error).__name__}: {error}")

    return Setup(runners, state)


def ascii_only() -> bool:
    """Whether stdout takes nothing else."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"  # a closed stdout is None
    return encoding.lower().replace("-", "") != "utf8"
