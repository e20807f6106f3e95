"""The composite functions of asc.adv: each is many instructions on hardware, one here. Source: pyasc 8.

Computed wide and rounded once; on hardware they are polynomials, within a few units of the last place (assumed).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.elementwise import Compute, wider

Array = NDArray[Any]


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of the standard library, element by element; outside its domain NaN, at a pole infinity."""

    def one(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    applied = np.frompyfunc(one, 1, 1)
    return lambda x: np.asarray(applied(x.astype(np.float64)), dtype=np.float64)


def digamma(value: float) -> float:
    """The derivative of the logarithm of the gamma function."""
    if math.isnan(value) or value == -math.inf:
        return math.nan
    if value == math.inf:
        return math.inf
    if value <= 0 and value == math.floor(value):
        return math.nan
    if value < 0:
        return digamma(1 - value) - math.pi / math.tan(math.pi * value)
    total = 0.0
    while value < 10:
        total -= 1 / value
        value += 1
    square = 1 / (value * value)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return total + math.log(value) - 0.5 / value - series


def _lgamma(value: float) -> float:
    if value <= 0 and value == math.floor(value):
        return math.inf
    return math.lgamma(value)


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "digamma": _each(digamma),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "floor": np.floor,
    "frac": lambda x: x - np.trunc(x),
    "lgamma": _each(_lgamma),
    "log": np.log,
    "round": np.rint,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "exp": np.exp,
}


def unary(function: Callable[[Array], Array]) -> Compute:
    """A function of one tensor, rounded once."""

    def compute(dst: Array, src: list[Array], _: tuple[int, ...]) -> None:
        dst[...] = function(src[0].astype(wider(dst.dtype)))

    return compute


def power(dst: Array, src: list[Array], _: tuple[int, ...]) -> None:
    """src0 to the power of src1; int32 wraps, and a negative exponent cuts towards zero."""
    if dst.dtype.kind == "f":
        big = wider(dst.dtype)
        dst[...] = np.power(src[0].astype(big), src[1].astype(big))
        return
    base, exponent = src[0].astype(object), src[1].astype(object)
    wrapped = [
        pow(int(b), int(e), 1 << 32) if e >= 0 else (int(b) ** (int(-e) % 2) if abs(b) == 1 else 0)
        for b, e in zip(base, exponent, strict=True)
    ]
    dst[...] = (np.array(wrapped, dtype=np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.int32)


def xor(dst: Array, src: list[Array], _: tuple[int, ...]) -> None:
    """Bitwise exclusive or."""
    np.bitwise_xor(src[0], src[1], out=dst)
