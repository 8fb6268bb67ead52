"""What a running hold publishes about itself in ``Q/.record/ID.json``: a claim of the file's owner.

An operator without root may not read another account's descriptors; the hold, running as its payload's own user,
may, and says here what it finds.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from holdtop.errors import HoldtopError
from holdtop.hold.files import ASIDE, DIRECTORY_MODE, SIZE_LIMIT, Dir, Untrusted, json_object, writing
from holdtop.hold.ticket import TICKET_FORM, now
from holdtop.hold.view import Record, RecordedCgroup, RecordedProcess
from holdtop.payload.custody import Member, SeenCgroup, Used
from holdtop.payload.process import PID_LIMIT, Identity
from holdtop.render import whole

RECORD = ".record"
#: Of a larger payload the oldest are named, and fewer where names are long: a record has to stay readable.
MOST_MEMBERS = (500, 100, 10)
MOST_CGROUPS = 50


def publish(
    queue: Dir,
    ticket_id: str,
    content: Mapping[str, object],
    members: Collection[Member] | None,
    cgroups: Collection[SeenCgroup] | None,
    used: Mapping[Identity, Used],
) -> None:
    """Renew the record. ``None`` is not known: what was said before stays (an heir knows less than the dead keeper).

    Raises ``HoldError`` when it cannot be written; the old one stays then.
    """
    said: dict[str, object] = {**content, "ticket": ticket_id, "at": now()}
    if cgroups is not None:
        said["cgroups"] = [{"path": one.path, "inode": one.inode, "sole": one.sole} for one in cgroups][:MOST_CGROUPS]
    oldest: list[dict[str, object]] = []
    if members is not None:
        oldest = say_processes(sorted(members, key=lambda member: member.identity.start_ticks), used)
        said |= {"members_total": len(members), "members": oldest}
    with (
        writing(queue.of(RECORD), "publish what has to be known of this hold"),
        queue.sub(RECORD, make=DIRECTORY_MODE) as records,
    ):
        whole = _own(records, ticket_id, content.get("nonce")) | said
        for most in MOST_MEMBERS:
            data = json.dumps(whole | {"members": oldest[:most]} if oldest else whole, default=str).encode()
            if len(data) <= SIZE_LIMIT:
                break
        records.replace(f"{ticket_id}.json", data)


def _own(records: Dir, ticket_id: str, nonce: object) -> dict[str, Any]:
    """What this very hold has published so far."""
    with contextlib.suppress(OSError, Untrusted):
        data, status = records.read(f"{ticket_id}.json")
        said = json_object(data)
        if said and status.st_uid == os.geteuid() and said.get("nonce") == nonce:
            return said
    return {}


def remove(queue: Dir, ticket_id: str) -> None:
    with contextlib.suppress(OSError, HoldtopError), queue.sub(RECORD) as records:
        for name in (f"{ticket_id}.json", f"{ASIDE}{ticket_id}.json"):  # the latter of a hold killed while it wrote
            records.remove(name)


def remove_stale(queue: Dir, known: Collection[str | None]) -> None:
    """Remove what is no record of a hold: of the ``known`` tickets all are.

    Without its ticket a record says that one whose ticket was removed still runs, or has left somebody running.
    """
    with contextlib.suppress(OSError, HoldtopError), queue.sub(RECORD) as records:
        for ticket_id in {name.removeprefix(ASIDE).removesuffix(".json") for name in records.names()} - {*known}:
            found = read(queue, ticket_id)
            if found is None or not found.lines:
                remove(queue, ticket_id)


def read(queue: Dir, ticket_id: str) -> Record | None:
    """The record of that ticket, or ``None`` when there is none to be believed."""
    with contextlib.suppress(OSError, Untrusted, HoldtopError), queue.sub(RECORD) as records:
        data, status = records.read(f"{ticket_id}.json")
        return _parse(json_object(data), ticket_id, status.st_uid)
    return None


def names(queue: Dir) -> list[str]:
    """Ids of the tickets that have a record, in order."""
    with contextlib.suppress(OSError, HoldtopError), queue.sub(RECORD) as records:
        found = (name.removesuffix(".json") for name in records.names() if name.endswith(".json"))
        return sorted(filter(TICKET_FORM.fullmatch, found))
    return []


def read_all(queue: Dir) -> dict[str, Record]:
    found = ((name, read(queue, name)) for name in names(queue))
    return {name: record for name, record in found if record}


def _parse(said: dict[str, Any] | None, ticket_id: str, uid: int) -> Record | None:
    if said is None or said.get("ticket") != ticket_id:
        return None
    state = said.get("state")
    return Record(
        ticket_id=ticket_id,
        nonce=str(said.get("nonce", "")),
        uid=uid,
        state=state if state in ("running", "paused", "ending") else "running",
        keeper_pid=whole(said.get("keeper_pid")),
        root_pid=whole(said.get("root_pid")),
        root_start_ticks=whole(said.get("root_start_ticks")),
        session=whole(said.get("session")),
        deadline_at=_text(said.get("deadline_at")),
        taken_at=_text(said.get("taken_at")),
        limits={str(key): str(value) for key, value in _dict(said.get("limits")).items()},
        containment=tuple(str(item) for item in _list(said.get("containment"))),
        cgroups=tuple(_parse_cgroups(said.get("cgroups"))),
        members=tuple(parse_processes(said.get("members"))),
        at=_text(said.get("at")),
        lines=_text(said.get("lines")) or "",
        keeper_start_ticks=whole(said.get("keeper_start_ticks")),
        log=_text(said.get("log")),
    )


def say_processes(
    members: Iterable[Member], used: Mapping[Identity, Used] = MappingProxyType({})
) -> list[dict[str, object]]:
    """What ``parse_processes`` reads. ``used``: the device memory of those of whom it is known."""
    return [
        {"pid": one.identity.pid, "start_ticks": one.identity.start_ticks, "name": one.name}
        | ({"gtt_bytes": has.gtt_bytes, "vram_bytes": has.vram_bytes} if (has := used.get(one.identity)) else {})
        for one in members
    ]


def parse_processes(said: object) -> Iterator[RecordedProcess]:
    """The believable entries of a list of processes: pid and start time must be numbers."""
    for item in _list(said):
        entry = _dict(item)
        pid, start = whole(entry.get("pid")), whole(entry.get("start_ticks"))
        if pid is not None and start is not None and 1 < pid <= PID_LIMIT:
            yield RecordedProcess(
                pid,
                start,
                str(entry.get("name", "")),
                whole(entry.get("rss_bytes")),
                whole(entry.get("gtt_bytes")),
                whole(entry.get("vram_bytes")),
            )


def _parse_cgroups(said: object) -> Iterator[RecordedCgroup]:
    for item in _list(said)[:MOST_CGROUPS]:
        entry = _dict(item)
        path, inode = _text(entry.get("path")), whole(entry.get("inode"))
        if path and path.startswith("/") and _is_path(path) and inode is not None:
            yield RecordedCgroup(path, inode, entry.get("sole") is True)


def _is_path(text: str) -> bool:
    """Whether the system can be asked about it: JSON may spell what no file name is."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
