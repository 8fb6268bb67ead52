"""A box with real lanes, and a hand-made snapshot of it: what an operator was shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdtop.hold.look import look
from holdtop.hold.places import resolve
from holdtop.hold.stop import user_name
from holdtop.hold.view import TicketFile, TokenFile
from holdtop.model.values import (
    Flag,
    Foreign,
    FoundBy,
    Memory,
    Payload,
    Process,
    Resource,
    Snapshot,
    Ticket,
)
from holdtop.payload.members import real_uid
from holdtop.payload.process import ProcessTable, Stat, read_stat
from tests.hold.lanes import Box


def process(stat: Stat, found_by: FoundBy = "descent", gtt_bytes: int | None = 1 << 30) -> Process:
    uid = real_uid(stat.pid)
    command = Path(f"/proc/{stat.pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")[:-1]
    return Process(
        pid=stat.pid,
        ppid=stat.ppid,
        start_ticks=stat.start_ticks,
        name=stat.name,
        command=tuple(command),
        state=stat.state,
        uid=uid,
        user=None if uid is None else user_name(uid),
        cpu_percent=None,
        rss_bytes=None,
        gtt_bytes=gtt_bytes,
        vram_bytes=0,
        npu_bytes=0,
        memory_source="fdinfo",
        found_by=found_by,
        readable=True,
    )


def shown(
    box: Box, leftovers: Sequence[Process] = (), flagged: str = "stray", shell_payload: Sequence[Process] = ()
) -> Snapshot:
    """What lies there now, with the payload as the descent from the keeper."""
    view = look(resolve("gpu", str(box.state)))
    holder = _holder(view.token, view.records, shell_payload) if view.token else None
    waiting = [t for t in view.tickets if holder is None or t.id != holder.id]
    flags = [Flag(flagged, "warning", "gpu", None, (one.pid,), "", "", "") for one in leftovers]
    return Snapshot(
        host="here",
        boot_id=None,
        taken_at="2026-01-01T00:00:00+00:00",
        at=0.0,
        readings={},
        device=None,
        devices=(),
        memory=Memory(None, None, None, None, None, None, 0),
        containment=(),
        resources=(
            Resource(
                name="gpu",
                queue_path=view.queue_path,
                token_path=view.token_path,
                rule=view.rule,
                state=_state(view.token, leftovers),
                holder=holder,
                waiting=tuple(_ticket(t, place, "waiting", None) for place, t in enumerate(waiting, 1)),
                foreign=tuple(Foreign(e.name, e.pid, e.why) for e in view.entries),
                not_tickets=(),
                last_receipt=None,
            ),
        ),
        flags=tuple(flags),
        leftovers=tuple(leftovers),
    )


def _state(token: TokenFile | None, device_users: Sequence[Process]) -> Any:
    if token is None:
        return "free"
    gone = token.kind == "shell" and token.pid is not None and read_stat(token.pid) is None
    return "ghost" if token.ghost or (gone and not device_users) else "held"


def _holder(token: TokenFile, records: Any, shell_payload: Sequence[Process]) -> Ticket | None:
    table = ProcessTable()
    if token.kind == "shell" and token.pid:
        stat = table.stats.get(token.pid)
        ticket = _ticket(None, 0, "running", Payload(None, 1, None, None, None, "read", tuple(shell_payload)))
        start, uid = (stat.start_ticks, real_uid(stat.pid)) if stat else (None, None)
        return _changed(ticket, id=f"shell-{token.pid}", pid=token.pid, start_ticks=start, uid=uid, lane=token.lane)
    if token.ticket is None:
        return None
    record = records.get(token.ticket.id)
    keeper = record.keeper_pid if record else None
    below = [table.stats[pid] for pid in table.descendants(keeper)] if keeper else []
    members = tuple(process(stat) for stat in below if not stat.dead)
    payload = Payload(record.root_pid if record else None, len(members), None, None, None, "read", members)
    return _ticket(token.ticket, 0, "running", payload, keeper)


def _changed(ticket: Ticket, **changes: Any) -> Ticket:
    import dataclasses

    return dataclasses.replace(ticket, **changes)


def _ticket(
    file: TicketFile | None, position: int, state: Any, payload: Payload | None, keeper: int | None = None
) -> Ticket:
    return Ticket(
        id=file.id if file else "",
        resource="gpu",
        kind="holdtop" if file else "shell",
        lane=file.lane if file else None,
        pid=file.pid if file else None,
        keeper_pid=keeper,
        start_ticks=file.start_ticks if file else None,
        uid=file.uid if file else None,
        user=None,
        command=(),
        cwd=None,
        queued_at=None,
        position=position,
        waited_seconds=None,
        held_seconds=None,
        deadline_at=None,
        state=state,
        limits=dict(file.limits) if file else {},
        payload=payload,
    )


def audited(box: Box) -> list[dict[str, Any]]:
    """Every record of every account, in the order of the files."""
    return [
        json.loads(line)
        for path in sorted((box.queue / ".audit").glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]


def kinds(box: Box) -> list[str]:
    return [record["kind"] for record in audited(box)]
