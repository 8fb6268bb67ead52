"""What a hold may ask of the box, handed to it by the command line: the hold itself knows no sensor and no bus."""

from __future__ import annotations

import os
from collections.abc import Collection

from holdtop.payload.devices import DeviceUse
from holdtop.payload.process import Identity

#: Where a device that anybody could have open shows itself.
_NODES = ("/dev/dri", "/dev/kfd", "/dev/accel")


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
