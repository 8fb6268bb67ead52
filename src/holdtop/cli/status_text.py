"""A snapshot for people and for pipes: a table, or sentences of one fact a line. No escape sequence, no colour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdtop.model.clock import since
from holdtop.model.values import Flag, Payload, Process, Reading, Resource, Runner, Snapshot, Ticket
from holdtop.render import bytes_text, clean, counted, duration_text

_LABELS = {
    "gtt_used_bytes": "GTT used",
    "gtt_total_bytes": "GTT total",
    "vram_used_bytes": "VRAM used",
    "vram_total_bytes": "VRAM total",
    "gpu_busy_percent": "GPU busy",
    "gpu_power_watts": "GPU power",
    "tctl_celsius": "Tctl",
    "mem_available_bytes": "MemAvailable",
    "mem_total_bytes": "MemTotal",
    "memory_pressure_some_avg10_percent": "memory pressure",
    "npu_busy_percent": "NPU busy",
}
#: Shown where there is one: most boxes lack some of these.
_FURTHER = {
    "vis_vram_used_bytes": "visible VRAM used",
    "vis_vram_total_bytes": "visible VRAM total",
    "preempt_used_bytes": "preemptible",
    "gpu_clock_mhz": "GPU clock",
    "memory_clock_mhz": "memory clock",
    "gpu_celsius": "GPU temperature",
    "cpu_celsius": "hottest core",
    "npu_power_watts": "NPU power",
    "npu_celsius": "NPU temperature",
    "gpu_reclaimable_bytes": "GPU page pool",
    "ttm_limit_bytes": "TTM limit",
    "ttm_pool_limit_bytes": "TTM pool limit",
}
_UNITS = {"percent": " %", "watts": " W", "celsius": " C", "mhz": " MHz"}
_PARTS = ("payload", "survivor", "stray", "other", "shared", "unattributed")
#: A value older than this many seconds is shown with its age.
OLD = 3.0
#: Longest foreign text on a line, in characters.
LONG = 200


@dataclass(frozen=True, slots=True)
class Text:
    """``ascii_only``: the output takes nothing else."""

    ascii_only: bool = False

    def table(self, snapshot: Snapshot) -> Iterator[str]:
        """The default form."""
        yield self.clean(f"{snapshot.host}  {snapshot.taken_at}")
        for root in snapshot.roots:
            yield f"  not the live box: {self.clean(root)}"
        for resource in snapshot.resources:
            yield from self._resource_rows(resource, snapshot)
        yield f"device {self.clean(_device(snapshot))}"
        for label, value in self._readings(snapshot):
            yield f"  {label:<19}{value}"
        yield f"  {'memory':<19}{', '.join(self._memory(snapshot))}"
        yield f"containment from here: {', '.join(snapshot.containment)}"
        yield from (self.clean(f"runner {line}") for line in _runners(snapshot))
        yield "flags" if snapshot.flags else "flags: none"
        for flag in snapshot.flags:
            yield f"  {flag.severity.upper():<9}{self._flag(flag)}"
            yield f"  {'':<9}remedy: {self.clean(flag.remedy)}"

    def sentences(self, snapshot: Snapshot) -> Iterator[str]:
        """One fact a line, in an order that does not change."""
        yield self.clean(f"Box {snapshot.host} at {snapshot.taken_at}.")
        for root in snapshot.roots:
            yield f"Not the live box: {self.clean(root)}."
        for resource in snapshot.resources:
            yield from self._resource_sentences(resource, snapshot)
        yield f"Device: {self.clean(_device(snapshot))}."
        for label, value in self._readings(snapshot):
            yield f"{label}: {value}."
        yield f"Device memory: {', '.join(self._memory(snapshot))}."
        yield f"A hold from here has {', '.join(snapshot.containment)}."
        yield from (self.clean(f"Runner {line}.") for line in _runners(snapshot))
        for flag in snapshot.flags:
            yield f"Flag {flag.severity} {self._flag(flag)}. Remedy: {self.clean(flag.remedy)}"
        if not snapshot.flags:
            yield "No flags."

    def facts(self, snapshot: Snapshot) -> Iterator[str]:
        """What counts as a change to whoever watches: no clocks, no gauges."""
        for resource in snapshot.resources:
            where = f"{resource.name} {resource.state}"
            holder = resource.holder
            yield where + (f" by {self._who(holder)}, {holder.state}" if holder else "")
            for ticket in resource.waiting:
                yield f"{resource.name} waiting at {ticket.position}: {self._who(ticket)}"
            for problem in resource.problems:
                yield f"{resource.name}: {self.clean(problem)}"
        for flag in snapshot.flags:
            where = " ".join(filter(None, (flag.resource, flag.ticket, *map(str, flag.pids), flag.about)))
            yield f"flag {flag.severity} {flag.kind} {self.clean(where)}".rstrip()

    def clean(self, text: str) -> str:
        return clean(text, LONG * 2, ascii_only=self.ascii_only)

    def _resource_rows(self, resource: Resource, snapshot: Snapshot) -> Iterator[str]:
        head = f"{resource.name}: {resource.state.upper()}"
        holder = resource.holder
        yield head + (f"  {self._holder(holder, snapshot)}" if holder else "")
        if holder is not None:
            yield f"  command {self._command(holder.command)}"
            for process in holder.payload.processes if holder.payload else ():
                yield f"    {self._process(process)}"
        for ticket in resource.waiting:
            yield f"  {ticket.position:>3}. {self._who(ticket)}, waiting {_wait(ticket, snapshot)}"
        yield from (f"  {line}" for line in self._remarks(resource))

    def _resource_sentences(self, resource: Resource, snapshot: Snapshot) -> Iterator[str]:
        holder, name = resource.holder, resource.name
        yield f"{name} is {resource.state}" + (f": {self._holder(holder, snapshot)}." if holder else ".")
        if holder is not None:
            yield f"{name} command: {self._command(holder.command)}"
            for process in holder.payload.processes if holder.payload else ():
                yield f"{name} process: {self._process(process)}."
        for ticket in resource.waiting:
            yield f"{name} waiting at {ticket.position}: {self._who(ticket)}, for {_wait(ticket, snapshot)}."
        yield from (f"{name} {line}." for line in self._remarks(resource))

    def _remarks(self, resource: Resource) -> Iterator[str]:
        if resource.token_path:
            yield self.clean(f"queue {resource.queue_path}, token {resource.token_path} (by {resource.rule})")
        for entry in resource.foreign:
            pid = "" if entry.pid is None else f", pid {entry.pid}"
            yield self.clean(f"foreign entry {entry.name}{pid}: {entry.why}")
        for bad in resource.not_tickets:
            yield self.clean(f"no ticket {bad.name}: {bad.why}")
        if resource.last_receipt is not None:
            said = (str(resource.last_receipt.get(key)) for key in ("at", "lane", "reason", "verdict"))
            yield self.clean("last release " + ", ".join(said))
        for problem in resource.problems:
            yield self.clean(f"problem: {problem}")

    def _who(self, ticket: Ticket) -> str:
        user = ticket.user or (f"uid {ticket.uid}" if ticket.uid is not None else "unknown user")
        return self.clean(f"{ticket.lane or 'no lane'}, ticket {ticket.id}, pid {ticket.pid}, {user}")

    def _holder(self, holder: Ticket, snapshot: Snapshot) -> str:
        parts = [self._who(holder), holder.state, f"for {duration_text(holder.held_seconds)}"]
        if holder.deadline_at is not None:
            over = since(holder.deadline_at, snapshot.taken_at)
            left = None if over is None else -over
            parts.append(f"deadline in {duration_text(left)}" if left is None or left >= 0 else "past its deadline")
        if holder.being_ended_by is not None:
            parts.append(f"being ended by {self.clean(holder.being_ended_by)}")
        if holder.payload is not None:
            parts.append(_payload(holder.payload))
        if holder.containment:
            parts.append(f"kept together by {self.clean(', '.join(holder.containment))}")
        return ", ".join(parts)

    def _process(self, process: Process) -> str:
        user = process.user or (f"uid {process.uid}" if process.uid is not None else "unknown user")
        gtt = bytes_text(process.gtt_bytes, "unknown" if process.readable else "unknown (closed to this account)")
        cpu = "" if process.cpu_percent is None else f", CPU {process.cpu_percent:.0f} %"
        source = ", as its hold says" if process.memory_source == "record" else ""
        return self.clean(
            f"pid {process.pid}, parent {process.ppid}, {process.name}, state {process.state}, {user}{cpu}, "
            f"RSS {bytes_text(process.rss_bytes)}, GTT {gtt}{source}, by {process.found_by}"
        )

    def _command(self, words: tuple[str, ...]) -> str:
        return self.clean(" ".join(words)) or "unknown"

    def _readings(self, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
        for name, reading in snapshot.readings.items():
            if name in _LABELS or reading.value:
                yield {**_LABELS, **_FURTHER}[name], self._reading(name, reading, snapshot.at)

    def _reading(self, name: str, reading: Reading, at: float) -> str:
        if reading.value is None:
            return f"unknown: {self.clean(reading.why or 'no reason known')}"
        age = 0.0 if reading.at is None else at - reading.at
        return amount(name, reading.value) + (f" ({duration_text(age)} old)" if age > OLD else "")

    def _memory(self, snapshot: Snapshot) -> Iterator[str]:
        memory = snapshot.memory
        for part in _PARTS:
            size = getattr(memory, f"{part}_bytes")
            if size or part in ("payload", "unattributed"):
                yield f"{part} {bytes_text(size)}"
        yield f"headroom {bytes_text(memory.headroom_bytes)}"
        if memory.unreadable_processes != 0:
            number = memory.unreadable_processes
            yield f"closed to this account: {'not known how many' if number is None else number}"

    def _flag(self, flag: Flag) -> str:
        where = " ".join(filter(None, (flag.resource, flag.ticket)))
        return self.clean(f"{flag.kind}{f' ({where})' if where else ''}: {flag.text}")


def amount(name: str, value: float) -> str:
    """A value in the unit that its name ends with."""
    unit = name.rpartition("_")[2]
    return bytes_text(value) if unit == "bytes" else f"{value:.4g}{_UNITS[unit]}"


def _device(snapshot: Snapshot) -> str:
    pool = snapshot.card.pool if snapshot.card else None
    return (snapshot.device or "none") + (f", programs get {pool.upper()}" if pool else "")


def _runners(snapshot: Snapshot) -> Iterator[str]:
    """Nothing where it is known that there is none."""
    for runner in snapshot.runners:
        yield f"{runner.unit}: {_runner(runner)}"
    if snapshot.runners_why is not None:
        yield f"unknown: {snapshot.runners_why}"


def _runner(runner: Runner) -> str:
    if runner.why is not None:
        return f"unknown: {runner.why}"
    if runner.guarded is None:
        return "; ".join(runner.problems)
    since = f" since {runner.since}" if runner.since else ""
    limits = (("MemoryHigh", runner.memory_high_bytes), ("MemoryMax", runner.memory_max_bytes))
    said = ", ".join(f"{name} {bytes_text(size, 'not set')}" for name, size in limits)
    restarts = counted(runner.restarts or 0, "restart", "restarts")
    guarded = "guarded" if runner.guarded else "not guarded"
    return f"{runner.active_state} ({runner.sub_state}){since}, {restarts}, {guarded}, {said}"


def _payload(payload: Payload) -> str:
    source = ", as the hold says" if payload.source == "record" else ""
    gtt, rss = bytes_text(payload.gtt_bytes), bytes_text(payload.rss_bytes)
    return f"{counted(payload.process_count, 'process', 'processes')}, GTT {gtt}, RSS {rss}{source}"


def _wait(ticket: Ticket, snapshot: Snapshot) -> str:
    """How long so far, and as far as the past tells, until when and whether what it needs will be there."""
    said = [duration_text(ticket.waited_seconds)]
    if expected := ticket.expected_start:
        low, high = (-(since(one, snapshot.taken_at) or 0) for one in (expected.low, expected.high))
        said.append(f"expected in {duration_text(low)} to {duration_text(high)}")
    if fit := ticket.will_it_fit:
        answer = {True: "fits", False: "does not fit", None: "may or may not fit"}[fit.fits]
        said.append(f"had {bytes_text(fit.need_bytes)} at most so far, which {answer}")
    return ", ".join(said)
