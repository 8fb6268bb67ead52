"""All sources of one box, and their newest answers as one ``Raw``."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from holdtop.hold.ticket import INITIAL_PIDNS, namespace
from holdtop.model.build import wanted
from holdtop.model.raw import NO_CARD, Details, Limits, Look, Raw, Reset, Runners, StateCheck, Table, Uses
from holdtop.model.values import Reading, Readings
from holdtop.payload.containment import possible
from holdtop.sampler import devices
from holdtop.sampler.looks import look_all
from holdtop.sampler.source import HANGS, Source
from holdtop.sources import cards, gpu, host, kfd, processes, users
from holdtop.sources.cards import Card
from holdtop.sources.files import read_text
from holdtop.sources.kfd import Kfd
from holdtop.sources.roots import Roots
from holdtop.systemd import UserScopes


@dataclass(frozen=True, slots=True)
class Setup:
    """How the box around the holds is looked at: handed in, since what knows of units and accounts lies above.

    Each may block, and raises nothing.
    """

    runners: Callable[[], Runners]
    state: Callable[[], StateCheck]


#: What is asked of a box, and makes two boxes the same.
Question = tuple[tuple[str, ...] | None, str | None, Roots, Limits, bool, Setup | None]
#: How often cards are looked for again, in seconds.
CARDS_PERIOD = 5.0
#: How often what hardly changes is read, in seconds.
STANDING_PERIOD = 60.0
#: Seconds for which the search for cards waits for KFD's word.
KFD_PATIENCE = 0.3
#: How often the service manager is asked about runners, and how often accounts and their programs are looked through.
RUNNERS_PERIOD, SETUP_PERIOD = 10.0, 60.0
#: Seconds for which an old answer of the queues' state still counts as the state.
STATE_PATIENCE = 5.0
_UNCHECKED = StateCheck(why="not read yet")
_TICKS = os.sysconf("SC_CLK_TCK")


class Box:
    """Owns the sources. Only ``wait`` waits, to its end at most."""

    def __init__(self, question: Question, device_period: float = 0.0) -> None:
        resources, state_dir, self._roots, self._limits, sensors, setup = question
        roots = self._roots
        self._wanted: frozenset[tuple[int, int]] = frozenset()
        self._looks: Source[tuple[Look, ...]] = Source(
            "state", lambda: look_all(resources, state_dir, before=_newest(self._looks, ()))
        )
        self._standing: Source[_Standing] = Source("box", lambda: _standing(roots), STANDING_PERIOD)
        self._table: Source[Table] = Source("processes", lambda: processes.scan(roots.proc))
        self._details: Source[tuple[Mapping[tuple[int, int], Details], Mapping[int, str]]]
        self._details = Source("details", self._read_details)
        self._kfd: Source[Kfd] | None = None
        self._cards: Source[list[Card]] | None = None
        self._uses: Source[Uses] | None = None
        self._runners: Source[Runners] | None = None
        self._setup: Source[StateCheck] | None = None
        #: What was heard of cards that hung, by PCI address; whoever listens keeps it.
        self.resets: dict[str, Reset] = {}
        #: By card (``None`` for the box itself) and the names of the readings that the source promises.
        self._readers: dict[tuple[Card | None, tuple[str, ...]], Source[Readings]] = {}
        if setup:
            self._runners = Source("runners", setup.runners, RUNNERS_PERIOD)
            self._setup = Source("set-up", setup.state, SETUP_PERIOD)
        if sensors:
            self._kfd = asked = Source("KFD", lambda: kfd.ask(roots), device_period)
            self._cards = Source("cards", lambda: _find_cards(roots, asked), CARDS_PERIOD)
            self._uses = Source("device users", lambda: users.scan(roots), device_period)
            self._reader(None, ("tctl_celsius",), lambda: {"tctl_celsius": host.tctl(roots.sys)})
            self._reader(None, tuple(host.MEMORY_KEYS), lambda: host.memory(roots))
            self._reader(None, (host.PRESSURE_NAME,), lambda: host.pressure(roots))
            self._reader(None, tuple(host.TTM_FILES), lambda: host.ttm(roots.sys))

    def _reader(self, card: Card | None, names: tuple[str, ...], read: Callable[[], Readings]) -> None:
        self._readers[card, names] = Source(names[0], read)

    def ask(self) -> None:
        """Start all reads that are due."""
        self._follow_cards()
        for source in self._sources():
            source.ask()

    def wait(self, until: float) -> None:
        """Until all that was asked for is answered, details included, or the monotonic instant ``until``."""
        if self._cards is not None:
            self._cards.wait(until - 0.5 * max(0.0, until - time.monotonic()))
            self._follow_cards()
        for source in self._sources():
            source.wait(until - 0.2 * max(0.0, until - time.monotonic()))
        self._wanted = wanted(self.raw())
        self._details.ask()
        self._details.wait(until)

    @property
    def hangs(self) -> bool:
        """A read was asked for and has not returned."""
        return any(source.silent_for is not None for source in (*self._sources(), self._details))

    def rescan(self) -> None:
        """A device came or went: look for cards at the next ``ask``, whenever that was due."""
        if self._cards is not None:
            self._cards.hurry()

    def close(self) -> None:
        """Let every thread end that is not in a read; joins none."""
        for source in (*self._sources(), self._details):
            source.close()

    def _sources(self) -> Iterator[Source[Any]]:
        yield from (self._looks, self._table, self._standing)
        some = (self._kfd, self._cards, self._uses, self._runners, self._setup)
        yield from (source for source in some if source is not None)
        yield from list(self._readers.values())

    def _follow_cards(self) -> None:
        """Sources for cards that appeared (or got another path), none for those that went.

        A source that hangs stays until its read returns: should its card come back, no second read joins it there.
        """
        if self._cards is None or self._cards.newest is None:
            return
        found = self._cards.newest[0]
        for (card, names), source in list(self._readers.items()):
            if card not in (None, *found) and source.silent_for is None:
                self._readers.pop((card, names)).close()
        for card in found:
            for names, read in gpu.sources(card):
                if (card, names) not in self._readers:
                    self._reader(card, names, read)
                    self._readers[card, names].ask()

    def _read_details(self) -> tuple[Mapping[tuple[int, int], Details], Mapping[int, str]]:
        """In the thread of its own: a command line or an account's name can block, too."""
        found = processes.details(self._roots.proc, self._wanted)
        views = [look.view for look in _newest(self._looks, ()) if look.view]
        owners = {ticket.uid for view in views for ticket in view.tickets}
        owners |= {view.token.uid for view in views if view.token}
        return found, {uid: processes.user_name(uid) or str(uid) for uid in owners}

    def raw(self) -> Raw:
        """The newest answers. What has not answered says for how long it has been asked."""
        details, names = _newest(self._details, ({}, {}))
        found = _newest(self._cards, []) if self._cards else []
        standing = _newest(self._standing, _Standing())
        return Raw(
            host=socket.gethostname(),
            boot_id=standing.boot_id,
            taken_at=datetime.now().astimezone().isoformat(timespec="seconds"),
            at=time.monotonic(),
            since_boot=time.clock_gettime(time.CLOCK_BOOTTIME) if self._roots.live else standing.uptime,
            ticks_per_second=_TICKS,
            uid=os.geteuid(),
            initial_pidns=_initial_pidns() if self._roots.live else None,
            looks=_newest(self._looks, ()) or (Look("gpu", problem=_unanswered(self._looks)),),
            looks_why=_state_silent(self._looks),
            devices=tuple(devices.devices({card: self._readings_of(card) for card in found})),
            resets=tuple(devices.resets(dict(self.resets), found, time.monotonic())),
            host_readings=self._readings_of(None),
            table=_newest(self._table, None),
            uses=self._newest_uses(),
            uses_why=self._uses_why(),
            table_why=None if self._table.newest else _unanswered(self._table),
            no_card=_no_card(self._cards),
            details=details,
            users=names,
            containment=standing.containment,
            roots=self._roots.said,
            limits=self._limits,
            runners=_runners(self._runners),
            state=_newest(self._setup, _UNCHECKED) if self._setup else StateCheck(),
        )

    def _newest_uses(self) -> Uses | None:
        uses = _newest(self._uses, None) if self._uses else None
        return replace(uses, kfd=_newest(self._kfd, Kfd()).used) if uses and self._kfd else uses

    def _uses_why(self) -> str | None:
        if self._uses is None:
            return "descriptors were not looked at"
        return _unanswered(self._uses) if self._uses.newest is None or (self._uses.silent_for or 0) > HANGS else None

    def _readings_of(self, card: Card | None) -> Readings:
        return devices.first_known(
            _answer(source, names) for (of, names), source in self._readers.items() if of == card
        )


