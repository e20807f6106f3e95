"""asc.array: a small fixed array of the kernel. Source: pyasc 4.2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.ir_value import IRValue, PlainValue, materialize_ir_value, raw
from cannlab.ascendc.lib.placeholders import names_of


class Array(IRValue):
    """Elements of one type; indices may be runtime values."""

    def __init__(self, dtype: DataType, values: list[PlainValue]) -> None:
        self.dtype = dtype
        self._values = values

    def _at(self, index: Any) -> int:
        at = int(raw(index))
        if not 0 <= at < len(self._values):
            raise IndexError(f"index {at} of an asc.array with {len(self._values)} elements: undefined on the device")
        return at

    def __getitem__(self, index: Any) -> PlainValue:
        return self._values[self._at(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._values[self._at(index)] = materialize_ir_value(value, self.dtype)

    def __len__(self) -> int:
        return len(self._values)


def array(dtype: DataType, length_or_values: int | Sequence[Any], fill_value: Any = None) -> Array:
    """A fixed local array: of a length (filled with a value, 0 by default here) or of the given values."""
    if isinstance(length_or_values, int):
        fill = materialize_ir_value(0 if fill_value is None else fill_value, dtype)
        return Array(dtype, [fill] * length_or_values)
    return Array(dtype, [materialize_ir_value(value, dtype) for value in length_or_values])


__getattr__ = names_of(__name__)
