"""What may be configured: ``/etc/holdtop/config.toml``, then the user's file, then variables, then flags.

Where the state lives is never among it: two lanes with two configurations would be two queues. Who may stop
other accounts' holds is named in the system's file only, which its administrator alone can write.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import pwd
import re
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Literal

from holdtop.errors import ConfigError

SYSTEM_FILE = "/etc/holdtop/config.toml"
#: The keys that a variable may set, ``theme`` as ``HOLDTOP_THEME``.
VARIABLES = ("theme", "refresh", "stray_min_mib")
#: The keys whose entries the user's file adds to, one by one.
TABLES = ("keys", "forges")
#: One key each on the console's keyboard.
MOST_REASONS = 9
LONGEST_REASON = 200
LONGEST_REFRESH = 3600.0
#: Bytes of a file.
LARGEST = 1 << 20

DEFAULT_REASONS = (
    "stuck",
    "over its time",
    "wrong job",
    "memory is needed",
    "asked by its owner",
    "left behind",
)
#: Names of compositors and display servers: they use the device for as long as there is a screen.
DEFAULT_STRAY_ALLOW = (
    *(
        "Xorg",
        "Xwayland",
        "gnome-shell",
        "mutter",
        "kwin_wayland",
        "kwin_x11",
        "plasmashell",
        "sway",
        "weston",
    ),
    *("Hyprland", "labwc", "niri", "river", "wayfire", "cosmic-comp", "sddm-greeter", "gdm-x-session"),
)


#: A part of a forge's path: an owner, an organisation or a repository.
_FORGE_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}")


@dataclass(frozen=True, slots=True)
class Forge:
    """Where one runner is registered, and by whose right its forge is asked about it."""

    kind: Literal["github", "forgejo", "gitea"]
    #: As the runner was registered with: of a repository, ``https://HOST/OWNER/REPO``, or an organisation.
    url: str
    #: Its owner's alone (mode 0600). The token stands in no configuration and on no command line.
    token_file: str
    #: What the forge calls the runner; empty: as the unit does.
    runner: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """The merged configuration. Each field is a key of the files."""

    #: Accounts, by name or uid, whose stop requests every hold heeds. System's file only.
    operators: tuple[str, ...] = ()
    #: Reasons the console offers by number, at most nine.
    reasons: tuple[str, ...] = DEFAULT_REASONS
    #: From how much device memory on a process outside every payload is a stray, in MiB.
    stray_min_mib: int = 256
    #: Process names that are never a stray.
    stray_allow: tuple[str, ...] = DEFAULT_STRAY_ALLOW
    #: Absolute paths of further log files for the console to follow.
    logs: tuple[str, ...] = ()
    #: The console's keys: action -> key.
    keys: Mapping[str, str] = field(default_factory=dict)
    #: By the runner's name (of ``holdtop-runner-NAME.service``).
    forges: Mapping[str, Forge] = field(default_factory=dict)
    #: A theme's name; ``None`` for the default one.
    theme: str | None = None
    #: Seconds between two looks at the queue.
    refresh: float = 1.0


def load(flags: Mapping[str, object] | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Everything merged, the later over the earlier. ``flags``: by key, ``None`` for one that was not given.

    Raises ``ConfigError`` naming file (or variable) and key.
    """
    merged = read(SYSTEM_FILE)
    users = user_file()
    for key, value in (read(users, system=False) if users else {}).items():
        merged[key] = {**merged.get(key, {}), **value} if key in TABLES else value  # type: ignore[dict-item]
    merged.update(_variables(environ))
    merged.update({key: value for key, value in (flags or {}).items() if value is not None})
    return Config(**merged)  # type: ignore[arg-type]


def operator_uids() -> frozenset[int]:
    """Uids of the configured operators. A name that no account has is nobody. Raises ``ConfigError``."""
    uids: set[int] = set()
    for name in Config(**read(SYSTEM_FILE)).operators:  # type: ignore[arg-type]
        if name.isascii() and name.isdigit():
            uids.add(int(name))
        else:
            with contextlib.suppress(KeyError):
                uids.add(pwd.getpwnam(name).pw_uid)
    return frozenset(uids)


def user_file() -> str | None:
    """The user's file, where the desktop's conventions put it; ``None`` for an account without a home."""
    import platformdirs  # here, since a hold that reads the system's file alone must not pay for it

    try:
        directory = platformdirs.user_config_dir("holdtop")
    except RuntimeError:  # neither HOME nor an entry in the password file
        return None
    return os.path.join(directory, "config.toml") if os.path.isabs(directory) else None


def read(path: str, *, system: bool = True) -> dict[str, object]:
    """One file's keys, checked; nothing when it is missing. Raises ``ConfigError``."""
    try:
        said = tomllib.loads(_content(path).decode())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; make it readable or remove it") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise ConfigError(f"{path}: {error}") from error
    return {key: _checked(path, key, value, system) for key, value in said.items()}


