"""AMD's library can print, fail, crash, block and lie: each is one plain reason, and nothing of it gets out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.host.amdsmi import LONGEST, Answer, ask, understood
from holdtop.payload.process import read_stat
from tests.hold.lanes import identity, until
from tests.host import libraries
from tests.host.libraries import MIB, answering

#: Seconds for whoever answers or ends by itself, however busy the machine is; and for whoever blocks.
AMPLE, SHORT = 60.0, 4.0
Library = Callable[[str], Path]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    """Puts a package amdsmi on the child's path. Without a call there is none, wherever this runs."""
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "no-rocm"))

    def put(source: str) -> Path:
        root = libraries.install(tmp_path / "library", source)
        monkeypatch.setenv("PYTHONPATH", str(root))
        return root

    return put


PRINTS = "print('/opt/rocm/lib/libamd_smi.so: cannot open'); print('Unable to find libamd_smi.so library')\n"
ABSENT = {
    "library": (PRINTS + "raise KeyError('libamd_smi.so')", "finds no library (KeyError: 'libamd_smi.so')"),
    "load": (PRINTS + "raise OSError('libamd_smi.so: no such file')", "finds no library (OSError: libamd_smi.so:"),
    "import": ("raise ImportError('cannot load')", "finds no library (ImportError: cannot load)"),
}
FD = "import os, sys, time; fd = int(sys.argv[1])\n"
FAILS = {
    "needs another": ("import no_such_package", "amdsmi failed: ModuleNotFoundError: No module named 'no_such_pack"),
    "any error": ("raise RuntimeError('no group render')", "amdsmi failed: RuntimeError: no group render"),
    "several lines": ("raise RuntimeError('one\\n\\ttwo')", "amdsmi failed: RuntimeError: one two"),
    "exits": ("import sys; sys.exit(0)", "amdsmi failed: SystemExit: 0"),
    "interrupts": ("raise KeyboardInterrupt", "amdsmi failed: KeyboardInterrupt:"),
    "no init": ("pass", "amdsmi failed: AttributeError: module 'amdsmi' has no attribute 'amdsmi_init'"),
    "unspeakable": (
        "class E(Exception):\n    def __str__(self): raise RuntimeError('worse')\nraise E",
        "amdsmi's answer makes no sense",
    ),
    "quits": ("print('bye'); import os, sys; sys.stdout.flush(); os._exit(3)", "ended with status 3 without an answer"),
    "says bye": ("print('bye'); import os, sys; sys.stdout.flush(); os._exit(3)", "; it said: bye"),
    "crashes": ("import ctypes; ctypes.string_at(8)", "amdsmi's process ended by SIGSEGV without an answer"),
    "aborts": ("import os; os.abort()", "amdsmi's process ended by SIGABRT without an answer"),
    "writes junk": (FD + "os.write(fd, b'\\x00\\xff junk\\n')", "amdsmi's answer makes no sense"),
    "writes without end": (FD + "while True: os.write(fd, b'x' * 4096)", "amdsmi answers without end"),
    "takes a seat in it": (FD + "os.dup2(1, fd); os._exit(0)", "ended with status 0 without an answer"),
    "odd values": (answering(libraries.ALL_NA) + "\nDEVICES = {('no', 'address'): {}}", "without a PCI address"),
    "not for JSON": (answering({}) + "\nDEVICES = {object(): {}}", "ended with status 1 without an answer"),
}
BLOCKS = {
    "import": "import time; time.sleep(600)",
    "deaf": "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(600)",
    "a call": answering(libraries.ALL_NA) + "\nimport time\ndef amdsmi_get_processor_handles(): time.sleep(600)",
    "prints": "while True: print('x' * 4096)",
    "closes its ears": FD + "os.close(fd); time.sleep(600)",
    "leaves a child": "import os, time\nif os.fork() == 0: time.sleep(600)\nos._exit(0)",
    "both block": "import os, time\nos.fork(); time.sleep(600)",
    "leaves for good": "import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\ntime.sleep(600)",
}


@pytest.mark.parametrize("shape", ABSENT)
def test_a_library_that_is_not_there(library: Library, shape: str) -> None:
    source, why = ABSENT[shape]
    library(source)
    answer = ask(AMPLE)
    assert (answer.opinions, answer.absent) == ((), True)
    assert why in (answer.why or "")


def test_no_package(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one taken from where somebody happens to stand."""
    libraries.install(tmp_path / "cwd", answering(libraries.ALL_NA))
    monkeypatch.chdir(tmp_path / "cwd")
    assert ask(AMPLE) == Answer(why="the package amdsmi is not installed", absent=True)


def test_the_package_in_rocm_own_place(library: Library, tmp_path: Path) -> None:
    libraries.install(tmp_path / "no-rocm/share/amd_smi", answering(libraries.ALL_NA))
    assert [one.pci_address for one in ask(AMPLE).opinions] == ["0000:c3:00.0"]


@pytest.mark.parametrize("shape", FAILS)
def test_a_failure_is_one_plain_reason(library: Library, shape: str, capfd: pytest.CaptureFixture[str]) -> None:
    source, why = FAILS[shape]
    library(source)
    answer = ask(AMPLE)
    assert (answer.opinions, answer.absent) == ((), False)
    assert why in (answer.why or "")
    assert "\n" not in (answer.why or "")
    assert len(answer.why or "") < 400
    assert tuple(capfd.readouterr()) == ("", ""), "nothing of it gets out"


@pytest.mark.parametrize("shape", BLOCKS)
def test_whatever_blocks_is_ended_with_all_it_started(library: Library, shape: str) -> None:
    """That nothing is left is what every test's own watch checks."""
    library(BLOCKS[shape])
    began = time.monotonic()
    answer = ask(SHORT)
    assert answer.why == "amdsmi has not answered in time" or shape == "leaves a child"
    assert answer.why
    assert time.monotonic() - began < 10 * SHORT


def test_a_child_of_somebody_else_here_is_left_alone(library: Library) -> None:
    """The doctor's sections run side by side, and others start children, too: also while the library is asked."""
    library(BLOCKS["deaf"])
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask, SHORT)
        time.sleep(SHORT / 4)
        with subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({2 * SHORT})"]) as other:
            assert asked.result().why
            assert other.wait() == 0


