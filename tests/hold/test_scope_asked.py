"""Asking for a scope where nobody answers, or somebody says anything: one sentence, in time, and nowhere else."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from jeepney.low_level import Message  # type: ignore[import-untyped]

from holdtop import systemd
from holdtop.errors import HoldError, ScopeRefused
from holdtop.payload.containment import Mode, Place
from holdtop.systemd import UserScopes
from tests.hold.fake_bus import Talk, bus, greet, job_removed, ok, refusal, replying
from tests.hold.groups import group

NAME = "holdtop-test"
JOB = "/org/freedesktop/systemd1/job/7"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path}/bus")
    return tmp_path / "bus"


def refused(*, timeout: float = 0.4) -> str:
    """What is said to one who asks; it must come in time."""
    started = time.monotonic()
    with pytest.raises(ScopeRefused) as error:
        UserScopes(timeout).start(NAME, os.getpid())
    assert time.monotonic() - started < timeout + 10  # less than the slowest of the talkers here goes on
    assert str(error.value).isprintable()
    return str(error.value)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("unixexec:path=/bin/touch,argv1=made", "names no unix socket"),
        ("autolaunch:", "names no unix socket"),
        ("launchd:env=HOME", "names no unix socket"),
        ("unix:runtime=yes", "names no unix socket"),
        ("unix:path=bus", "bus is no absolute path"),
        ("unix:path=%2fa%00b", "is no absolute path"),
        ("x\x1b]52;c;\u202e", "DBUS_SESSION_BUS_ADDRESS=x?]52;c;?: names no unix socket"),
        ("unix:path=/nonexistent/b%75s", "/nonexistent/bus"),
        ("unix:path=" + "/x" * 300, "/x/x"),
        ("unix:abstract=nobody-listens-%41", "refused"),
    ],
)
def test_an_address_that_is_no_unix_socket_leads_nowhere(path: Path, address: str, said: str) -> None:
    os.environ["DBUS_SESSION_BUS_ADDRESS"] = address
    assert said in refused() or said in (UserScopes().why_not() or "")
    assert "refused" in said or said in (UserScopes().why_not() or ""), "known without asking"
    assert os.listdir(".") == []


def test_no_host_is_called(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = f"tcp:host=127.0.0.1,port={server.getsockname()[1]}"
        assert "names no unix socket" in refused()
        with pytest.raises(BlockingIOError):
            server.accept()


def test_without_variables_there_is_no_bus(path: Path) -> None:
    del os.environ["DBUS_SESSION_BUS_ADDRESS"]
    assert "neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set" in refused()
    os.environ["XDG_RUNTIME_DIR"] = str(path.parent)
    assert str(path) in (UserScopes().why_not() or "")
    path.touch()
    assert f"{path} is no socket" in (UserScopes().why_not() or "")
    path.unlink()
    with bus(path, lambda connection: None):
        assert "hung up" in refused()


def test_a_dead_bus_is_named_at_once(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert "Connection refused" in refused(timeout=20)


def _authenticate(connection: socket.socket) -> None:
    greet(connection)
    _wait(connection)


def _reject(connection: socket.socket) -> None:
    connection.sendall(b"REJECTED\x1b[2J\r\n")
    _wait(connection)


def _wait(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def _dribble(connection: socket.socket) -> None:
    greet(connection)
    for byte in bytes([*b"l\1\0\1", *(255 for _ in range(1000))]):
        connection.sendall(bytes([byte]))
        time.sleep(0.02)


def _flood(connection: socket.socket) -> None:
    greet(connection)
    signal = job_removed(JOB, "other.scope", "done").serialise(1)
    while True:
        connection.sendall(signal * 50)


def _nonsense(connection: socket.socket) -> None:
    greet(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" * 20)
    _wait(connection)


@pytest.mark.parametrize(
    ("talk", "said"),
    [
        pytest.param(_wait, "not answer within 0.4 s", id="accepts"),
        pytest.param(_authenticate, "not answer within 0.4 s", id="authenticates"),
        pytest.param(
            replying(lambda method, _: ok() if method == "Hello" else None), "not answer within 0.4 s", id="greets"
        ),
        pytest.param(
            replying(lambda method, _: ok("o", JOB) if method == "StartTransientUnit" else ok()),
            "not answer within 0.4 s",
            id="never ends the job",
        ),
        pytest.param(_dribble, "not answer within 0.4 s", id="a byte at a time"),
        pytest.param(_flood, "talks without end", id="floods"),
        pytest.param(_nonsense, "cannot be asked", id="another protocol"),
        pytest.param(greet, "hung up", id="hangs up"),
        pytest.param(_reject, "cannot be asked", id="rejects"),
    ],
)
def test_a_bus_that_never_answers_is_given_up(path: Path, talk: Talk, said: str) -> None:
    with bus(path, talk):
        message = refused(timeout=0.4 if "0.4 s" in said else 20)
    assert said in message


def test_the_managers_words_are_cleaned(path: Path) -> None:
    def answer(method: str, _: tuple[Any, ...]) -> Message:
        return refusal("x.y.Z", "no\x1b[2J\n\u202e" + "x" * 9000) if method == "StartTransientUnit" else ok()

    with bus(path, replying(answer)):
        message = refused()
    assert "refused: no?[2J??xxx" in message
    assert len(message) < 400


def test_what_the_manager_says_is_no_proof(path: Path) -> None:
    asked = []

    def talk(connection: socket.socket) -> None:
        def answer(method: str, body: tuple[Any, ...]) -> Message:
            if method != "StartTransientUnit":
                return ok()
            asked.append([name for name, _ in body[2]])
            if "OOMPolicy" in asked[-1]:
                return refusal(systemd.UNKNOWN_PROPERTY, "Cannot set property OOMPolicy, or unknown property.")
            connection.sendall(job_removed("/other/job", "x.scope", "failed").serialise(98))
            connection.sendall(job_removed(JOB, f"{NAME}.scope", "done").serialise(99))
            return ok("o", JOB)

        replying(answer)(connection)

    with bus(path, talk):
        message = refused()
    assert f"its start ended as done, and pid {os.getpid()} is in /" in message
    assert len(asked) == 2, "asked again without what an older manager does not know"
    assert {*asked[0]} - {*asked[1]} == {"OOMPolicy"}


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a@b", "..\0", "x" * 300, "\x1b[2J", "a\\x2db", "ä"])
def test_a_name_that_is_none_is_refused_before_anybody_is_asked(path: Path, name: str) -> None:
    with pytest.raises(ScopeRefused, match="no name for a scope") as error:
        UserScopes().start(name, os.getpid())
    assert str(error.value).isprintable()


@pytest.mark.parametrize("pid", [1, 0, -1])
def test_a_pid_that_means_somebody_else_is_refused(path: Path, pid: int) -> None:
    with pytest.raises(ScopeRefused, match=f"pid {pid} is never moved"):
        UserScopes().start(NAME, pid)


@pytest.mark.parametrize(
    ("place", "service"),
    [
        ("/", None),
        ("/user.slice/user-1000.slice/session-3.scope", None),
        ("/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", None),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope", None),
        ("/system.slice/runner.service", "runner.service"),
        ("/system.slice/runner.service/below/x.scope", "runner.service"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/a\u202eb.service", "a?b.service"),
        ("/lxc.payload.a/system.slice/x.socket", "x.socket"),
    ],
)
def test_out_of_a_service_no_scope_is_asked(place: str, service: str | None) -> None:
    reason = systemd.unit_reason(place)
    assert reason == (service and f"a scope would take the payload out of {service}, its limits and its stop")


def test_a_host_without_version_2_has_none() -> None:
    assert systemd.unit_reason(None) == "no version 2 cgroup hierarchy"


@pytest.mark.parametrize("mode", ["auto", "cgroup"])
def test_a_scope_with_others_in_it_is_not_the_payloads_own(mode: Mode) -> None:
    """Whatever a manager says: all that is in a payload's cgroup is ended with it."""
    with (
        subprocess.Popen(["sleep", "600"]) as stranger,
        subprocess.Popen(["sleep", "600"]) as root,
        group() as elsewhere,  # kills both at last
    ):
        elsewhere.put(stranger.pid)
        part = elsewhere.make("part")
        place = Place(NAME, mode, scope=lambda _name, pid: elsewhere.put(pid))
        with pytest.raises(HoldError, match="no cgroup of its own") if mode == "cgroup" else nullcontext():
            place.put(root.pid)
        assert place.groups == ()
        assert "cgroup" not in place.means
        assert f"pid {root.pid} has no cgroup of its own" in place.why
        assert os.path.exists(part.directory), "nothing is tidied up that is not ours"
