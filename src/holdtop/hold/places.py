"""Where the state of a resource lives: one rule for queue, token and lock alike.

1. ``--state-dir``; 2. both ``GPU_QUEUE_DIR`` and ``GPU_TOKEN_FILE``; 3. ``$ONEBIT_HOLD_DIR``, else the shared
directory when it exists; 4. the home directory. An explicitly named place must exist: there is no silent fallback.
State paths never come from a user's configuration file.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import stat
from collections.abc import Mapping

from holdtop.errors import PlaceError, UsageError
from holdtop.hold.files import DIRECTORY_MODE, HOME_DIRECTORY_MODE, Dir, upwards, writing
from holdtop.hold.view import Rule
from holdtop.lean import dataclass

#: The shared directory of a box, when it exists (rule 3 without a variable).
DEFAULT_STATE_DIR = "/var/lib/1bit-fleet"
RESOURCE_FORM = re.compile(r"[a-z][a-z0-9-]{0,31}")
#: The resource whose lock file other tools (hardware gates) take as well.
LOCKED_RESOURCE = "npu"


@dataclass(frozen=True, slots=True)
class Places:
    """The state of one resource. ``rule`` says how it was found; every hold says it aloud."""

    resource: str
    rule: Rule
    #: Directory that holds the queue directory, and the queue's name in it.
    queue_parent: str
    queue_name: str
    #: Directory that holds the token, and the token's name in it.
    token_parent: str
    token_name: str
    #: A further lock that a hold flocks while it runs (``npu`` only).
    lock_path: str | None = None
    #: The state directory (rules 1 and 3), for the payload's ``HOLDTOP_STATE_DIR``.
    state_dir: str | None = None

    @property
    def queue_path(self) -> str:
        return os.path.join(self.queue_parent, self.queue_name)

    @property
    def token_path(self) -> str:
        return os.path.join(self.token_parent, self.token_name)

    @property
    def said(self) -> str:
        """One clause for narration: where, and by which rule."""
        how = {
            "flag": "--state-dir",
            "variables": "the variables …_QUEUE_DIR and …_TOKEN_FILE",
            "state-dir-variable": "ONEBIT_HOLD_DIR",
            "default-state-dir": f"{DEFAULT_STATE_DIR} exists",
            "home": "no shared state directory: your home",
        }[self.rule]
        return f"queue {self.queue_path}, token {self.token_path} ({how})"

    def open_queue(self, *, make: bool = False) -> Dir:
        """The queue directory. Raises ``PlaceError``; without ``make`` also when it is missing."""
        with Dir.root(self.queue_parent) as parent:
            mode = HOME_DIRECTORY_MODE if self.rule == "home" else DIRECTORY_MODE
            return parent.sub(self.queue_name, make=mode if make else None)

    def open_token_dir(self) -> Dir:
        return Dir.root(self.token_parent)


def prefix(resource: str) -> str:
    """``foo-bar`` is ``FOO_BAR`` in the names of variables."""
    return resource.upper().replace("-", "_")


def check_resource(name: str) -> str:
    """The name itself. Raises ``UsageError`` with the accepted form."""
    if name == "all" or not RESOURCE_FORM.fullmatch(name):
        raise UsageError(f"{name!r} is no resource: a lower-case letter, then up to 31 of a-z 0-9 - (not 'all')")
    return name


def resolve(resource: str, state_dir: str | None = None, environ: Mapping[str, str] = os.environ) -> Places:
    """Where this resource's state lives. Changes nothing. Raises ``PlaceError`` or ``UsageError``."""
    check_resource(resource)
    if state_dir is not None:
        return _in_state_dir(resource, _existing(state_dir, "--state-dir"), "flag", environ)
    if named := _by_variables(resource, environ):
        return named
    if variable := environ.get("ONEBIT_HOLD_DIR"):
        return _in_state_dir(resource, _existing(variable, "ONEBIT_HOLD_DIR"), "state-dir-variable", environ)
    if os.path.isdir(DEFAULT_STATE_DIR):
        return _in_state_dir(resource, DEFAULT_STATE_DIR, "default-state-dir", environ)
    return _at_home(resource, environ)


