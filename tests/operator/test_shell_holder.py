"""A holder of the older shell tool, as its token's first line names it, and what is known of its memory."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from tests.hold.lanes import NAP, Box, ended, until
from tests.operator.box import kinds


@pytest.mark.parametrize("by", ["{pid}", "ci-1"])
def test_a_shell_holder_is_shown_whole_and_ended_with_its_tree(
    state: Box, bystander: subprocess.Popen[bytes], by: str
) -> None:
    state.queue.mkdir()
    script = f"trap 'rm -f {state.token}; kill $!; exit 143' TERM; sleep {NAP} & wait"
    with subprocess.Popen(["sh", "-c", script]) as shell:
        state.token.write_text(f"ci-1 {shell.pid} 2026-01-01T00:00:00+00:00\n")
        holder = json.loads(state.verb("status", "--json").stdout)["resources"][0]["holder"]
        assert holder["command"] == ["sh", "-c", script]
        assert holder["start_ticks"] > 0
        done = state.verb("kill", by.format(pid=shell.pid), "--reason", "r", "--yes", "--grace", "3")
        assert done.returncode == 0, done
        assert shell.wait(5) in (143, -signal.SIGTERM)
    assert not state.token.exists()
    assert bystander.poll() is None
    assert kinds(state) == ["intent", "outcome"]


def test_a_plan_knows_the_memory_that_status_shows(state: Box) -> None:
    lane = state.run("sleep", NAP, options=["--lane", "ci-7"])
    state.until_running()

    def shown() -> list[int | None]:
        payload = json.loads(state.verb("status", "--json").stdout)["resources"][0]["holder"]["payload"]
        return [one["gtt_bytes"] for one in payload["processes"]]

    assert until(shown) == [0]
    plan = json.loads(state.verb("kill", "ci-7", "--dry-run", "--json").stdout)["plan"]
    assert [one["device_bytes"] for one in plan["targets"]] == [0]
    lane.terminate()
    ended(lane)
