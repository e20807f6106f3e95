"""What rewritten kernels call for the constructs whose meaning differs from Python's."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from typing import Any

from cannlab.ascendc.codegen import alike
from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.language.core.range import range as runtime_range

WHILE_TURNS = 1_000_000


def loop(function: Any, *args: Any) -> Iterable[Any]:
    """The iterable of a for statement."""
    if function is builtins.range:
        function = runtime_range
    result: Iterable[Any] = function(*args)
    return alike.turns(result) if type(result) is runtime_range else result


def turns(iterator: Any) -> Iterable[Any]:
    """The turns of ``with matmul.iterate() as i:``.

    Raises:
        AttributeError: anything else than an iteration over base tiles.
    """
    found = getattr(iterator, "turns", None)
    if found is None:
        raise AttributeError(f"'{type(iterator).__name__}' object has no attribute '__enter__'")
    result: Iterable[Any] = found()
    return result


def watch(condition: Callable[[], Any], reads: bool) -> Callable[[], bool]:
    """The condition of a while statement, with the values that names had before the loop."""
    turns = 0

    def again() -> bool:
        nonlocal turns
        if not condition():
            return False
        launch = GlobalBuilder.get("while").launch
        if not reads:
            launch.stop("kernel.while_frozen")
        turns += 1
        if turns > WHILE_TURNS:
            launch.stop("kernel.while_limit", turns=WHILE_TURNS)
        return True

    return again


def both(left: Any, right: Any) -> Any:
    """``and``."""
    return _logical("logical_and", left, right)


def either(left: Any, right: Any) -> Any:
    """``or``."""
    return _logical("logical_or", left, right)


def _logical(name: str, left: Any, right: Any) -> Any:
    if not isinstance(left, PlainValue):
        if not isinstance(right, PlainValue):
            raise AttributeError(f"'{type(left).__name__}' object has no attribute '{name}'")
        left, right = right, left
    return getattr(left, name)(right)


def negate(value: Any) -> PlainValue:
    """``not``."""
    if not isinstance(value, PlainValue):
        raise AttributeError(f"'{type(value).__name__}' object has no attribute 'logical_not'")
    return PlainValue(not value.value, KnownTypes.int1)


def chosen(value: Any) -> Any:
    """The value of ``a if c else b``: a runtime value."""
    return PlainValue(value) if isinstance(value, (bool, int, float)) else value
