"""The files of a new lesson, from templates that pass every gate of form; the content is the author's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from cannlab.course import notebook_file, workbook
from cannlab.course.layout import Layout
from cannlab.course.manifest import Course, Lesson, Level
from cannlab.course.workbook import Tag
from cannlab.errors import CannlabError, diagnose
from cannlab.trace.whole_file import write_whole

_MINUTES = {Level.BASIC: 40, Level.INTERMEDIATE: 60, Level.ADVANCED: 90}
_EXERCISES = ("first", "second", "third", "fourth")
_NAME = re.compile(r"[0-9]{2}_[a-z0-9]+(_[a-z0-9]+)*")


def make(layout: Layout, name: str) -> list[Path]:
    """Make notebook, solved workbook, learner's workbook, checks and manifest entry of a lesson.

    Args:
        layout: the course.
        name: LEVEL/NN_topic.

    Returns:
        The files that were made or changed; course.toml is the last.

    Raises:
        CannlabError: rule ``course.new_lesson``: the name cannot be used, or a file of it exists; nothing is changed.
    """
    level, identifier = _parts(name)
    course = layout.course
    if course.lesson(identifier) is not None:
        raise _refused(name, f"course.toml has a lesson {identifier}")
    place = _place(course, level, identifier)
    before = course.lessons[place - 1].id if place else ""
    title = identifier.partition("_")[2].replace("_", " ").capitalize()
    lesson = Lesson(identifier, title, level, _MINUTES[level], (before,) if before else ())
    files = layout.files(lesson)
    for path in files.values():
        if path.exists():
            raise _refused(name, f"{layout.shown(path)} exists")
    manifest_file = layout.root / "course.toml"
    text = _inserted(manifest_file.read_text(encoding="utf-8"), place, _entry(lesson))
    solved = _solved(lesson)
    notebook_file.write(_lesson(lesson), files["lesson"])
    notebook_file.write(solved, files["solution"])
    notebook_file.write(workbook.derive(solved), files["workbook"])
    _write(files["checks"], _checks(lesson))
    # The manifest comes last: until then the course is what it was.
    _write(manifest_file, text)
    return [*files.values(), manifest_file]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def _refused(name: str, problem: str) -> CannlabError:
    return CannlabError(diagnose("course.new_lesson", name=name, problem=problem))


def _parts(name: str) -> tuple[Level, str]:
    level, slash, identifier = name.partition("/")
    if not slash or level not in frozenset(Level):
        raise _refused(name, f"the level before the slash must be one of {', '.join(Level)}")
    if not _NAME.fullmatch(identifier):
        raise _refused(name, "the lesson must be two digits, _ and lower-case words: 07_topic")
    return Level(level), identifier


def _place(course: Course, level: Level, identifier: str) -> int:
    """Where the lesson stands: levels in their order, in a level by the number."""
    order = list(Level)
    key = (order.index(level), identifier)
    later = (place for place, other in enumerate(course.lessons) if (order.index(other.level), other.id) > key)
    return next(later, len(course.lessons))


def _inserted(text: str, place: int, entry: str) -> str:
    """The manifest's text with an entry before its ``place``-th lesson; every other byte stays."""
    heads = [match.start() for match in re.finditer(r"^\[\[lesson\]\]", text, re.M)]
    if place >= len(heads):
        return text.rstrip("\n") + "\n\n" + entry
    return text[: heads[place]] + entry + "\n" + text[heads[place] :]


def _entry(lesson: Lesson) -> str:
    needed = ", ".join(f'"{name}"' for name in lesson.prerequisites)
    lines = [
        "[[lesson]]",
        f'id = "{lesson.id}"',
        f'title = "{lesson.title}"',
        f'level = "{lesson.level}"',
        f"minutes = {lesson.minutes}",
        f"prerequisites = [{needed}]",
    ]
    for name in _EXERCISES:
        lines += ["", "[[lesson.exercise]]", f'id = "{lesson.id}.{name}"', 'title = "TODO"', 'kind = "code"']
    return "\n".join(lines) + "\n"


# -- notebooks -------------------------------------------------------------------------------------


def _notebook(cells: list[Any]) -> Any:
    return notebook_file.node({"cells": cells, "metadata": workbook.METADATA, "nbformat": 4, "nbformat_minor": 5})


def _markdown(identifier: str, source: str, tag: Tag | None = None) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": identifier, "metadata": _tags(tag), "source": source}


def _code(identifier: str, source: str, tag: Tag | None = None, exercise: str = "") -> dict[str, Any]:
    metadata = _tags(tag)
    if exercise:
        metadata["cannlab"] = {"exercise": exercise}
    cell = {"cell_type": "code", "id": identifier, "metadata": metadata, "source": source}
    return cell | {"execution_count": None, "outputs": []}


def _tags(tag: Tag | None) -> dict[str, Any]:
    return {} if tag is None else {"tags": [str(tag)]}


def _lesson(lesson: Lesson) -> Any:
    after = ", ".join(lesson.prerequisites) or "nothing"
    return _notebook(
        [
            _markdown(
                "title",
                f"# {lesson.title}\n\n{lesson.minutes} minutes · after {after}\n\nTODO: what this lesson is for.",
            ),
            _code("setup", "%load_ext cannlab"),
            _markdown("predict", "**Predict first.** TODO: a question before the surprise."),
            _code("demonstration", "# TODO: a demonstration"),
            _markdown(
                "hardware", "## On real hardware\n\nTODO: what the same code does there, and what is not modelled."
            ),
        ]
    )


def _solved(lesson: Lesson) -> Any:
    cells = [
        _markdown("title", f"# {lesson.title}: exercises\n\n{lesson.minutes} minutes, with the lesson"),
        _code("setup", "%load_ext cannlab\n\nfrom cannlab import check, hint", Tag.SETUP),
    ]
    for number, name in enumerate(_EXERCISES, 1):
        exercise = f"{lesson.id}.{name}"
        placeholder = f"# exercise: {exercise}\ndef {name}(value):\n    return None"
        cells += [
            _markdown(f"{name}-task", f"## {number}. TODO: title\n\nTODO: the task."),
            _code(f"{name}-exercise", placeholder, Tag.EXERCISE, exercise),
            _markdown(f"{name}-hint1", "TODO: a nudge", Tag.HINT),
            _markdown(f"{name}-hint2", "TODO: the API", Tag.HINT),
            _markdown(f"{name}-hint3", "TODO: near-code", Tag.HINT),
            _code(f"{name}-solution", placeholder, Tag.SOLUTION),
            _markdown(f"{name}-explanation", "TODO: why it is so.", Tag.EXPLANATION),
            _code(f"{name}-check", f'check("{exercise}")', Tag.CHECK),
        ]
    return _notebook(cells)


# -- checks ----------------------------------------------------------------------------------------

_CHECK = """    Check(
        "{exercise}",
        run=call("{name}"),
        draw=lambda rng, n: {{"value": int(rng.integers(1, 1000))}},
        sizes=(1, 2, 3),
        reference=lambda value: value,  # TODO
        misconceptions=(
            # TODO: five plausible wrong answers at least, each with the diagnosis that it must get:
            # Misconception("name", change("old", "new"), gives(lambda value: -value), what="...", why="...", do="..."),
        ),
    ),
"""


def _checks(lesson: Lesson) -> str:
    entries = "".join(_CHECK.format(exercise=f"{lesson.id}.{name}", name=name) for name in _EXERCISES)
    head = f'"""Checks of {lesson.id}."""\n\nfrom cannlab.course.spec import Check, call\n\n'
    return f"{head}CHECKS = [\n{entries}]\n"
