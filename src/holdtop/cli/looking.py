"""What the looking verbs share: what is looked at, and what the output can show."""

from __future__ import annotations

import argparse
import queue
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypedDict

from holdtop import config
from holdtop.errors import HoldtopError, UsageError
from holdtop.hold import places
from holdtop.model.raw import MIB, Limits, Runners, StateCheck
from holdtop.model.values import Snapshot
from holdtop.sampler import Sampler, Setup
from holdtop.sources.roots import Roots

if TYPE_CHECKING:
    from holdtop.host.values import Online

#: Seconds without a look after which whoever lives by them ends, for whoever started it to start it anew.
STALL = 60.0


class Question(TypedDict):
    resources: tuple[str, ...] | None
    state_dir: str | None
    limits: Limits
    setup: Setup


def add_options(parser: argparse.ArgumentParser) -> None:
    """Of which state the looks are."""
    parser.add_argument(
        "-r",
        "--resource",
        metavar="NAME",
        help="gpu, npu, any name, or several: gpu,npu (default: all that have state)",
    )
    parser.add_argument("--state-dir", metavar="DIR", help="where queue and token live")


def question(args: argparse.Namespace) -> Question:
    """By ``-r``, ``--state-dir`` and the configuration. Raises ``UsageError`` or ``ConfigError``."""
    resources = _resources(args.resource)
    check_state_dir(args.state_dir)
    loaded = config.load()
    limits = Limits(stray_bytes=loaded.stray_min_mib * MIB, stray_allow=frozenset(loaded.stray_allow))
    around = setup(args.state_dir, loaded.forges)
    return {"resources": resources, "state_dir": args.state_dir, "limits": limits, "setup": around}


def chosen(args: argparse.Namespace) -> list[places.Places]:
    """Where the resources of ``-r`` have their state. Raises ``HoldtopError``."""
    return [
        places.resolve(name, args.state_dir)
        for name in _resources(args.resource) or places.known_resources(args.state_dir)
    ]


def _resources(said: str | None) -> tuple[str, ...] | None:
    """``None``: all. Raises ``UsageError``."""
    if said in (None, "all"):
        return None
    return tuple(dict.fromkeys(places.check_resource(name) for name in said.split(",")))


def looks(question: Question, refresh: float, what: str) -> Iterator[Snapshot]:
    """Each look at the box, until TERM or INT: from now on both only end this. ``refresh`` in seconds.

    Raises ``HoldtopError`` when the looks have stopped: ``what`` is to be started anew.
    """
    seen: queue.SimpleQueue[Snapshot | None] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: seen.put(None))
    sampler = Sampler(**question, refresh=refresh, on_snapshot=seen.put)
    sampler.start()

    def each() -> Iterator[Snapshot]:
        try:
            while snapshot := seen.get(timeout=STALL):
                yield snapshot
        except queue.Empty:
            raise HoldtopError(f"no look at the box has ended for {STALL:.0f} s: start the {what} anew") from None
        finally:
            sampler.stop()

    return each()


def check_state_dir(said: str | None) -> None:
    """Raises ``UsageError`` for a ``--state-dir`` that cannot be; what the rule finds is judged by the look itself."""
    if said is not None:
        try:
            places.resolve("gpu", said)
        except HoldtopError as error:
            raise UsageError(str(error)) from error


def setup(state_dir: str | None, forges: Mapping[str, config.Forge]) -> Setup:
    """How the box around the holds is looked at. Neither is, on a recorded box; nor a state that is meant to be apart.

    What looks is loaded in the thread that does, and the library of the bus on boxes with runners alone.
    """
    recorded, online = Roots.from_environ().said, _online(forges)

    def runners() -> Runners:
        if recorded:
            return Runners(why=f"they are not looked for: {recorded[0]}")
        try:
            from holdtop.host.runner.watched import look

            return look(online)
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


def _online(configured: Mapping[str, config.Forge]) -> Callable[[list[str]], Mapping[str, Online]] | None:
    """What forges say of runners; ``None`` where none is configured, and what speaks TLS is not loaded."""
    if not configured:
        return None
    from holdtop.host.runner.forge import Forges  # TLS, for boxes with a token alone

    return Forges(configured).newest


def ascii_only() -> bool:
    """Whether stdout takes nothing else."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"  # a closed stdout is None
    return encoding.lower().replace("-", "") != "utf8"
