"""A worker: what breaks down costs itself only, and never passes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trivial

from cannlab.course.grading.collecting import collect
from cannlab.course.grading.plan import Plan, PlannedExercise, PlannedLesson
from cannlab.course.grading.pool import grade_one
from cannlab.course.grading.server import cut
from cannlab.course.grading.submissions import Notebook, Submission
from cannlab.course.grading.worker import Work, Worker, load, steady
from cannlab.course.result import Result, Verdict
from cannlab.errors import CannlabError, diagnose

COUNT = 3


def _plan() -> Plan:
    exercises = tuple(
        PlannedExercise(
            trivial.exercise(n),
            "Times",
            2,
            n == 2,
            f"check{n}",
            trivial.placeholder(n),
            trivial.right(n),
            trivial.SETUP,
        )
        for n in range(COUNT)
    )
    return Plan("", "trivial", "1", "secret", (PlannedLesson(trivial.LESSON, "Trivial", exercises),))


class Fake:
    """A checking process that breaks down where it is told to; else every answer passes."""

    def __init__(self, *, together: bool = False, on: str = "", check: str = "check", raising: bool = False) -> None:
        self.together, self.on, self.check, self.raising = together, on, check, raising
        self.asked: list[list[str]] = []

    def ask(self, request: Mapping[str, Any], blob: bytes = b"") -> dict[str, Any]:
        if self.raising:
            raise KeyError("a mistake of ours")
        if request["what"] == "collect":
            files = cut(blob, request["files"])
            if any(b"breaks the reader" in data for _, data in files):
                raise CannlabError(diagnose("course.engine", message="reading ended"))
            return collect(files, request["placeholders"])
        exercises = [answer["exercise"] for answer in request["answers"]]
        self.asked.append(exercises)
        if self.on in exercises or (self.together and len(exercises) > 1):
            raise CannlabError(diagnose("course.engine", message="judging ended"))
        results = []
        for answer in request["answers"]:
            stamp = {
                "answer": answer["answer"],
                "check": self.check + answer["exercise"][-1],
                "seed": "s",
                "version": "1",
            }
            results.append({"result": Result(answer["exercise"], "", Verdict.PASSED, stamp=stamp).to_dict()})
        return {"replies": results}

    def close(self) -> None:
        """Nothing to end."""


def _work(*extra: tuple[str, bytes]) -> Work:
    book = trivial.workbook({n: trivial.right(n) for n in range(COUNT)}, COUNT, "abc")
    return Work("ann", "ann", (("w.ipynb", json.dumps(book).encode()), *extra), (), ())


def _grade(fake: Fake, work: Work | None = None) -> dict[str, Any]:
    return Worker(_plan(), fake).grade(work or _work())  # type: ignore[arg-type]


def _verdicts(report: Mapping[str, Any]) -> list[str]:
    return [entry["result"]["verdict"] for entry in report["lessons"][0]["exercises"]]


def test_points_and_stretch_points_are_kept_apart() -> None:
    report = _grade(Fake())
    assert (report["points"], report["most"], report["stretch"], report["ungraded"]) == (4, 4, 2, 0)
    assert report["id"] == "abc"


def test_if_judging_together_breaks_down_each_is_judged_alone() -> None:
    fake = Fake(together=True)
    assert _verdicts(_grade(fake)) == ["passed"] * COUNT
    assert [len(asked) for asked in fake.asked] == [COUNT, 1, 1, 1]


def test_an_answer_that_breaks_the_judge_gets_no_verdict_and_no_points() -> None:
    report = _grade(Fake(on=trivial.exercise(1)))
    assert _verdicts(report) == ["passed", "error", "passed"]
    assert (report["points"], report["ungraded"]) == (2, 1)


def test_a_file_that_breaks_the_reader_is_named_and_the_others_are_read() -> None:
    report = _grade(Fake(), _work(("bad.ipynb", b"breaks the reader")))
    assert report["points"] == 4
    assert report["ungraded"] == 1
    assert report["unreadable"][0].startswith("bad.ipynb: reading it failed")


def test_a_worker_with_another_course_gives_no_points() -> None:
    report = _grade(Fake(check="other"))
    assert _verdicts(report) == ["error"] * COUNT
    assert report["points"] == 0
    assert report["lessons"][0]["exercises"][0]["result"]["diagnosis"]["rule"] == "grading.other_course"


def test_the_hash_moves_with_answer_check_seed_version_and_learner() -> None:
    from cannlab.course.grading.plan import result_hash

    base = ["answer", "check", "seed", "1.0", "ann"]
    hashes = {result_hash(*base)}
    for place in range(len(base)):
        hashes.add(result_hash(*(part + "x" if at == place else part for at, part in enumerate(base))))
    assert len(hashes) == 6
    assert result_hash("a", "bc", "", "", "") != result_hash("ab", "c", "", "", "")


def test_our_own_mistake_costs_one_learner_and_is_named(tmp_path: Path) -> None:
    path = trivial.hand_in(tmp_path, "ann", trivial.workbook({}, COUNT))
    submission = Submission("ann", "ann", (Notebook("w.ipynb", path, path.stat().st_size),))
    report = grade_one(Worker(_plan(), Fake(raising=True)), submission)  # type: ignore[arg-type]
    assert (report["points"], report["ungraded"]) == (0, 1)
    assert "KeyError: 'a mistake of ours'" in report["unreadable"][0]


def test_huge_files_are_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cannlab.course.grading.worker.MOST_MIB", 1)
    sizes = {"a.ipynb": 2 << 20, "b.ipynb": 1 << 20, "c.ipynb": 1 << 20, "d.ipynb": 10}
    notebooks = []
    for name, size in sizes.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
        notebooks.append(Notebook(name, tmp_path / name, size))
    work = load(Submission("ann", "ann", tuple(notebooks)))
    assert [name for name, _ in work.files] == ["b.ipynb", "c.ipynb"]
    assert [text.partition(":")[0] for text in work.unreadable] == ["a.ipynb", "d.ipynb"]


def test_addresses_are_taken_out_and_nothing_else() -> None:
    data = {"a": ["<f at 0x7f3a91c0>", 3, None], "b": "mask 0x7f3a91c0"}
    assert steady(data) == {"a": ["<f at 0x...>", 3, None], "b": "mask 0x7f3a91c0"}
