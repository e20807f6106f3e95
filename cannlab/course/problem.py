"""A mistake of a course author: where it stands and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. ``place`` is a key of the manifest, "cell 7" or "line 12"; ``exercise`` may be empty."""

    file: str
    place: str
    text: str
    exercise: str = ""

    def __str__(self) -> str:
        named = f" [{self.exercise}]" if self.exercise else ""
        return f"{self.file}: {self.place}{named}: {self.text}" if self.place else f"{self.file}{named}: {self.text}"


def listing(problems: Sequence[Problem]) -> str:
    """All problems, one a line, with their number."""
    word = "problem" if len(problems) == 1 else "problems"
    return "\n".join([f"{len(problems)} {word}:", *(f"  {problem}" for problem in problems)])
