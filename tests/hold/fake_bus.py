"""A message bus that behaves as a test says, on a socket of its own; one connection, served by a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import jeepney  # type: ignore[import-untyped]
from jeepney.low_level import HeaderFields, Message, MessageType  # type: ignore[import-untyped]

Talk = Callable[[socket.socket], object]
Answers = Callable[[str, tuple[Any, ...]], "Message | None"]


def replying(answers: Answers) -> Talk:
    """Authenticate, then answer each call by its method's name and body; ``None`` is no answer."""

    def talk(connection: socket.socket) -> None:
        data = greet(connection)
        parser, serials = jeepney.Parser(), count(1)
        while data := data or connection.recv(4096):
            calls, data = parser.feed(data), b""
            for call in calls:
                answer = answers(call.header.fields[HeaderFields.member], call.body)
                if answer is not None:
                    answer.header.fields[HeaderFields.reply_serial] = call.header.serial
                    connection.sendall(answer.serialise(next(serials)))

    return talk


def greet(connection: socket.socket) -> bytes:
    """The bus's side of the authentication (D-Bus specification, EXTERNAL); gives what came behind it."""
    assert connection.recv(1024)
    connection.sendall(b"OK 0123456789abcdef0123456789abcdef\r\n")
    said = b""
    while b"BEGIN\r\n" not in said and (data := connection.recv(4096)):
        said += data
    return said.partition(b"BEGIN\r\n")[2]


def ok(signature: str = "s", *body: Any) -> Message:
    """A method's return."""
    message = jeepney.new_method_call(jeepney.DBusAddress("/x", "x.y", "x.y"), "X", signature, body or (":1.1",))
    message.header.message_type = MessageType.method_return
    return message


def refusal(name: str, words: str) -> Message:
    message = ok("s", words)
    message.header.message_type = MessageType.error
    message.header.fields[HeaderFields.error_name] = name
    return message


def job_removed(job: str, unit: str, result: str) -> Message:
    address = jeepney.DBusAddress("/org/freedesktop/systemd1", None, "org.freedesktop.systemd1.Manager")
    return jeepney.new_signal(address, "JobRemoved", "uoss", (1, job, unit, result))


@contextmanager
def bus(path: Path, talk: Talk) -> Iterator[None]:
    """One at ``path``, which must be short (unix(7): 107 bytes)."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(10)

        def serve() -> None:
            with suppress(OSError), listener.accept()[0] as connection:
                connection.settimeout(10)
                talk(connection)

        server = threading.Thread(target=serve)
        server.start()
        try:
            yield
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # ends an accept that waits
            server.join(20)
            assert not server.is_alive()
