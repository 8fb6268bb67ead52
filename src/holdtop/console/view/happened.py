"""An event of a hold in words. Whatever a field holds, it is foreign: an odd one is shown as it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from holdtop.render import counted, duration_text, short_bytes

Said = Mapping[str, object]

#: Fields that stand in columns of their own, or say nothing to a reader of the screen.
_SILENT = frozenset({"at", "boot", "event", "ticket", "by_pid", "resource", "lane", "where"})
_LEFT = {
    "evicted": "evicted from the queue",
    "timeout": "did not get its turn in time",
}
#: In force for every hold; the ticket's own page shows them.
_ALWAYS = frozenset({"grace", "survive-wait"})
_SHELLS = re.compile(r"pid=(\d+) start=.{24} cmd=")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")


def in_words(event: str, said: Said) -> str:
    """What happened, without the columns of the row; ``key=value`` for an event that is not known here."""
    words = _WORDS.get(event)
    try:
        return words(said) if words else _as_it_stands(said)
    except (TypeError, ValueError, LookupError, ArithmeticError):  # a field is not of the kind that a hold writes
        return _as_it_stands(said)


def limits_text(limits: Mapping[str, object]) -> str:
    """``max-hold 45m00s, tctl-abort 95C``."""
    return ", ".join(f"{name} {_limit(value)}" for name, value in limits.items())


def _limit(value: object) -> str:
    found = _SECONDS.fullmatch(str(value))
    return duration_text(float(found[1])) if found and float(found[1]) >= 60 else str(value)


def _as_it_stands(said: Said) -> str:
    shown = {key: value for key, value in said.items() if key not in _SILENT and value not in ("", None)}
    return "  ".join(f"{key}={_text(value)}" for key, value in shown.items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _taken(said: Said) -> str:
    limits = said.get("limits") or {}
    if not isinstance(limits, Mapping):
        raise TypeError
    return limits_text({name: value for name, value in limits.items() if name not in _ALWAYS}) or "without limits"


def _started(said: Said) -> str:
    return f"its payload, pid {_text(said['root_pid'])}" if "root_pid" in said else ""


def _narrated(said: Said) -> str:
    """A process in the older shell tool's form is said by its pid: since when it runs, its row shows."""
    return _SHELLS.sub(r"pid \1: ", _text(said.get("text") or "").removeprefix("::warning::"))


def _ending(said: Said) -> str:
    return _text(said.get("text") or said.get("reason") or "")


def _ended(said: Said) -> str:
    """``max-hold, status 124, 3 processes ended (1 by KILL)``; who ended by itself needs no word."""
    fates = said.get("ended") or []
    if not isinstance(fates, list):
        raise TypeError
    by = [fate["ended_by"] for fate in fates]
    killed = by.count("KILL")
    number = f"{counted(len(by), 'process', 'processes')} ended{f' ({killed} by KILL)' if killed else ''}"
    return _list(_reason(said), _status(said), number if by else "")


def _released(said: Said) -> str:
    verdict = _text(said.get("verdict") or "")
    dirty = "dirty: a process was left" if verdict == "dirty" else verdict
    return _list(dirty or _reason(said), _status(said))


def _settled(said: Said) -> str:
    memory = said["memory"]
    if said["verdict"] == "clean" or not isinstance(memory, Mapping):
        return "the device's memory came back"
    more = short_bytes(memory["after_bytes"] - memory["before_bytes"])
    return f"{more} of the device's memory did not come back: {_text(said['verdict'])}"


def _kept(said: Said) -> str:
    left = said.get("left") or []
    if not isinstance(left, list):
        raise TypeError
    names = ", ".join(f"pid {_text(one['pid'])} ({_text(one['name'])})" for one in left)
    return f"the token stays, as these may not be signalled: {names}"


def _recovered(said: Said) -> str:
    ended, left = said.get("ended"), said.get("left")
    return _list(
        f"the ghost of lane {_text(said.get('lane') or 'unknown')}",
        "by an operator" if said.get("by") == "operator" else "",
        f"{counted(ended, 'process', 'processes')} ended" if isinstance(ended, int) and ended else "",
        f"{left} left" if left else "",
    )


def _left(said: Said) -> str:
    reason = _reason(said)
    return _LEFT.get(reason, reason)


def _reason(said: Said) -> str:
    return _text(said.get("reason") or "")


def _status(said: Said) -> str:
    return f"status {_text(said['status'])}" if "status" in said else ""


def _list(*parts: str) -> str:
    return ", ".join(filter(None, parts))


_WORDS: Mapping[str, Callable[[Said], str]] = {
    "queued": lambda _: "waits in line",
    "head": lambda _: "is next",
    "taken": _taken,
    "started": _started,
    "ending": _ending,
    "ended": _ended,
    "released": _released,
    "settled": _settled,
    "kept": _kept,
    "recovered": _recovered,
    "left": _left,
    "evicted": _left,
    "token-restored": lambda _: "its token had vanished and is back",
    "warned": _narrated,
    "paused": _narrated,
    "resumed": _narrated,
    "unreleased": lambda said: _text(said.get("why") or ""),
}
