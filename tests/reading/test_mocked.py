"""The real libudev and the live code on mocked devices: what is read, and what events do.

The machine is made by hand after what is known of a Strix Halo; no recorded event of a reset is known, so these are
made after drm-uapi.rst and devcoredump.c.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtop.sources import hotplug

HERE = Path(__file__).parent / "mocked"
GPU = "/sys/devices/pci0000:00/0000:00:08.1/0000:c3:00.0"
CARD = f"{GPU}/drm/card1"
ADDRESS = "0000:c3:00.0"
CARD_2 = f"""P: {GPU[4:]}/drm/card2
N: dri/card2
E: SUBSYSTEM=drm
E: DEVTYPE=drm_minor
E: DEVNAME=/dev/dri/card2
E: MAJOR=226
E: MINOR=2
L: device=../../../{ADDRESS}
A: dev=226:2\\n
"""
DUMP = f"""P: /devices/virtual/devcoredump/devcd1
E: SUBSYSTEM=devcoredump
L: failing_device=../../../{GPU.removeprefix("/sys/devices/")}
"""


class Bed:
    """Mocked devices, and whoever watches them."""

    def __init__(self, directory: Path) -> None:
        words = ["umockdev-wrapper", "/usr/bin/python3", str(HERE / "owner.py"), str(HERE / "strix-halo.umockdev")]
        environ = {**os.environ, "TMPDIR": str(directory)}
        self._owner = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environ
        )
        self.root = self._line()
        self.watchers: list[Watcher] = []

    def _line(self) -> str:
        assert self._owner.stdout
        return self._owner.stdout.readline().strip()

    def do(self, act: str, **said: Any) -> None:
        assert self._owner.stdin
        self._owner.stdin.write(json.dumps({"act": act, **said}) + "\n")
        assert self._line() == "done"

    def event(self, device: str, action: str, **properties: str) -> None:
        self.do("uevent", device=device, action=action, properties=properties)

    def watch(self, period: float, events: str) -> Watcher:
        preloaded = {**os.environ, "LD_PRELOAD": "libumockdev-preload.so.0", "UMOCKDEV_DIR": self.root}
        words = [sys.executable, str(HERE / "watcher.py"), str(period), events]
        self.watchers.append(
            Watcher(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=preloaded))
        )
        return self.watchers[-1]

    def close(self) -> None:
        for process in [*(watcher.process for watcher in self.watchers), self._owner]:
            process.communicate(timeout=10)
        assert not Path(self.root).exists()


class Watcher:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)

    def until(self, right: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first look that is right; of those before, the last is shown when none comes."""
        seen: dict[str, Any] = {}
        try:
            while not (seen and right(seen)):
                seen = json.loads(self._lines.get(timeout=15))
        except queue.Empty:
            pytest.fail(f"never seen; last: {seen}")
        return seen


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    if not shutil.which("umockdev-wrapper"):
        pytest.skip("needs umockdev: its libraries mock the devices")
    made = Bed(tmp_path)
    yield made
    made.close()


def test_events_that_were_lost_mean_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hotplug, "NOTICE", 0.01)
    stopped, woken = threading.Event(), list[str]()

    class Overrun:
        def poll(self, timeout: float) -> None:
            if len(woken) > 1:
                stopped.set()
                return
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    hotplug._listen(Overrun(), stopped, lambda: woken.append("look"), {})
    assert woken == ["look", "look"]


def gtt_used(seen: dict[str, Any]) -> float | None:
    value: float | None = seen["devices"].get(ADDRESS, {}).get("gtt_used_bytes")
    return value


def test_all_of_a_machine_is_read_and_no_node_opened(bed: Bed) -> None:
    watcher = bed.watch(1000, "udev")
    seen = watcher.until(lambda seen: gtt_used(seen) == 1073741824 and len(seen["devices"]) == 2)
    seen = seen if seen["tctl"] else watcher.until(lambda seen: bool(seen["tctl"]))
    card, npu = seen["devices"][ADDRESS], seen["devices"]["0000:c4:00.1"]
    assert (seen["tctl"], seen["flags"], seen["nodes"]) == (61.25, [], [])
    assert (card["gpu_power_watts"], card["gpu_clock_mhz"], card["gpu_celsius"]) == (9.012, 600, 48)
    assert (npu["npu_power_watts"], npu["npu_busy_percent"]) == (1.25, None)
    bed.do("set", device=GPU, name="gpu_busy_percent", value="93\n")
    watcher.until(lambda seen: seen["devices"][ADDRESS]["gpu_busy_percent"] == 93)
    bed.do("set", device=GPU, name="power/runtime_status", value="suspended\n")
    watcher.until(lambda seen: seen["devices"][ADDRESS]["gpu_busy_percent"] is None and gtt_used(seen) == 1073741824)


