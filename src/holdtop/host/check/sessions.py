"""Processes of the members: whether they have the group, and what their variables say about the place."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator

from holdtop.errors import UsageError
from holdtop.hold.places import prefix
from holdtop.host.accounts import Account, account, group_name, members
from holdtop.host.said import Fact, Finding, Said, Unlooked
from holdtop.host.tools import environment
from holdtop.payload.members import real_uid
from holdtop.payload.process import read_stat, scan
from holdtop.render import counted
from holdtop.sources.files import read, read_text

_DENIED = "a hold that starts there is denied the queue"
_SPLIT = "its holds queue elsewhere than everybody else's, and exclude nobody"
#: How many pids a finding names.
NAMED = 5


def member_accounts(state_dir: str) -> list[Account]:
    """Those of the directory's group, but root."""
    found = []
    for name in sorted(members(os.stat(state_dir).st_gid) - {"root"}):
        try:
            found.append(account(name))
        except UsageError:
            continue  # the group names an account that is gone
    return found


def sessions(state_dir: str) -> Iterator[Said]:
    """A process has the groups that its login gave it: who became a member since has to begin anew."""
    gid = os.stat(state_dir).st_gid
    for one in member_accounts(state_dir):
        lacking = [pid for pid in _pids(one) if (groups := groups_of(pid)) is not None and gid not in groups]
        if not lacking:
            yield Fact("sessions", f"every process of {one.name} has group {group_name(gid)}")
        for where, pids in _by_starter(one, lacking).items():
            shown = ", ".join(map(str, pids[:NAMED])) + (", …" if len(pids) > NAMED else "")
            number = counted(len(pids), "process", "processes")
            what = f"{number} of {one.name} without group {group_name(gid)} ({shown}): {where[0]}"
            yield Finding("old-session", what, _DENIED, where[1], one.name)


def _pids(one: Account) -> list[int]:
    return [pid for pid in scan() if real_uid(pid) == one.uid]


def groups_of(pid: int) -> set[int] | None:
    """All groups of a process (proc_pid_status(5)); ``None`` when it is gone or closed."""
    lines = dict(line.split(":", 1) for line in read_text(f"/proc/{pid}/status").splitlines() if ":" in line)
    if "Gid" not in lines:
        return None
    return {int(word) for word in (*lines["Gid"].split(), *lines.get("Groups", "").split())}


def _by_starter(one: Account, pids: list[int]) -> dict[tuple[str, str], list[int]]:
    """By what has to be begun anew, and how."""
    found = defaultdict(list)
    for pid in pids:
        found[_starter(one, pid)].append(pid)
    return dict(found)


def _starter(one: Account, pid: int) -> tuple[str, str]:
    units = [part for part in read_text(f"/proc/{pid}/cgroup").strip().split("/") if part.endswith(".service")]
    manager = f"user@{one.uid}.service"
    if manager in units or _is_manager(pid):
        return "below its user manager", f"sudo systemctl restart {manager}  # ends what runs below it"
    if units and not units[0].startswith("user@"):
        return f"of {units[0]}", f"sudo systemctl restart {units[0]}"
    return (
        "of a session from before",
        f"log out and in again, tmux servers too: sudo loginctl terminate-user {one.name}",
    )


def _is_manager(pid: int) -> bool:
    try:
        words = read(f"/proc/{pid}/cmdline").split(b"\0")
    except OSError:
        return False
    return os.path.basename(words[0]) == b"systemd" and b"--user" in words


def variables(state_dir: str) -> Iterator[Said]:
    """Half a place is refused by each hold; a whole one that lies elsewhere is a second queue."""
    for one in member_accounts(state_dir):
        found: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        closed = 0
        for pid in _pids(one):
            environ = dict(environment(pid))
            closed += not environ and _lives(pid)
            for said in _odd(environ, state_dir):
                found[said].append(pid)
        for (kind, what, remedy), pids in found.items():
            why = "each hold there is refused" if kind == "half-named" else _SPLIT
            yield Finding(kind, f"{one.name}, pid {', '.join(map(str, pids[:NAMED]))}: {what}", why, remedy, one.name)
        if closed:
            yield Unlooked(
                "closed", f"the variables of {counted(closed, 'process', 'processes')} of {one.name}", "closed"
            )


def _lives(pid: int) -> bool:
    """One that has ended meanwhile has no variables any more."""
    stat = read_stat(pid)
    return stat is not None and not stat.dead


def _odd(environ: dict[str, str], state_dir: str) -> Iterator[tuple[str, str, str]]:
    for resource in ("gpu", "npu"):
        names = [f"{prefix(resource)}_QUEUE_DIR", f"{prefix(resource)}_TOKEN_FILE"]
        values = [environ.get(name, "") for name in names]
        remedy = f"unset {' '.join(names)}"
        if all(values):
            if any(os.path.realpath(os.path.dirname(value)) != os.path.realpath(state_dir) for value in values):
                yield "elsewhere", f"{names[0]}={values[0]}, {names[1]}={values[1]}", remedy
        elif any(values):
            there = next(name for name, value in zip(names, values, strict=True) if value)
            yield "half-named", f"only {there} is set, of {names[0]} and {names[1]}", remedy
    named = environ.get("ONEBIT_HOLD_DIR")
    if named and os.path.realpath(named) != os.path.realpath(state_dir):
        yield "elsewhere", f"ONEBIT_HOLD_DIR={named}", "unset ONEBIT_HOLD_DIR"
