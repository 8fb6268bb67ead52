"""The hold: one command at a time on one accelerator, and no payload outlives the token it holds.

For programs: ``hold.run([...])`` runs a command under a hold, ``with Hold("gpu"):`` holds for the caller itself.
Both live in a process of their own and change nothing in the caller's (no handlers, no subreaper, no ``waitpid``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdtop.hold.library import Hold, run

__all__ = ["Hold", "run"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: the commands themselves need neither."""
    if name in __all__:
        from holdtop.hold import library

        return getattr(library, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
