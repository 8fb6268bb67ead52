"""A Textual program that shows one word: what any such program pays before it shows something."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class Bare(App[None]):
    def compose(self) -> ComposeResult:
        yield Static("here")


if __name__ == "__main__":
    Bare().run()
