"""The gates over the real course, lesson by lesson.

The wrong answers of all checks take most of the time: they are slow tests, and `cannlab dev check` runs them, too.
"""

from __future__ import annotations

import pytest

from cannlab.course import layout, outputs
from cannlab.course.client import Client
from cannlab.course.gates import LessonGates, manifest_gate, missing_files
from cannlab.course.manifest import Lesson
from cannlab.course.problem import listing

COURSE = layout.find()
LESSONS = [pytest.param(lesson, id=lesson.id) for lesson in COURSE.course.lessons]


def _must_exist(lesson: Lesson) -> None:
    missing = missing_files(COURSE, lesson)
    if len(missing) == len(COURSE.files(lesson)):
        pytest.skip(f"LESSON {lesson.id} IS NOT WRITTEN YET: none of its files exist")


def test_the_manifest_and_the_files_agree() -> None:
    problems = manifest_gate(COURSE)
    assert problems == [], listing(problems)


@pytest.mark.timeout(1500)  # hundreds of answers in one test: a slow machine needs its time
@pytest.mark.parametrize("lesson", LESSONS)
def test_forms_placeholders_and_solutions(lesson: Lesson, client: Client) -> None:
    _must_exist(lesson)
    gates = LessonGates(COURSE, lesson)
    problems = [*gates.forms(), *gates.proofs(client, wrong=False)]
    assert problems == [], listing(problems)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("lesson", LESSONS)
def test_every_wrong_answer_gets_its_own_diagnosis(lesson: Lesson, client: Client) -> None:
    _must_exist(lesson)
    problems = LessonGates(COURSE, lesson).proofs(client, own=False)
    assert problems == [], listing(problems)


@pytest.mark.parametrize("which", ["lesson", "solution"])
@pytest.mark.parametrize("lesson", LESSONS)
def test_stored_outputs_are_reproduced(lesson: Lesson, which: str) -> None:
    _must_exist(lesson)
    path = COURSE.files(lesson)[which]
    problems = outputs.output_gate(path, COURSE.root, COURSE.shown(path))
    assert problems == [], listing(problems)
