"""Where the course lies: the checkout's folders, or ``cannlab/_course`` in a wheel."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cannlab.course import manifest
from cannlab.course.manifest import Course, Lesson
from cannlab.errors import CannlabError, diagnose

_PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Layout:
    """A course on disk. ``root`` holds course.toml; a folder ``checks`` there takes the package's place."""

    root: Path

    @cached_property
    def course(self) -> Course:
        """The manifest; CannlabError if it is wrong."""
        return manifest.load(self.root / "course.toml")

    def notebook(self, lesson: Lesson) -> Path:
        """The lesson itself."""
        return self.root / "notebooks" / lesson.level / f"{lesson.id}.ipynb"

    def solution(self, lesson: Lesson) -> Path:
        """The solved workbook, the only source of it."""
        return self.root / "solutions" / lesson.level / f"{lesson.id}.ipynb"

    def exercise(self, lesson: Lesson) -> Path:
        """The learner's workbook, derived from the solved one."""
        return self.root / "exercises" / lesson.level / f"{lesson.id}.ipynb"

    def checks(self, lesson: Lesson) -> Path:
        """The file with the workbook's checks."""
        own = self.root / "checks"
        folder = own if own.is_dir() else _PACKAGE / "course" / "checks"
        return folder / f"c{lesson.id}.py"

    def files(self, lesson: Lesson) -> dict[str, Path]:
        """All four files of a lesson by what they are."""
        return {
            "lesson": self.notebook(lesson),
            "solution": self.solution(lesson),
            "workbook": self.exercise(lesson),
            "checks": self.checks(lesson),
        }

    def shown(self, path: Path) -> str:
        """A path as it is shown: relative to the course, with slashes."""
        for base in (self.root, _PACKAGE.parent):
            if path.is_relative_to(base):
                return path.relative_to(base).as_posix()
        return path.name


def find(root: Path | None = None) -> Layout:
    """The course at ``root``, or CANNLAB_COURSE, or the one of this package. CannlabError if there is none."""
    named = root or (Path(os.environ["CANNLAB_COURSE"]) if os.environ.get("CANNLAB_COURSE") else None)
    candidates = [named] if named is not None else [_PACKAGE / "_course", _PACKAGE.parent]
    for candidate in candidates:
        if (candidate / "course.toml").is_file():
            return Layout(candidate.resolve())
    raise CannlabError(diagnose("course.no_course", folder=str(candidates[-1])))
