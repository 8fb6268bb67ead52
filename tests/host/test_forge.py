"""What a forge says of a runner: asked of a real server, which may be slow, huge, hostile or not there."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop import config
from holdtop.errors import ConfigError
from holdtop.host.runner import forge as asking
from holdtop.host.values import Online
from tests.host.forges import SECRET, Answer, Forge, Handler, certificate, forge, listing

REPO = "/repos/me/repo/actions/runners"
HUGE = b"[" + b"1," * (1 << 20) + b"1]"


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


def ask(at: Forge, token: Path, kind: str = "forgejo", runner: str = "") -> Online:
    """By the configuration, as everybody who asks has it."""
    said = {"kind": kind, "url": at.url, "token_file": str(token), "runner": runner}
    return asking.ask("one", config._forges({"one": said})["one"])


@pytest.mark.parametrize(
    ("kind", "answer", "path", "authorised"),
    [
        ("github", listing(("one", "online")), f"/api/v3{REPO}?per_page=100&page=1", "Bearer"),
        ("gitea", listing(("one", "online")), f"/api/v1{REPO}?visible=true&limit=50&page=1", "token"),
        ("forgejo", listing(("one", "idle"), bare=True), f"/api/v1{REPO}?visible=true&limit=50&page=1", "token"),
        ("forgejo", listing(("one", "active"), bare=True), f"/api/v1{REPO}?visible=true&limit=50&page=1", "token"),
    ],
)  # fmt: skip
def test_each_forge_is_asked_in_its_form(kind: str, answer: Answer, path: str, authorised: str, token: Path) -> None:
    with forge(answer) as made:
        assert ask(made, token, kind) == Online("online", None)
    assert made.asked[0] == (path, f"{authorised} {SECRET}")


def test_github_itself_answers_on_a_host_of_its_own() -> None:
    wanted = {
        "https://github.com/me/repo": "https://api.github.com/repos/me/repo/actions/runners",
        "https://github.com/org": "https://api.github.com/orgs/org/actions/runners",
        "https://forge.example:8443/org/": "https://forge.example:8443/api/v3/orgs/org/actions/runners",
    }
    assert {url: asking._of_github(urlsplit(url)).geturl() for url in wanted} == wanted


@pytest.mark.parametrize(
    ("listed", "state", "why"),
    [
        ([("one", "offline"), ("two", "online")], "offline", None),
        ([("two", "online")], "unknown", "its forge lists 1 runners there, and none is called one"),
        ([("one", "online"), ("one", "offline")], "unknown", "several runners called one, and not all are alike"),
        ([("one", "offline"), ("one", "offline")], "offline", None),
        ([("one", "\x1b[2J")], "unknown", "its answer was not understood"),
    ],
)
def test_the_runner_is_found_by_its_name(listed: list[tuple[str, str]], state: str, why: str, token: Path) -> None:
    with forge(listing(*listed)) as made:
        said = ask(made, token, "github")
    assert said.state == state
    assert (said.why or "").endswith(why or "")
    assert (said.why is None) == (why is None)


def test_a_runner_on_a_later_page_and_by_another_name(token: Path) -> None:
    def answer(handler: Handler) -> None:
        page = int(handler.path.rpartition("=")[2])
        entries = [{"name": f"r{page}-{n}", "status": "idle"} for n in range(50)] if page < 4 else []
        handler.give(json.dumps(entries).encode())

    with forge(answer) as made:
        assert ask(made, token, runner="r3-49") == Online("online", None)


def endless(handler: Handler) -> None:
    """A byte now and then, for ever: no single wait is long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n[")
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.02)


