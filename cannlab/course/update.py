"""``cannlab update``: a learner's folder follows the course, and nothing of the learner's is lost.

A notebook that the course has changed since it was copied is replaced by the new version; into it go the learner's
answers (by exercise id) and the learner's own cells (behind the cell that they stood behind). The notebook as it was
is kept in ``backups/``. What the learner changed is told from ``.given/``, the notebook as the course gave it.
Updating again changes nothing, and an update that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cannlab.course import notebook_file, workbook
from cannlab.course.answer import same
from cannlab.course.learner import Folder
from cannlab.course.manifest import Lesson
from cannlab.errors import diagnose

_HEADING = "Answers to exercises that this version of the course does not have any more:"


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to one notebook. ``backup`` is where the one before is kept; "" if it held nothing of yours."""

    file: str
    backup: str
    notes: tuple[str, ...]


@dataclass
class Report:
    """What an update did. ``unchanged`` counts notebooks that are those of this version."""

    changes: list[Change] = field(default_factory=list)
    unchanged: int = 0
    left: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The report for a shell."""
        lines: list[str] = []
        for change in self.changes:
            kept = f" (as it was: {change.backup})" if change.backup else ""
            lines.append(f"{change.file}: updated{kept}")
            lines += [f"  {note}" for note in change.notes]
        lines += [f"{file}: not in the course any more, left as it is" for file in self.left]
        lines += self.problems
        if self.unchanged:
            word = "notebook is" if self.unchanged == 1 else "notebooks are"
            lines.append(f"{self.unchanged} {word} up to date")
        if self.changes:
            lines.append("if one of them is open in JupyterLab: File, Reload Notebook from Disk")
        return "\n".join(lines)


def update(folder: Folder) -> Report:
    """Bring a folder to this version of the course.

    Raises:
        CannlabError: rules ``course.progress_damaged``, ``course.not_a_folder``.
    """
    report = Report()
    # Under the lock of the progress file: two updates at once would back each other's work up.
    with folder.progress.change() as state:
        for lesson in folder.layout.course.lessons:
            for kind, source, target in (
                ("notebooks", folder.layout.notebook(lesson), folder.lesson(lesson)),
                ("exercises", folder.layout.exercise(lesson), folder.workbook(lesson)),
            ):
                if source.is_file():
                    _one(folder, lesson, kind, source, target, state.learner, report)
        report.left = _left(folder)
    return report


def _one(folder: Folder, lesson: Lesson, kind: str, source: Path, target: Path, learner: str, report: Report) -> None:
    """Update one notebook."""
    shown = target.relative_to(folder.root).as_posix()
    place = target if target.is_file() else _elsewhere(folder, kind, lesson) or target
    if not place.is_file():
        folder.give(source, target, learner)
        report.changes.append(Change(shown, "", ("new",)))
        return
    try:
        own = notebook_file.read(place)
        new = notebook_file.read(source)
        old = _old(folder.given(place))
    except (OSError, ValueError) as problem:
        damaged = diagnose("course.damaged_workbook", file=shown, message=str(problem))
        report.problems.append(damaged.text())
        return
    if place == target and old is not None and _same_text(old, new):
        report.unchanged += 1
        return
    if _sources(own) == _sources(new) and place == target:
        # Nothing of it differs but outputs: only what the course gave is to be noted.
        if old is not None or not folder.given(target).is_file():
            notebook_file.write(new, folder.given(target))
        report.unchanged += 1
        return
    merged, notes = merge(old, new, own)
    theirs = old is not None and _sources(old) == _sources(own)
    backup = "" if theirs else folder.backup(place).relative_to(folder.root).as_posix()
    folder.give(source, target, learner, merged)
    if place != target:
        notes.insert(0, f"moved here from {place.relative_to(folder.root).as_posix()}")
        place.unlink()
        folder.given(place).unlink(missing_ok=True)
    report.changes.append(Change(shown, backup, tuple(notes)))


def _elsewhere(folder: Folder, kind: str, lesson: Lesson) -> Path | None:
    """The notebook under another level: the course moved the lesson."""
    return next(iter(sorted((folder.root / kind).glob(f"*/{lesson.id}.ipynb"))), None)


def _old(path: Path) -> Any:
    """What the course gave; None if that was not kept or cannot be read."""
    try:
        return notebook_file.read(path)
    except (OSError, ValueError):
        return None


def _same_text(one: Any, other: Any) -> bool:
    return notebook_file.writes(one) == notebook_file.writes(other)


def _sources(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def _left(folder: Folder) -> list[str]:
    """Notebooks of lessons that the course does not have any more."""
    known = {lesson.id for lesson in folder.layout.course.lessons}
    paths = (path for kind in ("notebooks", "exercises") for path in sorted((folder.root / kind).glob("*/*.ipynb")))
    return [path.relative_to(folder.root).as_posix() for path in paths if path.stem not in known]


# -- merging ---------------------------------------------------------------------------------------


def merge(old: Any | None, new: Any, own: Any) -> tuple[Any, list[str]]:
    """The new version with what is the learner's.

    Args:
        old: the notebook as the course gave it before; None if that is not known.
        new: as the course gives it now.
        own: the learner's.

    Returns:
        The merged notebook, and what was done, a line each.
    """
    merged = copy.deepcopy(new)
    notes: list[str] = []
    before = {} if old is None else _exercises(old)
    mine = _exercises(own)
    for cell in merged.cells:
        name = _name(cell)
        if name:
            notes += _answer(
                name,
                cell,
                before.get(name, []),
                mine.get(name, []),
                old is not None,
                _task(new, name) != _task(old, name),
            )
    _own_cells(old, new, own, merged, notes)
    _removed(before, mine, {_name(cell) for cell in new.cells}, merged, notes)
    return merged, notes


def _name(cell: Any) -> str:
    return workbook.exercise_named(cell.source) if cell.cell_type == "code" else ""


def _exercises(notebook: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for cell in notebook.cells:
        if _name(cell):
            found.setdefault(_name(cell), []).append(cell)
    return found


def _task(notebook: Any | None, name: str) -> list[str]:
    """The text that belongs to an exercise: the setup cells before it and what stands since the exercise above it."""
    setup: list[str] = []
    task: list[str] = []
    for cell in () if notebook is None else notebook.cells:
        if workbook.role(cell) is workbook.Tag.SETUP:
            setup.append(cell.source)
        elif _name(cell) == name:
            return [*setup, *task, cell.source]
        elif _name(cell):
            task = []
        elif workbook.role(cell) is not workbook.Tag.CHECK:
            task.append(cell.source)
    return []


def _answer(name: str, cell: Any, before: list[Any], mine: list[Any], known: bool, changed: bool) -> Iterator[str]:
    """Put the learner's answer into the new cell of its exercise."""
    if not mine:
        yield f"{name}: {'its cell was deleted; it is back' if before else 'new'}"
        return
    answer = mine[-1]
    if len(mine) > 1:
        yield f"{name}: of {len(mine)} cells the last was taken; the others are in the backup"
    untouched = any(same(answer.source, given.source) for given in (*before, cell))
    if untouched:
        if before and changed:
            yield f"{name}: changed in the course (you had not begun it)"
        return
    cell.source = answer.source
    cell.outputs = copy.deepcopy(answer.outputs)
    cell.execution_count = answer.execution_count
    if known and before and changed:
        yield f"{name}: changed in the course; your answer was carried over, read the task and check it again"
    else:
        yield f"{name}: your answer was carried over"


