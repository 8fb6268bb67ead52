"""Hand-made looks for the tests of ``build``: a healthy box, from which each test departs by one thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from holdtop.hold.view import QueueView, Record, RecordedProcess, SurvivorRecord, TicketFile, TokenFile
from holdtop.model.raw import Client, Details, DeviceUser, Limits, Look, Raw, Stat, Table, Uses
from holdtop.model.values import Device, Reading

MIB, GIB = 1024**2, 1024**3
NOW = "2026-03-01T12:00:00+00:00"
TICKET = "0000000012-500"
PDEV = "0000:c5:00.0"
ME, OTHER = 1000, 1001


def at(clock: str) -> str:
    """``11:50:00`` of the day of ``NOW``."""
    return f"2026-03-01T{clock}+00:00"


def ticket(pid: int = 500, sequence: int = 12, **changes: Any) -> TicketFile:
    made = TicketFile(
        id=f"{sequence:010d}-{pid}",
        sequence=sequence,
        nonce=f"nonce{sequence}",
        resource="gpu",
        lane=f"lane{sequence}",
        pid=pid,
        start_ticks=pid,
        pidns=1,
        timens=1,
        boot_id="boot",
        host="box",
        queued_at=at("11:50:00"),
        cwd="/work",
        command="python3 train.py --name 'a b'",
        limits={"grace": "10s", "survive-wait": "60s"},
        uid=ME,
        locked=True,
        identity_alive=True,
    )
    return replace(made, **changes)


def token(of: TicketFile | None = None, **changes: Any) -> TokenFile:
    of = of or ticket()
    made = TokenFile(8, 99, of.uid, "holdtop", of.lane, of.pid, at("11:55:00"), of.id, of.nonce, of, of.locked)
    return replace(made, **changes)


def record(of: TicketFile | None = None, **changes: Any) -> Record:
    of = of or ticket()
    made = Record(
        ticket_id=of.id,
        nonce=of.nonce,
        uid=of.uid,
        state="running",
        keeper_pid=501,
        root_pid=502,
        root_start_ticks=502,
        deadline_at=at("12:30:00"),
        taken_at=at("11:55:00"),
        limits={"grace": "10s", "survive-wait": "60s", "max-hold": "2100s"},
        containment=("subreaper",),
        members=(RecordedProcess(502, 502, "python3"), RecordedProcess(503, 503, "worker")),
        at=NOW,
    )
    return replace(made, **changes)


def view(**changes: Any) -> QueueView:
    """Held by ticket 12, with ticket 13 waiting."""
    made = QueueView(
        resource="gpu",
        queue_path="/var/state/gpu-queue",
        token_path="/var/state/gpu-token",
        rule="state-dir-variable",
        tickets=(ticket(), ticket(600, 13)),
        token=token(),
        records={TICKET: record()},
    )
    made = replace(made, **changes)
    return replace(made, ran=tuple(one for one in made.tickets if one.id in made.records))


def survivors(*processes: tuple[int, int], why: str = "unkillable") -> SurvivorRecord:
    named = tuple(RecordedProcess(pid, start, "left") for pid, start in processes)
    return SurvivorRecord("0000000009-400", "lane9", ME, at("11:40:00"), why, named)


def stat(pid: int, ppid: int, name: str = "python3", **changes: Any) -> Stat:
    return replace(Stat(pid, ppid, 1, name, "S", 1, pid, 300, 100 * MIB), **changes)


#: The shell that started hold 500 (supervisor) over 501 (keeper) over the payload 502 and 503; 600 waits.
PROCESSES = (
    stat(1, 0, "init"),
    stat(2, 0, "kthreadd", kernel=True),
    stat(400, 1, "bash"),
    stat(500, 400, "holdtop"),
    stat(501, 500, "holdtop"),
    stat(502, 501),
    stat(503, 502, "worker"),
    stat(600, 400, "holdtop"),
    stat(700, 1, "gnome-shell"),
    stat(800, 400, "notebook"),
)


def user(pid: int, gtt: int | None, client: int | None = None, **changes: Any) -> DeviceUser:
    key = (PDEV, f"drm-client-id {pid if client is None else client}")
    return DeviceUser(pid, pid, frozenset({"gpu"}), (replace(Client(key, gtt, 0), **changes),))


def uses(*users: DeviceUser, denied: Iterable[int] = (), at: float = 1000.0) -> Uses:
    return Uses({one.pid: one for one in users}, frozenset(denied), at)


def table(*changed: Stat, gone: Iterable[int] = (), at: float = 1000.0) -> Table:
    stats = {one.pid: one for one in (*PROCESSES, *changed)}
    return Table({pid: one for pid, one in stats.items() if pid not in set(gone)}, at)


def readings(**values: float | None) -> dict[str, Reading]:
    return {name: Reading(value, None if value is not None else "why not", at=1000.0) for name, value in values.items()}


CARD = Device(
    PDEV,
    "apu",
    "gpu",
    readings(gtt_used_bytes=41 * GIB, gtt_total_bytes=124 * GIB, vram_used_bytes=400 * MIB, vram_total_bytes=512 * MIB),
)
#: With nobody's memory, and with 40.1 GiB in use.
CARD_IDLE = replace(CARD, readings={**CARD.readings, **readings(gtt_used_bytes=14 * MIB)})
BUSY = replace(CARD, readings={**CARD.readings, **readings(gtt_used_bytes=40 * GIB + 114 * MIB)})
HOST = readings(tctl_celsius=61.0, mem_available_bytes=60 * GIB, mem_total_bytes=128 * GIB)


def read_at(card: Device, at: float) -> Device:
    return replace(card, readings={name: replace(reading, at=at) for name, reading in card.readings.items()})


def raw(queue: QueueView | None = None, **changes: Any) -> Raw:
    """A healthy box: 40 GiB in the payload, 100 MiB on the screen, 14 MiB of scan-out.

    With other users the card has in use what they hold; what is held by those that are closed to us stays 40 GiB.
    """
    scanned = changes.setdefault("uses", uses(user(502, 40 * GIB), user(700, 100 * MIB)))
    open_ = scanned.users.values() if scanned and not scanned.denied else [user(502, 40 * GIB + 100 * MIB)]
    used = 14 * MIB + sum(client.gtt_bytes or 0 for one in open_ for client in one.clients)
    made = Raw(
        host="box",
        boot_id="boot",
        taken_at=NOW,
        at=1000.0,
        since_boot=1200.0,  # it was suspended for 200 s
        ticks_per_second=1,  # a process's pid is its start, and its start is in seconds
        uid=ME,
        initial_pidns=True,
        looks=(Look("gpu", queue or view()),),
        devices=(replace(CARD, readings={**CARD.readings, **readings(gtt_used_bytes=used)}),),
        host_readings=HOST,
        table=table(),
        details=_details(),
        users={ME: "ann", OTHER: "bob"},
        limits=Limits(stray_allow=frozenset({"gnome-shell"})),
    )
    return replace(made, **changes)


def _details() -> Mapping[tuple[int, int], Details]:
    return {one.identity: Details((one.name, "--flag"), ME, "ann") for one in PROCESSES}
