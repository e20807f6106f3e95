"""What the panel shows, as plain data: lessons and exercises with their state, what is next, minutes left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cannlab.course import notebook_file, workbook
from cannlab.course.layout import Layout
from cannlab.course.manifest import Exercise, Lesson
from cannlab.course.progress import State


def hint_counts(layout: Layout) -> dict[str, int]:
    """How many hints each exercise has; the files are read once."""
    counts: dict[str, int] = {}
    for lesson in layout.course.lessons:
        path = layout.solution(lesson)
        try:
            parts = workbook.parse(notebook_file.read(path), path.name).parts
        except (OSError, ValueError):
            continue
        counts |= {part.id: len(part.hints) for part in parts}
    return counts


def minutes_left(lesson: Lesson, state: State) -> int:
    """The lesson's minutes, less the share of its exercises that are passed."""
    count = len(lesson.exercises)
    return lesson.minutes if not count else round(lesson.minutes * (count - done(lesson, state)) / count)


def done(lesson: Lesson, state: State) -> int:
    """How many exercises of a lesson are passed."""
    return sum(_state(exercise, state) == "passed" for exercise in lesson.exercises)


def following(layout: Layout, state: State) -> Exercise | None:
    """The first exercise that is neither passed nor a stretch one."""
    for lesson in layout.course.lessons:
        if layout.exercise(lesson).is_file():
            for exercise in lesson.exercises:
                if not exercise.stretch and _state(exercise, state) != "passed":
                    return exercise
    return None


def _state(exercise: Exercise, state: State) -> str:
    entry = state.exercises.get(exercise.id)
    if entry is None or (not entry.tries and not entry.passed):
        return "open"
    return "passed" if entry.passed else "tried"


def overview(layout: Layout, state: State, folder: Path | None, hints: dict[str, int]) -> dict[str, Any]:
    """Everything, JSON-ready.

    Args:
        layout: the course.
        state: the learner's progress.
        folder: the learner's folder; without one nothing can be opened or reset.
        hints: how many hints each exercise has.
    """
    lessons = [lesson for lesson in layout.course.lessons if layout.exercise(lesson).is_file()]
    following_one = following(layout, state)
    return {
        "title": layout.course.title,
        "folder": "" if folder is None else str(folder),
        "home": str(Path.home()),
        "done": sum(done(lesson, state) for lesson in lessons),
        "total": sum(len(lesson.exercises) for lesson in lessons),
        "minutes": sum(minutes_left(lesson, state) for lesson in lessons),
        "next": None if following_one is None else following_one.id,
        "lessons": [_lesson(lesson, state, hints) for lesson in lessons],
    }


def _lesson(lesson: Lesson, state: State, hints: dict[str, int]) -> dict[str, Any]:
    return {
        "id": lesson.id,
        "title": lesson.title,
        "level": str(lesson.level),
        "done": done(lesson, state),
        "minutes": minutes_left(lesson, state),
        "lesson": f"notebooks/{lesson.level}/{lesson.id}.ipynb",
        "workbook": f"exercises/{lesson.level}/{lesson.id}.ipynb",
        "exercises": [_exercise(exercise, state, hints) for exercise in lesson.exercises],
    }


def _exercise(exercise: Exercise, state: State, hints: dict[str, int]) -> dict[str, Any]:
    entry = state.exercises.get(exercise.id)
    return {
        "id": exercise.id,
        "title": exercise.title,
        "stretch": exercise.stretch,
        "points": exercise.points,
        "state": _state(exercise, state),
        "tries": 0 if entry is None else entry.tries,
        "seen": 0 if entry is None else entry.hints,
        "hints": hints.get(exercise.id, 0),
    }
