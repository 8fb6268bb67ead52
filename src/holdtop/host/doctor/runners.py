"""Runners: what ``holdtop runner verify`` finds of each one that is installed, by one look."""

from __future__ import annotations

from collections.abc import Iterator

from holdtop.host.doctor.findings import Case, Fact, Said, Unlooked
from holdtop.host.runner import lingering, verify, watched


def runners(case: Case) -> Iterator[Said]:
    """None is no fault: nothing says that this box should have one."""
    if case.snapshot.roots:
        yield Fact("not-asked", f"runners are not looked at: {case.snapshot.roots[0]}")
        return
    found = list(watched.installed())
    if not found:
        yield Fact("no-runner", "no CI runner of holdtop's is installed")
    for one in found:
        if one.said is None:
            yield Unlooked("runner", one.settings.unit, one.why)
            continue
        verdict = verify.at_once(one.settings, one.said)
        yield from verdict.findings
        if one.manager != "system" and (logout := lingering.finding(one.settings.user)):
            yield logout
        yield from (Unlooked("runner", f"all of {one.settings.unit}", why) for why in verdict.unlooked)
        yield from (Fact("runner", f"{one.settings.unit}: {remark}") for remark in verdict.remarks)
        if not verdict.findings:
            yield Fact("runner", f"{one.settings.unit} is what keeps it alive, as far as that could be seen")
