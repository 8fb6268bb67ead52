"""What a static graph cannot see: which modules a process has really loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: The terminal toolkit, and what only the console's picture of the process table needs.
TOOLKIT = {"textual", "rich"}
SENSORS = {"psutil", "pyudev", "platformdirs", "holdtop.sources", "holdtop.model", "holdtop.operator"}
#: Of the console, what no picture needs as long as nothing was looked at.
LATER = {"psutil", "pyudev", "zstandard", "holdtop.sampler", "holdtop.sources", "holdtop.operator", "holdtop.recorder"}


def loaded_by(statement: str) -> set[str]:
    """The names in ``sys.modules`` after ``statement`` has run in an interpreter of its own."""
    code = f"""
import sys
try:
    {statement}
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


def verb(*words: str) -> str:
    return f"from holdtop.cli.main import main; main({list(words)!r})"


@pytest.mark.parametrize(
    ("statement", "kept_out"),
    [
        ("import holdtop.hold", TOOLKIT | SENSORS),
        ("import holdtop.payload.supervisor", TOOLKIT | SENSORS | {"holdtop.hold"}),
        (verb("--version"), TOOLKIT | SENSORS | {"holdtop.hold", "holdtop.payload", "ctypes"}),
        (verb("--help"), TOOLKIT | SENSORS | {"holdtop.hold", "holdtop.payload", "ctypes"}),
        (verb("run", "--help"), TOOLKIT | SENSORS),
        (verb("status", "--json"), TOOLKIT | {"sdbus"}),
        (verb("runner", "render", "--json"), TOOLKIT | {"sdbus"}),
        (verb("kill", "--help"), TOOLKIT | {"pyudev"}),
        (verb("audit", "--help"), TOOLKIT | {"pyudev"}),
        # What the console loads before its first picture; the sampler alone would take a quarter of that time.
        ("import holdtop.cli.console, holdtop.cli.earlier, holdtop.console.start", LATER),
    ],
)
def test_nothing_is_loaded_that_is_not_needed(statement: str, kept_out: set[str]) -> None:
    loaded = loaded_by(statement)
    assert "holdtop" in loaded
    assert loaded & kept_out == set()
