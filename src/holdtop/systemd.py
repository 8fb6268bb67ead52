"""A scope that the user's own service manager makes around a payload, where a hold may make no cgroup itself.

It is asked over the user's bus, never the system's: org.freedesktop.systemd1(5) (StartTransientUnit, JobRemoved),
systemd.scope(5). What answers there may be anything, so the conversation is bounded in time and size, its words are
cleaned, and not its answer counts in the end but the cgroup that the kernel shows.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from holdtop.errors import ScopeRefused
from holdtop.payload.cgroup import path_of

MANAGER = "org.freedesktop.systemd1"
#: More than this from the bus, in bytes, is no answer to our few questions.
MOST_BYTES = 1 << 20
#: Said of a property that this version does not have (OOMPolicy of a scope: systemd 253).
UNKNOWN_PROPERTY = "org.freedesktop.DBus.Error.PropertyReadOnly"
#: Units with a command of their own, that their manager limits and stops by its cgroup.
_SERVICES = (".service", ".socket", ".mount", ".swap")


class UserScopes:
    """A ``ScopeMaker`` (``payload.containment``): scopes of the service manager of the user that we are."""

    def __init__(self, timeout: float = 5.0) -> None:
        """``timeout``: how long a start may take in all, in seconds."""
        self._timeout = timeout

    def why_not(self) -> str | None:
        """Why no scope may be asked for, as far as can be told without asking; ``None`` when one may.

        A scope lies elsewhere in the tree. From a login session that is no loss, but out of a *service* it would
        take the payload away from the unit's limits and from its stop.
        """
        try:
            path = bus_path()
            if not path.startswith("\0") and not stat.S_ISSOCK(os.stat(path).st_mode):
                return clean(f"{path} is no socket")
        except OSError as error:
            return clean(f"no user bus: {error.filename}: {error.strerror}")
        except ScopeRefused as error:
            return str(error)
        return unit_reason(path_of(os.getpid()))

    def start(self, name: str, pid: int) -> None:
        """Move ``pid`` into the new scope ``NAME.scope``, delegated to this account.

        Returns when the kernel shows it there. Raises ``ScopeRefused`` otherwise, in time.
        """
        if not re.fullmatch(r"[A-Za-z0-9:_.-]{1,200}", name):
            raise ScopeRefused(clean(f"no name for a scope (letters, digits and :_.- only, 200 at most): {name!r}"))
        unit = f"{name}.scope"
        if pid <= 1:
            raise ScopeRefused(f"{unit}: pid {pid} is never moved")
        try:
            with _Bus(bus_path(), time.monotonic() + self._timeout) as bus:
                result = _start(bus, unit, pid)
        except ScopeRefused as error:
            raise ScopeRefused(f"{unit}: {error}") from error
        except TimeoutError as error:
            text = f"{unit}: the user's service manager did not answer within {self._timeout:g} s"
            raise ScopeRefused(text) from error
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ScopeRefused(f"{unit}: the user's bus hung up") from error
        except Exception as error:  # whatever a parser makes of a bus that talks nonsense
            raise ScopeRefused(clean(f"{unit}: the user's service manager cannot be asked: {error}")) from error
        place = path_of(pid)
        if place is None or os.path.basename(place) != unit:
            raise ScopeRefused(clean(f"{unit}: its start ended as {result}, and pid {pid} is in {place}"))


def unit_reason(cgroup: str | None) -> str | None:
    """Why a process in this cgroup is to stay where it is; ``None`` when it need not."""
    if cgroup is None:
        return "no version 2 cgroup hierarchy"
    service = next(filter(_is_service, cgroup.split("/")), None)
    return service and clean(f"a scope would take the payload out of {service}, its limits and its stop")


def bus_path(environ: Mapping[str, str] = os.environ) -> str:
    r"""The user bus's socket: an absolute path, or ``\0NAME`` for an abstract one. Raises ``ScopeRefused``.

    Of an address (D-Bus specification, "Server Addresses") unix sockets alone are followed: other kinds name hosts
    to connect to and programs to run.
    """
    if not (addresses := environ.get("DBUS_SESSION_BUS_ADDRESS")):
        if not (runtime := environ.get("XDG_RUNTIME_DIR")):
            raise ScopeRefused("no user bus: neither DBUS_SESSION_BUS_ADDRESS nor XDG_RUNTIME_DIR is set")
        return _checked(f"{runtime}/bus", "XDG_RUNTIME_DIR")
    for address in addresses.split(";"):
        transport, _, rest = address.partition(":")
        keys = dict(pair.partition("=")[::2] for pair in rest.split(","))
        where = keys.get("path") or ("abstract" in keys and "\0" + keys["abstract"])
        if transport == "unix" and where:
            plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda code: bytes([int(code[1], 16)]), os.fsencode(where))
            return _checked(os.fsdecode(plain), "DBUS_SESSION_BUS_ADDRESS")
    raise ScopeRefused(clean(f"DBUS_SESSION_BUS_ADDRESS={addresses}: names no unix socket"))


def clean(text: str) -> str:
    """Foreign text on one short line, without anything that a terminal would act on."""
    return "".join(char if char.isprintable() else "?" for char in text[:300])


def _checked(where: str, variable: str) -> str:
    if "\0" in where[1:] or where[0] not in "/\0":
        raise ScopeRefused(clean(f"{variable}: {where} is no absolute path"))
    return where


def _is_service(part: str) -> bool:
    # The user's manager is itself a service of the system's; what it made below, it may put elsewhere below.
    return part.endswith(_SERVICES) and not re.fullmatch(r"user@\d+\.service", part)


def _start(bus: _Bus, unit: str, pid: int) -> str:
    """Ask, and wait for the job's end: ``done``, or in the manager's words what became of it."""
    bus.call(
        "org.freedesktop.DBus",
        "AddMatch",
        "s",
        (f"type='signal',sender='{MANAGER}',interface='{MANAGER}.Manager',member='JobRemoved'",),
    )
    properties = [
        ("PIDs", ("au", [pid])),
        ("Description", ("s", f"payload of {unit.removesuffix('.scope')}")),
        ("Delegate", ("b", True)),
        ("CollectMode", ("s", "inactive-or-failed")),
    ]
    # One member killed for its memory is the payload's matter: the rest is not to be ended for it behind our back.
    spares = ("OOMPolicy", ("s", "continue"))
    try:
        (job,) = bus.call(MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", (unit, "fail", [*properties, spares], []))
    except _Refusal as refusal:
        if refusal.name != UNKNOWN_PROPERTY:
            raise
        (job,) = bus.call(MANAGER, "StartTransientUnit", "ssa(sv)a(sa(sv))", (unit, "fail", properties, []))
    while (ended := bus.signal("JobRemoved"))[1] != job:
        pass
    return clean(str(ended[3]))


class _Refusal(ScopeRefused):
    """The bus's or the manager's own no."""

    def __init__(self, name: str, words: str) -> None:
        self.name = name
        super().__init__(clean(f"the user's service manager refused: {words or name}"))


class _Bus:
    """One conversation with a message bus of this account. Whatever it waits for, it is over at the deadline."""

    def __init__(self, path: str, deadline: float) -> None:
        import jeepney  # type: ignore[import-untyped]  # 15 ms, for the holds alone that ask
        from jeepney.io.blocking import prep_socket  # type: ignore[import-untyped]

        self._wire = jeepney
        self._deadline = deadline
        self._serials = count(1)
        self._parser = jeepney.Parser()
        self._read = 0
        self._waiting: list[Any] = []
        self._socket: socket.socket = prep_socket(path, timeout=self._left())
        try:
            _check_peer(self._socket)
            self.call("org.freedesktop.DBus", "Hello")
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> _Bus:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, name: str, method: str, signature: str | None = None, body: tuple[Any, ...] = ()) -> Any:
        """The answer's body. Raises ``_Refusal``, ``TimeoutError``, and anything when the answer is none."""
        interface = name if name != MANAGER else f"{name}.Manager"
        to = self._wire.DBusAddress("/" + name.replace(".", "/"), name, interface)
        serial = next(self._serials)
        self._socket.settimeout(self._left())
        self._socket.sendall(self._wire.new_method_call(to, method, signature, body).serialise(serial))
        fields = self._wire.HeaderFields
        while (answer := self._receive()).header.fields.get(fields.reply_serial) != serial:
            self._waiting.append(answer)
        if answer.header.message_type is self._wire.MessageType.error:
            raise _Refusal(answer.header.fields[fields.error_name], " ".join(map(str, answer.body)))
        return answer.body

    def signal(self, member: str) -> Any:
        """The body of the next signal of that name, those included that came while an answer was awaited."""
        while True:
            message = self._waiting.pop(0) if self._waiting else self._receive()
            if message.header.fields.get(self._wire.HeaderFields.member) == member:
                return message.body

    def _receive(self) -> Any:
        while (message := self._parser.get_next_message()) is None:
            self._socket.settimeout(self._left())
            data = self._socket.recv(4096)
            self._read += len(data)
            if not data:
                raise ConnectionResetError
            if self._read > MOST_BYTES:
                raise ScopeRefused("the user's bus talks without end")
            self._parser.add_data(data)
        return message

    def _left(self) -> float:
        if (left := self._deadline - time.monotonic()) <= 0:
            raise TimeoutError
        return left


def _check_peer(connection: socket.socket) -> None:
    """Raise ``ScopeRefused`` unless the bus is this account's and pids mean the same there.

    An environment that came along through ``sudo`` names another account's bus; one that came into a container names
    a manager for which our pid is some other process (unix(7), SO_PEERCRED; proc_pid_status(5), NSpid).
    """
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if uid != os.geteuid():
        raise ScopeRefused(f"the user's bus belongs to uid {uid}, not to {os.geteuid()}")
    seen = b""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        seen = file.read()
    if not re.search(rb"^NSpid:\t\d+$", seen, re.MULTILINE):
        raise ScopeRefused("the user's bus is not in this pid namespace")
