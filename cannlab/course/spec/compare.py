"""Comparing a result with the reference: equal or not, and where they first differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cannlab.course.values import MISSING, Foreign, kind_of, show


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where a result differs. ``rule`` is a rule of area course; ``facts`` fill its texts."""

    rule: str
    where: str
    expected: str
    got: str
    facts: dict[str, Any]


def _at(path: str) -> str:
    return f" at {path}" if path else ""


def _differs(rule: str, path: str, expected: str, got: str, **facts: Any) -> Difference:
    return Difference(rule, path, expected, got, {"expected": expected, "got": got, "at": _at(path)} | facts)


@dataclass(frozen=True, slots=True)
class Compare:
    """How results are compared. Made by exact, allclose, near, text, same_items.

    Attributes:
        rtol: allowed error relative to the expected value.
        atol: allowed absolute error.
        dtype: arrays must have the expected dtype.
        words: texts are equal if their words are (case and spaces do not count).
        unordered: a list, tuple or set of the same items in any order.
    """

    rtol: float = 0.0
    atol: float = 0.0
    dtype: bool = True
    words: bool = False
    unordered: bool = False

    @property
    def tolerance(self) -> str:
        """The tolerance in words, for messages; empty when there is none."""
        parts = []
        if self.rtol:
            parts.append(f"{self.rtol:g} relative")
        if self.atol:
            parts.append(f"{self.atol:g} absolute")
        return f" (tolerance {' and '.join(parts)})" if parts else ""

    def difference(self, got: Any, expected: Any) -> Difference | None:
        """The first difference, or None if the result is right. Never raises for odd results."""
        try:
            return self._walk(got, expected, "")
        except RecursionError:
            return _differs("course.wrong_type", "", kind_of(expected), "a value nested too deep")
        except (TypeError, ValueError, OverflowError):
            # What an answer gave may compare, sort or print in no way at all.
            return _differs("course.wrong_type", "", kind_of(expected), f"{kind_of(got)} that cannot be compared")

    def same(self, got: Any, expected: Any) -> bool:
        """True if there is no difference."""
        return self.difference(got, expected) is None

    def _walk(self, got: Any, expected: Any, path: str) -> Difference | None:
        if isinstance(got, Foreign):
            facts = {"type": got.type, "name": path or "the result"}
            return _differs("course.foreign", path, kind_of(expected), show(got), **facts)
        if isinstance(expected, np.ndarray):
            return self._array(got, expected, path)
        if isinstance(expected, dict):
            return self._mapping(got, expected, path)
        if self.unordered and isinstance(expected, (set, frozenset, list, tuple)):
            return self._items(got, expected, path)
        if isinstance(expected, (list, tuple)):
            return self._sequence(got, expected, path)
        return self._single(got, expected, path)

    def _array(self, got: Any, expected: np.ndarray[Any, Any], path: str) -> Difference | None:
        if not isinstance(got, np.ndarray):
            return _differs("course.wrong_type", path, kind_of(expected), kind_of(got))
        if got.shape != expected.shape:
            return _differs("course.wrong_shape", path, str(list(expected.shape)), str(list(got.shape)))
        if self.dtype and got.dtype != expected.dtype:
            return _differs("course.wrong_dtype", path, expected.dtype.name, got.dtype.name)
        with np.errstate(all="ignore"):
            wrong = ~self._close(got, expected)
        if not wrong.any():
            return None
        index = tuple(int(n) for n in np.unravel_index(int(np.argmax(wrong)), wrong.shape)) if wrong.ndim else ()
        place = f"{path}[{', '.join(map(str, index))}]" if index else path
        want, have = show(expected[index]), show(got[index])
        count = int(wrong.sum())
        summary = f"{count} of {wrong.size} elements differ, first at {place}: expected {want}, got {have}."
        return _differs("course.wrong_value", place, want, have, summary=summary)

    def _close(self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        exact_kind = expected.dtype.kind in "biu" and got.dtype.kind in "biu"
        if exact_kind and not self.rtol and not self.atol:
            return np.asarray(got == expected)
        wide = np.complex128 if "c" in (got.dtype.kind, expected.dtype.kind) else np.float64
        left, right = got.astype(wide), expected.astype(wide)
        equal = (left == right) | (np.isnan(left) & np.isnan(right))
        near_enough = np.abs(left - right) <= self.atol + self.rtol * np.abs(right)
        return np.asarray(equal | (near_enough & np.isfinite(right)))

    def _mapping(self, got: Any, expected: dict[Any, Any], path: str) -> Difference | None:
        if not isinstance(got, dict):
            return _differs("course.wrong_type", path, kind_of(expected), kind_of(got))
        if set(got) != set(expected):
            keys = [show(list(value)) for value in (expected, got)]
            summary = f"expected the keys {keys[0]}, got {keys[1]}{_at(path)}."
            return _differs("course.wrong_value", path, *keys, summary=summary)
        for key, value in expected.items():
            found = self._walk(got[key], value, f"{path}[{key!r}]" if path else str(key))
            if found is not None:
                return found
        return None

    def _sequence(self, got: Any, expected: Any, path: str) -> Difference | None:
        if not isinstance(got, (list, tuple)):
            return _differs("course.wrong_type", path, kind_of(expected), kind_of(got))
        for index, (left, right) in enumerate(zip(got, expected, strict=False)):
            found = self._walk(left, right, f"{path}[{index}]")
            if found is not None:
                return found
        if len(got) != len(expected):
            lengths = [f"{len(value)} items" for value in (expected, got)]
            summary = f"expected {lengths[0]}, got {lengths[1]}{_at(path)}."
            return _differs("course.wrong_value", path, *lengths, summary=summary)
        return None

    def _items(self, got: Any, expected: Any, path: str) -> Difference | None:
        if not isinstance(got, (set, frozenset, list, tuple)):
            return _differs("course.wrong_type", path, kind_of(expected), kind_of(got))
        left = sorted((item.strip().lower() if isinstance(item, str) else item for item in got), key=repr)
        right = sorted((item.strip().lower() if isinstance(item, str) else item for item in expected), key=repr)
        if left == right:
            return None
        want, have = show(right), show(left)
        return _differs("course.wrong_value", path, want, have, summary=f"expected {want}, got {have}.")

    def _single(self, got: Any, expected: Any, path: str) -> Difference | None:
        if isinstance(got, np.ndarray) and got.ndim == 0:
            got = got[()]
        number = isinstance(expected, (int, float, complex, np.number)) and not isinstance(expected, bool)
        fits = isinstance(got, (int, float, complex, np.number)) and not isinstance(got, bool) if number else None
        if fits is None:
            truth = (bool, np.bool_)
            fits = isinstance(got, truth) if isinstance(expected, truth) else type(got) is type(expected)
        if got is MISSING or not fits:
            return _differs("course.wrong_type", path, kind_of(expected), kind_of(got))
        if self._equal(got, expected, number):
            return None
        want, have = show(expected), show(got)
        summary = f"expected {want}, got {have}{_at(path)}."
        return _differs("course.wrong_value", path, want, have, summary=summary)

    def _equal(self, got: Any, expected: Any, number: bool) -> bool:
        if not number:
            if self.words and isinstance(expected, str):
                return bool(got.lower().split() == expected.lower().split())
            return bool(got == expected)
        if not self.rtol and not self.atol and isinstance(got, int) and isinstance(expected, int):
            return got == expected
        try:
            left, right = complex(got), complex(expected)
        except OverflowError:
            return False
        if left == right or (left != left and right != right):
            return True
        return math.isfinite(abs(right)) and abs(left - right) <= self.atol + self.rtol * abs(right)


def exact(*, dtype: bool = True) -> Compare:
    """Equal values; arrays of equal shape and (unless ``dtype=False``) dtype."""
    return Compare(dtype=dtype)


def allclose(rtol: float = 1e-5, atol: float = 0.0, *, dtype: bool = True) -> Compare:
    """Equal within atol + rtol * abs(expected), element by element; NaN equals NaN, inf equals inf."""
    return Compare(rtol=rtol, atol=atol, dtype=dtype)


def near(rel: float = 0.0, abs: float = 0.0) -> Compare:
    """One number (or several) within a tolerance; any numeric type."""
    return Compare(rtol=rel, atol=abs, dtype=False)


def text() -> Compare:
    """Texts with the same words: case, spaces and line ends do not count."""
    return Compare(words=True)


def same_items() -> Compare:
    """A list, tuple or set with the same items in any order; texts without regard to case."""
    return Compare(unordered=True)
