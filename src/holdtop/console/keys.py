"""The one table of keys: bindings, footer, help, palette and the documentation are made from it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from textual.binding import Binding, BindingType

from holdtop.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Key:
    """One act of the reader. ``action`` is the name by which the configuration remaps it."""

    action: str
    #: Textual's names of the keys, separated by commas; the first one is shown.
    keys: str
    #: Textual's name of what is called.
    call: str
    #: One or two words for the footer.
    label: str
    help: str
    group: str
    #: Shown in the footer; smaller comes first.
    rank: int | None = None
    #: The pages on which it does something; empty for all.
    pages: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The first key as one would say it."""
        return spoken(self.keys.split(",")[0])

    @property
    def title(self) -> str:
        """What it does, as a name in the palette."""
        return self.help.partition(";")[0]

    @property
    def hint(self) -> str:
        """Below the name in the palette: what the footer calls it, and its key."""
        return f"{self.label}, key {self.shown}"


_SPOKEN = {
    "question_mark": "?",
    "slash": "/",
    "space": "Space",
    "enter": "Enter",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "escape": "Esc",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "ctrl+p": "Ctrl+P",
    "ctrl+c": "Ctrl+C",
    "ctrl+q": "Ctrl+Q",
}


def spoken(name: str) -> str:
    """A key as one would say it: ``?`` for ``question_mark``."""
    return _SPOKEN.get(name, name)


#: The pages, in the order of their tabs.
PAGES = ("now", "ticket", "logs", "audit", "runners")
_TREES = ("now", "ticket")
_LOGS = ("logs",)

KEYS = (
    Key("now", "1", "screen.page('now')", "Now", "Page: who holds, who waits, what is wrong", "Pages"),
    Key("ticket", "2", "screen.page('ticket')", "Ticket", "Page: the selected ticket and its lane's past", "Pages"),
    Key("log", "3,l", "screen.page('logs')", "Logs", "Page: what holds and programs say, live", "Pages"),
    Key("audit", "4", "screen.page('audit')", "Audit", "Page: operators' acts, and how holds ended", "Pages"),
    Key("runners", "5", "screen.page('runners')", "Runners", "Page: the units of CI runners", "Pages"),
    Key("help", "question_mark", "app.help", "Help", "All keys, and how to read the screen", "Pages", 0),
    Key(
        "kill",
        "k",
        "screen.act('kill')",
        "End tree",
        "End the selected payload, subtree or leftover; asks first",
        "Acting",
        1,
        _TREES,
    ),
    Key(
        "evict",
        "e",
        "screen.act('evict')",
        "Evict",
        "Take the ticket out of the queue, or ask its hold to stop",
        "Acting",
        2,
        _TREES,
    ),
    Key(
        "recover",
        "R",
        "screen.act('recover')",
        "Recover",
        "Free the resource of a ghost; asks first",
        "Acting",
        3,
        _TREES,
    ),
    Key(
        "mark",
        "space",
        "screen.mark",
        "Mark",
        "Mark a stray or survivor, or all that a flag names: End tree then means all that are marked",
        "Acting",
        None,
        _TREES,
    ),
    Key("arm", "A", "app.arm", "Arm", "Turn read-only mode on or off", "Acting"),
    Key("holder", "j", "screen.jump('holder')", "Holder", "Jump to who holds the resource", "Moving", None, _TREES),
    Key("worst", "J", "screen.jump('worst')", "Worst", "Jump to the worst flag", "Moving", 4, ("now",)),
    Key("next", "tab", "screen.panel(1)", "Panel", "Go to the next panel", "Moving", 5),
    Key("back", "shift+tab", "screen.panel(-1)", "Back", "Go to the panel before", "Moving"),
    Key(
        "fold",
        "enter",
        "screen.fold",
        "Fold",
        "Fold or unfold a process; of a ticket in the queue, open its page; of an act, all that is on record",
        "Looking",
        None,
        (*_TREES, "audit"),
    ),
    Key(
        "filter",
        "slash",
        "screen.filter",
        "Filter",
        "Show only rows that contain a word; Esc shows all",
        "Looking",
        6,
    ),
    Key(
        "all",
        "escape",
        "screen.unfilter",
        "All",
        "Drop marks, filter and search; then back to the first page",
        "Looking",
    ),
    Key("sort", "s", "screen.sort", "Sort", "Sort the queue by position, age, lane or memory", "Looking", 8, _TREES),
    Key(
        "find",
        "f",
        "screen.find",
        "Find",
        "Mark lines with a word, or with a pattern: /out of .*memory/",
        "Logs",
        1,
        _LOGS,
    ),
    Key("older", "N", "screen.again(-1)", "Older", "Go to the marked line before", "Logs", None, _LOGS),
    Key("newer", "n", "screen.again(1)", "Next", "Go to the next marked line, round the end", "Logs", 2, _LOGS),
    Key(
        "level", "w", "screen.level", "Level", "Show all lines, only warnings and errors, only errors", "Logs", 3, _LOGS
    ),
    Key("only", "o", "screen.only", "Only it", "Show only what the selected ticket's hold said", "Logs", 4, _LOGS),
    Key("travel", "left_square_bracket", "app.travel", "Back", "Back in time: what was recorded of this box", "Other"),
    Key("theme", "t", "app.next_theme", "Theme", "The next theme", "Other", 9),
    Key(
        "copy", "y", "screen.copy", "Copy id", "Copy the id of what is selected to the clipboard", "Other", None, _TREES
    ),
    Key("palette", "ctrl+p", "app.command_palette", "Palette", "All of these by name", "Other"),
    Key("quit", "q,ctrl+c,ctrl+q", "app.leave", "Quit", "Leave; every hold goes on", "Other", 0),
)
#: Pages by the names of the acts that open them.
OPENS = {"now": "now", "ticket": "ticket", "logs": "log", "audit": "audit", "runners": "runners"}


