"""The house's sizes and names, over every Python file of the project."""

from __future__ import annotations

import ast
import itertools
import re
import statistics
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
EVERY = [*SOURCES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "bench").rglob("*.py"))]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def nodes(paths: list[Path], *kinds: type[ast.AST]) -> Iterator[tuple[str, ast.AST, int]]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, kinds):
                name = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
                yield name, node, getattr(node, "end_lineno", 0) - getattr(node, "lineno", 0) + 1


def test_files_are_short() -> None:
    assert {str(path): lines(path) for path in EVERY if lines(path) > 400} == {}
    assert statistics.median(lines(path) for path in SOURCES) <= 150


def test_functions_are_short() -> None:
    sizes = list(nodes(EVERY, ast.FunctionDef, ast.AsyncFunctionDef))
    assert {name: size for name, _, size in sizes if size > 60} == {}
    assert statistics.median(size for _, _, size in sizes) <= 10


def test_classes_are_small() -> None:
    big = {}
    for name, node, size in nodes(SOURCES, ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
        if size > 200 or methods > 15:
            big[name] = (size, methods)
    assert big == {}


def test_no_file_is_a_drawer_for_everything() -> None:
    assert [path.name for path in SOURCES if re.search("util|helper|manager|misc|common", path.stem)] == []


def test_every_module_says_why_it_is_there() -> None:
    silent = [path for path in SOURCES if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_every_direct_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    named = [project["build-system"]["requires"], project["project"]["dependencies"], *extras]
    page = (ROOT / "docs/dependencies.md").read_text()
    names = {re.split(r"[\[<>=~! ]", requirement)[0] for requirement in itertools.chain(*named)}
    assert {name for name in names if not re.search(rf"\b{re.escape(name)}\b", page)} == set()


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-test.lock"])
def test_a_lock_names_versions_and_hashes_and_no_place(lock: str) -> None:
    text = (ROOT / lock).read_text()
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if not entry.startswith("#")]
    assert len(entries) > 10
    assert [entry.split("\n")[0] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
    assert re.findall(r"https?:|file:|--find-links|--index|\s/\w", text) == []


def test_the_locks_cover_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["test"]]
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements-test.lock").read_text(), re.M))
    names = {re.split(r"[\[<>=~! ]", requirement)[0].lower() for requirement in wanted}
    assert names - locked == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []
