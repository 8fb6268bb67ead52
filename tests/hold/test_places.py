"""One rule decides where queue, token and lock live: the whole table, and every refusal of it."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from holdtop.errors import PlaceError, UsageError
from holdtop.hold import places

STATES = ("installed", "directory only", "none")
VARIABLES = ("both", "queue only", "token only", "neither")
CASES = list(itertools.product(STATES, VARIABLES, ("gpu", "npu")))


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the box's shared state directory would be."""
    path = tmp_path / "shared"
    monkeypatch.setattr(places, "DEFAULT_STATE_DIR", str(path))
    return path


def prepare(shared: Path, state: str, resource: str) -> None:
    if state != "none":
        shared.mkdir()
    if state == "installed":
        (shared / f"{resource}-queue").mkdir()
        (shared / "npu.lock").touch()


@pytest.mark.parametrize(("state", "variables", "resource"), CASES)
def test_queue_token_and_lock_follow_the_same_rule(
    shared: Path, tmp_path: Path, box: Path, state: str, variables: str, resource: str
) -> None:
    prepare(shared, state, resource)
    (tmp_path / "own").mkdir()
    environ = {"HOME": str(box / "home")}
    if variables in ("both", "queue only"):
        environ[f"{resource.upper()}_QUEUE_DIR"] = str(tmp_path / "own" / "q")
    if variables in ("both", "token only"):
        environ[f"{resource.upper()}_TOKEN_FILE"] = str(tmp_path / "own" / "t")
    if variables in ("queue only", "token only"):
        with pytest.raises(PlaceError) as refused:
            places.resolve(resource, environ=environ)
        assert f"{resource.upper()}_QUEUE_DIR" in str(refused.value)
        assert f"{resource.upper()}_TOKEN_FILE" in str(refused.value)
        return
    found = places.resolve(resource, environ=environ)
    if variables == "both":
        expected = (tmp_path / "own" / "q", tmp_path / "own" / "t", tmp_path / "own" / "npu.lock")
    elif state == "none":
        name = resource.upper()
        expected = (box / f"home/{name}-QUEUE", box / f"home/{name}-TOKEN", box / "home/npu.lock")
    else:
        # A missing queue changes nothing: the directory decides for all three.
        expected = (shared / f"{resource}-queue", shared / f"{resource}-token", shared / "npu.lock")
    lock = str(expected[2]) if resource == "npu" else None
    assert (found.queue_path, found.token_path, found.lock_path) == (str(expected[0]), str(expected[1]), lock)
    with places.ensure(found) as queue:
        assert os.path.isdir(queue.path)
    assert not os.path.lexists(found.token_path), "a token that exists reads as held"


def test_flag_beats_variables_beats_directory_beats_home(shared: Path, tmp_path: Path, box: Path) -> None:
    shared.mkdir()
    for name in ("flag", "named"):
        (tmp_path / name).mkdir()
    environ = {
        "HOME": str(box / "home"),
        "ONEBIT_HOLD_DIR": str(tmp_path / "named"),
        "GPU_QUEUE_DIR": str(tmp_path / "q"),
        "GPU_TOKEN_FILE": str(tmp_path / "t"),
    }
    assert places.resolve("gpu", str(tmp_path / "flag"), environ).rule == "flag"
    assert places.resolve("gpu", None, environ).rule == "variables"
    del environ["GPU_QUEUE_DIR"], environ["GPU_TOKEN_FILE"]
    assert places.resolve("gpu", None, environ).rule == "state-dir-variable"
    del environ["ONEBIT_HOLD_DIR"]
    assert places.resolve("gpu", None, environ).rule == "default-state-dir"
    shared.rmdir()
    assert places.resolve("gpu", None, environ).rule == "home"


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_named_directory_must_exist(shared: Path, tmp_path: Path, box: Path, how: str) -> None:
    missing = str(tmp_path / "missing")
    environ = {"HOME": str(box / "home")} | ({"ONEBIT_HOLD_DIR": missing} if how == "variable" else {})
    with pytest.raises(PlaceError, match="missing"):
        places.resolve("gpu", missing if how == "flag" else None, environ)


@pytest.mark.parametrize("home", ["", "/nonexistent", "/proc"])
def test_a_home_that_is_missing_or_not_ours_is_no_fallback(
    shared: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if home == "/proc":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(PlaceError, match="--state-dir"):
        places.resolve("gpu", environ={"HOME": home})


def test_variables_that_name_the_npu_record_the_npu(shared: Path, tmp_path: Path) -> None:
    environ = {"GPU_QUEUE_DIR": str(tmp_path / "NPU-QUEUE"), "GPU_TOKEN_FILE": str(tmp_path / "NPU-TOKEN")}
    assert places.resolve("gpu", environ=environ).resource == "npu"


def test_a_dash_in_a_resource_is_an_underscore_in_its_variables(shared: Path, tmp_path: Path) -> None:
    environ = {"FOO_BAR_QUEUE_DIR": str(tmp_path / "q"), "FOO_BAR_TOKEN_FILE": str(tmp_path / "t")}
    assert places.resolve("foo-bar", environ=environ).rule == "variables"


def test_a_gate_that_names_its_lock_is_heeded(shared: Path, tmp_path: Path, box: Path) -> None:
    environ = {"HOME": str(box / "home"), "HW_GATE_LOCK": str(tmp_path / "gate.lock")}
    assert places.resolve("npu", environ=environ).lock_path == str(tmp_path / "gate.lock")


@pytest.mark.parametrize("name", ["all", "GPU", "1gpu", "", "a" * 33, "gpu/../x", "gpu\n", "gpü"])
def test_a_name_that_is_no_resource_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        places.check_resource(name)


def test_a_link_in_place_of_the_queue_is_not_followed(shared: Path, tmp_path: Path) -> None:
    shared.mkdir()
    victim = tmp_path / "victim"
    victim.mkdir()
    (shared / "gpu-queue").symlink_to(victim)
    with pytest.raises(PlaceError, match="gpu-queue"):
        places.ensure(places.resolve("gpu", environ={}))
    assert not list(victim.iterdir())
