"""Themes from TOML files: strict, and a bad file is a result to be told, never an exception.

A theme names one colour for each role and surface, either all as ``#rrggbb`` or all as names of the
terminal's own palette (``red``, ``bright_blue``, ``default``); then it follows whatever the terminal shows.
"""

from __future__ import annotations

import contextlib
import difflib
import re
import threading
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_config_path

from holdtop.console.view.text import ROLES

#: Surfaces and marks besides the roles of text.
SURFACES = ("background", "panel", "selection", "selection_blurred")
COLORS = (*ROLES, *SURFACES)
#: Names that a file may still have from when they were asked for.
FORMER = ("leftover",)
DEFAULT = "dark"
#: For a terminal of 16 colours: RGB would be squeezed into it badly.
FEW_COLORS = "ansi"
#: A theme file larger than this many bytes is none.
_LARGEST = 64 * 1024
#: Seconds between two looks at the user's own.
LOOK_EVERY = 1.0

_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_PLAIN = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
PALETTE = ("default", *_PLAIN, *(f"bright_{name}" for name in _PLAIN))


@dataclass(frozen=True, slots=True)
class ThemeFile:
    """A valid theme: every name of ``COLORS`` has a colour."""

    name: str
    description: str
    dark: bool
    #: Colours are the terminal's own.
    ansi: bool
    colors: dict[str, str]


@dataclass(frozen=True, slots=True)
class Themes:
    """What could be loaded, by name, and one line for each file that could not."""

    loaded: dict[str, ThemeFile]
    failed: tuple[str, ...]


def packaged() -> Path:
    """The themes that come along: inside the package, or beside ``src`` in a checkout."""
    installed = Path(__file__).parents[1] / "themes"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "themes"


def user_directory() -> Path:
    return user_config_path("holdtop") / "themes"


def load(directories: Iterable[Path] | None = None) -> Themes:
    """All themes; one of a later directory replaces one of the same name."""
    loaded: dict[str, ThemeFile] = {}
    failed: list[str] = []
    for directory in (packaged(), user_directory()) if directories is None else directories:
        for path in _files(directory, failed):
            try:
                theme = _read(path)
            except (OSError, ValueError) as error:
                failed.append(f"theme {path}: {error}")
            else:
                loaded[theme.name] = theme
    return Themes(loaded, tuple(failed))


class Watcher:
    """Tells of new themes when a file of the user's directory changes. Looks in a thread of its own."""

    def __init__(self, tell: Callable[[Themes], None], directory: Path | None = None) -> None:
        self._tell, self._directory = tell, user_directory() if directory is None else directory
        self._over = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="holdtop-themes", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        before = self._stamps()
        while not self._over.wait(LOOK_EVERY):
            if (now := self._stamps()) != before:
                before = now
                self._tell(load((packaged(), self._directory)))

    def _stamps(self) -> dict[str, tuple[int, int]]:
        stamps = {}
        for path in _files(self._directory, []):
            with contextlib.suppress(OSError):
                status = path.stat()
                stamps[path.name] = (status.st_mtime_ns, status.st_size)
        return stamps


def _files(directory: Path, failed: list[str]) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix == ".toml")
    except FileNotFoundError:
        return []
    except OSError as error:
        failed.append(f"themes {directory}: {error.strerror}")
        return []


def _read(path: Path) -> ThemeFile:
    if not path.is_file():
        raise ValueError("is no regular file")
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"is larger than {_LARGEST} bytes")
    return parse(path.read_bytes().decode(), path.stem)


def parse(text: str, name: str) -> ThemeFile:
    """A theme from its TOML. Raises ``ValueError`` that names the key and what it may be."""
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be a lower-case letter, then up to 31 of a-z 0-9 -")
    said = tomllib.loads(text)
    _known(said, ("description", "dark", "colors"))
    dark, description, colors = said.get("dark"), said.get("description", ""), said.get("colors")
    if not isinstance(dark, bool):
        raise ValueError("'dark' must be true or false")
    if not isinstance(description, str):
        raise ValueError("'description' must be a text")
    if not isinstance(colors, dict):
        raise ValueError("the table [colors] is missing")
    _known(colors, (*COLORS, *FORMER))
    if missing := [key for key in COLORS if key not in colors]:
        raise ValueError(f"[colors] lacks {', '.join(missing)}")
    for key, color in colors.items():
        if not isinstance(color, str) or not (_HEX.fullmatch(color) or color in PALETTE):
            raise ValueError(f"colors.{key} = {color!r} is neither #rrggbb nor one of {', '.join(PALETTE)}")
    named = [key for key, color in colors.items() if color in PALETTE]
    if named and len(named) != len(colors):
        raise ValueError(f"colors.{named[0]} is of the terminal's palette, others are #rrggbb: use one kind")
    return ThemeFile(name, description, dark, bool(named), dict(colors))


def _known(table: dict[str, object], keys: Iterable[str]) -> None:
    for key in table:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown key {key!r}{hint}")
