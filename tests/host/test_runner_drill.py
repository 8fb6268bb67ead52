"""``holdtop runner drill``: shown on evidence only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdtop.host.runner.drill import Seen, _unshown
from tests.host.runners import runner
from tests.host.system_manager import system_manager

OURS, CONTROL = Seen(1, True, "active", "success"), Seen(None, True, "failed", "oom-kill")


def test_a_box_without_a_memory_controller_shows_nothing_and_says_so() -> None:
    """And no child is started there, which nothing would bound."""
    with system_manager() as box:
        if "memory" in Path(f"{box.at('/sys/fs/cgroup')}/cgroup.controllers").read_text().split():
            pytest.skip("needs cgroup v1: a box whose units have no memory controller")
        done = runner(box, "drill", "one", "--yes", "--json")
        assert done.returncode == 8, done.stderr
        said = json.loads(done.stdout)
        assert (said["shown"], said["ours"], said["control"]) == (False, None, None)
        assert "no memory controller" in said["why"]
        plain = runner(box, "drill", "one", "--yes")
        assert plain.stdout.startswith("not shown here: there is no memory controller")
        assert "holdtop-drill" not in box.do("systemctl", "list-units", "--all", "--no-legend").stdout
        assert runner(box, "drill", "one").returncode == 6, "unasked"


@pytest.mark.parametrize(
    ("ours", "control"),
    [
        (Seen(0, True, "active", "success"), CONTROL),
        (Seen(None, True, "active", "success"), CONTROL),
        (Seen(1, False, "active", "success"), CONTROL),
        (Seen(1, True, "failed", "oom-kill"), CONTROL),
        (OURS, Seen(None, True, "active", "success")),
        (OURS, Seen(None, True, "failed", "exit-code")),
    ],
)
def test_without_each_piece_of_evidence_it_is_not_shown(ours: Seen, control: Seen) -> None:
    assert _unshown(OURS, CONTROL) is None
    assert _unshown(ours, control)
