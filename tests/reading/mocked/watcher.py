"""Watches the box as the console does, and prints a JSON line for each change of what it sees.

The words of its command line: how often cards are looked for by themselves, in seconds; then which events there are
(``udev``, ``kernel``, ``none``).
"""

from __future__ import annotations

import json
import sys

NODES: list[str] = []
sys.addaudithook(
    lambda event, args: (
        NODES.append(str(args[0])) if event == "open" and str(args[0]).startswith(("/dev/dri", "/dev/accel")) else None
    )
)

import holdtop.sampler.box  # noqa: E402
from holdtop.model.values import Snapshot  # noqa: E402
from holdtop.sampler import Sampler  # noqa: E402
from holdtop.sources import hotplug  # noqa: E402

last = ""


def show(snapshot: Snapshot) -> None:
    global last
    seen = {
        "devices": {
            device.pci_address: {name: reading.value for name, reading in device.readings.items()}
            for device in snapshot.devices
        },
        "tctl": snapshot.readings["tctl_celsius"].value,
        "flags": [flag.text for flag in snapshot.flags if flag.kind == "gpu-reset"],
        "nodes": NODES,
    }
    if (said := json.dumps(seen)) != last:
        last = said
        print(said, flush=True)


def main() -> None:
    period, events = sys.argv[1:]
    holdtop.sampler.box.CARDS_PERIOD = float(period)
    hotplug.UDEV = "/" if events == "udev" else "/nowhere"
    if events == "none":
        sys.modules["pyudev"] = None  # type: ignore[assignment]
    sampler = Sampler(refresh=0.1, on_snapshot=show)
    sampler.start()
    sys.stdin.read()


main()
