"""``holdtop runner install``: what is missing of a runner, as steps; all that can be refused is, before the first one.

What lies in the account's home is made by the account itself, in a child: root follows no path that jobs can bend.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdtop.errors import HoldtopError, RefusedError
from holdtop.hold.files import Dir, refuse, writing
from holdtop.host.access import exposed
from holdtop.host.accounts import account, group_name, group_named, members
from holdtop.host.runner import homes, lingering, registration, tarball, unit
from holdtop.host.runner.bus import Manager, linger
from holdtop.host.runner.ledger import Ledger
from holdtop.host.runner.settings import Settings
from holdtop.host.values import Step

NO_SHELL = "/usr/sbin/nologin"
#: The vendor's program of a job, below the listener.
JOB = "Runner.Worker"


@dataclass(frozen=True, slots=True)
class Wanted:
    settings: Settings
    groups: tuple[str, ...] = ()
    tarball: str | None = None
    sha256sums: str | None = None
    registration: registration.Registration | None = None
    linger: bool = False
    #: Restart a listener that has a job.
    now: bool = False


def plan(wanted: Wanted, manager: Manager) -> list[Step]:
    """What is to be done, in this order. Raises ``RefusedError`` and ``UsageError``."""
    _refuse(wanted)
    settings, ledger = wanted.settings, Ledger.of(wanted.settings)
    steps = [*_account(wanted, ledger), *homes.steps(settings, ledger)]
    if wanted.tarball and wanted.sha256sums:
        steps += _unpacking(wanted, wanted.tarball, wanted.sha256sums)
    steps += registration.steps(settings, wanted.registration)
    if wanted.linger and not lingering.lingers(settings.user):
        steps.append(Step(f"let {settings.user}'s manager linger", partial(_linger, ledger)))
    return [*steps, *_unit(wanted, ledger, manager)]


def has_job(manager: Manager, name: str) -> bool:
    """Whether the listener is in mid-job, by the vendor's program below the unit."""
    running = bool(manager.properties(name)["ControlGroup"])
    return running and any(JOB in words for words in manager.processes(name).values())


def warnings(wanted: Wanted) -> Iterator[str]:
    """What is no reason to refuse, and has to be known."""
    for name in wanted.groups:
        if group_named(name) is None:
            yield f"this box has no group {name}: the account goes without it"
        elif name == "docker":
            yield "whoever is in the group docker is root: so is every job then"
    settings = wanted.settings
    if settings.system and (shell := _shell(settings.user)):
        yield f"{settings.user} was there before, with the shell {shell}: usermod --shell {NO_SHELL} {settings.user}"
    if not settings.system and not wanted.linger and (one := lingering.finding(settings.user)):
        yield f"{one.what}: {one.why}; --linger, or {one.remedy}"


def _shell(user: str) -> str | None:
    """What somebody could log in with; ``None`` when that is nothing, or there is no account."""
    with contextlib.suppress(KeyError):
        shell = pwd.getpwnam(user).pw_shell
        return None if os.path.basename(shell) in ("nologin", "false") else shell or "/bin/sh"
    return None


def _refuse(wanted: Wanted) -> None:
    settings = wanted.settings
    if settings.system and os.geteuid() != 0:
        raise RefusedError("a unit of the system's manager is root's to install: sudo holdtop runner install …")
    if settings.state_dir is not None and not os.path.isdir(settings.state_dir):
        raise RefusedError(
            f"there is no state directory {settings.state_dir}: its jobs would meet nobody. "
            "Make it (holdtop state init), or say --no-hold-state"
        )
    if wanted.tarball and not wanted.sha256sums:
        raise RefusedError(f"{wanted.tarball} is not unpacked unchecked: name its checksum, --sha256sums FILE")
    if not wanted.tarball and not os.path.lexists(settings.program):
        raise RefusedError(f"there is no {settings.program} to run: name the vendor's archive, --tarball FILE")
    if not settings.system and wanted.groups:
        raise RefusedError("--groups: your own manager has the groups of your login")
    _refuse_exposed(settings)
    _refuse_foreign(settings)
    homes.refuse_writable(settings)
    if said := unit.complaints(unit.render(settings), settings.unit):
        raise RefusedError(f"systemd would not take the unit as it is meant: {said[0]}")


def _refuse_exposed(settings: Settings) -> None:
    """Whoever may exchange the home or the unit could run what they like as the account, or as root."""
    trusted = () if settings.system else (os.geteuid(),)
    for path in (os.path.dirname(settings.home), os.path.dirname(settings.unit_path)):
        there = path
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        for one, who in exposed(there, trusted, on_the_way=True).items():
            raise RefusedError(f"{one} may be written by {who}, who could exchange {path}: chmod go-w {one}")


