"""sort32, merge sort, sort, extract. Source: pyasc 7.7.

A sorted element is a structure of 8 bytes: the score (float: bytes 0 to 3; half: bytes 0 and 1, the next two undefined)
and its uint32 index (bytes 4 to 7). Everything is descending, equal scores keep their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import BYTE, CODES, NUMPY, SIZES, unpack
from cannlab.machine.core.memory import POISON, Memory

Array = NDArray[Any]
Operands = tuple[tuple[int, int, int], ...]
Imm = tuple[int, ...]
GROUP = 32
"""Elements of a repeat."""
ENTRY = 8
"""Bytes of a structure."""
MOST = 4095
"""Structures of a queue of a merge."""
_INDEX = CODES["uint32"]


def _descending(scores: Array) -> Array:
    """The order of the last axis, largest first, equal ones as they stand."""
    key = scores.astype(np.float64)
    return np.argsort(np.where(np.isnan(key), np.inf, -key), axis=-1, kind="stable")


def _pack(scores: Array, indices: Array) -> Array:
    """Structures as bytes, shape (n, 8)."""
    out = np.full((len(scores), ENTRY), POISON, dtype=np.uint8)
    size = scores.dtype.itemsize
    out[:, :size] = np.ascontiguousarray(scores).view(np.uint8).reshape(-1, size)
    out[:, 4:] = np.ascontiguousarray(indices, dtype=np.uint32).view(np.uint8).reshape(-1, 4)
    return out


def _scores(entries: Array, kind: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(entries[:, : kind.itemsize]).view(kind).reshape(-1)


def _sorted(memory: Memory, code: int, operands: Operands, groups: int, length: int) -> Array:
    """Groups of elements and their indices, each group sorted, as bytes."""
    scores = memory.view(operands[1], code)[: groups * length].reshape(groups, length)
    indices = memory.view(operands[2], _INDEX)[: groups * length].reshape(groups, length)
    order = _descending(scores)
    return _pack(
        np.take_along_axis(scores, order, axis=1).reshape(-1), np.take_along_axis(indices, order, axis=1).reshape(-1)
    )


def sort32(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """imm: repeats; operands (dst, scores, indices)."""
    found = _sorted(memory, unpack(dtype)[0], operands, imm[0], GROUP)
    memory.view(operands[0], BYTE)[: found.size] = found.reshape(-1)


def sort(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """imm: repeats, whole; operands (dst, scores, indices, scratch)."""
    repeats, whole = imm
    groups, length = (1, repeats * GROUP) if whole else (repeats, GROUP)
    found = _sorted(memory, unpack(dtype)[0], operands, groups, length)
    memory.view(operands[0], BYTE)[: found.size] = found.reshape(-1)


def merge(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """imm: four lengths, repeats, suspend; operands (dst, two to four queues).

    With ``suspend`` it stops when a queue is used up; ``memory.merged`` has how much was taken of each queue.
    """
    code = unpack(dtype)[0]
    lengths, repeats, suspend = imm[:4], imm[4], imm[5]
    queues = operands[1:]
    counts = [lengths[place] for place in range(len(queues))]
    step = sum(counts) * ENTRY
    dst = memory.view(operands[0], BYTE)
    taken = [0, 0, 0, 0]
    for repeat in range(repeats):
        parts = []
        for place, (queue, count) in enumerate(zip(queues, counts, strict=True)):
            at = repeat * step if repeats > 1 else 0
            entries = memory.view(queue, BYTE)[at : at + count * ENTRY].reshape(count, ENTRY)
            scores = _scores(entries, NUMPY[code]).astype(np.float64)
            parts.append((entries, scores, np.full(count, place)))
        entries, scores, owner = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = _descending(scores)
        taken = [int((owner == place).sum()) for place in range(4)]
        if suspend:
            owners = owner[order]
            ends = [int(np.flatnonzero(owners == place)[-1]) + 1 for place, count in enumerate(counts) if count]
            order = order[: min(ends)] if ends else order[:0]
            taken = [int((owner[order] == place).sum()) for place in range(4)]
        found = entries[order].reshape(-1)
        dst[repeat * step : repeat * step + len(found)] = found
    memory.merged = tuple(taken)


def extract(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """imm: repeats; operands (values, indices, structures)."""
    code = unpack(dtype)[0]
    count = imm[0] * GROUP
    entries = memory.view(operands[2], BYTE)[: count * ENTRY].reshape(count, ENTRY)
    memory.view(operands[0], code)[:count] = _scores(entries, NUMPY[code])
    memory.view(operands[1], _INDEX)[:count] = np.ascontiguousarray(entries[:, 4:]).view(np.uint32).reshape(-1)


# -- which bytes they touch ---------------------------------------------------------------------------


def structures(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of 32 structures per repeat."""
    return ((0, imm[0] * GROUP * ENTRY),) if imm[0] else ()


def elements(operand: int) -> Any:
    """Bytes of 32 elements per repeat."""

    def touch(dtype: int, imm: Imm) -> layout.Spans:
        return ((0, imm[0] * GROUP * SIZES[unpack(dtype)[operand]]),) if imm[0] else ()

    return touch


def indices(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of 32 indices per repeat."""
    return ((0, imm[0] * GROUP * 4),) if imm[0] else ()


def merged(queues: int) -> Any:
    """Bytes of the result of a merge."""

    def touch(dtype: int, imm: Imm) -> layout.Spans:
        size = imm[4] * sum(imm[:queues]) * ENTRY
        return ((0, size),) if size else ()

    return touch


def merge_repeats(queues: int) -> Any:
    """Repeats of a merge: 32 structures each."""

    def count(dtype: int, imm: Imm) -> int:
        return imm[4] * -(-sum(imm[:queues]) // GROUP)

    return count


def queue(place: int, queues: int) -> Any:
    """Bytes of a queue of a merge."""

    def touch(dtype: int, imm: Imm) -> layout.Spans:
        if not imm[place] or not imm[4]:
            return ()
        step = sum(imm[:queues]) * ENTRY
        return layout.runs(
            np.concatenate([np.arange(imm[place] * ENTRY) + repeat * step for repeat in range(imm[4])]), 1
        )

    return touch