def endless_head(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        handler.wfile.write(b"x")
        time.sleep(0.02)


HOSTILE: dict[str, tuple[Answer, str]] = {
    "huge": (lambda it: it.give(HUGE), "its answer is larger than 1 MiB"),
    "garbled": (lambda it: it.give(b"\xff\x00<html>"), "its answer was not understood"),
    "deep": (lambda it: it.give(b"[" * 400_000), "its answer was not understood"),
    "number": (lambda it: it.give(b"[" + b"9" * 9000 + b"]"), "its answer was not understood"),
    "other": (lambda it: it.give(b'{"runners": 7}'), "its answer was not understood"),
    "odd": (lambda it: it.give(b'{"runners": [{"name": "one", "status": ["online"]}]}'), "was not understood"),
    "none": (lambda it: it.give(b"null"), "lists 0 runners there, and none is called one"),
    "no http": (lambda it: it.wfile.write(b"\x16\x03\x01SSH-2.0\r\n\r\n"), "its answer was not understood"),
    "short": (lambda it: it.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[]"), "was not understood"),
    "401": (lambda it: it.give(b"", 401), "it does not accept the token (401)"),
    "403": (lambda it: it.give(b"", 403), "may not read the list of runners (403)"),
    "404": (lambda it: it.give(b"", 404), "it knows no such place, or does not show it to this token (404)"),
    "500": (lambda it: it.give(b"", 500), "it did not answer (500)"),
    "slow": (endless, "no whole answer within"),
    "slow head": (endless_head, "no whole answer within"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_whatever_else_it_answers_is_unknown(name: str, token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("slow"):
        monkeypatch.setattr(asking, "DEADLINE", 0.5)
    answer, why = HOSTILE[name]
    with forge(answer) as made:
        started = time.monotonic()
        said = ask(made, token)
    assert time.monotonic() - started < asking.DEADLINE + 8
    assert said.state == "unknown"
    assert said.why is not None
    assert why in said.why
    assert SECRET not in said.why


def test_the_token_follows_no_redirect(token: Path) -> None:
    with forge(listing(("one", "online"))) as other, forge(lambda it: it.give(b"", 302, Location=other.url)) as made:
        said = ask(made, token)
    assert said == Online(why="localhost sends on to another place (302), where the token does not belong")
    assert (len(made.asked), other.asked) == (1, [])


def test_no_proxy_gets_the_token(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with forge(listing(("one", "online"))) as proxy, forge(listing(("one", "offline"))) as made:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert ask(made, token).state == "offline"
    assert proxy.asked == []


def test_over_tls_it_has_to_be_who_it_says(token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, others = certificate(tmp_path), certificate(tmp_path, "elsewhere")
    with forge(listing(("one", "online")), own) as made:
        said = ask(made, token)
        assert said.why is not None
        assert said.why.startswith("localhost is not who it says: self")
        assert made.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
        assert ask(made, token) == Online("online", None)
    monkeypatch.setenv("SSL_CERT_FILE", str(others))
    with forge(listing(("one", "online")), others) as made:
        said = ask(made, token)
        assert said.why is not None
        assert "is not who it says: Hostname mismatch" in said.why
        assert made.asked == []


def test_a_handshake_that_never_ends_is_shut(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "DEADLINE", 0.5)
    with socket.create_server(("localhost", 0)) as silent:
        made = config.Forge("gitea", f"https://localhost:{silent.getsockname()[1]}/me/repo", str(token))
        said = asking.ask("one", made)
    assert said == Online(why="localhost could not be asked: no whole answer within 0 s")


def test_offline_it_is_unknown(token: Path) -> None:
    with socket.create_server(("localhost", 0)) as gone:
        port = gone.getsockname()[1]
    said = asking.ask("one", config.Forge("gitea", f"http://localhost:{port}/me/repo", str(token)))
    assert said == Online(why="localhost could not be asked: Connection refused")
    nowhere = asking.ask("one", config.Forge("gitea", "https://nowhere.invalid/me/repo", str(token)))
    assert nowhere.why is not None
    assert nowhere.why.startswith("nowhere.invalid could not be asked: ")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (SECRET, 0o640, "may be read by others: chmod 0600"),
        (SECRET, 0o604, "may be read by others: chmod 0600"),
        (SECRET, 0o620, "may be read by others: chmod 0600"),
        ("", 0o600, "is no token"),
        (f"{SECRET} {SECRET}", 0o600, "is no token"),
        (f"{SECRET}\r\nX: y", 0o600, "is no token"),
        ("\xe9", 0o600, "is no token"),
    ],
)
def test_a_token_that_others_may_read_is_not_used(content: str, mode: int, why: str, token: Path) -> None:
    token.write_text(content)
    token.chmod(mode)
    with forge(listing(("one", "online"))) as made:
        said = ask(made, token)
    assert (said.state, made.asked) == ("unknown", [])
    assert said.why is not None
    assert why in said.why
    assert SECRET not in said.why


def test_a_pipe_a_link_or_nothing_is_no_token_file(token: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(token)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with forge(listing(("one", "online"))) as made:
        said = [ask(made, tmp_path / name).why for name in ("link", "pipe", "nothing")]
    assert made.asked == []
    assert [(text or "").rpartition(str(tmp_path))[2] for text in said] == [
        "/link: Too many levels of symbolic links",
        "/pipe is no regular file of one name",
        "/nothing: No such file or directory",
    ]


def test_a_watch_is_not_kept_waiting_and_asks_once_a_minute(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One forge answers, one hangs; nobody asks for a runner that is not there."""
    monkeypatch.setattr(asking, "PATIENCE", 0.3)
    hang = threading.Event()
    with forge(listing(("one", "online"))) as well, forge(lambda _: hang.wait(60)) as stuck:
        tables = {name: {"kind": "gitea", "url": at.url, "token_file": str(token)}
                  for name, at in (("one", well), ("two", stuck), ("absent", stuck))}  # fmt: skip
        forges = asking.Forges(config._forges(tables))
        started = time.monotonic()
        first = forges.newest(["one", "two", "three"])
        for _ in range(20):
            assert forges.newest(["one"])["one"] == Online("online", None)
        assert time.monotonic() - started < 5
        hang.set()
    assert first["three"] == Online()
    assert first["two"].why is not None
    assert first["two"].why.startswith("its forge has not answered yet")
    assert (len(well.asked), len(stuck.asked)) == (1, 1)


@given(st.text(alphabet="/@?#.%[]:\\ \r\n\tab-_\u2025é", max_size=16))
def test_an_address_names_one_host_and_one_place(rest: str) -> None:
    """What is accepted leads nowhere else, and no line of a request can be added by it."""
    url = f"https://forge.example{rest}"
    if not config._is_forge(url):
        return
    parts = urlsplit(url)
    assert re.fullmatch(r"forge\.example[a-z0-9.:-]*", parts.netloc)
    assert re.fullmatch(r"/(repos/[\w.-]+/[\w.-]+|orgs/[\w.-]+)/actions/runners", asking._place(parts), re.ASCII)
    assert "/../" not in asking._place(parts)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"url": "http://forge.example/me/repo"}, "url: must be https"),
        ({"url": f"https://me:{SECRET}@forge.example/me/repo"}, "url: must be https"),
        ({"url": f"https://forge.example/me/repo?token={SECRET}"}, "url: must be https"),
        ({"url": "https://forge.example/a/b/c"}, "url: must be https"),
        ({"url": "https://forge.example/"}, "url: must be https"),
        ({"url": "https://forge.example/../repo"}, "url: must be https"),
        ({"url": "https://forge.example/me/re%0d%0apo"}, "url: must be https"),
        ({"url": "https://forge.example:0/me/repo"}, "url: must be https"),
        ({"url": "https://[::1/me/repo"}, "url: must be https"),
        ({"url": "file:///etc/passwd"}, "url: must be https"),
        ({"kind": "gitlab"}, "kind: must be github, forgejo or gitea"),
        ({"token_file": "token"}, "token_file: must be an absolute path"),
        ({"token": SECRET}, "there is no key 'token', only kind, url, token_file, runner; a token lies in a file"),
        ({"url": ""}, "url must be said"),
        ({"runner": 7}, "must be a table of texts"),
    ],
)
def test_a_wrong_table_is_refused_and_no_value_of_it_told(said: dict[str, object], why: str, tmp_path: Path) -> None:
    table = {"kind": "gitea", "url": "https://forge.example/me/repo", "token_file": "/x", **said}
    path = tmp_path / "config.toml"
    path.write_text("[forges.one]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items()))
    with pytest.raises(ConfigError) as raised:
        config.read(str(path))
    assert f"{path}: forges: one: " in str(raised.value)
    assert why in str(raised.value)
    assert SECRET not in str(raised.value)
