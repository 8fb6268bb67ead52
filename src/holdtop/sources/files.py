"""Small kernel files: read once and whole, and every failure told apart in words.

A sysfs read can fail with any of these errors while the file is there (a suspended card, a reset, a feature that
the chip lacks): https://docs.kernel.org/gpu/amdgpu/thermal.html, and sysfs(5).
"""

from __future__ import annotations

import errno
import math
import os
import re

from holdtop.model.values import Reading

#: No kernel file that is read here is larger, in bytes.
LIMIT = 64 * 1024
_INTEGER = re.compile(rb"-?[0-9]{1,19}")
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


def number(path: str, scale: int = 1, low: float = 0, high: float = math.inf) -> Reading:
    """A decimal number divided by ``scale``; outside ``low`` … ``high`` it is a fault, not a value."""
    name = os.path.basename(path)
    try:
        text = read(path).replace(b"\0", b"").strip()
    except OSError as error:
        return Reading(why=why(error, path), source=path)
    if not _INTEGER.fullmatch(text):
        return Reading(why=f"{name} is empty" if not text else f"{name} holds no number", source=path)
    whole = int(text)
    value = whole if scale == 1 else whole / scale
    if not low <= value <= high:
        return Reading(why=f"{name} says {value:g}, which is not plausible", source=path)
    return Reading(value=value, source=path)
