"""gather, gatherb, gather_mask, brcb. Source: pyasc 7.5."""

from __future__ import annotations

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


def gather(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """dst[i] = the element at byte ``base + offset[i]`` of src; imm: form, base; operands (dst, src, offset)."""
    code = unpack(dtype)[0]
    size = SIZES[code]
    form, base = imm[: layout.head(imm)], imm[layout.head(imm)]
    dst, offset = memory.view(operands[0], code), memory.view(operands[2], unpack(dtype)[2])
    source = memory.view(operands[1], code)
    if form[0] == layout.COUNT:
        lanes: Any = slice(None)
        at = offset[: form[1]]
    else:
        lanes = layout.indices(size, size, form, 0)
        active = layout.lanes(size, form[0], form[1], form[2], form[3])
        at = offset[active[:, 0] * (REPEAT // size) + active[:, 1]]
    dst[lanes] = source[(at.astype(np.int64) + base) // size]


def gatherb(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """Whole 32-B blocks at byte offset[r*8+b]; imm: repeat, dst_blk, dst_rep; operands (dst, src, offset)."""
    repeat, blk, rep = imm
    code = unpack(dtype)[0]
    per = BLOCK // SIZES[code]
    source = memory.view(operands[1], code)
    offset = memory.view(operands[2], unpack(dtype)[2])[: repeat * 8].astype(np.int64) // SIZES[code]
    dst = memory.view(operands[0], code)
    at = block_starts(repeat, max(blk, 1), rep) * per
    inside = np.arange(per)
    dst[at[:, None] + inside] = source[offset[:, None] + inside]


def block_starts(repeat: int, blk: int, rep: int) -> NDArray[np.int64]:
    """Block numbers of eight blocks per repeat."""
    return np.asarray((np.arange(repeat)[:, None] * rep + np.arange(8)[None, :] * blk).reshape(-1), dtype=np.int64)


def brcb(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """Element r*8+j fills block r*rep + j*blk; imm: repeat, blk, rep; operands (dst, src)."""
    repeat, blk, rep = imm
    code = unpack(dtype)[0]
    per = BLOCK // SIZES[code]
    source = memory.view(operands[1], code)[: repeat * 8].copy()
    at = block_starts(repeat, blk, rep) * per
    memory.view(operands[0], code)[at[:, None] + np.arange(per)] = source[:, None]


def kept(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> NDArray[np.int64]:
    """Element numbers of src that gather_mask keeps, in order.

    imm: pattern (0 = tensor), reduce, mask, blk, repeat, src0_rep, src1_rep; operands (dst, src[, pattern]).
    """
    pattern, reduce, mask, blk, repeat, rep0, rep1 = imm
    size = SIZES[unpack(dtype)[0]]
    per = REPEAT // size
    count = mask if reduce else per
    lane = np.arange(count)
    per_block = BLOCK // size
    inside = lane // per_block * blk * per_block + lane % per_block
    found = []
    for number in range(repeat):
        if pattern == 0:
            words = memory.view(operands[2], unpack(dtype)[2])
            first = number * rep1 * BLOCK // words.dtype.itemsize
            need = -(-count // (words.dtype.itemsize * 8))
            bits = np.unpackbits(words[first : first + need].view(np.uint8), bitorder="little")[:count].astype(bool)
        elif pattern <= 2:
            bits = lane % 2 == pattern - 1
        elif pattern <= 6:
            bits = lane % 4 == pattern - 3
        else:
            bits = np.ones(count, dtype=bool)
        found.append(inside[bits] + number * rep0 * per_block)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def gather_mask(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """Pack the kept elements from dst[0]."""
    code = unpack(dtype)[0]
    values = memory.view(operands[1], code)[kept(memory, dtype, imm, operands)]
    memory.view(operands[0], code)[: len(values)] = values


# -- bilinear interpolation ---------------------------------------------------------------------------


def bilinear(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """Sums of weighted blocks. imm: mask low, high, h_repeat, mode, dst_blk, v_offset, v_repeat;
    operands (dst, src, offsets, weights, scratch).

    Each outer step starts from 0; each inner step adds 8 blocks of src (a byte offset each) times a weight (one for the
    step, or with the mode one for each block). Every sum and product is rounded to half.
    """
    low, high, h_repeat, mode, blk, v_offset, v_repeat = imm
    half, word = unpack(dtype)[0], unpack(dtype)[2]
    source, weights = memory.view(operands[1], half), memory.view(operands[3], half)
    offsets = memory.view(operands[2], word).astype(np.int64) // 2
    dst = memory.view(operands[0], half)
    lanes = layout.lanes(2, layout.MASK, 1, low, high)[:, 1]
    inside = np.arange(BLOCK // 2)
    for v in range(v_repeat):
        total = np.zeros((8, BLOCK // 2), dtype=np.float16)
        for h in range(h_repeat):
            step = v * h_repeat + h
            blocks = source[offsets[step * 8 : step * 8 + 8][:, None] + inside]
            factor = weights[step * 8 : step * 8 + 8][:, None] if mode else weights[step]
            total = total + blocks * factor
        at = v * v_offset + lanes // 16 * blk * 16 + lanes % 16
        dst[at] = total.reshape(-1)[lanes]


def bilinear_written(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the result."""
    low, high, _, _, blk, v_offset, v_repeat = imm
    lanes = layout.lanes(2, layout.MASK, 1, low, high)[:, 1]
    at = lanes // 16 * blk * 16 + lanes % 16
    return layout.runs((np.arange(v_repeat)[:, None] * v_offset + at).reshape(-1), 2)


def bilinear_offsets(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the offsets: 8 for each step."""
    return ((0, imm[2] * imm[6] * 32),)


def bilinear_weights(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the weights: one, or 8, for each step."""
    return ((0, imm[2] * imm[6] * (16 if imm[3] else 2)),)
