"""Which runners there are, read off the disk; whatever else lies there names none."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from holdtop.host.runner import watched

NAMES = ("one", "two.b", "", "-x", "a\nb", "\x1b[31m", "x" * 65, "one@1")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No manager answers; two accounts beside this one are logged in, one of them by a name that units cannot have."""
    monkeypatch.setattr(watched, "SYSTEM_UNITS", (str(tmp_path / "etc"), str(tmp_path / "usr")))
    monkeypatch.setattr(watched, "SYSTEM_RECORDS", str(tmp_path / "records"))
    monkeypatch.setattr(watched, "RUNTIME", str(tmp_path / "run"))
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus")
    people = {0: "root", 70001: "ann", 70002: "dana.b", os.geteuid(): pwd.getpwuid(os.geteuid()).pw_name}

    def entry(uid: int) -> pwd.struct_passwd:
        return pwd.struct_passwd((people[uid], "x", uid, uid, "", str(tmp_path / people[uid]), "/bin/sh"))

    monkeypatch.setattr("pwd.getpwuid", entry)
    for directory in ("etc", "usr", "records", "run/70001", "run/70002", "run/70003", "run/x"):
        (tmp_path / directory).mkdir(parents=True)
    for name in people.values():
        (tmp_path / name / watched.OWN_UNITS).mkdir(parents=True)
    return tmp_path


def found() -> list[tuple[str, str, str]]:
    return [(one.settings.unit, one.manager, one.why) for one in watched.installed()]


def test_a_box_without_runners_asks_nobody(places: Path) -> None:
    (places / "etc/other.service").touch()
    (places / "etc/holdtop-runner-one.service.d").mkdir()
    (places / "records/other.json").touch()
    assert found() == []
    assert watched.look().units == ()
    assert watched.look().why is None, "that there is none is known"


def test_units_and_records_name_a_runner_once_and_what_is_none_is_passed_by(places: Path) -> None:
    for name in NAMES:
        (places / f"etc/holdtop-runner-{name}.service").touch()
    (places / "usr/holdtop-runner-one.service").touch()
    for name in ("one", "removed"):
        (places / f"records/runner-{name}.json").touch()
    why = "the system's service manager cannot be asked: No such file or directory"
    assert found() == [(f"holdtop-runner-{name}.service", "system", why) for name in ("one", "removed", "two.b")]
    assert [(one.up, one.active_state, one.why) for one in watched.look().units] == [(None, "unknown", why)] * 3


def test_another_accounts_own_manager_is_not_asked_and_root_has_none(places: Path) -> None:
    for person in ("ann", "dana.b", "root"):
        (places / person / watched.OWN_UNITS / "holdtop-runner-mine.service").touch()
    told = [one for one in found() if one[1] != pwd.getpwuid(os.geteuid()).pw_name]
    assert told == [("holdtop-runner-mine.service", "ann", "the service manager of ann answers that account alone")]
    assert "root" not in {manager for _, manager, _ in told}
