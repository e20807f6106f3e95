"""A class in which honest and hostile learners stand side by side."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attacks

from cannlab.course.grading.run import Options, Summary, grade

SEED = "a seed that nobody knows"


class _Quiet:
    def begin(self, summary: Summary, done: int) -> None:
        pass

    def step(self, learner: str) -> None:
        pass


@dataclass(frozen=True)
class Graded:
    """The graded class: reports by learner, and what the folders held before and after."""

    submissions: Path
    out: Path
    reports: dict[str, dict[str, Any]]
    pages: dict[str, str]
    around: tuple[set[str], set[str]]

    def points(self, learner: str) -> dict[str, int]:
        """Points by exercise."""
        (lesson,) = self.reports[learner]["lessons"]
        return {entry["exercise"].partition(".")[2]: entry["points"] for entry in lesson["exercises"]}

    def result(self, learner: str, exercise: str) -> dict[str, Any]:
        """The result of one exercise."""
        (lesson,) = self.reports[learner]["lessons"]
        found = next(entry for entry in lesson["exercises"] if entry["exercise"] == f"01_target.{exercise}")
        return dict(found["result"])


def _everything(*roots: Path) -> set[str]:
    return {str(path) for root in roots for path in root.rglob("*")}


def grade_everybody(root: Path) -> Graded:
    """Make the class in a folder and grade it there with two jobs. CANNLAB_COURSE must name the attacked course."""
    submissions = root / "class"
    handed = [(answer.name, answer) for answer in attacks.answers(*attacks.ATTACKED, "clumsy")]
    for name, answer in handed:
        folder = submissions / name
        folder.mkdir(parents=True)
        notebook = attacks.solved(**{answer.exercise: answer.cell})
        attacks.write(attacks.only(notebook, *attacks.neighbours(answer.exercise)), folder)
    for item in attacks.HANDED:
        (submissions / item.name).mkdir()
    # Honest learners before, among and after the others.
    for name in ("0-honest", "honest-1", "n-honest", "zz-honest"):
        (submissions / name).mkdir()
        attacks.write(attacks.solved(), submissions / name)
    for item in attacks.HANDED:
        item.make(submissions / item.name)
    before = _everything(submissions, attacks.COURSE)
    options = Options(submissions, root / "out", 2, SEED, lessons=("01_target",))
    grade(options, _Quiet())
    after = _everything(submissions, attacks.COURSE)
    reports, pages = {}, {}
    for path in sorted((root / "out" / "learners").glob("*.json")):
        report = json.loads(path.read_text("utf-8"))
        reports[report["learner"]] = report
        pages[report["learner"]] = path.with_suffix(".html").read_text("utf-8")
    return Graded(submissions, root / "out", reports, pages, (before, after))
