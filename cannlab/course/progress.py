"""The learner's progress: one readable file, ``progress.json``, in the learner's folder or in ~/.cannlab.

Which folder that is has one answer here: :func:`folder_near`. Folders made by ``cannlab learn start`` are remembered in
~/.cannlab, so that a command in the wrong place can name them.

It is changed under a lock and replaced as a whole, so two processes at once lose nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cannlab.errors import CannlabError, diagnose
from cannlab.trace.whole_file import write_whole

FILE = "progress.json"
USUAL = "cannlab-course"
"""The name of a course folder when the learner gives none."""
_KNOWN = "folders.json"
_LOCK = ".progress.lock"
_WAIT = 10.0
NOBODY = "cannlab"
"""The learner's seed outside a learner's folder."""


@dataclass
class Entry:
    """One exercise: passed once, how often checked here, how many hints seen, how often checked in other folders."""

    passed: bool = False
    attempts: int = 0
    hints: int = 0
    elsewhere: dict[str, int] = field(default_factory=dict)

    @property
    def tries(self) -> int:
        """Checks in all folders together."""
        return self.attempts + sum(self.elsewhere.values())


@dataclass
class State:
    """The whole file. ``learner`` seeds the inputs that differ from learner to learner; ``folder`` names this file, so
    that progress which comes here twice counts once.
    """

    learner: str = NOBODY
    exercises: dict[str, Entry] = field(default_factory=dict)
    folder: str = ""

    def entry(self, exercise: str) -> Entry:
        """The entry of an exercise, made if it is new."""
        return self.exercises.setdefault(exercise, Entry())

    def named(self) -> str:
        """The name of this file, made when it is first needed."""
        self.folder = self.folder or secrets.token_hex(8)
        return self.folder

    def take(self, other: State) -> None:
        """Add another file's progress. Passed stays passed, hints seen stay seen, checks add up, nothing is lowered.

        Checks are counted by the folder that they were made in: taking the same progress again changes nothing.
        """
        for name, theirs in other.exercises.items():
            entry = self.entry(name)
            entry.passed = entry.passed or theirs.passed
            entry.hints = max(entry.hints, theirs.hints)
            for folder, count in {**theirs.elsewhere, other.folder: theirs.attempts}.items():
                if folder and folder == self.folder:
                    entry.attempts = max(entry.attempts, count)
                elif count:
                    entry.elsewhere[folder] = max(entry.elsewhere.get(folder, 0), count)


def folder_of(start: Path | None = None) -> Path | None:
    """The learner's folder round ``start`` (the working directory): the nearest one that holds progress.json."""
    here = (start or Path.cwd()).resolve()
    return next((folder for folder in (here, *here.parents) if (folder / FILE).is_file()), None)


def folder_near(start: Path | None = None) -> Path | None:
    """The learner's folder round ``start``, or the one in it: ``cannlab-course``, or the only one. None if unclear."""
    here = (start or Path.cwd()).resolve()
    around = folder_of(here)
    if around is not None:
        return around
    if (here / USUAL / FILE).is_file():
        return here / USUAL
    try:
        inside = [child for child in here.iterdir() if not child.name.startswith(".") and (child / FILE).is_file()]
    except OSError:
        return None
    return inside[0] if len(inside) == 1 and inside[0] != home().resolve() else None


def remember(folder: Path) -> None:
    """Keep in mind that this is a learner's folder. A home that cannot be written forgets, and that is no error."""
    folders = [str(path) for path in known() if path != folder] + [str(folder)]
    with contextlib.suppress(OSError):
        home().mkdir(parents=True, exist_ok=True)
        write_whole(home() / _KNOWN, (json.dumps(folders, indent=2) + "\n").encode())


def known() -> list[Path]:
    """The learner's folders that were made on this machine and still exist, the newest last."""
    try:
        data = json.loads((home() / _KNOWN).read_text(encoding="utf-8"))
        return [Path(name) for name in data if (Path(name) / FILE).is_file()]
    except (OSError, ValueError, TypeError):
        return []


def outside(start: Path | None = None) -> CannlabError | None:
    """The error for working outside every learner's folder although there is one; None if all is well."""
    folders = [] if folder_near(start) is not None else known()
    if not folders:
        return None
    here = (start or Path.cwd()).resolve()
    shown = [str(path.relative_to(here)) if path.is_relative_to(here) else str(path) for path in folders]
    return CannlabError(diagnose("course.outside", folders=" or ".join(shown), folder=shown[-1], here=str(here)))


