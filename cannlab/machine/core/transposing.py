"""transpose and trans_data_to_5hd. Source: pyasc 7.6."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import SIZES, unpack
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import BLOCK

Index = NDArray[np.int64]
Operands = tuple[tuple[int, int, int], ...]
Imm = tuple[int, ...]
SQUARE, NCHW2NHWC, NHWC2NCHW = 0, 11, 12
"""The first immediate: a 16 x 16 square, or the number of the TransposeType."""
LINES = 16


@lru_cache(maxsize=256)
def _order(imm: Imm) -> Index:
    """Elements of the source in the order of the destination."""
    kind, n, c, h, w = imm
    if kind == SQUARE:
        return np.arange(256).reshape(16, 16).T.reshape(-1)
    if kind == NCHW2NHWC:
        return np.arange(n * c * h * w).reshape(n, c, h * w).transpose(0, 2, 1).reshape(-1)
    return np.arange(n * c * h * w).reshape(n, h * w, c).transpose(0, 2, 1).reshape(-1)


def transpose(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """imm: kind, n, c, h, w; operands (dst, src[, scratch])."""
    code = unpack(dtype)[0]
    order = _order(imm)
    memory.view(operands[0], code)[: len(order)] = memory.view(operands[1], code)[order]


def whole(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of source and destination."""
    return ((0, len(_order(imm)) * SIZES[unpack(dtype)[0]]),)


def repeats(dtype: int, imm: Imm) -> int:
    """256-byte pieces of the data."""
    return -(-len(_order(imm)) * SIZES[unpack(dtype)[0]] // 256)


def scratch(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the scratch buffer."""
    kind, _, c, _, _ = imm
    size = SIZES[unpack(dtype)[0]]
    h0, w0 = (32 if size == 1 else 16), BLOCK // size
    planes = 2 * c + 1 if kind == NHWC2NCHW else c + 2
    return ((0, planes * h0 * w0 * size),)


def to_5hd(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """16 lines of a block each, transposed; imm: repeats, destination and source step (blocks), high halves.

    8-bit data: half a block of each line; 32-bit data: 8 elements a line, two destination lines for each.
    """
    repeats, dst_step, src_step, dst_high, src_high = imm
    code = unpack(dtype)[0]
    size = SIZES[code]
    per = BLOCK // size
    for repeat in range(repeats):
        # With one repeat the steps count once before use.
        turn = 1 if repeats == 1 else repeat
        lines = [_line(memory, operands[LINES + k], code, turn * src_step * per, per) for k in range(LINES)]
        source = np.stack(lines)
        out = [_line(memory, operands[k], code, turn * dst_step * per, per) for k in range(LINES)]
        if size == 2:
            for j in range(LINES):
                out[j][:] = source[:, j]
        elif size == 4:
            for j in range(8):
                out[2 * j][:], out[2 * j + 1][:] = source[:8, j], source[8:, j]
        else:
            for j in range(LINES):
                out[j][16 * dst_high : 16 * dst_high + 16] = source[:, 16 * src_high + j]


def _line(memory: Memory, operand: tuple[int, int, int], code: int, at: int, per: int) -> NDArray[Any]:
    return memory.view(operand, code)[at : at + per]


def line(source: bool) -> Any:
    """Bytes of a line over all repeats."""

    def touch(dtype: int, imm: Imm) -> layout.Spans:
        repeats, step = imm[0], imm[2] if source else imm[1]
        half = SIZES[unpack(dtype)[0]] == 1
        start = 16 * imm[4 if source else 3] if half else 0
        turns = (1,) if repeats == 1 else range(repeats)
        spans = {(turn * step * BLOCK + start, turn * step * BLOCK + start + (16 if half else BLOCK)) for turn in turns}
        return tuple(sorted(spans))

    return touch
