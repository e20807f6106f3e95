"""nbgrader and otter-grader on ten submissions of one trivial notebook (for bench_grade.py others)."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

LEARNERS = [f"s{number:02d}" for number in range(10)]
ANSWER = "def squares(n):\n    return [i * i for i in range(n)]"
TEST = "assert squares(1) == [0]\nassert squares(4) == [0, 1, 4, 9]"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def _run(words: list[Any], folder: Path) -> None:
    # nbgrader calls alembic by its name.
    path = f"{Path(words[0]).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=600, env={**os.environ, "PATH": path})


def _write(path: Path, cells: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}))


def _cell(kind: str, text: str, identifier: str, **meta: Any) -> dict[str, Any]:
    extra: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "id": identifier, "metadata": meta, "source": text, **extra}


def nbgrader(tools: Path, folder: Path) -> float:
    """Seconds of ``nbgrader autograde`` for the class, in one process."""
    course = folder / "nbgrader"
    common = {"schema_version": 3, "locked": False, "task": False}
    answer = {**common, "grade": False, "grade_id": "squares", "solution": True}
    test = {**common, "grade": True, "grade_id": "test", "solution": False, "locked": True, "points": 2}
    solved = f"### BEGIN SOLUTION\n{ANSWER}\n### END SOLUTION"
    _write(
        course / "source" / "ps1" / "p.ipynb",
        [_cell("code", solved, "a", nbgrader=answer), _cell("code", TEST, "b", nbgrader=test)],
    )
    (course / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'bench'\n")
    _run([tools / "python", "-m", "nbgrader", "generate_assignment", "ps1", "--force"], course)
    released = json.loads((course / "release" / "ps1" / "p.ipynb").read_text())
    released["cells"][0]["source"] = ANSWER
    for learner in LEARNERS:
        path = course / "submitted" / learner / "ps1" / "p.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(released))
    start = time.perf_counter()
    _run([tools / "python", "-m", "nbgrader", "autograde", "ps1", "--force"], course)
    seconds = time.perf_counter() - start
    _run([tools / "python", "-m", "nbgrader", "export"], course)
    rows = (course / "grades.csv").read_text().splitlines()
    assert len(rows) == 1 + len(LEARNERS), rows
    assert all(row.endswith("2.0,2.0") for row in rows[1:]), rows
    print("nbgrader exports:", rows[0])
    return seconds


def otter(tools: Path, folder: Path) -> float:
    """Seconds of ``otter run`` for the class, a process each."""
    course = folder / "otter"
    raw = [
        _cell("raw", "# ASSIGNMENT CONFIG\nname: hw1\ngenerate: true\ninit_cell: false", "a"),
        _cell("raw", "# BEGIN QUESTION\nname: q1\npoints: 2", "b"),
        _cell("markdown", "Squares.", "c"),
        _cell("raw", "# BEGIN SOLUTION", "d"),
        _cell("code", f"{ANSWER.splitlines()[0]}\n    return [i * i for i in range(n)] # SOLUTION", "e"),
        _cell("raw", "# END SOLUTION", "f"),
        _cell("raw", "# BEGIN TESTS", "g"),
        _cell("code", "squares(4) == [0, 1, 4, 9]", "h"),
        _cell("raw", "# END TESTS", "i"),
        _cell("raw", "# END QUESTION", "j"),
    ]
    raw[7]["outputs"] = [
        {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": {"text/plain": "True"}}
    ]
    _write(course / "hw1.ipynb", raw)
    _run([tools / "otter", "assign", "hw1.ipynb", "dist", "--no-run-tests"], course)
    archive = next((course / "dist" / "autograder").glob("*.zip"))
    given = json.loads((course / "dist" / "student" / "hw1.ipynb").read_text())
    for cell in given["cells"]:
        text = cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"])
        if cell["cell_type"] == "code" and "def squares" in text:
            cell["source"] = ANSWER
    paths = []
    for learner in LEARNERS:
        path = course / "subs" / f"{learner}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(given))
        paths.append(path)
    (course / "out").mkdir()
    start = time.perf_counter()
    for path in paths:
        _run([tools / "otter", "run", path, "-a", archive, "-o", course / "out"], course)
    seconds = time.perf_counter() - start
    scores = json.loads((course / "out" / "results.json").read_text())["tests"]
    assert sum(test.get("score", 0) for test in scores) == 2, scores
    return seconds
