"""Scopes that a real service manager of a user makes: asked for a payload, and those that payloads ask for."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdtop.errors import ScopeRefused
from holdtop.payload.cgroup import path_of
from holdtop.payload.process import ProcessTable, read_stat
from holdtop.systemd import UserScopes
from tests.hold.lanes import NAP, Box, sleepers, until
from tests.hold.test_accounts import DRIVER, ONE, as_account, said, shared
from tests.hold.user_manager import SESSION, UserManager, user_manager

__all__ = ["shared"]

#: Where this manager puts scopes: its own part of the tree, then the slice of applications.
APPS = "/manager/app.slice"
#: A member of the payload that only its cgroup still knows: no descent, no mark, no name, and no ear for TERM.
ESCAPEE = f"env -i setsid -f bash -c 'trap \"\" TERM; exec -a kworker/u8:3 sleep {NAP}'"
#: The payload that moves itself and its escapee into a scope of its own asking.
FOREIGN = ["systemd-run", "--user", "--scope", "--quiet", "--unit=foreign", "--", "bash", "-c"]


@pytest.fixture
def manager(request: pytest.FixtureRequest) -> Iterator[UserManager]:
    with user_manager(request.param) as made:
        yield made


of_root = pytest.mark.parametrize("manager", [0], indirect=True, ids=["root"])
of_an_account = pytest.mark.parametrize("manager", [ONE], indirect=True, ids=["account"])
of_both = pytest.mark.parametrize("manager", [0, ONE], indirect=True, ids=["root", "account"])


def lane(
    manager: UserManager, box: Box, *words: str, under: Sequence[str] = (), path: str = SESSION, **variables: str
) -> subprocess.Popen[str]:
    """A hold of the manager's account, by default in the scope of a login session."""

    def popen(command: list[str], env: dict[str, str], **kwargs: Any) -> subprocess.Popen[str]:
        return manager.popen([*under, *command], path=path, env=env | variables, **kwargs)

    return as_account(manager.account, box, "run", *words, popen=popen)


def running(manager: UserManager, box: Box, naps: int) -> tuple[int, int, int]:
    """Once it runs, pids as seen here: supervisor, keeper, root."""
    started = box.until_running()
    until(lambda: len(sleepers(words=2)) == naps)
    supervisor = int(started["ticket"].partition("-")[2])
    return (
        manager.outside(supervisor),
        manager.outside(started["keeper_pid"]),
        manager.outside(started["root_pid"]),
    )


