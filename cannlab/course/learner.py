"""The learner's folder: lessons and workbooks copied there, answers read from it, one exercise reset in it."""

from __future__ import annotations

import copy
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cannlab.course import notebook_file, workbook
from cannlab.course.answer import defined_elsewhere
from cannlab.course.layout import Layout
from cannlab.course.manifest import Exercise, Lesson
from cannlab.course.progress import FILE, NOBODY, Progress, folder_near, outside, remember
from cannlab.course.workbook import Tag
from cannlab.errors import CannlabError, diagnose

START_PAGE = "start.ipynb"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer read from a workbook file."""

    source: str
    notes: tuple[str, ...]
    elsewhere: dict[str, str]


@dataclass(frozen=True, slots=True)
class Started:
    """What ``start`` did: files made, and files of the learner's that were left alone."""

    folder: Path
    made: tuple[str, ...]
    kept: tuple[str, ...]


def start_page(title: str) -> Any:
    """The notebook with the progress panel, and how to go on (``cannlab lab`` itself opens the next lesson)."""
    panel = "from cannlab import panel\n\npanel()"
    text = (
        f"# {title}\n\nRun the cell above (Shift+Enter): it shows what is done and what comes next. A lesson explains, "
        "its exercises ask; each exercise has a cell to fill in and a check below it.\n\n"
        "In a shell the same is `cannlab learn next`, `cannlab learn check ID` and `cannlab learn progress`."
    )
    code: dict[str, Any] = {
        "cell_type": "code",
        "id": "panel",
        "metadata": {},
        "source": panel,
        "execution_count": None,
        "outputs": [],
    }
    cells = [code, {"cell_type": "markdown", "id": "text", "metadata": {}, "source": text}]
    return notebook_file.node({"cells": cells, "metadata": workbook.METADATA, "nbformat": 4, "nbformat_minor": 5})


def answers_to(cell: Any, exercise: str) -> bool:
    """True for a code cell whose first line names the exercise."""
    return cell.cell_type == "code" and workbook.exercise_named(cell.source) == exercise


