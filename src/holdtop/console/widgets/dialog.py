"""What the dialog of an act shows: frozen targets above, a reason below, two choices; then progress and result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import DescendantFocus
from textual.widgets import Input

from holdtop.console.view.plan import act_name, heading, plan_lines, reason_lines
from holdtop.console.view.text import Line, Role, title, wrapped
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.small import Choice, Field, TextPanel
from holdtop.operator.values import Plan

#: On a terminal with fewer rows the preset reasons are not listed.
TIGHT = 16
#: What Enter does on each part that may have the keys.
_ENTER = {"cancel": "; Enter cancels", "go": "; Enter carries it out", "reason": ""}


class Dialog(Vertical):
    """The parts of the dialog; the screen decides what they say."""

    def __init__(self, look: Look, name: str, reasons: Sequence[str], at: float) -> None:
        """``at``: instant of the snapshot, for ages."""
        super().__init__(id="dialog")
        self._look, self._verb, self._reasons, self._at = look, name, reasons, at
        self._plan: Plan | None = None
        self._refused: Sequence[str] = ()
        #: Progress and result for a width, once the act has begun.
        self._told: Callable[[int], Sequence[Line]] | None = None
        self._said = ""
        self._role: Role = "warning"
        self._over = False
        self.set_class(look.glyphs.ascii, "-ascii")

    def compose(self) -> ComposeResult:
        yield TextPanel(self._look, id="heading")
        yield TextPanel(self._look, id="plan")
        yield TextPanel(self._look, id="reasons")
        yield Field(placeholder="reason: press a digit, or write one", id="reason", compact=True)
        yield Field(id="typed", compact=True)
        with Horizontal(id="choices"):
            yield Choice(self._look, "Cancel", id="cancel")
            yield Choice(self._look, self._verb, id="go")
        yield TextPanel(self._look, id="said")

    def on_mount(self) -> None:
        self.query_one("#typed").display = False
        self.screen.set_focus(self.query_one("#cancel"))

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @property
    def reason(self) -> str:
        return self.query_one("#reason", Field).value.strip()

    @property
    def typed(self) -> str:
        return self.query_one("#typed", Field).value.strip()

    def pick(self, number: int) -> None:
        """Take the preset reason of this digit."""
        if number <= len(self._reasons):
            self.query_one("#reason", Field).value = self._reasons[number - 1]
            self.draw()

    @on(Input.Changed, "#reason")
    @on(DescendantFocus)
    def say_what_enter_does(self) -> None:
        """The reason as it will be recorded, and what Enter does now; what is asked for in a field stays."""
        focused = self.screen.focused
        does = _ENTER.get(focused.id or "") if focused else None
        if does is not None and self._plan is not None and self._told is None and self.reason:
            self.say(f"reason: {self.reason}{does}")

    def show_plan(self, plan: Plan, refused: Sequence[str]) -> None:
        """``refused``: why others are left out."""
        self._plan, self._refused = plan, refused
        typed = self.query_one("#typed", Field)
        typed.display = plan.needs_typing
        typed.placeholder = f"type {self._look.glyphs.clean(plan.typed, 60)} to confirm"
        self.query_one("#go", Choice).rename(act_name(plan))
        self.call_after_refresh(self.draw)

    def tell(self, told: Callable[[int], Sequence[Line]]) -> None:
        """Progress and result for a width: they take the plan's place."""
        self._told = told
        panel = self.query_one("#plan", TextPanel)
        panel.show(told(panel.size.width), end=True)
        self._fit()

    def say(self, words: str, role: Role = "warning") -> None:
        """One sentence below the choices."""
        self._said, self._role = words, role
        panel = self.query_one("#said", TextPanel)
        rows = wrapped(words, panel.size.width, self._look.glyphs, role, indent=1)
        panel.styles.height = 1 if self.tight else min(3, len(rows))
        panel.show(rows)
        self._fit()

    def finish(self, words: str, role: Role = "warning") -> None:
        """Nothing more can be chosen: only closing is left."""
        self._over = True
        for name in ("#reasons", "#reason", "#typed", "#go"):
            self.query_one(name).display = False
        close = self.query_one("#cancel", Choice)
        close.rename("Close")
        self.screen.set_focus(close)
        self.call_after_refresh(self.say, words, role)

    def draw(self) -> None:
        """Everything anew for the present width."""
        glyphs, width = self._look.glyphs, self.size.width
        name = heading(self._plan, glyphs) if self._plan else self._verb
        self.query_one("#heading", TextPanel).show([title(name, "", width, glyphs, focused=True)])
        reasons = self.query_one("#reasons", TextPanel)
        rows = reason_lines(self._reasons, self.reason, width, glyphs)
        reasons.styles.height = len(rows)
        reasons.display = not self.tight and not self._over
        reasons.show(rows)
        plan = self.query_one("#plan", TextPanel)
        if self._told is not None:
            plan.show(self._told(width), end=True)
        elif self._plan is not None:
            plan.show(plan_lines(self._plan, self._refused, self._at, width, glyphs))
        self.say(self._said, self._role)

    @property
    def tight(self) -> bool:
        """Who would be hit matters more than the names of the digits."""
        return self.app.size.height < TIGHT

    def _fit(self) -> None:
        """As high as what there is to say; once an act has begun it never shrinks, so that nothing jumps."""
        plan = self.query_one("#plan", TextPanel)
        others = [child.styles.height for child in self.children if child.display and child is not plan]
        room = self.app.size.height * 9 // 10 - 2 - sum(int(height.value) for height in others if height is not None)
        least = plan.size.height if self._told is not None else 0
        plan.styles.height = max(1, min(room, max(least, plan.length + 1)))
