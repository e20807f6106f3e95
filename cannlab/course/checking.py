"""A learner's check from end to end: judged in the checking process, progress kept, hint or explanation added."""

from __future__ import annotations

from collections.abc import Mapping

from cannlab.course import layout
from cannlab.course.bundle import unknown
from cannlab.course.client import Client, client
from cannlab.course.progress import Progress
from cannlab.course.result import Result, Verdict
from cannlab.errors import diagnose


def check(
    exercise: str,
    source: str | None,
    *,
    elsewhere: Mapping[str, str] | None = None,
    notes: tuple[str, ...] = (),
    progress: Progress | None = None,
    through: Client | None = None,
) -> Result:
    """Check an answer of a learner.

    Args:
        exercise: its id.
        source: the cell, or None if there is none yet.
        elsewhere: names that the learner's other cells define.
        notes: remarks to show.
        progress: the file to keep it in; that of the working directory by default.
        through: the checking process to use.

    Raises:
        CannlabError: no such exercise, or the checking process was lost.
    """
    kept = progress or Progress.here()
    found = layout.find()
    if found.course.exercise(exercise) is None:
        raise unknown(found, exercise)
    if source is None:
        missing = diagnose("course.not_run", exercise=exercise)
        return Result(exercise, "", Verdict.FAILED, diagnosis=missing)
    terms = {"learner": kept.read().learner, "elsewhere": dict(elsewhere or {})}
    result = (through or client()).check(found.root, exercise, source, terms)
    result = result.with_(notes=(*result.notes, *notes))
    if result.verdict is Verdict.ERROR:
        return result
    with kept.change() as state:
        entry = state.entry(exercise)
        entry.attempts += 1
        entry.passed = entry.passed or result.passed
        seen = entry.hints
    return result.with_(hints_seen=seen)
