"""Each submission gets what it deserves, and costs nobody else anything."""

from __future__ import annotations

import csv
import json
import re

import attacks
import pytest
from attacks import Answer, Handed
from mixed_class import Graded

HOSTILE = attacks.answers(*attacks.ATTACKED)
CLUMSY = attacks.answers("clumsy")
_OURS = re.compile(r"Traceback \(most recent|\.py\", line |course\.engine")


def _points(answer: Answer) -> dict[str, int]:
    """All points of the exercises that such a learner handed in."""
    near = attacks.neighbours(answer.exercise)
    return {exercise: points if exercise in near else 0 for exercise, points in attacks.POINTS.items()}


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    names = [entry.name for entry in (*HOSTILE, *CLUMSY, *attacks.HANDED)]
    assert len(names) == len(set(names)) > 60
    assert all(answer.rules for answer in HOSTILE)
    assert not any(answer.rules for answer in CLUMSY)


@pytest.mark.parametrize("answer", HOSTILE, ids=lambda answer: answer.name)
def test_hostile_answers_get_no_points_and_a_diagnosis(answer: Answer, graded: Graded, layers: dict[str, str]) -> None:
    if answer.layer and layers[answer.layer] != "on":
        pytest.skip(f"layer {answer.layer} is {layers[answer.layer]}")
    result = graded.result(answer.name, answer.exercise)
    assert result["verdict"] == "failed"
    assert result["diagnosis"] is not None
    assert answer.gets(result["diagnosis"]["rule"]), (result["diagnosis"]["rule"], result["diagnosis"]["what"])
    assert graded.points(answer.name) == _points(answer) | {answer.exercise: 0}


@pytest.mark.parametrize("answer", CLUMSY, ids=lambda answer: answer.name)
def test_clumsy_answers_get_all_points(answer: Answer, graded: Graded) -> None:
    result = graded.result(answer.name, answer.exercise)
    assert result["verdict"] == "passed", result["diagnosis"]
    assert graded.points(answer.name) == _points(answer)


@pytest.mark.parametrize("handed", attacks.HANDED, ids=lambda handed: handed.name)
def test_odd_notebooks_lose_what_cannot_be_read_only(handed: Handed, graded: Graded) -> None:
    whole = {exercise: points * (exercise in attacks.HANDED_IN) for exercise, points in attacks.POINTS.items()}
    assert graded.points(handed.name) == whole | dict.fromkeys(handed.lost, 0)
    report = graded.reports[handed.name]
    for exercise in handed.lost:
        result = graded.result(handed.name, exercise)
        assert result["verdict"] == "failed"
        assert result["diagnosis"]["remedy"]
    assert handed.said in json.dumps(report)


@pytest.mark.parametrize("name", ["0-honest", "honest-1", "n-honest", "zz-honest"])
def test_honest_learners_beside_them_lose_nothing(name: str, graded: Graded) -> None:
    assert graded.points(name) == attacks.POINTS
    assert graded.reports[name]["ungraded"] == 0


def test_no_report_shows_the_harness(graded: Graded) -> None:
    for learner, report in graded.reports.items():
        texts = [entry["result"] for lesson in report["lessons"] for entry in lesson["exercises"]]
        found = _OURS.search(json.dumps(texts))
        assert found is None, (learner, found)
        assert "<script>alert" not in graded.pages[learner]


def test_everybody_is_in_the_gradebook(graded: Graded) -> None:
    with (graded.out / "gradebook.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert len(graded.reports) == len(rows) - 1 == len(HOSTILE) + len(CLUMSY) + len(attacks.HANDED) + 4


def test_nothing_was_written_beside_the_results(graded: Graded) -> None:
    before, after = graded.around
    assert after - before == set()
    assert before - after == set()
