"""A snapshot for people and for pipes: a table, or sentences of one fact a line. No escape sequence, no colour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdtop.cli.status_devices import account, device_rows
from holdtop.model.clock import since
from holdtop.model.values import Flag, Payload, Pool, Process, Resource, Runner, Snapshot, Ticket
from holdtop.render import bytes_text, clean, counted, duration_text

#: What a hold says is shown with its age when it is older than this many seconds: it is renewed every five.
OLD_WORD = 15.0
#: Longest foreign text on a line, in characters.
LONG = 200


@dataclass(frozen=True, slots=True)
class Text:
    """``ascii_only``: the output takes nothing else."""

    ascii_only: bool = False

    # Each line is cleaned once more as a whole: of a recording, every text is foreign.
    def table(self, snapshot: Snapshot) -> Iterator[str]:
        """The default form."""
        return (self.clean(line, None) for line in self._table(snapshot))

    def sentences(self, snapshot: Snapshot) -> Iterator[str]:
        """One fact a line, in an order that does not change."""
        return (self.clean(line, None) for line in self._sentences(snapshot))

    def facts(self, snapshot: Snapshot) -> Iterator[str]:
        """What counts as a change to whoever watches: no clocks, no gauges."""
        return (self.clean(line, None) for line in self._facts(snapshot))

    def _table(self, snapshot: Snapshot) -> Iterator[str]:
        yield self.clean(f"{snapshot.host}  {snapshot.taken_at}")
        for root in snapshot.roots:
            yield f"  not the live box: {self.clean(root)}"
        for resource in snapshot.resources:
            yield from self._resource_rows(resource, snapshot)
        for name, rows in device_rows(snapshot):
            yield self.clean(f"device {name}")
            yield from (f"  {label:<19}{self.clean(value)}" for label, value in rows)
        yield f"containment from here: {', '.join(snapshot.containment)}"
        yield from (self.clean(f"runner {line}") for line in _runners(snapshot))
        yield "flags" if snapshot.flags else "flags: none"
        for flag in snapshot.flags:
            yield f"  {flag.severity.upper():<9}{self._flag(flag)}"
            yield f"  {'':<9}remedy: {self.clean(flag.remedy)}"

    def _sentences(self, snapshot: Snapshot) -> Iterator[str]:
        yield self.clean(f"Box {snapshot.host} at {snapshot.taken_at}.")
        for root in snapshot.roots:
            yield f"Not the live box: {self.clean(root)}."
        for resource in snapshot.resources:
            yield from self._resource_sentences(resource, snapshot)
        for name, rows in device_rows(snapshot):
            yield self.clean(f"Device: {name}.")
            yield from (f"{label[0].upper()}{label[1:]}: {self.clean(value)}." for label, value in rows)
        yield f"A hold from here has {', '.join(snapshot.containment)}."
        yield from (self.clean(f"Runner {line}.") for line in _runners(snapshot))
        for flag in snapshot.flags:
            yield f"Flag {flag.severity} {self._flag(flag)}. Remedy: {self.clean(flag.remedy)}"
        if not snapshot.flags:
            yield "No flags."

    def _facts(self, snapshot: Snapshot) -> Iterator[str]:
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

    def clean(self, text: str, most: int | None = 2 * LONG) -> str:
        return clean(text, most, ascii_only=self.ascii_only)

    def _resource_rows(self, resource: Resource, snapshot: Snapshot) -> Iterator[str]:
        head = f"{resource.name}: {resource.state.upper()}"
        holder = resource.holder
        yield head + (f"  {self._holder(holder, snapshot)}" if holder else "")
        if holder is not None:
            yield f"  command {self._command(holder.command)}"
            for process in holder.payload.processes if holder.payload else ():
                yield f"    {self._process(process, snapshot.pool)}"
        for ticket in resource.waiting:
            yield f"  {ticket.position:>3}. {self._who(ticket)}, waiting {_wait(ticket, snapshot)}"
        yield from (f"  {line}" for line in self._remarks(resource))

    def _resource_sentences(self, resource: Resource, snapshot: Snapshot) -> Iterator[str]:
        holder, name = resource.holder, resource.name
        yield f"{name} is {resource.state}" + (f": {self._holder(holder, snapshot)}." if holder else ".")
        if holder is not None:
            yield f"{name} command: {self._command(holder.command)}"
            for process in holder.payload.processes if holder.payload else ():
                yield f"{name} process: {self._process(process, snapshot.pool)}."
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
            parts.append(_payload(holder.payload, snapshot))
        if holder.containment:
            parts.append(f"kept together by {self.clean(', '.join(holder.containment))}")
        return ", ".join(parts)

    def _process(self, process: Process, pool: Pool) -> str:
        unknown = "unknown" if process.readable else "unknown (closed to this account)"
        held = _held(process, pool, unknown)
        cpu = "" if process.cpu_percent is None else f", CPU {process.cpu_percent:.0f} %"
        source = ", as its hold says" if process.memory_source == "record" else ""
        return self.clean(
            f"pid {process.pid}, parent {process.ppid}, {process.name}, state {process.state}, "
            f"{account(process)}{cpu}, RSS {bytes_text(process.rss_bytes)}, {held}{source}, by {process.found_by}"
        )

    def _command(self, words: tuple[str, ...]) -> str:
        return self.clean(" ".join(words)) or "unknown"

    def _flag(self, flag: Flag) -> str:
        where = " ".join(filter(None, (flag.resource, flag.ticket)))
        return self.clean(f"{flag.kind}{f' ({where})' if where else ''}: {flag.text}")


def _held(of: Process | Payload, shown: Pool, unknown: str = "unknown") -> str:
    """Of the pool always, of the other kind where there is some."""
    pools: tuple[Pool, ...] = ("gtt", "vram")
    held = ((pool, of.held(pool)) for pool in pools)
    return ", ".join(f"{pool.upper()} {bytes_text(size, unknown)}" for pool, size in held if pool == shown or size)


def _payload(payload: Payload, snapshot: Snapshot) -> str:
    held = _held(payload, snapshot.pool)
    rss = bytes_text(payload.rss_bytes)
    return f"{counted(payload.process_count, 'process', 'processes')}, {held}, RSS {rss}{_quoted(payload, snapshot)}"


def _quoted(payload: Payload, snapshot: Snapshot) -> str:
    """That it is the hold's word, and how old that is; a hold renews it every few seconds."""
    if payload.source == "read":
        return ""
    age = since(payload.said_at, snapshot.taken_at)
    return ", as the hold says" if age is None or age < OLD_WORD else f", as the hold said {duration_text(age)} ago"


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
    why = runner.registration_why
    online = f"{runner.registration} at its forge" if why is None else f"at its forge unknown: {why}"
    return f"{runner.active_state} ({runner.sub_state}){since}, {restarts}, {guarded}, {said}, {online}"


def _wait(ticket: Ticket, snapshot: Snapshot) -> str:
    """How long so far, and as far as the past tells, until when and whether what it needs will be there."""
    said = [duration_text(ticket.waited_seconds)]
    if expected := ticket.expected_start:
        low, high = (-(since(one, snapshot.taken_at) or 0) for one in (expected.low, expected.high))
        said.append(f"expected in {duration_text(low)} to {duration_text(high)}")
    if fit := ticket.will_it_fit:
        answer = {True: "fits", False: "does not fit", None: "may or may not fit"}[fit.fits]
        had = "had" if fit.need_source != "level" else "with others, perhaps, had"
        said.append(f"{had} {bytes_text(fit.need_bytes)} at most so far, which {answer}")
    return ", ".join(said)
