"""Which elements and bytes an instruction touches: masks, repeats and strides.

Element ``e`` of block ``b`` in repeat ``r`` of an operand is at byte ``32 * (r * rep + b * blk) + e * size``.
Source: pyasc 7 (common).

Immediates of a vector instruction begin with its form:
``(COUNT, n)``: n elements, one after another;
``(MASK, repeat, low, high, blk0, blk1, blk2, rep0, rep1, rep2)``: strides per operand in 32-B blocks;
``(COUNTER, n, 0, 0, blk0, ... rep2)``: n elements in all, laid out by the strides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.pipes import BLOCK, REPEAT

COUNT, MASK, COUNTER = 0, 1, 2
WORD = (1 << 64) - 1
Spans = tuple[tuple[int, int], ...]


def signed(word: int) -> int:
    """A 64-bit word as the signed number that the record holds."""
    return word - (1 << 64) if word >> 63 else word


def head(imm: tuple[int, ...]) -> int:
    """How many immediates the form takes; the operation's own follow."""
    return 2 if imm[0] == COUNT else 10


@lru_cache(maxsize=4096)
def lanes(width: int, form: int, first: int, low: int, high: int) -> NDArray[np.int64]:
    """Active (repeat, lane) pairs in order, shape (n, 2); ``width`` is the widest element in bytes."""
    per = REPEAT // width
    if form == COUNTER:
        flat = np.arange(first, dtype=np.int64)
        return np.stack([flat // per, flat % per], axis=1)
    bits = (low & WORD) | ((high & WORD) << 64)
    active = np.array([lane for lane in range(per) if bits >> lane & 1], dtype=np.int64)
    repeat = np.repeat(np.arange(first, dtype=np.int64), len(active))
    return np.stack([repeat, np.tile(active, first)], axis=1)


@lru_cache(maxsize=4096)
def indices(size: int, width: int, imm: tuple[int, ...], operand: int) -> NDArray[np.int64]:
    """Element numbers, from the operand's start, of all active lanes in order."""
    return place(lanes(width, imm[0], imm[1], imm[2], imm[3]), size, imm[4 + operand], imm[7 + operand])


def place(active: NDArray[np.int64], size: int, blk: int, rep: int) -> NDArray[np.int64]:
    """Element numbers of (repeat, lane) pairs for one operand's strides."""
    per_block = BLOCK // size
    block, inside = active[:, 1] // per_block, active[:, 1] % per_block
    return np.asarray((active[:, 0] * rep + block * blk) * per_block + inside, dtype=np.int64)


@lru_cache(maxsize=4096)
def grid(size: int, imm: tuple[int, ...], operand: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape and strides in bytes of an operand's lanes as repeats x blocks x elements, for a mask of the first lanes
    that fills whole blocks or lies in one; None for another form."""
    if imm[0] != MASK or not imm[1]:
        return None
    bits = (imm[2] & WORD) | ((imm[3] & WORD) << 64)
    count, per_block = bits.bit_length(), BLOCK // size
    if bits != (1 << count) - 1 or not count or (count > per_block and count % per_block):
        return None
    strides = (imm[7 + operand] * BLOCK, imm[4 + operand] * BLOCK, size)
    return (imm[1], max(count // per_block, 1), min(count, per_block)), strides


def runs(elements: NDArray[Any], size: int) -> Spans:
    """Element numbers as byte spans (start, end), merged where they touch."""
    if not len(elements):
        return ()
    order = np.unique(elements)
    breaks = np.flatnonzero(np.diff(order) != 1)
    starts = order[np.concatenate(([0], breaks + 1))]
    ends = order[np.concatenate((breaks, [len(order) - 1]))] + 1
    return tuple(zip((starts * size).tolist(), (ends * size).tolist(), strict=True))


@lru_cache(maxsize=4096)
def spans(size: int, width: int, imm: tuple[int, ...], operand: int) -> Spans:
    """Byte spans, from the operand's start, that a masked or counted form touches."""
    if imm[0] == COUNT:
        return ((0, imm[1] * size),) if imm[1] else ()
    return runs(indices(size, width, imm, operand), size)


def extent(found: Spans) -> int:
    """Bytes from the operand's start to the last byte touched."""
    return found[-1][1] if found else 0


@lru_cache(maxsize=4096)
def in_order(width: int, imm: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """True when the repeats' results are separate, so that all repeats may be computed at once."""
    wanted = indices(sizes[0], width, imm, 0)
    return len(np.unique(wanted)) == len(wanted)


def repeats(width: int, imm: tuple[int, ...]) -> int:
    """Repeats that the instruction takes (each handles up to 256 B of its widest operand)."""
    if imm[0] == MASK:
        return imm[1]
    return -(-imm[1] * width // REPEAT)