def _own_cells(old: Any | None, new: Any, own: Any, merged: Any, notes: list[str]) -> None:
    """Cells that the learner added go behind the cell that they stood behind; changed cells of the course are told."""
    if old is None:
        if any(not _name(cell) and cell.get("id") not in _ids(new) for cell in own.cells):
            notes.append("cells other than answers are in the backup only: what the course gave first is not known")
        return
    given = {cell.get("id"): cell for cell in old.cells}
    texts = {*_sources(old), *_sources(new)}
    anchor: Any = None
    added = 0
    for number, cell in enumerate(own.cells, 1):
        identifier = cell.get("id")
        if _name(cell):
            anchor = next((c.get("id") for c in merged.cells if _name(c) == _name(cell)), anchor)
        elif identifier in given or identifier in _ids(new):
            anchor = identifier if identifier in _ids(new) else anchor
            if identifier in given and cell.source != given[identifier].source:
                notes.append(
                    f"cell {number} of the course was changed by you: the course's stands now, yours is in the backup"
                )
        elif (cell.cell_type, cell.source) not in texts:
            place = next((n for n, c in enumerate(merged.cells, 1) if c.get("id") == anchor), 0)
            merged.cells.insert(place, copy.deepcopy(cell))
            anchor = identifier
            added += 1
    if added:
        notes.append(f"{added} cell{'s' if added > 1 else ''} of your own carried over")


def _ids(notebook: Any) -> set[Any]:
    return {cell.get("id") for cell in notebook.cells}


def _removed(
    before: dict[str, list[Any]], mine: dict[str, list[Any]], kept: set[str], merged: Any, notes: list[str]
) -> None:
    """Answers to exercises that are gone stand at the end."""
    gone = [name for name in mine if name not in kept]
    answered = [name for name in gone if not any(same(mine[name][-1].source, c.source) for c in before.get(name, []))]
    for name in gone:
        where = "; your answer is at the end of the workbook" if name in answered else ""
        notes.append(f"{name}: not in the course any more{where}")
    if not answered:
        return
    if not any(cell.source == _HEADING for cell in merged.cells):
        heading = {"cell_type": "markdown", "id": "cannlab-kept", "metadata": {}, "source": _HEADING}
        merged.cells.append(notebook_file.node(heading))
    for name in answered:
        cell = copy.deepcopy(mine[name][-1])
        cell.metadata = notebook_file.node({})
        merged.cells.append(cell)
