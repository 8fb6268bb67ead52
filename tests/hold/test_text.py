"""Foreign text in the state: what any bytes, names and labels may do (nothing)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.errors import UsageError
from holdtop.hold import events, lane, token
from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir, Untrusted
from holdtop.hold.view import TokenFile
from holdtop.payload.channel import Channel
from holdtop.payload.process import parse_stat
from tests.hold.lanes import HOLDTOP, Box, ended

ANY_TEXT = st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")) | st.text(max_size=200)


@given(st.dictionaries(st.sampled_from(["cmd", "lane", "cwd", "limits"]), ANY_TEXT))
def test_lines_say_what_was_written(lines: dict[str, str]) -> None:
    wanted = {key: value.encode("utf-8", "surrogateescape") for key, value in lines.items() if _encodable(value)}
    data = tickets.encode({key: value for key, value in lines.items() if key in wanted})
    assert data.count(b"\n") == len(wanted)
    assert all(0x20 <= byte != 0x7F for byte in data.replace(b"\n", b""))
    read = tickets.decode(data)
    assert {key: value.encode("utf-8", "surrogateescape") for key, value in read.items()} == wanted


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


@given(st.binary(max_size=2000))
def test_no_bytes_crash_a_token_or_a_ticket(data: bytes) -> None:
    found = token.parse(data, TokenFile(1, 2, 3, "garbled"))
    assert found.kind != "garbled" or found.why
    with contextlib.suppress(Untrusted):
        tickets.parse(data, uid=0)


@given(
    st.binary(max_size=40).filter(lambda name: b"\0" not in name),
    st.integers(2, 1 << 22),
    st.integers(0, 1 << 60),
    st.booleans(),
)
def test_a_stat_line_is_read_right_whatever_the_name(name: bytes, pid: int, start: int, forked: bool) -> None:
    flags = 4194304 | forked << 6
    raw = b"%d (%b) S 7 8 9 0 -1 %d 1 2 3 4 5 6 7 8 20 0 3 0 %d 99 100 18446744073709551615" % (pid, name, flags, start)
    stat = parse_stat(raw)
    assert stat.unexecuted is forked
    assert (stat.pid, stat.ppid, stat.pgrp, stat.session, stat.threads) == (pid, 7, 8, 9, 3)
    assert (stat.state, stat.start_ticks) == ("S", start)
    assert os.fsencode(stat.name) == name


def test_the_last_word_waits_for_room_where_others_are_dropped() -> None:
    near, far = Channel.pair()
    for _ in range(2000):
        near.send("say", text="x" * 100)
    heard: list[dict[str, object]] = []
    reader = threading.Timer(0.2, lambda: heard.extend(far.receive()))
    reader.start()
    near.send_last("done")
    reader.join()
    heard.extend(far.receive())
    assert heard[-1] == {"kind": "done"}
    assert len(heard) < 2000, "the channel was full, or this shows nothing"
    near.close()
    far.close()


def test_a_process_with_a_hostile_name_is_a_member_like_any_other(state: Box, tmp_path: Path) -> None:
    hostile = tmp_path / "a) R 1 1 (b\n[x"
    shutil.copy("/bin/sleep", hostile)
    hold = state.run("sh", "-c", 'setsid "$0" 300 & sleep 0.5', str(hostile), options=["--grace", "1"])
    assert ended(hold)[0] == 0
    end = next(event for event in state.events() if event["event"] == "ended")
    assert any(fate["name"].startswith("a) R 1 1 (b") for fate in end["ended"])
    assert state.leftovers() == []


@pytest.mark.parametrize("label", ["a\nb", "\udcff", "", "x" * 300, " ", "a b", "\u202eevil", "\x1b[2J", "a\u200b"])
def test_a_bad_label_is_refused_with_one_line(state: Box, label: str) -> None:
    with pytest.raises(UsageError):
        lane.choose(label)
    done = state.verb("run", f"--lane={label}", "--", "true")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "\x1b" not in done.stderr
    assert state.tickets() == []


@pytest.mark.parametrize("label", ["../../x", "-rf", ".", "[/red]", "a/b", "$(reboot)", "世蓮", "%41"])
def test_an_odd_label_is_only_a_label(state: Box, label: str) -> None:
    done = state.verb("run", f"--lane={label}", "--", "cat", str(state.token))
    assert done.returncode == 0, done.stderr
    assert tickets.unescape(done.stdout.split()[0]) == label
    assert {p.name for p in state.state.iterdir()} == {"gpu-queue"}


@given(ANY_TEXT)
def test_a_derived_label_is_always_a_good_one(text: str) -> None:
    assert lane.choose(None, {"CI_JOB_ID": text}) == lane.choose(lane.choose(None, {"CI_JOB_ID": text}))


def test_one_step_is_one_line_whatever_it_says(state: Box) -> None:
    with Dir.root(str(state.state)) as root:
        events.record(root, "odd", "x", text="a\nb\x1b[2J\u2028[/red]\udcff")
        log = state.state / ".log" / "events.jsonl"
        with log.open("ab") as file:
            file.write(b'{"torn": ')
        events.record(root, "next", "y")
        assert [event["event"] for event in events.tail(root)] == ["odd", "next"]
        assert log.read_bytes().count(b"\n") == 3
        assert json.loads(log.read_text().splitlines()[0])["text"].startswith("a\nb")


def test_a_foreign_or_bad_entry_neither_blocks_nor_stops_anybody(state: Box) -> None:
    state.queue.mkdir()
    os.mkfifo(state.queue / "0000000001-4242")
    (state.queue / "0000000002-4242").write_text("v=1\nid=0000000002-4243\n")
    (state.queue / "0000000003-4242").symlink_to("/etc/shadow")
    (state.queue / os.fsdecode(b"t\xff\n\x1b[31m-77")).touch()
    assert ended(state.run("true"), 10)[0] == 0
    with Dir.root(str(state.queue)) as queue:
        found, entries = queues.look(queue)
    assert found == []
    assert len(entries) == 4
    assert [entry.pid for entry in entries if entry.foreign] == [77]


def test_a_full_stderr_does_not_stop_a_deadline(state: Box) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    hold = state.run("sleep", "300", options=["--max-hold", "0.5", "--grace", "0.5"], stderr=writing)
    os.close(writing)
    try:
        assert hold.wait(15) == 124
    finally:
        os.close(reading)
    assert state.leftovers() == []


def test_nohup_is_nohup(state: Box) -> None:
    line = ["nohup", *HOLDTOP, "run", "--state-dir", str(state.state), "--", "sh", "-c", "kill -HUP $PPID $$; echo on"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (0, "on\n")


def test_dispositions_are_a_shells_own_whatever_the_starter_ignored(state: Box) -> None:
    code = (
        "import signal, subprocess, sys\n"
        "for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)\n"
        "sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    )
    line = [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "grep", "SigIgn", "/proc/self/status"]
    done = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True, timeout=20)
    # The C library keeps 32 and 33 for itself and lets nobody reset them; make starts its children with them ignored.
    assert int(done.stdout.split()[1], 16) & ~(0b11 << 31) == 0


def test_secrets_do_not_reach_the_state(state: Box) -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    done = state.verb(
        "run", "--", "sh", "-c", "cat $0*/gpu-token $0*/gpu-queue/0*", str(state.state), f"--token={secret}"
    )
    assert "id=" in done.stdout
    assert secret not in done.stdout
    assert secret not in "".join(p.read_text() for p in state.queue.rglob("*") if p.is_file())