def _refuse_foreign(settings: Settings) -> None:
    text = _current(settings)
    if text is not None and not text.startswith(unit.FIRST_LINE):
        raise RefusedError(f"{settings.unit_path} is not ours: move it away, or choose another --name")
    if os.path.lexists(settings.home) and settings.system:
        status = os.lstat(settings.home)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != _uid(settings.user):
            raise RefusedError(f"{settings.home} is there and not {settings.user}'s own directory: name another --home")


def _uid(user: str) -> int | None:
    try:
        return account(user).uid
    except HoldtopError:
        return None


def _current(settings: Settings) -> str | None:
    """The unit as it lies there; ``None`` when there is none."""
    try:
        with open(settings.unit_path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except FileNotFoundError:
        return None
    except OSError as error:
        refuse(error, settings.unit_path, "read the unit")


def _account(wanted: Wanted, ledger: Ledger) -> Iterator[Step]:
    settings = wanted.settings
    if not settings.system:
        return
    if _uid(settings.user) is None:
        words = ("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", settings.home)
        command = (*words, "--shell", NO_SHELL, settings.user)
        yield Step(f"make the account {settings.user}", partial(_made, ledger, "account", settings.user, command))
    names = [name for name in wanted.groups if group_named(name)]
    if settings.state_dir is not None:
        names.append(group_name(os.stat(settings.state_dir).st_gid))
    for name in dict.fromkeys(names):
        group = group_named(name)
        if group and group.gr_gid and settings.user not in members(group.gr_gid):
            join = ("usermod", "--append", "--groups", name, settings.user)
            text = f"make {settings.user} a member of {name}"
            yield Step(text, partial(_made, ledger, "group", f"{name} {settings.user}", join))


def _made(ledger: Ledger, kind: str, name: str, command: tuple[str, ...]) -> None:
    ledger.add(kind, name)
    run(*command)


def run(*words: str) -> None:
    """A program of the box. Raises ``HoldtopError`` with what it said."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        refuse(error, words[0], "run it")
    if done.returncode:
        raise HoldtopError(f"{' '.join(words)}: status {done.returncode}: {' '.join(done.stderr.split())}")


def _unpacking(wanted: Wanted, path: str, sums: str) -> Iterator[Step]:
    settings = wanted.settings
    with tarball.checked(path, sums):
        pass  # refused before anything is made
    if os.path.lexists(settings.program):
        return  # the listener updates itself: an older archive would only set it back
    yield Step(f"unpack {path} into {settings.directory}", partial(homes.unpack, settings, path, sums))


def _linger(ledger: Ledger) -> None:
    ledger.add("linger", str(os.geteuid()))
    linger(os.geteuid(), enable=True)


def _unit(wanted: Wanted, ledger: Ledger, manager: Manager) -> Iterator[Step]:
    settings = wanted.settings
    text, said = unit.render(settings), manager.properties(settings.unit)
    changed = _current(settings) != text
    if changed:
        yield Step(f"write {settings.unit_path}", partial(_write_unit, settings, ledger, text))
    if changed or said["NeedDaemonReload"] or said["LoadState"] != "loaded":
        yield Step(f"let the service manager read it{_left_alone(wanted, manager, said)}", manager.reload)
    if said["UnitFileState"] != "enabled":
        yield Step(f"enable {settings.unit}", partial(manager.enable, settings.unit_path))
    if said["ActiveState"] != "active":
        yield Step(f"start {settings.unit}", partial(_start, settings.unit, manager))
    elif changed and (wanted.now or not has_job(manager, settings.unit)):
        yield Step(f"restart {settings.unit}", partial(_restart, wanted, manager))


def _left_alone(wanted: Wanted, manager: Manager, said: Mapping[str, Any]) -> str:
    """What has to be known of a listener that goes on as it was started."""
    if said["ActiveState"] != "active" or wanted.now or not has_job(manager, wanted.settings.unit):
        return ""
    return "; a job runs, and its listener goes on as it was started (--now restarts it)"


def _write_unit(settings: Settings, ledger: Ledger, text: str) -> None:
    ledger.add("unit", settings.unit_path)
    directory, name = os.path.split(settings.unit_path)
    with writing(settings.unit_path, "write the unit"):
        os.makedirs(directory, exist_ok=True)
        with Dir.root(directory) as opened:
            opened.replace(name, text.encode())
            os.chmod(name, 0o644, dir_fd=opened.fd)


def _start(name: str, manager: Manager) -> None:
    if manager.properties(name)["ActiveState"] == "failed":
        manager.forget_failure(name)
    manager.start(name)


def _restart(wanted: Wanted, manager: Manager) -> None:
    """Asked again: a job may have come since. Raises ``RefusedError`` then."""
    name = wanted.settings.unit
    if not wanted.now and has_job(manager, name):
        raise RefusedError(f"{name} has a job by now, and its listener goes on as it was started: --now restarts it")
    manager.restart(name)
