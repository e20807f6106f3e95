"""The solved workbook: its parts, its mistakes, and what is derived from it."""

from __future__ import annotations

from typing import Any

import pytest

from cannlab.course import notebook_file, workbook
from cannlab.course.layout import Layout
from cannlab.course.workbook import Tag


def _solved(layout: Layout) -> Any:
    return notebook_file.read(layout.solution(layout.course.lessons[0]))


def _cell(notebook: Any, identifier: str) -> Any:
    return next(cell for cell in notebook.cells if cell.id == identifier)


def test_the_parts_of_an_exercise_are_found(tiny: Layout) -> None:
    book = workbook.parse(_solved(tiny), "w")
    assert book.problems == ()
    assert [part.id for part in book.parts] == [f"01_tiny.{name}" for name in ("pad", "bytes", "unit", "total")]
    pad = book.parts[0]
    assert pad.setup[0].startswith("import numpy")
    assert (len(pad.hints), "concatenate" in pad.solution, "return None" in pad.placeholder) == (2, True, True)
    assert pad.explanation == "`-n % 8` is **0** for a multiple of 8."


def test_derivation_only_deletes(tiny: Layout) -> None:
    solved = _solved(tiny)
    derived = workbook.derive(solved)
    kept = [cell for cell in solved.cells if workbook.role(cell) not in (Tag.SOLUTION, Tag.HINT, Tag.EXPLANATION)]
    assert [cell.id for cell in derived.cells] == [cell.id for cell in kept]
    assert [cell.source for cell in derived.cells] == [cell.source for cell in kept]
    assert any(cell.get("outputs") for cell in solved.cells)
    assert all(
        cell.outputs == [] and cell.execution_count is None for cell in derived.cells if cell.cell_type == "code"
    )
    assert notebook_file.writes(workbook.derive(solved)) == notebook_file.writes(derived)


def test_derivation_forgets_the_machine_it_was_made_on(tiny: Layout) -> None:
    solved = _solved(tiny)
    solved.metadata["language_info"] = {"name": "python", "version": "3.99"}
    solved.cells[1].metadata["execution"] = {"iopub.execute_input": "2020"}
    assert notebook_file.writes(workbook.derive(solved)) == notebook_file.writes(workbook.derive(_solved(tiny)))


def test_a_changed_workbook_is_not_the_derived_one(copied: Layout) -> None:
    lesson = copied.course.lessons[0]
    solution, exercise = copied.solution(lesson), copied.exercise(lesson)
    assert workbook.is_derived(solution, exercise)
    exercise.write_bytes(exercise.read_bytes().replace(b"5 minutes", b"6 minutes"))
    assert not workbook.is_derived(solution, exercise)
    exercise.unlink()
    assert not workbook.is_derived(solution, exercise)


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("# exercise: a.b\nx", "a.b"),
        ("\n\n#exercise: a.b  \n", "a.b"),
        ("\ufeff# exercise: a.b\r\nx", "a.b"),
        ("x = 1\n# exercise: a.b", ""),
        ("# exercise a.b", ""),
        ("", ""),
    ],
)
def test_the_first_line_names_the_exercise(source: str, named: str) -> None:
    assert workbook.exercise_named(source) == named


def _swap(notebook: Any, one: str, other: str) -> None:
    cells = notebook.cells
    a, b = cells.index(_cell(notebook, one)), cells.index(_cell(notebook, other))
    cells[a], cells[b] = cells[b], cells[a]


MISTAKES = {
    "unknown tag": (lambda n: n.cells[0].metadata.update(tags=["poem"]), "unknown tag 'poem'"),
    "two tags": (lambda n: _cell(n, "pad-hint1").metadata.tags.append("check"), "one of these tags only"),
    "solution after check": (lambda n: _swap(n, "pad-solution", "pad-check"), "before the check cell"),
    "explanation first": (lambda n: _swap(n, "pad-solution", "pad-explanation"), "must stand after the solution"),
    "no solution": (lambda n: n.cells.remove(_cell(n, "pad-solution")), "no solution cell"),
    "no hint": (lambda n: n.cells.remove(_cell(n, "unit-hint1")), "no hint cell"),
    "no explanation": (lambda n: n.cells.remove(_cell(n, "unit-explanation")), "no explanation cell"),
    "no check": (lambda n: n.cells.remove(_cell(n, "unit-check")), "no check cell"),
    "other check": (lambda n: _cell(n, "unit-check").update(source='check("01_tiny.pad")'), "must call check"),
    "metadata": (lambda n: _cell(n, "unit-exercise").metadata.cannlab.update(exercise="x"), "the first line says"),
    "first line": (lambda n: _cell(n, "unit-exercise").update(source="answer = 1"), "must begin with"),
    "solution line": (lambda n: _cell(n, "unit-solution").update(source='answer = "c"'), "must begin with"),
    "hint is code": (lambda n: _cell(n, "unit-hint1").update(cell_type="code"), "must be a markdown cell"),
    "untagged answer": (lambda n: _cell(n, "unit-solution").metadata.update(tags=[]), "tagged neither"),
    "before any": (lambda n: n.cells.insert(0, n.cells.pop(4)), "before the first exercise"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_named_with_its_cell(tiny: Layout, name: str) -> None:
    damage, text = MISTAKES[name]
    notebook = _solved(tiny)
    damage(notebook)
    problems = workbook.parse(notebook, "w.ipynb").problems
    found = [problem for problem in problems if text in problem.text]
    assert found, [str(problem) for problem in problems]
    assert found[0].file == "w.ipynb"
    assert found[0].place.startswith("cell ")
