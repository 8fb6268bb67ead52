"""The model of the protocol holds, and each line of it is needed."""

from __future__ import annotations

import shutil

import pytest
from bench.model import COMPANIES, MUTATIONS, verdict


@pytest.fixture(autouse=True)
def spin() -> None:
    if shutil.which("spin") is None or shutil.which("cc") is None:
        pytest.skip("needs spin: and a C compiler")


LONG = (pytest.mark.long, pytest.mark.timeout(1800))
SEARCHES = [
    pytest.param(name, lanes, marks=() if lanes == 2 and name != "tidied" else LONG)
    for name, company in COMPANIES.items()
    for lanes in company.lanes
]


@pytest.mark.parametrize(("name", "lanes"), SEARCHES)
def test_the_protocol_keeps_its_promises(name: str, lanes: int) -> None:
    assert verdict(COMPANIES[name], lanes).broken is None


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_broken_line_is_caught(name: str) -> None:
    mutation = MUTATIONS[name]
    assert verdict(COMPANIES[mutation.company], 2, name).broken == mutation.breaks
