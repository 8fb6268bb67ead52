"""The service manager over its own interface (org.freedesktop.systemd1(5)): the system's, or that of the user we are.

The one place that knows sdbus, which costs 80 ms to import.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any, Self

import sdbus
from sdbus.exceptions import DbusNoReplyError, DbusTimeoutError

from holdtop.errors import RefusedError, UnseenError

NAME = "org.freedesktop.systemd1"
PATH = "/org/freedesktop/systemd1"
#: For one answer, in seconds.
ANSWER_TIMEOUT = 25.0
#: For a job (a start, a stop), in seconds; longer than the unit's ``TimeoutStopSec``.
JOB_TIMEOUT = 330.0
POLL_SECONDS = 0.1


class Connection:
    """To one manager. Each question raises ``RefusedError`` when it says no, ``UnseenError`` when it says nothing."""

    def __init__(self, *, system: bool, patience: float = ANSWER_TIMEOUT) -> None:
        """``patience``: for one answer, in seconds. Raises ``UnseenError`` when there is no such manager here."""
        self.said = "the system's service manager" if system else f"the service manager of uid {os.geteuid()}"
        try:
            self._bus = sdbus.sd_bus_open_system() if system else sdbus.sd_bus_open_user()
            self._bus.method_call_timeout_usec = int(patience * 1e6)
            self.call("GetDefaultTarget")
        except (sdbus.SdBusBaseError, OSError, RefusedError) as error:
            hint = "" if system else "; it runs while you are logged in or linger, and XDG_RUNTIME_DIR leads to it"
            raise UnseenError(f"{self.said} cannot be asked: {_words(error)}{hint}") from error

    def close(self) -> None:
        self._bus.close()

    def call(self, method: str, signature: str = "", *arguments: Any) -> Any:
        """A method of the manager itself."""
        return self._ask(PATH, f"{NAME}.Manager", method, signature, *arguments)

    def properties(self, path: str, interface: str) -> dict[str, Any]:
        """All of one object's, in one instant."""
        said = self._ask(path, "org.freedesktop.DBus.Properties", "GetAll", "s", f"{NAME}.{interface}")
        return {name: value for name, (_, value) in said.items()}

    def _ask(self, path: str, interface: str, method: str, signature: str, *arguments: Any) -> Any:
        message = self._bus.new_method_call_message(NAME, path, interface, method)
        if signature:
            message.append_data(signature, *arguments)
        try:
            return self._bus.call(message).get_contents()
        except (DbusTimeoutError, DbusNoReplyError) as error:
            raise UnseenError(f"{self.said} does not answer: {_words(error)}") from error
        except (sdbus.SdBusBaseError, OSError) as error:
            raise RefusedError(f"{self.said} refused {method}: {_words(error)}") from error


class Manager:
    """What a runner needs of its manager. Raises as ``Connection`` does."""

    def __init__(self, *, system: bool, patience: float = ANSWER_TIMEOUT) -> None:
        self._connection = Connection(system=system, patience=patience)
        self._call = self._connection.call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the bus; nothing more is to be asked."""
        self._connection.close()

    def properties(self, unit: str) -> dict[str, Any]:
        """All that is said of a service. Of an absent one ``LoadState`` is ``not-found``."""
        path = self._call("LoadUnit", "s", unit)
        return self._connection.properties(path, "Unit") | self._connection.properties(path, "Service")

    def processes(self, unit: str) -> dict[int, str]:
        """Pids below the unit, with their command lines."""
        return {pid: words for _, pid, words in self._call("GetUnitProcesses", "s", unit)}

    def start(self, unit: str) -> None:
        """Returns when the job is over, however it ended."""
        self._job("StartUnit", unit)

    def restart(self, unit: str) -> None:
        self._job("RestartUnit", unit)

    def stop(self, unit: str) -> None:
        self._job("StopUnit", unit)

    def start_transient(self, unit: str, properties: Mapping[str, tuple[str, Any]]) -> None:
        """A service without a file; property name -> (D-Bus signature, value)."""
        self._call("StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", list(properties.items()), [])
        self._until_idle(unit)

    def reload(self) -> None:
        """Read the unit files again."""
        self._call("Reload")

    def enable(self, path: str) -> None:
        """From the next boot on; a unit outside of its manager's directories is linked into them."""
        self._call("EnableUnitFiles", "asbb", [path], False, False)
        self.reload()

    def disable(self, unit: str) -> None:
        self._call("DisableUnitFiles", "asb", [unit], False)
        self.reload()

    def forget_failure(self, unit: str) -> None:
        self._call("ResetFailedUnit", "s", unit)

    def _job(self, method: str, unit: str) -> None:
        self._call(method, "ss", unit, "replace")
        self._until_idle(unit)

    def _until_idle(self, unit: str) -> None:
        deadline = time.monotonic() + JOB_TIMEOUT
        while self.properties(unit)["Job"][0]:
            if time.monotonic() > deadline:
                said = f"{self._connection.said} is not done with {unit} after {JOB_TIMEOUT:g} s"
                raise UnseenError(f"{said}: systemctl list-jobs")
            time.sleep(POLL_SECONDS)


def linger(uid: int, *, enable: bool) -> None:
    """Whether a user's manager runs without a login (org.freedesktop.login1(5)). Raises ``RefusedError``."""
    name = "org.freedesktop.login1"
    try:
        bus = sdbus.sd_bus_open_system()
        message = bus.new_method_call_message(name, "/org/freedesktop/login1", f"{name}.Manager", "SetUserLinger")
        message.append_data("ubb", uid, enable, False)
        bus.call(message)
    except (sdbus.SdBusBaseError, OSError) as error:
        raise RefusedError(f"the login manager refused to let uid {uid} linger: {_words(error)}") from error


def _words(error: Exception) -> str:
    """The manager's own words; of the library's, which name lines of C, the error number's meaning alone."""
    number = re.search(r"returned error number: (\d+)$", str(error))
    return os.strerror(int(number[1])) if number else " ".join(str(error).split()) or type(error).__name__
