"""docs/coverage.md is complete for the lessons that exist."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| ([ABC][\w.]+) \| (.+?) \| (\d\d_\w+) \| ([\w-]*) ?\| (\w+) \|$")
# The articles have this many items; a row that is lost makes the test fail.
ITEMS = {"A": 44, "B": 46, "C": 25}


def _rows() -> list[tuple[str, ...]]:
    lines = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if re.match(r"\| [ABC]\d", line)]
    matches = [ROW.match(line) for line in table]
    bad = [line for line, match in zip(table, matches, strict=True) if match is None]
    assert not bad, f"rows that cannot be read: {bad}"
    return [match.groups() for match in matches if match]


def _cells(lesson: str) -> set[str] | None:
    found = list((ROOT / "notebooks").glob(f"*/{lesson}.ipynb"))
    if not found:
        return None
    return {cell.id for cell in nbformat.read(found[0], as_version=4).cells}


def test_every_item_of_the_articles_has_one_row() -> None:
    items = [row[0] for row in _rows()]
    assert len(items) == len(set(items))
    assert {article: sum(item[0] == article for item in items) for article in "ABC"} == ITEMS


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row[0])
def test_the_row_points_at_a_cell(row: tuple[str, ...]) -> None:
    item, _, lesson, cell, how = row
    assert how in {"teaches", "refutes"}
    cells = _cells(lesson)
    if cells is None:
        assert cell == "", f"{item}: lesson {lesson} does not exist yet"
    else:
        assert cell in cells, f"{item}: notebook {lesson} has no cell {cell!r}"
