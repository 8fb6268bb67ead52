"""What is wrong, one small pure function for each kind. None of them stands on a healthy box.

A flag carries its evidence and the exact command that mends it, goes up within one look of its cause, and clears
by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from holdtop.model import clock, flags_setup, flags_state
from holdtop.model.memory import available_ram
from holdtop.model.raw import RESET_SHOWN
from holdtop.model.scene import Scene, amount, command, flag, named
from holdtop.model.values import SEVERITIES, Flag, Process

#: Much more than a driver keeps for itself, in bytes.
STRANDED_BYTES = 2 * 1024**3
#: How long a driver may take to free what a dead payload had, in seconds.
SETTLING = 8.0
_PASSED = {"none": "was reset and has recovered", "devcoredump": "hung, and its driver has left a dump"}


def survivor(scene: Scene) -> Iterator[Flag]:
    """A process that outlived its token."""
    for left in scene.survivors:
        stuck = "unkillable" in left.record.why or any(process.state == "D" for process in left.processes)
        yield flag(
            "survivor",
            "critical" if stuck else "warning",
            f"{_names(left.processes)} outlived the token of {left.record.lane} ({left.record.why or 'why unknown'});"
            f" device memory: {_memory(left.processes)}",
            command("kill --pid", left.seen.view, str(left.processes[0].pid)),
            left.seen.resource.name,
            left.record.ticket_id,
            _pids(left.processes),
        )


def unkillable(scene: Scene) -> Iterator[Flag]:
    """A survivor that KILL did not end, or that sleeps where no signal reaches it (state D)."""
    for left in scene.survivors:
        recorded = "unkillable" in left.record.why
        stuck = tuple(process for process in left.processes if recorded or process.state == "D")
        if stuck:
            yield flag(
                "unkillable",
                "critical",
                f"{_names(stuck)} does not end: {'KILL was sent' if recorded else 'no signal reaches it'},"
                f" state {', '.join(sorted({process.state for process in stuck}))}",
                f"what it waits for: cat /proc/{stuck[0].pid}/wchan /proc/{stuck[0].pid}/stack; else reboot",
                left.seen.resource.name,
                left.record.ticket_id,
                _pids(stuck),
            )


def strays(scene: Scene) -> Iterator[Flag]:
    """A user of the device outside every payload under the token."""
    for stray in scene.strays:
        view = next((seen.view for seen in scene.seen if seen.resource.name == stray.resource), None)
        yield flag(
            "stray",
            "warning",
            f"{named(stray.process)} uses {stray.said} of the {stray.resource.upper()} without holding it",
            command("kill --pid", view, str(stray.process.pid)),
            stray.resource,
            None,
            (stray.process.pid,),
        )


def unreadable(scene: Scene) -> Iterator[Flag]:
    """Memory without an owner, and processes that could not be looked into."""
    denied = scene.memory.unreadable_processes
    if denied != 0 and _unowned(scene):
        yield flag(
            "unreadable",
            "info",
            f"{amount(scene.memory.unattributed_bytes)} of device memory belong to no process that could be looked"
            f" into; {'how many' if denied is None else denied} could not{' is not known' if denied is None else ''}",
            "sudo holdtop status",
        )


def stranded_memory(scene: Scene) -> Iterator[Flag]:
    """Memory that nobody holds although everybody could be looked into: the driver has lost it. No kill helps.

    A driver frees late. A first look cannot tell how long it has been so, and says so; what it flags stays flagged.
    """
    rest, previous = scene.memory.unattributed_bytes or 0, scene.facts.previous
    unsaid = any("gpu" in held.resources and not held.whole for held in scene.facts.held.values())
    if rest < STRANDED_BYTES or scene.memory.unreadable_processes != 0 or unsaid or _settling(scene):
        return
    lasting = scene.facts.raw.at - (scene.memory.unowned_since or scene.facts.raw.at) >= SETTLING
    stood = previous is None or any(flag.kind == "stranded-memory" for flag in previous.flags)
    if _unowned(scene) and (lasting or stood):
        yield flag(
            "stranded-memory",
            "critical",
            f"{amount(rest)} of device memory are in use, and no process that could be seen holds them;"
            f" {'only a reboot frees them' if lasting else 'if they still are in 10 s, only a reboot frees them'}",
            "systemctl reboot",
        )


def _unowned(scene: Scene) -> bool:
    """It has no owner since before the scan of owners; what was allocated after that may have one."""
    since, uses = scene.memory.unowned_since, scene.facts.raw.uses
    return since is not None and uses is not None and (scene.facts.previous is None or since <= uses.at)


def _settling(scene: Scene) -> bool:
    ages = (clock.since((seen.resource.last_receipt or {}).get("at"), scene.facts.raw.taken_at) for seen in scene.seen)
    return any(age is not None and 0 <= age < SETTLING for age in ages)


def low_memory(scene: Scene) -> Iterator[Flag]:
    """Little is left of the box's memory; GTT is part of it, and no cgroup limits that."""
    available, whole = available_ram(scene.readings), scene.readings["mem_total_bytes"].value
    if available is not None and whole and available < whole * scene.facts.raw.limits.low_memory_part:
        yield flag(
            "low-memory",
            "warning",
            f"{amount(available)} of {amount(int(whole))} are available",
            "end or evict what needs it least: holdtop status --plain",
        )


