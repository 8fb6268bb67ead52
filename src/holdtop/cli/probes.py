"""What a hold may ask of the box, handed to it by the command line: the hold itself knows no sensor and no bus."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from holdtop.payload.custody import Used
from holdtop.payload.devices import DeviceUse
from holdtop.payload.limits import Sample, Sensor
from holdtop.payload.metering import Gauge, Level, Looked, Owners
from holdtop.payload.process import Identity

if TYPE_CHECKING:
    from holdtop.model.attribution import Held
    from holdtop.model.raw import Uses
    from holdtop.model.values import Device

#: Where a device that anybody could have open shows itself.
_NODES = ("/dev/dri", "/dev/kfd", "/dev/accel")
GIB = float(1 << 30)


# The readers are imported here and not when they read: a sensor's thread may be anywhere when the hold forks.


def memory() -> Sensor:
    """MemAvailable, in GiB."""
    from holdtop.sources import host
    from holdtop.sources.roots import Roots

    roots = Roots.from_environ()

    def read() -> Sample:
        reading = host.memory(roots)["mem_available_bytes"]
        return Sample(None if reading.value is None else reading.value / GIB, reading.why or reading.source or "")

    return Sensor("MemAvailable", "GiB", read)


def tctl() -> Sensor:
    """The processor's control temperature, in degrees Celsius."""
    from holdtop.sources import host
    from holdtop.sources.roots import Roots

    roots = Roots.from_environ()

    def read() -> Sample:
        reading = host.tctl(roots.sys)
        return Sample(reading.value, reading.why or reading.source or "")

    return Sensor("Tctl", "C", read)


def device_use(resources: Collection[str]) -> DeviceUse | None:
    """Who has the device of these resources open; of any resource when none of them names a device.

    ``None`` when it cannot be looked into.
    """
    if not {"HOLDTOP_PROC", "HOLDTOP_PROC_OVERLAY"} & os.environ.keys() and not any(map(os.path.exists, _NODES)):
        return DeviceUse()
    from holdtop.sources import users
    from holdtop.sources.roots import Roots

    roots = Roots.from_environ()
    if not roots.live:
        return None  # a recording knows nothing of this payload
    uses = users.scan(roots)
    wanted = {"gpu", "npu"}.intersection(resources) or {"gpu", "npu"}
    found = (Identity(user.pid, user.start_ticks) for user in uses.users.values() if user.resources & wanted)
    return DeviceUse(frozenset(found), frozenset(uses.denied))


def gauge(resources: Collection[str]) -> Gauge | None:
    """Readers of the GPU's memory; ``None`` when the GPU is not held, or there is none."""
    there = "HOLDTOP_SYS" in os.environ or os.path.exists("/sys/class/drm")
    return _GpuGauge() if "gpu" in resources and there else None


class _GpuGauge:
    """Of the card whose pool counts. All imports are in the calls: they are the meter's thread's, and no start waits
    for them."""

    resource = "gpu"

    @property
    def slack_bytes(self) -> int:
        from holdtop.model.memory import UNOWNED_SLACK

        return UNOWNED_SLACK

    def level(self) -> Level | None:
        card = _card(self._devices())
        if card is None:
            return None
        if card.pool is None:
            return Level(card.pci_address, "gtt", None, "the totals of the card's memory are not known")
        used = card.readings[f"{card.pool}_used_bytes"]
        return Level(card.pci_address, card.pool, _used(card), used.why or used.source or "")

    def look(self, members: Collection[Identity]) -> Looked:
        from holdtop.model.attribution import together

        devices = self._devices()
        held, uses = self._held({one.pid for one in members}, devices)
        each = {
            one: Used(held[one.pid].gtt_bytes, held[one.pid].vram_bytes) if one.pid in held else Used(0, 0)
            for one in members
            if one.pid not in uses.denied
        }
        card = _card(self._devices())  # after that scan: what is used now is at least what it has seen
        if card is None or card.pool is None or len(each) < len(members) or not _say(held, card):
            return Looked(each)
        clients = [client for one in held.values() for client in one.clients if client.of(card.pci_address)]
        size, more = together(clients, card.pool)
        return Looked(each, size if more <= self.slack_bytes else None)

    def owners(self) -> Owners:
        from holdtop.hold.ticket import INITIAL_PIDNS, namespace
        from holdtop.model.attribution import together

        devices = self._devices()
        card = _card(devices)
        if card is None or card.pool is None:
            return Owners(0, "the card is not there any more")
        held, uses = self._held(None, devices)
        clients = [client for one in held.values() for client in one.clients if client.of(card.pci_address)]
        owned, more = together(clients, card.pool)
        reasons = (
            ("processes of other accounts do not show themselves (hidepid)", uses.hidden),
            ("this pid namespace shows its own processes only", namespace("pid") != INITIAL_PIDNS),
            (f"{len(uses.denied)} processes may not be looked into", uses.denied),
            ("a process that uses the device does not say how much", not _say(held, card)),
            ("how much of it processes share is not known", more > self.slack_bytes),
        )
        return Owners(owned, next((why for why, so in reasons if so), ""))

    def _devices(self) -> list[Device]:
        from holdtop.model.values import Device
        from holdtop.sources import cards, gpu
        from holdtop.sources.roots import Roots

        found = cards.find(Roots.from_environ().sys)
        return [Device(one.pci_address, one.kind, "gpu", gpu.memory(one)) for one in found if one.kind != "npu"]

    def _held(self, pids: Collection[int] | None, devices: list[Device]) -> tuple[Mapping[int, Held], Uses]:
        """By pid, of these processes or of all, and the scan itself."""
        from dataclasses import replace

        from holdtop.hold.ticket import INITIAL_PIDNS, namespace
        from holdtop.model.attribution import attribute, placed
        from holdtop.sources import kfd, processes, users
        from holdtop.sources.roots import Roots

        roots = Roots.from_environ()
        uses = placed(users.scan(roots, pids), devices)
        if pids is None and namespace("pid") == INITIAL_PIDNS:  # its numbers are the initial namespace's
            uses = replace(uses, kfd=kfd.ask(roots).used)
        stats = {pid: stat for pid in uses.users if (stat := processes.read_stat(roots.proc, pid))}
        return attribute(uses, stats, devices), uses


def _card(devices: list[Device]) -> Device | None:
    from holdtop.model.memory import pool_card

    return pool_card(devices)


def _used(card: Device) -> int | None:
    """Of its pool, in bytes."""
    value = card.readings[f"{card.pool}_used_bytes"].value
    return None if value is None else int(value)


def _say(held: Mapping[int, Held], card: Device) -> bool:
    """Whether all of them say what they have of its pool."""
    on_it = (one.on(card.pci_address) for one in held.values() if "gpu" in one.resources)
    return card.pool is not None and all(one.says(card.pool) for one in on_it)
