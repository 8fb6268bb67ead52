"""The last look as Prometheus metrics, on this box's own address.

What is not known has no sample; it is never 0. Units are Prometheus's own: seconds, bytes, hertz, and ratios.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import get_args
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from holdtop.errors import HoldtopError, UsageError
from holdtop.model.values import PARTS, READING_NAMES, Memory, ResourceState, Snapshot

#: The port that is meant when none is said.
PORT = 9477
#: Seconds for which one who asks may be silent: there is one thread for all.
SILENT = 5
#: What is not in a base unit: the name's end, what it becomes, and by how much.
_BASE = (("_percent", "_ratio", 0.01), ("_mhz", "_hertz", 1e6))


def address(text: str) -> tuple[str, int]:
    """``PORT``, ``HOST:PORT`` or ``[HOST]:PORT``. Raises ``UsageError`` for what is none or not this box's own."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    try:
        own = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        number = int(port) if port.isascii() and port.isdecimal() else -1
        if not 0 <= number <= 65535:
            raise ValueError
    except ValueError:
        raise UsageError(f"--listen {text!r}: give PORT, ADDRESS:PORT or [ADDRESS]:PORT") from None
    if not own.is_loopback:
        raise UsageError(f"--listen {text!r}: only 127.0.0.0/8 and ::1; let a proxy with a password serve others")
    return str(own), number


class Metrics(Collector):
    """Answers with the look that was last shown to it."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        self._last = snapshot

    def collect(self) -> Iterator[Metric]:
        if snapshot := self._last:
            looked = datetime.fromisoformat(snapshot.taken_at).timestamp()
            yield _one("holdtop_last_look_timestamp_seconds", "When the box was last looked at", looked)
            yield from _of_resources(snapshot)
            yield from _of_readings(snapshot)
            yield from _of_memory(snapshot.memory)
            yield from _of_runners(snapshot)
            yield _flags(snapshot)


def serve(metrics: Metrics, host: str, port: int) -> WSGIServer:
    """Answer on that address, with the process's own cost. Port 0: any. Raises ``HoldtopError`` when it is taken."""
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    server = _Server6 if ":" in host else WSGIServer
    try:
        made = make_server(host, port, make_wsgi_app(registry), server, _Handler)
    except OSError as error:
        raise HoldtopError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    threading.Thread(target=made.serve_forever, name="holdtop-metrics", daemon=True).start()
    return made


class _Server6(WSGIServer):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = SILENT

    def log_message(self, format: str, *args: object) -> None:
        """Who asks is nobody's business."""

    def address_string(self) -> str:
        """As a number: a name would be asked of a server elsewhere."""
        return str(self.client_address[0])


def _one(name: str, about: str, value: float | None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, about)
    if value is not None:
        family.add_metric([], value)
    return family


def _of_resources(snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
    state = GaugeMetricFamily(
        "holdtop_token_state", "1 for the state that the token is in", labels=["resource", "state"]
    )
    held = GaugeMetricFamily("holdtop_token_held_seconds", "How long the token is held", labels=["resource"])
    waiting = GaugeMetricFamily("holdtop_queue_tickets", "How many wait", labels=["resource"])
    oldest = GaugeMetricFamily("holdtop_queue_oldest_wait_seconds", "How long the oldest waits", labels=["resource"])
    for one in snapshot.resources:
        for name in get_args(ResourceState):
            state.add_metric([one.name, name], float(one.state == name))
        if one.holder and one.holder.held_seconds is not None:
            held.add_metric([one.name], one.holder.held_seconds)
        if one.state != "unknown":
            waiting.add_metric([one.name], len(one.waiting))
            oldest.add_metric([one.name], max((t.waited_seconds or 0.0 for t in one.waiting), default=0.0))
    yield from (state, held, waiting, oldest)


def _of_readings(snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
    for reading in READING_NAMES:
        name, factor = reading, 1.0
        for end, base, by in _BASE:
            if reading.endswith(end):
                name, factor = reading.removesuffix(end) + base, by
        value = snapshot.readings[reading].value
        about = f"{reading.replace('_', ' ')}: see reading-an-apu"
        yield _one(f"holdtop_{name}", about, None if value is None else value * factor)


def _of_memory(memory: Memory) -> Iterator[GaugeMetricFamily]:
    parts = GaugeMetricFamily("holdtop_pool_bytes", "Whose the used part of the device's pool is", labels=["part"])
    for part in PARTS:
        if (size := getattr(memory, f"{part}_bytes")) is not None:
            parts.add_metric([part], size)
    yield parts
    yield _one("holdtop_headroom_bytes", "What a new payload can have", memory.headroom_bytes)
    yield _one("holdtop_unreadable_processes", "Who could not be looked into", memory.unreadable_processes)


def _of_runners(snapshot: Snapshot) -> Iterator[Metric]:
    """Of those that were looked at."""
    up = GaugeMetricFamily("holdtop_runner_up", "1 for a CI runner that takes jobs", labels=["unit"])
    guarded = GaugeMetricFamily("holdtop_runner_guarded", "1 for one that survives its jobs", labels=["unit"])
    online = GaugeMetricFamily("holdtop_runner_online", "1 for one that its forge has online", labels=["unit"])
    restarts = CounterMetricFamily("holdtop_runner_restarts", "By its manager since it was started", labels=["unit"])
    for runner in snapshot.runners if snapshot.runners_why is None else ():
        registered = None if runner.registration == "unknown" else runner.registration == "online"
        seen = ((up, runner.up), (guarded, runner.guarded), (online, registered), (restarts, runner.restarts))
        for family, value in seen:
            if value is not None:
                family.add_metric([runner.unit], value)
    yield from (up, guarded, online, restarts)


def _flags(snapshot: Snapshot) -> GaugeMetricFamily:
    family = GaugeMetricFamily("holdtop_flags", "How many such flags stand", labels=["kind", "severity", "resource"])
    for key, count in Counter((flag.kind, flag.severity, flag.resource or "") for flag in snapshot.flags).items():
        family.add_metric(list(key), count)
    return family
