"""The checking process of a grading: ``plan``, ``collect`` and ``judge`` requests, each done in a fork of its own.

One fork reads a learner's notebooks, one judges all answers of one of the lessons (each answer in its own process
again). What goes wrong in one of them is reported and costs nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cannlab.course import bundle, layout, server
from cannlab.course.bundle import Bundle
from cannlab.course.grading.collecting import collect
from cannlab.course.layout import Layout
from cannlab.course.manifest import Course, Limits
from cannlab.course.problem import listing
from cannlab.course.runner import Runner
from cannlab.course.server import Server, handle
from cannlab.errors import CannlabError, diagnose


def find(root: str) -> Layout:
    """The course at a folder; the one of this package for ""."""
    return layout.find(Path(root) if root else None)


def plan(request: dict[str, Any]) -> dict[str, Any]:
    """The exercises of the wanted lessons with their digests. An "error" if the course is not whole."""
    try:
        found = find(request["root"])
        lessons = []
        for name in request["lessons"]:
            lesson = found.course.lesson(name)
            if lesson is None:
                raise bundle.unknown(found, name)
            loaded, problems = bundle.load_lesson(found, lesson)
            if problems:
                raise CannlabError(diagnose("grading.course", lesson=name, problems=listing(problems)))
            lessons.append({"id": lesson.id, "title": lesson.title, "exercises": [_entry(b) for b in loaded.values()]})
        return {"title": found.course.title, "course": found.course.version, "lessons": lessons}
    except CannlabError as problem:
        return {"error": problem.diagnosis.to_dict()}


def _entry(loaded: Bundle) -> dict[str, Any]:
    exercise, part = loaded.exercise, loaded.part
    return {
        "id": exercise.id,
        "title": exercise.title,
        "points": exercise.points,
        "stretch": exercise.stretch,
        "digest": loaded.digest,
        "placeholder": part.placeholder,
        "solution": part.solution,
        "setup": "\n".join(part.setup),
    }


def judge(request: dict[str, Any], run: Runner, found: Layout) -> dict[str, Any]:
    """Judge the answers of one lesson; ``replies`` are in their order, each as ``handle`` gives it."""
    lesson = found.course.lesson(request["lesson"])
    loaded = {} if lesson is None else bundle.load_lesson(found, lesson)[0]

    def load(answer: dict[str, Any]) -> Bundle:
        exercise: str = answer["exercise"]
        if exercise not in loaded:
            raise bundle.unknown(found, exercise)
        return loaded[exercise]

    return {"replies": [handle(answer, run, load) for answer in request["answers"]]}


def cut(blob: bytes, files: list[tuple[str, int]]) -> list[tuple[str, bytes]]:
    """The files that crossed as one blob, by their sizes."""
    found, at = [], 0
    for name, size in files:
        found.append((name, blob[at : at + size]))
        at += size
    return found


class GradingServer(Server):
    """Serves a grading."""

    def __init__(self, reader: int, writer: int) -> None:
        super().__init__(reader, writer)
        self._layouts: dict[str, Layout] = {}

    def answer(self, request: dict[str, Any], blob: bytes) -> dict[str, Any] | None:
        """The reply to a request; None if the other end closed meanwhile."""
        what = request["what"]
        if what == "plan":
            return self.apart(lambda _: plan(request), Limits())
        if what == "collect":
            placeholders = request["placeholders"]
            return self.apart(lambda _: collect(cut(blob, request["files"]), placeholders), Limits())
        root = request["root"]
        if root not in self._layouts:
            # The manifest is read once for a whole grading.
            self._layouts[root] = find(root)
        found = self._layouts[root]
        return self.apart(lambda run: judge(request, run, found), self._limits(request, found.course))

    @staticmethod
    def _limits(request: dict[str, Any], course: Course) -> Limits:
        """What all answers of a request may use together."""
        wall, memory = 0, 0
        for answer in request["answers"]:
            exercise = course.exercise(answer["exercise"])
            limits = Limits() if exercise is None else exercise.limits
            wall += limits.times(Server.MOST_ROUNDS, patience=2).wall
            memory = max(memory, limits.memory)
        return Limits(wall=wall, memory=memory)


def main() -> None:
    """Serve over standard input and output."""
    server.main(GradingServer)


if __name__ == "__main__":
    main()
