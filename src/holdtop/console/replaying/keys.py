"""The keys of time travel; only a replay has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdtop.console.keys import KEYS, Key, table

TIME_KEYS = (
    Key("earlier", "left_square_bracket", "screen.step(-1)", "Earlier", "The look before", "Time", 0),
    Key("later", "right_square_bracket", "screen.step(1)", "Later", "The next look", "Time", 0),
    Key("before", "left_curly_bracket", "screen.happened(-1)", "Before", "What happened before: a bookmark", "Time", 1),
    Key("after", "right_curly_bracket", "screen.happened(1)", "After", "What happened next: a bookmark", "Time", 1),
    Key("seek", "G", "screen.seek", "Go to", "Go to an instant: 02:14, -10m, +30s, start, end", "Time", 1),
    Key("play", "P", "screen.play", "Play", "Play from here on, or pause", "Time", 1),
    Key("speed", "V", "screen.speed", "Speed", "Play as fast as it was, 10 times, 60 times", "Time"),
    Key("note", "M", "screen.note", "Note", "Note this instant, to compare another one with it", "Time"),
    Key(
        "changes",
        "D",
        "screen.changes",
        "Changes",
        "What changed since the noted instant, or since the start",
        "Time",
        2,
    ),
)
#: What leads here from a live console.
LEAVE = "travel"


def replay_table(remapped: Mapping[str, str]) -> tuple[Key, ...]:
    """All keys, remapped. Those of acts are not offered: they say that nothing can be ended. Raises as ``table``."""
    here = (*TIME_KEYS, *(key for key in KEYS if key.action != LEAVE))
    keys = table({action: key for action, key in remapped.items() if action != LEAVE}, here)
    return tuple(replace(key, rank=None) if key.group == "Acting" else key for key in keys)


def live_only(remapped: Mapping[str, str]) -> dict[str, str]:
    """What the configuration says of keys that a live console has."""
    times = {key.action for key in TIME_KEYS}
    return {action: key for action, key in remapped.items() if action not in times}
