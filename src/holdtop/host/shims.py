"""``holdtop state shims``: an account's ``gpu-hold`` and ``npu-hold`` replaced by ours.

What is changed in an account's directories is changed with its powers, so that it stays the owner, and root writes
nowhere on its word. A lane that runs the old script keeps its file: that one stays, under a dated name.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime

from holdtop.errors import RefusedError
from holdtop.hold.files import ASIDE, Dir, Untrusted, rename, writing
from holdtop.host.access import exposed
from holdtop.host.accounts import Account
from holdtop.host.code import changeable
from holdtop.host.tools import SYSTEM_PATH, copies
from holdtop.host.values import Step
from holdtop.payload.powers import with_powers_of

_MODE = 0o755
#: The kernel reads no more of a script's first line (execve(2), before Linux 5.1).
_SHEBANG_LIMIT = 127
#: Seconds for an account's first start of the interpreter.
_PATIENCE = 60.0
#: All that a hold needs before it can queue.
_TRIAL = "import holdtop.cli.main, holdtop.cli.run, holdtop.hold.life"


def plan(whose: Account) -> list[Step]:
    """A step for each copy that is not ours; empty when all are. Raises ``RefusedError``."""
    interpreter = _interpreter()
    found = _own_copies(whose)
    for directory in sorted({os.path.dirname(path) for path in found}):
        _refuse_exposed(directory, exposed(directory, {whose.uid}))
    if not found:
        return []
    _refuse_exposed(interpreter, changeable(interpreter, {whose.uid}))
    _refuse_not_runnable(whose, interpreter)
    return list(_steps(whose, found, interpreter))


def _own_copies(whose: Account) -> list[str]:
    """Those that lie in directories of the account's: in others it could not replace them. Each directory once."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted(copies(whose)):
        directory, name = os.path.split(path)
        if os.stat(directory).st_uid == whose.uid:
            found.setdefault((os.path.realpath(directory), name), path)
    return list(found.values())


def _steps(whose: Account, found: list[str], interpreter: str) -> Iterator[Step]:
    stamp = datetime.now().astimezone().strftime("%Y%m%dT%H%M%S")
    for path in found:
        data = content(os.path.basename(path), interpreter)
        there = with_powers_of(whose.uid, lambda path=path: _there(path))  # type: ignore[misc]
        if there is not None and there[0] == data:
            if there[1:] != (whose.uid, _MODE):
                yield Step(f"make {path} {whose.name}'s own, 0755", _replacing(whose, path, data, None))
            continue
        kept = f"{os.path.basename(path)}.old-{stamp}"
        yield Step(f"replace {path}, keeping the old one as {kept}", _replacing(whose, path, data, kept))


def content(name: str, interpreter: str) -> bytes:
    """The whole shim. Isolated (``-I``): neither the lane's variables nor its working directory add modules."""
    face = name.replace("-", "_")
    return (
        f"#!{interpreter} -I\n"
        "# Written by 'holdtop state shims'; do not edit.\n"
        "import sys\n\n"
        f"from holdtop.cli.main import {face}\n\n"
        f"sys.exit({face}())\n"
    ).encode()


def _there(path: str) -> tuple[bytes, int, int] | None:
    """Content, owner and mode of a file of our own form; ``None`` for what cannot be one."""
    directory, name = os.path.split(path)
    with contextlib.suppress(FileNotFoundError, Untrusted, PermissionError), Dir.root(directory) as opened:
        data, status = opened.read(name, shared=True)
        return data, status.st_uid, status.st_mode & 0o7777
    return None


def _replacing(whose: Account, path: str, data: bytes, kept: str | None) -> Callable[[], None]:
    return lambda: with_powers_of(whose.uid, lambda: _replace(path, data, kept))


def _replace(path: str, data: bytes, kept: str | None) -> None:
    directory_path, name = os.path.split(path)
    with Dir.root(directory_path) as directory, writing(path, "replace it"):
        aside = ASIDE + name  # one name: what has it is debris of a killed run
        directory.remove(aside)
        os.close(directory.create(aside, data, mode=_MODE))
        if kept is not None and not _is_kept(directory, name):
            os.link(name, kept, src_dir_fd=directory.fd, dst_dir_fd=directory.fd, follow_symlinks=False)
        rename(directory, aside, name)
        os.fsync(directory.fd)


def _is_kept(directory: Dir, name: str) -> bool:
    """A run that was killed may have given it its dated name already."""
    status = directory.status(name)
    others = (directory.status(one) for one in directory.names() if one.startswith(f"{name}.old-"))
    return status is None or any(one and os.path.samestat(one, status) for one in others)


def _interpreter() -> str:
    found = sys.executable or ""
    if not os.path.isabs(found) or not found.isprintable() or " " in found or len(found) > _SHEBANG_LIMIT - 5:
        raise RefusedError(
            f"the interpreter {found!r} cannot stand in a script's first line: install holdtop elsewhere"
        )
    return found


def _refuse_exposed(what: str, found: dict[str, str]) -> None:
    for path, who in found.items():
        raise RefusedError(
            f"{path} may be written by {who}, who could put anything in the place of {what}: chmod go-w {path}, or "
            "chown it"
        )


def _refuse_not_runnable(whose: Account, interpreter: str) -> None:
    """Try it as that account, with nothing of ours but the path."""
    as_account = {} if os.geteuid() != 0 else _ids(whose)
    try:
        done = subprocess.run(
            [interpreter, "-I", "-c", _TRIAL],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            cwd="/",
            env={"HOME": whose.home, "PATH": ":".join(SYSTEM_PATH)},
            start_new_session=True,  # no way to our terminal
            timeout=_PATIENCE,
            check=False,
            **as_account,  # type: ignore[call-overload]
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RefusedError(
            f"{whose.name} cannot run {interpreter}: {error}; install holdtop where all may read"
        ) from error
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise RefusedError(f"{whose.name} cannot run {interpreter}: {said[0]}; install holdtop where all may read it")


def _ids(whose: Account) -> dict[str, object]:
    groups = os.getgrouplist(whose.name, whose.gid)
    return {"user": whose.uid, "group": whose.gid, "extra_groups": groups}
