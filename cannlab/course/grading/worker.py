"""Grading one learner: notebooks in, a report (plain data) out. The same code here and on a Dask worker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cannlab import __version__
from cannlab.course.client import Client
from cannlab.course.grading.plan import Plan, PlannedExercise, PlannedLesson, result_hash
from cannlab.course.grading.submissions import MOST_MIB, Submission
from cannlab.course.progress import NOBODY
from cannlab.course.result import Result, Verdict
from cannlab.errors import CannlabError, Diagnosis, diagnose

MODULE = "cannlab.course.grading.server"
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,16}")


@dataclass(frozen=True, slots=True)
class Work:
    """What one learner handed in, as plain data. ``files`` holds (name, bytes)."""

    learner: str
    report: str
    files: tuple[tuple[str, bytes], ...]
    notes: tuple[str, ...]
    unreadable: tuple[str, ...]
    timestamps: Mapping[str, str] = field(default_factory=dict)


def load(submission: Submission) -> Work:
    """Read a learner's files; what cannot be read is named."""
    files: list[tuple[str, bytes]] = []
    unreadable: list[str] = []
    room = 2 * MOST_MIB << 20
    for notebook in submission.notebooks:
        if notebook.size > MOST_MIB << 20:
            unreadable.append(f"{notebook.name}: it has {notebook.size >> 20} MiB; at most {MOST_MIB} are read")
            continue
        if notebook.size > room:
            unreadable.append(f"{notebook.name}: all notebooks together have more than {2 * MOST_MIB} MiB")
            continue
        try:
            with notebook.path.open("rb") as file:
                data = file.read(notebook.size)
        except OSError as problem:
            unreadable.append(f"{notebook.name}: {problem.strerror or problem}")
            continue
        room -= len(data)
        files.append((notebook.name, data))
    timestamps = {name: submission.timestamp(name) for name, _ in files}
    return Work(
        submission.learner,
        submission.report,
        tuple(files),
        submission.notes,
        tuple(unreadable),
        {name: text for name, text in timestamps.items() if text},
    )


def steady(value: Any) -> Any:
    """Plain data without memory addresses, which differ from run to run."""
    if isinstance(value, str):
        return _ADDRESS.sub("at 0x...", value)
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items()}
    return [steady(item) for item in value] if isinstance(value, (list, tuple)) else value


