"""A course of trivial exercises and classes of learners, made on the spot (also for benchmarks/bench_grade.py)."""

from __future__ import annotations

import copy
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LESSON = "01_trivial"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def exercise(number: int) -> str:
    """The id of the exercise that multiplies by ``number + 1``."""
    return f"{LESSON}.times{number}"


def right(number: int) -> str:
    """A right answer."""
    return f"# exercise: {exercise(number)}\ndef times(values):\n    return [{number + 1} * value for value in values]"


def placeholder(number: int) -> str:
    """The cell as it is given."""
    return f"# exercise: {exercise(number)}\ndef times(values):\n    return None"


def cell(kind: str, text: str, *, exercise: str = "", tag: str = "", identifier: str = "") -> dict[str, Any]:
    """A notebook's cell."""
    meta: dict[str, Any] = {"cannlab": {"exercise": exercise}} if exercise else {}
    if tag:
        meta["tags"] = [tag]
    found: dict[str, Any] = {"cell_type": kind, "id": identifier or f"c{zlib.crc32(text.encode())}", "metadata": meta}
    found["source"] = text.splitlines(keepends=True)
    return found | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def notebook(cells: list[dict[str, Any]], learner: str = "") -> dict[str, Any]:
    """A notebook."""
    meta: dict[str, Any] = copy.deepcopy(KERNEL) | ({"cannlab": {"learner": learner}} if learner else {})
    return {"cells": cells, "metadata": meta, "nbformat": 4, "nbformat_minor": 5}


SETUP = "import numpy as np\n\nfrom cannlab import check, hint"
CHECKS = '''"""Checks."""

from cannlab.course.spec import Check, Misconception, call, gives

CHECKS = [
    Check(
        f"{lesson}.times{{number}}",
        run=call("times"),
        draw=lambda rng, n: {{"values": [int(v) for v in rng.integers(1, 1000, n)]}},
        sizes=(1, 2, 9),
        reference=lambda values, number=number: [(number + 1) * value for value in values],
        misconceptions=(
            Misconception(
                "added",
                "",
                gives(lambda values, number=number: [number + 1 + value for value in values]),
                what="the number is added.",
                why="Times means a product.",
                do="Multiply.",
            ),
        ),
    )
    for number in range({count})
]
'''


def make_course(root: Path, count: int = 10) -> Path:
    """Write a course with one lesson of ``count`` exercises, worth one point each."""
    for kind in ("solutions", "exercises", "notebooks"):
        (root / kind / "basic").mkdir(parents=True)
    (root / "checks").mkdir()
    lines = ['[course]\ntitle = "trivial"\nversion = "1"\n']
    lines.append(f'[[lesson]]\nid = "{LESSON}"\ntitle = "Trivial"\nlevel = "basic"\nminutes = 5\nprerequisites = []\n')
    limits = "limits = { cpu = 1, wall = 3, memory = 1024, output = 64, result = 4 }"
    for number in range(count):
        lines.append(f'[[lesson.exercise]]\nid = "{exercise(number)}"\ntitle = "Times"\nkind = "code"\n{limits}\n')
    (root / "course.toml").write_text("\n".join(lines))
    (root / "checks" / f"c{LESSON}.py").write_text(CHECKS.format(lesson=LESSON, count=count))
    solved = [cell("markdown", "# Trivial\n\n5 minutes"), cell("code", SETUP, tag="setup")]
    for number in range(count):
        name = exercise(number)
        solved += [
            cell("code", placeholder(number), exercise=name, tag="exercise"),
            cell("markdown", "Multiply.", tag="hint"),
            cell("code", right(number), tag="solution"),
            cell("markdown", "A product.", tag="explanation"),
            cell("code", f'check("{name}")', tag="check"),
        ]
    text = json.dumps(notebook(solved))
    (root / "solutions" / "basic" / f"{LESSON}.ipynb").write_text(text)
    return root


def workbook(answers: Mapping[int, str], count: int = 10, learner: str = "") -> dict[str, Any]:
    """A learner's workbook: ``answers`` by number, placeholders elsewhere."""
    cells = [cell("markdown", "# Trivial"), cell("code", SETUP, tag="setup")]
    for number in range(count):
        name = exercise(number)
        cells.append(cell("code", answers.get(number, placeholder(number)), exercise=name, tag="exercise"))
        cells.append(cell("code", f'check("{name}")', tag="check"))
    return notebook(cells, learner)


def hand_in(submissions: Path, learner: str, book: Mapping[str, Any] | bytes, name: str = f"{LESSON}.ipynb") -> Path:
    """Put a workbook into a learner's folder."""
    path = submissions / learner / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(book if isinstance(book, bytes) else json.dumps(book).encode())
    return path


def make_class(submissions: Path, learners: int, count: int = 10) -> Path:
    """Everybody right."""
    book = workbook({number: right(number) for number in range(count)}, count)
    for index in range(learners):
        book["metadata"]["cannlab"] = {"learner": f"seed{index:04d}"}
        hand_in(submissions, f"learner{index:04d}", book)
    return submissions
