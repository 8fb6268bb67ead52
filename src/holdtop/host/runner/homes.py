"""What a runner needs in its account's home: made by the account itself, but for the home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from holdtop.errors import RefusedError, UnseenError, UsageError
from holdtop.hold.files import writing
from holdtop.host.accounts import Account, account
from holdtop.host.runner import reach, tarball
from holdtop.host.runner.child import ask_as
from holdtop.host.runner.ledger import Ledger
from holdtop.host.runner.settings import Settings
from holdtop.host.values import Step
from holdtop.payload.linux import NOBODYS_UID

#: Jobs read it, and other accounts do not.
HOME_MODE = 0o750
#: For unpacking, in seconds.
UNPACK_TIMEOUT = 600.0


def steps(settings: Settings, ledger: Ledger) -> Iterator[Step]:
    """Raises ``RefusedError`` for a link whose target the account could write, as far as there is an account yet."""
    if not os.path.lexists(settings.home):
        yield Step(f"make {settings.home}", partial(_home, settings, ledger))
    if not os.path.lexists(settings.directory):
        yield Step(f"make {settings.directory}", partial(_directory, settings, ledger))
    for name, target in settings.home_links:
        path = os.path.join(settings.home, name)
        if not os.path.lexists(target):
            raise RefusedError(f"--home-link {name}: there is no {target}")
        if not os.path.lexists(path):
            text = f"link {path} to {target}"
            yield Step(text, partial(_link, settings, ledger, path, target))
        elif not os.path.islink(path) or os.readlink(path) != target:
            raise RefusedError(f"{path} is there, and no link to {target}: look at it, and move it away")


def refuse_writable(settings: Settings) -> None:
    """Raise ``RefusedError`` when the account may write what jobs and others shall only read.

    One that does not exist yet may write what everybody may.
    """
    targets = [*settings.path_dirs, *(target for _, target in settings.home_links)]
    try:
        runner = account(settings.user)
    except UsageError:
        runner = Account(settings.user, NOBODYS_UID, NOBODYS_UID, settings.home)
    for path, said in ask_as(runner, lambda: reach.writable(targets)) if targets else ():
        raise RefusedError(f"the runner's account may write {path} ({said}): chown root {path}; chmod go-w {path}")


def unpack(settings: Settings, path: str, sums: str) -> None:
    """Raises ``RefusedError``, and ``UnseenError`` when the account could not."""
    with tarball.checked(path, sums) as archive:
        ask_as(account(settings.user), lambda: tarball.unpack(archive, settings.directory), UNPACK_TIMEOUT)


def _home(settings: Settings, ledger: Ledger) -> None:
    owner = account(settings.user)
    ledger.add("directory", settings.home)
    with writing(settings.home, "make the home"):
        os.makedirs(os.path.dirname(settings.home), exist_ok=True)
        os.mkdir(settings.home, 0o700)
        os.chown(settings.home, owner.uid, owner.gid)
        os.chmod(settings.home, HOME_MODE)


def _directory(settings: Settings, ledger: Ledger) -> None:
    ledger.add("directory", settings.directory)
    ask_as(account(settings.user), lambda: os.makedirs(settings.directory, HOME_MODE, exist_ok=True))


def _link(settings: Settings, ledger: Ledger, path: str, target: str) -> None:
    refuse_writable(settings)
    ledger.add("link", path)
    try:
        ask_as(account(settings.user), lambda: _make_link(path, target))
    except UnseenError as error:
        raise RefusedError(f"{path} could not be made: {error}") from error


def _make_link(path: str, target: str) -> None:
    os.makedirs(os.path.dirname(path), HOME_MODE, exist_ok=True)
    os.symlink(target, path)
