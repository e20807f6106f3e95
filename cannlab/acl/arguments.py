"""Arguments as the C extension takes them: one converter for each format letter.

k, K, I, H and B mask without a check; i, h, l, L and b are range checked; a float is no integer. k and K take
only ints, the others whatever has ``__index__``. Source: pyacl-semantics 1 and CPython's argument parser.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from operator import index
from typing import Any

Converter = Callable[[Any], Any]


class BadArgument(Exception):
    """An argument of the wrong type or out of range; the binding turns it into the real TypeError."""


def _pointer(value: Any) -> int:
    if not isinstance(value, int):
        raise BadArgument
    return value & 0xFFFF_FFFF_FFFF_FFFF


def _masked(bits: int) -> Converter:
    mask = (1 << bits) - 1

    def convert(value: Any) -> int:
        try:
            return index(value) & mask
        except TypeError:
            raise BadArgument from None

    return convert


def _ranged(least: int, most: int) -> Converter:
    def convert(value: Any) -> int:
        try:
            number = index(value)
        except TypeError:
            raise BadArgument from None
        if not least <= number <= most:
            raise BadArgument
        return number

    return convert


def _double(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise BadArgument
    try:
        return float(value)
    except (TypeError, OverflowError):
        raise BadArgument from None


def _single(value: Any) -> float:
    return ctypes.c_float(_double(value)).value


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise BadArgument
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadArgument from None
    return value


def _object(value: Any) -> Any:
    return value


CONVERTERS: dict[str, Converter] = {
    "k": _pointer,
    "K": _pointer,
    "I": _masked(32),
    "H": _masked(16),
    "B": _masked(8),
    "b": _ranged(0, 255),
    "h": _ranged(-(1 << 15), (1 << 15) - 1),
    "i": _ranged(-(1 << 31), (1 << 31) - 1),
    "l": _ranged(-(1 << 63), (1 << 63) - 1),
    "L": _ranged(-(1 << 63), (1 << 63) - 1),
    "f": _single,
    "d": _double,
    "s": _text,
    "O": _object,
}
