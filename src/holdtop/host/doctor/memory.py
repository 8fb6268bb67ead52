"""Device memory: which pool counts, what the kernel allows of it, what nobody holds, and who may be looked into."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Unlooked
from holdtop.model.memory import value
from holdtop.model.values import Device, Memory
from holdtop.render import bytes_text, counted
from holdtop.sources import machine
from holdtop.sources.processes import hides_others

_PAGE = 4096
#: The kernel's default limit and the driver's default total differ by less.
_SAME = 0.02
#: Of MemTotal: what a limit on GTT should leave to everybody else.
_LEFT = 1 / 16
_LOST = "no job can have it until the driver is bound anew, which a reboot does"


def memory(case: Case) -> Iterator[Said]:
    card = case.snapshot.card
    if card is None:
        return
    yield _pool(card)
    yield from _limits(case, card)
    for flag in case.snapshot.flags:
        if flag.kind == "stranded-memory":
            yield Finding(flag.kind, flag.text, _LOST, flag.remedy)
    yield from _closed(case)


def _pool(card: Device) -> Said:
    """Which pool programs get: never the sum of both."""
    if card.pool is None:
        return Unlooked("pool", "which pool programs get", card.pool_why or "")
    gtt, vram = (value(card.readings, f"{pool}_total_bytes") for pool in ("gtt", "vram"))
    why = "the card has memory of its own" if card.kind == "gpu" else f"GTT {bytes_text(gtt)}, VRAM {bytes_text(vram)}"
    return Fact("pool", f"programs get {card.pool.upper()} ({why})")


def _limits(case: Case, card: Device) -> Iterator[Said]:
    """What the kernel lets GTT have, against what the driver promises and the machine has."""
    readings = case.snapshot.readings
    gtt, limit, ram = (value(readings, name) for name in ("gtt_total_bytes", "ttm_limit_bytes", "mem_total_bytes"))
    if limit is not None:
        pooled = bytes_text(value(readings, "ttm_pool_limit_bytes"))
        yield Fact("ttm", f"the kernel lets the GPU have {bytes_text(limit)} of RAM, and keep {pooled} of it pooled")
    if card.pool != "gtt" or gtt is None:
        return
    deprecated = next((word for word in machine.command_line(case.roots.proc) if "amdgpu.gttsize=" in word), None)
    if deprecated is not None:
        what = f"{deprecated} sets GTT's size, which the driver calls deprecated"
        yield Finding("gttsize", what, "a later driver ignores it: GTT falls back to half of RAM", _boot_with(gtt))
    if limit is not None and limit < gtt * (1 - _SAME):
        what = f"GTT has {bytes_text(gtt)}, and the kernel (ttm.pages_limit) lets it have {bytes_text(limit)}"
        yield Finding("ttm-limit", what, "allocations fail that should fit", _boot_with(gtt))
    if ram is not None and gtt > ram:
        what = f"GTT has {bytes_text(gtt)}, {bytes_text(gtt - ram)} more than the machine (MemTotal)"
        why = "a program that believes the total takes all RAM, and the kernel kills others for it"
        yield Finding("gtt-beyond-ram", what, why, _boot_with(int(ram * (1 - _LEFT))))


def _boot_with(size: int) -> str:
    return f"boot with ttm.pages_limit={size // _PAGE} and without amdgpu.gttsize"


def _closed(case: Case) -> Iterator[Said]:
    """Fdinfo is open to its own account and to root."""
    if case.roots.live and hides_others():
        what = "/proc is mounted with hidepid: processes of other accounts do not show themselves"
        why = "memory that they hold looks like nobody's"
        yield Finding("hidepid", what, why, "sudo holdtop doctor; or mount /proc with hidepid=0")
    memory = case.snapshot.memory
    if memory.unreadable_processes is None:
        why = f"{memory.unavailable['unreadable_processes']}; {_unattributed(memory)}"
        yield Unlooked("fdinfo", "the descriptors (fdinfo) of processes", why)
    elif memory.unreadable_processes:
        number = counted(memory.unreadable_processes, "process", "processes")
        why = (
            "they are closed even to root"
            if os.geteuid() == 0
            else "they are closed to this account: sudo holdtop doctor"
        )
        yield Unlooked("closed", f"the descriptors (fdinfo) of {number}", f"{why}; {_unattributed(memory)}")
    elif memory.shared_bytes is None:
        yield Unlooked("fdinfo", "the descriptors (fdinfo) of processes", "there is no process table to look through")
    else:
        yield Fact("fdinfo", f"the descriptors (fdinfo) of every process can be read; {_unattributed(memory)}")


def _unattributed(memory: Memory) -> str:
    if memory.unattributed_bytes is None:
        return "how much device memory is nobody's cannot be said"
    return f"{bytes_text(memory.unattributed_bytes)} of device memory belong to nobody seen"
