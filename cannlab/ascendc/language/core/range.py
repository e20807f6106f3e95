"""Loops of a kernel. Source: pyasc 4.1."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.ir_value import (
    PlainValue,
    default_type,
    in_int32,
    int32,
    materialize_ir_value,
    raw,
)
from cannlab.ascendc.language.core.moving import FOREVER, Moves, Moving, moved, spoil, within
from cannlab.ascendc.lib.placeholders import names_of


class range:
    """A loop at run time: ``for (i = start; i < stop; i += step)``; ``i`` is a runtime int."""

    def __init__(self, *args: Any) -> None:
        if not 1 <= len(args) <= 3:
            raise TypeError(f"range expects 1 to 3 arguments, got {len(args)}")
        for value in args:
            if not isinstance(value, (int, float, PlainValue)):
                raise TypeError(f"range expects numbers, got {type(value).__name__}")
        # A float bound is cut to an int32, as the front end does.
        kinds = [value.dtype for value in args if isinstance(value, PlainValue) and not value.dtype.is_float()]
        if any(kind != kinds[0] for kind in kinds):
            raise TypeError("range expects runtime values of one type")
        self._type = kinds[0] if kinds else default_type(0)
        bounds = [_bound(value) for value in (args if len(args) > 1 else (0, *args))]
        (self.start, self._starts), (self.stop, self._stops) = bounds[:2]
        self.step = int(raw(args[2])) if len(args) == 3 else 1
        if self.step <= 0:
            raise ValueError(f"range with step {self.step}: a loop of the device counts upwards; use a positive step")

    @property
    def dtype(self) -> DataType:
        """The counter's type."""
        return self._type

    def span(self) -> builtins.range | None:
        """The counter's values; None where some of them do not fit a signed type."""
        half = 1 << (self._type.bitwidth - 1)
        if not self._type.is_signed() or not (-half <= self.start < half and -half <= self.stop < half):
            spoil(self._starts)
            spoil(self._stops)
            return None
        found = builtins.range(self.start, self.stop, self.step)
        if self._starts or self._stops:
            # Bounds that move leave the number of turns as it is, as long as these two stay where they are.
            over, moves = self.start + len(found) * self.step - self.stop, moved(self._starts, self._stops, -1)
            within(over, moves, 0, FOREVER)
            if found:
                within(over - self.step, moves, -FOREVER, -1)
        return found

    def values(self, span: builtins.range, moves: Moves | None = None) -> Iterator[PlainValue]:
        """Some of the counter's values as runtime values, which move as well."""
        moves = moved(self._starts, moves)
        if moves:
            return (Moving(value, moves, self._type) for value in span)
        if self._type is default_type(0) and in_int32(self.start) and in_int32(self.stop):
            return map(int32, span)
        return (materialize_ir_value(value, self._type) for value in span)

    def __iter__(self) -> Iterator[PlainValue]:
        spoil(self._starts)
        spoil(self._stops)
        return self.values(builtins.range(self.start, self.stop, self.step))


def _bound(value: Any) -> tuple[int, Moves | None]:
    """A bound, and how it moves."""
    return (value.at, value.moves) if type(value) is Moving else (int(raw(value)), None)


class static_range:
    """A loop unrolled at compile time: bounds and ``i`` are Python ints."""

    def __init__(self, *args: Any) -> None:
        for value in args:
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"static_range expects compile-time integers, got {type(value).__name__}")
        self._range = builtins.range(*args)

    def __iter__(self) -> Iterator[int]:
        return iter(self._range)


__getattr__ = names_of(__name__)