@pytest.mark.parametrize("events", ["udev", "kernel"])
def test_a_card_that_is_bound_again_under_another_number(bed: Bed, events: str) -> None:
    """Cards are looked for because of the events alone. What was wedged is forgotten with the new driver."""
    watcher = bed.watch(1000, events)
    watcher.until(lambda seen: gtt_used(seen) == 1073741824)
    bed.event(CARD, "change", HOTPLUG="1")
    bed.event(CARD, "change", WEDGED="rebind,bus-reset")
    wedged = watcher.until(lambda seen: bool(seen["flags"]))
    assert wedged["flags"] == [f"card {ADDRESS} is wedged, and would be helped by rebind,bus-reset"]
    bed.do("remove", device=CARD)
    bed.event(f"{GPU}/drm/renderD128", "remove")
    watcher.until(lambda seen: ADDRESS not in seen["devices"])
    bed.do("set", device=GPU, name="mem_info_gtt_used", value="5000000\n")
    bed.do("add", text=CARD_2)
    bed.event(f"{GPU}/drm/card2", "add")
    watcher.until(lambda seen: gtt_used(seen) == 5000000 and not seen["flags"])


def test_a_reset_is_flagged_with_whom_the_kernel_blames(bed: Bed) -> None:
    watcher = bed.watch(1000, "udev")
    watcher.until(lambda seen: gtt_used(seen) is not None)
    bed.event(CARD, "change", WEDGED="none", PID="1048641", TASK="code")
    seen = watcher.until(lambda seen: bool(seen["flags"]))
    assert seen["flags"] == [f"card {ADDRESS} was reset and has recovered; the kernel blames pid 1048641 (code)"]


def test_a_process_of_any_name_silences_nobody(bed: Bed) -> None:
    """A name may be any 15 bytes; pyudev raises for what is no UTF-8."""
    watcher = bed.watch(1000, "udev")
    watcher.until(lambda seen: gtt_used(seen) is not None)
    bed.event(CARD, "change", WEDGED="none", PID="12", TASK="\udcff\x1b[2J")
    watcher.until(lambda seen: bool(seen["flags"]) and "pid 12 (\udcff\x1b[2J)" in seen["flags"][0])
    bed.event(CARD, "change", WEDGED="none", PID="1" * 5000, TASK="")
    watcher.until(lambda seen: seen["flags"] == [f"card {ADDRESS} was reset and has recovered"])


def test_a_dump_tells_of_a_hang(bed: Bed) -> None:
    """By its event, should somebody take it away at once; of another device's dump nothing is said."""
    watcher = bed.watch(1000, "udev")
    watcher.until(lambda seen: gtt_used(seen) is not None)
    bed.do("add", text=DUMP.replace("devcd1", "devcd0").replace(ADDRESS, "0000:00:1f.6"))
    bed.event("/sys/devices/virtual/devcoredump/devcd0", "add")
    bed.do("add", text=DUMP)
    bed.event("/sys/devices/virtual/devcoredump/devcd1", "add")
    seen = watcher.until(lambda seen: bool(seen["flags"]))
    assert seen["flags"] == [f"card {ADDRESS} hung, and its driver has left a dump"]


def test_without_events_everything_is_still_seen(bed: Bed) -> None:
    watcher = bed.watch(0.2, "none")
    watcher.until(lambda seen: gtt_used(seen) is not None)
    dump = Path(bed.root + GPU, "devcoredump")
    dump.mkdir()
    watcher.until(lambda seen: seen["flags"] == [f"card {ADDRESS} hung, and its driver has left a dump"])
    dump.rmdir()
    watcher.until(lambda seen: not seen["flags"])
    bed.do("remove", device=CARD)
    watcher.until(lambda seen: ADDRESS not in seen["devices"])
    bed.do("add", text=CARD_2)
    watcher.until(lambda seen: gtt_used(seen) == 1073741824)
