"""Everything that judging one exercise needs: manifest entry, workbook part, check."""

from __future__ import annotations

import hashlib
import importlib.util
import traceback
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from cannlab.course import notebook_file, workbook
from cannlab.course.layout import Layout
from cannlab.course.manifest import Exercise, Lesson
from cannlab.course.problem import Problem, listing
from cannlab.course.spec.check import Check
from cannlab.errors import CannlabError, diagnose


@dataclass(frozen=True)
class Bundle:
    """One exercise with all that belongs to it. ``digest`` changes when its check, setup or limits do."""

    lesson: Lesson
    exercise: Exercise
    part: workbook.Part
    check: Check
    digest: str


def import_checks(path: Path) -> ModuleType:
    """Run a file of checks. ImportError with the line if it fails."""
    spec = importlib.util.spec_from_file_location(f"cannlab_checks_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise ImportError(f"line {last.lineno}: {type(error).__name__}: {error}") from error
    return module


def load_checks(path: Path, shown: str) -> tuple[dict[str, Check], list[Problem]]:
    """The checks of a file by exercise, and what is wrong with the file."""
    problems: list[Problem] = []
    try:
        module = import_checks(path)
    except (ImportError, OSError) as error:
        return {}, [Problem(shown, "", f"cannot be loaded: {error}")]
    entries = getattr(module, "CHECKS", None)
    if not isinstance(entries, (list, tuple)) or not all(isinstance(entry, Check) for entry in entries):
        return {}, [Problem(shown, "CHECKS", "must be a list of Check")]
    checks: dict[str, Check] = {}
    for entry in entries:
        if entry.exercise in checks:
            problems.append(Problem(shown, "CHECKS", "two checks of one exercise", entry.exercise))
        checks[entry.exercise] = entry
    return checks, problems


def unknown(layout: Layout, name: str) -> CannlabError:
    """The error for a name that is neither a lesson nor an exercise."""
    names = [e.id for e in layout.course.exercises()] + [lesson.id for lesson in layout.course.lessons]
    close = get_close_matches(name, names, 1, 0.5)
    return CannlabError(
        diagnose("course.unknown_exercise", name=name, closest=f" Did you mean {close[0]}?" if close else "")
    )


def load_part(layout: Layout, identifier: str) -> tuple[Lesson, Exercise, workbook.Part]:
    """An exercise's manifest entry and workbook part. CannlabError if there is none."""
    exercise = layout.course.exercise(identifier)
    if exercise is None:
        raise unknown(layout, identifier)
    lesson = layout.course.lesson(exercise.lesson)
    assert lesson is not None
    path = layout.solution(lesson)
    try:
        part = workbook.parse(notebook_file.read(path), layout.shown(path)).part(identifier)
    except (OSError, ValueError) as problem:
        raise CannlabError(diagnose("course.engine", message=f"{layout.shown(path)}: {problem}")) from None
    if part is None:
        raise CannlabError(diagnose("course.engine", message=f"{layout.shown(path)} has no {identifier}"))
    return lesson, exercise, part


def load(layout: Layout, identifier: str) -> Bundle:
    """Everything for one exercise. CannlabError if the course lacks a part of it."""
    lesson, exercise, part = load_part(layout, identifier)
    path = layout.checks(lesson)
    checks, problems = load_checks(path, layout.shown(path))
    if identifier not in checks:
        problems = problems or [Problem(layout.shown(path), "CHECKS", "has no check of this exercise", identifier)]
        raise CannlabError(diagnose("course.engine", message=listing(problems)))
    return _bundle(lesson, exercise, part, checks[identifier], path.read_text(encoding="utf-8"))


def _bundle(lesson: Lesson, exercise: Exercise, part: workbook.Part, check: Check, text: str) -> Bundle:
    digest = hashlib.sha256()
    for piece in (text, *part.setup, part.solution, repr(exercise)):
        digest.update(piece.encode())
        digest.update(b"\0")
    return Bundle(lesson, exercise, part, check, digest.hexdigest())


def load_lesson(layout: Layout, lesson: Lesson) -> tuple[dict[str, Bundle], list[Problem]]:
    """All exercises of a lesson that the course has whole, and what is wrong with the others."""
    solution, path = layout.solution(lesson), layout.checks(lesson)
    try:
        book = workbook.parse(notebook_file.read(solution), layout.shown(solution))
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        return {}, [Problem(layout.shown(solution), "", str(problem))]
    checks, problems = load_checks(path, layout.shown(path))
    found: dict[str, Bundle] = {}
    for exercise in lesson.exercises:
        part = book.part(exercise.id)
        if part is None:
            problems.append(Problem(layout.shown(solution), "", "lacks this exercise of course.toml", exercise.id))
        elif exercise.id not in checks:
            problems.append(Problem(layout.shown(path), "CHECKS", "has no check of this exercise", exercise.id))
        else:
            found[exercise.id] = _bundle(lesson, exercise, part, checks[exercise.id], text)
    return found, problems