def known_resources(state_dir: str | None = None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Resources that have state here, and always ``gpu``; sorted. Raises as ``resolve`` does."""
    return sorted({places.resource for places in neighbours(resolve("gpu", state_dir, environ), environ)} | {"gpu"})


def neighbours(places: Places, environ: Mapping[str, str] = os.environ) -> list[Places]:
    """The places of every resource that a lane of this environment may hold: beside this one's, or by variables.

    Variables place one resource each, so a lane that follows them for one follows the other rules for the rest.
    """
    if places.rule == "flag":
        return _beside(places)
    named = {one.resource: one for one in (places, *_all_by_variables(environ)) if one.rule == "variables"}
    shared = places
    if places.rule == "variables":
        rest = {name: environ.get(name, "") for name in ("ONEBIT_HOLD_DIR", "HOME")}
        try:
            shared = resolve(places.resource, None, rest)
        except PlaceError:  # there is nothing but what the variables name
            return list(named.values())
    return list(({one.resource: one for one in _beside(shared)} | named).values())


def _all_by_variables(environ: Mapping[str, str]) -> list[Places]:
    """What is placed by a whole pair of variables; half a pair is the business of whoever asks for that resource."""
    prefixes = [name.removesuffix("_QUEUE_DIR") for name in environ if name.endswith("_QUEUE_DIR")]
    found = []
    for name in (prefix.lower().replace("_", "-") for prefix in prefixes if prefix == prefix.upper()):
        with contextlib.suppress(PlaceError):
            if name != "all" and RESOURCE_FORM.fullmatch(name) and (named := _by_variables(name, environ)):
                found.append(named)
    return found


def _beside(places: Places) -> list[Places]:
    """Every resource whose queue or token lies in the same directory, by the same rule."""
    directory = places.queue_parent
    try:
        names = os.listdir(directory)
    except OSError:
        return [places]
    ends = ("-QUEUE", "-TOKEN") if places.rule == "home" else ("-queue", "-token")
    found = {name[:-6] for name in names if name.endswith(ends)}
    if places.rule == "home":
        found = {name.lower() for name in found if name == name.upper()}
    known = sorted(name for name in found if name != "all" and RESOURCE_FORM.fullmatch(name))
    if places.rule == "home":
        return [_home_places(name, directory, {}) for name in known]
    return [_in_state_dir(name, directory, places.rule, {}) for name in known]


def of_home(home: str) -> list[Places]:
    """Every resource that has state right in this home, whoever it belongs to: for those that look at all accounts."""
    return [one for one in _beside(_home_places("gpu", home, {})) if _present(one)]


def of_state_dir(directory: str) -> list[Places]:
    """Every resource that has state in this shared directory."""
    return [one for one in _beside(_in_state_dir("gpu", directory, "flag", {})) if _present(one)]


def _present(places: Places) -> bool:
    return os.path.lexists(places.queue_path) or os.path.lexists(places.token_path)


def ensure(places: Places) -> Dir:
    """Make the queue when it is missing and open it; the token's directory must exist. Raises ``PlaceError``."""
    with places.open_token_dir(), writing(places.queue_path, "make the queue"):
        return places.open_queue(make=True)


def exposed(places: Places) -> dict[str, str]:
    """Directories on the way to queue and token that let others than the state's group exchange them: path -> how
    to mend that, as ``chmod`` takes it.

    All may write it (into the state's own even where it is sticky); or, above the state, some group may.
    """
    own = {places.queue_path, places.queue_parent, places.token_parent}
    found: dict[str, str] = {}
    for path in sorted({above for one in own for above in upwards(one)}):
        try:
            mode = os.stat(path).st_mode
        except OSError:
            continue  # whoever cannot look there has been told already, or cannot get there
        open_to = [
            who
            for who, bit in (("g", stat.S_IWGRP), ("o", stat.S_IWOTH))
            if mode & bit and (who == "o" if path in own else not mode & stat.S_ISVTX)
        ]
        if open_to:
            found[path] = f"{''.join(open_to)}-w"
    return found


def _existing(path: str, named_by: str) -> str:
    with writing(path, f"use what {named_by} names"):
        if stat.S_ISDIR(os.stat(path).st_mode):
            return os.path.abspath(path)
    raise PlaceError(f"{named_by} names {path}, which is no directory; make it or name another")


def _in_state_dir(resource: str, directory: str, rule: Rule, environ: Mapping[str, str]) -> Places:
    lock = os.path.join(directory, "npu.lock") if resource == LOCKED_RESOURCE else None
    return Places(
        resource,
        rule,
        directory,
        f"{resource}-queue",
        directory,
        f"{resource}-token",
        environ.get("HW_GATE_LOCK") or lock if lock else None,
        directory,
    )


def _by_variables(resource: str, environ: Mapping[str, str]) -> Places | None:
    queue_variable, token_variable = f"{prefix(resource)}_QUEUE_DIR", f"{prefix(resource)}_TOKEN_FILE"
    queue, token = environ.get(queue_variable), environ.get(token_variable)
    if not queue and not token:
        # gpu-hold's variables may name the NPU's places: whoever asks for the NPU by its name meets it there.
        both = resource == LOCKED_RESOURCE and environ.get("GPU_QUEUE_DIR") and environ.get("GPU_TOKEN_FILE")
        named = _by_variables("gpu", environ) if both else None
        return named if named and named.resource == LOCKED_RESOURCE else None
    if not queue or not token:
        given, missing = (queue_variable, token_variable) if queue else (token_variable, queue_variable)
        raise PlaceError(f"{given} is set but {missing} is not: half a place is two queues; set both or neither")
    queue, token = os.path.abspath(queue), os.path.abspath(token)
    if resource == "gpu" and LOCKED_RESOURCE in os.path.basename(token).lower():
        resource = LOCKED_RESOURCE  # gpu-hold called with variables that name the NPU's places
        if environ.get("NPU_TOKEN_FILE", environ["GPU_TOKEN_FILE"]) != environ["GPU_TOKEN_FILE"]:
            raise PlaceError(f"GPU_TOKEN_FILE ({token}) and NPU_TOKEN_FILE name two tokens of the NPU: unset one pair")
    if not os.path.isdir(os.path.dirname(token)):
        raise PlaceError(f"{token_variable} is {token}, but {os.path.dirname(token)} is no directory")
    if not os.path.isdir(os.path.dirname(queue)):
        raise PlaceError(f"{queue_variable} is {queue}, but {os.path.dirname(queue)} is no directory")
    lock = os.path.join(os.path.dirname(token), "npu.lock") if resource == LOCKED_RESOURCE else None
    return Places(
        resource,
        "variables",
        *os.path.split(queue),
        *os.path.split(token),
        environ.get("HW_GATE_LOCK") or lock if lock else None,
    )


def _at_home(resource: str, environ: Mapping[str, str]) -> Places:
    home = environ.get("HOME", "")
    if not home or not os.path.isdir(home):
        raise PlaceError(
            f"HOME is {f'{home}, which is no directory' if home else 'not set'}, "
            "and there is no shared state directory; "
            "name one with --state-dir or ONEBIT_HOLD_DIR"
        )
    owner = os.stat(home).st_uid
    if owner != os.geteuid():
        name = pwd.getpwuid(owner).pw_name if owner in {entry.pw_uid for entry in pwd.getpwall()} else str(owner)
        raise PlaceError(
            f"HOME is {home}, which belongs to {name}, not to you (uid {os.geteuid()}): "
            "a queue there would be a second one; name the shared one with --state-dir or ONEBIT_HOLD_DIR"
        )
    return _home_places(resource, home, environ)


def _home_places(resource: str, home: str, environ: Mapping[str, str]) -> Places:
    upper, home = resource.upper(), os.path.abspath(home)
    lock = os.path.join(home, "npu.lock") if resource == LOCKED_RESOURCE else None
    lock = environ.get("HW_GATE_LOCK") or lock if lock else None
    return Places(resource, "home", home, f"{upper}-QUEUE", home, f"{upper}-TOKEN", lock)
