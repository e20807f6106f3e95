"""Floats among the integers of the record: the bits of a float64."""

from __future__ import annotations

import struct
from functools import lru_cache


def to_bits(value: float) -> int:
    """The float64 bits of a number, as a signed 64-bit integer."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


@lru_cache(maxsize=4096)
def from_bits(bits: int) -> float:
    """The inverse of :func:`to_bits`."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
