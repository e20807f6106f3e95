"""softmax and rmsnorm over the rows of a matrix: composite functions, each is many instructions on hardware. Source:
pyasc 8.

Immediates: ``(rows, elements of a row with its padding, elements that count[, two numbers' bits])``. Computed in
float32 and rounded once (assumed: on hardware half is widened too).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import SIZES, unpack, widest
from cannlab.machine.core.floats import from_bits
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import BLOCK, REPEAT

Imm = tuple[int, ...]
Operands = tuple[tuple[int, int, int], ...]
Touch = Callable[[int, Imm], layout.Spans]


def matrix(operand: int) -> Touch:
    """The elements that count of every row."""

    def touch(dtype: int, imm: Imm) -> layout.Spans:
        size = SIZES[unpack(dtype)[operand]]
        rows, whole, count = imm[:3]
        if whole == count:
            return ((0, rows * whole * size),)
        return tuple((row * whole * size, (row * whole + count) * size) for row in range(rows))

    return touch


def blocks(operand: int) -> Touch:
    """A block of 32 bytes for each row."""
    return lambda dtype, imm: ((0, imm[0] * BLOCK),)


def line(operand: int) -> Touch:
    """One row."""
    return lambda dtype, imm: ((0, imm[2] * SIZES[unpack(dtype)[operand]]),)


def repeats(dtype: int, imm: Imm) -> int:
    """256 bytes each, of every row."""
    return imm[0] * -(-imm[1] * widest(dtype) // REPEAT)


def _rows(memory: Memory, operand: tuple[int, int, int], code: int, imm: Imm) -> NDArray[Any]:
    """The elements that count; the last row may be cut off behind them."""
    rows, whole, count = imm[:3]
    flat = memory.view(operand, code)
    return np.lib.stride_tricks.as_strided(flat, (rows, count), (whole * flat.itemsize, flat.itemsize))


def softmax(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """dst = exp(x - max) / sum of each row; sum and max fill a block of each row."""
    codes = unpack(dtype)
    source = _rows(memory, operands[3], codes[3], imm).astype(np.float32)
    top = source.max(axis=1, keepdims=True)
    powers = np.exp(source - top)
    total = powers.sum(axis=1, keepdims=True, dtype=np.float32)
    _rows(memory, operands[0], codes[0], imm)[...] = powers / total
    for place, values in ((1, total), (2, top)):
        memory.view(operands[place], codes[place]).reshape(imm[0], -1)[...] = values


def rmsnorm(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """dst = x / sqrt(mean of x * x + epsilon) * gamma of each row. imm: epsilon and the mean's factor, as bits."""
    codes = unpack(dtype)
    epsilon, factor = np.float32(from_bits(imm[3])), np.float32(from_bits(imm[4]))
    source = _rows(memory, operands[1], codes[1], imm).astype(np.float32)
    gamma = memory.view(operands[2], codes[2])[: imm[2]].astype(np.float32)
    mean = (source * source).sum(axis=1, keepdims=True, dtype=np.float32) * factor
    _rows(memory, operands[0], codes[0], imm)[...] = source / np.sqrt(mean + epsilon) * gamma
