"""nbgrader.csv: assignments are those of the class, not of what one learner handed in."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from cannlab.course.grading.lms import Nbgrader
from cannlab.course.grading.plan import Plan


def _report(learner: str, *lessons: tuple[str, int, int, str], when: str = "") -> dict[str, Any]:
    files = {file: when for _, _, _, file in lessons if file}
    return {
        "learner": learner,
        "timestamps": files,
        "lessons": [
            {"id": name, "points": points, "most": most, "exercises": [{"place": f"{file}, cell 3" if file else ""}]}
            for name, points, most, file in lessons
        ],
    }


@pytest.mark.parametrize(("folders", "keep"), [(True, True), (False, True), (True, False)])
def test_rows_are_those_of_the_classs_assignments(tmp_path: Path, folders: bool, keep: bool) -> None:
    table = Nbgrader(tmp_path, Plan("", "t", "c", "s", ()), folders=folders)
    table.add(_report("ann", ("01_a", 3, 4, "ps1/01_a.ipynb"), ("02_b", 1, 2, "ps1/02_b.ipynb"), when="2026-01-02"))
    table.add(_report("bob", ("01_a", 2, 4, "ps1/01_a.ipynb"), ("02_b", 0, 2, ""), when="2026-01-01"))
    table.add(_report("cai", ("01_a", 4, 4, "old/01_a.ipynb"), ("02_b", 2, 2, "ps1/02_b.ipynb")))
    table.close(keep=keep)
    assert [path.name for path in tmp_path.iterdir()] == ([Nbgrader.NAME] if keep else [])
    if not keep:
        return
    rows = list(csv.DictReader((tmp_path / Nbgrader.NAME).open(newline="")))
    seen = [
        (r["student_id"], r["assignment"], r["timestamp"], r["score"], r["raw_score"], r["max_score"]) for r in rows
    ]
    if folders:
        assert seen == [
            ("ann", "ps1", "2026-01-02", "4.0", "4.0", "6.0"),
            ("bob", "ps1", "2026-01-01", "2.0", "2.0", "6.0"),
            ("cai", "ps1", "", "6.0", "6.0", "6.0"),
        ]
    else:
        wanted = [(who, lesson) for who in ("ann", "bob", "cai") for lesson in ("01_a", "02_b")]
        assert [row[:2] for row in seen] == wanted
