"""Snapshots: one (``look_once``), or one every tick (``Sampler``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

from holdtop import config
from holdtop.errors import ConfigError
from holdtop.model.build import build
from holdtop.model.raw import MIB, Limits
from holdtop.model.values import Snapshot
from holdtop.sampler.box import Box, Question, Setup
from holdtop.sources import hotplug
from holdtop.sources.roots import Roots

#: Of a tick, in seconds: how long the sources are waited for before what there is, is shown.
TICK_PATIENCE = 0.8


def configured_limits() -> Limits:
    """The configuration's limits; the defaults' where it cannot be read (whoever loads it for the user says so)."""
    try:
        loaded = config.load()
    except ConfigError:
        loaded = config.Config()
    return Limits(stray_bytes=loaded.stray_min_mib * MIB, stray_allow=frozenset(loaded.stray_allow))


def _question(
    resources: Collection[str] | None,
    state_dir: str | None,
    roots: Roots | None,
    limits: Limits | None,
    sensors: bool,
    setup: Setup | None,
) -> Question:
    return (
        None if resources is None else tuple(resources),
        state_dir,
        roots or Roots.from_environ(),
        limits or configured_limits(),
        sensors,
        setup,
    )


class Sampler:
    """Looks every ``refresh`` seconds, at device users every ``device_refresh``; hands over each snapshot.

    ``on_snapshot`` is called in the sampler's own thread. Places are resolved again at each tick.
    """

    def __init__(
        self,
        *,
        resources: Collection[str] | None = None,
        state_dir: str | None = None,
        refresh: float = 1.0,
        device_refresh: float = 5.0,
        roots: Roots | None = None,
        on_snapshot: Callable[[Snapshot], None] | None = None,
        sensors: bool = True,
        limits: Limits | None = None,
        setup: Setup | None = None,
    ) -> None:
        self._question = _question(resources, state_dir, roots, limits, sensors, setup)
        self._refresh, self._device_refresh = refresh, device_refresh
        self._on_snapshot = on_snapshot
        self._stopped = threading.Event()
        self._newest: Snapshot | None = None

    @property
    def newest(self) -> Snapshot | None:
        """The last snapshot; ``None`` before the first."""
        return self._newest

    def start(self) -> None:
        threading.Thread(target=self._work, name="holdtop sampler", daemon=True).start()

    def stop(self) -> None:
        """Returns at once; no snapshot is begun after it."""
        self._stopped.set()

    def _work(self) -> None:
        box = Box(self._question, self._device_refresh)
        events = hotplug.watch(box.rescan, box.resets) if self._question[2].live and self._question[4] else None
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                box.ask()
                box.wait(began + TICK_PATIENCE * min(1.0, self._refresh))
                snapshot = build(box.raw(), self._newest)
                if self._stopped.is_set():
                    return
                self._newest = snapshot
                if self._on_snapshot is not None:
                    self._on_snapshot(snapshot)
                self._stopped.wait(max(0.0, began + self._refresh - time.monotonic()))
        finally:
            box.close()
            if events is not None:
                events.set()


#: Boxes of earlier single looks in which a read still hangs: asked again, so that no second thread joins it there.
_hanging: dict[Question, Box] = {}
_single = threading.Lock()


def look_once(
    *,
    resources: Collection[str] | None = None,
    state_dir: str | None = None,
    sensors: bool = True,
    deadline: float = 2.0,
    roots: Roots | None = None,
    limits: Limits | None = None,
    setup: Setup | None = None,
) -> Snapshot:
    """One snapshot within ``deadline`` seconds, whatever hangs.

    Without ``sensors`` none is read, and no descriptor of a process: the queue, and the processes below its tickets.
    """
    until = time.monotonic() + deadline
    question = _question(resources, state_dir, roots, limits, sensors, setup)
    with _single:
        box = _hanging.pop(question, None) or Box(question)
        box.ask()
        box.wait(until)
        raw = box.raw()
        if box.hangs:
            _hanging[question] = box
        else:
            box.close()
    return build(raw, None)
