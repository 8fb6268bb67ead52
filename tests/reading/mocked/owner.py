"""Owns a bed of mocked devices and does to it what its standard input says, a JSON object a line.

Run by the system's own Python, which has the bindings; the programs under test run elsewhere, preloaded with the bed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import gi  # type: ignore[import-not-found]

gi.require_version("UMockdev", "1.0")
from gi.repository import UMockdev  # type: ignore[import-not-found]  # noqa: E402


def uevent(bed: Any, device: str, action: str, properties: dict[str, str]) -> None:
    """The properties are of this event alone: the bed would keep them for the next."""
    kept = Path(bed.get_root_dir(), device.lstrip("/"), "uevent")
    before = kept.read_bytes()
    kept.write_bytes(before + os.fsencode("".join(f"{key}={value}\n" for key, value in properties.items())))
    bed.uevent(device, action)
    kept.write_bytes(before)


def obey(bed: Any, act: str, **said: Any) -> None:
    if act == "uevent":
        uevent(bed, said["device"], said["action"], said["properties"])
    elif act == "set":
        bed.set_attribute(said["device"], said["name"], said["value"])
    elif act == "remove":
        bed.remove_device(said["device"])
    elif act == "add":
        bed.add_from_string(said["text"])
    else:
        raise ValueError(act)


def main() -> None:
    bed = UMockdev.Testbed.new()
    bed.add_from_file(sys.argv[1])
    print(bed.get_root_dir(), flush=True)
    for line in sys.stdin:
        obey(bed, **json.loads(line))
        print("done", flush=True)


main()
