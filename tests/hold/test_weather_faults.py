"""Any call of a hold may fail, once or from then on: it ran whole, or it did not run and says why; nothing is left.

The sweep takes the calls in their order, whatever the code is; a sample of them here, all of them in the long tier.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hold.faults import STATUS, Faults, faults
from tests.hold.lanes import Box

SEED = int(os.environ.get("LONG_SEED", "20261202"))
#: Errors of a disk, which may last, and wants of a process or of the box, which pass.
LASTING = ["ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EIO", "ESTALE", "ENOLCK", "ENOSYS"]
PASSING = [*LASTING, "EMFILE", "ENFILE", "ENOMEM", "EAGAIN"]
ROLES = ("supervisor", "keeper", "root")
#: Calls of each role and error that every run of the tests tries.
SAMPLE = 2


@pytest.fixture
def sweep(state: Box, tmp_path: Path) -> Iterator[Faults]:
    with faults(state, tmp_path) as made:
        yield made


def positions(sweep: Faults, name: str, lasting: bool, sample: int | None) -> None:
    """``sample`` of the calls of each role, or all of them."""
    number = getattr(errno, name)
    whole = sweep.try_one(number, role="nobody", at=0)
    assert whole.status == STATUS, whole.said
    dice = random.Random(f"{SEED} {name} {lasting}")
    for role in ROLES:
        total = whole.calls[role]
        tried = range(1, total + 1) if sample is None else sorted(dice.sample(range(1, total + 1), min(sample, total)))
        for at in tried:
            sweep.try_one(number, role=role, at=at, lasting=lasting)
    assert sweep.met, "no call of a hold can fail so"
    sweep.next_in_line(f"all of {name}")


@pytest.mark.parametrize("name", PASSING)
def test_a_call_that_fails_leaves_nothing(sweep: Faults, name: str) -> None:
    for lasting in {False, name in LASTING}:
        positions(sweep, name, lasting, SAMPLE)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PASSING)
def test_every_call_that_fails_leaves_nothing(sweep: Faults, name: str) -> None:
    for lasting in {False, name in LASTING}:
        positions(sweep, name, lasting, None)
    print(f"{name}: {len(sweep.met)} calls failed")


def test_few_descriptors(sweep: Faults) -> None:
    ran = 0
    for limit in range(12, 40, 3):
        life = sweep.live(limits={"RLIMIT_NOFILE": limit})
        sweep.judge(life, errno.EMFILE, f"ulimit -n {limit}\n{life.said}")
        ran += life.status == STATUS
    assert 0 < ran < 10


def test_nothing_starts_of_which_nobody_could_be_told(sweep: Faults) -> None:
    """Were such a hold killed, its payload would be found by nobody."""
    life = sweep.try_one(errno.ENOSPC, role="keeper", at=1, lasting=True)
    assert "/.record" in life.hit
    assert life.status == 125
    assert "the command was not run" in life.said
    sweep.next_in_line(life.hit)
