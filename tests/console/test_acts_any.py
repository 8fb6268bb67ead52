"""Records of an audit are foreign JSON: whatever stands in them, the acts' page, the act and the filter stand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdtop.console.feeds import Acts
from holdtop.console.view.acts import act_rows, chain_line, chain_words, deeds, matches
from holdtop.console.view.deed import deed_lines
from holdtop.console.view.glyphs import ASCII, UNICODE
from tests.console.boxes import NOW

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(10**400),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=8,
)
#: What the page looks at, so that it is met often; a list of objects with pids is what it hopes for.
KEYS = (
    "act kind uid login_uid at verb resource lane ticket reason asked how text why status seq hash boot"
    " targets weak fates returned_bytes expected_bytes"
)
FIELDS = st.sampled_from(["pid", "name", "uid", "found_by", "fate", "text"])
ONES = st.lists(st.dictionaries(FIELDS, JSON, max_size=4), max_size=3)
KINDS = st.sampled_from(["intent", "outcome", "refused"])
RECORD = st.dictionaries(st.sampled_from(KEYS.split(" ")), JSON | ONES | st.just(NOW), max_size=8) | st.builds(
    lambda record, kind: {**record, "kind": kind}, st.dictionaries(st.sampled_from(KEYS.split(" ")), JSON | ONES), KINDS
)


@settings(max_examples=50)
@given(st.lists(RECORD, max_size=4), st.sampled_from([1, 8, 80, 200]))
@example([{"targets": 5}], 80)
@example([{"returned_bytes": 10**400}, {"expected_bytes": 10**400}], 80)
@example([{"fates": [{"pid": True}]}], 80)
@example([{"targets": [{"pid": []}], "kind": "outcome", "uid": {}, "status": [0]}], 80)
@example([{"uid": [1], "act": {"a": 1}}], 80)
def test_no_record_breaks_the_page(records: list[dict[str, Any]], width: int) -> None:
    acts = Acts(tuple(records), ("a:1: bad",), {})
    for glyphs in (UNICODE, ASCII):
        chain_words(acts), chain_line(acts, glyphs)
        for deed in deeds(acts):
            assert len(act_rows(deed, NOW, width, glyphs, selected=True)) == 2
            for receipt in (None, *records):
                assert deed_lines(deed, receipt, NOW, width, glyphs)
            assert matches(deed, "") in (True, False)
            assert matches(deed, "x") in (True, False)


@pytest.mark.parametrize("odd", [5, True, None, "x", [], {"pid": 1}, [[]], [{"pid": True}], [{"pid": 1.5}], 10**400])
@pytest.mark.parametrize("key", KEYS.split(" "))
def test_a_field_of_another_kind_takes_nothing_else_with_it(key: str, odd: object) -> None:
    """The rest of the record is still told."""
    record = {"kind": "intent", "act": "a", "verb": "kill", "reason": "the others are told", "at": NOW}
    (deed,) = deeds(Acts(({**record, key: odd},), (), {}))
    told = "".join(span.text for row in act_rows(deed, NOW, 120, UNICODE, selected=False) for span in row.spans)
    assert key == "reason" or "the others are told" in told
