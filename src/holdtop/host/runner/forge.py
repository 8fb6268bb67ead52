"""Whether a runner is online, as its forge says it: a unit that is active is not yet one that jobs reach.

The token goes to the host that the configuration names and to no other: TLS is checked, no redirect followed, no proxy
used. Of an answer nothing is shown but the one word that is looked for, so neither forge nor token reaches a screen.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import holdtop
from holdtop.config import Forge
from holdtop.errors import HoldtopError, UnseenError
from holdtop.host.runner import secret
from holdtop.host.values import Online
from holdtop.model.values import Registered
from holdtop.sampler.source import Source

#: How often a forge is asked, and for a whole answer, in seconds.
PERIOD, DEADLINE = 60.0, 10.0
#: Seconds for which the first look at a runner waits for its forge.
PATIENCE = 1.0
#: Without an answer for so long the last one counts no more, in seconds.
STALE = 30.0
#: Bytes of an answer; how many pages of a list are asked for.
LARGEST, MOST_PAGES = 1 << 20, 10
#: What each forge calls a runner's state: GitHub and Gitea the first two, Forgejo the last three.
_WORDS: Mapping[str, Registered] = {"online": "online", "offline": "offline", "idle": "online", "active": "online"}
_REFUSED = {
    401: "it does not accept the token",
    403: "the token may not read the list of runners",
    404: "it knows no such place, or does not show it to this token",
    429: "it was asked too often",
}
_GARBLED = "its answer was not understood"


class Forges:
    """Each forge of the configuration, asked in a daemon thread of its own as soon as there is such a runner."""

    def __init__(self, configured: Mapping[str, Forge]) -> None:
        self._configured = configured
        self._sources: dict[str, Source[Online]] = {}

    def newest(self, names: list[str]) -> dict[str, Online]:
        """Of each runner, by name. Waits for those alone that have never answered, and not for long."""
        until = time.monotonic() + PATIENCE
        for name in set(names) & self._configured.keys():
            if name not in self._sources:
                read = partial(ask, name, self._configured[name])
                self._sources[name] = Source(f"forge of {name}", read, PERIOD)
            self._sources[name].ask()
        return {name: _newest(self._sources.get(name), until) for name in names}


def _newest(source: Source[Online] | None, until: float) -> Online:
    if source is None:
        return Online()
    if source.newest is None:
        source.wait(until)
    silent = source.silent_for or 0.0
    if source.newest is None or silent > STALE:
        return Online(why=f"its forge has not answered yet, asked {silent:.0f} s ago")
    return source.newest[0]


def ask(name: str, forge: Forge | None) -> Online:
    """What the forge of the runner ``name`` says. Blocks for ``DEADLINE`` at most, and for the name of its host."""
    if forge is None:
        return Online()
    try:
        return _of(forge.runner or name, list(_listed(forge, secret.read(forge.token_file))))
    except HoldtopError as error:
        return Online(why=str(error))


def _of(name: str, listed: list[tuple[str, str]]) -> Online:
    """By name, of which a forge may have several."""
    states = {_WORDS.get(word) for other, word in listed if other == name}
    if not states:
        return Online(why=f"its forge lists {len(listed)} runners there, and none is called {name}")
    if len(states) > 1:
        return Online(why=f"its forge lists several runners called {name}, and not all are alike")
    (state,) = states
    return Online(state, None) if state else Online(why=f"its forge: {_GARBLED}")


def _listed(forge: Forge, token: str) -> Iterator[tuple[str, str]]:
    """Name and state of each runner there. Raises ``UnseenError``."""
    url, until, seen = urlsplit(forge.url), time.monotonic() + DEADLINE, 0
    if forge.kind == "github":
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        url, query = _of_github(url), "per_page=100&page={}"
    else:
        headers = {"Authorization": f"token {token}", "Accept": "application/json"}
        url, query = url._replace(path=f"/api/v1{_place(url)}"), "visible=true&limit=50&page={}"
    headers["User-Agent"] = f"holdtop/{holdtop.__version__}"
    for page in range(1, MOST_PAGES + 1):
        entries, total = _entries(_answer(url._replace(query=query.format(page)), headers, until))
        yield from entries
        seen += len(entries)
        if not entries or seen == total:
            return


def _of_github(url: SplitResult) -> SplitResult:
    """Where its interface is: on a host of its own, or below the path of an Enterprise Server."""
    if url.hostname == "github.com":
        return url._replace(netloc="api.github.com", path=_place(url))
    return url._replace(path=f"/api/v3{_place(url)}")


def _place(url: SplitResult) -> str:
    """Of a repository or an organisation, as all of them call it."""
    parts = [quote(part, safe="") for part in url.path.strip("/").split("/")]
    return f"/{'repos' if len(parts) > 1 else 'orgs'}/{'/'.join(parts)}/actions/runners"


def _entries(body: bytes) -> tuple[list[tuple[str, str]], object]:
    """Forgejo's answer is the list itself. How many there are in all, where it says that. Raises ``UnseenError``."""
    try:
        said: Any = json.loads(body)
        found, total = (said["runners"], said.get("total_count")) if isinstance(said, dict) else (said, None)
        entries = [(one["name"], one["status"]) for one in found or ()]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UnseenError(f"its forge: {_GARBLED}") from error
    if not all(isinstance(text, str) for entry in entries for text in entry):
        raise UnseenError(f"its forge: {_GARBLED}")
    return entries, total


