"""Which memory a card's programs get: on an APU one pool, the larger of GTT and carve-out, never their sum."""

from __future__ import annotations

from collections.abc import Iterable

from holdtop.model.values import Device, Reading, Readings


def pool_card(devices: Iterable[Device]) -> Device | None:
    """The card whose pool counts: an APU before a card of its own."""
    cards = [device for device in devices if device.resource == "gpu"]
    return min(cards, key=lambda card: (card.kind != "apu", card.pci_address), default=None)


def pool_name(readings: Readings, kind: str) -> str:
    """``gtt`` or ``vram``: what a program's memory comes from."""
    gtt, vram = value(readings, "gtt_total_bytes"), value(readings, "vram_total_bytes")
    if kind == "gpu":
        return "vram"
    return "vram" if vram is not None and (gtt is None or vram >= gtt) else "gtt"


def value(readings: Readings, name: str) -> int | None:
    found = readings.get(name, Reading()).value
    return None if found is None else int(found)
