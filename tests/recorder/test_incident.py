"""The report of a bad hour: what it says, and that no text in it is more than text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from holdtop.cli.main import main
from holdtop.recorder import places
from holdtop.recorder.incident import LONG, code, last_incident, report, stretch
from holdtop.recorder.recording import Recording
from tests.console.boxes import BUSY, EVIL, QUIET, hostile
from tests.recorder.scenes import RECEIPT, SETTLED, STORY, at, record
from tests.recorder.test_codec import GOLDEN
from tests.recorder.test_damage import ENDS


def told(path: Path) -> str:
    recording = Recording(str(path))
    return "\n".join(report(stretch(recording, 0, len(recording.instants) - 1)))


def section(text: str, title: str) -> list[str]:
    return re.split(r"^## ", text, flags=re.M)[1:][[*re.findall(r"^## (.*)", text, re.M)].index(title)].splitlines()[2:]


def test_it_tells_what_happened_who_held_what_leaked_and_the_memory(tmp_path: Path) -> None:
    record(tmp_path / "r", STORY)
    text = told(tmp_path / "r")
    assert text.startswith("# Incident on `strix-1`, `2030-01-02T02:14:00+00:00` to `2030-01-02T02:14:04+00:00`\n")
    assert "Worst: critical `survivor`" in text
    timeline = section(text, "Timeline")
    assert [line.split("|")[2].strip() for line in timeline if line.startswith("| `")] == [
        f"`{kind}`" for kind in ("taken", "raised", "raised", "raised", "cleared", "cleared", "aborted", "cleared")
    ]
    (holder,) = (line for line in section(text, "Who held") if line.startswith("| `"))
    for word in ("alice", "nightly-build", "max-hold, dirty", "peak 41.0 GiB", "python train.py", ", for 1h30m"):
        assert word in holder
    leaked = "\n".join(section(text, "What leaked"))
    assert "left rocm-smi (pid 5005, unkillable)" in leaked
    assert "pid 3977" in leaked
    assert "| `GTT used` | `307 MiB` | `46.2 GiB` | `307 MiB` |" in section(text, "Memory before and after")
    assert "hunter2" not in text


def test_a_quiet_stretch_says_so(tmp_path: Path) -> None:
    record(tmp_path / "r", [at(0, QUIET), at(1, QUIET)])
    text = told(tmp_path / "r")
    for words in (
        "No flag stood",
        "Nothing was marked",
        "Nobody held",
        "Nothing, as far as was seen",
        "No operator's act",
    ):
        assert words in text


def test_what_came_back_late_did_not_leak(tmp_path: Path) -> None:
    record(tmp_path / "late", SETTLED)
    assert "Nothing, as far as was seen" in told(tmp_path / "late")
    record(tmp_path / "never", SETTLED[:2])
    assert section(told(tmp_path / "never"), "What leaked")[0].count("settling") == 1


def test_a_hold_that_no_look_has_seen_is_told_by_its_receipt(tmp_path: Path) -> None:
    record(tmp_path / "r", SETTLED)
    (held,) = (line for line in section(told(tmp_path / "r"), "Who held") if line.startswith("| `"))
    for words in ("`nightly-build`", "`between two looks`", "exited, clean"):
        assert words in held


#: Half a minute of trouble; then the clock is set back by an hour, and it is quiet.
SET_BACK = [
    *(at(second, replace(BUSY if 60 <= second < 90 else QUIET, resources=())) for second in range(120)),
    *(replace(at(second - 3600, QUIET), at=1000.0 + second) for second in range(120, 240)),
]


def test_a_clock_that_is_set_back_hides_no_incident(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "r", SET_BACK)
    recording = Recording(str(tmp_path / "r"))
    found = last_incident(recording)
    assert found is not None
    assert found[0] < 60
    assert found[1] >= 90
    assert main(["incident", str(tmp_path / "r"), "--from", "02:14:55", "--to", "02:15:35"]) == 0
    assert "Worst: critical" in capsys.readouterr().out
    assert [recording.seek(text, 0) for text in ("start", "02:15:00", "01:17:00", "end")] == [0, 60, 180, 239]


def test_of_a_time_that_was_not_recorded_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "r", [at(0, QUIET), at(5, BUSY), at(7200, QUIET)])
    path = str(tmp_path / "r")
    for words in (
        ["incident", path, "--from", "02:30", "--to", "03:00"],
        ["replay", path, "--at", "03:00"],
        ["replay", path, "--at", "02:10"],
    ):
        assert main(words) == 1
        shown = capsys.readouterr()
        assert (shown.out, "nothing is recorded" in shown.err) == ("", True)
    assert main(["replay", path, "--at", "02:13:30", "--plain"]) == 0, "half a minute too early"
    assert main(["incident", path, "--from", "02:00"]) == 0, "what there is of it"


def test_the_watch_that_recorded_last_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "old", [at(0, QUIET)])
    record(tmp_path / "new", [at(second, BUSY) for second in (3600, 3601)])
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(places, "candidates", lambda: [str(tmp_path / name) for name in ("old", "none", "new")])
    assert main(["incident", "--last"]) == 0
    assert "03:14:01" in capsys.readouterr().out.splitlines()[0]


def test_a_reboot_is_said(tmp_path: Path) -> None:
    record(tmp_path / "r", [at(0, QUIET), at(1, replace(QUIET, boot_id="later"))])
    assert "started anew in between" in told(tmp_path / "r")


def test_the_newest_incident_is_found_by_its_marks(tmp_path: Path) -> None:
    """Two stories with a quiet hour between: the second one, with a minute on both sides."""
    quiet = [at(second, STORY[-1]) for second in range(10, 3700, 10)]
    again = [at(4000 + second, replace(snapshot, resources=QUIET.resources)) for second, snapshot in enumerate(STORY)]
    later = [at(second, QUIET) for second in range(4010, 4300, 10)]
    record(tmp_path / "r", [*STORY, *quiet, *again, *later])
    recording = Recording(str(tmp_path / "r"))
    found = last_incident(recording)
    assert found is not None
    begin, end = ((recording.instants[place].at_ms - recording.instants[0].at_ms) / 1000 for place in found)
    assert begin == 3690
    assert 4060 <= end <= 4070
    record(tmp_path / "quiet", [at(0, QUIET)])
    assert last_incident(Recording(str(tmp_path / "quiet"))) is None


MARKDOWN = ("`; rm -rf /`", "a | b", "\\", "x" * 5000, "<img src=x onerror=y>", "``` \n# hi")


@pytest.mark.parametrize("text", [*EVIL, *MARKDOWN])
def test_foreign_text_is_nothing_but_text(tmp_path: Path, text: str) -> None:
    evil = hostile(text)
    receipt = {
        **RECEIPT,
        "lane": text,
        "ticket": text,
        "reason": text,
        "verdict": text,
        "held_seconds": 10**400,
        "memory": {"peak_bytes": 10**400},
    }
    worse = replace(evil, resources=(replace(evil.resources[0], receipts=(receipt,)), *evil.resources[1:]))
    record(tmp_path / "r", [at(0, evil), at(1, worse), at(2, QUIET)])
    lines = told(tmp_path / "r").splitlines()
    for line in lines:
        assert line.isprintable()
        assert line.count("`") % 2 == 0
        outside = re.sub(r"`[^`]*`", "", line)
        assert "rm" not in outside
        assert "<" not in outside
        assert len(line) < 12 * LONG
    columns = {re.sub(r"`[^`]*`", "", line).count("|") for line in lines if line.startswith("| `2030")}
    assert columns == {7}


def test_a_bar_in_a_cell_ends_no_cell() -> None:
    assert code("a | b") == "`a \\| b`"
    assert code(None) == code("  ") == "–"


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "r", [*STORY, *(at(second, STORY[-1]) for second in range(5, 30))])
    assert main(["incident", str(tmp_path / "r"), "--from", "02:14:02", "--to", "02:14:03"]) == 0
    assert "`2030-01-02T02:14:02+00:00` to `2030-01-02T02:14:03+00:00`" in capsys.readouterr().out
    assert main(["incident", str(tmp_path / "r"), "--last", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["from"], said["markdown"].startswith("# Incident on")) == (STORY[0].taken_at, True)
    for words in ([], ["--last", "--from", "start"], [str(tmp_path / "r"), "--from", "end", "--to", "start"]):
        assert main(["incident", *words]) == 2
    assert main(["incident", "--last"]) == 1
    assert "no watch has recorded" in capsys.readouterr().err
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    record(tmp_path / "state/recording", STORY)
    assert main(["incident", "--last"]) == 0


def test_a_damaged_recording_is_told_up_to_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.rec").write_bytes(GOLDEN.read_bytes()[: ENDS[3] + 9])
    assert main(["incident", str(tmp_path / "x.rec")]) == 1
    assert "- The recording is damaged: `" in capsys.readouterr().out
