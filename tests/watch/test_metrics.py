"""The metrics: what was seen and nothing else, read by the official parser, by promtool and by a real Prometheus."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdtop.errors import HoldtopError, UsageError
from holdtop.model.build import build
from holdtop.model.raw import Runners
from holdtop.model.values import Runner, Snapshot
from holdtop.sampler import look_once
from holdtop.watch import metrics
from holdtop.watch.metrics import Metrics, address, serve
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, until
from tests.hold.sensors import GIB, Sensors
from tests.reading import views
from tests.reading.machines import recorded, tree

Samples = dict[tuple[str, ...], float]
SHIPPED = Path(metrics.__file__).parent


@pytest.fixture
def state(tmp_path: Path) -> Box:
    (tmp_path / "state").mkdir(mode=0o2770)
    return Box(tmp_path / "state")


@contextlib.contextmanager
def served(shown: Metrics) -> Iterator[str]:
    server = serve(shown, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()


def page(url: str) -> str:
    with urlopen(url, timeout=20) as answer:
        text: str = answer.read().decode()
    return text


def samples(text: str) -> Samples:
    """Values by name and labels' values."""
    families = text_string_to_metric_families(text)
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def of(name: str, state: Box) -> Samples:
    shown = Metrics()
    shown.show(look_once(state_dir=str(state.state), roots=recorded(name), deadline=20))
    with served(shown) as url:
        return samples(page(url))


def test_units_are_base_units(state: Box) -> None:
    found = of("150e-strix-point", state)
    assert found["holdtop_gtt_used_bytes",] == 3946811392
    assert found["holdtop_gpu_busy_ratio",] == pytest.approx(0.03)
    assert found["holdtop_gpu_clock_hertz",] == 848e6
    assert found["holdtop_gpu_power_watts",] == 9.087
    assert found["holdtop_token_state", "gpu", "free"] == 1
    assert found["holdtop_token_state", "gpu", "held"] == 0
    assert found["holdtop_queue_tickets", "gpu"] == 0
    assert found["process_cpu_seconds_total",] > 0, "its own cost"


def test_what_is_not_known_has_no_sample(state: Box) -> None:
    found = of("150e-strix-point", state)
    assert not [key for key in found if key[0] in ("holdtop_tctl_celsius", "holdtop_token_held_seconds")]
    assert not [key for key in found if key[0] == "holdtop_pool_bytes"], "nobody's table of processes was recorded"


RUNNER = Runner(
    "holdtop-runner-a.service", "active", "running", "success", 2, "continue", "always", "mixed", "unknown", (),
    up=True, guarded=False, registration_why="no token",
)  # fmt: skip


def with_runners(*runners: Runner, why: str | None = None) -> Snapshot:
    return build(views.raw(runners=Runners(runners, why)), None)


def test_a_runner_has_samples_when_it_was_looked_at() -> None:
    unknown = replace(RUNNER, unit="b", restarts=None, up=None, guarded=None, why="the bus is silent")
    for why, wanted in ((None, {"up": 1.0, "guarded": 0.0, "online": 0.0, "restarts_total": 2.0}), ("silent", {})):
        shown = Metrics()
        registered = replace(RUNNER, unit="c", restarts=None, up=None, guarded=None, registration="offline")
        shown.show(with_runners(RUNNER, unknown, registered, why=why))
        with served(shown) as url:
            found = {key: value for key, value in samples(page(url)).items() if key[0].startswith("holdtop_runner")}
        units = {"online": "c"}
        assert found == {(f"holdtop_runner_{key}", units.get(key, RUNNER.unit)): value for key, value in wanted.items()}


def test_before_the_first_look_nothing_is_said() -> None:
    with served(Metrics()) as url:
        assert not [key for key in samples(page(url)) if key[0].startswith("holdtop")]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("9477", ("127.0.0.1", 9477)),
        (":1", ("127.0.0.1", 1)),
        ("127.0.0.9:80", ("127.0.0.9", 80)),
        ("localhost:80", ("127.0.0.1", 80)),
        ("[::1]:80", ("::1", 80)),
        ("0.0.0.0:80", None),
        ("[::]:80", None),
        ("192.0.2.1:80", None),
        ("box:80", None),
        ("127.0.0.1:65536", None),
        ("127.0.0.1:-1", None),
        ("127.0.0.1:", None),
        ("", None),
        ("٣", None),
    ],
)
def test_only_this_boxs_own_address(text: str, right: tuple[str, int] | None) -> None:
    if right:
        assert address(text) == right
    else:
        with pytest.raises(UsageError, match="--listen"):
            address(text)


def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(HoldtopError, match="cannot listen"):
        serve(Metrics(), "127.0.0.1", taken.getsockname()[1])


