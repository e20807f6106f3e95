"""What is graded: the lessons and exercises with the digests of their checks, and the secret seed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cannlab import __version__


@dataclass(frozen=True, slots=True)
class PlannedExercise:
    """One exercise. ``digest`` changes when its check, setup, solution or limits do."""

    id: str
    title: str
    points: int
    stretch: bool
    digest: str
    placeholder: str
    solution: str
    setup: str


@dataclass(frozen=True, slots=True)
class PlannedLesson:
    """One lesson with the exercises that are graded."""

    id: str
    title: str
    exercises: tuple[PlannedExercise, ...]

    @property
    def points(self) -> int:
        """The most that its exercises give, without the stretch ones."""
        return sum(exercise.points for exercise in self.exercises if not exercise.stretch)


@dataclass(frozen=True, slots=True)
class Plan:
    """A grading. ``root`` is the course's folder, "" for the course of this package."""

    root: str
    title: str
    course: str
    seed: str
    lessons: tuple[PlannedLesson, ...]

    @property
    def digest(self) -> str:
        """Changes when anything does that a result depends on, the submissions apart."""
        digest = hashlib.sha256()
        parts = [__version__, self.title, self.course, self.seed]
        parts += [f"{exercise.id}={exercise.digest}" for exercise in self.exercises]
        for part in parts:
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()

    @property
    def exercises(self) -> tuple[PlannedExercise, ...]:
        """All exercises in the course's order."""
        return tuple(exercise for lesson in self.lessons for exercise in lesson.exercises)

    @property
    def points(self) -> int:
        """The most that a learner can have, without the stretch exercises."""
        return sum(lesson.points for lesson in self.lessons)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """The inverse of :meth:`to_dict`."""
        lessons = tuple(
            PlannedLesson(
                lesson["id"], lesson["title"], tuple(PlannedExercise(**entry) for entry in lesson["exercises"])
            )
            for lesson in data["lessons"]
        )
        return cls(data["root"], data["title"], data["course"], data["seed"], lessons)


def result_hash(answer: str, check: str, seed: str, version: str, learner: str) -> str:
    """The hash that a result carries: over its answer, its check, the seed (with the learner's own) and the version."""
    text = "\0".join((answer, check, seed, version, learner))
    return hashlib.sha256(text.encode()).hexdigest()