def _content(path: str) -> bytes:
    """A regular file's bytes: a FIFO or a device would keep whoever reads it waiting. Raises ``OSError`` too."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise ConfigError(f"{path}: Is {kind}; make it a file or remove it")
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ConfigError(f"{path}: larger than {LARGEST >> 10} KiB, which no configuration is; look what it is")
    return content


def _checked(where: str, key: str, value: object, system: bool) -> object:
    if key == "operators" and not system:
        raise ConfigError(f"{where}: operators: only {SYSTEM_FILE} may name operators")
    if key not in _CHECKS:
        raise ConfigError(f"{where}: {_unknown(key)}")
    try:
        return _CHECKS[key](value)
    except ValueError as error:
        raise ConfigError(f"{where}: {key}: {error}") from error


def _unknown(key: str) -> str:
    if any(word in key.lower() for word in ("state", "queue", "token", "hold_dir")):
        return f"{key!r}: where the state lives is not configured in a file; use --state-dir or ONEBIT_HOLD_DIR"
    nearest = difflib.get_close_matches(key, _CHECKS, 1, cutoff=0.0)
    return f"there is no key {key!r}; the nearest is {nearest[0]!r}"


def _variables(environ: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key in VARIABLES:
        variable = f"HOLDTOP_{key.upper()}"
        if text := environ.get(variable):
            value: object = text
            if key != "theme":
                with contextlib.suppress(ValueError):
                    value = float(text) if key == "refresh" else int(text)
            found[key] = _checked(variable, key, value, system=False)
    return found


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ValueError('must be a list of texts, like ["one", "two"]')
    return tuple(value)


def _reasons(value: object) -> Sequence[str]:
    reasons = _texts(value)
    if len(reasons) > MOST_REASONS or any(len(r) > LONGEST_REASON or not r.isprintable() for r in reasons):
        raise ValueError(f"at most {MOST_REASONS}, each one line of at most {LONGEST_REASON} characters")
    return reasons


def _paths(value: object) -> Sequence[str]:
    paths = tuple(os.path.expanduser(path) for path in _texts(value))
    if not all(map(os.path.isabs, paths)):
        raise ValueError("each path must be absolute (or start with ~)")
    return paths


def _mib(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
        raise ValueError("must be a whole number of MiB, 0 or more")
    return value


def _seconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.1 <= value <= LONGEST_REFRESH:
        raise ValueError(f"must be a number of seconds from 0.1 to {LONGEST_REFRESH:g}")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def _keys(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(key, str) and key for key in value.values()):
        raise ValueError('must be a table of action = "key"')
    return value


def _forges(value: object) -> Mapping[str, Forge]:
    if not isinstance(value, dict):
        raise ValueError("must be tables, one for each runner: [forges.NAME]")
    return {name: _forge(name, said) for name, said in value.items()}


def _forge(name: str, said: object) -> Forge:
    """No value is ever in the error's text: one of them may be a token that does not belong here."""
    known = {one.name: one.default is MISSING for one in fields(Forge)}
    if not isinstance(said, dict) or not all(isinstance(one, str) and one.isprintable() for one in said.values()):
        raise ValueError(f"{name}: must be a table of texts: {', '.join(known)}")
    for key in said.keys() - known:
        raise ValueError(f"{name}: there is no key {key!r}, only {', '.join(known)}; a token lies in a file of its own")
    if missing := [key for key, needed in known.items() if needed and not said.get(key)]:
        raise ValueError(f"{name}: {', '.join(missing)} must be said")
    if said["kind"] not in ("github", "forgejo", "gitea"):
        raise ValueError(f"{name}: kind: must be github, forgejo or gitea")
    if not _is_forge(said["url"]):
        raise ValueError(
            f"{name}: url: must be https://HOST/OWNER/REPO or https://HOST/ORGANISATION, without an account"
            " (http on this box itself alone)"
        )
    if not os.path.isabs(said["token_file"]):
        raise ValueError(f"{name}: token_file: must be an absolute path")
    return Forge(**said)


def _is_forge(text: str) -> bool:
    """Whatever may carry a token away is none: an account in it, or no TLS on the way to another box."""
    from urllib.parse import urlsplit  # here, since a hold must not pay for it

    try:
        url = urlsplit(text)
        host, port = url.hostname or "", url.port
    except ValueError:
        return False
    own = host in ("localhost", "127.0.0.1", "::1")
    parts = url.path.strip("/").split("/")
    return (
        (url.scheme == "https" or (url.scheme == "http" and own))
        and not (url.username or url.password or url.query or url.fragment or port == 0)
        and _HOST.fullmatch(host) is not None
        and len(parts) in (1, 2)
        and all(map(_FORGE_NAME.fullmatch, parts))
    )


_CHECKS: Mapping[str, Callable[[object], object]] = {
    "operators": _texts,
    "reasons": _reasons,
    "stray_min_mib": _mib,
    "stray_allow": _texts,
    "logs": _paths,
    "keys": _keys,
    "forges": _forges,
    "theme": _text,
    "refresh": _seconds,
}
assert set(_CHECKS) == {one.name for one in fields(Config)}
