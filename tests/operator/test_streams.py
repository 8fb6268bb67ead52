"""What the commands say of themselves, and where nothing can be written."""

from __future__ import annotations

import subprocess

import pytest

from tests.hold.lanes import HOLDTOP, Box


def ask(*words: str, redirect: str = "") -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {redirect}', "sh", *HOLDTOP, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("kill", "--help"), ("status", "--plain")])
def test_a_full_stdout_is_a_failure_that_says_so(words: tuple[str, ...]) -> None:
    done = ask(*words, redirect=">/dev/full")
    assert done.returncode == 1
    assert done.stderr == "holdtop: cannot write to stdout: No space left on device\n"


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("kill", "--help")])
def test_a_closed_stdout_is_quiet(words: tuple[str, ...]) -> None:
    done = ask(*words, redirect=">&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_option_of_the_console_before_a_verb_is_told_so() -> None:
    done = ask("--read-only", "status")
    assert done.returncode == 2
    assert "'--read-only' belongs to the console; write: holdtop status" in done.stderr


def test_verify_does_not_follow(state: Box) -> None:
    done = state.verb("audit", "verify", "--follow")
    assert done.returncode == 2
    assert "verify" in done.stderr


def test_guard_lists_its_statuses() -> None:
    said = ask("guard", "--help").stdout
    assert [number for number in ("122", "123", "124", "125", "126/127") if number not in said] == []


def test_no_home_is_called_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    done = ask("run", "true")
    assert done.returncode == 125
    assert "HOME is not set, and there is no shared state directory" in done.stderr
