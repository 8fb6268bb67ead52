"""What an installed runner was made with, from what its manager says of the unit: nobody has to name it again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from holdtop.errors import UsageError
from holdtop.host.runner import sizes
from holdtop.host.runner.settings import SYSTEM_PATH, Settings

#: Where a unit of the system's lies by itself.
_USUAL = "/etc/systemd/system"


def plain(name: str, own: tuple[str, str] | None = None) -> Settings:
    """As by default. ``own``: account and home, of a user's manager. Raises ``UsageError`` for a name that is none."""
    return Settings(name=name, user=own[0], home=own[1], system=False) if own else Settings(name=name)


def recall(name: str, said: Mapping[str, Any], own: tuple[str, str] | None = None) -> Settings:
    """What it was made with. Links in the home are not known to the unit.

    Of a unit that was bent into what no runner may be, all is as by default. Raises ``UsageError`` as ``plain`` does.
    """
    default = plain(name, own)
    if said["LoadState"] != "loaded":
        return default
    environment = dict(one.partition("=")[::2] for one in said["Environment"])
    state_dir = environment.pop("ONEBIT_HOLD_DIR", None)
    if state_dir is not None and environment.get("HW_GATE_LOCK") == os.path.join(state_dir, "npu.lock"):
        del environment["HW_GATE_LOCK"]
    path = environment.pop("PATH", "").split(":")
    above, directory = os.path.split(said["WorkingDirectory"])
    unit_dir = os.path.dirname(said["FragmentPath"])
    try:
        most, high = _sizes(said["MemoryHigh"], said["MemoryMax"])
        return Settings(
            name=name,
            user=default.user if own else said["User"],
            home=above if directory == f"runner-{name}" else default.home,
            memory_max=most,
            memory_high=high,
            path_dirs=tuple(one for one in path if one and one not in SYSTEM_PATH),
            environment=tuple(environment.items()),
            state_dir=state_dir,
            system=default.system,
            unit_dir=None if own or unit_dir == _USUAL else unit_dir,
        )
    except UsageError:
        return default


def _sizes(high: int, most: int) -> tuple[sizes.Size, sizes.Size | None]:
    """Those in force, as by default where they come to the same, or where ``directives`` finds fault with them."""
    maximum = sizes.parse(sizes.DEFAULT_MAX) if most == sizes.INFINITY else sizes.of(most)
    usual = sizes.high_for(maximum)
    if not high < most != sizes.INFINITY or (usual and usual.bytes == high):
        return maximum, usual
    return maximum, sizes.of(high)
