"""Runners: what ``holdtop runner verify`` finds of each that is installed, by one look; and the vendor's own units."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from holdtop import config
from holdtop.errors import HoldtopError
from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Unlooked
from holdtop.host.runner import directives, lingering, verify, watched
from holdtop.host.runner.watched import Found
from holdtop.host.values import Online

_DIES = "its first quick end or killed job may be its last, and jobs queue behind it that nobody hears of"


def runners(case: Case) -> Iterator[Said]:
    """None is no fault: nothing says that this box should have one."""
    if case.snapshot.roots:
        yield Fact("not-asked", f"runners are not looked at: {case.snapshot.roots[0]}")
        return
    found = list(watched.installed())
    if not found:
        yield Fact("no-runner", "no CI runner of holdtop's is installed")
    registered = _at_forges([one.settings.name for one in found])
    for one in found:
        yield from _ours(one, registered.get(one.settings.name, Online()))
    if names := watched.vendors():
        yield from _vendors(names)


def _at_forges(names: list[str]) -> Mapping[str, Online]:
    """For no longer than a moment: a forge that hangs takes nothing else with it."""
    if not (forges := config.load().forges):
        return {}
    from holdtop.host.runner.forge import Forges  # TLS, for boxes with a token alone

    return Forges(forges).newest(names)


def _ours(one: Found, online: Online) -> Iterator[Said]:
    if one.said is None:
        yield Unlooked("runner", one.settings.unit, one.why)
        return
    verdict = verify.at_once(one.settings, one.said, online)
    yield from verdict.findings
    if one.manager != "system" and (logout := lingering.finding(one.settings.user)):
        yield logout
    yield from (Unlooked("runner", f"all of {one.settings.unit}", why) for why in verdict.unlooked)
    yield from (Fact("runner", f"{one.settings.unit}: {remark}") for remark in verdict.remarks)
    if not verdict.findings:
        yield Fact("runner", f"{one.settings.unit} is what keeps it alive, as far as that could be seen")


def _vendors(names: list[str]) -> Iterator[Said]:
    """Those in use, judged by the same policies. One that was put aside is no matter."""
    from holdtop.host.runner.bus import Manager  # 80 ms, for boxes with a runner alone

    try:
        with Manager(system=True, patience=watched.PATIENCE) as manager:
            for name in names:
                said = manager.properties(name)
                wrong = [what for _, what, _ in directives.policies(said)] if said["LoadState"] == "loaded" else []
                if wrong and (said["UnitFileState"] == "enabled" or said["ActiveState"] == "active"):
                    remedy = (
                        f"sudo systemctl disable --now {shlex.quote(name)}; sudo holdtop runner install --name NAME …"
                    )
                    yield Finding("vendor-runner", f"{name}: {', '.join(wrong)}", _DIES, remedy, name)
    except HoldtopError as error:
        yield Unlooked("runner", ", ".join(names), str(error))
