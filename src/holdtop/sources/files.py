"""Small kernel files: read once and whole, and every failure told apart in words.

A sysfs read can fail with any of these errors while the file is there (a suspended card, a reset, a feature that
the chip lacks): https://docs.kernel.org/gpu/amdgpu/thermal.html, and sysfs(5).
"""

from __future__ import annotations

import errno
import os
import re

from holdtop.model.values import Reading

#: No kernel file that is read here is larger, in bytes.
LIMIT = 64 * 1024
#: The least and the most that can be true; what lies outside is a sensor's fault.
Range = tuple[float, float]
PERCENT: Range = (0, 100)
#: Of a processor that runs: unconnected inputs say -128, 0 and 65273 degrees.
CELSIUS: Range = (1, 125)
#: More than any card or package draws.
WATTS: Range = (0, 2000)
MHZ: Range = (0, 10_000)
BYTES: Range = (0, 1 << 50)
#: The driver ends each value with a newline: without it the file is half written. A recording may be padded with NUL.
_INTEGER = re.compile(rb"(-?[0-9]{1,19})\n\0*")
_WHY = {
    errno.ENOENT: "is not there",
    errno.ENOTDIR: "is not there",
    errno.EACCES: "may not be read by this account",
    errno.EPERM: "is refused by the driver (a suspended card, or a reset)",
    errno.EBUSY: "is busy (a suspended card, or a reset)",
    errno.EOPNOTSUPP: "is not supported by this device",
    errno.EINVAL: "is not supported by this device",
    errno.ENODEV: "belongs to a device that is gone",
    errno.ENXIO: "belongs to a device that is gone",
    errno.EIO: "could not be read from the device",
    errno.ESRCH: "belongs to a process that is gone",
}


def read(path: str) -> bytes:
    """The file's content in one read. Raises ``OSError``."""
    with open(path, "rb", buffering=0) as file:
        return file.read(LIMIT) or b""


def read_long(path: str) -> bytes:
    """The whole of a file of ``/proc`` that gives about a page at each read (mountinfo). Raises ``OSError``."""
    with open(path, "rb", buffering=0) as file:
        return b"".join(iter(lambda: file.read(LIMIT), b""))


def read_text(path: str) -> str:
    """One line of text, without NUL bytes and blanks at its ends; empty when it cannot be read."""
    try:
        return os.fsdecode(read(path).replace(b"\0", b"").strip())
    except OSError:
        return ""


def listing(path: str) -> list[str]:
    """The names in a directory, sorted; none when it cannot be listed."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def why(error: OSError, path: str) -> str:
    """One clause: which file, and why it gives nothing."""
    reason = _WHY.get(error.errno or 0) or f"gives an error: {error.strerror or error}"
    return f"{os.path.basename(path)} {reason}"


def number(path: str, plausible: Range, scale: int = 1) -> Reading:
    """A decimal number divided by ``scale``; one that is not plausible is a fault, not a value."""
    name = os.path.basename(path)
    try:
        data = read(path)
    except OSError as error:
        return Reading(why=why(error, path), source=path)
    form = _INTEGER.fullmatch(data)
    if form is None:
        empty, half = not data.strip(b"\0\n "), _INTEGER.fullmatch(data + b"\n")
        problem = "is empty" if empty else "is cut short: its line has no end" if half else "holds no number"
        return Reading(why=f"{name} {problem}", source=path)
    whole = int(form[1])
    value = whole if scale == 1 else whole / scale
    if not plausible[0] <= value <= plausible[1]:
        return Reading(why=f"{name} says {value:g}, which is not plausible", source=path)
    return Reading(value=value, source=path)
