"""The folder of submissions: who handed in which notebooks.

Read are one folder per learner (with workbooks at any depth), and nbgrader's ``submitted/STUDENT/ASSIGNMENT/*.ipynb``.
Links are never followed: they could lead to the course or to another learner.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cannlab.course.manifest import Course
from cannlab.errors import CannlabError, diagnose

MOST_MIB = 64
"""A larger notebook is not read."""

MOST_FILES = 200
"""More notebooks of one learner are not read."""

_SKIPPED = frozenset({"backups", "__pycache__"})
_CHUNK = 1 << 20
_NAMED = re.compile(rb"exercise(?:\\?\"\s*:\s*\\?\"|:\s*)([0-9A-Za-z_]+)\.[A-Za-z_]")


class Arrangement(StrEnum):
    """How the folder is arranged."""

    FOLDERS = "folders"
    NBGRADER = "nbgrader"


@dataclass(frozen=True, slots=True)
class Notebook:
    """One notebook file of a learner. ``name`` is its path inside the learner's folder, with slashes."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Submission:
    """What one learner handed in. ``report`` is the stem of the report's file names."""

    learner: str
    report: str
    notebooks: tuple[Notebook, ...]
    notes: tuple[str, ...] = ()

    def digest(self) -> str:
        """A hash over all files."""
        whole = hashlib.sha256()
        for notebook in self.notebooks:
            whole.update(notebook.name.encode("utf-8", "surrogateescape") + b"\0")
            whole.update(file_digest(notebook.path).encode())
        return whole.hexdigest()

    def timestamp(self, notebook: str) -> str:
        """What nbgrader's timestamp.txt beside a notebook says; "" without one."""
        path = next((item.path for item in self.notebooks if item.name == notebook), None)
        if path is None:
            return ""
        try:
            with (path.parent / "timestamp.txt").open(encoding="utf-8") as file:
                return re.sub(r"[^0-9A-Za-z:+. _-]", "", file.read(80)).strip()
        except (OSError, UnicodeDecodeError):
            return ""


@dataclass(frozen=True, slots=True)
class Submissions:
    """The whole folder. ``strays`` lie where no learner's work belongs, and are not graded."""

    arrangement: Arrangement
    all: tuple[Submission, ...]
    strays: tuple[str, ...]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def printable(name: str) -> str:
    """A file's name as text that can be shown and encoded: bytes that are no UTF-8 and control characters escaped."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def report_name(learner: str, taken: set[str]) -> str:
    """The stem of a learner's reports: the folder's name where every file system takes it, else one made from it."""
    plain = re.sub(r'[<>:"/\\|?*\x00-\x1f\x7f]', "_", printable(learner)).rstrip(". ")
    short = plain.encode()[:120].decode(errors="ignore")
    if short != learner or not short or short.casefold() in taken:
        short = f"{short}-{hashlib.sha256(os.fsencode(learner)).hexdigest()[:12]}"
    taken.add(short.casefold())
    return short


def _notebooks(folder: Path, notes: list[str]) -> list[Notebook]:
    """The notebooks of one learner's folder, in the order of their names."""
    found: list[Notebook] = []

    def unreadable(problem: OSError) -> None:
        where = Path(problem.filename or folder)
        notes.append(f"{_inside(where, folder)}: cannot be read ({problem.strerror})")

    for place, folders, files in os.walk(folder, onerror=unreadable):
        here = Path(place)
        for name in sorted(folders):
            if (here / name).is_symlink():
                notes.append(f"{_inside(here / name, folder)}: a link, not followed")
        ours = "exercises" in folders
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED and not name.startswith(".") and not (ours and name == "notebooks")
            if not (here / name).is_symlink()
        )
        for name in sorted(files):
            path = here / name
            if not name.lower().endswith(".ipynb") or name.startswith("."):
                continue
            if path.is_symlink() or not path.is_file():
                notes.append(f"{_inside(path, folder)}: a link or no file, not read")
                continue
            found.append(Notebook(_inside(path, folder), path, path.stat().st_size))
    found.sort(key=lambda notebook: notebook.name)
    if len(found) > MOST_FILES:
        notes.append(f"{len(found)} notebooks: only the first {MOST_FILES} are read")
    return found[:MOST_FILES]


