"""The chaos runs: the product passes some hundred episodes, and the judge counts each fault that it is shown."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from bench.chaos import lanes
from bench.chaos.arena import Arena
from bench.chaos.checker import COUNTS
from bench.chaos.plan import Episode, LanePlan, episode

from holdtop.hold import custody, events, receipt, record
from holdtop.hold.files import write_all
from holdtop.payload.channel import Channel
from holdtop.payload.custody import End
from tests.hold.lanes import until

Words = list[str]
ROOT = Path(__file__).parents[2]
QUICK = ("--grace", "0.1", "--survive-wait", "5", "--max-hold", "5")


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler: the payload's program is built")
    with tempfile.TemporaryDirectory(prefix="holdtop-chaos-") as top:
        lanes.build(Path(top))
        lanes.load()
        yield Path(top)


def chaos(tmp_path: Path, episodes: int, seed: int) -> dict[str, dict[str, int]]:
    command = [sys.executable, "-m", "bench.chaos", f"--episodes={episodes}", f"--seed={seed}", f"--results={tmp_path}"]
    subprocess.run(command, cwd=ROOT, check=False)
    told: dict[str, dict[str, int]] = json.loads((tmp_path / "chaos.json").read_text())
    assert told["counts"] == dict.fromkeys(COUNTS, 0), told["faults"]
    return told


def test_hundred_bad_days_and_nothing_is_counted(programs: Path, tmp_path: Path) -> None:
    happened = chaos(tmp_path, 100, 1)["happened"]
    assert happened["payloads begun"] > 200
    assert happened["tokens robbed"] > 5


@pytest.mark.long
@pytest.mark.timeout(4000)
def test_ten_thousand_bad_days_and_nothing_is_counted(programs: Path, tmp_path: Path) -> None:
    assert chaos(tmp_path, 10_000, int(os.environ.get("LONG_SEED", "1")))["happened"]["ghosts recovered"] > 50


def test_a_plan_is_its_seed_and_nothing_else() -> None:
    assert [episode(seed) for seed in range(50)] == [episode(seed) for seed in range(50)]
    assert len({episode(seed) for seed in range(50)}) == 50


def payload_of(words: Words) -> Words:
    return words[words.index("--") + 1 :]


def releases_before_the_kill(words: Words) -> int:
    token = Path(words[2]) / "gpu-token"
    taken(token)
    payload = subprocess.Popen(payload_of(words), start_new_session=True)
    until(lambda: Path(payload_of(words)[3]).exists())
    token.unlink()
    time.sleep(0.5)
    os.killpg(payload.pid, signal.SIGKILL)
    return payload.wait()


def taken(token: Path) -> None:
    while True:
        try:
            os.close(os.open(token, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            time.sleep(0.01)
        else:
            return


def takes_without_exclusion(words: Words) -> int:
    return subprocess.run(payload_of(words), check=False).returncode


def kills_by_command_line(words: Words) -> int:
    """What ``pkill -f`` would do at the end of a job."""
    status = lanes.holdtop(words)
    run = payload_of(words)[2].encode()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            named = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if named[:3] == [b"payload", b"plain", run]:
            os.kill(int(entry), signal.SIGTERM)
    return status


def never_takes(words: Words) -> int:
    signal.pause()
    return 0


def says_it_twice(words: Words) -> int:
    status = lanes.holdtop(words)
    log = Path(words[2]) / "gpu-queue/.log/events.jsonl"
    with log.open("ab") as file:
        file.write(next(line for line in log.read_bytes().splitlines(True) if b'"taken"' in line))
    return status


def says_nothing_of_the_end(words: Words) -> int:
    status = lanes.holdtop(words)
    log = Path(words[2]) / "gpu-queue/.log/events.jsonl"
    log.write_bytes(b"".join(line for line in log.read_bytes().splitlines(True) if b'"released"' not in line))
    return status


def lane(*kinds: str, at: float = 0.0, lasts: int = 300, status: int = 0) -> LanePlan:
    return LanePlan("forked", at, QUICK, kinds, lasts, status, own_session=True)


def judged(programs: Path, entry: lanes.Entry, *planned: LanePlan, stall: float = 30) -> Counter[str]:
    """What is counted in one episode. Played in a child: an arena reaps every process below itself."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            with tempfile.TemporaryDirectory(dir=programs) as top:
                arena = Arena(Path(top), programs / "payload", entry, stall, patience=0.3)
                found = arena.play(Episode(1, planned, ())).found
            write_all(writing, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    return Counter(count for count, _ in found)


@pytest.mark.parametrize(
    ("entry", "planned", "counted"),
    [
        (releases_before_the_kill, [lane(lasts=-1)], "leaks"),
        (takes_without_exclusion, [lane(), lane(at=0.1)], "double holds"),
        (kills_by_command_line, [lane()], "strangers harmed"),
        (says_it_twice, [lane()], "events"),
        (says_nothing_of_the_end, [lane()], "events"),
    ],
)
def test_a_faulty_lane_is_counted(programs: Path, entry: lanes.Entry, planned: list[LanePlan], counted: str) -> None:
    assert judged(programs, entry, *planned)[counted] > 0


def test_a_sound_lane_is_not_counted(programs: Path) -> None:
    assert judged(programs, lanes.holdtop, lane(), lane("bare", "ignoring", at=0.1)) == {}


def test_a_lane_that_never_takes_is_a_wedge_and_the_run_goes_on(programs: Path) -> None:
    assert judged(programs, never_takes, lane(), stall=1)["wedges"] > 0


def dying_before(owner: object, name: str, *said: str) -> lanes.Entry:
    """The keeper is killed where it would call that, with those words; its heir calls it."""

    def entry(words: Words) -> int:
        real, supervisor = getattr(owner, name), os.getpid()

        def fatal(*args: object, **kwargs: object) -> object:
            if os.getpid() != supervisor and all(word in args for word in said):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        setattr(owner, name, fatal)
        return lanes.holdtop(words)

    return entry


@pytest.mark.parametrize(
    "entry",
    [
        dying_before(receipt, "write"),
        dying_before(record, "remove"),
        dying_before(custody.Held, "give_back"),
        dying_before(events, "record", "released"),
        dying_before(Channel, "send", "done"),
    ],
    ids=["receipt", "record", "give back", "released", "done"],
)
def test_whoever_concludes_says_each_step_once(programs: Path, entry: lanes.Entry) -> None:
    assert judged(programs, entry, lane())["events"] == 0


def ends_without_ticket_and_token(words: Words) -> int:
    """Both are somebody else's doing, in the very moment of the end: no proof that the hold has given them back."""
    real = custody.HoldCustody.ending

    def ending(self: custody.HoldCustody, end: End) -> None:
        (Path(words[2]) / "gpu-queue" / self.held[0].id).unlink()
        (Path(words[2]) / "gpu-token").unlink()
        real(self, end)

    with mock.patch.object(custody.HoldCustody, "ending", ending):
        return lanes.holdtop(words)


def test_a_hold_that_lost_ticket_and_token_says_its_end(programs: Path) -> None:
    assert judged(programs, ends_without_ticket_and_token, lane()) == {}
