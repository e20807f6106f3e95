"""Comparing results: what is equal, and where the first difference is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cannlab.course.spec import allclose, exact, near, same_items, text
from cannlab.course.spec.compare import Compare
from cannlab.course.values import MISSING, Foreign, show

A = np.arange(6, dtype=np.float32).reshape(2, 3)

EQUAL: list[tuple[Compare, Any, Any]] = [
    (exact(), A.copy(), A),
    (exact(), [1, (2.0, "x")], (1, [2.0, "x"])),
    (exact(), {"a": A.copy()}, {"a": A}),
    (exact(), float("nan"), float("nan")),
    (exact(), np.float32(2), 2),
    (exact(), 10**30, 10**30),
    (exact(), None, None),
    (exact(), np.array([np.nan, np.inf]), np.array([np.nan, np.inf])),
    (allclose(1e-3), A * np.float32(1.0005), A),
    (exact(dtype=False), A.astype(np.float64), A),
    (near(rel=0.01), 100.5, 100),
    (near(abs=2), np.int32(9), 10.5),
    (text(), "Cube  unit\n", "cube unit"),
    (same_items(), ["b", "A "], {"a", "b"}),
]


@pytest.mark.parametrize(("how", "got", "expected"), EQUAL)
def test_equal(how: Compare, got: Any, expected: Any) -> None:
    assert how.difference(got, expected) is None


DIFFERENT: list[tuple[Compare, Any, Any, str, str]] = [
    (exact(), A + np.float32(A == 4), A, "course.wrong_value", "[1, 1]"),
    (exact(), A.T, A, "course.wrong_shape", ""),
    (exact(), A.astype(np.float64), A, "course.wrong_dtype", ""),
    (exact(), A.tolist(), A, "course.wrong_type", ""),
    (exact(), None, A, "course.wrong_type", ""),
    (exact(), MISSING, None, "course.wrong_type", ""),
    (exact(), Foreign("generator", "<g>"), [1], "course.foreign", ""),
    (exact(), [1, Foreign("X", "x")], [1, 2], "course.foreign", "[1]"),
    (exact(), {"a": [1, 2]}, {"a": [1, 3]}, "course.wrong_value", "a[1]"),
    (exact(), {"a": 1}, {"b": 1}, "course.wrong_value", ""),
    (exact(), [1, 2], [1, 2, 3], "course.wrong_value", ""),
    (exact(), 1, True, "course.wrong_type", ""),
    (exact(), True, 1, "course.wrong_type", ""),
    (exact(), "1", 1, "course.wrong_type", ""),
    (exact(), 10**30 + 1, 10**30, "course.wrong_value", ""),
    (exact(), "Cube", "cube", "course.wrong_value", ""),
    (near(rel=0.01), float("nan"), 100, "course.wrong_value", ""),
    (near(rel=0.5), 10**400, 1.0, "course.wrong_value", ""),
    (near(rel=0.5), math.inf, 1.0, "course.wrong_value", ""),
    (allclose(1e-3), np.array([np.nan]), np.array([1.0]), "course.wrong_value", "[0]"),
    (allclose(1e9), np.array([1.0]), np.array([np.inf]), "course.wrong_value", "[0]"),
    (allclose(1e-3), np.array([2**53 + 1]), np.array([np.nan]), "course.wrong_dtype", ""),
    (same_items(), ["a"], {"a", "b"}, "course.wrong_value", ""),
    (same_items(), "ab", {"a", "b"}, "course.wrong_type", ""),
]


@pytest.mark.parametrize(("how", "got", "expected", "rule", "where"), DIFFERENT)
def test_different(how: Compare, got: Any, expected: Any, rule: str, where: str) -> None:
    found = how.difference(got, expected)
    assert found is not None
    assert (found.rule, found.where) == (rule, where)


def test_the_summary_counts_and_shows_both_values() -> None:
    wrong = A.copy()
    wrong[0, 2] = 9
    wrong[1, 0] = 7
    found = exact().difference(wrong, A)
    assert found is not None
    assert found.facts["summary"] == "2 of 6 elements differ, first at [0, 2]: expected 2, got 9."


def test_large_integers_are_compared_exactly() -> None:
    big = np.array([2**62], dtype=np.int64)
    assert exact().difference(big + 1, big) is not None


def test_a_tuple_with_one_entry_does_not_look_like_its_entry() -> None:
    assert show((7,)) == "(7,)"
    assert show((7, 8)) == "(7, 8)"
    assert show([7]) == "[7]"
