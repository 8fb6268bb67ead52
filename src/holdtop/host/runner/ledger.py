"""What an installation has made, written down before it is made: by it a removal undoes that and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass

from holdtop.errors import RefusedError
from holdtop.hold.files import Dir, Untrusted, json_object
from holdtop.host.runner.settings import Settings


@dataclass(frozen=True, slots=True)
class Ledger:
    """One runner's. ``kind`` of an entry: ``account``, ``group``, ``directory``, ``link``, ``unit``, ``linger``."""

    path: str

    @classmethod
    def of(cls, settings: Settings) -> Ledger:
        """The system's is root's alone; a user's own lies in their home."""
        directory = "/var/lib/holdtop" if settings.system else os.path.join(settings.home, ".local/state/holdtop")
        return cls(os.path.join(directory, f"runner-{settings.name}.json"))

    def entries(self) -> list[tuple[str, str]]:
        """Kind and name, in the order they were made. Raises ``RefusedError`` when it cannot be believed."""
        directory, name = os.path.split(self.path)
        if not os.path.isdir(directory):
            return []
        try:
            with Dir.root(directory) as opened:
                data, status = opened.read(name)
        except FileNotFoundError:
            return []
        except (OSError, Untrusted) as error:
            raise RefusedError(f"what was installed cannot be read: {error}") from error
        made = (json_object(data) or {}).get("made")
        if status.st_uid != os.geteuid() or not isinstance(made, list):
            raise RefusedError(f"{self.path} is no record of ours: look at it, and remove it")
        return [(str(kind), str(name)) for kind, name in made]

    def add(self, kind: str, name: str) -> None:
        """Raises ``OSError`` and ``HoldError``; then nothing is to be made."""
        if (kind, name) not in (entries := self.entries()):
            self._write([*entries, (kind, name)])

    def drop(self, kind: str, name: str) -> None:
        """It is undone; with the last entry the record itself goes."""
        if left := [one for one in self.entries() if one != (kind, name)]:
            self._write(left)
        elif os.path.lexists(self.path):
            os.unlink(self.path)
            with contextlib.suppress(OSError):  # other runners' records lie there
                os.rmdir(os.path.dirname(self.path))

    def _write(self, entries: list[tuple[str, str]]) -> None:
        directory, name = os.path.split(self.path)
        os.makedirs(directory, mode=0o755, exist_ok=True)
        with Dir.root(directory) as opened:
            opened.replace(name, json.dumps({"v": 1, "made": entries}).encode())
