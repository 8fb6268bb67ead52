"""A forge of a test: a real server on this box, that answers as it is told, over TLS when it has a certificate."""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECRET = "ghp_0123456789abcdef"
#: A path (with its query) -> status, headers, body; or what writes all that itself.
Answer = Callable[["Handler"], object]


class Handler(http.server.BaseHTTPRequestHandler):
    answer: Answer
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        with contextlib.suppress(OSError):  # whoever asked may have had enough
            type(self).answer(self)

    def give(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing of it belongs among a test's output."""


class Forge:
    """``url`` of a repository there; ``asked``: each path, with what it was authorised by."""

    def __init__(self, answer: Answer, certificate: Path | None) -> None:
        self.asked: list[tuple[str, str | None]] = []
        handler = type("Own", (Handler,), {"answer": staticmethod(answer), "asked": self.asked})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads, self.server.block_on_close = True, False
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://localhost:{self.server.server_port}/me/repo"


@contextlib.contextmanager
def forge(answer: Answer, certificate: Path | None = None) -> Iterator[Forge]:
    made = Forge(answer, certificate)
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()


def table(name: str, made: Forge, token_file: str) -> str:
    """Of the configuration: the runner ``name`` is registered there."""
    return f'[forges.{name}]\nkind = "gitea"\nurl = "{made.url}"\ntoken_file = "{token_file}"\n'


def listing(*runners: tuple[str, str], bare: bool = False) -> Answer:
    """All on the first page, as GitHub and Gitea have it, or ``bare`` as Forgejo."""
    entries = [{"id": n, "name": name, "status": state} for n, (name, state) in enumerate(runners)]

    def answer(handler: Handler) -> None:
        page = entries if handler.path.endswith("page=1") else []
        said: object = page if bare else {"total_count": len(entries), "runners": page}
        handler.give(json.dumps(said).encode())

    return answer


def certificate(directory: Path, name: str = "localhost") -> Path:
    """A key and a certificate that it has signed itself."""
    path = directory / f"{name}.pem"
    words = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(path), "-out", f"{path}.c"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run([*command, "-days", "2", *words], check=True, capture_output=True, timeout=30)
    path.write_bytes(path.read_bytes() + Path(f"{path}.c").read_bytes())
    return path
