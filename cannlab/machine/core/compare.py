"""compare, compare_scalar, select and the compare-mask register.

Bit i of a result (lowest first in byte i // 8) is lane i. The mask of a compare is ignored on this chip;
each repeat appends 256 / size bits. Source: pyasc 7.4.

Immediates: the form, then ``mode`` and for a scalar its bits; select has ``sel_mode`` and the scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import BYTE, SIZES, unpack
from cannlab.machine.core.elementwise import scalar
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import REPEAT

Array = NDArray[Any]
Operands = tuple[tuple[int, int, int], ...]
Imm = tuple[int, ...]
OPERATORS: tuple[Any, ...] = (np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal)
"""By the number of CMPMODE: LT, GT, EQ, LE, GE, NE."""
REGISTER, TENSOR_SCALAR, TENSOR_TENSOR = range(3)


def unmasked(size: int, imm: Imm) -> Imm:
    """The form without its mask: a compare handles every lane of each repeat."""
    if imm[0] != layout.MASK:
        return imm[:10]
    full = (1 << REPEAT // size) - 1
    low, high = layout.signed(full & layout.WORD), layout.signed(full >> 64)
    return (layout.MASK, imm[1], low, high, *imm[4:10])


def _fetch(memory: Memory, code: int, imm: Imm, operands: Operands, place: int) -> Array:
    view = memory.view(operands[place], code)
    if imm[0] == layout.COUNT:
        return view
    return np.asarray(view[layout.indices(SIZES[code], SIZES[code], unmasked(SIZES[code], imm), place)])


def _put(memory: Memory, operand: tuple[int, int, int], answer: Array) -> None:
    packed = np.packbits(answer, bitorder="little")
    memory.view(operand, BYTE)[: len(packed)] = packed


def compare(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """dst bits = src0 op src1."""
    code = unpack(dtype)[1]
    left, right = (_fetch(memory, code, imm, operands, place) for place in (1, 2))
    _put(memory, operands[0], OPERATORS[imm[layout.head(imm)]](left, right))


def compare_scalar(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """dst bits = src0 op scalar."""
    code = unpack(dtype)[1]
    left = _fetch(memory, code, imm, operands, 1)
    at = layout.head(imm)
    _put(memory, operands[0], OPERATORS[imm[at]](left, scalar(left.dtype, imm[at + 1])))


def compare_register(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """256 B compared into the 128-bit register."""
    code = unpack(dtype)[0]
    left, right = (
        memory.view(operands[place], code)[layout.indices(SIZES[code], SIZES[code], unmasked(SIZES[code], imm), place)]
        for place in (0, 1)
    )
    packed = np.packbits(OPERATORS[imm[10]](left, right), bitorder="little")
    memory.compare_mask[:] = 0
    memory.compare_mask[: len(packed)] = packed


def get_mask(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """The register to the UB."""
    memory.view(operands[0], BYTE)[:16] = memory.compare_mask


def set_mask(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """The register from the UB."""
    memory.compare_mask[:] = memory.view(operands[0], BYTE)[:16]


def _selected(form: Imm, size: int, bits: Array, mode: int) -> Array:
    """Which of the active lanes take src0."""
    per = REPEAT // size
    if form[0] == layout.COUNT:
        lane = np.arange(form[1])
    else:
        active = layout.lanes(size, form[0], form[1], form[2], form[3])
        lane = active[:, 1] + active[:, 0] * per
    if mode == REGISTER:
        lane = lane % per
    return np.unpackbits(bits, bitorder="little")[lane].astype(bool)


def select(with_tensor: bool) -> Callable[[Memory, int, Imm, Operands], None]:
    """dst = bit ? src0 : src1; operands (dst, bits, src0[, src1])."""

    def execute(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
        code = unpack(dtype)[0]
        size = SIZES[code]
        form = imm[: layout.head(imm)]
        mode, bits_of_scalar = imm[layout.head(imm) : layout.head(imm) + 2]
        bits = memory.view(operands[1], BYTE)
        take = _selected(form, size, bits, mode)
        dst = memory.view(operands[0], code)
        counted = form[0] == layout.COUNT
        picks = [slice(None)] * 3 if counted else [layout.indices(size, size, form, place) for place in range(3)]
        src0 = memory.view(operands[2], code)[picks[1]]
        src1 = memory.view(operands[3], code)[picks[2]] if with_tensor else scalar(dst.dtype, bits_of_scalar)
        dst[picks[0]] = np.where(take, src0, src1)

    return execute


def select_register(with_tensor: bool) -> Callable[[Memory, int, Imm, Operands], None]:
    """select with the bits of the register; operands (dst, src0, src1)."""

    def execute(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
        code = unpack(dtype)[0]
        size = SIZES[code]
        take = _selected(imm[:10], size, memory.compare_mask, REGISTER)
        picks = [layout.indices(size, size, imm[:10], place) for place in range(3)]
        src0, src1 = (memory.view(operands[place], code)[picks[place]] for place in (1, 2))
        memory.view(operands[0], code)[picks[0]] = np.where(take, src0, src1)

    return execute


# -- which bytes they touch ---------------------------------------------------------------------------


def bit_bytes(size: int, imm: Imm) -> int:
    """Bytes of result bits of a compare, or of select bits."""
    lanes = imm[1] if imm[0] != layout.MASK else imm[1] * (REPEAT // size)
    return -(-lanes // 8)
