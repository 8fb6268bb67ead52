"""The pool that programs get is the one whose column, bar and gauge are shown."""

from __future__ import annotations

from dataclasses import replace

from holdtop.console.view.glyphs import UNICODE
from holdtop.console.view.memory import parts
from holdtop.console.view.queue import queue_head, queue_row
from holdtop.console.view.text import Line
from holdtop.console.view.tree import nodes, tree_head, tree_row
from holdtop.model.values import Memory, Payload, Reading
from tests.console.boxes import BUSY, GIB, HOLDER, NOW, TREE


def test_where_programs_get_vram_that_is_what_is_shown() -> None:
    """Synthetic: an APU whose carve-out is larger than GTT, and a payload that has 48 of its 96 GiB."""
    totals = {"gtt_total_bytes": 16 * GIB, "vram_total_bytes": 96 * GIB, "vram_used_bytes": 50 * GIB}
    readings = {**BUSY.readings, **{name: Reading(value) for name, value in totals.items()}}
    memory = Memory(48 * GIB, 0, 0, 0, GIB, 46 * GIB, 0)
    box = replace(BUSY, readings=readings, devices=(replace(BUSY.devices[0], readings=readings),), memory=memory)
    assert [(part.name, part.size) for part in parts(box) if part.size] == [
        ("held", 48 * GIB),
        ("unattributed", GIB),
        ("other VRAM", GIB),
        ("available", 46 * GIB),
    ]
    tree = tuple(replace(one, gtt_bytes=0, vram_bytes=8 * GIB) for one in TREE)
    holder = replace(HOLDER, payload=Payload(5001, 6, GIB, 0, 48 * GIB, "read", tree))
    root = nodes(tree, frozenset(), box.pool)[0]
    for width, unit in ((80, ".0G"), (140, ".0 GiB")):
        queue = queue_head(width, UNICODE, box.pool), queue_row(holder, NOW, width, UNICODE, pool=box.pool)
        processes = tree_head(width, UNICODE, box.pool), tree_row(root, 0, width, UNICODE, selected=False)
        for (head, row), size in ((queue, 48), (processes, 8)):
            assert said(row)[: said(head).index("VRAM") + len("VRAM")].endswith(f" {size}{unit}")


def said(drawn: Line) -> str:
    return "".join(span.text for span in drawn.spans)
