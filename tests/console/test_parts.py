"""The pure parts: arrangement, themes, keys, graphs, trees, the memory bar."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.console import keys, themes
from holdtop.console.events import LogLine, in_order, log_row, matches, parse_event
from holdtop.console.feeds import LogFeed
from holdtop.console.view.armed import armed
from holdtop.console.view.flags import flag_rows
from holdtop.console.view.glyphs import ASCII, UNICODE, chosen
from holdtop.console.view.memory import memory_lines, parts
from holdtop.console.view.queue import queue_row
from holdtop.console.view.text import width_of
from holdtop.console.view.tree import nodes
from holdtop.console.world import World
from holdtop.errors import ConfigError
from holdtop.model.values import Memory
from tests.console.boxes import BUSY, FLAGS, GIB, HOLDER, TREE, process, resource

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["pid", "name", "ended_by"]), inner),
    max_leaves=5,
)


# Themes


def test_the_packaged_themes_are_valid() -> None:
    loaded = themes.load([themes.packaged()])
    assert loaded.failed == ()
    assert {"dark", "light", "high-contrast", "color-blind", "ansi"} <= set(loaded.loaded)
    for theme in loaded.loaded.values():  # what means another thing looks otherwise
        meanings = [theme.colors[name] for name in ("ok", "info", "warning", "critical", "unattributed", "held")]
        assert len({*meanings}) >= len(meanings) - 1, theme.name
        assert len({theme.colors[name] for name in ("warning", "critical", "unattributed")}) == 3
    assert loaded.loaded["ansi"].ansi


@pytest.mark.parametrize("name", ["dark", "light", "high-contrast", "color-blind", "amber"])
def test_words_can_be_read_on_every_surface(name: str) -> None:
    colors = themes.load([themes.packaged()]).loaded[name].colors
    for role in ("text", "muted", "accent", "ok", "info", "warning", "critical", "held"):
        for surface in ("background", "panel", "selection", "selection_blurred"):
            assert _contrast(colors[role], colors[surface]) >= 4.5, (role, surface)


def _contrast(one: str, two: str) -> float:
    """WCAG 2 contrast ratio."""

    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


GOOD = (themes.packaged() / "dark.toml").read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not = [toml", "Invalid value"),
        (GOOD.replace("dark = true", "dark = 1"), "'dark' must be true or false"),
        (GOOD.replace("warning =", "warnign ="), "unknown key 'warnign'; did you mean 'warning'?"),
        (GOOD.replace('"#d5dbe5"', '"javascript"'), "colors.text = 'javascript' is neither"),
        (GOOD.replace('"#d5dbe5"', '"red"'), "use one kind"),
        ("dark = true\n", "[colors] is missing"),
        ("dark = true\n[colors]\ntext = '#000000'\n", "lacks muted"),
    ],
)
def test_a_bad_theme_is_told_and_the_others_load(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "fine.toml").write_text(GOOD)
    loaded = themes.load([tmp_path])
    assert list(loaded.loaded) == ["fine"]
    (failed,) = loaded.failed
    assert str(tmp_path / "mine.toml") in failed
    assert said in failed


def test_a_theme_from_before_a_name_was_dropped_still_loads() -> None:
    assert themes.parse(GOOD + 'leftover = "#ff6b6b"\n', "mine").name == "mine"


def test_a_theme_that_is_no_file_or_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "dir.toml").mkdir()
    (tmp_path / "binary.toml").write_bytes(b"\xff\x00")
    (tmp_path / "large.toml").write_text("#" * 100_000)
    assert len(themes.load([tmp_path]).failed) == 3
    assert themes.load([tmp_path / "missing"]).failed == ()


def test_the_users_theme_replaces_ours(tmp_path: Path) -> None:
    (tmp_path / "dark.toml").write_text(GOOD.replace("#d5dbe5", "#ffffff"))
    assert themes.load([themes.packaged(), tmp_path]).loaded["dark"].colors["text"] == "#ffffff"


# Keys


def test_no_key_is_there_twice() -> None:
    assert keys.table({}) == keys.KEYS


@pytest.mark.parametrize(
    ("remapped", "said"),
    [({"kil": "x"}, "did you mean 'kill'"), ({"kill": "q"}, "the key 'q' is for both"), ({"zzz": "x"}, "actions are")],
)
def test_a_wrong_remapping_is_told(remapped: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        keys.table(remapped)


# Glyphs


@pytest.mark.parametrize(
    ("environ", "encoding", "glyphs"),
    [
        ({}, "utf-8", UNICODE),
        ({"LANG": "de_DE.UTF-8"}, "utf-8", UNICODE),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "utf-8", ASCII),  # as Python coerces an explicit C
        ({"LC_CTYPE": "C.UTF-8"}, "utf-8", UNICODE),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "utf-8", ASCII),
        ({"LANG": "de_DE.ISO-8859-1"}, "iso8859-1", ASCII),
        ({"LANG": "C.UTF-8"}, "UTF-8", UNICODE),
    ],
)
def test_signs_follow_the_locale(environ: dict[str, str], encoding: str, glyphs: object) -> None:
    assert chosen(environ, encoding) is glyphs


# What a running hold ends itself at


@pytest.mark.parametrize("text", ["", "hot", "95C; rm", "9" * 400, "-5C", "\x1b[2J", "１２C\n"])
def test_a_limit_that_is_no_number_is_no_level(text: str) -> None:
    holder = replace(HOLDER, limits={"tctl-abort": text, "mem-abort-gib": text})
    assert armed(replace(BUSY, resources=(resource("gpu", holder),))) == {}


def test_a_ghost_has_nothing_armed_and_of_two_holds_the_stricter_counts() -> None:
    one, two = (replace(HOLDER, limits={"tctl-abort": text, "mem-abort-gib": text}) for text in ("90", "8"))
    both = replace(BUSY, resources=(resource("gpu", one), resource("npu", two)))
    assert armed(both) == {"tctl_celsius": 8.0, "mem_available_bytes": 90.0 * GIB}
    assert armed(replace(BUSY, resources=(resource("gpu", one, state="ghost"),))) == {}


# Flags


@pytest.mark.parametrize(
    ("remedy", "hint"),
    [
        ("holdtop kill --pid 3 --reason REASON", "x ends it"),
        ("holdtop recover -r npu", "R frees it"),
        ("holdtop status", None),
        ("sudo holdtop kill", None),
    ],
)
def test_the_selected_flag_names_the_key_of_its_remedy(remedy: str, hint: str | None) -> None:
    flag = replace(FLAGS[0], remedy=remedy)
    drawn = {
        chosen: "".join(
            span.text
            for span in flag_rows(flag, BUSY.taken_at, 120, UNICODE, {"kill": "x", "recover": "R"}, selected=chosen)[
                1
            ].spans
        )
        for chosen in (True, False)
    }
    assert remedy in drawn[True]
    assert drawn[False] == f"   → {remedy}"
    assert (drawn[True] == drawn[False]) if hint is None else (hint in drawn[True])


# The memory bar


@given(st.lists(st.none() | st.integers(0, 2**40), min_size=5, max_size=5), st.integers(20, 250))
def test_the_bar_is_exact_and_never_adds_what_is_unknown(sizes: list[int | None], width: int) -> None:
    held, survivors, strays, shared, nobodys = sizes
    box = replace(BUSY, memory=Memory(held, survivors, strays, shared, nobodys, None, 0))
    bar = memory_lines(box, width, 2, UNICODE)[0]
    assert width_of(bar.spans) == width - 1
    leftovers = parts(box)[1].size
    assert (leftovers is None) == (survivors is None or strays is None)


def test_without_totals_there_is_no_bar() -> None:
    box = replace(BUSY, readings={})
    assert "unknown" in "".join(span.text for span in memory_lines(box, 80, 2, UNICODE)[0].spans)


# Trees


def test_a_tree_with_folds() -> None:
    rows = nodes(TREE, frozenset({5002}))
    assert [(node.process.pid, node.hidden) for node in rows] == [(5001, 0), (5002, 2), (5005, 0), (5006, 0)]
    assert rows[1].rss_bytes == 2 * 3 * 1024**3 + 40 * 1024**2
    assert rows[0].trail == ()
    assert rows[1].trail == (False,)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12), st.frozensets(st.integers(1, 9)))
def test_no_record_can_catch_the_tree_in_a_ring(pairs: list[tuple[int, int]], folded: frozenset[int]) -> None:
    members = [process(pid, ppid, "x") for pid, ppid in dict(pairs).items()]
    shown = nodes(members, frozenset())
    assert sorted(node.process.pid for node in shown) == sorted(process.pid for process in members)
    assert len(nodes(members, folded)) <= len(shown)


# Events


@given(st.text() | st.recursive(st.none() | st.text(), lambda inner: st.lists(inner), max_leaves=5).map(repr))
def test_any_line_is_a_row(text: str) -> None:
    assert parse_event("gpu", text).resource == "gpu"


def test_deep_nesting_is_shown_as_it_stands() -> None:
    assert parse_event("gpu", "[" * 100_000).kind == "?"


def test_the_documentation_has_the_keys_in_force() -> None:
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    assert keys.markdown() in page
    for key in keys.KEYS:
        assert f"`{key.action}`" in page


FATES = [{"pid": 7, "ended_by": "TERM"}, {"pid": 8, "ended_by": "TERM"}, {"pid": 9, "ended_by": "KILL"}]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"event": "queued", "lane": "a", "where": "queue /x"}, "waits in line"),
        ({"event": "taken", "limits": {"max-hold": "2700s", "tctl-abort": "95C"}}, "max-hold 45m00s, tctl-abort 95C"),
        ({"event": "taken", "limits": {"grace": "3s", "survive-wait": "60s"}}, "without limits"),
        ({"event": "warned", "text": "::warning::Tctl is near"}, "Tctl is near"),
        (
            {"event": "warned", "text": "previous holder left pid=7 start=Thu Dec  3 13:55:11 2026 cmd=x y - live"},
            "previous holder left pid 7: x y - live",
        ),
        ({"event": "ending", "reason": "stop", "text": "stopped by ann: stuck"}, "stopped by ann: stuck"),
        (
            {"event": "ended", "reason": "max-hold", "status": 124, "proof": "ECHILD", "ended": FATES},
            "max-hold, status 124, 3 processes ended (1 by KILL)",
        ),
        ({"event": "ended", "reason": "exited", "status": 0, "ended": []}, "exited, status 0"),
        ({"event": "released", "status": 0, "verdict": "clean"}, "clean, status 0"),
        ({"event": "released", "status": 1, "verdict": "dirty"}, "dirty: a process was left, status 1"),
        ({"event": "settled", "verdict": "clean", "memory": {}}, "the device's memory came back"),
        (
            {"event": "settled", "verdict": "dirty", "memory": {"before_bytes": 0, "after_bytes": 60 << 30}},
            "60.0G of the device's memory did not come back: dirty",
        ),
        (
            {"event": "settled", "verdict": "dirty", "memory": {"after_bytes": []}},
            'verdict=dirty  memory={"after_bytes": []}',
        ),
        ({"event": "recovered", "lane": "x", "ended": 2, "left": 0}, "the ghost of lane x, 2 processes ended"),
        ({"event": "left", "reason": "evicted"}, "evicted from the queue"),
        ({"event": "evicted", "reason": "evicted"}, "evicted from the queue"),
        (
            {"event": "kept", "left": [{"pid": 4, "name": "su"}]},
            "the token stays, as these may not be signalled: pid 4 (su)",
        ),
        ({"event": "ended", "ended": "nonsense", "status": 1}, "ended=nonsense  status=1"),
        ({"event": "kept", "left": [3]}, "left=[3]"),
        ({"event": "new-kind", "by_pid": 3, "why": "so"}, "why=so"),
    ],
)
def test_events_are_told_in_words(said: dict[str, object], words: str) -> None:
    assert parse_event("gpu", json.dumps(said)).text == words


@pytest.mark.parametrize(
    "event", ["queued", "taken", "started", "ending", "ended", "released", "settled", "kept", "recovered"]
)
@given(fields=st.dictionaries(st.sampled_from(["limits", "ended", "left", "reason", "status", "lane"]), JSON))
def test_odd_fields_of_an_event_are_shown_and_harm_nothing(event: str, fields: dict[str, object]) -> None:
    assert parse_event("gpu", json.dumps({**fields, "event": event})).kind == event


def test_an_event_is_told_with_its_lane() -> None:
    world = World()
    queued = parse_event("gpu", '{"event": "queued", "ticket": "0000000012-4012", "lane": "nightly"}')
    taken = parse_event("gpu", '{"event": "taken", "ticket": "0000000012-4012"}')
    world.kept.add([queued, taken])
    drawn = log_row(taken, world.kept.lane_of(taken), 120, UNICODE)
    assert "nightly        12-4012" in "".join(span.text for span in drawn.spans)
    assert matches(taken, world.kept.lane_of(taken), "nightly")
    assert not matches(taken, "", "nightly")


@pytest.mark.parametrize(("verdict", "role"), [("clean", "ok"), ("dirty", "warning"), ("unknown", "warning")])
def test_a_release_is_green_only_when_it_was_clean(verdict: str, role: str) -> None:
    assert parse_event("gpu", f'{{"event": "released", "verdict": "{verdict}"}}').role == role


def test_lines_of_two_logs_stand_in_order() -> None:
    lines = [
        parse_event("gpu", '{"at": "2030-01-02T03:00:00+00:00", "event": "a"}'),
        parse_event("gpu", "no event"),
        parse_event("gpu", '{"at": "2030-01-02T05:00:00+00:00", "event": "d"}'),
        parse_event("npu", '{"at": "2030-01-02T05:30:00+02:00", "event": "b"}'),
    ]
    assert [line.kind for line in in_order(lines)] == ["a", "?", "b", "d"]


def test_a_ghost_is_named_in_its_row() -> None:
    for width in (80, 140):
        drawn = queue_row(HOLDER, BUSY.taken_at, width, UNICODE, ghost="warning")
        assert "ghost" in "".join(span.text for span in drawn.spans)
        assert drawn.spans[0].text == " † "


def test_logs_are_followed_where_the_resources_say(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    log.write_text('{"event": "taken"}\n')
    told: list[LogLine] = []
    feed = LogFeed(told.extend)
    feed.follow({"gpu": str(log)})
    assert [line.kind for line in feed.poll()] == ["taken"]
    feed.follow({"gpu": str(tmp_path / "elsewhere")})
    assert [line.kind for line in feed.poll()] == ["note"]


def test_the_last_line_without_an_end_is_shown_until_another_takes_its_place(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text("begun\n 10%")
    world, feed = World(), LogFeed(lambda _: None)

    def shown() -> list[str]:
        world.kept.add(feed.poll())
        return [line.text for line in world.kept.lines(str(log))]

    feed.follow({}, (str(log),))
    assert shown() == ["begun", " 10%"]
    with log.open("a") as file:
        file.write("\r 20%")
    assert shown() == ["begun", " 20%"]
    with log.open("a") as file:
        file.write("\rERROR: no memory\n")
    assert shown() == ["begun", "ERROR: no memory"]
    assert world.kept.lines(str(log))[-1].role == "critical"
    assert world.kept.lines() == []  # no hold's event


@pytest.mark.parametrize(("reason", "role"), [("exited", "text"), ("max-hold", "warning"), ("", "warning")])
def test_an_end_of_its_own_is_no_warning(reason: str, role: str) -> None:
    assert parse_event("gpu", f'{{"event": "ended", "reason": "{reason}"}}').role == role