class Worker:
    """Grades learners one after the other through a checking process of its own."""

    def __init__(self, plan: Plan, client: Client | None = None) -> None:
        self.plan = plan
        self.client = client or Client(MODULE)

    def close(self) -> None:
        """End the checking process."""
        self.client.close()

    def grade(self, work: Work) -> dict[str, Any]:
        """A learner's whole report. CannlabError only if no checking process can be started."""
        found = self._collect(work)
        learner = found["learners"][0] if found["learners"] else NOBODY
        notes = [*work.notes, *found["notes"]]
        if len(found["learners"]) > 1:
            notes.append("the notebooks carry the ids of several learners: " + ", ".join(found["learners"][:5]))
        if not found["learners"] and found["answers"]:
            notes.append("no notebook carries a learner's id; questions with own numbers use the common ones")
        unreadable = [*work.unreadable, *found["unreadable"]]
        lessons = [self._lesson(lesson, found, learner, unreadable, bool(work.files)) for lesson in self.plan.lessons]
        exercises = [entry for lesson in lessons for entry in lesson["exercises"]]
        return {
            "format": 1,
            "learner": work.learner,
            "id": learner,
            "files": [name for name, _ in work.files],
            "timestamps": dict(sorted(work.timestamps.items())),
            "notes": notes,
            "unreadable": unreadable,
            "points": sum(lesson["points"] for lesson in lessons),
            "most": self.plan.points,
            "stretch": sum(lesson["stretch"] for lesson in lessons),
            "ungraded": len(unreadable) + sum(entry["result"]["verdict"] == Verdict.ERROR for entry in exercises),
            "lessons": lessons,
        }

    # -- answers -----------------------------------------------------------------------------------

    def _collect(self, work: Work) -> dict[str, Any]:
        """The answers in a learner's files. A file on which reading breaks down is left out, and named."""
        try:
            return self._ask_collect(work.files)
        except CannlabError:
            pass
        good: list[tuple[str, bytes]] = []
        bad: list[str] = []
        for file in work.files:
            try:
                self._ask_collect((file,))
                good.append(file)
            except CannlabError as problem:
                bad.append(f"{file[0]}: reading it failed ({problem.diagnosis.what})")
        try:
            found = self._ask_collect(tuple(good))
        except CannlabError as problem:
            found = self._ask_collect(())
            bad.append(f"all notebooks together: reading them failed ({problem.diagnosis.what})")
        why = "a notebook could not be read (" + "; ".join(bad)[:400] + ")"
        found["missing"] = {exercise: reason or why for exercise, reason in found["missing"].items()}
        found["unreadable"] += bad
        return found

    def _ask_collect(self, files: tuple[tuple[str, bytes], ...]) -> dict[str, Any]:
        request = {
            "what": "collect",
            "files": [(name, len(data)) for name, data in files],
            "placeholders": {exercise.id: exercise.placeholder for exercise in self.plan.exercises},
        }
        return self._reply(request, b"".join(data for _, data in files))

    def _reply(self, request: Mapping[str, Any], blob: bytes = b"") -> dict[str, Any]:
        reply = self.client.ask(request, blob)
        if "error" in reply:
            raise CannlabError(Diagnosis.from_dict(reply["error"]))
        return reply

    # -- results -----------------------------------------------------------------------------------

    def _lesson(
        self, lesson: PlannedLesson, found: dict[str, Any], learner: str, unreadable: list[str], any_file: bool
    ) -> dict[str, Any]:
        results = self._judge(lesson, found["answers"], learner)
        entries = []
        for exercise in lesson.exercises:
            answer = found["answers"].get(exercise.id)
            if answer is None:
                lost = found["missing"].get(exercise.id, "")
                reason = lost or ("; ".join(unreadable)[:400] if unreadable else "")
                result = self._missing(exercise, reason, any_file)
            else:
                result = results[exercise.id].with_(title=exercise.title, points=exercise.points, printed="", hints=0)
                result = result.with_(notes=(*result.notes, *answer["notes"]))
            entries.append(self._entry(exercise, result, answer, learner))
        passed = [(item, entry) for item, entry in zip(lesson.exercises, entries, strict=True) if entry["points"]]
        return {
            "id": lesson.id,
            "title": lesson.title,
            "points": sum(entry["points"] for exercise, entry in passed if not exercise.stretch),
            "most": lesson.points,
            "stretch": sum(entry["points"] for exercise, entry in passed if exercise.stretch),
            "exercises": entries,
        }

    def _entry(
        self, exercise: PlannedExercise, result: Result, answer: Mapping[str, Any] | None, learner: str
    ) -> dict[str, Any]:
        stamp = result.stamp
        checked = exercise.digest if not stamp else stamp["check"]
        if checked != exercise.digest:
            # The worker has another course than the instructor.
            other = diagnose("grading.other_course", exercise=exercise.id)
            result = Result(exercise.id, exercise.title, Verdict.ERROR, diagnosis=other, points=exercise.points)
        hashed = result_hash(
            stamp.get("answer", ""), exercise.digest, stamp.get("seed", ""), stamp.get("version", __version__), learner
        )
        return {
            "exercise": exercise.id,
            "title": exercise.title,
            "points": exercise.points if result.passed else 0,
            "most": exercise.points,
            "stretch": exercise.stretch,
            "hash": hashed,
            "place": "" if answer is None else answer["place"],
            "answer": "" if answer is None else answer["source"],
            "result": steady(result.to_dict()),
        }

    def _missing(self, exercise: PlannedExercise, reason: str, any_file: bool) -> Result:
        rule = "grading.lost_cell" if reason else "grading.no_cell" if any_file else "grading.no_notebook"
        diagnosis = diagnose(rule, exercise=exercise.id, reason=reason)
        return Result(
            exercise.id, exercise.title, Verdict.FAILED, diagnosis=diagnosis, points=exercise.points, graded=True
        )

    def _judge(self, lesson: PlannedLesson, answers: Mapping[str, Any], learner: str) -> dict[str, Result]:
        """The results of a lesson's answers. If judging them together breaks down, each is judged alone."""
        own = [exercise.id for exercise in lesson.exercises if exercise.id in answers]
        if not own:
            return {}
        try:
            return self._ask_judge(lesson.id, own, answers, learner)
        except CannlabError as problem:
            if len(own) == 1:
                return {own[0]: _no_verdict(own[0], problem.diagnosis)}
        results: dict[str, Result] = {}
        for exercise in own:
            try:
                results |= self._ask_judge(lesson.id, [exercise], answers, learner)
            except CannlabError as problem:
                results[exercise] = _no_verdict(exercise, problem.diagnosis)
        return results

    def _ask_judge(
        self, lesson: str, exercises: list[str], answers: Mapping[str, Any], learner: str
    ) -> dict[str, Result]:
        requests = [
            {
                "exercise": exercise,
                "answer": answers[exercise]["source"],
                "terms": {
                    "learner": learner,
                    "secret": self.plan.seed,
                    "elsewhere": answers[exercise]["elsewhere"],
                },
            }
            for exercise in exercises
        ]
        reply = self._reply({"what": "judge", "root": self.plan.root, "lesson": lesson, "answers": requests})
        return {
            exercise: _no_verdict(exercise, Diagnosis.from_dict(each["error"]))
            if "error" in each
            else Result.from_dict(each["result"])
            for exercise, each in zip(exercises, reply["replies"], strict=True)
        }


def _no_verdict(exercise: str, diagnosis: Diagnosis) -> Result:
    """Fail closed: a check that could not run gives no points, and says so."""
    return Result(exercise, "", Verdict.ERROR, diagnosis=diagnosis, graded=True)
