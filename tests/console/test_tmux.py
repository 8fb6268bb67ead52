"""The console on real holds in a pane of tmux: odd and wide names, what tmux makes of them; a pane that is killed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.payload.process import Identity, is_alive, read_stat
from holdtop.render import cells
from tests.console.terminals import ROOT
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, until

#: Lanes, and words that no lane may have, which terminals and counts of characters take for wider than they are.
LANES = ("plain", "世蓮", "⚠️", "ae\u0301b", "a" + "\u0301" * 40, "[/red]")
WORDS = ("true", "👨‍👩‍👧‍👦", "\u200d", "[b + ", "[@click=app.quit]x[/]")
#: Of a process whose name, and whose first word, write to a terminal's title and clipboard.
ODD = f"""
import os, sys
if len(sys.argv) < 2:
    os.execv(sys.executable, ["\\x1b]52;c;aGFyaGFy\\x07[/]\\u202e", __file__, "{NAP}"])
open("/proc/self/comm", "wb").write(b"\\x1b]0;\\xc2\\x9b[b + \\x0e")
import time
time.sleep({NAP})
"""
WIDTH = 80


class Pane:
    """One window of a server of the test's own, and every byte that its program writes."""

    def __init__(self, directory: Path, *words: str) -> None:
        self.env = {**os.environ, "TMUX_TMPDIR": str(directory), "LANG": "C.UTF-8"}
        self.env.pop("TMUX", None)
        self.raw = directory / "raw"
        self._words = ["tmux", "-u", "-L", f"pane-{os.getpid()}", "-f", os.devnull]
        # Nothing is written before the pipe is there.
        waiting = f"until [ -e {directory / 'go'} ]; do sleep 0.05; done; exec {shlex.join(words)}"
        self("new-session", "-d", "-x", str(WIDTH), "-y", "40", "-s", "ours", waiting)
        self("pipe-pane", "-o", "-t", "ours", f"cat > {self.raw}")
        until(self.raw.exists)
        (directory / "go").touch()

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [*self._words, *words], env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
        )
        return done.stdout

    @property
    def rows(self) -> list[str]:
        """Each with every one of its cells, as tmux counts them."""
        return self("capture-pane", "-p", "-N", "-t", "ours").split("\n")[:-1]

    def identity(self, of: str = "pane_pid") -> Identity:
        stat = read_stat(int(self("display-message", "-p", "-t", "ours", f"#{{{of}}}")))
        assert stat is not None
        return stat.identity


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Box]:
    """A payload with an odd name, and every odd lane behind it."""
    state = tmp_path / "state"
    state.mkdir(mode=0o2770)
    box = Box(state)
    (tmp_path / "odd.py").write_text(ODD)
    holds: list[subprocess.Popen[bytes]] = []
    try:
        holds.append(box.run(sys.executable, str(tmp_path / "odd.py"), options=("--lane", "holder", "--grace", "1s")))
        box.until_running()
        holds += [box.run(*WORDS, options=("--lane", lane)) for lane in LANES]
        until(lambda: len(box.tickets()) == len(holds), seconds=30)
        yield box
    finally:
        for hold in reversed(holds):
            hold.send_signal(signal.SIGTERM)
        for hold in holds:
            ended(hold)


@pytest.fixture
def pane(odd: Box, tmp_path: Path) -> Iterator[Pane]:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux: the console is shown in a pane of it")
    pane = Pane(tmp_path, *HOLDTOP, "--theme", "dark", "--state-dir", str(odd.state))
    server = pane.identity("pid")
    yield pane
    pane("kill-server")
    until(lambda: is_alive(server) is False)


def test_odd_names_move_no_column_and_write_nothing_of_their_own(pane: Pane, odd: Box) -> None:
    """Then the pane is killed: the console is gone, and every hold is where it was."""
    until(lambda: any("[/red]" in row for row in pane.rows), seconds=20)
    rows = [row for row in pane.rows if row.strip()]
    assert {cells(row) for row in rows} == {WIDTH}, "tmux and we count other cells"
    queue = [row for row in rows if " gpu " in row[:10] and " true" in row]
    assert len(queue) >= 5
    assert len({cells(row[: row.rindex(" root ")]) for row in queue}) == 1, queue
    pane("send-keys", "-t", "ours", "j", "k", "1")
    until(lambda: any("Enter cancels" in row for row in pane.rows), seconds=20)
    until(lambda: any("[b + " in row for row in pane.rows), seconds=20)
    written = pane.raw.read_bytes()
    assert not [odd for odd in (b"\x1b]52", b"\x1b]0;", b"\x9b[", b"\x0e", "\u202e".encode()) if odd in written]
    console = pane.identity()
    tickets = odd.tickets()
    pane("kill-pane", "-t", "ours")
    until(lambda: is_alive(console) is False, seconds=5)
    assert odd.tickets() == tickets
    assert odd.token.exists()
