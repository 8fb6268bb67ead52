"""The half of the program that starts the threads and hears them: snapshots, logs, audits."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from textual.app import App

from holdtop.console.feeds import Acts, ActsFeed, FeedMaker, LogFeed
from holdtop.console.messages import ActsSeen, EarlierCame, LogGrew, PageOpened, Reach, SnapshotArrived, tell
from holdtop.console.screens.main import MainScreen
from holdtop.console.screens.reading import Reading
from holdtop.console.view.header import STALE_AFTER
from holdtop.console.world import World

#: Where a resource's events lie below its queue.
EVENTS = ".log/events.jsonl"


class Fed(App[None]):
    """Owns the world; its first screen is the ``MainScreen``."""

    def __init__(self, world: World, feed: FeedMaker, acts: Callable[[], Acts] | None, *, colorless: bool) -> None:
        """``acts`` reads the audits, and may block; ``None``: the world has its acts from elsewhere."""
        super().__init__(ansi_color=True if colorless else None)
        self.world = world
        self._feed = feed(lambda snapshot: tell(self, SnapshotArrived(snapshot)))
        self._logs = LogFeed(
            lambda lines: tell(self, LogGrew(lines)), lambda file, lines: tell(self, EarlierCame(file, lines))
        )
        # In a thread of its own: its files are on whatever file systems their holds have named.
        self._held = LogFeed(
            lambda lines: tell(self, LogGrew(lines)), lambda file, lines: tell(self, EarlierCame(file, lines))
        )
        self._acts = ActsFeed(acts, lambda seen: tell(self, ActsSeen(seen)))
        self._heard = time.monotonic()

    def on_mount(self) -> None:
        self.call_after_refresh(self._begin)  # the first picture waits for nothing

    def _begin(self) -> None:
        gc.freeze()  # what is loaded by now stays
        gc.enable()
        for feed in (self._feed, self._logs, self._held, self._acts):
            feed.start()
        self.set_interval(1.0, self._listen)

    def on_unmount(self) -> None:
        self._feed.stop()
        self._logs.stop()
        self._held.stop()
        self._acts.watch(False)

    def _main(self) -> MainScreen:
        screen = self.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    def on_snapshot_arrived(self, message: SnapshotArrived) -> None:
        first = self.world.snapshot is None
        self._heard, self.world.silent_for = time.monotonic(), None
        self.world.take(message.snapshot)
        paths = {resource.name: f"{resource.queue_path}/{EVENTS}" for resource in message.snapshot.resources}
        self._logs.follow(paths, self.world.logs)
        self._held.follow({}, tuple(self.world.held_logs), self.world.held_logs)
        if (screen := self._main()).ready:
            screen.look_again()
            if first:
                screen.home()

    def on_log_grew(self, message: LogGrew) -> None:
        self.world.kept.add(message.lines)
        self._show()

    def on_reach(self, message: Reach) -> None:
        logs = self._held if message.file in self.world.held_logs else self._logs
        logs.reach(message.file, self.world.kept.oldest(message.file))

    def on_earlier_came(self, message: EarlierCame) -> None:
        more = self.world.kept.add_earlier(message.file, message.lines)
        self._main().came_back(message.file, "" if more else message.lines[-1].text if message.lines else "")

    def on_page_opened(self, message: PageOpened) -> None:
        self.world.reading_acts = self._acts.watch(message.page == "audit")
        self._show()

    def on_acts_seen(self, message: ActsSeen) -> None:
        self.world.acts, self.world.reading_acts = message.acts, False
        self._show()

    def _show(self) -> None:
        if (screen := self._main()).ready:
            screen.look_again()
        if isinstance(self.screen, Reading):
            self.screen.look_again()

    def _listen(self) -> None:
        """Say so when no snapshot comes: a source that hangs must be seen to age."""
        silent = time.monotonic() - self._heard
        if silent >= STALE_AFTER and self._main().ready:
            self.world.silent_for = silent
            self._main().look_again()
