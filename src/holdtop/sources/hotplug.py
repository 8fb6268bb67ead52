"""Wake-ups when a card or an NPU comes or goes, from udev. Without udev (a container, no netlink) nothing is lost:
cards are looked for every few seconds anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

SUBSYSTEMS = ("drm", "accel", "hwmon")
#: A monitor's change of picture (``HOTPLUG=1``) comes as ``change``: only these are devices coming and going.
ACTIONS = frozenset({"add", "remove", "bind", "unbind"})
#: Seconds after which the watching thread notices that it is not wanted any more.
NOTICE = 1.0


def watch(wake: Callable[[], None]) -> threading.Event | None:
    """Call ``wake``, in a thread of its own, at each event, until the returned event is set.

    ``None`` where there is no udev to listen to.
    """
    try:
        import pyudev  # type: ignore[import-untyped]  # needs libudev.so.1, which a small container does not have

        monitor = pyudev.Monitor.from_netlink(pyudev.Context())
        for subsystem in SUBSYSTEMS:
            monitor.filter_by(subsystem)
        monitor.start()
    except (ImportError, OSError):
        return None
    stopped = threading.Event()

    def work() -> None:
        while not stopped.is_set():
            device = monitor.poll(timeout=NOTICE)
            if device is not None and device.action in ACTIONS:
                wake()

    threading.Thread(target=work, name="holdtop hotplug", daemon=True).start()
    return stopped
