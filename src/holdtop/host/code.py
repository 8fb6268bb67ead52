"""Who could change what runs when a script is run: the interpreter, the way to it, and what a Python loads."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Collection, Iterator

from holdtop.errors import HoldError
from holdtop.hold.files import SIZE_LIMIT
from holdtop.host.access import component, exposed

_SHEBANG = re.compile(r"#![ \t]*(/\S+)(?:[ \t]+(\S+))?")
_EXEC = re.compile(r"^\s*exec\s+(/\S+)", re.MULTILINE)
_PYTHON = re.compile(r"python[0-9.]*")


def behind(text: str, search: Collection[str] = ()) -> Iterator[str]:
    """Absolute paths that a script's first line and its ``exec`` name; ``env`` looks its word up in ``search``."""
    if first := _SHEBANG.match(text):
        yield first[1]
        if os.path.basename(first[1]) == "env" and first[2]:
            candidates = (os.path.join(directory, first[2]) for directory in search if os.path.isabs(directory))
            yield from filter(os.path.exists, candidates)
    yield from _EXEC.findall(text)


def changeable(program: str, trusted: Collection[int]) -> dict[str, str]:
    """What of a program others than root and these uids may write or exchange: path -> who. Raises ``PlaceError``.

    Of a Python, all that lies where it loads modules from, as well.
    """
    found = exposed(program, trusted)
    if _PYTHON.fullmatch(os.path.basename(program)):
        for root in _libraries(program):
            with contextlib.suppress(HoldError):  # gone meanwhile, or closed to us: then to be seen by root alone
                found |= exposed(root, trusted) | dict(_below(root, trusted))
    return found


def _libraries(interpreter: str) -> set[str]:
    """Where it loads modules from (site(3) of Python): below its own prefix and its environment's, and by ``.pth``."""
    prefixes = {os.path.dirname(os.path.dirname(one)) for one in (interpreter, os.path.realpath(interpreter))}
    forms = ("pyvenv.cfg", "lib*/python3*", "local/lib/python3*")
    found = {path for prefix in prefixes for form in forms for path in glob.glob(f"{glob.escape(prefix)}/{form}")}
    return found | {path for root in found for path in _by_pth(root)}


def _by_pth(root: str) -> Iterator[str]:
    for name in glob.glob(f"{glob.escape(root)}/*-packages/*.pth"):
        with contextlib.suppress(OSError), open(name, encoding="utf-8", errors="replace") as file:
            yield from (line for line in file.read(SIZE_LIMIT).splitlines() if os.path.isdir(line))


def _below(root: str, trusted: Collection[int]) -> Iterator[tuple[str, str]]:
    for top, directories, files in os.walk(root):
        for name in (*directories, *files):
            with contextlib.suppress(HoldError):
                one = component(os.path.join(top, name))
                if who := ", ".join(one.others(trusted)):
                    yield one.path, who
