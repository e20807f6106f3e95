"""From the bytes of a learner's notebooks to one answer for each exercise.

This reads what a stranger wrote, so it runs in a process of its own (grading/server.py): whatever it makes of this
process costs that notebook only. It is as lenient as it can be: what is damaged is named, the rest is graded.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cannlab.course import answer as answers
from cannlab.course.workbook import Tag, exercise_named

MOST_SOURCE = 256 * 1024
"""A longer cell is no answer."""

_MOST_NOTES = 20


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell that may be an answer. ``place`` says where it stands, ``names`` what it defines at its top level."""

    place: str
    file: str
    exercise: str
    source: str
    names: frozenset[str]
    setup: bool


@dataclass
class Pile:
    """Everything found in a learner's notebooks so far."""

    cells: list[Cell] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    wrong_kind: dict[str, str] = field(default_factory=dict)
    learners: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Keep a remark; a flood of them is cut."""
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(text)
        elif len(self.notes) == _MOST_NOTES:
            self.notes.append("more remarks are left out")

    def refuse(self, file: str, why: str) -> None:
        """Name a notebook that cannot be graded, and why."""
        self.unreadable.append(f"{file}: {why}")


def decoded(data: bytes, file: str, pile: Pile) -> str | None:
    """The text of a notebook's file; None if it is no text."""
    coding, mark = "utf-8", ""
    if data.startswith(b"\xef\xbb\xbf"):
        coding, mark = "utf-8-sig", "begins with a byte order mark"
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        coding, mark = "utf-16", "is UTF-16, not UTF-8"
    try:
        text = data.decode(coding)
    except UnicodeDecodeError as problem:
        pile.refuse(file, f"it is not UTF-8 (byte {problem.start}: {problem.reason}); save it in JupyterLab again")
        return None
    if mark:
        pile.note(f"{file} {mark}; it was read all the same")
    if "\r\n" in text or "\\r\\n" in text:
        pile.note(f"{file} has Windows line ends; they do not count")
    return text


def _metadata(notebook: Mapping[str, Any], file: str, pile: Pile) -> None:
    """What a notebook says of its language and its learner."""
    meta = notebook.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    kernel = meta.get("kernelspec")
    info = meta.get("language_info")
    names = [part.get(key) for part, key in ((kernel, "language"), (info, "name")) if isinstance(part, dict)]
    language = next((name for name in names if isinstance(name, str) and name), "")
    if language and not language.lower().startswith(("python", "ipython")):
        pile.note(f"{file} says that its language is {language[:40]}; its cells are read as Python")
    elif not isinstance(kernel, dict):
        pile.note(f"{file} names no kernel; its cells are read as Python")
    own = meta.get("cannlab")
    learner = own.get("learner") if isinstance(own, dict) else None
    if isinstance(learner, str) and re.fullmatch(r"[0-9A-Za-z_-]{1,64}", learner):
        pile.learners.append(learner)


def _source(cell: Mapping[str, Any]) -> str | None:
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    return source.replace("\r\n", "\n").replace("\r", "\n") if isinstance(source, str) else None


def _claimed(cell: Mapping[str, Any], source: str, place: str, exercises: frozenset[str], pile: Pile) -> str:
    """The exercise that a cell answers: by its first line, which is what the learner's own check goes by; else by its
    metadata. "" if none."""
    meta = cell.get("metadata")
    own = meta.get("cannlab") if isinstance(meta, dict) else None
    keyed = own.get("exercise") if isinstance(own, dict) else None
    keyed = keyed if isinstance(keyed, str) and keyed in exercises else ""
    named = exercise_named(source)
    if named in exercises:
        if keyed and keyed != named:
            pile.note(f"{place} was made from {keyed} but begins with {named}; it counts for {named}")
        return named
    return keyed


def _tags(cell: Mapping[str, Any]) -> list[Any]:
    meta = cell.get("metadata")
    tags = meta.get("tags") if isinstance(meta, dict) else None
    return tags if isinstance(tags, list) else []


