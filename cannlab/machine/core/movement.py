"""data_copy and data_copy_pad between global memory and the UB, and scalar accesses. Source: pyasc 7.8.

Immediates. copy: ``(count, length, src_gap, dst_gap, atomic)`` in bytes; a count of 1 is the plain form.
pad in: ``(count, length, src_gap, dst_gap, left, right, fill, filler)``: bytes; ``filler`` says what stands in the
padding: 0 nothing defined, 1 the first element of the block, 2 the value whose bits are ``fill``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.dtypes import BYTE, CODES, SIZES, unpack
from cannlab.machine.core.floats import from_bits
from cannlab.machine.core.layout import Spans
from cannlab.machine.core.memory import POISON, Memory
from cannlab.machine.core.pipes import BLOCK

Array = NDArray[Any]
Operands = tuple[tuple[int, int, int], ...]
Imm = tuple[int, ...]
ATOMIC: tuple[Callable[[Any, Any], Any] | None, ...] = (None, np.add, np.maximum, np.minimum)
"""What a write to global memory does with what is there: replace, add, max, min."""
FILL_UNDEFINED, FILL_FIRST, FILL_VALUE = range(3)
INT32 = CODES["int32"]


def copy(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """count blocks of length bytes, gaps between them."""
    count, length, src_gap, dst_gap, atomic = imm
    operation = ATOMIC[atomic]
    if count == 1 and operation is None:
        memory.raw(operands[0])[:] = memory.raw(operands[1])
        return
    kind = BYTE if operation is None else unpack(dtype)[0]
    dst, src = memory.raw(operands[0]), memory.raw(operands[1])
    for number in range(count):
        to, source = number * (length + dst_gap), number * (length + src_gap)
        part = src[source : source + length]
        if operation is None:
            dst[to : to + length] = part
        else:
            there = dst[to : to + length].view(_numpy(kind))
            there[...] = operation(there, part.view(there.dtype))


def _numpy(code: int) -> np.dtype[Any]:
    from cannlab.machine.core.dtypes import NUMPY

    return NUMPY[code]


def rows(count: int, length: int, gap: int) -> Spans:
    """Byte spans of blocks with gaps between them."""
    if not count or not length:
        return ()
    if gap == 0 or count == 1:
        return ((0, count * length),)
    return tuple((number * (length + gap), number * (length + gap) + length) for number in range(count))


def padded(length: int, left: int, right: int) -> int:
    """Bytes that one block takes in the UB: data and padding, filled up to 32 B."""
    return -(-(left + length + right) // BLOCK) * BLOCK


def pad(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """Global memory to UB, each block padded to a multiple of 32 B."""
    count, length, src_gap, dst_gap, left, right, fill, filler = imm
    code = unpack(dtype)[0]
    size = SIZES[code]
    dst, src = memory.view(operands[0], BYTE), memory.view(operands[1], BYTE)
    whole = padded(length, left, right)
    for number in range(count):
        to, source = number * (whole + dst_gap), number * (length + src_gap)
        data = src[source : source + length]
        line = dst[to : to + whole]
        if filler == FILL_UNDEFINED:
            line[:] = POISON
        elif filler == FILL_FIRST:
            line[:] = np.resize(data[:size], whole)
        else:
            kind = _numpy(code)
            value = from_bits(fill)
            one = np.array([value if kind.kind == "f" else int(value)]).astype(kind)
            line[:] = np.resize(one.view(np.uint8), whole)
        line[left : left + length] = data


def pad_written(imm: Imm) -> Spans:
    """Bytes of the UB that hold something defined after a padded copy."""
    count, length, _, dst_gap, left, right, _, filler = imm
    whole = padded(length, left, right)
    if filler == FILL_UNDEFINED:
        return tuple((n * (whole + dst_gap) + left, n * (whole + dst_gap) + left + length) for n in range(count))
    return rows(count, whole, dst_gap)


def store(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """set_value: imm is the element's bits, lowest first in the word."""
    size = operands[0][2]
    memory.view(operands[0], BYTE)[:] = np.frombuffer((imm[0] & (1 << 64) - 1).to_bytes(8, "little")[:size], np.uint8)


def count_up(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """A core's flag among those of all counts its turns: imm[1] is its number."""
    allocation, offset, _ = operands[0]
    memory.view((allocation, offset + imm[1] * BLOCK, 4), INT32)[0] += 1


def raise_slot(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """ib_set: the flag is 1."""
    memory.view((*operands[0][:2], 4), INT32)[0] = 1


def lower_slot(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """ib_wait: the flag is 0 again."""
    memory.view((*operands[0][:2], 4), INT32)[0] = 0


def nothing(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """An instruction without a data effect."""
