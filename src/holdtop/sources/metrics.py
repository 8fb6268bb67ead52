"""The binary table ``gpu_metrics``: its header, and of revision 3.0 what is shown.

Layout: struct gpu_metrics_v3_0 in the kernel's kgd_pp_interface.h, little endian. A field of ones only is "not
reported". A table of another revision gives no value, never a guess.
"""

from __future__ import annotations

import struct

from holdtop.model.values import Reading

_HEADER = struct.Struct("<HBB")
V3_0 = (3, 0)
V3_0_SIZE = 264
#: ``average_ipu_activity[8]``: percent busy, one for each column of the NPU.
_IPU_ACTIVITY = struct.Struct("<8H")
_IPU_OFFSET = 46
_NOT_REPORTED = 0xFFFF


def check(data: bytes) -> str | None:
    """Why the table cannot be used; ``None`` when it is a whole one of revision 3.0."""
    if len(data) < _HEADER.size:
        return "gpu_metrics is empty" if not data else "gpu_metrics is cut short"
    size, *revision = _HEADER.unpack_from(data)
    if not any(data):
        return "gpu_metrics is a table of zeroes"
    if tuple(revision) != V3_0:
        return f"gpu_metrics revision {revision[0]}.{revision[1]} is not decoded"
    if size != V3_0_SIZE or len(data) < size:
        return f"gpu_metrics has {min(size, len(data))} bytes, not the {V3_0_SIZE} of its revision"
    return None


def npu_busy(data: bytes) -> Reading:
    """The mean over the columns that report, in percent."""
    if (problem := check(data)) is not None:
        return Reading(why=problem)
    columns = [part for part in _IPU_ACTIVITY.unpack_from(data, _IPU_OFFSET) if part != _NOT_REPORTED]
    if not columns:
        return Reading(why="gpu_metrics reports no NPU activity")
    if max(columns) > 100:
        return Reading(why=f"gpu_metrics says {max(columns)} % NPU activity, which is not plausible")
    return Reading(value=sum(columns) / len(columns))
