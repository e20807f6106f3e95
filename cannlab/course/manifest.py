"""course.toml: what the course holds, in what order, for how many minutes, after what.

Format: docs/authoring.md. All mistakes are reported at once, each with the file and the key.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from cannlab.course.problem import Problem, listing
from cannlab.errors import CannlabError, diagnose


class Level(StrEnum):
    """The three levels; also the folder names."""

    BASIC = "basic"
    INTERMEDIATE = "intermediate"
    ADVANCED = "advanced"


class Kind(StrEnum):
    """What an exercise asks for."""

    CODE = "code"
    KERNEL = "kernel"
    COMMAND = "command"
    PREDICTION = "prediction"
    REPAIR = "repair"
    CHOICE = "choice"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Limits:
    """What an answer may use, for all its cases together.

    Attributes:
        cpu: seconds of processor time.
        wall: seconds by the clock.
        memory: MiB of address space beyond what the checking process has mapped.
        output: KiB of printed text.
        result: MiB of plain data given back.
        disk: MiB of one file.
        files: open files.
    """

    cpu: int = 10
    wall: int = 20
    memory: int = 2048
    output: int = 1024
    result: int = 64
    disk: int = 256
    files: int = 128

    def times(self, rounds: int, patience: int = 1) -> Limits:
        """What so many rounds of the same cases may use; ``patience`` gives the clock more room on a busy machine."""
        return replace(
            self,
            cpu=self.cpu * rounds,
            wall=self.wall * rounds * patience,
            output=self.output * rounds,
            result=self.result * rounds,
        )


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise. ``preload`` names heavy modules that the checking process imports before it forks."""

    id: str
    title: str
    kind: Kind
    points: int = 1
    stretch: bool = False
    limits: Limits = Limits()
    preload: tuple[str, ...] = ()

    @property
    def lesson(self) -> str:
        """The id of its lesson."""
        return self.id.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson with its workbook. ``later``: announced, and its files may be missing."""

    id: str
    title: str
    level: Level
    minutes: int
    prerequisites: tuple[str, ...] = ()
    exercises: tuple[Exercise, ...] = ()
    later: bool = False


@dataclass(frozen=True, slots=True)
class Course:
    """The whole manifest, lessons in order."""

    title: str
    version: str
    lessons: tuple[Lesson, ...]

    def lesson(self, identifier: str) -> Lesson | None:
        """A lesson by its id."""
        return next((lesson for lesson in self.lessons if lesson.id == identifier), None)

    def exercise(self, identifier: str) -> Exercise | None:
        """An exercise by its id."""
        return next((exercise for exercise in self.exercises() if exercise.id == identifier), None)

    def exercises(self) -> Iterator[Exercise]:
        """All exercises in order."""
        for lesson in self.lessons:
            yield from lesson.exercises


class _Reader:
    """Reads values of a table and collects what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []

    def problem(self, place: str, text: str) -> None:
        self.problems.append(Problem(self.file, place, text))

    def take(self, table: Mapping[str, Any], key: str, kind: type, place: str, default: Any = None) -> Any:
        """The value of a key; the default (or an empty value of the type) if it is missing or wrong."""
        empty = default if default is not None else kind()
        if key not in table:
            if default is None:
                self.problem(f"{place}.{key}", "is missing")
            return empty
        value = table[key]
        if type(value) is not kind:
            self.problem(f"{place}.{key}", f"must be {_NAMES[kind]}, got {value!r}")
            return empty
        return value

    def texts(self, table: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
        """A list of strings, empty by default."""
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.problem(f"{place}.{key}", f"must be a list of strings, got {value!r}")
            return ()
        return tuple(value)

    def positive(self, table: Mapping[str, Any], key: str, place: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.take(table, key, int, place, default)
        if key in table and type(table[key]) is int and value < 1:
            self.problem(f"{place}.{key}", f"must be at least 1, got {value}")
        return int(value)

    def only(self, table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
        """Complain about keys that nobody reads."""
        for key in table:
            if key not in known:
                self.problem(f"{place}.{key}", f"is not known here (known: {', '.join(known)})")


_NAMES = {str: "a string", int: "a whole number", bool: "true or false", dict: "a table", list: "a list"}
_LIMITS = tuple(field.name for field in fields(Limits))
_MODULES = ("torch", "matplotlib.pyplot", "sklearn")


def _choice(reader: _Reader, choices: type[StrEnum], value: str, place: str) -> Any:
    try:
        return choices(value)
    except ValueError:
        reader.problem(place, f"must be one of {', '.join(choices)}, got {value!r}")
        return next(iter(choices))


def _exercise(reader: _Reader, table: Any, lesson: str, place: str) -> Exercise | None:
    if not isinstance(table, dict):
        reader.problem(place, "must be a table")
        return None
    reader.only(table, ("id", "title", "kind", "points", "stretch", "limits", "preload"), place)
    identifier = reader.take(table, "id", str, place)
    head, dot, name = identifier.partition(".")
    if identifier and not (dot and head == lesson and name.isidentifier()):
        reader.problem(f"{place}.id", f"must be {lesson}.NAME with NAME a Python name, got {identifier!r}")
    given = reader.take(table, "limits", dict, place, {})
    reader.only(given, _LIMITS, f"{place}.limits")
    limits = {key: reader.positive(given, key, f"{place}.limits") for key in _LIMITS if key in given}
    preload = reader.texts(table, "preload", place)
    for module in preload:
        if module not in _MODULES:
            reader.problem(f"{place}.preload", f"may name {', '.join(_MODULES)}, got {module!r}")
    return Exercise(
        id=identifier,
        title=reader.take(table, "title", str, place),
        kind=_choice(reader, Kind, reader.take(table, "kind", str, place), f"{place}.kind"),
        points=reader.positive(table, "points", place, 1),
        stretch=reader.take(table, "stretch", bool, place, False),
        limits=Limits(**limits),
        preload=preload,
    )


def _lesson(reader: _Reader, table: Any, number: int) -> Lesson | None:
    place = f"lesson[{number}]"
    if not isinstance(table, dict):
        reader.problem(place, "must be a table")
        return None
    known = ("id", "title", "level", "minutes", "prerequisites", "exercise", "later")
    identifier = reader.take(table, "id", str, place)
    place = f"lesson {identifier}" if identifier else place
    reader.only(table, known, place)
    if (identifier and not identifier.isascii()) or "." in identifier or "/" in identifier:
        reader.problem(f"{place}.id", "must be NN_topic in ASCII without dots and slashes")
    exercises = []
    entries = reader.take(table, "exercise", list, place, [])
    for index, entry in enumerate(entries, 1):
        named = entry.get("id") if isinstance(entry, dict) else None
        exercise = _exercise(reader, entry, identifier, f"{place}, exercise {named or index}")
        if exercise is not None:
            exercises.append(exercise)
    return Lesson(
        id=identifier,
        title=reader.take(table, "title", str, place),
        level=_choice(reader, Level, reader.take(table, "level", str, place), f"{place}.level"),
        minutes=reader.positive(table, "minutes", place),
        prerequisites=reader.texts(table, "prerequisites", place),
        exercises=tuple(exercises),
        later=reader.take(table, "later", bool, place, False),
    )


def _order(reader: _Reader, lessons: tuple[Lesson, ...]) -> None:
    """Ids are unique and prerequisites stand above the lesson that needs them."""
    seen: set[str] = set()
    exercises: set[str] = set()
    everything = {lesson.id for lesson in lessons}
    for lesson in lessons:
        if lesson.id in seen:
            reader.problem(f"lesson {lesson.id}.id", "stands twice")
        for needed in lesson.prerequisites:
            if needed not in everything:
                reader.problem(f"lesson {lesson.id}.prerequisites", f"there is no lesson {needed!r}")
            elif needed not in seen:
                reader.problem(f"lesson {lesson.id}.prerequisites", f"{needed} must stand above this lesson")
        for exercise in lesson.exercises:
            if exercise.id in exercises:
                reader.problem(f"lesson {lesson.id}, exercise {exercise.id}.id", "stands twice")
            exercises.add(exercise.id)
        seen.add(lesson.id)


def read(text: str, file: str = "course.toml") -> tuple[Course | None, tuple[Problem, ...]]:
    """Read a manifest. Gives the course (None if the text is no TOML at all) and everything that is wrong."""
    reader = _Reader(file)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        return None, (Problem(file, "", f"is not TOML: {problem}"),)
    reader.only(data, ("course", "lesson"), "top")
    head = reader.take(data, "course", dict, "top")
    reader.only(head, ("title", "version"), "course")
    title = reader.take(head, "title", str, "course")
    version = reader.take(head, "version", str, "course")
    entries = reader.take(data, "lesson", list, "top")
    read_lessons = (_lesson(reader, entry, number) for number, entry in enumerate(entries, 1))
    lessons = tuple(lesson for lesson in read_lessons if lesson is not None)
    _order(reader, lessons)
    return Course(title, version, lessons), tuple(reader.problems)


def load(path: Path) -> Course:
    """Read course.toml. CannlabError (course.manifest) with every mistake if there are any."""
    course, problems = read(path.read_text(encoding="utf-8"), path.name)
    if course is None or problems:
        raise CannlabError(diagnose("course.manifest", problems=listing(problems)))
    return course
