"""Sensor chips by their name. Their numbers change from boot to boot, and when a driver is bound again, so a chip is
looked for at every read (https://docs.kernel.org/hwmon/sysfs-interface.html).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator

from holdtop.model.values import Reading
from holdtop.sources.files import Range, listing, number, read_text

_LABEL = re.compile(r"([a-z]+[0-9]+)_label")


def channel(chips: str, names: Collection[str], files: Collection[str], plausible: Range, scale: int) -> Reading:
    """The first of the files that gives a value, in a chip of that name.

    ``chips`` is the directory of ``hwmonN``, or one of these itself.
    """
    found = Reading(why=f"no sensor chip {' or '.join(names)}", source=chips, cause="no-chip")
    for chip in _named(chips, names):
        for file in files:
            found = number(os.path.join(chip, file), plausible, scale)
            if found.value is not None:
                return found
    return found


def labelled(chips: str, names: Collection[str], label: str, plausible: Range, scale: int) -> Reading:
    """The input of the channel with that label: which number it has differs between drivers."""
    found = Reading(why=f"no {' or '.join(names)} sensor with a channel {label}", source=chips)
    for chip in _named(chips, names):
        for file in listing(chip):
            form = _LABEL.fullmatch(file)
            if form and read_text(os.path.join(chip, file)) == label:
                found = number(os.path.join(chip, f"{form[1]}_input"), plausible, scale)
                if found.value is not None:
                    return found
    return found


def _named(chips: str, names: Collection[str]) -> Iterator[str]:
    for chip in (chips, *(os.path.join(chips, number_of_the_day) for number_of_the_day in listing(chips))):
        if read_text(os.path.join(chip, "name")) in names:
            yield chip
