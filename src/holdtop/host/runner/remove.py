"""``holdtop runner remove``: undo what the installation made, by its own record of it, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial

from holdtop.errors import GoneError, HoldtopError, RefusedError
from holdtop.hold.files import writing
from holdtop.host.accounts import account, group_named
from holdtop.host.runner import unit
from holdtop.host.runner.bus import Manager, linger
from holdtop.host.runner.child import ask_as
from holdtop.host.runner.install import has_job, run
from holdtop.host.runner.ledger import Ledger
from holdtop.host.runner.settings import PREFIX, Settings
from holdtop.host.values import Step

#: What several runners of one account share: it goes with the last of them.
SHARED = ("account", "group", "link", "linger")


def plan(settings: Settings, manager: Manager, *, now: bool) -> list[Step]:
    """What is to be undone, the last made first. Raises ``RefusedError``, and ``GoneError`` when nothing was made."""
    if settings.system and os.geteuid() != 0:
        raise RefusedError("a unit of the system's manager is root's to remove: sudo holdtop runner remove …")
    ledger = Ledger.of(settings)
    entries = ledger.entries()
    if not entries:
        raise GoneError(f"{settings.unit}: no installation is on record ({ledger.path}); nothing was removed")
    _refuse_other(settings, entries)
    if not now and has_job(manager, settings.unit):
        raise RefusedError(f"{settings.unit} has a job: wait until it has ended, or end it with --now")
    kept = {entry for entry in entries if _is_shared(settings, *entry)}
    steps = [
        _step(settings, ledger, manager, kind, name) for kind, name in reversed(entries) if (kind, name) not in kept
    ]
    return [*_stop(settings, manager), *steps, *_handed_over(settings, ledger, kept)]


def _refuse_other(settings: Settings, entries: list[tuple[str, str]]) -> None:
    """The options are not those of the installation: something else of the box would be undone. ``RefusedError``."""
    units = [name for kind, name in entries if kind == "unit"]
    if units and settings.unit_path not in units:
        raise RefusedError(f"it was installed as {units[0]}: name its directory, --unit-dir")
    if settings.system and os.path.lexists(settings.unit_path) and not _runs_as(settings.unit_path, settings.user):
        raise RefusedError(
            f"{settings.unit} does not run as {settings.user}: name its account and home, --user, --home"
        )


def _stop(settings: Settings, manager: Manager) -> Iterator[Step]:
    said = manager.properties(settings.unit)
    if said["ActiveState"] not in ("inactive", "failed"):
        yield Step(f"stop {settings.unit}", partial(manager.stop, settings.unit))
    if said["UnitFileState"] == "enabled":
        yield Step(f"disable {settings.unit}", partial(manager.disable, settings.unit))


def _others(settings: Settings) -> list[str]:
    """Names of the account's other runners that lie beside this one."""
    directory = os.path.dirname(settings.unit_path)
    there = os.listdir(directory) if os.path.isdir(directory) else []
    names = [name for name in there if name.startswith(PREFIX) and name.endswith(".service")]
    others = sorted(name for name in names if name != settings.unit)
    return [name for name in others if not settings.system or _runs_as(os.path.join(directory, name), settings.user)]


def _runs_as(path: str, user: str) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        return f"\nUser={user}\n" in file.read(1 << 20)


def _is_shared(settings: Settings, kind: str, name: str) -> bool:
    return bool(_others(settings)) and (kind in SHARED or name == settings.home)


def _handed_over(settings: Settings, ledger: Ledger, kept: set[tuple[str, str]]) -> Iterator[Step]:
    """Another runner of the account still needs it, and takes it along when it goes."""
    if kept:
        heir = _others(settings)[0]
        other = Ledger(
            os.path.join(os.path.dirname(ledger.path), f"runner-{heir[len(PREFIX) : -len('.service')]}.json")
        )
        names = ", ".join(sorted(name for _, name in kept))
        yield Step(f"leave what {heir} needs as well: {names}", partial(_hand_over, ledger, other, kept))


def _hand_over(ledger: Ledger, other: Ledger, kept: set[tuple[str, str]]) -> None:
    for entry in [one for one in ledger.entries() if one in kept]:
        other.add(*entry)
        ledger.drop(*entry)


def _step(settings: Settings, ledger: Ledger, manager: Manager, kind: str, name: str) -> Step:
    undo: dict[str, tuple[str, Callable[[], object]]] = {
        "account": (f"remove the account {name}", partial(_remove_account, name)),
        "group": (f"take {name.partition(' ')[2]} out of {name.partition(' ')[0]}", partial(_leave, name)),
        "directory": (f"remove {name} with all that is in it", partial(_remove_tree, name)),
        "link": (f"remove the link {name}", partial(_remove_link, settings, name)),
        "unit": (f"remove {name}", partial(_remove_unit, settings, manager, name)),
        "linger": ("no longer linger", lambda: linger(int(name), enable=False)),
    }
    if kind not in undo:
        raise RefusedError(f"{ledger.path} has an entry that is not known here: {kind}")
    text, act = undo[kind]
    return Step(text, partial(_undone, ledger, kind, name, act))


def _undone(ledger: Ledger, kind: str, name: str, act: Callable[[], object]) -> None:
    act()
    ledger.drop(kind, name)


def _remove_account(name: str) -> None:
    try:
        account(name)
    except HoldtopError:
        return
    run("userdel", name)


def _leave(entry: str) -> None:
    group, _, name = entry.partition(" ")
    found = group_named(group)
    if found and name in found.gr_mem:
        run("gpasswd", "--delete", name, group)


def _remove_tree(path: str) -> None:
    """Follows no link (``shutil.rmtree.avoids_symlink_attacks``)."""
    with writing(path, "remove it"):
        if os.path.lexists(path):
            shutil.rmtree(path)


def _remove_link(settings: Settings, path: str) -> None:
    """As the account, in whose home it lies."""
    ask_as(account(settings.user), lambda: os.unlink(path) if os.path.islink(path) else None)


def _remove_unit(settings: Settings, manager: Manager, path: str) -> None:
    """One that somebody has replaced meanwhile is not ours to remove. Raises ``RefusedError``."""
    with writing(path, "remove the unit"):
        if os.path.lexists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                if not file.read(len(unit.FIRST_LINE)) == unit.FIRST_LINE:
                    raise RefusedError(f"{path} is not ours any more: look at it, and move it away")
            os.unlink(path)
    manager.reload()
    if manager.properties(settings.unit)["ActiveState"] == "failed":
        manager.forget_failure(settings.unit)