def offered(keys: Sequence[Key], page: str) -> list[tuple[str, str]]:
    """Key and label of the footer of a page."""
    here = [key for key in keys if key.rank is not None and (not key.pages or page in key.pages)]
    return [(key.shown, key.label) for key in sorted(here, key=lambda key: (key.rank, key.shown))]


def tabs(keys: Sequence[Key]) -> list[tuple[str, str, str]]:
    """Each page with its key and what it is called."""
    by_action = {key.action: key for key in keys}
    return [(page, by_action[OPENS[page]].shown, by_action[OPENS[page]].label) for page in PAGES]


def table(remapped: Mapping[str, str], every: Sequence[Key] = KEYS) -> tuple[Key, ...]:
    """The keys, remapped. Raises ``ConfigError`` for an unknown action or a key that two acts share."""
    known = [key.action for key in every]
    for action in remapped:
        if action not in known:
            near = difflib.get_close_matches(action, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; actions are {', '.join(known)}"
            raise ConfigError(f"configuration: keys.{action} is no action of the console{hint}")
    keys = tuple(replace(key, keys=remapped.get(key.action, key.keys)) for key in every)
    taken: dict[str, str] = {}
    for key in keys:
        for name in key.keys.split(","):
            if (other := taken.setdefault(name, key.action)) != key.action:
                raise ConfigError(
                    f"configuration: the key {name!r} is for both {other} and {key.action}: choose another"
                )
    return keys


def bindings(scope: str, keys: Sequence[Key] | None = None) -> list[BindingType]:
    """The bindings of the ``app`` or the ``screen``; the configuration remaps them by their ids."""
    return [
        Binding(key.keys, key.call, key.label, show=False, id=key.action, tooltip=key.help)
        for key in (KEYS if keys is None else keys)
        if key.call.startswith(f"{scope}.")
    ]


def markdown(keys: Sequence[Key] = KEYS) -> str:
    """The table for the documentation."""
    rows = ["| key | what it does |", "|---|---|"]
    for key in keys:
        names = ", ".join(f"`{spoken(name)}`" for name in key.keys.split(","))
        rows.append(f"| {names} | {key.help} |")
    return "\n".join(rows) + "\n"
