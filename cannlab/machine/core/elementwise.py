"""Vector operations that work lane by lane: what each computes, in numpy.

A ``compute(dst, sources, extra)`` writes its result into ``dst``; ``extra`` are the operation's own
immediates. Arithmetic is in the element type, rounded to nearest even once per operation; integers wrap.
Fused operations (fused_mul_add, mul_add_dst, axpy) round once (assumed: the documentation does not say).
Source: pyasc 7.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import SIZES, unpack, widest
from cannlab.machine.core.floats import from_bits
from cannlab.machine.core.memory import Memory

Array = NDArray[Any]
Extra = tuple[int, ...]
Compute = Callable[[Array, list[Array], Extra], None]
Operands = tuple[tuple[int, int, int], ...]


def run(compute: Compute) -> Callable[[Memory, int, tuple[int, ...], Operands], None]:
    """An ``execute`` for a lane-by-lane operation: fetch the lanes, compute, put the result back."""

    def execute(memory: Memory, dtype: int, imm: tuple[int, ...], operands: Operands) -> None:
        codes = unpack(dtype)
        if imm[0] == layout.COUNT:
            views = [memory.view(operand, code) for operand, code in zip(operands, codes, strict=True)]
            compute(views[0], views[1:], imm[2:])
            return
        form, extra = imm[:10], imm[10:]
        width = widest(dtype)
        sizes = tuple([SIZES[code] for code in codes])
        grids = memory.views((operands, dtype, form), lambda: _grids(memory, codes, form, operands))
        if grids:
            compute(grids[0], grids[1:], extra)
            return
        views = [memory.view(operand, code) for operand, code in zip(operands, codes, strict=True)]
        picks = [layout.indices(size, width, form, place) for place, size in enumerate(sizes)]
        if layout.in_order(width, form, sizes):
            _lanes(compute, views, picks, extra)
            return
        # Results of several repeats meet in the same lanes: the repeats run one after another.
        count = layout.repeats(width, form)
        each = len(picks[0]) // max(count, 1)
        for number in range(count):
            _lanes(compute, views, [pick[number * each : (number + 1) * each] for pick in picks], extra)

    return execute


def _grids(memory: Memory, codes: tuple[int, ...], form: tuple[int, ...], operands: Operands) -> list[Array]:
    """The lanes of each operand as one array of repeats, blocks and elements; empty where they make none, or where a
    result could be read as a source of other lanes."""
    sizes = tuple([SIZES[code] for code in codes])
    width = max(sizes)
    if not layout.in_order(width, form, sizes):
        return []
    found: list[Array] = []
    for place, (operand, code) in enumerate(zip(operands, codes, strict=True)):
        grid = layout.grid(sizes[place], form, place)
        if grid is None:
            return []
        space, offset, size = operand
        to, start, length = operands[0]
        apart = space != to or offset + size <= start or start + length <= offset
        if not apart and (offset, code, grid) != (start, codes[0], layout.grid(sizes[0], form, 0)):
            return []
        shape, strides = grid
        base = memory.view(operand, code)
        found.append(np.ndarray(shape, base.dtype, base, 0, strides))
        if shape != found[0].shape:
            return []
    return found


def _lanes(compute: Compute, views: list[Array], picks: list[NDArray[np.int64]], extra: Extra) -> None:
    result = views[0][picks[0]]
    compute(result, [view[pick] for view, pick in zip(views[1:], picks[1:], strict=True)], extra)
    views[0][picks[0]] = result


def _two(ufunc: Any) -> Compute:
    def compute(dst: Array, src: list[Array], _: Extra) -> None:
        ufunc(src[0], src[1], out=dst)

    return compute


def _one(ufunc: Any) -> Compute:
    def compute(dst: Array, src: list[Array], _: Extra) -> None:
        ufunc(src[0], out=dst)

    return compute


def _scalar(ufunc: Any) -> Compute:
    def compute(dst: Array, src: list[Array], extra: Extra) -> None:
        ufunc(src[0], scalar(dst.dtype, extra[0]), out=dst)

    return compute


def scalar(kind: np.dtype[Any], bits: int) -> Any:
    """The scalar operand in the element type (an integer tensor takes the truncated value)."""
    value = from_bits(bits)
    return kind.type(value) if kind.kind == "f" else np.array(int(value)).astype(kind)[()]


def wider(kind: np.dtype[Any]) -> Any:
    """The type in which a fused operation keeps its product exact."""
    return np.float32 if kind == np.float16 else np.float64


def _add_relu(dst: Array, src: list[Array], _: Extra) -> None:
    np.maximum(src[0] + src[1], 0, out=dst)


def _sub_relu(dst: Array, src: list[Array], _: Extra) -> None:
    np.maximum(src[0] - src[1], 0, out=dst)


def _fused_mul_add(dst: Array, src: list[Array], _: Extra) -> None:
    big = wider(dst.dtype)
    dst[...] = src[0].astype(big) * dst.astype(big) + src[1].astype(big)


def _fused_mul_add_relu(dst: Array, src: list[Array], _: Extra) -> None:
    _fused_mul_add(dst, src, _)
    np.maximum(dst, 0, out=dst)


def _mul_add_dst(dst: Array, src: list[Array], _: Extra) -> None:
    big = wider(dst.dtype)
    dst[...] = src[0].astype(big) * src[1].astype(big) + dst.astype(big)


def _axpy(dst: Array, src: list[Array], extra: Extra) -> None:
    big = wider(dst.dtype)
    factor = big(scalar(src[0].dtype, extra[0]))
    dst[...] = src[0].astype(big) * factor + dst.astype(big)


def _leaky_relu(dst: Array, src: list[Array], extra: Extra) -> None:
    dst[...] = np.where(src[0] >= 0, src[0], src[0] * scalar(dst.dtype, extra[0]))


def _relu(dst: Array, src: list[Array], _: Extra) -> None:
    np.maximum(src[0], 0, out=dst)


def _rounded(function: Callable[[Any], Any]) -> Compute:
    """A function of a float, computed wide and rounded once to the element type."""

    def compute(dst: Array, src: list[Array], _: Extra) -> None:
        dst[...] = function(src[0].astype(wider(dst.dtype)))

    return compute


def _shift(left: bool) -> Compute:
    def compute(dst: Array, src: list[Array], extra: Extra) -> None:
        bits = dst.dtype.itemsize * 8
        by = int(from_bits(extra[0]))
        if left:
            dst[...] = src[0] << by if by < bits else 0
        elif by < bits:
            dst[...] = src[0] >> by
        else:
            dst[...] = src[0] >> (bits - 1) if dst.dtype.kind == "i" else 0

    return compute


def _duplicate(dst: Array, _: list[Array], extra: Extra) -> None:
    dst[...] = scalar(dst.dtype, extra[0])


def _copy(dst: Array, src: list[Array], _: Extra) -> None:
    dst[...] = src[0]


def _saturated(dst: Array, value: Array) -> None:
    """Convert to an integer type, saturating; to half by rounding to nearest even."""
    if dst.dtype.kind == "f":
        dst[...] = value
        return
    limits = np.iinfo(dst.dtype)
    dst[...] = np.clip(
        np.rint(np.nan_to_num(value.astype(np.float64), posinf=2.0**31, neginf=-(2.0**31))), limits.min, limits.max
    )


def _add_relu_cast(dst: Array, src: list[Array], _: Extra) -> None:
    _saturated(dst, np.maximum(src[0] + src[1], 0))


def _sub_relu_cast(dst: Array, src: list[Array], _: Extra) -> None:
    _saturated(dst, np.maximum(src[0] - src[1], 0))


def _mul_cast(dst: Array, src: list[Array], _: Extra) -> None:
    _saturated(dst, src[0] * src[1])


BINARY: dict[str, Compute] = {
    "add": _two(np.add),
    "sub": _two(np.subtract),
    "mul": _two(np.multiply),
    "div": _two(np.divide),
    "max": _two(np.maximum),
    "min": _two(np.minimum),
    "add_relu": _add_relu,
    "sub_relu": _sub_relu,
    "fused_mul_add": _fused_mul_add,
    "fused_mul_add_relu": _fused_mul_add_relu,
    "mul_add_dst": _mul_add_dst,
    "bitwise_and": _two(np.bitwise_and),
    "bitwise_or": _two(np.bitwise_or),
    "add_relu_cast": _add_relu_cast,
    "sub_relu_cast": _sub_relu_cast,
    "mul_cast": _mul_cast,
}
UNARY: dict[str, Compute] = {
    "abs": _one(np.abs),
    "exp": _rounded(np.exp),
    "ln": _rounded(np.log),
    "reciprocal": _rounded(lambda x: 1 / x),
    "rsqrt": _rounded(lambda x: 1 / np.sqrt(x)),
    "sqrt": _rounded(np.sqrt),
    "relu": _relu,
    "bitwise_not": _one(np.bitwise_not),
}
SCALAR: dict[str, Compute] = {
    "adds": _scalar(np.add),
    "muls": _scalar(np.multiply),
    "maxs": _scalar(np.maximum),
    "mins": _scalar(np.minimum),
    "leaky_relu": _leaky_relu,
    "shift_left": _shift(True),
    "shift_right": _shift(False),
    "axpy": _axpy,
}
duplicate: Compute = _duplicate
copy: Compute = _copy
