"""Which answers are alike: winnowing over tokens, with names, numbers and texts made the same.

Source: S. Schleimer, D. S. Wilkerson, A. Aiken, "Winnowing: Local Algorithms for Document Fingerprinting", 2003. A hint
for a person, never a verdict. What the course itself gives (placeholder, setup) does not count, nor do passages that
many learners share.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cannlab.course.grading.csv_file import CsvFile
from cannlab.course.grading.plan import Plan, PlannedExercise
from cannlab.course.progress import NOBODY

GRAM = 7
"""Tokens in a passage."""

WINDOW = 4
"""Of so many neighbouring passages one is kept: a common run of GRAM + WINDOW - 1 tokens is always found."""

LEAST = 12
"""Answers with fewer kept passages of their own are too short to compare."""

THRESHOLD = 0.6
"""The share of common passages from which a pair is listed."""

MOST_PAIRS = 2000
"""Of more pairs only the most alike are listed, and the report says so."""

_TOKEN = re.compile(
    r"(?P<skip>#[^\n]*|\s+|\\\n)"
    r"|(?P<text>(?i:[rbuf]{0,2})(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\""
    r"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"))"
    r"|(?P<number>\d[\w.]*)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign>\*\*=?|//=?|>>=?|<<=?|[-+*/%@&|^=!<>]=|->|:=|.)",
    re.DOTALL,
)


def tokens(source: str) -> list[str]:
    """The tokens of a cell. Names become N (but words of Python and what follows a dot stay), texts S, numbers 0."""
    found: list[str] = []
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "skip":
            continue
        if kind == "name":
            word = match.group()
            kept = keyword.iskeyword(word) or (found and found[-1] == ".")
            found.append(word if kept else "N")
        elif kind in ("text", "number"):
            found.append("S" if kind == "text" else "0")
        else:
            found.append(match.group())
    return found


def grams(stream: list[str]) -> list[int]:
    """A hash for every passage of GRAM tokens, the same on every machine."""
    return [
        int.from_bytes(hashlib.blake2b("\0".join(stream[at : at + GRAM]).encode(), digest_size=8).digest(), "little")
        for at in range(len(stream) - GRAM + 1)
    ]


def fingerprints(source: str, given: frozenset[int]) -> array[int]:
    """The passages that are kept of a cell, without those of what was given."""
    own = [gram for gram in grams(tokens(source)) if gram not in given]
    kept: set[int] = set()
    for at in range(max(len(own) - WINDOW + 1, min(len(own), 1))):
        kept.add(min(own[at : at + WINDOW]))
    return array("Q", sorted(kept))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two learners' answers to one exercise. ``share`` is 1 for the same passages."""

    one: str
    other: str
    exercise: str
    share: float
    common: int


@dataclass
class _Exercise:
    given: frozenset[int]
    solution: frozenset[int]
    learners: list[str]
    prints: list[array[int]]
    as_solution: list[str]


class Similarity:
    """Collects the answers' passages while the reports go by, then compares."""

    NAMES = ("similarity.html", "similarity.csv")

    def __init__(self, out: Path, plan: Plan) -> None:
        self._out = out
        self._exercises = {exercise.id: self._begin(exercise) for exercise in plan.exercises}
        self._ids: dict[str, list[str]] = defaultdict(list)
        self._learners = 0

    @staticmethod
    def _begin(exercise: PlannedExercise) -> _Exercise:
        texts = (exercise.placeholder, exercise.setup)
        given = frozenset(gram for text in texts for gram in grams(tokens(text)))
        solution = frozenset(fingerprints(exercise.solution, given))
        return _Exercise(given, solution, [], [], [])

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner's answers."""
        self._learners += 1
        if report["id"] != NOBODY:
            self._ids[report["id"]].append(report["learner"])
        for lesson in report["lessons"]:
            for entry in lesson["exercises"]:
                if entry["answer"]:
                    self._answer(self._exercises[entry["exercise"]], report["learner"], entry["answer"])

    @staticmethod
    def _answer(exercise: _Exercise, learner: str, source: str) -> None:
        prints = fingerprints(source, exercise.given)
        if len(prints) < LEAST:
            return
        exercise.learners.append(learner)
        exercise.prints.append(prints)
        if frozenset(prints) == exercise.solution:
            exercise.as_solution.append(learner)

    @property
    def common(self) -> int:
        """A passage that more learners have is the way to say it, and tells nothing."""
        return min(max(self._learners // 4, 4), 20)

    def pairs(self) -> Iterator[Pair]:
        """All pairs from THRESHOLD on, exercise by exercise."""
        for identifier, exercise in self._exercises.items():
            yield from self._compare(identifier, exercise)

    def _compare(self, identifier: str, exercise: _Exercise) -> Iterator[Pair]:
        holders: dict[int, list[int]] = defaultdict(list)
        for index, prints in enumerate(exercise.prints):
            for gram in prints:
                holders[gram].append(index)
        common = self.common
        size: Counter[int] = Counter()
        shared: Counter[tuple[int, int]] = Counter()
        for gram in sorted(holders):
            who = holders[gram]
            if len(who) > common:
                continue
            size.update(who)
            for at, one in enumerate(who):
                shared.update((one, other) for other in who[at + 1 :])
        for (one, other), count in sorted(shared.items()):
            share = 2 * count / (size[one] + size[other])
            if share >= THRESHOLD and count >= LEAST:
                yield Pair(exercise.learners[one], exercise.learners[other], identifier, share, count)

    def close(self, *, keep: bool) -> None:
        """Write the page and the table, if they are to be kept."""
        if not keep:
            return
        from cannlab.course.grading.similarity_page import write

        found = sorted(self.pairs(), key=lambda pair: (-pair.share, -pair.common, pair.one, pair.other, pair.exercise))
        left = max(len(found) - MOST_PAIRS, 0)
        found = found[:MOST_PAIRS]
        with CsvFile(self._out / self.NAMES[1], ["learner", "other", "exercise", "share", "passages"]) as file:
            for pair in found:
                file.row(pair.one, pair.other, pair.exercise, f"{pair.share:.2f}", pair.common)
        as_solution = {name: each.as_solution for name, each in self._exercises.items() if each.as_solution}
        ids = [names for _, names in sorted(self._ids.items()) if len(names) > 1]
        write(self._out / self.NAMES[0], found, left, self.common, as_solution, ids)
