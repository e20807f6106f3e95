"""gradebook.csv: one row per learner, one column per exercise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cannlab.course.grading.csv_file import CsvFile
from cannlab.course.grading.plan import Plan


class Gradebook:
    """Columns: learner, points, most, stretch, ungraded, then the points of each exercise, then the remarks."""

    NAME = "gradebook.csv"

    def __init__(self, out: Path, plan: Plan) -> None:
        exercises = [exercise.id for exercise in plan.exercises]
        header = ["learner", "points", "most", "stretch", "ungraded", *exercises, "notes"]
        self._file = CsvFile(out / self.NAME, header)

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner."""
        points = [entry["points"] for lesson in report["lessons"] for entry in lesson["exercises"]]
        notes = " | ".join([*report["unreadable"], *report["notes"]])
        self._file.row(
            report["learner"],
            report["points"],
            report["most"],
            report["stretch"],
            report["ungraded"],
            *points,
            notes[:2000],
        )

    def close(self, *, keep: bool) -> None:
        """Write the file, or take it away."""
        self._file.close(keep=keep)
