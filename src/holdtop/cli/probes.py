"""What a hold may ask of the box, handed to it by the command line: the hold itself knows no sensor and no bus."""

from __future__ import annotations

import os
from collections.abc import Collection

from holdtop.payload.devices import DeviceUse
from holdtop.payload.limits import Sample, Sensor
from holdtop.payload.process import Identity

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