def _inside(path: Path, folder: Path) -> str:
    return printable(path.relative_to(folder).as_posix()) if path.is_relative_to(folder) else printable(path.name)


def _root(folder: Path) -> tuple[Path, Arrangement]:
    """Where the learners' folders stand: nbgrader's course folder holds them in ``submitted``."""
    inner = folder / "submitted"
    marks = ("nbgrader_config.py", "gradebook.db", "source", "release", "autograded", "feedback")
    if inner.is_dir() and (any((folder / mark).exists() for mark in marks) or _alone(inner)):
        return inner, Arrangement.NBGRADER
    return folder, Arrangement.NBGRADER if folder.name == "submitted" else Arrangement.FOLDERS


def _alone(inner: Path) -> bool:
    """True if ``submitted`` is the only folder there and holds folders: the part of a course that somebody copied."""
    folders = [entry for entry in inner.parent.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    return folders == [inner] and not inner.is_symlink() and not any(inner.glob("*.ipynb"))


def _nbgrader(all_: tuple[Submission, ...]) -> bool:
    """True if every notebook stands exactly two folders deep, with nbgrader's timestamp beside one of them."""
    notebooks = [notebook for submission in all_ for notebook in submission.notebooks]
    deep = bool(notebooks) and all(notebook.name.count("/") == 1 for notebook in notebooks)
    return deep and any((notebook.path.parent / "timestamp.txt").is_file() for notebook in notebooks)


def read(folder: Path) -> Submissions:
    """Look through a folder of submissions. CannlabError (grading.no_submissions) if there are none."""
    try:
        root, arrangement = _root(folder)
        entries = sorted(root.iterdir(), key=lambda entry: entry.name)
    except OSError as problem:
        raise CannlabError(
            diagnose("grading.no_submissions", folder=printable(str(folder)), problem=problem.strerror or str(problem))
        ) from None
    learners: list[Submission] = []
    strays: list[str] = []
    taken: set[str] = set()
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_symlink() or not entry.is_dir():
            if entry.is_symlink() or entry.suffix.lower() in (".ipynb", ".zip"):
                strays.append(printable(entry.name))
            continue
        notes: list[str] = []
        notebooks = _notebooks(entry, notes)
        learners.append(
            Submission(printable(entry.name), report_name(entry.name, taken), tuple(notebooks), tuple(notes))
        )
    if not learners:
        empty = "it holds no folder of a learner"
        raise CannlabError(diagnose("grading.no_submissions", folder=printable(str(folder)), problem=empty))
    found = tuple(learners)
    if arrangement is Arrangement.FOLDERS and _nbgrader(found):
        arrangement = Arrangement.NBGRADER
    return Submissions(arrangement, found, tuple(strays))


def _lessons_named(path: Path) -> Iterator[str]:
    """Lessons that a file's text names as "exercise: LESSON.name", read in pieces."""
    tail = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            text = tail + piece
            yield from {found.decode() for found in _NAMED.findall(text)}
            tail = text[-200:]


def lessons_handed_in(submissions: Submissions, course: Course) -> tuple[str, ...]:
    """The lessons of which somebody handed in a workbook, in the course's order."""
    known = {lesson.id for lesson in course.lessons if lesson.exercises}
    seen: set[str] = set()
    for submission in submissions.all:
        for notebook in submission.notebooks:
            if seen == known:
                break
            if notebook.size > MOST_MIB << 20:
                continue
            seen |= known & set(_lessons_named(notebook.path))
            stem = Path(notebook.name).stem
            seen |= known & {stem}
    return tuple(lesson.id for lesson in course.lessons if lesson.id in seen)
