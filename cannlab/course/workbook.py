"""The solved workbook: reading it by cell tags, and deriving the learner's workbook by deletion.

A cell of the solved workbook carries at most one of the tags below. A solution, hint, explanation or check
belongs to the nearest exercise above it. The learner's workbook is the solved one without its solution,
hint and explanation cells, outputs and execution counts; no other byte is rewritten.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from cannlab.course import notebook_file
from cannlab.course.problem import Problem

Notebook = Any
"""A notebook_file.Node, or nbformat's own."""


class Tag(StrEnum):
    """What a cell is."""

    SETUP = "setup"
    EXERCISE = "exercise"
    SOLUTION = "solution"
    HINT = "hint"
    EXPLANATION = "explanation"
    CHECK = "check"


DELETED = frozenset({Tag.SOLUTION, Tag.HINT, Tag.EXPLANATION})
_OTHER_TAGS = frozenset({"raises-exception", "nbval-ignore-output", "nbval-skip", "hide-input", "hide-output"})
KNOWN_TAGS = frozenset(Tag) | _OTHER_TAGS
_FIRST_LINE = re.compile(r"#\s*exercise:\s*(\S+)\s*$")
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""The metadata of every notebook of the course: nothing of the machine it was made on."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a workbook holds of one exercise. ``cell`` is the exercise cell's number, counted from 1."""

    id: str
    cell: int
    placeholder: str
    setup: tuple[str, ...]
    solution: str
    hints: tuple[str, ...]
    explanation: str


@dataclass(frozen=True, slots=True)
class Workbook:
    """A solved workbook, read."""

    file: str
    parts: tuple[Part, ...]
    problems: tuple[Problem, ...]

    def part(self, identifier: str) -> Part | None:
        """One exercise by its id."""
        return next((part for part in self.parts if part.id == identifier), None)


def tags(cell: Any) -> tuple[str, ...]:
    """The tags of a cell."""
    found = cell.metadata.get("tags", [])
    return tuple(str(tag) for tag in found) if isinstance(found, list) else ()


def role(cell: Any) -> Tag | None:
    """The one tag of ours that a cell carries."""
    own = [Tag(tag) for tag in tags(cell) if tag in frozenset(Tag)]
    return own[0] if own else None


def exercise_named(source: str) -> str:
    """The id that a cell's first line names (``# exercise: ID``), or ""."""
    for line in source.lstrip("\ufeff").splitlines():
        if line.strip():
            found = _FIRST_LINE.match(line.strip())
            return found.group(1) if found else ""
    return ""


