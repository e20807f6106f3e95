"""cast: every pair of types and round mode of the chip.

RINT half to even, ROUND half away from zero, FLOOR, CEIL, TRUNC, ODD (inexact results get an odd last
bit), NONE (RINT where the result is inexact). A float cast to its own type is rounded to an integral
value. Integers saturate, NaN becomes 0; a float too large for half becomes inf, as arithmetic does on
this chip by default. Source: pyasc 7.2 and its table of pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD = range(7)
MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")

_ALL = (RINT, FLOOR, CEIL, ROUND, TRUNC)
PAIRS: dict[tuple[str, str], tuple[int, ...]] = {
    ("int8", "float16"): (NONE,),
    ("uint8", "float16"): (NONE,),
    ("int16", "float16"): (*_ALL, NONE),
    ("int16", "float32"): (NONE,),
    ("float16", "int8"): (*_ALL, NONE),
    ("float16", "uint8"): (*_ALL, NONE),
    ("float16", "int16"): _ALL,
    ("float16", "int32"): _ALL,
    ("float16", "float32"): (NONE,),
    ("int32", "int16"): (NONE,),
    ("int32", "float16"): (NONE, *_ALL, ODD),
    ("int32", "float32"): (*_ALL, NONE),
    ("int32", "int64"): (NONE,),
    ("float32", "int16"): _ALL,
    ("float32", "float16"): (*_ALL, ODD, NONE),
    ("float32", "int32"): _ALL,
    ("float32", "float32"): _ALL,
    ("float32", "int64"): _ALL,
    ("int64", "int32"): (NONE,),
    ("int64", "float32"): _ALL,
}
"""(source, destination) -> round modes that the chip has."""


def integral(value: Array, mode: int) -> Array:
    """Floats rounded to integral values (float64)."""
    x = value.astype(np.float64)
    if mode == FLOOR:
        return np.asarray(np.floor(x))
    if mode == CEIL:
        return np.asarray(np.ceil(x))
    if mode == TRUNC:
        return np.asarray(np.trunc(x))
    if mode == ROUND:
        whole = np.trunc(x)
        return np.asarray(np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole))
    return np.asarray(np.rint(x))


def to_integer(value: Array, kind: np.dtype[Any], mode: int) -> Array:
    """Floats or integers as a saturating integer type."""
    limits = np.iinfo(kind)
    if value.dtype.kind != "f":
        return np.clip(value.astype(np.int64), limits.min, limits.max).astype(kind)
    whole = integral(value, mode)
    whole = np.where(np.isnan(whole), 0.0, whole)
    top = float(limits.max)
    # A float64 cannot hold 2**63 - 1: what is at or above 2**63 is set to the limit by itself.
    inside = np.clip(whole, float(limits.min), np.nextafter(top, 0) if top > 2.0**53 else top).astype(kind)
    return np.where(whole >= top, limits.max, inside).astype(kind)


def _gap(exact: Array, rounded: Array) -> Array:
    """Exact value minus rounded value, exact enough for its sign and for finding ties."""
    if exact.dtype != np.int64:
        wide = rounded.astype(np.float64)
        return np.asarray(exact.astype(np.float64) - np.where(np.isfinite(wide), wide, 0.0))
    return np.array([e - int(r) for e, r in zip(exact.tolist(), rounded.tolist(), strict=True)], dtype=object)


def to_float(value: Array, kind: np.dtype[Any], mode: int) -> Array:
    """Numbers as a float type with fewer bits, in a round mode."""
    nearest = value.astype(kind)
    if mode in (NONE, RINT):
        return np.asarray(nearest)
    finite = np.isfinite(nearest) & np.isfinite(value)
    flat, exact = nearest.reshape(-1).copy(), value.reshape(-1)
    side = np.sign(_gap(exact, flat).astype(np.float64))
    low = np.where(side < 0, np.nextafter(flat, kind.type(-np.inf)), flat)
    high = np.where(side > 0, np.nextafter(flat, kind.type(np.inf)), flat)
    inexact = side != 0
    if mode == FLOOR:
        flat = low
    elif mode == CEIL:
        flat = high
    elif mode == ROUND:
        tie = inexact & np.asarray(_gap(exact, low) == -_gap(exact, high), dtype=bool)
        flat = np.where(tie, np.where(exact > 0, high, low), flat)
    else:
        flat = np.where(exact > 0, low, high)
        if mode == ODD:
            bits = flat.astype(kind).view(np.uint16 if kind.itemsize == 2 else np.uint32)
            flat = np.where(inexact, np.bitwise_or(bits, 1), bits).astype(bits.dtype).view(kind)
    return np.where(finite, flat.astype(kind).reshape(nearest.shape), nearest)


def cast(dst: Array, src: Array, mode: int, deq_scale: float) -> None:
    """Convert ``src`` into ``dst``; int32 -> half multiplies by the dequantisation scale instead."""
    if src.dtype == np.int32 and dst.dtype == np.float16:
        dst[...] = src.astype(np.float32) * np.float32(np.float16(deq_scale))
    elif dst.dtype == src.dtype:
        dst[...] = integral(src, mode)
    elif dst.dtype.kind == "f":
        dst[...] = to_float(src, dst.dtype, mode)
    else:
        dst[...] = to_integer(src, dst.dtype, mode)
