"""Which bytes of each operand an instruction touches, from the table and its immediates."""

from __future__ import annotations

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import SIZES, unpack
from cannlab.machine.core.opcodes import ROWS, Row

_KEPT = 16384
_found: dict[tuple[int, int, tuple[int, ...]], tuple[layout.Spans | None, ...]] = {}


def touched(row: Row, dtype: int, imm: tuple[int, ...]) -> tuple[layout.Spans | None, ...]:
    """Byte spans per operand, from the operand's start; None stands for all bytes of the operand."""
    key = (row.number, dtype, imm)
    known = _found.get(key)
    if known is None:
        if len(_found) >= _KEPT:
            _found.clear()
        known = _found[key] = tuple(None if touch is None else touch(dtype, imm) for touch in row.touches)
    return known


def extents(number: int, dtype: int, imm: tuple[int, ...]) -> tuple[int | None, ...]:
    """Bytes from each operand's start to the last byte touched; None where the instruction alone does not say."""
    return tuple(None if found is None else layout.extent(found) for found in touched(ROWS[number], dtype, imm))


def element_size(dtype: int, operand: int) -> int:
    """Bytes of one element of an operand (1 when the instruction has no element type)."""
    codes = unpack(dtype)
    return SIZES[codes[operand]] if operand < len(codes) else 1
