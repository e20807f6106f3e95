"""Reductions: sums as binary trees of neighbours, maxima and minima with their index.

Immediates. Per repeat (whole, block, pair): ``(MASK, repeat, low, high, 0, blk, 0, dst_rep, src_rep, 0, order)``.
Over everything (reduce_*): ``(COUNT, n, index)`` or ``(MASK, repeat, low, high, 0, 1, 0, 0, rep, 0, index)``.
Every node of a tree is rounded to the element type. Source: pyasc 7.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import SIZES, unpack
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import BLOCK, REPEAT

Array = NDArray[Any]
Operands = tuple[tuple[int, int, int], ...]
Imm = tuple[int, ...]
VALUE_INDEX, INDEX_VALUE, ONLY_VALUE, ONLY_INDEX = range(4)


def tree(rows: Array) -> Array:
    """Sum the last axis as a tree of neighbours, (e0+e1)+(e2+e3)...; lanes masked off count as 0."""
    while rows.shape[-1] > 1:
        if rows.shape[-1] % 2:
            rows = np.concatenate([rows, np.zeros((*rows.shape[:-1], 1), dtype=rows.dtype)], axis=-1)
        rows = rows[..., 0::2] + rows[..., 1::2]
    return rows[..., 0]


def _grid(memory: Memory, code: int, imm: Imm, operand: tuple[int, int, int]) -> tuple[Array, Array]:
    """The source as (repeat, lane) with the active lanes; inactive ones hold 0. Plus which are active."""
    size = SIZES[code]
    active = layout.lanes(size, imm[0], imm[1], imm[2], imm[3])
    picks = layout.indices(size, size, imm[:10], 1)
    source = memory.view(operand, code)
    values = np.zeros((layout.repeats(size, imm), REPEAT // size), dtype=source.dtype)
    mask = np.zeros(values.shape, dtype=bool)
    values[active[:, 0], active[:, 1]] = source[picks]
    mask[active[:, 0], active[:, 1]] = True
    return values, mask


def _best(values: Array, mask: Array, largest: bool) -> tuple[Array, Array]:
    """Per row the extreme value and the smallest lane that holds it."""
    worst = values.dtype.type(-np.inf if largest else np.inf)
    filled = np.where(mask, values, worst)
    # A row of nothing but the worst value must still answer with one of its active lanes.
    lane = (np.argmax if largest else np.argmin)(filled, axis=1)
    first = np.argmax(mask, axis=1)
    rows = np.arange(len(filled))
    lane = np.where(mask[rows, lane], lane, first)
    return filled[rows, lane], lane


def _bits(lane: Array, kind: np.dtype[Any]) -> Array:
    """An index as the raw bits of a value of that width."""
    unsigned = np.uint16 if kind.itemsize == 2 else np.uint32
    return lane.astype(unsigned).view(kind)


def whole_sum(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """whole_reduce_sum, repeat_reduce_sum: one sum per repeat, at dst[r * dst_rep_stride]."""
    code = unpack(dtype)[1]
    values, _ = _grid(memory, code, imm, operands[1])
    dst = memory.view(operands[0], code)
    dst[np.arange(len(values)) * imm[7]] = tree(values)


def whole_extreme(largest: bool) -> Callable[[Memory, int, Imm, Operands], None]:
    """whole_reduce_max, whole_reduce_min."""

    def execute(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
        code = unpack(dtype)[1]
        values, mask = _grid(memory, code, imm, operands[1])
        value, lane = _best(values, mask, largest)
        order, stride = imm[10], imm[7]
        at = np.arange(len(values)) * stride
        if order == ONLY_INDEX:
            memory.view(operands[0], unpack(dtype)[0])[at] = lane
            return
        dst = memory.view(operands[0], code)
        if order == ONLY_VALUE:
            dst[at] = value
            return
        index = _bits(lane, dst.dtype)
        dst[2 * at], dst[2 * at + 1] = (value, index) if order == VALUE_INDEX else (index, value)

    return execute


def block(kind: str) -> Callable[[Memory, int, Imm, Operands], None]:
    """block_reduce_sum, _max, _min: eight results per repeat, one per 32-B block."""

    def execute(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
        code = unpack(dtype)[1]
        values, mask = _grid(memory, code, imm, operands[1])
        per = BLOCK // SIZES[code]
        rows, active = values.reshape(-1, per), mask.reshape(-1, per)
        result = tree(rows) if kind == "sum" else _best(rows, active, kind == "max")[0]
        at = (np.arange(len(values))[:, None] * imm[7] * 8 + np.arange(8)[None, :]).reshape(-1)
        written = active.any(axis=1)
        memory.view(operands[0], code)[at[written]] = result[written]

    return execute


def pair_sum(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """pair_reduce_sum: dst[i] = src[2i] + src[2i+1]; 128 B of results per repeat."""
    code = unpack(dtype)[1]
    values, mask = _grid(memory, code, imm, operands[1])
    half = values.shape[1] // 2
    result = values[:, 0::2] + values[:, 1::2]
    written = mask[:, 0::2] | mask[:, 1::2]
    at = np.arange(len(values))[:, None] * imm[7] * half + np.arange(half)[None, :]
    memory.view(operands[0], code)[at[written]] = result[written]


def _counted(code: int, imm: Imm) -> Imm:
    """A count as the counter form with dense repeats."""
    return (layout.COUNTER, imm[1], 0, 0, 1, 1, 1, 8, 8, 8) if imm[0] == layout.COUNT else imm


def total_sum(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """reduce_sum: a tree in each repeat; the count form adds their results in order, the mask form as a tree."""
    code = unpack(dtype)[0]
    form = _counted(code, imm)
    if not form[1]:
        return
    partial = tree(_grid(memory, code, form, operands[1])[0])
    if imm[0] == layout.COUNT:
        result = partial[0]
        for value in partial[1:]:
            result = result + value
    else:
        result = tree(partial[None, :])[0]
    memory.view(operands[0], code)[0] = result


def total_extreme(largest: bool) -> Callable[[Memory, int, Imm, Operands], None]:
    """reduce_max, reduce_min: dst[0] = value and, if asked, dst[1] = bits of the first index that holds it."""

    def execute(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
        code = unpack(dtype)[0]
        form = _counted(code, imm)
        if not form[1]:
            return
        values, mask = _grid(memory, code, form, operands[1])
        value, lane = _best(values.reshape(1, -1), mask.reshape(1, -1), largest)
        dst = memory.view(operands[0], code)
        dst[0] = value[0]
        if imm[layout.head(imm)]:
            dst[1] = _bits(lane, dst.dtype)[0]

    return execute


# -- which bytes they write ---------------------------------------------------------------------------


def whole_dst(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes that whole_reduce_* writes."""
    kind, order = unpack(dtype)[0], imm[10]
    two = 2 if order in (VALUE_INDEX, INDEX_VALUE) else 1
    at = np.arange(imm[1]) * imm[7] * two
    return layout.runs(np.concatenate([at + k for k in range(two)]), SIZES[kind])


def block_dst(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes that block_reduce_* writes."""
    size = SIZES[unpack(dtype)[1]]
    bits = (imm[2] & layout.WORD) | (imm[3] & layout.WORD) << 64
    per = BLOCK // size
    blocks = np.array([b for b in range(8) if bits >> (b * per) & ((1 << per) - 1)], dtype=np.int64)
    at = (np.arange(imm[1])[:, None] * imm[7] * 8 + blocks[None, :]).reshape(-1)
    return layout.runs(at, size)


def pair_dst(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes that pair_reduce_sum writes."""
    size = SIZES[unpack(dtype)[1]]
    half = REPEAT // size // 2
    bits = (imm[2] & layout.WORD) | (imm[3] & layout.WORD) << 64
    pairs = np.array([p for p in range(half) if bits >> (2 * p) & 3], dtype=np.int64)
    at = (np.arange(imm[1])[:, None] * imm[7] * half + pairs[None, :]).reshape(-1)
    return layout.runs(at, size)


def total_dst(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes that reduce_* writes."""
    size = SIZES[unpack(dtype)[0]]
    return ((0, size * (2 if imm[layout.head(imm)] else 1)),) if imm[1] else ()
