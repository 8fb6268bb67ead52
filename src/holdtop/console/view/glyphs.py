"""The signs the console draws with: one set for UTF-8 terminals, one for all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdtop.model.values import Severity
from holdtop.render import cells, clean, fit


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of signs. Every text that is drawn goes through ``clean`` of the set in use."""

    ascii: bool
    rule: str
    wall: str
    focus: str
    dot: str
    ellipsis: str
    arrow: str
    dash: str
    fine: str
    severity: Mapping[Severity, str]
    #: By state of a resource or a ticket.
    state: Mapping[str, str]
    #: Levels of a history graph, lowest first; the first one is drawn for "lowest", a blank for "not known".
    levels: str
    full: str
    track: str
    #: Fillings of the memory bar, in the order of ``memory.PARTS``.
    fills: str
    #: The same as samples below the bar, where a full block would grow together with it.
    samples: str
    branch: str
    last_branch: str
    through: str
    folded: str
    mark: str

    def clean(self, text: str, limit: int | None = None) -> str:
        return clean(text, limit, ascii_only=self.ascii)

    def fit(self, text: str, width: int) -> str:
        return fit(self.clean(text, 4 * width + 8), width, ellipsis=self.ellipsis)

    def column(self, text: str, width: int, *, right: bool = False) -> str:
        """``text`` in exactly ``width`` cells."""
        fitted = self.fit(text, width)
        blank = " " * (width - cells(fitted))
        return blank + fitted if right else fitted + blank


UNICODE = Glyphs(
    ascii=False,
    rule="─",
    wall="│",
    focus="▌",
    dot="·",
    ellipsis="…",
    arrow="→",
    dash="–",
    fine="✓",
    severity={"critical": "✖", "warning": "▲", "info": "•"},
    state={
        "free": "○",
        "held": "●",
        "ghost": "†",
        "ending": "◐",
        "unknown": "?",
        "waiting": "·",
        "running": "▶",
        "paused": "‖",
    },
    levels="▁▂▃▄▅▆▇█",
    full="█",
    track="░",
    fills="█▓▚▒░·",
    samples="▄▓▚▒░·",
    branch="├─",
    last_branch="└─",
    through="│ ",
    folded="▸",
    mark="◆",
)

ASCII = Glyphs(
    ascii=True,
    rule="-",
    wall="|",
    focus=">",
    dot="|",
    ellipsis="~",
    arrow="->",
    dash="-",
    fine="ok",
    severity={"critical": "X", "warning": "!", "info": "i"},
    state={
        "free": "o",
        "held": "*",
        "ghost": "x",
        "ending": "%",
        "unknown": "?",
        "waiting": ".",
        "running": ">",
        "paused": "=",
    },
    levels="_.-:=+*#",
    full="#",
    track=".",
    fills="#S&?o.",
    samples="#S&?o.",
    branch="|-",
    last_branch="`-",
    through="| ",
    folded="+",
    mark="@",
)


def chosen(environ: Mapping[str, str], encoding: str) -> Glyphs:
    """The set for this locale. ``encoding`` is that of the stream that is drawn on.

    Python itself turns an explicit C locale into UTF-8 (PEP 538 and 540), so the variables are asked too: who
    says C gets ASCII. Who says nothing gets UTF-8, as every terminal of the last decade speaks it.
    """
    named = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    coerced = named == "C.UTF-8" and not environ.get("LC_ALL")
    if coerced and environ.get("LANG") in ("C", "POSIX"):
        named = "C"
    utf8 = encoding.lower().replace("-", "") == "utf8"
    poor = bool(named) and "utf" not in named.lower()
    return ASCII if poor or not utf8 else UNICODE
