"""What is recorded comes back as it was, and nothing comes back that no look could have brought."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.errors import RecordingError
from holdtop.model.values import Snapshot
from holdtop.recorder.codec import decode, encode
from tests.console.boxes import BUSY, EVIL, FOREIGN, QUIET, hostile, process
from tests.recorder.scenes import STORY, read

GOLDEN = Path(__file__).parent / "goldens/format-1.rec"


@pytest.mark.parametrize("snapshot", [BUSY, QUIET, FOREIGN, *map(hostile, EVIL)])
def test_a_snapshot_comes_back_as_it_was(snapshot: Snapshot) -> None:
    assert decode(encode(snapshot)) == snapshot


def test_when_it_was_looked_for_users_comes_back_though_it_is_no_difference() -> None:
    memory = replace(BUSY.memory, scanned_at=49_990.5, unowned_since=1.0)
    found = decode(encode(replace(BUSY, memory=memory))).memory
    assert (found.scanned_at, found.unowned_since) == (49_990.5, None)


def test_a_recording_of_format_1_opens_for_ever() -> None:
    """The file is never made anew: it stands for all that lie on people's disks."""
    assert [one.taken_at for one in read(GOLDEN)] == [one.taken_at for one in STORY]
    found = [replace(flag, text="") for flag in read(GOLDEN)[2].flags]  # whose words were others then
    assert found == [replace(flag, text="") for flag in STORY[2].flags]
    assert read(GOLDEN)[2].resources[0].holder == STORY[2].resources[0].holder


def test_secrets_of_command_lines_are_not_stored() -> None:
    words = ("curl", "--password", "hunter2", "-H", "Authorization: Bearer abc")
    snapshot = replace(BUSY, leftovers=(process(1, 1, "curl", *words),))
    receipt = {"command": "PASSWORD=hunter2 train"}
    held = replace(snapshot.resources[0], last_receipt=receipt, receipts=(receipt,))
    stored = encode(replace(snapshot, resources=(held,)))
    assert b"hunter2" not in stored
    assert decode(stored).leftovers[0].command[:3] == ("curl", "--password", "REDACTED")


def test_what_a_later_version_adds_is_left_out_and_what_an_earlier_one_lacked_is_unknown() -> None:
    said = json.loads(encode(BUSY))
    said["mood"] = "good"
    said["memory"]["later_bytes"] = 5
    for name in ("runners", "device", "boot_id"):
        del said[name]
    del said["memory"]["shared_bytes"], said["resources"][0]["receipts"]
    found = decode(json.dumps(said).encode())
    assert found == replace(BUSY, device=None, boot_id=None, memory=replace(BUSY.memory, shared_bytes=None))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("at",), True),
        (("at",), float("nan")),
        (("at",), 1e300),
        (("host",), 7),
        (("flags",), {}),
        (("flags", 0, "severity"), "purple"),
        (("flags", 0, "pids"), ["x"]),
        (("flags", 0, "pids"), [1 << 70]),
        (("resources", 0, "holder"), []),
        (("readings",), []),
        (("readings", "tctl_celsius"), 1.0),
    ],
)
def test_a_value_of_another_kind_is_refused(path: tuple[Any, ...], value: object) -> None:
    said = json.loads(encode(BUSY))
    inner = said
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(RecordingError):
        decode(json.dumps(said).encode())


def test_what_cannot_be_left_out_is_missed() -> None:
    with pytest.raises(RecordingError, match="missing"):
        decode(b"{}")


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordingError):
        decode(data)


def test_json_that_is_too_deep_is_refused() -> None:
    with pytest.raises(RecordingError):
        decode(b"[" * 100_000)


#: What says which box, account, file or ticket is meant stays as it is.
NAMES = {"device", "kind", "since", "ticket", "host", "id", "user", "queue_path", "token_path", "roots"}


def test_no_text_keeps_a_secret_of_a_known_form() -> None:
    secret = "ghp_abcdefgh12345678"
    receipt = {"ticket": "1-2", "lane": secret, "command": secret, "left": [{"name": secret}], "suspects": [secret]}
    evil = hostile(secret)
    gpu = replace(evil.resources[0], receipts=(receipt,), last_receipt=receipt)
    assert {where for where, text in texts(json.loads(encode(replace(evil, resources=(gpu,))))) if secret in text} <= (
        NAMES
    )


def texts(said: object, where: str = "") -> Iterator[tuple[str, str]]:
    """Each text in it, keys too, with the key that it stands below."""
    if isinstance(said, dict):
        for key, value in said.items():
            yield (where, key)
            yield from texts(value, key)
    elif isinstance(said, list):
        for value in said:
            yield from texts(value, where)
    elif isinstance(said, str):
        yield (where, said)
