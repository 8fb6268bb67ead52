"""Findings, facts and what could not be looked at, as text or as lists for programs; findings make the status."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from holdtop.cli.looking import ascii_only
from holdtop.host.said import Fact, Finding, Said, Unlooked
from holdtop.render import clean, counted

#: Longest text on a line, in characters.
LONG = 500
SCHEMA = 1
_LISTS: Mapping[type[Said], str] = {Finding: "findings", Fact: "facts", Unlooked: "could_not_look"}

#: By section.
Examined = Mapping[str, tuple[Said, ...]]


def report(examined: Examined, about: Mapping[str, object] | None, heads: tuple[str, ...] = ()) -> int:
    """Print it and give the status: 1 when there is a finding. ``about``: what goes before the lists, as JSON."""
    if about is not None:
        print(json.dumps({"schema": SCHEMA, **about, **_lists(examined)}), flush=True)
    else:
        only = ascii_only()
        lines = (*heads, *_lines(examined))
        print("\n".join(clean(line, LONG, ascii_only=only) for line in lines), flush=True)
    found = sum(isinstance(one, Finding) for said in examined.values() for one in said)
    unlooked = sum(isinstance(one, Unlooked) for said in examined.values() for one in said)
    remark = f", {counted(unlooked, 'thing', 'things')} could not be looked at" if unlooked else ""
    print(f"{counted(found, 'finding', 'findings') if found else 'nothing found'}{remark}", file=sys.stderr)
    return 1 if found else 0


def _lists(examined: Examined) -> dict[str, list[dict[str, str]]]:
    lists: dict[str, list[dict[str, str]]] = {name: [] for name in _LISTS.values()}
    for section, said in examined.items():
        for one in said:
            lists[_LISTS[type(one)]].append({"section": section, **asdict(one)})
    return lists


def _lines(examined: Examined) -> Iterator[str]:
    """Facts last within each section."""
    for section, said in examined.items():
        yield section
        for one in sorted(said, key=lambda one: isinstance(one, Fact)):
            yield from _of(one)


def _of(one: Said) -> Iterator[str]:
    match one:
        case Finding():
            named = f"{one.about}: " if one.about and one.about not in one.what else ""
            yield f"  FINDING {one.kind}: {named}{one.what}"
            yield f"    why:    {one.why}"
            yield f"    remedy: {one.remedy}"
        case Unlooked():
            yield f"  could not look: {one.what}: {one.why}"
        case Fact():
            yield f"  {one.what}"
