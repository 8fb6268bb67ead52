"""The rendered unit: each directive in its section, silent under systemd's own check, and nothing injected."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdtop.errors import UsageError
from holdtop.host.runner import sizes, unit
from holdtop.host.runner.settings import SYSTEM_PATH, Settings

#: Every key that the unit may have, by its section.
KEYS = {
    "Unit": {"Description", "Wants", "After", "StartLimitIntervalSec"},
    "Service": {
        *("User", "WorkingDirectory", "ExecStart", "Environment", "Restart", "RestartSec", "KillMode"),
        *("TimeoutStopSec", "OOMPolicy", "MemoryHigh", "MemoryMax", "TasksMax", "Delegate"),
    },
    "Install": {"WantedBy"},
}
ODD_HOME = "/opt/50%zone/run ner/$x"
#: Text that somebody might mean as a value, with all that means something to systemd.
VALUES = st.text(alphabet=st.sampled_from("ab%n$\\\"'; #=[]\n\r\t\x00\x85\u2028é"), max_size=12)


def parsed(text: str) -> dict[str, list[tuple[str, str]]]:
    """Sections with their lines; of a key that stands twice both."""
    found: dict[str, list[tuple[str, str]]] = {}
    section: list[tuple[str, str]] = []
    for line in text.split("\n"):
        assert not line.endswith("\\"), "the next line would belong to it"
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            key, equals, rest = line.partition("=")
            assert equals
            section.append((key, rest))
    return found


def keys(text: str) -> dict[str, set[str]]:
    return {section: {key for key, _ in lines} for section, lines in parsed(text).items()}


def unquoted(word: str) -> str:
    """What systemd makes of one quoted word (systemd.syntax(7)): the escapes that it knows, then specifiers."""
    assert word[0] == word[-1] == '"'
    inner, out, rest = word[1:-1], "", iter(word[1:-1])
    for char in rest:
        if char == "\\":
            char = next(rest)
            assert char in '\\"', inner
        else:
            assert char != '"', inner
        out += char
    assert "%" not in out.replace("%%", ""), inner
    return out.replace("%%", "%")


@pytest.fixture
def analyze() -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd: systemd-analyze")


def test_what_keeps_a_runner_alive_stands_in_its_section() -> None:
    found = {section: dict(lines) for section, lines in parsed(unit.render(Settings())).items()}
    assert found["Unit"]["StartLimitIntervalSec"] == "0"
    service = found["Service"]
    wanted = {
        **{"Restart": "always", "RestartSec": "30", "OOMPolicy": "continue", "KillMode": "mixed"},
        **{"TasksMax": "8192", "TimeoutStopSec": "5min", "Delegate": "yes", "User": "ghrunner", "MemoryMax": "48G"},
    }
    assert {key: service[key] for key in wanted} == wanted
    assert not {key for key in service if key.startswith(("Private", "Protect"))}
    assert found["Install"] == {"WantedBy": "multi-user.target"}


def test_the_shared_tools_come_first_and_the_hold_state_is_named() -> None:
    text = unit.render(Settings(path_dirs=("/opt/fleet/bin",), environment=(("HW_GATE_MODELS", "/srv/m"),)))
    given_ = [unquoted(rest) for key, rest in parsed(text)["Service"] if key == "Environment"]
    assert given_ == [
        "PATH=" + ":".join(("/opt/fleet/bin", *SYSTEM_PATH)),
        "ONEBIT_HOLD_DIR=/var/lib/1bit-fleet",
        "HW_GATE_LOCK=/var/lib/1bit-fleet/npu.lock",
        "HW_GATE_MODELS=/srv/m",
    ]
    assert "HOLD_DIR" not in unit.render(Settings(state_dir=None))


@pytest.mark.usefixtures("analyze")
@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"system": False},
        {"home": ODD_HOME, "state_dir": "/srv/hold dir/50%"},
        {"memory_max": sizes.parse("infinity")},
        {"memory_max": sizes.parse("85%"), "memory_high": sizes.parse("80.5%")},
        {"memory_max": sizes.parse("1.5T"), "memory_high": sizes.parse("1.35T")},
        {"user": "gh-runner_2", "name": "a.b-c_d"},
        {"environment": (("A", "50% \\ \"q\" $x ${HOME} 'z' ;#\t\\"), ("B", ""))},
    ],
)
def test_systemd_has_nothing_to_say_of_it(chosen: dict[str, Any]) -> None:
    made = Settings(**chosen)
    assert unit.complaints(unit.render(made), made.unit) == []


@pytest.mark.usefixtures("analyze")
@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("OOMPolicy=continue", "OOMPolcy=continue"),
        ("KillMode=mixed", "KillMode=mixd"),
        ("Restart=always", "StartLimitIntervalSec=0"),
        ("MemoryMax=48G", "MemoryMax=48Gb"),
        ("User=ghrunner", "User=gh.runner"),
        ("WorkingDirectory=/var/lib/ghrunner/runner-main", "WorkingDirectory=/var/50%zone"),
    ],
)
def test_a_broken_line_does_not_pass_for_silence(line: str, broken: str) -> None:
    """Of an odd account name systemd-analyze only warns, and ends with 0."""
    made = Settings()
    text = unit.render(made)
    assert line in text.splitlines()
    assert unit.complaints(text.replace(line, broken), made.unit)


@pytest.mark.usefixtures("analyze")
@given(VALUES, VALUES)
@settings(max_examples=25)
def test_whatever_is_accepted_is_silent(variable: str, directory: str) -> None:
    try:
        made = Settings(environment=(("X", variable),), home=f"/srv/{directory}x")
    except UsageError:
        return
    assert unit.complaints(unit.render(made), made.unit) == []


@given(environment=VALUES, name=VALUES, user=VALUES, path_dirs=VALUES, home=VALUES, state_dir=VALUES)
@settings(max_examples=500)
def test_no_value_adds_a_directive(**words: str) -> None:
    """Each value alone, so that one refusal does not hide the others."""
    for key, word in words.items():
        place = f"/a{word}"
        forms: dict[str, Any] = {"environment": (("X", word),), "name": word, "user": word}
        forms |= {"path_dirs": (place,), "home": place, "state_dir": place}
        try:
            made = Settings(**{key: forms[key]})
        except UsageError:
            continue
        text = unit.render(made)
        allowed = {**KEYS, "Service": KEYS["Service"] - {"MemoryHigh"}}
        assert keys(text) == allowed
        lines = parsed(text)["Service"]
        assert [unquoted(rest) for one, rest in lines if one == "Environment"] == [
            f"{one}={rest}" for one, rest in made.variables.items()
        ]
        assert unquoted(dict(lines)["ExecStart"].removeprefix(":")) == made.program
        assert dict(lines)["WorkingDirectory"].replace("%%", "%") == made.directory


@pytest.mark.parametrize(
    "chosen",
    [
        {"name": "a\nExecStart=/bin/sh"},
        {"name": "../x"},
        {"user": "root"},
        {"user": "gh.runner"},
        {"home": 'opt/"q"'},
        {"home": '/opt/"q"'},
        {"home": "/opt/a\\"},
        {"home": "/opt/../root"},
        {"home": "/"},
        {"home": "/proc/x"},
        {"home": "/sys"},
        {"home": "/dev/shm/x"},
        {"home": "/etc/runner"},
        {"home": "/var/lib"},
        {"path_dirs": ("/proc/self/cwd",)},
        {"path_dirs": ("/a:/b",)},
        {"environment": (("A", "x\nUser=root"),)},
        {"environment": (("A\nUser=root", "x"),)},
        {"environment": (("PATH", "/tmp"),)},
        {"state_dir": "relative"},
        {"memory_high": sizes.parse("48G")},
    ],
)
def test_what_cannot_be_written_down_is_refused(chosen: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Settings(**chosen)


@pytest.mark.usefixtures("analyze")
def test_the_argv_that_systemd_would_run_is_what_was_meant(tmp_path: Path) -> None:
    """A program that exists is checked itself, with no stand-in: its path is read back as it is."""
    made = Settings(home=str(tmp_path / "50%zone" / "run ner" / "$x"))
    text = unit.render(made)
    assert unit.complaints(text, made.unit) == []
    program = Path(made.program)
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert unit.complaints(text, made.unit) == []


def holdtop(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdtop", "runner", *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.usefixtures("analyze")
def test_the_verb_prints_the_unit_and_nothing_else() -> None:
    done = holdtop("render", "--name", "two", "--memory-max", "512M", "--env", "A=b c")
    assert (done.returncode, done.stderr) == (0, "")
    config = configparser.RawConfigParser(strict=False, interpolation=None)
    config.read_string(done.stdout)
    assert config["Service"]["MemoryHigh"] == "460.8M"
    assert '"A=b c"' in done.stdout
    said = json.loads(holdtop("render", "--json").stdout)
    assert (said["unit"], said["complaints"]) == ("holdtop-runner-main.service", [])


@pytest.mark.usefixtures("analyze")
def test_a_unit_of_ones_own_manager() -> None:
    made = Settings(user="lane", home="/home/lane", system=False)
    text = unit.render(made)
    assert unit.complaints(text, made.unit) == []
    assert "User=" not in text
    assert "WantedBy=default.target" in text


def test_jobs_are_never_roots_whosever_manager_starts_them() -> None:
    with pytest.raises(UsageError, match="--user-manager as root: unreviewed jobs"):
        Settings(user="root", home="/root", system=False)


@pytest.mark.usefixtures("analyze")
def test_a_verdict_that_does_not_come_is_a_complaint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen as an error of ours before, with the whole command as its text."""
    monkeypatch.setattr(unit, "PATIENCE", 0.0)
    (said,) = unit.complaints(unit.render(Settings()), "x.service") or []
    assert said == "systemd-analyze verify could not judge the unit: it did not end within 0 s"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--memory-max", "32Mb"], sizes.ACCEPTED),
        (["--memory-max="], sizes.ACCEPTED),
        (["--memory-max", "48"], "'48' is 48 bytes, and 1 MiB (1048576) is the least: write 48G"),
        (["--memory-high", "48G"], "not below"),
        (["--env", "A"], "NAME=VALUE"),
        (["--env", "A=1", "--env", "B=1", "--env", "A=2"], "--env A: it is named twice"),
        (["--name", "one.service"], "without .service"),
        (["--home", "/var/lib/a "], "a blank at an end"),
        (["--state-dir", "/x", "--no-hold-state"], "one of them"),
        (["--user-manager", "--user", "x"], "runs as you"),
    ],
)
def test_a_refusal_prints_no_unit(words: list[str], why: str) -> None:
    done = holdtop("render", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert why in done.stderr


@pytest.mark.parametrize("name", ["GPU_QUEUE_DIR", "GPU_TOKEN_FILE", "NPU_QUEUE_DIR", "PATH"])
def test_no_variable_sends_a_job_to_another_queue(name: str) -> None:
    with pytest.raises(UsageError, match=f"--env {name}"):
        Settings(environment=((name, "/srv/other"),))
