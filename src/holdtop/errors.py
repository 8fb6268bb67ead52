"""Every way in which holdtop says no, as a tree.

::

    HoldtopError                  one line for the user, and the exit status that goes with it
    ├── UsageError          (2)   the command line or a variable is wrong
    ├── ConfigError         (2)   a configuration file is wrong; names the file and the key
    ├── RefusedError        (6)   an act is refused, with the reason
    ├── GoneError           (7)   what was to be acted on is already gone
    ├── RecordingError      (1)   a recording cannot be read, or is damaged; says up to where it is good
    ├── UnseenError         (8)   what was asked for cannot be seen or shown here; says why
    └── HoldError         (125)   the hold itself failed
        ├── PlaceError            the state cannot be resolved, reached or trusted; names the path
        │   └── StateDenied       … because this account may not; never to be called "busy"
        ├── StateWriteError       the state cannot be written (full, read-only)
        ├── LockTimeout           another process holds the queue's lock for too long; names it
        ├── SurvivorLives         what an earlier hold could not end still lives; names it
        └── ScopeRefused          the user's service manager made no scope; says why

An error's text is complete: it names the thing, and what to do about it. No caller adds to it,
but for the hold itself, which alone knows that the command was not run.
"""

from __future__ import annotations

#: What every failure before the start ends with; of others (a release, an act) it would not be true.
NOT_RUN = "the command was not run"


class HoldtopError(Exception):
    """Something that ends the command with one line on stderr and ``status``."""

    status = 1


class UsageError(HoldtopError):
    """The command line or an environment variable is wrong."""

    status = 2


class ConfigError(HoldtopError):
    """A configuration file is wrong. The text names the file and the key."""

    status = 2


class RefusedError(HoldtopError):
    """An operator's act is refused; nothing was signalled or removed."""

    status = 6


class GoneError(HoldtopError):
    """The target of an act is already gone; nothing was done."""

    status = 7


class RecordingError(HoldtopError):
    """A recording cannot be opened or kept, or is damaged: the text says where, and up to when it is good."""


class UnseenError(HoldtopError):
    """What was asked for cannot be seen or shown on this box. That says nothing about it."""

    status = 8


class HoldError(HoldtopError):
    """The hold cannot be taken or kept."""

    status = 125


class PlaceError(HoldError):
    """Where the state lives cannot be resolved, reached or trusted."""


class StateDenied(PlaceError):
    """This account may not do that there: a permission, not contention."""


class StateWriteError(HoldError):
    """The state cannot be written (disk full, read-only)."""


class LockTimeout(HoldError):
    """Another process has kept the queue's lock for longer than the bound."""


class SurvivorLives(HoldError):
    """A process of an earlier hold outlived its token, and the taker was asked to refuse then."""


class ScopeRefused(HoldError):
    """The user's service manager cannot or will not make a scope."""
