"""What udev tells: devices that come and go, and cards that hung.

Nothing is lost without it (a container, no netlink): cards are looked for every few seconds anyway, and the dump of
a hang is seen in the card's directory.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

from holdtop.model.raw import Reset

SUBSYSTEMS = ("drm", "accel", "hwmon", "devcoredump")
#: A monitor's change of picture (``HOTPLUG=1``) comes as ``change``: only these are devices coming and going.
ACTIONS = frozenset({"add", "remove", "bind", "unbind"})
#: There is a udev whose rules have been applied when its event comes; else the kernel's own are listened to.
UDEV = "/run/udev/control"
#: Seconds after which the watching thread notices that it is not wanted any more.
NOTICE = 1.0


def watch(wake: Callable[[], None], resets: MutableMapping[str, Reset]) -> threading.Event | None:
    """Call ``wake``, in a thread of its own, at each event, until the returned event is set.

    ``resets`` is kept: by PCI address the last that was heard of a device that hung, until its driver is bound anew.
    ``None`` where there is nothing to listen to.
    """
    try:
        import pyudev  # type: ignore[import-untyped]  # needs libudev.so.1, which a small container does not have

        source = "udev" if os.path.exists(UDEV) else "kernel"
        monitor = pyudev.Monitor.from_netlink(pyudev.Context(), source=source)
        for subsystem in SUBSYSTEMS:
            monitor.filter_by(subsystem)
        monitor.start()
    except (ImportError, OSError):
        return None
    stopped = threading.Event()
    listen = partial(_listen, monitor, stopped, wake, resets)
    threading.Thread(target=listen, name="holdtop hotplug", daemon=True).start()
    return stopped


def _listen(
    monitor: Any, stopped: threading.Event, wake: Callable[[], None], resets: MutableMapping[str, Reset]
) -> None:
    while not stopped.is_set():
        try:
            device = monitor.poll(timeout=NOTICE)
        except OSError:  # more came than the kernel keeps for us (ENOBUFS): some events are lost, so look
            wake()
            stopped.wait(NOTICE)
            continue
        if device is not None and _heard(device, resets):
            wake()


def _heard(device: Any, resets: MutableMapping[str, Reset]) -> bool:
    """Whether the event concerns us; a reset is noted."""
    if wedged := _said(device, "WEDGED"):
        address, pid = _address(device, "device"), _said(device, "PID") or ""
        blamed = int(pid) if re.fullmatch("[0-9]{1,9}", pid) else None
        resets[address] = Reset(address, wedged, time.monotonic(), blamed, _said(device, "TASK"))
        return True
    if device.subsystem == "devcoredump":
        address = _address(device, "failing_device")
        before = resets.get(address)
        if device.action == "add" and (before is None or before.passed):  # one that stands says more than its dump
            resets[address] = Reset(address, "devcoredump", time.monotonic())  # what came of it is told later
        return True
    if device.subsystem == "drm" and device.action in ("add", "bind"):
        resets.pop(_address(device, "device"), None)
    return device.action in ACTIONS


def _said(device: Any, key: str) -> str | None:
    """A property. What is no UTF-8 is kept as it is: a process names itself, and pyudev decodes strictly."""
    try:
        value: str | None = device.properties.get(key)
    except UnicodeDecodeError as error:
        return os.fsdecode(error.object)
    return value


def _address(device: Any, link: str) -> str:
    return os.path.basename(os.path.realpath(os.path.join(device.sys_path, link)))
