"""The CSV shapes that learning management systems import: Canvas, Moodle, and nbgrader's export.

The name of a learner's folder stands for the learner: the login in Canvas and Moodle, the student's id in nbgrader.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cannlab.course.grading.csv_file import CsvFile
from cannlab.course.grading.plan import Plan, PlannedLesson


def column(lesson: PlannedLesson) -> str:
    """The name of a lesson's column: "01_stack The stack on one page"."""
    return f"{lesson.id} {lesson.title}"


class Canvas:
    """canvas.csv, for the gradebook's import.

    Source: Canvas, lib/gradebook_importer.rb: the columns Student, ID, SIS User ID, SIS Login ID, Section stand before
    the assignments; the row "Points Possible" comes first; a row without ID is found by its login, then by its name.
    """

    NAME = "canvas.csv"

    def __init__(self, out: Path, plan: Plan) -> None:
        names = [column(lesson) for lesson in plan.lessons]
        self._file = CsvFile(out / self.NAME, ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *names])
        self._file.row("    Points Possible", "", "", "", "", *(lesson.points for lesson in plan.lessons))

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner."""
        points = [lesson["points"] for lesson in report["lessons"]]
        self._file.row(report["learner"], "", "", report["learner"], "", *points)

    def close(self, *, keep: bool) -> None:
        """Write the file, or take it away."""
        self._file.close(keep=keep)


class Moodle:
    """moodle.csv, for the import of grades from a CSV file.

    Source: MoodleDocs, "Grade import": the columns are mapped by hand, the learner by user name, e-mail or ID number;
    grade and feedback of an item are imported together, or grades are lost.
    """

    NAME = "moodle.csv"

    def __init__(self, out: Path, plan: Plan) -> None:
        pairs = [name for lesson in plan.lessons for name in (column(lesson), f"Feedback: {column(lesson)}")]
        self._file = CsvFile(out / self.NAME, ["Username", "ID number", "Email address", *pairs])

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner."""
        learner = report["learner"]
        cells: list[object] = []
        for lesson in report["lessons"]:
            passed = sum(entry["result"]["verdict"] == "passed" for entry in lesson["exercises"])
            stretch = f", {lesson['stretch']} stretch points" if lesson["stretch"] else ""
            cells += [lesson["points"], f"{passed} of {len(lesson['exercises'])} exercises pass{stretch}"]
        self._file.row(learner, learner, learner if "@" in learner else "", *cells)

    def close(self, *, keep: bool) -> None:
        """Write the file, or take it away."""
        self._file.close(keep=keep)


class Nbgrader:
    """nbgrader.csv, as ``nbgrader export`` writes it. Source: nbgrader, nbgrader/plugins/export.py.

    One row for each lesson and learner; the assignment is the folder that the notebook lay in, else the lesson.
    """

    NAME = "nbgrader.csv"
    COLUMNS = ("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email") + (
        "raw_score",
        "late_submission_penalty",
        "score",
        "max_score",
    )

    def __init__(self, out: Path, plan: Plan, *, folders: bool) -> None:
        self._file = CsvFile(out / self.NAME, self.COLUMNS)
        self._folders = folders

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner's lessons."""
        for lesson in report["lessons"]:
            places = [entry["place"].rpartition(", cell ")[0] for entry in lesson["exercises"] if entry["place"]]
            file = places[0] if places else ""
            assignment = file.partition("/")[0] if self._folders and "/" in file else lesson["id"]
            points, most = float(lesson["points"]), float(lesson["most"])
            when = report["timestamps"].get(file, "")
            self._file.row(assignment, "", when, report["learner"], "", "", "", points, 0.0, points, most)

    def close(self, *, keep: bool) -> None:
        """Write the file, or take it away."""
        self._file.close(keep=keep)
