"""The console's program: owns the world and the look, hears the threads, and knows how to leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.app import SystemCommand
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.filter import LineFilter
from textual.screen import Screen

from holdtop.console.feeds import Acts, FeedMaker, Operator
from holdtop.console.keys import Key, bindings
from holdtop.console.messages import ThemesChanged, tell
from holdtop.console.paint import Painter
from holdtop.console.replaying.travel import Travels
from holdtop.console.screens.main import MainScreen
from holdtop.console.themes import ThemeFile, Watcher
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.widgets.panel import Look, Panel
from holdtop.console.world import World

if TYPE_CHECKING:
    from holdtop.console.replaying.moments import Tape


@dataclass(frozen=True, slots=True)
class Setup:
    """All that the console is given."""

    feed: FeedMaker
    operator: Operator
    keys: tuple[Key, ...]
    remapped: dict[str, str]
    themes: dict[str, ThemeFile]
    theme: str
    glyphs: Glyphs
    reasons: Sequence[str]
    #: Paths of further logs to follow.
    logs: tuple[str, ...]
    #: Reads the audits; may block.
    acts: Callable[[], Acts] | None = None
    #: Opens what was recorded of this box; may block.
    tape: Callable[[], Tape] | None = None
    #: Those of a recording.
    time_keys: tuple[Key, ...] = ()
    troubles: tuple[str, ...] = ()
    read_only: bool = False
    colorless: bool = False
    state_dir: str | None = None


class Gate(LineFilter):
    """The last look at whatever is drawn, Textual's own widgets included: no control character passes."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__()
        self._ascii = glyphs.ascii

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        del background
        return [segment if segment.control else self._gated(segment) for segment in segments]

    def _gated(self, segment: Segment) -> Segment:
        text = segment.text
        if text.isprintable() and (text.isascii() or not self._ascii):
            return segment
        passed = (char if self._passes(char) else "?" * get_character_cell_size(char) for char in text)
        return Segment("".join(passed), segment.style)

    def _passes(self, char: str) -> bool:
        return (char.isprintable() or char == "\u3000") and (char.isascii() or not self._ascii)


class Console(Travels):
    """Screens come and go; the world stays here."""

    CSS_PATH = "console.tcss"
    BINDINGS: ClassVar = bindings("app")
    ENABLE_COMMAND_PALETTE = True
    TITLE = "holdtop"

    def __init__(self, setup: Setup) -> None:
        world = World(read_only=setup.read_only, troubles=setup.troubles, logs=setup.logs)
        super().__init__(world, setup.feed, setup.acts, colorless=setup.colorless)
        self._setup = setup
        self.open_tape, self.time_keys = setup.tape, setup.time_keys
        # A served app has no authentication: whoever reaches the port would act.
        world.read_only |= self.is_web
        self.look = Look(Painter(setup.themes[setup.theme], setup.glyphs, colorless=setup.colorless))
        self._gate = Gate(setup.glyphs)
        self._themes = setup.themes
        self._watcher = Watcher(lambda themes: tell(self, ThemesChanged(themes)))

    def get_default_screen(self) -> Screen[None]:
        setup = self._setup
        return MainScreen(
            self.look,
            self.world,
            setup.operator,
            setup.keys,
            reasons=setup.reasons,
            state_dir=setup.state_dir,
        )

    def on_mount(self) -> None:
        self.set_keymap(self._setup.remapped)
        self._dress()
        self._watcher.start()

    def on_unmount(self) -> None:
        self._watcher.stop()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._gate]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: the acts of the table of keys, as far as they do something on the page that is open."""
        del screen
        for key in self._setup.keys:
            if key.action != "palette" and (not key.pages or self.world.page in key.pages):
                yield SystemCommand(key.title, key.hint, lambda call=key.call: self.call_later(self.run_action, call))

    def pop_screen(self) -> AwaitComplete:
        """Textual remembers a thousand widgets with all that they drew: an ``lru_cache`` has them in its keys."""
        self.screen._styles_cache.get_inner_outer.cache_clear()
        return super().pop_screen()

    def _dress(self) -> None:
        """Put the theme on: ours, and Textual's own widgets."""
        theme = self.look.painter.textual
        self.register_theme(theme)
        self.theme = theme.name
        for screen in self.screen_stack:
            for panel in screen.query(Panel):
                panel.draw_all()

    def on_themes_changed(self, message: ThemesChanged) -> None:
        """The one that is on is put on anew; while one cannot be read, what is on stays, and that is said."""
        self._themes, self.world.troubles = message.themes.loaded, message.themes.failed
        theme = self._themes.get(self.look.painter.theme.name)
        if theme is not None and theme != self.look.painter.theme and not message.themes.failed:
            self._put_on(theme)
        if message.themes.failed:
            self._main().say(f"{message.themes.failed[-1]} (? shows all)")

    def _put_on(self, theme: ThemeFile) -> None:
        painter = self.look.painter
        self.look.painter = Painter(theme, painter.glyphs, colorless=painter.colorless)
        self._dress()

    def action_next_theme(self) -> None:
        names, present = list(self._themes), self.look.painter.theme.name
        name = names[(names.index(present) + 1) % len(names)] if present in names else names[0]
        self._put_on(self._themes[name])
        self._main().say(f"theme {name}: {self._themes[name].description}")

    def action_arm(self) -> None:
        if self.screen is not self._main():
            return  # a recording may lie on it, which nobody can act on
        self.world.read_only = self.is_web or not self.world.read_only
        self._main().look_again()
        self._main().say(
            "read-only: no act will be carried out" if self.world.read_only else "armed: acts are carried out"
        )

    def action_help(self) -> None:
        from holdtop.console.screens.help import HelpScreen  # after the first picture, as every screen but one

        world = self.world
        roots = world.snapshot.roots if world.snapshot else ()
        self.push_screen(HelpScreen(self.look, self._setup.keys, world.troubles, roots))

    def action_leave(self) -> None:
        from holdtop.console.screens.act import ActScreen

        if isinstance(self.screen, ActScreen) and self.screen.stage == "acting":
            self.screen.action_close()
        else:
            self.exit()
