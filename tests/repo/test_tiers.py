"""CI's one command, and the rules of the tests themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("status", [0, 2])
def test_ci_runs_make_check_without_input_and_passes_its_status_on(tmp_path: Path, status: int) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text(
        f"check:\n\t@read -r line && echo has input || true\n\t@echo CI is $$CI\n\t@exit {status}\n"
    )
    done = subprocess.run(
        [tmp_path / ".ci/run"], input="typed\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "CI is true\n"
    assert done.returncode == status


def test_check_ends_with_the_tests() -> None:
    steps = subprocess.run(
        ["make", "--dry-run", "--always-make", "check"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    order = ["ruff format --check", "ruff check", "mypy", "lint-imports", "pytest"]
    places = [next(i for i, step in enumerate(steps) if f"/bin/{tool}" in step) for tool in order]
    assert places == sorted(places)
    assert "/bin/pytest" in steps[-1]


BAD_TESTS = """
import os, subprocess, time
import pytest

def test_leaves_a_daemon():
    subprocess.Popen(["sleep", "600"], start_new_session=True)

def test_leaves_a_fork():
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)

def test_skips_unlisted():
    pytest.skip("no reason worth listing")

def test_skips_listed():
    pytest.skip("needs root: says who")

def test_sees_nothing_of_the_caller():
    assert "GPU_QUEUE_DIR" not in os.environ and "CI" not in os.environ
    assert os.environ["HOME"] != os.path.expanduser("~root") and os.listdir(os.environ["HOME"]) == []
"""


def test_the_rules_of_the_tests_bite(tmp_path: Path) -> None:
    for name in ("conftest.py", "allowed_skips.txt"):
        shutil.copy(ROOT / "tests" / name, tmp_path / name)
    (tmp_path / "test_bad.py").write_text(BAD_TESTS)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rA",
            "-c",
            os.devnull,
            f"--rootdir={tmp_path}",
            str(tmp_path),
        ],
        env={**os.environ, "GPU_QUEUE_DIR": "/somewhere", "CI": "true"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    told = [line.split(" - ")[0] for line in done.stdout.splitlines() if "test_bad.py" in line]
    assert "ERROR test_bad.py::test_leaves_a_daemon" in told
    assert "ERROR test_bad.py::test_leaves_a_fork" in told
    assert "FAILED test_bad.py::test_skips_unlisted" in told
    assert "PASSED test_bad.py::test_sees_nothing_of_the_caller" in told
    assert "1 failed, 3 passed, 1 skipped, 2 errors" in done.stdout
