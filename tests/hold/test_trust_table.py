"""The table of what a member cannot do, and the tests of it: neither has a row that the other lacks."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "security.md"
PREFIX = "test_cannot_"


def test_each_cannot_has_its_test_and_each_test_its_row() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE)
    tests = [
        node.name.removeprefix(PREFIX).replace("_", "-")
        for path in sorted(HERE.glob("test_trust_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith(PREFIX)
    ]
    assert sorted(rows) == sorted(tests)
