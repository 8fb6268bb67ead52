"""All that is on record of one operator's act: intent, outcome, each process's fate, the hold's receipt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdtop.console.view.acts import Deed, judged
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.plan import fate_role
from holdtop.console.view.receipts import summed_up
from holdtop.console.view.severity import verdict_role
from holdtop.console.view.text import Line, Span, line, title, wrapped
from holdtop.console.view.when import coarse, seconds_until
from holdtop.render import bytes_text, objects, whole

_NAMES = 13
#: Processes of one act that are listed.
MOST = 1000
Said = Mapping[str, Any]


def deed_lines(deed: Deed, receipt: Mapping[str, object] | None, now: str, width: int, glyphs: Glyphs) -> list[Line]:
    """``receipt``: of the hold that was acted on, if one is known."""
    sign, role, word = judged(deed, glyphs)
    lines = [line(), line(Span(f" {sign:<2} {word.rstrip(':')}", role, True))]
    lines += _fields(_meant(deed, now), width, glyphs)
    lines += [line(), title("What became of it", "", width, glyphs)]
    lines += _fields(_ended(deed, now), width, glyphs) or [line(Span("   No outcome is on record yet.", "warning"))]
    if processes := list(_processes(deed, glyphs)):
        lines += [line(), title("Processes", f"{len(processes)} named", width, glyphs), *processes[:MOST]]
    lines += [line(), title("Receipt of the hold", "", width, glyphs)]
    if receipt is None:
        lines.append(line(Span("   None is known: it has not ended yet, was no hold, or ended long ago.", "muted")))
    else:
        lines += wrapped(summed_up(receipt), width, glyphs, verdict_role(receipt.get("verdict")))
    lines += [line(), title("On record", "holdtop audit shows all of it", width, glyphs)]
    return [*lines, *(part for record in (deed.meant, deed.ended) if record for part in _record(record, width, glyphs))]


def _fields(fields: Iterator[tuple[str, str]], width: int, glyphs: Glyphs) -> list[Line]:
    lines = []
    for name, words in fields:
        first, *rest = wrapped(words, width, glyphs, indent=_NAMES)
        lines += [line(Span(f" {name:<{_NAMES - 1}}", "muted"), Span(first.spans[0].text[_NAMES:])), *rest]
    return lines


def _meant(deed: Deed, now: str) -> Iterator[tuple[str, str]]:
    meant = deed.meant
    yield "when", _when(meant, now)
    login = meant.get("login_uid")
    by_login = f", logged in as uid {login}" if isinstance(login, int) and login != meant.get("uid") else ""
    yield "who", f"{deed.user} (uid {_said(meant, 'uid')}){by_login}"
    about = filter(None, (_said(meant, "resource"), _said(meant, "lane"), _said(meant, "ticket")))
    yield "what", f"{_said(meant, 'verb')} {' '.join(about) or _said(meant, 'asked')}"
    yield "why", _said(meant, "reason") or "no reason is on record"
    if how := _said(meant, "how"):
        yield "how", how
    if (back := whole(meant.get("expected_bytes"))) is not None:
        yield "expected", f"{bytes_text(back)} of device memory"


def _ended(deed: Deed, now: str) -> Iterator[tuple[str, str]]:
    if (ended := deed.ended) is None:
        return
    yield "when", _when(ended, now)
    yield "status", _said(ended, "status")
    yield "result", _said(ended, "text") or _said(ended, "why") or "nothing is said"
    if ended.get("kind") == "outcome":
        back = whole(ended.get("returned_bytes"))
        yield "memory", "how much came back is not known" if back is None else f"{bytes_text(back)} came back"


def _when(record: Said, now: str) -> str:
    ago = seconds_until(now, _said(record, "at"))
    return f"{_said(record, 'at')}{f', {coarse(ago)} ago' if ago is not None else ''}"


def _processes(deed: Deed, glyphs: Glyphs) -> Iterator[Line]:
    """Each that was meant, or of which something was said: who it was, and its fate."""
    fates = {one.get("pid"): one for one in _list(deed.ended or {}, "fates")}
    meant = {one.get("pid"): one for one in (*_list(deed.meant, "targets"), *_list(deed.meant, "weak"))}
    for pid in dict.fromkeys((*meant, *fates)):
        who, fate = meant.get(pid, {}), fates.get(pid, {})
        word = _said(fate, "fate") or "not on record"
        found = glyphs.column(_said(who, "found_by"), 8)
        yield line(
            Span(f" {glyphs.column(str(pid), 9, right=True)} "),
            Span(glyphs.column(_said(who, "name") or glyphs.dash, 15) + " ", "text", True),
            Span(f"uid {glyphs.column(_said(who, 'uid') or '?', 6)} {found}", "muted"),
            Span(f" {glyphs.column(word, 13)} ", fate_role(word), True),
            Span(glyphs.clean(_said(fate, "text"), 400), "muted"),
        )


def _record(record: Said, width: int, glyphs: Glyphs) -> list[Line]:
    words = f"{_said(record, 'kind')} #{_said(record, 'seq')} hash {_said(record, 'hash')}"
    return wrapped(f"{words}, boot {_said(record, 'boot')}", width, glyphs, "muted")


def _list(record: Said, key: str) -> list[Said]:
    return [one for one in objects(record.get(key)) if isinstance(one.get("pid"), int | None)]


def _said(record: Said, key: str) -> str:
    """A field as it would be read out; empty where there is none."""
    value = record.get(key)
    return value if isinstance(value, str) else "" if value is None else str(value)[:400]