def published(box: Box) -> dict[str, Any]:
    (path,) = (box.queue / ".record").glob("[0-9]*.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def place_of(manager: UserManager, pid: int) -> str:
    """Its cgroup, as seen from inside."""
    return (path_of(pid) or "").removeprefix(manager.cgroup.path)


def proofs(box: Box) -> list[object]:
    return [event["proof"] for event in box.events() if event["event"] == "ended"]


def kill(who: str, supervisor: int, keeper: int) -> None:
    """SIGKILL to one of the hold's processes, or to both so that neither sees the other die."""
    if who == "both":
        os.kill(keeper, signal.SIGSTOP)
    if who != "keeper":
        os.kill(supervisor, signal.SIGKILL)
    if who != "supervisor":
        os.kill(keeper, signal.SIGKILL)


def nothing_is_left(manager: UserManager, box: Box) -> None:
    assert sleepers() == []
    assert box.leftovers() == []
    until(lambda: manager.units("holdtop-*") == [])
    until(lambda: manager.units("foreign*") == [])
    assert not [name for name in os.listdir(manager.at(SESSION).directory) if name.startswith("holdtop-")]


@of_both
def test_a_payload_lives_in_a_scope_where_no_cgroup_may_be_made(manager: UserManager, shared: Box) -> None:
    """Root may write everywhere: its payload stays below its session, and nobody is asked."""
    hold = lane(manager, shared, "--grace", "0.3", "--", "bash", "-c", f"{ESCAPEE}; exec sleep {NAP}")
    supervisor, keeper, root = running(manager, shared, 2)
    said_of = published(shared)
    (group,) = said_of["cgroups"]
    home, name = os.path.split(group["path"])
    assert home == (SESSION if manager.account == 0 else APPS)
    there = manager.at(group["path"])
    assert there.procs() == {root, *sleepers(words=2)}
    assert group == {"path": f"{home}/{name}", "inode": there.inode(), "sole": True}
    assert said_of["containment"] == ["cgroup", "subreaper", "marker"]
    assert {supervisor, keeper} <= manager.at(SESSION).procs()
    assert manager.units("holdtop-*") == ([name] if manager.account else [])
    os.kill(supervisor, signal.SIGTERM)
    status, errors = said(hold)
    assert (status, "no cgroup" in errors) == (143, False)
    assert proofs(shared)[-1] == "ECHILD, populated 0"
    nothing_is_left(manager, shared)


@of_an_account
def test_guard_has_a_scope_as_well(manager: UserManager) -> None:
    guard = [sys.executable, DRIVER, str(ONE), "", "022", "guard", "--", "cat", "/proc/self/cgroup"]
    with manager.popen(guard, stdout=subprocess.PIPE, text=True, cwd="/") as asked:
        place = asked.communicate(timeout=30)[0].partition("0::")[2]
    assert re.fullmatch(rf"{APPS}/holdtop-[0-9a-f-]+\.scope\n", place)


@of_an_account
@pytest.mark.parametrize("who", ["keeper", "supervisor", "both"])
def test_sigkill_of_the_hold_ends_what_is_in_the_scope(manager: UserManager, shared: Box, who: str) -> None:
    hold = lane(manager, shared, "--grace", "0.3", "--", "bash", "-c", f"{ESCAPEE}; exec sleep {NAP}")
    supervisor, keeper, _ = running(manager, shared, 2)
    with hold:
        kill(who, supervisor, keeper)
    assert hold.returncode == (125 if who == "keeper" else -9)
    if who == "both":
        assert len(sleepers(words=2)) == 2
        assert "took over the stale token" in said(lane(manager, shared, "--grace", "0.3", "--", "true"))[1]
    until(lambda: not shared.token.exists())
    nothing_is_left(manager, shared)


@of_an_account
def test_no_manager_is_a_reason_and_with_cgroup_a_refusal(manager: UserManager, shared: Box) -> None:
    nowhere = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/nobody/bus"}
    status, errors = said(lane(manager, shared, "--", "true", **nowhere))
    assert (status, "containment subreaper, marker" in errors) == (0, True)
    status, errors = said(lane(manager, shared, "--contain", "cgroup", "--", "touch", f"{shared.state}/ran", **nowhere))
    assert status == 125
    assert f"the cgroup {SESSION} is not delegated to this account" in errors
    assert "no user bus: /run/user/nobody/bus: No such file" in errors
    assert "the command was not run" in errors
    assert not (shared.state / "ran").exists()
    nothing_is_left(manager, shared)


@of_an_account
def test_a_manager_that_does_not_answer_delays_the_start_and_is_named(manager: UserManager, shared: Box) -> None:
    manager.ask("busctl", "--user", "list")  # the bus itself answers
    os.kill(manager.service, signal.SIGSTOP)
    strict = lane(manager, shared, "-r", "npu", "--contain", "cgroup", "--", "touch", f"{shared.state}/ran")
    hold = lane(manager, shared, "--grace", "0.3", "--", "sleep", NAP)
    status, errors = said(strict)
    assert status == 125
    assert "the user's service manager did not answer within 5 s" in errors
    assert not (shared.state / "ran").exists()
    supervisor, _, root = running(manager, shared, 1)
    assert published(shared)["containment"] == ["subreaper", "marker"]
    assert place_of(manager, root) == SESSION
    os.kill(manager.service, signal.SIGCONT)
    manager.ask("busctl", "--user", "introspect", "org.freedesktop.systemd1", "/")  # it has heard all of it now
    os.kill(supervisor, signal.SIGTERM)
    status, errors = said(hold)
    assert status == 143
    assert "no cgroup: holdtop-" in errors
    assert str(proofs(shared)[-1]).startswith("ECHILD")
    nothing_is_left(manager, shared)


@of_an_account
@pytest.mark.parametrize("how", ["keeper", "TERM", "evicted"])
def test_what_ends_while_a_scope_is_asked_for_is_never_executed(manager: UserManager, shared: Box, how: str) -> None:
    manager.ask("busctl", "--user", "list")
    os.kill(manager.service, signal.SIGSTOP)
    hold = lane(manager, shared, "--", "touch", f"{shared.state}/ran")
    until(shared.token.exists)
    (ticket,) = shared.tickets()
    supervisor = manager.outside(int(ticket.partition("-")[2]))
    keeper, _ = until(lambda: line_of_only_children(supervisor))
    if how == "evicted":
        (shared.queue / ticket).unlink()
    else:
        os.kill(*((keeper, signal.SIGKILL) if how == "keeper" else (supervisor, signal.SIGTERM)))
    assert said(hold)[0] == {"keeper": 125, "TERM": 143, "evicted": 120}[how]
    assert not (shared.state / "ran").exists()
    assert shared.receipts()[-1]["verdict"] == "clean"
    os.kill(manager.service, signal.SIGCONT)
    nothing_is_left(manager, shared)


def line_of_only_children(pid: int) -> list[int] | None:
    """Child and grandchild, once there are both."""
    children = ProcessTable().children
    below = children.get(pid, [])
    return [*below, *children[below[0]]] if below and below[0] in children else None


@of_an_account
def test_a_scope_with_parts_is_left_to_its_manager_to_remove(manager: UserManager, shared: Box) -> None:
    """Of a scope that is removed by others before its manager looks, it says for ever that it is active."""
    into_a_part = """
        here=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)
        mkdir $here/part && echo 0 > $here/part/cgroup.procs && exec sleep"""
    hold = lane(manager, shared, "--grace", "1", "--", "sh", "-c", f"{into_a_part} {NAP}")
    supervisor, _, root = running(manager, shared, 1)
    scope, part = os.path.split(place_of(manager, root))
    assert part == "part"
    os.kill(manager.service, signal.SIGSTOP)
    os.kill(supervisor, signal.SIGTERM)
    assert said(hold)[0] == 143
    os.kill(manager.service, signal.SIGCONT)
    nothing_is_left(manager, shared)
    until(lambda: not os.path.exists(manager.at(scope).directory))


@of_an_account
@pytest.mark.parametrize("delegated", [False, True])
def test_out_of_a_service_of_the_system_nothing_is_moved(manager: UserManager, shared: Box, delegated: bool) -> None:
    path = "/system.slice/runner.service"
    service = manager.at(path)
    os.makedirs(service.directory)
    for name in ("", "/cgroup.procs") if delegated else ():
        os.chown(service.directory + name, ONE, -1)
    hold = lane(manager, shared, "--grace", "1", "--", "sleep", NAP, path=path)
    supervisor, _, root = running(manager, shared, 1)
    assert os.path.split(place_of(manager, root))[delegated is False] == (path if delegated else "runner.service")
    assert published(shared)["containment"] == [*(["cgroup"] if delegated else []), "subreaper", "marker"]
    os.kill(supervisor, signal.SIGTERM)
    assert said(hold)[0] == 143
    status, errors = said(lane(manager, shared, "--contain", "cgroup", "--", "true", path=path))
    assert status == (0 if delegated else 125)
    assert delegated or "a scope would take the payload out of runner.service, its limits and its stop" in errors
    nothing_is_left(manager, shared)


@of_both
@pytest.mark.parametrize("properties", [[], ["--property=Delegate=yes"]], ids=["plain", "delegated"])
def test_in_a_service_of_the_users_manager_the_payload_stays_in_it_and_is_stopped_with_it(
    manager: UserManager, shared: Box, properties: list[str]
) -> None:
    manager.ask("systemd-run", "--user", "--quiet", "--unit=runner", *properties, "sleep", "600")
    path = f"{APPS}/runner.service"
    hold = lane(manager, shared, "--grace", "1", "--", "bash", "-c", f"{ESCAPEE}; exec sleep {NAP}", path=path)
    _, _, root = running(manager, shared, 2)
    assert os.path.dirname(place_of(manager, root)) == path
    assert manager.units("holdtop-*") == []
    manager.ask("systemctl", "--user", "stop", "runner")
    assert said(hold)[0] == 143
    assert proofs(shared)[-1] == "ECHILD, populated 0"
    nothing_is_left(manager, shared)


@pytest.mark.parametrize(
    ("manager", "how"),
    [(0, "timeout"), *((ONE, how) for how in ("timeout", "timeout -k", "keeper", "supervisor", "both"))],
    indirect=["manager"],
)
def test_a_payload_in_a_scope_of_its_own_asking_ends_before_the_token_is_free(
    manager: UserManager, shared: Box, how: str
) -> None:
    limit = {"timeout": ["timeout", "600"], "timeout -k": ["timeout", "-k", "0.2", "600"]}.get(how, [])
    words = ["--grace", "0.5", "--", *FOREIGN, f"{ESCAPEE}; exec sleep {NAP}"]
    hold = lane(manager, shared, *words, under=limit)
    supervisor, keeper, root = running(manager, shared, 2)
    foreign = f"{APPS}/foreign.scope"
    assert manager.at(foreign).procs() == {root, *sleepers(words=2)}
    if how == "both":
        until(lambda: foreign in [group["path"] for group in published(shared)["cgroups"]])
    look = f"cat /sys/fs/cgroup{foreign}/cgroup.procs 2>/dev/null; true"
    waiter = lane(manager, shared, "--grace", "1", "--", "sh", "-c", look)
    until(lambda: len(shared.tickets()) == 2)
    stat = read_stat(supervisor)
    with hold:
        if stat and limit:
            os.kill(stat.ppid, signal.SIGTERM)
        else:
            kill(how, supervisor, keeper)
    assert hold.returncode == {"timeout": 143, "keeper": 125}.get(how, -9)
    members, errors = waiter.communicate(timeout=30)
    assert (waiter.returncode, members) == (0, ""), errors
    assert how == "both" or proofs(shared)[0] == "ECHILD, populated 0"
    nothing_is_left(manager, shared)


@of_root
@pytest.mark.parametrize("opened", [False, True])
def test_a_service_that_the_payload_asks_for_is_no_member_and_named_when_it_has_the_device(
    manager: UserManager, shared: Box, tmp_path: Path, opened: bool
) -> None:
    """The manager starts it: it has neither the payload's descent nor its environment."""
    script = f"systemd-run --user --quiet --unit=foreign sleep {NAP}; exec sleep {NAP}"
    hold = lane(manager, shared, "--grace", "1", "--", "bash", "-c", script, HOLDTOP_PROC_OVERLAY=str(tmp_path))
    supervisor, _, _ = running(manager, shared, 2)
    (service,) = manager.at(f"{APPS}/foreign.service").procs()
    if opened:
        descriptors = tmp_path / str(manager.inside(service)) / "fd"
        descriptors.mkdir(parents=True)
        (descriptors / "9").symlink_to("/dev/dri/renderD128")
    os.kill(supervisor, signal.SIGTERM)
    status, errors = said(hold)
    assert status == 143
    assert sleepers(words=2) == [service]
    (receipt,) = shared.receipts()
    assert receipt["proof"] == "ECHILD, populated 0"
    assert receipt["verdict"] == ("unknown" if opened else "clean")
    assert [one["pid"] for one in receipt["suspects"]] == ([manager.inside(service)] if opened else [])
    assert opened == ("has the device open and appeared during the hold" in errors)
    manager.ask("systemctl", "--user", "stop", "foreign")
    nothing_is_left(manager, shared)


@of_root
def test_a_bus_of_another_account_or_of_other_pids_is_not_asked(
    manager: UserManager, shared: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus = f"{manager.variables['XDG_RUNTIME_DIR']}/bus"
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path=/proc/{manager.first}/root{bus}")
    with pytest.raises(ScopeRefused, match="not in this pid namespace"):
        UserScopes().start("holdtop-test", os.getpid())
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    os.chmod(f"/proc/{manager.first}/root{os.path.dirname(bus)}", 0o755)
    status, errors = said(as_account(ONE, shared, "run", "--contain", "cgroup", "--", "true", popen=manager.popen))
    assert status == 125
    assert f"the user's bus belongs to uid 0, not to {ONE}" in errors
    nothing_is_left(manager, shared)
