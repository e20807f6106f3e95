"""Small public functions of asc. Source: pyasc 3, 4.1."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.lib.placeholders import names_of


def ceildiv(x: Any, y: Any) -> Any:
    """(x + y - 1) / y on Python ints, and on runtime ints."""
    if isinstance(x, PlainValue):
        return x.ceildiv(y)
    if isinstance(y, PlainValue):
        return PlainValue(x, y.dtype).ceildiv(y)
    return (x + y - 1) // y


def static_assert(test: Any, message: str | None = None) -> None:
    """A check at compile time: AssertionError with the message, ValueError without one."""
    if isinstance(test, PlainValue):
        raise TypeError("static_assert tests a compile-time value, got a runtime value")
    if not test:
        if message is None:
            raise ValueError("miss message")
        raise AssertionError(message)


__getattr__ = names_of(__name__)
