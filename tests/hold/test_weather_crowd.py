"""Very many: lanes that wait at once, and tickets that somebody has planted; names of any bytes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from holdtop.hold import ticket as tickets
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, until

DRIVER = str(Path(__file__).with_name("crowd_driver.py"))


def crowd(state: Box, number: int) -> None:
    """So many lanes of one account behind a holder: all run once, one after the other, in the order of the queue."""
    holder = state.run("sleep", NAP)
    state.until_running()
    ran = state.state / "ran"
    alone = f'mkdir "{ran}.now" && echo $HOLDTOP_TICKET_GPU >> "{ran}" && rmdir "{ran}.now"'
    line = [sys.executable, DRIVER, str(number), "run", "--state-dir", str(state.state), "--contain", "subreaper"]
    with subprocess.Popen(
        [*line, "--", "sh", "-c", alone], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as lanes:
        try:
            until(lambda: len(state.tickets()) == 1 + number, 60)
        finally:
            order = state.tickets()[1:]
            holder.terminate()
            ended(holder)
        statuses, _ = lanes.communicate()
    assert statuses.split() == ["0"] * number
    assert len({name[:10] for name in order}) == number
    assert ran.read_text().split() == order
    assert state.leftovers() == []


def test_a_crowd_takes_turns_in_order(state: Box) -> None:
    crowd(state, 24)


def test_two_queues_at_one_token_lose_nobody(state: Box) -> None:
    """A queue that was renamed, or two values of a variable: the queue's lock is not the same, the token is."""
    line = [sys.executable, DRIVER, "15", "run", "--contain", "subreaper", "--"]
    alone = ["sh", "-c", f'mkdir "{state.state}/now" && rmdir "{state.state}/now"']
    both = [
        subprocess.Popen(
            [*line, *alone],
            env={**os.environ, "GPU_QUEUE_DIR": str(state.state / name), "GPU_TOKEN_FILE": str(state.token)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "other")
    ]
    for lanes in both:
        statuses, errors = lanes.communicate()
        assert statuses.split() == ["0"] * 15, errors
    assert state.leftovers() == []


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_lanes_of_one_account_take_turns_in_order(state: Box) -> None:
    """More than there are inotify instances for one account (128)."""
    crowd(state, 200)


def plant(state: Box, number: int) -> None:
    """Tickets that name this process with another start time: of holds that are dead, as far as anybody can tell."""
    state.queue.mkdir(exist_ok=True)
    lines = {"v": "1", "nonce": "n", "pid": str(os.getpid()), "start": "1", "lane": "planted"}
    lines |= {"boot": tickets.boot_id(), "host": os.uname().nodename}
    lines |= {"pidns": str(tickets.namespace("pid")), "timens": str(tickets.namespace("time"))}
    for sequence in range(1, number + 1):
        name = f"{sequence:010}-{os.getpid()}"
        (state.queue / name).write_bytes(tickets.encode({"id": name, **lines}))


def cpu_seconds(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=110, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("verb", [["status", "-r", "gpu", "--json"], ["run", "--", "true"]], ids=["status", "run"])
def test_the_cost_of_planted_tickets_grows_no_faster_than_their_number(state: Box, verb: list[str]) -> None:
    """Thousands of them once cost a lane minutes, since each was compared with all."""
    line = [*HOLDTOP, verb[0], "--state-dir", str(state.state), *verb[1:]]
    idle = cpu_seconds(line)
    plant(state, 1000)
    few = cpu_seconds(line) - idle
    plant(state, 5000)
    many = cpu_seconds(line) - idle
    assert many < 15 * max(few, idle / 4), (idle, few, many)
    if verb[0] == "run":
        assert state.tickets() == [], "the lane has cleared what nobody holds by"


HOSTILE = [b"t\xff\n\x1b[31m-77", b"0000000001-77\n", b"a b\tc", b"\xe2\x80\xae-78", b"-rf", b"x" * 255]


def test_an_entry_of_any_name_is_shown_and_evicted_exactly_in_the_poorest_locale(state: Box) -> None:
    state.queue.mkdir(mode=0o2770)
    here = os.fsencode(state.queue)
    for name in HOSTILE:
        Path(os.fsdecode(os.path.join(here, name))).touch()
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    line = [*HOLDTOP, "status", "--state-dir", str(state.state), "-r", "gpu"]
    done = subprocess.run(line, capture_output=True, env=environment, timeout=60, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    assert not {0x1B, 0x07, 0x09, 0xFF} & set(done.stdout), "no control reaches the terminal"
    assert b"\xe2\x80\xae" not in done.stdout
    for number, name in enumerate(HOSTILE, 1):
        words: list[str | bytes] = [
            *HOLDTOP,
            "evict",
            "--state-dir",
            str(state.state),
            "--reason",
            "foreign",
            "--yes",
            "--",
            name,
        ]
        gone = subprocess.run(words, capture_output=True, env=environment, timeout=60, check=False)
        assert gone.returncode == 0, gone.stderr
        left = {entry for entry in os.listdir(here) if not entry.startswith(b".")}
        assert left == set(HOSTILE[number:])
