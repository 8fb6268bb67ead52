"""Targets of notices: real programs, well and ill behaved; the real Apprise, at a server of the test."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdtop.errors import UsageError
from holdtop.model.standing import Notice
from holdtop.model.values import Flag
from holdtop.watch import notify
from holdtop.watch.notify import Target
from tests.hold.lanes import HOLDTOP, NAP, sleepers, until
from tests.watch.test_watch import ghost

GHOST = Flag("ghost", "warning", "gpu", "0000000001-5", (7,), "2026-01-01T00:00:00+00:00", "it is dead", "recover")
RAISED = Notice("raised", GHOST)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def write(body: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return f"exec:{path}"

    return write


def delivered(said: str, *notices: Notice) -> list[str]:
    """What was complained of once all was told."""
    complaints: list[str] = []
    target = Target(said, complaints.append)
    for notice in notices:
        target.tell(notice, "box")
    target.close(30)
    assert not target._thread.is_alive()
    return complaints


def test_a_program_is_given_one_object(program: Callable[[str], str], tmp_path: Path) -> None:
    assert delivered(program(f"cat >> {tmp_path}/told; echo >> {tmp_path}/told"), RAISED) == []
    said = json.loads((tmp_path / "told").read_text())
    assert (said["host"], said["state"], said["flag"]["kind"]) == ("box", "raised", "ghost")
    assert said["line"] == RAISED.line


def test_a_program_that_fails_is_tried_again(
    program: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "BETWEEN", 0.01)
    complaints: list[str] = []
    target = Target(program(f"echo x >> {tmp_path}/tries; echo oh no >&2; exit 3"), complaints.append)
    target.tell(RAISED, "box")
    until(lambda: complaints, 20)
    target.close(5)
    assert (tmp_path / "tries").read_text() == "x\n" * notify.TRIES
    (complaint,) = complaints
    assert complaint.endswith("could not be told: status 3: oh no")


def test_a_program_that_hangs_is_ended_with_what_it_started(
    program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "LONGEST", 1)
    monkeypatch.setattr(notify, "TRIES", 1)
    (complaint,) = delivered(program(f"trap '' TERM; setsid sleep {NAP} & sleep {NAP}"), RAISED)
    assert "status 124" in complaint
    assert sleepers() == []


def test_whoever_hangs_holds_up_itself_alone(program: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "KEPT", 2)
    complaints: list[str] = []
    target = Target(program(f"sleep {NAP}"), complaints.append)
    began = time.monotonic()
    for _ in range(5):
        target.tell(RAISED, "box")
    assert time.monotonic() - began < 5
    assert len(complaints) in (2, 3), "one may be under way already"
    assert all("2 notices behind; it is not told: raised warning ghost" in one for one in complaints)
    until(sleepers)
    for pid in sleepers():
        os.kill(pid, signal.SIGKILL)
    target._due.queue.clear()
    target.close(10)


@pytest.mark.parametrize(("said", "why"), [("exec:here", "whole path"), ("exec:", "whole path"), ("mail me", "PATH")])
def test_what_is_no_target(said: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Target(said, print)


def test_a_program_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "TRIES", 1)
    (complaint,) = delivered(f"exec:{tmp_path}/none", RAISED)
    assert "status 127" in complaint


#: The verb's own target in a process of its own: Apprise warns of its Python as it is loaded.
TELL = """
import json, sys
from holdtop.model.values import Flag
from holdtop.watch import notify
from holdtop.model.standing import Notice
notify.TRIES = 1
address, *states = sys.argv[1:]
target = notify.Target(address, lambda said: print(said, file=sys.stderr))
hot = Flag("hot", "critical", "gpu", None, (), "", "<b>hot</b> *and* [x](http://e)", "cool")
for state in states:
    target.tell(Notice(state, hot), "box")
target.close(30)
"""


def apprise(address: str, *states: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", TELL, address, *states], capture_output=True, text=True, timeout=60)


def test_an_address_goes_to_apprise() -> None:
    """The real one, which posts to a server of this test; its password is never said."""
    posted: list[tuple[str, str, dict[str, str]]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posted.append((self.path, self.headers["Authorization"], content))
            self.send_response(500 if content["type"] == "success" else 200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        done = apprise(f"json://ann:secret@127.0.0.1:{server.server_port}/hook", "raised", "resolved")
        server.shutdown()
        serving.join()
    assert done.returncode == 0, done.stderr
    ((path, login, raised), (_, _, resolved)) = posted
    assert (path, login) == ("/hook", f"Basic {base64.b64encode(b'ann:secret').decode()}")
    assert (raised["title"], raised["type"]) == ("holdtop on box: hot raised", "failure")
    assert raised["message"] == "raised critical hot (gpu): <b>hot</b> *and* [x](http://e); remedy: cool"
    assert (resolved["title"], resolved["type"]) == ("holdtop on box: hot resolved", "success")
    assert "json:// could not be told: Apprise says that it was not sent" in done.stderr
    unknown = apprise("odd://ann:secret@localhost")
    assert "Apprise does not know an address like this odd://" in unknown.stderr
    assert "secret" not in done.stdout + done.stderr


def test_a_fault_of_apprise_is_a_notice_that_was_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its services raise what they like."""

    class Odd:
        def add(self, address: str) -> bool:
            return True

        def notify(self, **_: str) -> bool:
            raise TypeError("odd")

    monkeypatch.setattr(notify, "TRIES", 1)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: True)
    monkeypatch.setattr("importlib.import_module", lambda _name: SimpleNamespace(Apprise=Odd))
    assert delivered("json://localhost", RAISED) == ["json:// could not be told: TypeError: odd"]


def test_without_apprise_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match=r"holdtop\[notify\]"):
        Target("json://localhost", print)


def test_the_verb_tells_raised_and_resolved(tmp_path: Path, program: Callable[[str], str]) -> None:
    box, told = ghost(tmp_path), tmp_path / "told"
    words = [*HOLDTOP, "watch", "--state-dir", str(box.state), "--notify", program(f"cat >> {told}; echo >> {told}")]
    env = {**os.environ, "HOLDTOP_REFRESH": "0.3"}
    with subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL) as watch:
        until(lambda: told.exists() and "raised" in told.read_text(), 30)
        time.sleep(1)
        assert box.verb("recover", "--yes", "--reason", "over").returncode == 0
        until(lambda: "resolved" in told.read_text(), 30)
        watch.terminate()
        assert watch.wait(20) == 0
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    assert [line["state"] for line in lines if line["flag"]["kind"] == "ghost"] == ["raised", "resolved"]
