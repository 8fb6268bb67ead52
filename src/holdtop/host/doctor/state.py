"""The state: whether every account finds one queue, as ``holdtop state check`` sees it."""

from __future__ import annotations

from collections.abc import Iterator

from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.host.check import in_short
from holdtop.host.doctor.findings import Case, Fact, Said


def state(case: Case) -> Iterator[Said]:
    """Of the shared directory; one that was named on the command line is meant to be apart."""
    if not case.roots.live:
        yield Fact("not-asked", "the accounts' state is not looked at: the processes are a recording's")
    elif case.state_dir is not None:
        yield Fact("not-asked", f"{case.state_dir} was named: holdtop state check --state-dir says more")
    else:
        yield from in_short(DEFAULT_STATE_DIR)
