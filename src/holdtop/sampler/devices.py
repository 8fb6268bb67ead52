"""Devices and resets, put together from what was read of each and what was heard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from holdtop.model.raw import RESET_SHOWN, Reset
from holdtop.model.values import Device, Reading, Readings
from holdtop.sources.cards import Card


def first_known(answers: Iterable[Readings]) -> Readings:
    """Of readings with one name the first that has a value; where none has, the first one's reason."""
    merged: dict[str, Reading] = {}
    for answer in answers:
        for name, reading in answer.items():
            if name not in merged or (merged[name].value is None and reading.value is not None):
                merged[name] = reading
    return merged


def devices(read: Mapping[Card, Readings]) -> Iterator[Device]:
    """An NPU has its own readings, and what the APU's table says of it where it has none."""
    own = [readings for card, readings in read.items() if card.kind == "npu"]
    of_apus = [readings for card, readings in read.items() if card.kind == "apu"]
    npu = first_known((*own, *({name: of[name] for name in of if name.startswith("npu")} for of in of_apus)))
    for card, readings in read.items():
        if card.kind == "npu":
            yield Device(card.pci_address, card.kind, "npu", npu)
        else:
            yield Device(card.pci_address, card.kind, "gpu", readings)


def resets(heard: Mapping[str, Reset], cards: Iterable[Card], now: float) -> Iterator[Reset]:
    """What was heard, and the dumps that are seen of hangs that were not; a dump is kept for half as long."""
    standing = {
        address: one
        for address, one in heard.items()
        if not (one.passed and one.at is not None and now - one.at > RESET_SHOWN)
    }
    yield from standing.values()
    for card in cards:
        if card.dumped and card.pci_address not in standing:
            yield Reset(card.pci_address, "devcoredump")