def hot(scene: Scene) -> Iterator[Flag]:
    """Tctl at its limit."""
    celsius = scene.readings["tctl_celsius"].value
    if celsius is not None and celsius >= scene.facts.raw.limits.hot_celsius:
        yield flag("hot", "warning", f"Tctl is {celsius:.1f} C", "see to the fans, or end the payload: holdtop status")


def gpu_reset(scene: Scene) -> Iterator[Flag]:
    """A card hung: it was reset, or waits for it. Whatever ran on it may have lost its work or be stuck."""
    raw = scene.facts.raw
    cards = {device.pci_address for device in raw.devices}
    for reset in raw.resets:
        passed = _PASSED.get(reset.how)
        over = reset.passed and reset.at is not None and raw.at - reset.at > RESET_SHOWN
        if reset.pci_address in cards and not over:
            blamed = f"; the kernel blames pid {reset.pid} ({reset.task or 'unnamed'})" if reset.pid else ""
            yield flag(
                "gpu-reset",
                "warning",
                f"card {reset.pci_address} {passed or f'is wedged, and would be helped by {reset.how}'}{blamed}",
                "what happened: journalctl -k -g amdgpu" if passed else "end what uses it and do as named, else reboot",
                "gpu",
                None,
                (reset.pid,) if reset.pid else (),
            )


KINDS: tuple[Callable[[Scene], Iterator[Flag]], ...] = (
    survivor,
    unkillable,
    strays,
    unreadable,
    stranded_memory,
    low_memory,
    hot,
    gpu_reset,
    *flags_state.KINDS,
    *flags_setup.KINDS,
)


def judge(scene: Scene) -> tuple[Flag, ...]:
    """All that stands, worst first, each with the first look at which it stood."""
    before = {_key(old): old.since for old in scene.facts.previous.flags} if scene.facts.previous else {}
    now = scene.facts.raw.taken_at
    found = [replace(new, since=before.get(_key(new), now)) for kind in KINDS for new in kind(scene)]
    return tuple(
        sorted(
            found,
            key=lambda new: (SEVERITIES.index(new.severity), _rank(new), new.ticket or "", new.pids, new.about or ""),
        )
    )


def _rank(new: Flag) -> tuple[bool, str]:
    """What keeps memory or the queue from others first: a process that is there is worse than a name on a file."""
    return not new.pids, new.kind


def _key(one: Flag) -> tuple[object, ...]:
    return one.kind, one.resource, one.ticket, one.pids, one.about


def _names(processes: tuple[Process, ...]) -> str:
    return ", ".join(map(named, processes))


def _pids(processes: tuple[Process, ...]) -> tuple[int, ...]:
    return tuple(process.pid for process in processes)


def _memory(processes: tuple[Process, ...]) -> str:
    sizes = [(process.gtt_bytes, process.vram_bytes) for process in processes]
    if any(gtt is None and vram is None for gtt, vram in sizes):
        return amount(None)
    return amount(sum((gtt or 0) + (vram or 0) for gtt, vram in sizes))