def test_one_who_is_silent_holds_the_next_up_for_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics._Handler, "timeout", 0.5)
    with served(Metrics()) as url:
        port = int(url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port)):
            assert "process_cpu_seconds_total" in page(url)


@contextlib.contextmanager
def watched(state: Box, card: Sensors) -> Iterator[str]:
    """The verb itself on a box with a card; the address of its metrics."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [*HOLDTOP, "watch", "--state-dir", str(state.state), "--listen", str(port)]
    with subprocess.Popen(words, env=card.environ | {"HOLDTOP_REFRESH": "0.5"}, stderr=subprocess.PIPE) as watch:

        def answers() -> bool:
            with contextlib.suppress(OSError):
                return "holdtop_pool_bytes" in page(f"http://127.0.0.1:{port}/metrics")
            return False

        until(answers, 30)
        yield f"127.0.0.1:{port}"
        watch.terminate()
        assert watch.wait(20) == 0


@pytest.fixture
def card(tmp_path: Path) -> Sensors:
    sensors = Sensors(tmp_path)
    sensors.card()
    sensors.use(40)
    device = sensors.sys / "class/drm/card1/device"
    tree(
        device, {"gpu_busy_percent": "5\n", "hwmon/hwmon6/name": "amdgpu\n", "hwmon/hwmon6/power1_average": "9000000\n"}
    )
    return sensors


@pytest.fixture
def prometheus() -> None:
    if not shutil.which("promtool") or not shutil.which("prometheus"):
        pytest.skip("needs prometheus: prometheus and promtool")


@pytest.mark.usefixtures("prometheus")
def test_promtool_has_no_complaint(state: Box, card: Sensors) -> None:
    """Of the names, types and units of the page, and of the rules."""
    lane = state.run("sleep", NAP)
    state.until_running()
    with watched(state, card) as where:
        text = page(f"http://{where}/metrics")
    lane.terminate()
    ended(lane)
    assert samples(text)["holdtop_token_state", "gpu", "held"] == 1
    assert samples(text)["holdtop_pool_bytes", "unattributed"] == 40 * GIB
    lint = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    own = [line for line in (lint.stdout + lint.stderr).splitlines() if line.startswith("holdtop")]
    assert own == []
    rules = subprocess.run(["promtool", "check", "rules", SHIPPED / "alerts.yml"], capture_output=True, check=False)
    assert rules.returncode == 0, rules.stdout


@contextlib.contextmanager
def scraping(targets: list[str], directory: Path) -> Iterator[str]:
    """A Prometheus with the shipped rules, that scrapes them each second; the address of its interface."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config: Mapping[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(SHIPPED / "alerts.yml")],
        "scrape_configs": [{"job_name": "holdtop", "static_configs": [{"targets": targets}]}],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))
    words = [
        "prometheus",
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "log").open("w") as log, subprocess.Popen(words, stdout=log, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def asked(server: str, query: str) -> list[Any]:
    answer = json.loads(page(f"{server}/api/v1/query?{urlencode({'query': query})}"))
    assert answer["status"] == "success"
    result: list[Any] = answer["data"]["result"]
    return result


@pytest.mark.usefixtures("prometheus")
def test_each_panel_shows_something_and_each_rule_can_be_judged(state: Box, card: Sensors, tmp_path: Path) -> None:
    """On a box with a card, a holder, one that waits, and a ghost at the NPU, which raises an alert."""
    ended(state.run("true", options=["-r", "npu"]))
    (state.state / "npu-token").write_text("garbled\n")
    lanes = [state.run("sleep", NAP)]
    state.until_running()
    lanes.append(state.run("true"))
    until(lambda: len(state.tickets()) == 2)
    panels = json.loads((SHIPPED / "dashboard.json").read_text())["panels"]
    queries = {panel["title"]: [one["expr"].replace("$instance", ".*") for one in panel["targets"]] for panel in panels}
    runners = Metrics()
    runners.show(with_runners(RUNNER))
    with served(runners) as url, watched(state, card) as box, scraping([box, url.split("/")[2]], tmp_path) as server:

        def alerted() -> bool:
            with contextlib.suppress(OSError):  # it is starting
                return bool(asked(server, 'ALERTS{alertname="HoldtopFlagWarning", kind="ghost", resource="npu"}'))
            return False

        until(alerted, 60)
        for late in ("The watch itself", "Runners: restarts in an hour"):
            until(lambda late=late: asked(server, queries[late][0]), 30)  # type: ignore[misc]
        silent = {title for title, exprs in queries.items() if not any(asked(server, expr) for expr in exprs)}
        (rules,) = json.loads(page(f"{server}/api/v1/rules"))["data"]["groups"]
    lanes[0].terminate()
    for lane in lanes:
        ended(lane)
    assert silent == set()
    assert {one["health"] for one in rules["rules"]} == {"ok"}
