"""What each account runs: its hold tools, and whether anybody else could write what it executes."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterator

from holdtop.errors import HoldError
from holdtop.hold.files import upwards
from holdtop.host.accounts import Account, account, with_homes
from holdtop.host.check.sessions import member_accounts
from holdtop.host.code import behind, changeable
from holdtop.host.said import Fact, Finding, Said, Unlooked
from holdtop.host.tools import OWN_DIRECTORIES, SYSTEM_PATH, copies, paths_of, text_of, tools
from holdtop.render import counted

#: Below a home: what a login, a shell or the user manager runs unasked.
STARTED = (
    ".profile",
    ".bash_profile",
    ".bash_login",
    ".bashrc",
    ".zshenv",
    ".zprofile",
    ".zshrc",
    ".config/fish/config.fish",
    ".config/systemd/user",
    ".ssh/authorized_keys",
    ".ssh/rc",
)
#: How many accounts or paths a finding names.
NAMED = 5
_FORKS = "it goes on queueing there beside everybody else"
_GAINS = "whoever may write it runs programs as that account"


def tools_of(state_dir: str) -> Iterator[Said]:
    """Which copy each account would run, and where that one looks for the state."""
    shared = os.path.isdir(state_dir)
    for one in with_homes():
        for tool in tools(one, state_dir):
            if tool.stale and shared:
                remedy = f"sudo holdtop state shims --user {shlex.quote(one.name)}"
                kind = "old-tool" if tool.resolves == "home" else "unknown-tool"
                yield Finding(kind, tool.said, _FORKS, f"{remedy}; or rm {shlex.quote(tool.path)}", tool.path)
            elif one.uid != 0 or tool.stale:
                yield Fact("tool", tool.said)


def programs(state_dir: str) -> Iterator[Said]:
    """Nothing that a member can write is what another account executes: every path looked at, or named."""
    for one in _concerned(state_dir):
        looked, found = 0, defaultdict[str, list[str]](list)
        for path in sorted(_run_by(one)):
            looked += 1
            try:
                for place, who in changeable(path, {one.uid}).items():
                    found[who].append(place)
            except HoldError as error:
                yield Unlooked("closed", f"who may write {path}, which {one.name} would run", str(error))
        for who, places in found.items():
            paths = sorted(set(places))
            what = f"{_named(paths)}, which {one.name} would run or read programs from, may be written by {who}"
            remedy = f"sudo chmod go-w {' '.join(map(shlex.quote, paths[:NAMED]))}, or chown to {one.name} or root"
            yield Finding("writable-program", what, _GAINS, remedy, paths[0])
        if not found:
            number = counted(looked, "place", "places")
            yield Fact(
                "programs", f"{number} from which {one.name} runs programs: nobody else but root may write there"
            )


def _concerned(state_dir: str) -> list[Account]:
    """The members, whoever has a tool of its own, and root."""
    own = [one for one in with_homes() if any(path.startswith(one.home + "/") for path in copies(one))]
    return list({one.uid: one for one in (account("root"), *member_accounts(state_dir), *own)}.values())


def _run_by(one: Account) -> set[str]:
    """Where programs come from: directories of search paths (of root's the usual one), start-up files, tools."""
    own = [os.path.join(one.home, name) for name in OWN_DIRECTORIES]
    directories = {one.home, *own, *SYSTEM_PATH}
    if one.uid != 0:
        directories |= {path for paths in paths_of(one.uid) for path in paths if os.path.isabs(path)}
    started = (os.path.join(one.home, name) for name in STARTED)
    found = {next(filter(os.path.exists, upwards(path))) for path in (*directories, *started)}
    for path in copies(one) if one.uid != 0 else ():
        found.add(path)
        try:
            found |= {os.path.abspath(word) for word in behind(text_of(one, path), [*own, *SYSTEM_PATH])}
        except (OSError, HoldError):
            continue  # the copy itself is looked at; what it runs is said to be unknown by its own check
    return {path for path in found if os.path.lexists(path)}


def _named(paths: list[str]) -> str:
    more = len(paths) - NAMED
    return ", ".join(paths[:NAMED]) + (f" and {more} more" if more > 0 else "")
