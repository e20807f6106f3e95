"""The CSV shapes that learning management systems import: Canvas, Moodle, and nbgrader's export.

The name of a learner's folder stands for the learner: the login in Canvas and Moodle, the student's id in nbgrader.
"""

from __future__ import annotations

from collections import Counter
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

    One row for each assignment and learner. A lesson's assignment is the folder in which most learners have its
    notebook, else the lesson's id; the points of an assignment with several notebooks are added up.
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
        self._folders: dict[str, Counter[str]] | None = {} if folders else None
        self._rows: list[tuple[str, list[tuple[str, int, int, str]]]] = []

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner's lessons. What the assignments are called is known when all learners are."""
        lessons = []
        for lesson in report["lessons"]:
            places = [entry["place"].rpartition(", cell ")[0] for entry in lesson["exercises"] if entry["place"]]
            file = places[0] if places else ""
            if self._folders is not None and "/" in file:
                self._folders.setdefault(lesson["id"], Counter())[file.partition("/")[0]] += 1
            when = report["timestamps"].get(file, "")
            lessons.append((lesson["id"], lesson["points"], lesson["most"], when))
        self._rows.append((report["learner"], lessons))

    def close(self, *, keep: bool) -> None:
        """Write the file, or take it away."""
        votes = (self._folders or {}).items()
        names = {lesson: min(found, key=lambda name: (-found[name], name)) for lesson, found in votes}
        for learner, lessons in self._rows:
            assignments: dict[str, tuple[float, float, str]] = {}
            for lesson, points, most, when in lessons:
                name = names.get(lesson, lesson)
                got, of, since = assignments.get(name, (0.0, 0.0, ""))
                assignments[name] = (got + points, of + most, max(since, when))
            for name, (got, of, when) in assignments.items():
                self._file.row(name, "", when, learner, "", "", "", got, 0.0, got, of)
        self._file.close(keep=keep)
