"""Conversions with a scale: add_deq_relu, cast_deq, quant. Source: pyasc 7.1, 7.2, 8."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import elementwise, layout
from cannlab.machine.core.dtypes import SIZES, unpack
from cannlab.machine.core.floats import from_bits
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import BLOCK

Array = NDArray[Any]
Operands = tuple[tuple[int, int, int], ...]
Imm = tuple[int, ...]


def saturated(value: Array, kind: np.dtype[Any]) -> Array:
    """Rounded to nearest even, inside an integer type; NaN is 0."""
    limits = np.iinfo(kind)
    whole = np.rint(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=1e9, neginf=-1e9))
    return np.clip(whole, limits.min, limits.max).astype(kind)


def add_deq_relu(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """relu((src0 + src1) * scale) in half; the sum is scaled down by 2^17 on the way, against overflow."""
    scale = np.float32(np.float16(memory.deq_scale))

    def compute(dst: Array, src: list[Array], _: Imm) -> None:
        total = (src[0] + src[1]).astype(np.float32) * np.float32(2.0**-17)
        dst[...] = np.maximum((total * scale * np.float32(2.0**17)).astype(np.float16), 0)

    elementwise.run(compute)(memory, dtype, imm, operands)


def cast_deq_half(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """int32 to half: the value times the scale."""
    scale = np.float32(memory.deq_scale)

    def compute(dst: Array, src: list[Array], _: Imm) -> None:
        dst[...] = src[0].astype(np.float32) * scale

    elementwise.run(compute)(memory, dtype, imm, operands)


def cast_deq_byte(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """int16 to int8 or uint8: value times scale plus offset; 16 results fill the lower half of a block."""
    codes = unpack(dtype)
    scale, offset = memory.deq_scale, memory.deq_offset
    source, dst = memory.view(operands[1], codes[1]), memory.view(operands[0], codes[0])
    to, taken = _halves(imm)
    dst[to] = saturated(source[taken].astype(np.float32) * np.float32(scale) + np.float32(offset), dst.dtype)


def _halves(imm: Imm) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Elements of destination (bytes) and source (16 bits)."""
    if imm[0] == layout.COUNT:
        source = np.arange(imm[1], dtype=np.int64)
        return source // 16 * BLOCK + source % 16, source
    active = layout.lanes(2, imm[0], imm[1], imm[2], imm[3])
    block, inside = active[:, 1] // 16, active[:, 1] % 16
    to = (active[:, 0] * imm[7] + block * imm[4]) * BLOCK + inside
    return np.asarray(to, dtype=np.int64), layout.indices(2, 2, imm[:10], 1)


def halves(operand: int) -> Any:
    """Bytes that cast_deq to bytes touches."""

    def touch(dtype: int, imm: Imm) -> layout.Spans:
        return layout.runs(_halves(imm)[operand], SIZES[unpack(dtype)[operand]])

    return touch


def set_scale(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """imm: scale's bits[, offset]."""
    memory.deq_scale = from_bits(imm[0])
    memory.deq_offset = imm[1] if len(imm) > 1 else 0


def quant(dst: Array, src: list[Array], extra: Imm) -> None:
    """int8(half(src) * scale + offset); a float source is rounded to half first."""
    scale, offset = (np.float16(from_bits(bits)) for bits in extra[:2])
    value = src[0].astype(np.float16)
    dst[...] = saturated((value * scale + offset).astype(np.float16), dst.dtype)
