"""What the commands say of themselves, and where nothing can be written."""

from __future__ import annotations

import subprocess
import sys

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


FACE = "import sys; from holdtop.cli.main import {0}_hold; sys.argv[0] = '{0}-hold'; sys.exit({0}_hold())"


def face(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FACE.format(name), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("name", ["gpu", "npu"])
def test_a_face_speaks_of_itself_and_of_its_own_resource(name: str, state: Box) -> None:
    said = face(name, "--help").stdout
    assert f"usage: {name}-hold" in said
    assert f"{name} (default)" in said
    bare = face(name)
    assert (bare.returncode, bare.stdout) == (2, "")
    assert bare.stderr.startswith(f"{name}-hold: needs a command: {name}-hold")
    done = face(name, "--state-dir", str(state.state), "printenv", "HOLDTOP_RESOURCE")
    assert done.returncode in (0, 1), done
    assert (state.state / f"{name}-queue").is_dir()


def test_a_wrong_option_points_to_the_verbs_own_help() -> None:
    done = ask("run", "--bogus", "true")
    assert done.returncode == 2
    assert "--bogus" in done.stderr
    assert "(holdtop run --help)" in done.stderr
