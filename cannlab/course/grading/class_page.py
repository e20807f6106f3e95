"""class.html: for each exercise how many pass, and what goes wrong most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from cannlab.course.grading.page import Markup, bar, page, row
from cannlab.course.grading.plan import Plan
from cannlab.trace.whole_file import write_whole

_MOST = 5
_ABSENT = frozenset({"grading.no_notebook", "grading.no_cell", "grading.lost_cell"})


@dataclass
class _Tally:
    passed: int = 0
    failed: int = 0
    not_started: int = 0
    absent: int = 0
    no_verdict: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


class ClassPage:
    """Counts while the reports go by."""

    NAME = "class.html"

    def __init__(self, out: Path, plan: Plan) -> None:
        self._path = out / self.NAME
        self._plan = plan
        self._tallies = {exercise.id: _Tally() for exercise in plan.exercises}
        self._learners = 0
        self._points: Counter[int] = Counter()
        self._unreadable: list[tuple[str, str]] = []

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner."""
        self._learners += 1
        self._points[10 * report["points"] // report["most"] if report["most"] else 0] += 1
        self._unreadable += [(report["learner"], text) for text in report["unreadable"]]
        for lesson in report["lessons"]:
            for entry in lesson["exercises"]:
                self._count(self._tallies[entry["exercise"]], entry["result"])

    @staticmethod
    def _count(tally: _Tally, result: Mapping[str, Any]) -> None:
        diagnosis = result["diagnosis"] or {"rule": "", "title": "", "what": ""}
        if result["verdict"] == "passed":
            tally.passed += 1
        elif result["verdict"] == "error":
            tally.no_verdict += 1
        elif diagnosis["rule"] in _ABSENT:
            tally.absent += 1
        elif diagnosis["rule"] == "course.not_started":
            tally.not_started += 1
        else:
            tally.failed += 1
            # A misconception's sentence is the course's own; other sentences hold the learner's facts.
            known = diagnosis["rule"] == "course.misconception"
            tally.reasons[diagnosis["what"] if known else diagnosis["title"]] += 1

    def close(self, *, keep: bool) -> None:
        """Write the page, if it is to be kept."""
        if keep:
            write_whole(self._path, self._page())

    def _page(self) -> bytes:
        parts = ["<h1>Class overview</h1>", f"<p>{escape(self._plan.title)}: {self._learners} learners</p>"]
        parts += ["<h2>Points</h2>", self._distribution()]
        for lesson in self._plan.lessons:
            head = row(
                "exercise", "", "pass", "fail", "not started", "no answer", "no verdict", "most often", head=True
            )
            rows = [self._exercise(exercise.id, exercise.title) for exercise in lesson.exercises]
            parts.append(f"<h2>{escape(lesson.id)} {escape(lesson.title)}</h2><table>{head}{''.join(rows)}</table>")
        if self._unreadable:
            rows = [row(learner, text) for learner, text in self._unreadable]
            parts.append(f"<h2>Could not be read</h2><table>{''.join(rows)}</table>")
        return page("Class overview", "\n".join(parts))

    def _distribution(self) -> str:
        rows = []
        for tenth in range(11):
            label = "100 %" if tenth == 10 else f"{10 * tenth} to {10 * tenth + 9} %"
            count = self._points[tenth]
            rows.append(row(label, count, bar(count, self._learners)))
        return f"<table>{row('points', 'learners', '', head=True)}{''.join(rows)}</table>"

    def _exercise(self, identifier: str, title: str) -> str:
        tally = self._tallies[identifier]
        ranked = sorted(tally.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        reasons = [f"{count} \u00d7 {escape(reason)}" for reason, count in ranked[:_MOST]]
        if len(ranked) > _MOST:
            reasons.append(f"{sum(count for _, count in ranked[_MOST:])} \u00d7 other")
        return row(
            Markup(f"<code>{escape(identifier)}</code><br>{escape(title)}"),
            bar(tally.passed, self._learners),
            tally.passed,
            tally.failed,
            tally.not_started,
            tally.absent,
            tally.no_verdict,
            Markup("<br>".join(reasons)),
        )
