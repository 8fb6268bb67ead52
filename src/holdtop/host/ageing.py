"""Keeping systemd-tmpfiles from cleaning the state by age: a queue of last month is not rubbish (tmpfiles.d(5))."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shlex
from collections.abc import Iterator

from holdtop.hold.files import Dir
from holdtop.hold.places import DEFAULT_STATE_DIR

#: Earlier ones win over a file of the same name in later ones.
DIRECTORIES = ("/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/local/lib/tmpfiles.d", "/usr/lib/tmpfiles.d")
#: What ages what is below it, and what excludes a path with all that is below it; ``X`` excludes the path alone.
_AGES, _EXCLUDES = "dDevqQC", "x"


def reached(path: str) -> bool:
    """Whether some rule cleans by age at this path, and none excludes it."""
    rules = list(_rules())
    excluded = any(kind in _EXCLUDES and _above(pattern, path) for kind, pattern, _ in rules)
    aged = any(kind in _AGES and age != "-" and _above(pattern, path) for kind, pattern, age in rules)
    return aged and not excluded


def exclusion(path: str) -> tuple[str, str]:
    """File name and content of the rule that excludes ``path`` with all that is below it."""
    name = "holdtop.conf" if path == DEFAULT_STATE_DIR else f"holdtop-{path.strip('/').replace('/', '-')}.conf"
    quoted = path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    return name, f'# Queues and tokens of holdtop: age says nothing about them.\nx "{quoted}"\n'


def exclude(path: str) -> None:
    """Write that rule. Raises ``OSError``."""
    name, content = exclusion(path)
    os.makedirs(DIRECTORIES[0], exist_ok=True)
    with Dir.root(DIRECTORIES[0]) as directory:
        directory.replace(name, content.encode())
        os.chmod(name, 0o644, dir_fd=directory.fd)


def _above(pattern: str, path: str) -> bool:
    """Whether the rule's pattern is the path or a directory above it. Its ``*`` crosses no ``/`` (glob(7))."""
    parts, wanted = path.split("/"), pattern.rstrip("/").split("/")
    return pattern.startswith("/") and len(wanted) <= len(parts) and all(map(fnmatch.fnmatch, parts, wanted))


def _rules() -> Iterator[tuple[str, str, str]]:
    """Type, path pattern and age of every rule in force."""
    files: dict[str, str] = {}
    for directory in reversed(DIRECTORIES):
        with contextlib.suppress(OSError):
            names = (name for name in os.listdir(directory) if name.endswith(".conf"))
            files.update({name: os.path.join(directory, name) for name in names})
    for path in files.values():
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError):  # not a line that systemd would understand
                    words = shlex.split(line, comments=line.lstrip().startswith("#"))
                    if len(words) >= 2:
                        yield words[0][0], words[1].replace("%%", "%"), words[5] if len(words) > 5 else "-"
