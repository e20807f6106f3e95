"""Fingerprints: what a copy cannot hide, and what the course itself gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cannlab.course.grading.plan import Plan, PlannedExercise, PlannedLesson
from cannlab.course.grading.similarity import Similarity, fingerprints, tokens

EX = "01_a.f"
PLACEHOLDER = f"# exercise: {EX}\ndef mean(data):\n    n = len(data)\n    return None"
ONE = f"""# exercise: {EX}
def mean(data):
    total = 0
    for value in data:
        if value > 0:
            total += value * 2
        elif value < -1:
            total -= value / 3
    while total > 100:
        total = total // 2
    return total / len(data)
"""
RENAMED = f"""# exercise: {EX}
# all mine
def mean( xs ):
    acc = 0      # start
    for x in xs:
        if x > 0 :
            acc += x * 7
        elif x < -4:
            acc -= x / 9

    while acc > 55:
        acc = acc // 3
    return acc / len(xs)
"""
OTHER = f"""# exercise: {EX}
def mean(data):
    import numpy as np
    array = np.asarray(data, dtype=np.float64)
    mask = np.where(array > 0, array, np.zeros_like(array))
    scaled = (mask ** 2).sum() + np.abs(array[array < 0]).max(initial=0.0)
    return float(scaled.clip(0, 100) / max(array.size, 1))
"""


def _report(learner: str, answer: str, identifier: str = "cannlab") -> dict[str, Any]:
    entry = {"exercise": EX, "answer": answer}
    return {"learner": learner, "id": identifier, "lessons": [{"exercises": [entry]}]}


def _similarity(out: Path, answers: dict[str, str], solution: str = OTHER) -> Similarity:
    exercise = PlannedExercise(EX, "Mean", 1, False, "d", PLACEHOLDER, solution, "import numpy as np")
    found = Similarity(out, Plan("", "t", "1", "s", (PlannedLesson("01_a", "A", (exercise,)),)))
    for learner, answer in answers.items():
        found.add(_report(learner, answer))
    return found


def test_names_numbers_texts_comments_and_layout_do_not_count() -> None:
    assert tokens(ONE) == tokens(RENAMED)
    assert tokens("a.sum('x')  # c") == ["N", ".", "sum", "(", "S", ")"]
    assert tokens("b.max('y')") != tokens("a.sum('x')")


def test_a_renamed_copy_is_found_and_an_own_answer_is_not(tmp_path: Path) -> None:
    pairs = list(_similarity(tmp_path, {"ann": ONE, "bob": RENAMED, "eve": OTHER}).pairs())
    assert [(pair.one, pair.other, pair.share) for pair in pairs] == [("ann", "bob", 1.0)]


def test_what_was_given_does_not_count(tmp_path: Path) -> None:
    given = frozenset(fingerprints(ONE, frozenset()))
    assert len(given) > 10
    assert list(_similarity(tmp_path, {"ann": PLACEHOLDER, "bob": PLACEHOLDER}).pairs()) == []


def test_what_everybody_writes_tells_nothing(tmp_path: Path) -> None:
    everybody = {f"learner{number}": ONE for number in range(12)}
    assert list(_similarity(tmp_path, everybody).pairs()) == []


def test_the_courses_own_solution_is_named(tmp_path: Path) -> None:
    found = _similarity(tmp_path, {"ann": ONE, "eve": OTHER})
    found.close(keep=True)
    page = (tmp_path / "similarity.html").read_text(encoding="utf-8")
    assert "own solution" in page
    assert "<td>eve</td>" in page


def test_broken_code_and_floods_are_compared_too() -> None:
    assert len(fingerprints("def f(:\n  '''" + "x = (1, 2) + " * 2000, frozenset())) > 0
    assert len(fingerprints('"""' * 20_001, frozenset())) >= 0


def test_a_common_run_is_always_found() -> None:
    run = "for i in range(3): total += i * i - j"
    one = set(fingerprints("a = [1]\n" + run + "\nprint(a, b, c)", frozenset()))
    other = set(fingerprints("x.y(z)\nw = {}\n" + run + "\nreturn w[0]", frozenset()))
    assert one & other
