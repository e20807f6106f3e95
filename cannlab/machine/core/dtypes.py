"""Element types in the record: a small number for each, and its numpy type.

The ``dtype`` of an instruction packs one number per operand, eight bits each, first operand lowest.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

NAMES = (
    "",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "float16",
    "int32",
    "uint32",
    "float32",
    "int64",
    "uint64",
    "float64",
)
CODES: dict[str, int] = {name: code for code, name in enumerate(NAMES) if name}
NUMPY: tuple[np.dtype[Any], ...] = tuple(np.dtype(name or "uint8") for name in NAMES)
SIZES: tuple[int, ...] = tuple(int(kind.itemsize) for kind in NUMPY)
BYTE = CODES["uint8"]


def pack(*codes: int) -> int:
    """One number for the element types of an instruction's operands."""
    packed = 0
    for place, code in enumerate(codes):
        packed |= code << (8 * place)
    return packed


@cache
def unpack(packed: int) -> tuple[int, ...]:
    """The inverse of :func:`pack`."""
    codes = []
    while packed:
        codes.append(packed & 0xFF)
        packed >>= 8
    return tuple(codes)


@cache
def widest(packed: int) -> int:
    """Bytes of the widest element among the operands: it sets how many elements a repeat handles."""
    return max(SIZES[code] for code in unpack(packed))
