"""``holdtop runner drill``: shown on evidence only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdtop.host.runner.drill import Seen, _unshown
from tests.host.runners import runner
from tests.host.system_manager import system_manager

OURS, CONTROL = Seen(1, True, "active", "success"), Seen(None, True, "failed", "oom-kill")


def test_it_is_shown_where_units_have_a_memory_controller_and_elsewhere_said_not_to_be() -> None:
    """Elsewhere no child is started either, which nothing would bound."""
    with system_manager() as box:
        limited = "memory" in Path(f"{box.at('/sys/fs/cgroup')}/cgroup.controllers").read_text().split()
        done = runner(box, "drill", "one", "--yes", "--json")
        assert done.returncode == (0 if limited else 8), (done.stdout, done.stderr)
        said = json.loads(done.stdout)
        assert said["shown"] is limited
        if not limited:
            assert (said["ours"], said["control"]) == (None, None)
            assert runner(box, "drill", "one", "--yes").stdout.startswith(
                "not shown here: there is no memory controller"
            )
        assert "holdtop-drill" not in box.do("systemctl", "list-units", "--all", "--no-legend").stdout
        assert runner(box, "drill", "one").returncode == 6, "unasked"
        assert runner(box, "drill", "one", "--dry-run").returncode == 0


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