def _find_cards(roots: Roots, asked: Source[Kfd]) -> list[Card]:
    """KFD knows best what a card is; one that hangs is waited for no longer than a moment."""
    asked.wait(time.monotonic() + KFD_PATIENCE)
    return cards.find(roots.sys, _newest(asked, Kfd()).nodes)


def _answer(source: Source[Readings], names: tuple[str, ...]) -> Readings:
    answer, at = source.newest or (dict.fromkeys(names, _pending(source)), None)
    return {name: replace(reading, at=at) for name, reading in answer.items()}


@dataclass(frozen=True, slots=True)
class _Standing:
    """What hardly changes while one looks."""

    boot_id: str | None = None
    #: Seconds, of a recording; 0 where it does not say.
    uptime: float = 0.0
    containment: tuple[str, ...] = ()


def _standing(roots: Roots) -> _Standing:
    uptime = 0.0
    with contextlib.suppress(ValueError, IndexError):
        uptime = float(read_text(f"{roots.proc}/uptime").split()[0])
    return _Standing(read_text(f"{roots.proc}/sys/kernel/random/boot_id") or None, uptime, possible(UserScopes()))


def _state_silent(looks: Source[Any]) -> str | None:
    silent = looks.silent_for
    if looks.newest is None or silent is None or silent < STATE_PATIENCE:
        return None
    return f"the state has not answered for {silent:.0f} s"


def _newest(source: Source[Any], otherwise: Any) -> Any:
    return source.newest[0] if source.newest else otherwise


def _unanswered(source: Source[Any]) -> str:
    silent = source.silent_for
    return "not read yet" if silent is None else f"timeout: the read has not returned for {silent:.1f} s"


def _initial_pidns() -> bool | None:
    inode = namespace("pid")
    return None if inode is None else inode == INITIAL_PIDNS


def _runners(source: Source[Runners] | None) -> Runners:
    """Units that were seen once are shown on while their manager is silent, as what they were."""
    if source is None or source.newest is None:
        return Runners(why=_unanswered(source)) if source else Runners()
    silent, last = source.silent_for, source.newest[0]
    return last if silent is None or silent < STATE_PATIENCE else replace(last, why=_unanswered(source))


def _no_card(found: Source[list[Card]] | None) -> Reading:
    if found is None:
        return Reading(why="no sensor was asked")
    return NO_CARD if found.newest else _pending(found)


def _pending(source: Source[Any]) -> Reading:
    return Reading(why=_unanswered(source), cause="pending")
