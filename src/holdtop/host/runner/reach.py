"""What a runner's jobs reach, and what they must not: looked at as the runner's own account.

Permissions are asked of the kernel by that account itself: modes, groups and lists are then whatever they are.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping

from holdtop.errors import HoldtopError
from holdtop.hold.files import ASIDE, Dir, Untrusted
from holdtop.hold.places import resolve
from holdtop.host import tools
from holdtop.host.access import Component, components
from holdtop.host.accounts import Account, with_homes
from holdtop.host.runner import directives
from holdtop.host.runner.settings import SYSTEM_PATH, Settings
from holdtop.host.said import Finding

#: Of a directory of shared tools no more entries are looked at.
MOST_ENTRIES = 1000
#: In a home, what its owner's next shell or login reads or runs.
STARTED = (".bashrc", ".bash_profile", ".profile", ".zshrc", ".ssh", ".config/systemd/user", ".local/bin", "bin")
RESOURCES = {"gpu": "gpu-hold", "npu": "npu-hold"}


def findings(settings: Settings, environment: Mapping[str, str], executed: Iterable[str]) -> list[Finding]:
    """To be called as the account. ``environment``: what the unit gives; ``executed``: ``executed_by_others``."""
    environ = {"HOME": settings.home, **environment}
    found = [*_readable(settings, environ), *_writable(executed)]
    if settings.state_dir is not None:
        found += [*_resolution(settings, settings.state_dir, environ), *_state(settings, settings.state_dir, environ)]
    return found


def executed_by_others(settings: Settings, runner: Account, path: str) -> list[str]:
    """Paths that other accounts run, or that are run for them; found with the powers that we have.

    ``path``: the unit's own; what it has before the system's directories is shared.
    """
    named = {one for one in path.split(":") if os.path.isabs(one)} - set(SYSTEM_PATH)
    shared = named.union(settings.path_dirs, (target for _, target in settings.home_links))
    found = set(shared)
    for account in with_homes():
        if account.uid != runner.uid:
            found.update(os.path.join(account.home, name) for name in ("", *STARTED))
            found.update(tool.path for tool in tools.tools(account, settings.state_dir or ""))
            found.update(one for parts in tools.paths_of(account.uid) for one in parts if os.path.isabs(one))
    for directory in shared:
        found.update(_entries(directory))
    return sorted(one for one in found if os.path.lexists(one))


def _entries(directory: str) -> list[str]:
    try:
        return [os.path.join(directory, name) for name in sorted(os.listdir(directory))[:MOST_ENTRIES]]
    except OSError:
        return []


def _resolution(settings: Settings, state_dir: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """By which rule, and by which copy of the tool, a job would queue."""
    for resource, name in RESOURCES.items():
        queue = os.path.join(state_dir, f"{resource}-queue")
        mend = directives.install(settings)
        try:
            meets = resolve(resource, None, environ).queue_path
        except HoldtopError as error:
            yield Finding("state", str(error), "a job's hold is refused", mend, resource)
            continue
        if os.path.realpath(meets) != os.path.realpath(queue):
            what = f"jobs would queue in {meets}, not in {queue}"
            yield Finding("state", what, "that is a second queue", mend, resource)
        yield from _tool(settings, state_dir, name, environ)


def _tool(settings: Settings, state_dir: str, name: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    path = shutil.which(name, path=environ.get("PATH", ""))
    if path is None:
        what, put = f"{settings.user} finds no {name} on its PATH", f"{next(iter(settings.path_dirs), 'DIR')}/{name}"
        remedy = _put_own(name, put) + (
            "" if settings.path_dirs else f"; {directives.install(settings)} --path-dir DIR"
        )
        yield Finding("no-tool", what, "jobs cannot queue by it", remedy, name)
        return
    try:
        where = tools.resolves(path, state_dir)
    except OSError as error:
        why, remedy = "where it queues cannot be known", f"sudo chmod a+r {shlex.quote(path)}"
        yield Finding("tool", f"{path}: {error.strerror}", why, remedy, path)
        return
    if where not in ("ours", "fleet"):
        what = "looks for the state in its account's home only" if where == "home" else "does not tell where it queues"
        why = "this runner must not take NPU work" if name == "npu-hold" else "its jobs would not meet the others'"
        yield Finding("tool", f"{path} {what}", why, _put_own(name, path), path)


def _put_own(name: str, path: str) -> str:
    """The command that puts ours there; it lies beside the interpreter, which the account has to reach."""
    return f"sudo ln -sfn {shlex.quote(os.path.join(os.path.dirname(sys.executable), name))} {shlex.quote(path)}"


def _state(settings: Settings, state_dir: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Makes and unlinks an entry wherever a hold does; the lock is opened, not taken."""
    init = f"sudo holdtop state init --state-dir {shlex.quote(state_dir)} --user {settings.user}"
    remedy = f"{init}; sudo systemctl restart {settings.unit}"
    for directory in (state_dir, *(os.path.join(state_dir, f"{resource}-queue") for resource in RESOURCES)):
        name = f"{ASIDE}runner-{os.getpid()}"
        try:
            with Dir.root(directory) as opened:
                os.close(opened.create(name))
                opened.remove(name)
        except (OSError, HoldtopError) as error:
            what = f"cannot make and unlink there: {error}"
            yield Finding("state-denied", what, "no hold there", remedy, directory)
    lock, fleet = environ.get("HW_GATE_LOCK", ""), os.path.join(state_dir, "npu.lock")
    if lock and os.path.realpath(lock) != os.path.realpath(fleet):
        why = "a private lock is the NPU's second queue"
        yield Finding("lock", f"HW_GATE_LOCK={lock} is not {fleet}", why, "leave --env HW_GATE_LOCK out", lock)
    try:
        with Dir.root(state_dir) as opened:
            os.close(opened.open("npu.lock", os.O_RDWR))
    except (OSError, Untrusted, HoldtopError) as error:
        yield Finding("lock", f"{fleet} cannot be locked: {error}", "no hardware gate passes", remedy, fleet)


