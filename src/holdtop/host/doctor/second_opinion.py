"""AMD's library beside the kernel's files, which holdtop goes by. Without the library nothing is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from holdtop.host import amdsmi
from holdtop.host.amdsmi import Opinion
from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Unlooked
from holdtop.model.values import Reading, Readings
from holdtop.render import bytes_text
from holdtop.sources import cards, gpu
from holdtop.sources.cards import Card

#: Both read the same counter of the driver, a moment apart: so much may come or go in it, in bytes.
SLACK_USED = 64 * 1024**2
#: A total does not move; whole MiB may have been made of it.
SLACK_TOTAL = 1024**2
_WHY = (
    "ROCm's own tools and whoever asks the library see another device than the kernel shows; holdtop goes by the kernel"
)
_REMEDY = (
    "install the amdsmi of the installed ROCm's release: pip install amdsmi==RELEASE (cat /opt/rocm/.info/version)"
)


def second_opinion(case: Case) -> Iterator[Said]:
    found = [card for card in cards.find(case.roots.sys) if card.kind != "npu"]
    asleep = next((card for card in found if gpu.asleep(card)), None)
    if not found:
        yield Fact("not-asked", "amdsmi is not asked: there is no AMD card to speak of")
    elif case.recorded:
        yield Fact("not-asked", "amdsmi is not asked: it knows this machine, and the devices are a recording's")
    elif asleep is not None:
        yield Unlooked("amdsmi", "what amdsmi says", f"it would wake {asleep.pci_address}, which is suspended")
    else:
        yield from _asked(found)


def _asked(found: list[Card]) -> Iterator[Said]:
    before = {card.pci_address: gpu.memory(card) for card in found}
    answer = amdsmi.ask()
    after = {card.pci_address: gpu.memory(card) for card in found}
    if answer.absent:
        yield Fact("no-amdsmi", f"no second opinion: {answer.why}; none is needed")
    elif answer.why is not None:
        yield Unlooked("amdsmi", "what amdsmi says", answer.why)
    else:
        yield from compare(before, after, answer.opinions)


def compare(
    before: Mapping[str, Readings], after: Mapping[str, Readings], opinions: tuple[Opinion, ...]
) -> Iterator[Said]:
    """The library's figures against the counters just before and just after it was asked, by PCI address."""
    said = {opinion.pci_address: opinion for opinion in opinions}
    for address in sorted(before.keys() - said.keys()):
        yield Finding("opinions-differ", f"the kernel shows {address}, amdsmi does not", _WHY, _REMEDY)
    for address in sorted(said.keys() - before.keys()):
        yield Finding("opinions-differ", f"amdsmi shows {address}, the kernel does not", _WHY, _REMEDY)
    for address in sorted(said.keys() & before.keys()):
        yield from _of_device(said[address], before[address], after[address])


def _of_device(opinion: Opinion, before: Readings, after: Readings) -> Iterator[Said]:
    name, driver = opinion.market_name or "without a name", opinion.driver_version or "unknown"
    yield Fact("amdsmi", f"amdsmi: {opinion.pci_address} is {name}, driver {driver}")
    agreed, silent = [], []
    for key, reading in opinion.memory.items():
        lows = [one.value for one in (before.get(key, Reading()), after.get(key, Reading())) if one.value is not None]
        label = key.removesuffix("_bytes").replace("_", " ")
        if reading.value is None:
            silent.append(f"{label} ({reading.why})")
        elif not lows:
            silent.append(f"{label} (the kernel does not say it)")
        elif _agree(key, min(lows), max(lows), reading.value):
            agreed.append(label)
        else:
            what = f"{opinion.pci_address}: {label} is {bytes_text(lows[-1])} by the kernel"
            what += f" and {bytes_text(reading.value)} by amdsmi"
            yield Finding(
                "opinions-differ", what, _WHY, f"{_REMEDY}; to compare: cat {shlex.quote(after[key].source or '')}"
            )
    if agreed:
        yield Fact("opinions-agree", f"{opinion.pci_address}: both say the same of {', '.join(agreed)}")
    if silent:
        yield Unlooked("amdsmi", f"amdsmi about {opinion.pci_address}", f"no {', no '.join(silent)}")


def _agree(key: str, low: float, high: float, said: float) -> bool:
    slack = SLACK_USED if "_used_" in key else SLACK_TOTAL
    return low - slack <= said <= high + slack
