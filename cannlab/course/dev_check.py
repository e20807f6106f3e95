"""Every gate over lessons, for ``cannlab dev check``: all problems at once, the proofs side by side."""

from __future__ import annotations

from collections.abc import Callable

from cannlab.course import author, manifest
from cannlab.course.client import Client
from cannlab.course.clients import Clients
from cannlab.course.gates import LessonGates, manifest_gate
from cannlab.course.layout import Layout
from cannlab.course.manifest import Exercise, Lesson
from cannlab.course.problem import Problem
from cannlab.errors import CannlabError

Choose = Callable[[Layout, list[str] | None], list[Lesson]]


def problems(
    layout: Layout, names: list[str] | None, choose: Choose, *, outputs: bool, jobs: int
) -> tuple[list[Problem], list[str]]:
    """Everything that is wrong with these lessons, and their ids.

    Args:
        layout: the course.
        names: what the author asked for.
        choose: gives the lessons of the names.
        outputs: execute the notebooks too.
        jobs: checking processes.

    Raises:
        CannlabError: there is no such lesson.
    """
    found = manifest_gate(layout)
    course, mistakes = manifest.read((layout.root / "course.toml").read_text(encoding="utf-8"))
    if course is None:
        return found, []
    if mistakes:
        # What can be read of a manifest with mistakes; answers cannot be run before they are corrected.
        layout.__dict__["course"] = course
    lessons = choose(layout, names)
    gates = [LessonGates(layout, lesson) for lesson in lessons]
    for entry in gates:
        found += entry.forms()
    if mistakes:
        found.append(Problem("course.toml", "", "no answer was run: correct the manifest first"))
        return found, [lesson.id for lesson in lessons]
    with Clients(jobs) as clients:
        pairs = [(entry, exercise) for entry in gates for exercise in entry.lesson.exercises]
        for proofs in clients.each(_prove, pairs):
            found += proofs
    if outputs:
        for lesson in lessons:
            if layout.notebook(lesson).is_file() and layout.solution(lesson).is_file():
                found += author.stored(layout, lesson)
    return found, [lesson.id for lesson in lessons]


def _prove(client: Client, pair: tuple[LessonGates, Exercise]) -> list[Problem]:
    gates, exercise = pair
    try:
        return gates.prove(client, exercise)
    except CannlabError as problem:
        return [Problem(gates.shown["checks"], "", problem.diagnosis.what, exercise.id)]