class Folder:
    """A learner's folder: ``notebooks/``, ``exercises/``, ``progress.json``, ``backups/``.

    ``.given/`` holds each notebook as the course gave it: what :mod:`cannlab.course.update` compares with.
    """

    def __init__(self, root: Path, layout: Layout) -> None:
        self.root = root
        self.layout = layout
        self.progress = Progress(root)

    @classmethod
    def here(cls, layout: Layout) -> Folder:
        """The learner's folder at the working directory. CannlabError (course.outside, no_workbook) if none."""
        root = folder_near()
        if root is None:
            raise outside() or CannlabError(
                diagnose("course.no_workbook", file="progress.json", folder=str(Path.cwd()))
            )
        return cls(root, layout)

    @classmethod
    def at(cls, root: Path, layout: Layout) -> Folder:
        """The learner's folder ``root``. CannlabError (course.no_workbook) if it is none."""
        if not (root / FILE).is_file():
            raise CannlabError(diagnose("course.no_workbook", file=FILE, folder=str(root)))
        return cls(root, layout)

    @property
    def start_page(self) -> Path:
        """The notebook that shows the panel."""
        return self.root / START_PAGE

    def workbook(self, lesson: Lesson) -> Path:
        """The learner's workbook of a lesson."""
        return self.root / "exercises" / lesson.level / f"{lesson.id}.ipynb"

    def lesson(self, lesson: Lesson) -> Path:
        """The learner's copy of a lesson."""
        return self.root / "notebooks" / lesson.level / f"{lesson.id}.ipynb"

    # -- starting ----------------------------------------------------------------------------------

    def start(self) -> Started:
        """Copy what is not there yet; nothing that exists is changed. CannlabError if the folder cannot be used."""
        made: list[str] = []
        kept: list[str] = []
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with self.progress.change() as state:
                if state.learner == NOBODY:
                    state.learner = secrets.token_hex(8)
                learner = state.learner
            for lesson in self.layout.course.lessons:
                self._copy(lesson, learner, made, kept)
            if (made or kept) and not self.start_page.exists():
                notebook_file.write(start_page(self.layout.course.title), self.start_page)
        except OSError as problem:
            message = problem.strerror or str(problem)
            raise CannlabError(diagnose("course.not_a_folder", folder=str(self.root), message=message)) from None
        if not made and not kept:
            raise CannlabError(diagnose("course.no_lessons", folder=str(self.layout.root)))
        remember(self.root)
        return Started(self.root, tuple(made), tuple(kept))

    def _copy(self, lesson: Lesson, learner: str, made: list[str], kept: list[str]) -> None:
        pairs = (
            (self.layout.notebook(lesson), self.lesson(lesson)),
            (self.layout.exercise(lesson), self.workbook(lesson)),
        )
        for source, target in pairs:
            if not source.is_file():
                continue
            shown = target.relative_to(self.root).as_posix()
            if target.exists():
                kept.append(shown)
                continue
            self.give(source, target, learner)
            made.append(shown)

    def give(self, source: Path, target: Path, learner: str, notebook: Any = None) -> None:
        """Write a notebook of the course (or what was made of it) to its place, and keep what the course gave."""
        given = notebook_file.read(source)
        own = copy.deepcopy(given) if notebook is None else notebook
        if target.is_relative_to(self.root / "exercises"):
            # A workbook that is handed in alone still says whose inputs it was solved with.
            own.metadata["cannlab"] = notebook_file.node({"learner": learner})
        notebook_file.write(own, target)
        notebook_file.write(given, self.given(target))

    def given(self, target: Path) -> Path:
        """Where the course's version of a notebook of this folder is kept."""
        return self.root / ".given" / target.relative_to(self.root)

    def rename_learner(self, learner: str) -> None:
        """Write another learner's identity into the workbooks."""
        for lesson in self.layout.course.lessons:
            if self.workbook(lesson).is_file():
                notebook = self._load(lesson)
                notebook.metadata["cannlab"] = notebook_file.node({"learner": learner})
                notebook_file.write(notebook, self.workbook(lesson))

    # -- reading -----------------------------------------------------------------------------------

    def _load(self, lesson: Lesson) -> Any:
        path = self.workbook(lesson)
        if not path.is_file():
            raise CannlabError(diagnose("course.no_workbook", file=path.name, folder=str(path.parent)))
        try:
            return notebook_file.read(path)
        except (OSError, ValueError) as problem:
            raise CannlabError(diagnose("course.damaged_workbook", file=str(path), message=str(problem))) from None

    def answer(self, exercise: Exercise, lesson: Lesson) -> Answer:
        """The learner's cell for an exercise: the last one whose first line names it."""
        cells = list(enumerate(self._load(lesson).cells, 1))
        own = [(number, cell) for number, cell in cells if answers_to(cell, exercise.id)]
        if not own:
            raise CannlabError(diagnose("course.no_cell", file=self.workbook(lesson).name, exercise=exercise.id))
        notes: tuple[str, ...] = ()
        if len(own) > 1:
            places = ", ".join(str(number) for number, _ in own)
            notes = (f"cells {places} all begin with this exercise; the last one counts",)
        others = [
            (f"cell {number}", cell.source)
            for number, cell in cells
            if cell.cell_type == "code" and not answers_to(cell, exercise.id) and workbook.role(cell) is not Tag.SETUP
        ]
        return Answer(own[-1][1].source, notes, defined_elsewhere(others))

    # -- resetting ---------------------------------------------------------------------------------

    def reset(self, exercise: Exercise, lesson: Lesson) -> Path:
        """Put one exercise cell back as it was given, and forget its progress. Gives the backup's path.

        The whole workbook is kept in ``backups/`` first; no other cell changes. Further cells with the same first line
        are removed (they are in the backup).
        """
        notebook = self._load(lesson)
        given = notebook_file.read(self.layout.exercise(lesson))
        original = next(cell for cell in given.cells if answers_to(cell, exercise.id))
        backup = self.backup(self.workbook(lesson))
        places = [index for index, cell in enumerate(notebook.cells) if answers_to(cell, exercise.id)]
        if places:
            notebook.cells[places[0]] = copy.deepcopy(original)
            for index in reversed(places[1:]):
                del notebook.cells[index]
        else:
            notebook.cells.insert(_place_for(original.id, given.cells, notebook.cells), copy.deepcopy(original))
        notebook_file.write(notebook, self.workbook(lesson))
        with self.progress.change() as state:
            state.exercises.pop(exercise.id, None)
        return backup

    def backup(self, path: Path) -> Path:
        """Keep a copy of a notebook in ``backups/``; gives its path."""
        folder = self.root / "backups"
        folder.mkdir(exist_ok=True)
        number = 1
        while (target := folder / f"{path.stem}.{number:03d}.ipynb").exists():
            number += 1
        part = target.with_suffix(".part")
        shutil.copyfile(path, part)
        part.replace(target)
        return target


def _place_for(identifier: str, given: list[Any], cells: list[Any]) -> int:
    """Where a deleted cell belongs: after the nearest cell above it that is still there."""
    order = [cell.get("id") for cell in given]
    present = {cell.get("id"): index for index, cell in enumerate(cells)}
    for above in reversed(order[: order.index(identifier)]):
        if above in present:
            return present[above] + 1
    return 0
