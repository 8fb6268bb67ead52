"""Each result of a bench says where it is from: there is one way to say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench import made

BENCHES = sorted(path for path in (made.ROOT / "bench").rglob("*.py") if path.name != "made.py")


def test_a_head_names_machine_commit_moment_and_command() -> None:
    said = made.line(made.head("make something", 0.25))
    form = (
        r"Made by `make something` on \d{4}-\d\d-\d\dT\S+ at [^:]+: \S+, Linux [\d.]+,\nPython [\d.]+, \d+ processors; "
    )
    assert re.match(form + r"load 0\.\d before and \d+\.\d after$", said)


@pytest.mark.parametrize("path", BENCHES, ids=lambda path: path.name)
def test_no_bench_says_it_by_itself(path: Path) -> None:
    assert "import platform" not in path.read_text()
