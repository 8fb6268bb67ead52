"""Bookmarks that set themselves: what somebody looks for who opens a recording after a bad night."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from holdtop.hold.redact import redact_text
from holdtop.model.clock import parse
from holdtop.model.standing import Notice
from holdtop.model.values import Resource, Snapshot
from holdtop.render import clean

Kind = Literal["raised", "cleared", "reset", "taken", "released", "aborted", "settled", "act"]
#: Longest text of one, in characters.
LONG = 300


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened between one look and the next. Text is foreign, and without secrets."""

    #: RFC 3339: of the look that saw it, of an act its own.
    at: str
    kind: Kind
    severity: Literal["info", "warning", "critical"]
    resource: str | None
    ticket: str | None
    text: str


def marks(
    previous: Snapshot | None, snapshot: Snapshot, notices: Iterable[Notice], acts: Iterable[Mapping[str, Any]]
) -> tuple[Mark, ...]:
    """What happened since ``previous``, by its look, the flags that changed, and the new records of the audits."""
    found = [*_of_flags(snapshot, notices), *_of_acts(snapshot, acts)]
    if previous is not None:
        before = {(one.name, one.queue_path): one for one in previous.resources}  # another state has other holds
        for resource in snapshot.resources:
            found += _of_holds(
                before.get((resource.name, resource.queue_path)), resource, previous.taken_at, snapshot.taken_at
            )
    return tuple(replace(one, text=redact_text(one.text)) for one in found)


def _of_flags(snapshot: Snapshot, notices: Iterable[Notice]) -> Iterator[Mark]:
    for notice in notices:
        flag, up = notice.flag, notice.state == "raised"
        kind: Kind = "reset" if up and flag.kind == "gpu-reset" else "raised" if up else "cleared"
        text = clean(f"{flag.kind}: {flag.text}", LONG)
        yield Mark(snapshot.taken_at, kind, flag.severity if up else "info", flag.resource, flag.ticket, text)


def _of_acts(snapshot: Snapshot, acts: Iterable[Mapping[str, Any]]) -> Iterator[Mark]:
    for act in acts:
        said = act.get("text") or act.get("why") or act.get("reason") or ""
        words = f"{act.get('verb')} {act.get('kind')} by uid {act.get('uid')}: {said}"
        at, resource, ticket = (_text(act.get(key)) for key in ("at", "resource", "ticket"))
        severity: Literal["info", "warning"] = "info" if act.get("status") in (0, None) else "warning"
        yield Mark(at or snapshot.taken_at, "act", severity, resource, ticket, clean(words, LONG))


def _of_holds(before: Resource | None, after: Resource, since: str, at: str) -> Iterator[Mark]:
    """``before``: ``None`` where there was no such resource, or no state of it, at the look of ``since``."""
    known = {str(receipt.get("ticket")): receipt for receipt in before.receipts} if before else {}
    unread = before is None or before.state == "unknown"
    old, new = before.holder if before else None, after.holder
    ended = set()
    for receipt in after.receipts:
        ticket = str(receipt.get("ticket"))
        ended.add(ticket)
        if ticket in known:
            if known[ticket] != receipt:
                yield _settled(receipt, after.name, at)
        elif not unread or later(receipt, since):
            if old is None or old.id != ticket:
                yield _taken(ticket, receipt.get("lane"), after.name, at)
            yield _released(receipt, after.name, at)
    if old and after.state != "unknown" and (new is None or new.id != old.id) and old.id not in ended:
        yield Mark(at, "released", "warning", after.name, old.id, f"{_lane(old.lane)} is gone, and left no receipt")
    if new and (before is None or before.state != "unknown") and (old is None or old.id != new.id):
        yield _taken(new.id, new.lane, after.name, at)


def later(said: Mapping[str, object], since: str) -> bool:
    """Whether a receipt or an act is of after that instant."""
    ended, looked = parse(said.get("at")), parse(since)
    return ended is not None and looked is not None and ended > looked


def _taken(ticket: str, lane: object, resource: str, at: str) -> Mark:
    return Mark(at, "taken", "info", resource, clean(ticket, LONG), f"{_lane(lane)} holds {resource}")


def _released(receipt: Mapping[str, object], resource: str, at: str) -> Mark:
    """A payload that did not end by itself was ended: an abort, whoever asked for it."""
    verdict, reason = receipt.get("verdict"), receipt.get("reason")
    by_itself = reason == "exited"
    words = f"{_lane(receipt.get('lane'))} released {resource}: {verdict}"
    words += f", status {receipt.get('status')}" if by_itself else f", ended by {reason}"
    return Mark(
        at,
        "released" if by_itself else "aborted",
        "info" if verdict == "clean" and by_itself else "warning",
        resource,
        _text(receipt.get("ticket")),
        clean(words, LONG),
    )


def _settled(receipt: Mapping[str, object], resource: str, at: str) -> Mark:
    """What was still coming back at the release has come back, or will not."""
    verdict = receipt.get("verdict")
    words = f"{_lane(receipt.get('lane'))} has settled on {resource}: {verdict}"
    severity: Literal["info", "warning"] = "info" if verdict == "clean" else "warning"
    return Mark(at, "settled", severity, resource, _text(receipt.get("ticket")), clean(words, LONG))


def _lane(name: object) -> str:
    return clean(str(name or "no lane"), 80)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