def test_one_that_nobody_waits_for_any_more_ends(library: Library, tmp_path: Path) -> None:
    """Whoever asked was killed: a child that blocks for ever must not stay."""
    note = tmp_path / "pid"
    library(f"import os, time\nwith open({str(note)!r}, 'w') as f: print(os.getpid(), file=f)\ntime.sleep(600)")
    asks = [sys.executable, "-c", "from holdtop.host.amdsmi import ask; ask(600)"]
    with subprocess.Popen(asks) as asker:
        try:
            until(lambda: note.exists() and note.read_text().endswith("\n"), 60)
            child = identity(int(note.read_text()))
        finally:
            asker.send_signal(signal.SIGKILL)
    until(lambda: (stat := read_stat(child.pid)) is None or stat.dead or stat.identity != child, 30)


def test_no_child_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(sys, "executable", "/nonexistent/python3")
    assert ask(AMPLE).why == "amdsmi's process cannot be started: No such file or directory"
    assert os.listdir("/proc/self/fd") == before


def test_it_keeps_no_descriptor(library: Library) -> None:
    library(answering(libraries.ALL_NA))
    before = len(os.listdir("/proc/self/fd"))
    ask(AMPLE)
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_answer_among_much_talk(library: Library) -> None:
    library("print('x' * 5_000_000)\n" + answering(libraries.SMALL_CARVE_OUT))
    (opinion,) = ask(AMPLE).opinions
    assert (opinion.market_name, opinion.driver_version) == (None, "Linuxver")
    assert opinion.memory["gtt_used_bytes"].value == 964 * MIB
    assert opinion.memory["vis_vram_total_bytes"].value == 512 * MIB


def test_what_it_does_not_know_has_a_reason(library: Library) -> None:
    """As on Strix Halo before it was supported."""
    library(answering(libraries.ALL_NA))
    (opinion,) = ask(AMPLE).opinions
    assert (opinion.pci_address, opinion.market_name) == ("0000:c3:00.0", "Radeon 8060S Graphics")
    assert opinion.memory["vram_used_bytes"].value == 1553 * MIB
    gtt = opinion.memory["gtt_used_bytes"]
    assert gtt.value is None
    assert gtt.why == "Error code: 2 | AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"


def test_addresses_are_written_as_the_kernel_writes_them(library: Library) -> None:
    library(answering(libraries.STRIX_HALO))
    assert [one.pci_address for one in ask(AMPLE).opinions] == ["0000:c2:00.0"]


def test_the_library_is_in_no_process_but_its_own(library: Library) -> None:
    library(answering(libraries.ALL_NA))
    code = "import sys; from holdtop.host.amdsmi import ask; assert ask(60).opinions; print('amdsmi' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def device(**changes: object) -> bytes:
    good = {"pci_address": "0000:c1:00.0", "memory": {"gtt_used_bytes": {"value": 5}}}
    return json.dumps({"devices": [{**good, **changes}]}).encode()


@pytest.mark.parametrize(
    "value", [-1, 1 << 51, True, "5", 5.5, None, [5], {}, {"value": {}}, float("nan"), 10**400, "x" * 10**4]
)
def test_a_number_that_is_none(value: object) -> None:
    answer = understood(device(memory={"gtt_used_bytes": {"value": value, "why": "x" * 10**4}}))
    (opinion,) = answer.opinions
    assert opinion.memory["gtt_used_bytes"].value is None
    assert len(opinion.memory["gtt_used_bytes"].why or "") <= 200
    assert opinion.memory["vram_used_bytes"].why == "amdsmi gives no number of bytes"


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"[]", b"5", b'{"devices": 5}', b'{"devices": [5]}', b'{"devices": {}}', b"{}", b'{"absent": 5}'),
        *(b"[" * LONGEST, b'{"a":' * 9000, b"9" * 9000, b"\xff", b"\x00", device(pci_address=None)),
        *(device(pci_address="0000:c1:00.0/../x"), device(pci_address=["0000:c1:00.0"])),
    ],
)
def test_nonsense_is_no_answer(line: bytes) -> None:
    answer = understood(line)
    assert (answer.opinions, answer.absent) == ((), False)
    assert answer.why


NAMES = st.sampled_from(["devices", "pci_address", "memory", "gtt_used_bytes", "value", "why", "absent", "failed"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200) | ANY.map(lambda said: json.dumps(said).encode()))
def test_no_line_is_too_strange(line: bytes) -> None:
    answer = understood(line)
    assert all(
        reading.value is None or 0 <= reading.value <= 1 << 50
        for opinion in answer.opinions
        for reading in opinion.memory.values()
    )
    assert all("\n" not in text for text in (answer.why or "", *(str(one.market_name) for one in answer.opinions)))
