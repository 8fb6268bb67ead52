"""Hand-made snapshots: a quiet box, one in trouble, and one whose every text is hostile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdtop.model.values import (
    Device,
    ExpectedStart,
    Flag,
    Foreign,
    Memory,
    NotTicket,
    Payload,
    Process,
    Reading,
    Resource,
    Snapshot,
    Ticket,
    WillItFit,
)

GIB = 1024**3
AT = 50_000.0
NOW = "2030-01-02T03:04:05+00:00"


def process(pid: int, ppid: int, name: str, *command: str, **said: Any) -> Process:
    given: dict[str, Any] = {
        "start_ticks": 4_900_000 + pid,
        "state": "S",
        "uid": 1000,
        "user": "alice",
        "cpu_percent": 0.0,
        "rss_bytes": 40 * 1024**2,
        "gtt_bytes": None,
        "vram_bytes": None,
        "npu_bytes": 0,
        "memory_source": None,
        "found_by": "descent",
        "readable": True,
    } | said
    return Process(pid=pid, ppid=ppid, name=name, command=command, **given)


def ticket(number: int, **said: Any) -> Ticket:
    given: dict[str, Any] = {
        "id": f"{number:010}-{4000 + number}",
        "resource": "gpu",
        "kind": "holdtop",
        "lane": f"lane-{number}",
        "pid": 4000 + number,
        "keeper_pid": 4100 + number,
        "start_ticks": 4_800_000,
        "uid": 1000,
        "user": "alice",
        "command": ("python", "train.py", "--epochs", "3"),
        "cwd": "/home/alice/work",
        "queued_at": NOW,
        "position": 1,
        "waited_seconds": 130.0,
        "held_seconds": None,
        "deadline_at": None,
        "state": "waiting",
    } | said
    return Ticket(**given)


def resource(name: str, holder: Ticket | None, *waiting: Ticket, **said: Any) -> Resource:
    given: dict[str, Any] = {
        "queue_path": f"/srv/hold/{name}-queue",
        "token_path": f"/srv/hold/{name}-token",
        "rule": "flag",
        "state": "held" if holder else "free",
        "foreign": (),
        "not_tickets": (),
        "last_receipt": None,
    } | said
    return Resource(name=name, holder=holder, waiting=waiting, **given)


def readings(**values: float | None) -> dict[str, Reading]:
    given: dict[str, float | None] = {
        "gtt_used_bytes": 46.2 * GIB,
        "gtt_total_bytes": 110.0 * GIB,
        "vram_used_bytes": 0.4 * GIB,
        "vram_total_bytes": 0.5 * GIB,
        "gpu_busy_percent": 97.0,
        "gpu_power_watts": 88.5,
        "tctl_celsius": 95.5,
        "mem_available_bytes": 52.3 * GIB,
        "mem_total_bytes": 124.9 * GIB,
        "memory_pressure_some_avg10_percent": 2.4,
        "npu_busy_percent": None,
    } | values
    return {
        name: Reading(None, "no NPU load is reported by this kernel")
        if value is None
        else Reading(value, at=AT, source=f"/sys/{name}")
        for name, value in given.items()
    }


TREE = (
    process(5001, 4101, "python3", "python3", "train.py", "--epochs", "3", cpu_percent=3.0),
    process(5002, 5001, "python3", "python3", "-c", "from multiprocessing…", cpu_percent=96.0, gtt_bytes=38 * GIB),
    process(5003, 5002, "pt_data_worker", "pt_data_worker", cpu_percent=12.0, rss_bytes=3 * GIB),
    process(5004, 5002, "pt_data_worker", "pt_data_worker", cpu_percent=11.0, rss_bytes=3 * GIB),
    process(5005, 5001, "rocm-smi", "rocm-smi", "--loop", state="D"),
    process(5006, 1, "tensorboard", "tensorboard", "--logdir", "runs", found_by="marker", readable=False),
)

HOLDER = ticket(
    12,
    lane="nightly-build",
    position=0,
    state="running",
    waited_seconds=30.0,
    held_seconds=5410.0,
    deadline_at="2030-01-02T04:00:00+00:00",
    limits={"grace": "10s", "max-hold": "9000s", "tctl-abort": "97C", "mem-abort-gib": "6GiB"},
    payload=Payload(5001, 6, int(6.2 * GIB), 38 * GIB, None, "read", TREE),
)

SURVIVOR = process(
    3977, 1, "python3", "python3", "serve.py", "--port", "8000",
    user="carol", uid=1002, gtt_bytes=int(7.4 * GIB), found_by="record", state="D",
)  # fmt: skip

FLAGS = (
    Flag("survivor", "critical", "gpu", "0000000010-3970", (3977,), "2030-01-02T02:10:00+00:00",
         "pid 3977 (python3, carol) outlived the token of eval-7 (unkillable); device memory: 7.4 GiB",
         "holdtop kill --pid 3977 --reason REASON"),
    Flag("hot", "warning", "gpu", None, (), "2030-01-02T03:03:00+00:00",
         "Tctl is 95.5 C",
         "see to the fans, or end the payload: holdtop status"),
    Flag("unreadable", "info", "gpu", None, (), "2030-01-02T01:00:00+00:00",
         "1.1 GiB of device memory belong to no process that could be looked into; 2 could not",
         "sudo holdtop status"),
)  # fmt: skip

SOON = ExpectedStart("2030-01-02T03:20:00+00:00", "2030-01-02T04:00:00+00:00")
WAITING = (
    ticket(13, lane="eval-7", user="bob", uid=1001, command=("./eval.sh", "--suite", "full"),
           expected_start=SOON, will_it_fit=WillItFit(24 * GIB, 46 * GIB, True)),
    ticket(14, lane="世蓮", position=2, waited_seconds=45.0, command=("llama-bench", "-m", "model.gguf")),
    ticket(15, lane="ci-7731", user="ci", uid=990, position=3, waited_seconds=4.0, kind="holdtop"),
)  # fmt: skip

BUSY = Snapshot(
    host="strix-1",
    boot_id="b",
    taken_at=NOW,
    at=AT,
    readings=readings(),
    device="0000:c5:00.0",
    devices=(Device("0000:c5:00.0", "apu", "gpu", {}),),
    memory=Memory(38 * GIB, int(7.4 * GIB), 0, 0, int(1.1 * GIB), 46 * GIB, 2),
    containment=("subreaper", "marker"),
    resources=(
        resource("gpu", HOLDER, *WAITING),
        resource("npu", None, last_receipt={"verdict": "clean", "lane": "whisper", "at": "2030-01-02T02:59:00+00:00"}),
    ),
    flags=FLAGS,
    leftovers=(SURVIVOR,),
)

QUIET = replace(
    BUSY,
    readings=readings(gpu_busy_percent=0.0, tctl_celsius=41.0, gtt_used_bytes=0.3 * GIB, mem_available_bytes=118 * GIB),
    memory=Memory(0, 0, 0, 0, int(0.3 * GIB), 104 * GIB, 0),
    resources=(resource("gpu", None),),
    flags=(),
    leftovers=(),
)

FOREIGN = replace(
    BUSY,
    flags=(),
    resources=(
        resource(
            "gpu",
            HOLDER,
            foreign=(Foreign("lane-x.4711", 4711, "no ticket of ours"),),
            not_tickets=(NotTicket("0000000099-1", "two links"),),
        ),
    ),
)

#: What a field may contain that means harm: markup, a link that acts, escapes, line ends, bidi, wide characters.
EVIL = (
    "[/red]",
    "[@click=app.exit]x[/]",
    "\x1b[2J\x1b]52;c;aGFyaGFy\x07",
    "two\nlines\r",
    "a) R 1 1 (b",
    "\u202egpj.exe\u2069",
    "世界\u200d👨\u200d👩",
    "\x9b31m\udcff\ud800",
)


def hostile(text: str) -> Snapshot:
    """The busy box with ``text`` in every field that somebody else may have written."""
    evil = process(5001, 1, text, text, text, user=text, state="S")
    holder = replace(
        HOLDER, id=text, lane=text, user=text, command=(text,), cwd=text, being_ended_by=text,
        limits={text: text}, payload=Payload(5001, 1, 1, 1, 1, "record", (evil,)),
    )  # fmt: skip
    waiter = ticket(13, lane=text, user=text, command=(text, text), cwd=text, limits={text: text})
    flag = Flag(text, "critical", "gpu", text, (5001,), text, text, text)
    return replace(
        BUSY,
        host=text,
        readings={"tctl_celsius": Reading(None, text)},
        device=text,
        resources=(
            resource("gpu", holder, waiter, queue_path=text, token_path=text),
            resource("npu", None, last_receipt={"verdict": text, "lane": text, "at": text}),
        ),
        flags=(flag,),
        leftovers=(),
        roots=(f"HOLDTOP_SYS={text}",),
    )
