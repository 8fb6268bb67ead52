"""What the looking verbs share: what is looked at, and what the output can show."""

from __future__ import annotations

import argparse
import sys
from typing import TypedDict

from holdtop import config
from holdtop.errors import HoldtopError, UsageError
from holdtop.hold import places
from holdtop.model.raw import MIB, Limits


class Question(TypedDict):
    resources: tuple[str, ...] | None
    state_dir: str | None
    limits: Limits


def question(args: argparse.Namespace) -> Question:
    """By ``-r``, ``--state-dir`` and the configuration. Raises ``UsageError`` or ``ConfigError``."""
    resources = None
    if args.resource not in (None, "all"):
        resources = tuple(dict.fromkeys(places.check_resource(name) for name in args.resource.split(",")))
    check_state_dir(args.state_dir)
    loaded = config.load()
    limits = Limits(stray_bytes=loaded.stray_min_mib * MIB, stray_allow=frozenset(loaded.stray_allow))
    return {"resources": resources, "state_dir": args.state_dir, "limits": limits}


def check_state_dir(said: str | None) -> None:
    """Raises ``UsageError`` for a ``--state-dir`` that cannot be; what the rule finds is judged by the look itself."""
    if said is not None:
        try:
            places.resolve("gpu", said)
        except HoldtopError as error:
            raise UsageError(str(error)) from error


def ascii_only() -> bool:
    """Whether stdout takes nothing else."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"  # a closed stdout is None
    return encoding.lower().replace("-", "") != "utf8"
