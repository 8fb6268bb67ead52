"""The files, in their order, and what a wrong one is told."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop import config
from holdtop.errors import ConfigError


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "system.toml"
    monkeypatch.setattr(config, "SYSTEM_FILE", str(path))
    return path


@pytest.fixture
def user(system: Path, box: Path) -> Path:
    path = box / "home/.config/holdtop/config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_without_files_the_defaults_hold(user: Path) -> None:
    assert config.load() == config.Config()


def test_the_later_source_wins(system: Path, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system.write_text('theme = "a"\nrefresh = 9\nstray_min_mib = 1\nlogs = ["/x"]\nkeys = {kill = "x", evict = "y"}\n')
    assert config.load().theme == "a"
    user.write_text('theme = "b"\nrefresh = 8\nstray_min_mib = 2\nkeys = {kill = "K"}\n')
    assert config.load().theme == "b"
    monkeypatch.setenv("HOLDTOP_REFRESH", "7.5")
    monkeypatch.setenv("HOLDTOP_STRAY_MIN_MIB", "3")
    loaded = config.load({"stray_min_mib": 4, "theme": None})
    assert (loaded.theme, loaded.refresh, loaded.stray_min_mib) == ("b", 7.5, 4)
    assert loaded.logs == ("/x",)
    assert loaded.keys == {"kill": "K", "evict": "y"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("teme = 'x'", ["'teme'", "'theme'"]),
        ("stray_minmib = 1", ["'stray_minmib'", "'stray_min_mib'"]),
        ("zzz = 1", ["'zzz'", "the nearest is"]),
        ("state_dir = '/x'", ["'state_dir'", "--state-dir"]),
        ("queue = '/x'", ["'queue'", "--state-dir"]),
        ("operators = ['me']", ["operators", "system.toml may name"]),
        ("refresh = true", ["refresh", "seconds"]),
        ("refresh = nan", ["refresh", "seconds"]),
        ("stray_min_mib = 1.5", ["stray_min_mib", "MiB"]),
        ('reasons = ["a\\u001b[31m"]', ["reasons", "one line"]),
        (f"reasons = {['r'] * 10}", ["reasons", "at most 9"]),
        ("reasons = 'stuck'", ["reasons", "list"]),
        ("logs = ['relative']", ["logs", "absolute"]),
        ("keys = {kill = 7}", ["keys", "action"]),
        ("theme = ", ["config.toml"]),
    ],
)
def test_a_wrong_file_is_told_file_key_and_remedy(user: Path, content: str, said: list[str]) -> None:
    user.write_text(content)
    with pytest.raises(ConfigError) as raised:
        config.load()
    text = str(raised.value)
    assert "\n" not in text
    assert [part for part in [str(user), *said] if part not in text] == []


def test_a_wrong_variable_is_named(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDTOP_REFRESH", "soon")
    with pytest.raises(ConfigError, match="HOLDTOP_REFRESH: refresh: must be a number of seconds"):
        config.load()


@given(content=st.binary(max_size=60))
def test_any_bytes_are_a_config_or_one_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(content)
    with contextlib.suppress(ConfigError):
        config.Config(**config.read(str(path)))  # type: ignore[arg-type]


def test_a_directory_in_its_place_is_an_error(user: Path) -> None:
    user.mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        config.load()


@pytest.mark.parametrize("kind", ["fifo", "device", "large"])
def test_what_is_no_file_is_an_error_at_once(user: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(user)
    elif kind == "device":
        user.symlink_to("/dev/zero")
    else:
        user.write_bytes(b"#" * (config.LARGEST + 1))
    with pytest.raises(ConfigError, match=f"{user}: .*(regular|larger)"):
        config.load()


def test_an_account_without_a_home_has_no_file(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_uid: int) -> NoReturn:
        raise KeyError("uid not found")

    system.write_text("refresh = 9")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert config.user_file() is None
    assert config.load().refresh == 9


def test_operators_are_the_systems_alone_and_a_broken_user_file_does_not_matter(system: Path, user: Path) -> None:
    me = pwd.getpwuid(os.geteuid()).pw_name
    system.write_text(f'operators = ["{me}", "4711", "no-such-account"]')
    user.write_text("broken")
    assert config.operator_uids() == {os.geteuid(), 4711}


def test_reading_the_systems_file_loads_no_platformdirs() -> None:
    code = "import sys; from holdtop import config; config.operator_uids(); print('platformdirs' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_every_key_is_documented_and_the_example_is_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/configuration.md").read_text()
    assert [one.name for one in fields(config.Config) if f"| `{one.name}` |" not in text] == []
    example = tmp_path / "example.toml"
    example.write_text(text.partition("```toml\n")[2].partition("```")[0])
    assert config.read(str(example), system=False)["theme"] == "light"