def _readable(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """What the unit or the home names has to be there for the account."""
    paths = {f"--env {key}": text for key, text in environ.items() if text.startswith("/") and key != "PATH"}
    paths |= {f"--home-link {name}": os.path.join(settings.home, name) for name, _ in settings.home_links}
    paths |= {f"--path-dir {path}": path for path in settings.path_dirs}
    for named, path in paths.items():
        if not os.access(path, os.R_OK | (os.X_OK if os.path.isdir(path) else 0)):
            what = f"{settings.user} cannot read {path} ({named})"
            remedy = f"make it, or open the way to it: namei -l {path}"
            yield Finding("unreadable", what, "jobs fail on it", remedy, path)


def _writable(executed: Iterable[str]) -> Iterator[Finding]:
    """Whatever of others' programs, or of the way to them, this account could write or exchange."""
    for path, said in writable(executed):
        what = f"the runner's account may write {path} ({said})"
        why = "another account runs what lies there or below"
        quoted = shlex.quote(path)
        yield Finding("writable", what, why, f"sudo chown root {quoted}; sudo chmod go-w {quoted}", path)


def writable(paths: Iterable[str]) -> list[tuple[str, str]]:
    """Components of these paths that this account may write or exchange, each with its owner and mode."""
    return list({one.path: one.said for path in paths for one in _way(path) if _may_write(one)}.items())


def _way(path: str) -> list[Component]:
    """Every component that this account can look at."""
    while True:
        try:
            return components(path)
        except HoldtopError:
            path = os.path.dirname(path)


def _may_write(one: Component) -> bool:
    if one.uid == os.geteuid() and not stat.S_ISLNK(one.mode):
        return True  # its owner can always give itself the right
    if stat.S_ISDIR(one.mode):
        return os.access(one.path, os.W_OK | os.X_OK) and (one.last or not one.mode & stat.S_ISVTX)
    return stat.S_ISREG(one.mode) and os.access(one.path, os.W_OK)