def read(data: bytes, file: str, exercises: frozenset[str], pile: Pile) -> None:
    """Add the cells of one notebook file to the pile."""
    text = decoded(data, file, pile)
    if text is None:
        return
    try:
        notebook = json.loads(text)
    except RecursionError:
        return pile.refuse(file, "it is nested too deep")
    except ValueError as problem:
        return pile.refuse(file, f"it is not JSON ({str(problem)[:120]})")
    if not isinstance(notebook, dict):
        return pile.refuse(file, "it is JSON, but no notebook")
    version = notebook.get("nbformat")
    cells = notebook.get("cells")
    if not isinstance(cells, list):
        old = f" (format {version})" if type(version) is int and version < 4 else ""
        return pile.refuse(file, f"it has no list of cells{old}; open it in JupyterLab and save it")
    _metadata(notebook, file, pile)
    for number, cell in enumerate(cells, 1):
        _read_cell(cell, f"{file}, cell {number}", file, exercises, pile)


def _read_cell(cell: Any, place: str, file: str, exercises: frozenset[str], pile: Pile) -> None:
    source = _source(cell) if isinstance(cell, dict) else None
    if source is None:
        return pile.note(f"{place} is damaged and was left out")
    exercise = _claimed(cell, source, place, exercises, pile)
    if cell.get("cell_type") != "code":
        named = exercise_named(source)
        if named in exercises:
            pile.wrong_kind[named] = place
        return None
    if len(source) > MOST_SOURCE:
        return pile.note(f"{place} has {len(source) // 1024} KiB of code and was left out (at most 256)")
    names = frozenset(answers.defined_names(source))
    pile.cells.append(Cell(place, file, exercise, source, names, Tag.SETUP in _tags(cell)))
    return None


def _empty(source: str) -> bool:
    """True if a cell holds no code at all."""
    try:
        return not ast.parse(answers.to_python(source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _answer(exercise: str, placeholder: str, pile: Pile) -> dict[str, Any] | None:
    """The cell that counts for an exercise; None if there is none."""
    own = [cell for cell in pile.cells if cell.exercise == exercise]
    if not own:
        return None
    chosen, notes = own[-1], []
    if len(own) > 1:
        changed = [cell for cell in own if not _empty(cell.source) and not answers.same(cell.source, placeholder)]
        chosen = changed[-1] if changed else own[-1]
        places = "; ".join(cell.place for cell in own[:10])
        notes.append(f"{len(own)} cells answer it ({places}): {chosen.place} counts, the last one that was changed")
    elsewhere = {
        name: cell.place
        for cell in pile.cells
        if cell.exercise != exercise and not cell.setup
        for name in sorted(cell.names)[:200]
    }
    return {
        "source": chosen.source,
        "file": chosen.file,
        "place": chosen.place,
        "notes": notes,
        "elsewhere": {name: elsewhere[name] for name in sorted(elsewhere)[:500]},
    }


def _missing(exercise: str, pile: Pile) -> str:
    """Why an exercise has no answer."""
    if exercise in pile.wrong_kind:
        return f"{pile.wrong_kind[exercise]} holds it, but is no code cell"
    if pile.unreadable:
        return "a notebook could not be read (" + "; ".join(pile.unreadable)[:400] + ")"
    return ""


def collect(files: Sequence[tuple[str, bytes]], placeholders: Mapping[str, str]) -> dict[str, Any]:
    """One answer for each exercise out of a learner's notebooks.

    Args:
        files: (name, bytes) of each notebook.
        placeholders: the cell as it was given, for every exercise that is graded.

    Returns:
        ``answers`` by exercise (source, file, place, notes, elsewhere), ``missing`` by exercise (why, or ""),
        ``notes``, ``unreadable`` (notebooks that could not be read, each with why), ``learners`` (the learner's
        ids that the notebooks carry, without repeats).
    """
    pile = Pile()
    exercises = frozenset(placeholders)
    for name, data in files:
        read(data, name, exercises, pile)
    found = {exercise: _answer(exercise, placeholder, pile) for exercise, placeholder in placeholders.items()}
    return {
        "answers": {exercise: answer for exercise, answer in found.items() if answer is not None},
        "missing": {exercise: _missing(exercise, pile) for exercise, answer in found.items() if answer is None},
        "notes": pile.notes,
        "unreadable": pile.unreadable,
        "learners": list(dict.fromkeys(pile.learners)),
    }
