"""Who has a device open: recorded trees, an overlay over live processes, descriptors that are closed to us."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdtop.model.attribution import attribute
from holdtop.model.raw import Client
from holdtop.model.values import Device
from holdtop.sources import kfd, processes, users
from holdtop.sources.roots import Roots
from tests.hold.lanes import until
from tests.reading.machines import fdinfo, laid, shown, stat_line, tree
from tests.reading.views import readings

KIB = 1024


def synthetic(root: Path, fds: dict[int, dict[int, tuple[str, str]]]) -> Roots:
    """A recorded process table: for each pid its descriptors as (link's text, fdinfo)."""
    for pid, descriptors in fds.items():
        tree(root / str(pid), {"stat": stat_line(pid, start=pid)})
        (root / str(pid) / "fd").mkdir()
        for number, (target, info) in descriptors.items():
            (root / str(pid) / "fd" / str(number)).symlink_to(target)
            tree(root / str(pid) / "fdinfo", {str(number): info})
    return Roots(proc=str(root))


def held(roots: Roots) -> dict[int, int | None]:
    stats = processes.scan(roots.proc).stats
    return {pid: one.gtt_bytes for pid, one in attribute(users.scan(roots), stats, ()).items()}


RENDER = "/dev/dri/renderD128"


def test_a_client_is_counted_once_on_the_whole_box(tmp_path: Path) -> None:
    """3 and 4 are one client, 5 is another one of bytes; a second process has the first client, too."""
    seven = fdinfo(7, memory_gtt="1048576 KiB")
    roots = synthetic(
        tmp_path,
        {
            10: {
                3: (RENDER, seven),
                4: (RENDER, seven + "garbage\n"),
                5: (RENDER, fdinfo(8, total_gtt="1073741824", shared_gtt="0").rstrip("\n")),
            },
            11: {3: (RENDER, seven)},
        },
    )
    assert held(roots) == {10: 2 * KIB**3, 11: 0}


def test_a_sessions_manager_owns_nothing_it_keeps(tmp_path: Path) -> None:
    info = fdinfo(7, resident_gtt="4 KiB")
    roots = synthetic(tmp_path, {9: {3: (RENDER, info), 4: (RENDER, info)}, 10: {3: (RENDER, info)}})
    tree(tmp_path / "9", {"stat": stat_line(9, name="systemd-logind", start=9)})
    assert held(roots) == {9: 0, 10: 4 * KIB}


def test_clients_of_two_cards_are_two(tmp_path: Path) -> None:
    one, other = fdinfo(7, resident_gtt="4 KiB"), fdinfo(7, "0000:01:00.0", resident_gtt="4 KiB")
    assert held(synthetic(tmp_path, {10: {3: (RENDER, one), 4: (RENDER, other)}})) == {10: 8 * KIB}


def test_an_old_kernel_without_client_ids(tmp_path: Path) -> None:
    """One process's descriptors of one device count as one client there: never too much."""
    info = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:c5:00.0\ndrm-memory-gtt:\t4 KiB\n"
    assert held(synthetic(tmp_path, {10: {3: (RENDER, info), 4: (RENDER, info)}})) == {10: 4 * KIB}


def test_kfd_alone_holds_nothing_that_is_known(tmp_path: Path) -> None:
    roots = synthetic(tmp_path, {10: {3: ("/dev/kfd", "pos:\t0\n")}, 11: {3: ("/dev/null", "pos:\t0\n")}})
    found = users.scan(roots).users
    assert set(found) == {10}
    assert (found[10].resources, found[10].clients) == (frozenset({"gpu"}), ())


def card(gtt: int = 1, vram: int = 0) -> Device:
    """By its totals, of which the larger one is the pool's."""
    return Device("0000:c5:00.0", "apu", "gpu", readings(gtt_total_bytes=gtt, vram_total_bytes=vram))


def test_kfd_tells_of_processes_that_fdinfo_is_silent_about(tmp_path: Path) -> None:
    """It is never added: what fdinfo says counts alone. A row of zeros is somebody who only opened it."""
    silent = "drm-driver:\tamdgpu\ndrm-pdev:\t0000:c5:00.0\ndrm-client-id:\t9\n"
    spoken = {3: (RENDER, fdinfo(7, resident_gtt="4 KiB"))}
    roots = synthetic(tmp_path / "proc", {10: spoken, 11: {3: ("/dev/kfd", "")}, 12: {3: (RENDER, silent)}})
    node = {"0/gpu_id": "0\n", "1/gpu_id": "7001\n", "1/properties": "simd_count 40\ndomain 0\nlocation_id 50432\n"}
    rows = {f"{pid}/vram_7001": f"{size}\n" for pid, size in ((10, 5), (11, 6), (12, 7), (13, 0), (14, 8))}
    tree(tmp_path / "sys/class/kfd/kfd/topology/nodes", dict(node))
    tree(tmp_path / "sys/class/kfd/kfd/proc", dict(rows))
    scanned = replace(users.scan(roots), kfd=kfd.ask(replace(roots, sys=str(tmp_path / "sys"))).used)
    assert scanned.kfd == {pid: {"0000:c5:00.0": size} for pid, size in ((10, 5), (11, 6), (12, 7), (14, 8))}
    stats = processes.scan(roots.proc).stats
    found = attribute(scanned, stats, [card()])
    assert {pid: (one.gtt_bytes, one.source) for pid, one in found.items()} == {
        10: (4 * KIB, "fdinfo"),
        11: (6, "kfd"),
        12: (7, "kfd"),
    }
    assert attribute(scanned, stats, [card(vram=2)])[11].vram_bytes == 6


def test_kfd_takes_nothing_away_and_counts_nothing_twice(tmp_path: Path) -> None:
    """An NPU's memory stays beside it; and who shares a client has its memory named, though it is given to another."""
    npu = ("/dev/accel/accel0", NPU + "drm-engine-npu-amdxdna:\t5 ns\ndrm-total-memory:\t8 KiB\n")
    shared = (RENDER, fdinfo(7, resident_gtt="4 KiB"))
    fds = {10: {3: npu, 4: ("/dev/kfd", "")}, 11: {3: shared}, 12: {3: shared, 4: shared}}
    roots = synthetic(tmp_path, fds)
    stats = processes.scan(roots.proc).stats
    scanned = replace(users.scan(roots), kfd={pid: {"0000:c5:00.0": 4 * KIB} for pid in fds})
    found = attribute(scanned, stats, [card()])
    assert (found[10].gtt_bytes, found[10].npu_bytes, found[10].resources) == (
        4 * KIB,
        8 * KIB,
        frozenset({"gpu", "npu"}),
    )
    assert {pid: found[pid].gtt_bytes for pid in (11, 12)} == {11: 0, 12: 4 * KIB}


def test_a_clients_larger_figure_counts_of_each_kind(tmp_path: Path) -> None:
    """Its descriptors were read at different instants, in one process and in two."""
    sizes = [NPU + f"drm-total-memory:\t{kib} KiB\n" for kib in (8, 4, 12)]
    accel = "/dev/accel/accel0"
    fds = {10: {3: (accel, sizes[1]), 4: (accel, sizes[0])}, 11: {3: (accel, sizes[2])}}
    roots = synthetic(tmp_path, fds)
    scanned = users.scan(roots)
    assert [client.npu_bytes for client in scanned.users[10].clients] == [8 * KIB]
    found = attribute(scanned, processes.scan(roots.proc).stats, ())
    assert {pid: one.npu_bytes for pid, one in found.items()} == {10: 12 * KIB, 11: 0}


NPU = "drm-driver:\tamdxdna_accel_driver\ndrm-client-id:\t3\ndrm-pdev:\t0000:c5:00.1\n"
NPU_FORMS = {
    "nothing but the open device": ("", None),
    "zeros that an early driver never counts": ("drm-engine-npu-amdxdna:\t0 ns\ndrm-total-memory:\t0\n", None),
    "one region": ("drm-engine-npu-amdxdna:\t5 ns\ndrm-total-memory:\t8 KiB\n", 8 * KIB),
    "by origin": (
        "drm-engine-amdxdna_accel_driver:\t5 ns\namdxdna_accel_driver-heap-alloc:\t64 KiB\n"
        "amdxdna_accel_driver-internal-alloc:\t3 KiB\namdxdna_accel_driver-external-alloc:\t1 MiB\n"
        "drm-total-memory:\t9 MiB\n",
        3 * KIB + KIB**2,
    ),
}


@pytest.mark.parametrize("form", NPU_FORMS)
def test_a_user_of_the_npu_in_every_drivers_form(tmp_path: Path, form: str) -> None:
    """It uses the device in any case; memory is known only where it is counted. GTT is another matter."""
    text, size = NPU_FORMS[form]
    info = NPU + text if text else "pos:\t0\nflags:\t02100002\n"
    card = fdinfo(7, resident_gtt="4 KiB", resident_vram="0")
    roots = synthetic(tmp_path, {10: {3: ("/dev/accel/accel0", info), 4: (RENDER, card)}})
    (user,) = attribute(users.scan(roots), processes.scan(roots.proc).stats, ()).values()
    assert (user.resources, user.npu_bytes, user.gtt_bytes) == (frozenset({"gpu", "npu"}), size, 4 * KIB)


def test_another_vendors_client_is_no_user(tmp_path: Path) -> None:
    """Intel's driver names its regions as amdgpu does."""
    info = "drm-driver:\txe\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t3\ndrm-resident-gtt:\t600 MiB\n"
    assert users.scan(synthetic(tmp_path, {10: {3: (RENDER, info)}})).users == {}


def test_a_user_that_says_nothing_is_not_zero(tmp_path: Path) -> None:
    roots = synthetic(tmp_path, {10: {3: ("/dev/kfd", "pos:\t0\n")}})
    assert held(roots) == {10: None}


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs unshare: mounts /proc")
@pytest.mark.parametrize("hidepid", ["0", "1", "2"])
def test_processes_that_do_not_show_themselves_are_not_none(hidepid: str) -> None:
    """As an ordinary account in a mount namespace of its own, on a ``/proc`` that hides: root's sleeper is there."""
    look = """
import os, sys
from holdtop.sources import users
from holdtop.sources.roots import Roots
import holdtop.model.attribution
users.scan(Roots())  # loads all
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
scanned = users.scan(Roots())
print(scanned.hidden, bool(scanned.denied))
"""
    script = 'mount -t proc -o hidepid="$0" proc /proc; sleep 60 & "$@"; kill $!'
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, hidepid]
    done = subprocess.run([*words, sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ({"0": "False True\n", "1": "False True\n", "2": "True False\n"}[hidepid], "")


def test_an_npu_is_another_resource(tmp_path: Path) -> None:
    info = "drm-driver:\tamdxdna_accel_driver\ndrm-client-id:\t3\ndrm-total-memory:\t0\n"
    found = users.scan(synthetic(tmp_path, {10: {3: ("/dev/accel/accel0", info)}})).users
    assert found[10].resources == frozenset({"npu"})
    assert [client.gtt_bytes for client in found[10].clients] == [None], "not reported is not zero"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs unshare: binds over /proc")
def test_a_process_whose_first_thread_has_ended_is_still_a_user(tmp_path: Path) -> None:
    """Its own directory shows no descriptor, and its memory looked as if only a reboot could free it."""
    program = """
import ctypes, threading
thread = threading.Thread(target=input)
thread.start()
print(thread.native_id, flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        thread = int(process.stdout.readline())
        until(lambda: (stat := processes.read_stat("/proc", process.pid)) and stat.state == "Z")
        shown(tmp_path, f"{process.pid}/task/{thread}", {0: "", 3: fdinfo(7, resident_gtt="300 MiB")})
        look = f"from tests.reading.test_users import *; print(held(Roots())[{process.pid}])"
        command = laid(tmp_path, sys.executable, "-c", look)
        root = Path(__file__).parents[2]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        process.communicate("\n")
    assert (done.stdout, done.stderr) == (f"{300 * KIB**2}\n", "")


def test_names_are_nothing_to_go_by(tmp_path: Path) -> None:
    roots = synthetic(tmp_path, {10: {3: ("/home/ann/dev/dri/renderD128", fdinfo(7, resident_gtt="4 KiB"))}})
    assert users.scan(roots).users == {}


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_an_overlay_lies_over_live_processes(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    (tmp_path / str(sleeper.pid) / "fd").mkdir(parents=True)
    (tmp_path / str(sleeper.pid) / "fd" / "99").symlink_to(RENDER)
    tree(tmp_path / str(sleeper.pid) / "fdinfo", {"99": fdinfo(7, resident_gtt="300 MiB")})
    roots = Roots(overlay=str(tmp_path))
    assert held(roots)[sleeper.pid] == 300 * KIB**2
    assert roots.live, "identity and tree are the kernel's"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a node of DRM's number, another account's process")
def test_a_renamed_node_is_known_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may call it anything. Looked at through a link in a recording, as it cannot be opened here."""
    node, plain = tmp_path / "gpu0", tmp_path / "other"
    os.mknod(node, 0o20600, os.makedev(226, 128))
    os.mknod(plain, 0o20600, os.makedev(1, 3))
    links = tmp_path / "links"
    links.mkdir()
    for name, target in (("3", node), ("4", plain), ("5", tmp_path)):
        (links / name).symlink_to(target)
    assert users._kind(str(links / "3"), recorded=False) is None, "a file outside of /dev is not even looked at"
    monkeypatch.setattr(users, "DEVICE_ROOTS", (str(tmp_path),))
    assert [users._kind(str(links / name), recorded=False) for name in "345"] == ["gpu", None, None]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: another account's process")
def test_what_may_not_be_looked_into_is_counted(sleeper: subprocess.Popen[bytes]) -> None:
    """An ordinary account scans: root's process is closed to it, which is neither a user nor none."""
    child = os.fork()
    if not child:
        closed = False
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            scanned = users.scan(Roots())
            closed = sleeper.pid in scanned.denied and sleeper.pid not in scanned.users
        os._exit(0 if closed else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_of_the_kernel_are_not_counted() -> None:
    scanned = users.scan(Roots())
    kernel = {pid for pid, stat in processes.scan("/proc").stats.items() if stat.kernel}
    assert kernel.isdisjoint(scanned.denied)


def test_details_are_of_that_very_process(sleeper: subprocess.Popen[bytes]) -> None:
    stat = processes.read_stat("/proc", sleeper.pid)
    assert stat is not None
    wanted = [stat.identity, (sleeper.pid, stat.start_ticks + 1), (1 << 22, 5)]
    found = processes.details("/proc", wanted)
    assert set(found) == {stat.identity}
    assert found[stat.identity].command == ("sleep", "60")
    assert found[stat.identity].uid == os.getuid()


def test_a_scan_sees_hostile_names_as_they_are(tmp_path: Path) -> None:
    name = "a) R 1 1 (b\n\x1b"
    with subprocess.Popen(
        [
            "python3",
            "-c",
            "import sys; open('/proc/self/comm', 'w').write(sys.argv[1]); print(flush=True); input()",
            name,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = processes.scan("/proc").stats[process.pid]
        process.communicate(b"\n")
    assert (stat.name, stat.ppid) == (name, os.getpid())


def test_a_pid_that_changed_hands_during_the_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read belongs to the one or the other process: to neither, then."""
    roots = synthetic(tmp_path, {10: {3: (RENDER, fdinfo(7, resident_gtt="4 KiB"))}})
    read = users._client

    def replaced(path: str, pid: int) -> Client | None:
        tree(tmp_path / "10", {"stat": stat_line(10, start=99)})
        return read(path, pid)

    monkeypatch.setattr(users, "_client", replaced)
    assert users.scan(roots).users == {}
