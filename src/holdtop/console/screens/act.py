"""The dialog of an act: the targets are frozen, Cancel is the default, a reason is required."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input

from holdtop.console.acting import Wish, carry_out, make_plans
from holdtop.console.arrange import LEAST
from holdtop.console.feeds import Operator
from holdtop.console.messages import ActEnded, PlansMade, StepTaken
from holdtop.console.view.plan import VERBS, Account, together
from holdtop.console.view.text import wrapped
from holdtop.console.widgets.dialog import Dialog
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.small import Choice, TextPanel
from holdtop.operator.values import Plan

Stage = Literal["planning", "asking", "acting", "over"]


class ActScreen(ModalScreen[None]):
    """One act from its plan to its result."""

    #: The first keys of a fast typist meet Cancel, never a field or the act itself.
    AUTO_FOCUS = "#cancel"
    BINDINGS: ClassVar = [
        Binding("escape", "close", show=False),
        Binding("left,up,shift+tab", "step(-1)", show=False),
        Binding("right,down,tab", "step(1)", show=False),
        Binding("pageup", "scroll(-1)", show=False),
        Binding("pagedown", "scroll(1)", show=False),
        *(Binding(str(digit), f"reason({digit})", show=False) for digit in range(1, 10)),
    ]

    def __init__(
        self,
        look: Look,
        wish: Wish,
        operator: Operator,
        *,
        at: float,
        reasons: Sequence[str],
        read_only: Callable[[], bool],
    ) -> None:
        """``at``: instant of the snapshot that the plan is of. ``read_only`` is asked when it is executed."""
        super().__init__()
        self._look, self._wish, self._operator = look, wish, operator
        self._read_only = read_only
        self._plans: tuple[Plan, ...] = ()
        self._account: Account | None = None
        self._dialog = Dialog(look, VERBS[wish.verb], reasons, at)
        self.stage: Stage = "planning"

    def compose(self) -> ComposeResult:
        yield self._dialog

    def on_mount(self) -> None:
        self._dialog.say("looking at what this would do" + self._look.glyphs.ellipsis)
        make_plans(self, self._wish.plans)

    def on_resize(self) -> None:
        self._dialog.call_after_refresh(self._dialog.draw)

    def on_plans_made(self, message: PlansMade) -> None:
        self._plans = message.plans
        if not message.plans:
            why = "; ".join(message.refused)
            said = f"already gone, nothing done: {why}" if message.gone else why
            self._dialog.tell(lambda width: wrapped(said, width, self._look.glyphs, "warning", indent=1))
            self._dialog.finish("nothing was done")
            self.stage = "over"
        else:
            self.stage = "asking"
            self._dialog.show_plan(together(message.plans), message.refused)
            self._dialog.say("a reason is required; Cancel is the default")
            self._dialog.say_what_enter_does()  # a digit may have been quicker than the plan

    def on_step_taken(self, message: StepTaken) -> None:
        if self._account is not None:
            self._account.add(message.step)
            self._tell(self._account)

    def on_act_ended(self, message: ActEnded) -> None:
        if self._account is None:
            return
        self._account.end(message.plan, message.outcome, message.failed)
        self._tell(self._account)
        if self._account.over == len(self._plans):
            self.stage = "over"
            self._dialog.finish(self._account.words, self._account.role)

    def _tell(self, account: Account) -> None:
        self._dialog.tell(lambda width: account.lines(width, self._look.glyphs))

    def on_choice_chosen(self, message: Choice.Chosen) -> None:
        if message.choice.id == "cancel":
            self.action_close()
        elif self.stage == "asking":
            self._go(together(self._plans))

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Enter in a field goes on to the next one; in the last one to Cancel, never to the act."""
        message.stop()
        if self.focused is message.input:
            self.action_step(1)

    def action_close(self) -> None:
        if self.stage == "acting":
            self._dialog.say("it is under way and cannot be taken back; wait for its result")
        else:
            self.dismiss()

    def action_step(self, direction: int) -> None:
        """From Cancel to the act, to the fields, and round."""
        (self.focus_next if direction > 0 else self.focus_previous)("Choice, Field")

    def action_scroll(self, direction: int) -> None:
        panel = self.query_one("#plan", TextPanel)
        panel.scroll_lines(direction * max(1, panel.size.height - 1))

    def action_reason(self, number: int) -> None:
        if self.stage in ("planning", "asking"):
            self._dialog.pick(number)

    def _go(self, plan: Plan) -> None:
        """``plan``: what was shown."""
        reason = self._dialog.reason
        if self.size.width < LEAST[0] or self.size.height < LEAST[1]:
            self._dialog.say("the terminal is too small to show whom this would hit")
        elif self._dialog.tight and not self.query_one("#plan", TextPanel).read:
            self._dialog.say("first read whom it hits: PgDn")
        elif not reason:
            self._dialog.say("a reason is required: press a digit, or write one")
        elif plan.needs_typing and self._dialog.typed != plan.typed:
            self._dialog.say(f"type {plan.typed} to confirm")
            self.set_focus(self.query_one("#typed"))  # digits go there now
        else:
            self.stage = "acting"
            self._account = Account(plan, reason)
            self._tell(self._account)
            self._dialog.say("under way" + self._look.glyphs.ellipsis)
            carry_out(self, self._operator, self._plans, reason, read_only=self._read_only)
