"""Queues beside the shared one: two that live exclude nobody from each other."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterator

from holdtop.host.homes import OldState, old_states
from holdtop.host.said import Fact, Finding, Said, Unlooked

_SPLIT = "their lanes do not exclude each other"


def queues(state_dir: str) -> Iterator[Said]:
    """What lies in the homes, and whether it lives."""
    shared = os.path.isdir(state_dir)
    alive = defaultdict[str, list[OldState]](list)
    for old in old_states():
        name, home = old.places.resource, shlex.quote(old.account.home)
        if old.view.problems:
            yield Unlooked("closed", f"{name} in {old.account.home}", old.view.problems[0])
        elif old.living:
            alive[name].append(old)
        elif shared:
            mend = f"sudo holdtop state migrate --from {home}"
            yield Fact(
                "old-state", f"{old.places.queue_path}: {old.account.name}'s, of before; nothing there lives ({mend})"
            )
    for name, olds in alive.items():
        if len(olds) + shared > 1:
            said = "; ".join(old.living[0] for old in olds)
            what = f"two queues of {name} are alive: {said}" + (f", beside {state_dir}" if shared else "")
            remedy = "start no lane there, wait until it is empty, then: sudo holdtop state migrate --from "
            yield Finding(
                "two-queues", what, _SPLIT, remedy + shlex.quote(olds[0].account.home), olds[0].places.queue_path
            )
