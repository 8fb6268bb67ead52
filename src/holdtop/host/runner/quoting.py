"""Values as words of a unit file, so that they come out of systemd's parser as they went in (systemd.syntax(7)).

``%`` begins a specifier, a blank ends a word, a backslash at a line's end joins the next one, and a newline begins a
directive. What no escape brings through is refused.
"""

from __future__ import annotations

import os
import re

from holdtop.errors import UsageError

#: Of a value, in characters; PATH_MAX of a path (limits.h).
LONGEST = 4096
#: What systemd's strict form of an account's name allows (systemd.exec(5), User=); it warns of others.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,30}")
_UNIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def value(text: str) -> str:
    """A whole line's value where no quotes are known (``WorkingDirectory=``)."""
    return text.replace("%", "%%")


def word(text: str) -> str:
    """One word in double quotes, where quotes are known (``ExecStart=:``, ``Environment=``)."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def check_text(text: str, what: str) -> str:
    """The text itself, of which nothing is lost on the way. Raises ``UsageError``."""
    if len(text) > LONGEST:
        raise UsageError(f"{what} is longer than {LONGEST} characters")
    if not all(char.isprintable() or char == "\t" for char in text):
        raise UsageError(f"{what}: {text!r} has characters that are not printable; a unit cannot carry them")
    return text


def check_path(path: str, what: str) -> str:
    """An absolute path in its plain form. Raises ``UsageError``.

    Quotes and backslashes are refused: systemd starts no program from such a path.
    """
    check_text(path, what)
    if not path.startswith("/") or path.startswith("//") or os.path.normpath(path) != path:
        raise UsageError(f"{what}: {path!r} is no absolute path in its plain form, such as /opt/fleet/bin")
    if any(char in path for char in "\"'\\\t") or path != path.strip():
        raise UsageError(
            f"{what}: {path!r} has a quote, a backslash, a tab or a blank at an end: systemd starts nothing there"
        )
    return path


def check_account(name: str, what: str) -> str:
    """Raises ``UsageError``."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{what}: {name!r} is no account's or group's name for a unit (letters, digits, - and _)")
    return name


def check_unit_name(name: str) -> str:
    """Raises ``UsageError``."""
    if not _UNIT_NAME.fullmatch(name) or name.endswith(".service"):
        raise UsageError(
            f"--name: {name!r} is no name for a unit: letters, digits and _.- only, 64 at most, without .service"
        )
    return name


def assignment(text: str, what: str) -> tuple[str, str]:
    """``KEY=VALUE`` apart. Raises ``UsageError``."""
    key, equals, rest = text.partition("=")
    if not equals or not _VARIABLE.fullmatch(key):
        raise UsageError(f"{what}: {text!r} is not of the form NAME=VALUE")
    return key, check_text(rest, what)


def link(text: str) -> tuple[str, str]:
    """``NAME=TARGET`` apart; the settings check both. Raises ``UsageError``."""
    name, equals, target = text.partition("=")
    if not equals or not name or not target:
        raise UsageError(f"--home-link: {text!r} is not of the form NAME=TARGET")
    return name, target