def _answer(url: SplitResult, headers: Mapping[str, str], until: float) -> bytes:
    """The body of one answer. Raises ``UnseenError`` with what is wrong, in which nothing of the answer stands."""
    try:
        status, body = _exchange(url, headers, until)
    except ssl.SSLCertVerificationError as error:
        raise UnseenError(f"{url.hostname} is not who it says: {error.verify_message}") from error
    except (OSError, http.client.HTTPException) as error:
        late = time.monotonic() >= until
        why = f"no whole answer within {DEADLINE:.0f} s" if late else getattr(error, "strerror", None) or _GARBLED
        raise UnseenError(f"{url.hostname} could not be asked: {why}") from error
    if 300 <= status < 400:
        raise UnseenError(f"{url.hostname} sends on to another place ({status}), where the token does not belong")
    if status != 200:
        raise UnseenError(f"{url.hostname}: {_REFUSED.get(status, 'it did not answer')} ({status})")
    if len(body) > LARGEST:
        raise UnseenError(f"{url.hostname}: its answer is larger than {LARGEST >> 20} MiB")
    return body


def _exchange(url: SplitResult, headers: Mapping[str, str], until: float) -> tuple[int, bytes]:
    """Status and body, whose bytes may come one by one: at ``until`` the connection is shut, wherever this waits."""
    host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    left = max(0.0, until - time.monotonic())
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    with contextlib.ExitStack() as over:
        opened = over.enter_context(socket.create_connection((host, port), left))
        timer = threading.Timer(max(0.0, until - time.monotonic()), _shut, [over.enter_context(opened.dup())])
        timer.daemon = True
        timer.start()
        over.callback(timer.cancel)
        if url.scheme == "https":
            opened = over.enter_context(ssl.create_default_context().wrap_socket(opened, server_hostname=host))
        connection = kind(host, port)
        connection.sock = opened
        connection.request("GET", f"{url.path}?{url.query}", headers=dict(headers))
        answer = over.enter_context(connection.getresponse())
        body = answer.read(LARGEST + 1)
        if answer.length and len(body) <= LARGEST:
            raise http.client.IncompleteRead(body, answer.length)
    if time.monotonic() >= until:
        raise TimeoutError
    return answer.status, body


def _shut(opened: socket.socket) -> None:
    """Closes nothing: whoever reads it gets the end of it."""
    with contextlib.suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