class _Scan:
    """One pass over the cells of a solved workbook."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.setup: list[str] = []
        self.parts: list[dict[str, Any]] = []

    def problem(self, cell: int, text: str, exercise: str = "") -> None:
        self.problems.append(Problem(self.file, f"cell {cell}", text, exercise))

    def cell(self, number: int, cell: Any) -> None:
        for tag in tags(cell):
            if tag not in KNOWN_TAGS:
                self.problem(number, f"unknown tag {tag!r} (known: {', '.join(sorted(KNOWN_TAGS))})")
        own = [tag for tag in tags(cell) if tag in frozenset(Tag)]
        if len(own) > 1:
            self.problem(number, f"one of these tags only: {', '.join(own)}")
        kind = role(cell)
        named = exercise_named(cell.source) if cell.cell_type == "code" else ""
        if named and kind not in (Tag.EXERCISE, Tag.SOLUTION):
            self.problem(number, "begins with '# exercise:' but is tagged neither exercise nor solution", named)
        if kind is None:
            return
        wanted = "markdown" if kind in (Tag.HINT, Tag.EXPLANATION) else "code"
        if cell.cell_type != wanted:
            self.problem(number, f"a cell tagged {kind} must be a {wanted} cell")
        if kind is Tag.SETUP:
            self.setup.append(cell.source)
        elif kind is Tag.EXERCISE:
            self.exercise(number, cell, named)
        elif not self.parts:
            self.problem(number, f"a cell tagged {kind} stands before the first exercise")
        else:
            self.belongs(number, cell, kind, named, self.parts[-1])

    def exercise(self, number: int, cell: Any, named: str) -> None:
        meta = cell.metadata.get("cannlab", {})
        keyed = meta.get("exercise", "") if isinstance(meta, dict) else ""
        if not named:
            self.problem(number, "an exercise cell must begin with '# exercise: ID'", keyed)
        if keyed != named:
            self.problem(number, f"metadata.cannlab.exercise is {keyed!r}, the first line says {named!r}", named)
        if any(part["id"] == named for part in self.parts):
            self.problem(number, "this id stands twice in the workbook", named)
        self.parts.append(
            {"id": named or keyed, "cell": number, "placeholder": cell.source, "setup": tuple(self.setup)}
            | {"solution": None, "hints": [], "explanation": [], "check": False}
        )

    def belongs(self, number: int, cell: Any, kind: Tag, named: str, part: dict[str, Any]) -> None:
        exercise = part["id"]
        if kind is Tag.SOLUTION:
            if part["solution"] is not None:
                self.problem(number, "a second solution", exercise)
            if part["check"]:
                self.problem(number, "the solution must stand before the check cell", exercise)
            if named != exercise:
                self.problem(number, f"a solution cell must begin with '# exercise: {exercise}'", exercise)
            part["solution"] = cell.source
        elif kind is Tag.HINT:
            part["hints"].append(cell.source)
        elif kind is Tag.EXPLANATION:
            if part["solution"] is None:
                self.problem(number, "the explanation must stand after the solution", exercise)
            part["explanation"].append(cell.source)
        else:
            if part["solution"] is None:
                self.problem(number, "the check cell must stand after the solution", exercise)
            if part["check"]:
                self.problem(number, "a second check cell", exercise)
            if f'check("{exercise}")' not in cell.source:
                self.problem(number, f'the check cell must call check("{exercise}")', exercise)
            part["check"] = True

    def finish(self) -> Workbook:
        for part in self.parts:
            for key, text in (("solution", "no solution cell"), ("hints", "no hint cell")):
                if not part[key]:
                    self.problem(part["cell"], text, part["id"])
            if not part["explanation"]:
                self.problem(part["cell"], "no explanation cell", part["id"])
            if not part["check"]:
                self.problem(part["cell"], "no check cell", part["id"])
        parts = tuple(
            Part(
                part["id"],
                part["cell"],
                part["placeholder"],
                part["setup"],
                part["solution"] or "",
                tuple(part["hints"]),
                "\n\n".join(part["explanation"]),
            )
            for part in self.parts
        )
        return Workbook(self.file, parts, tuple(self.problems))


def parse(notebook: Notebook, file: str) -> Workbook:
    """Read the parts of a solved workbook; everything that is wrong with it is in ``problems``."""
    scan = _Scan(file)
    for number, cell in enumerate(notebook.cells, 1):
        scan.cell(number, cell)
    return scan.finish()


def derive(solution: Notebook) -> Notebook:
    """The learner's workbook: a copy without solution, hint and explanation cells, outputs and counts."""
    derived = copy.deepcopy(solution)
    derived.metadata = notebook_file.node(METADATA)
    derived.cells = [cell for cell in derived.cells if role(cell) not in DELETED]
    for cell in derived.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
        for noise in ("execution", "collapsed", "scrolled", "jupyter"):
            cell.metadata.pop(noise, None)
    return derived


def is_derived(solution: Path, exercise: Path) -> bool:
    """True if the stored learner's workbook is what the solved one gives today, byte for byte."""
    if not exercise.is_file():
        return False
    return exercise.read_bytes() == notebook_file.writes(derive(notebook_file.read(solution))).encode("utf-8")