def home() -> Path:
    """Where progress is kept outside a learner's folder: CANNLAB_HOME, or ~/.cannlab."""
    named = os.environ.get("CANNLAB_HOME")
    return Path(named) if named else Path.home() / ".cannlab"


class Progress:
    """The progress file of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    @classmethod
    def here(cls, start: Path | None = None) -> Progress:
        """The one that belongs to ``start`` (the working directory): its learner's folder, or the home."""
        return cls(folder_near(start) or home())

    def read(self) -> State:
        """The state; a new one if there is no file. CannlabError (course.progress_damaged) if it cannot be read."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return State()
        except (OSError, UnicodeDecodeError) as problem:
            raise self._damaged(str(problem)) from None
        try:
            return loads(text)
        except ValueError as problem:
            raise self._damaged(str(problem)) from None

    def _damaged(self, message: str) -> CannlabError:
        return CannlabError(diagnose("course.progress_damaged", file=str(self.path), message=message))

    @contextlib.contextmanager
    def change(self) -> Iterator[State]:
        """Change the state under the lock; it is written whole when the block ends without an error."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.path.parent / _LOCK):
                state = self.read()
                yield state
                self._write(state)
        except OSError as problem:
            message = problem.strerror or str(problem)
            raise CannlabError(diagnose("course.not_a_folder", folder=self.path.parent, message=message)) from None

    def _write(self, state: State) -> None:
        write_whole(self.path, dumps(state).encode())

    # -- to another machine ------------------------------------------------------------------------

    def export(self, file: Path) -> State:
        """Write the progress to a file for :meth:`take`. CannlabError (course.not_exported) if it cannot be written."""
        with self.change() as state:
            state.named()
        try:
            write_whole(file, dumps(state).encode())
        except OSError as problem:
            message = problem.strerror or str(problem)
            raise CannlabError(diagnose("course.not_exported", file=str(file), message=message)) from None
        return state

    def take(self, file: Path) -> tuple[State, bool]:
        """Add the progress of an exported file.

        Returns:
            The state after it, and True if the learner's identity was taken over too: it is when nothing was checked
            here before, so that the answers to predictions stay right.

        Raises:
            CannlabError: rule ``course.not_imported``: no such file, or it holds no progress. Nothing is changed then.
        """
        try:
            other = loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            message = getattr(problem, "strerror", None) or str(problem)
            raise CannlabError(diagnose("course.not_imported", file=str(file), message=message)) from None
        with self.change() as state:
            state.named()
            adopts = not state.exercises and other.learner not in (NOBODY, state.learner)
            if adopts:
                state.learner = other.learner
            state.take(other)
        return state, adopts


def dumps(state: State) -> str:
    """The text of a progress file."""
    exercises = {}
    for name, entry in sorted(state.exercises.items()):
        exercises[name] = asdict(entry)
        if not entry.elsewhere:
            del exercises[name]["elsewhere"]
    data = {"version": 1, "learner": state.learner, "folder": state.folder, "exercises": exercises}
    if not state.folder:
        del data["folder"]
    return json.dumps(data, indent=2) + "\n"


def loads(text: str) -> State:
    """The inverse of :func:`dumps`. ValueError with the reason if it is none of its making."""
    try:
        data = json.loads(text)
        exercises = {str(name): _entry(entry) for name, entry in data["exercises"].items()}
        return State(str(data["learner"]), exercises, str(data.get("folder", "")))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise ValueError(f"{type(problem).__name__}: {problem}") from None


def _entry(data: dict[str, Any]) -> Entry:
    """An entry whose values have their types."""
    entry = Entry(**data)
    counts = (entry.attempts, entry.hints, *entry.elsewhere.values())
    if type(entry.passed) is not bool or not all(type(count) is int and count >= 0 for count in counts):
        raise ValueError(f"no progress: {data}")
    return entry


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file that stays; waits up to ten seconds."""
    with path.open("a+b") as file:
        deadline = time.monotonic() + _WAIT
        while not _try_lock(file.fileno()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} has been locked for {_WAIT:.0f} s by another process")
            time.sleep(0.01)
        # Closing the file releases the lock.
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return _try_lock_windows(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try_lock_windows(descriptor: int) -> bool:
    import importlib

    msvcrt = importlib.import_module("msvcrt")
    try:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True
