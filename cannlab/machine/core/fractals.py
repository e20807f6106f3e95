"""Into the cube's buffers: row-major matrices to fractals and back, loads of L0A and L0B, images to columns, fills.

A fractal is 512 bytes: 16 rows of 32 bytes (C0 = 32 / size columns). L1 holds NZ (column blocks of C0 columns, row
after row), L0A ZZ and L0B ZN. Source: pyasc 7.8, 7.9.

Every operation here moves elements: its immediates say which element of the source goes to which element of the
destination (a source of -1 stands for a fill).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import NUMPY, SIZES, unpack
from cannlab.machine.core.floats import from_bits
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import BLOCK

Index = NDArray[np.int64]
Imm = tuple[int, ...]
Operands = tuple[tuple[int, int, int], ...]
Places = Callable[[int, Imm], tuple[Index, Index]]
"""places(element size, immediates) -> (elements of the destination, element of the source of each)."""
FRACTAL = 512
ROWS = 16
TO_RIGHT, TO_LEFT = 1, 2
"""Where load_3d puts a transposed matrix: L0B or L0A."""
MAX_EXTENT = 4095
"""m, n, k of an mmad."""


def up(value: int, unit: int) -> int:
    """Rounded up to a multiple."""
    return -(-value // unit) * unit


def _flat(dst: Any, src: Any) -> tuple[Index, Index]:
    both = np.broadcast_arrays(dst, src)
    return tuple(np.ascontiguousarray(each, dtype=np.int64).reshape(-1) for each in both)  # type: ignore[return-value]


def nd2nz(size: int, imm: Imm) -> tuple[Index, Index]:
    """imm: matrices, rows, columns, source matrix stride, source row stride (elements), column block stride, row stride
    (32-B units), destination matrix stride (elements). Columns up to the next multiple of C0 become 0."""
    count, rows, columns, src_matrix, src_row, block, row, dst_matrix = imm
    c0 = BLOCK // size
    d = np.arange(count)[:, None, None]
    i = np.arange(rows)[None, :, None]
    j = np.arange(up(columns, c0))[None, None, :]
    dst = d * dst_matrix + (j // c0) * block * c0 + i * row * c0 + j % c0
    return _flat(dst, np.where(j < columns, d * src_matrix + i * src_row + j, -1))


def nz2nd(size: int, imm: Imm) -> tuple[Index, Index]:
    """imm: matrices, rows, columns, source matrix stride (256 elements), rows of a source column block, destination row
    stride, destination matrix stride (elements), atomic."""
    count, rows, columns, src_matrix, src_row, dst_row, dst_matrix = imm[:7]
    d = np.arange(count)[:, None, None]
    i = np.arange(rows)[None, :, None]
    j = np.arange(columns)[None, None, :]
    src = d * 256 * src_matrix + (j // 16) * 16 * src_row + i * 16 + j % 16
    return _flat(d * dst_matrix + i * dst_row + j, src)


def _starts(start: int, repeat: int, step: int, backwards: int) -> Index:
    return np.asarray(start + np.arange(repeat, dtype=np.int64) * (-step if backwards else step))


def load_2d(size: int, imm: Imm) -> tuple[Index, Index]:
    """imm: start, repeats, source stride, destination gap (fractals), transpose, backwards."""
    start, repeat, stride, gap, transpose, backwards = imm
    per = FRACTAL // size
    inside = np.arange(per)
    taken = inside.reshape(16, 16).T.reshape(-1) if transpose else inside
    src = _starts(start, repeat, stride, backwards)[:, None] * per + taken
    return _flat((np.arange(repeat) * (gap + 1))[:, None] * per + inside, src)


def load_sparse(size: int, imm: Imm) -> tuple[Index, Index]:
    """imm: start, repeats (fractals of 512 bytes, one after another)."""
    return load_2d(size, (*imm, 1, 0, 0, 0))


def load_index(size: int, imm: Imm) -> tuple[Index, Index]:
    """imm: start, repeats (fractals of 128 bytes, one after another)."""
    start, repeat = imm
    inside = np.arange(repeat * FRACTAL // 4)
    return _flat(inside, inside + start * FRACTAL // 4)


def load_transpose(size: int, imm: Imm) -> tuple[Index, Index]:
    """imm: start, repeats, source stride (square blocks), destination gap, gap of a block's fractals, backwards.

    A square block (16 x 16 of 16 and 32 bits, 32 x 32 of 8 bits) is built of consecutive fractals (32 bits: side by
    side; 8 bits: one below the other), transposed, and cut into fractals again.
    """
    start, repeat, stride, gap, fraction_gap, backwards = imm
    c0, per = BLOCK // size, FRACTAL // size
    edge = 32 if size == 1 else 16
    parts = edge * edge // per
    fractal = np.arange(parts * per).reshape(parts, ROWS, c0)
    square = fractal.transpose(1, 0, 2).reshape(edge, edge) if size == 4 else fractal.reshape(edge, edge)
    turned = square.T
    out = turned.reshape(edge, parts, c0).transpose(1, 0, 2) if size == 4 else turned.reshape(parts, ROWS, c0)
    src = _starts(start, repeat, stride, backwards)[:, None, None] * (parts * per) + out.reshape(1, parts, per)
    fractals = np.arange(repeat)[:, None] * (gap + 1) + np.arange(parts)[None, :] * (fraction_gap + 1)
    return _flat(fractals[:, :, None] * per + np.arange(per), src)


def load_3d(size: int, imm: Imm) -> tuple[Index, Index]:
    """Image to columns. imm: padding left, right, top, bottom; height, width, channels; columns and rows to make,
    first column, first row; stride, filter, dilation (w, h each); 1 to L0B, 2 transposed to L0A; the padding's bits.

    Row m is an output pixel, column k is (c1, kh, kw, c0), c0 fastest. L0A gets ZZ (of the transposed matrix if asked
    for), L0B the transposed matrix as ZN.
    """
    (
        left,
        right,
        top,
        bottom,
        height,
        width,
        _,
        columns,
        rows,
        first_k,
        first_m,
        sw,
        sh,
        fw,
        fh,
        dw,
        dh,
        turned,
        _,
    ) = imm
    c0 = BLOCK // size
    out_w = (width + left + right - ((fw - 1) * dw + 1)) // sw + 1
    out_h = (height + top + bottom - ((fh - 1) * dh + 1)) // sh + 1
    m = np.arange(up(rows, ROWS))[:, None]
    k = np.arange(up(columns, c0))[None, :]
    pixel, column = m + first_m, k + first_k
    ho, wo = pixel // max(out_w, 1), pixel % max(out_w, 1)
    inside_k = column // c0
    y = ho * sh - top + inside_k // fw % fh * dh
    x = wo * sw - left + inside_k % fw * dw
    c1 = inside_k // (fw * fh)
    there = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (ho < out_h)
    src = np.where(there, ((c1 * height + y) * width + x) * c0 + column % c0, -1)
    if turned == TO_LEFT:
        dst = ((k // ROWS) * (up(rows, ROWS) // c0) + m // c0) * ROWS * c0 + (k % ROWS) * c0 + m % c0
    elif turned:
        across = up(columns, ROWS) // ROWS
        dst = ((m // c0) * across + k // ROWS) * ROWS * c0 + (k % ROWS) * c0 + m % c0
    else:
        dst = ((m // ROWS) * (up(columns, c0) // c0) + k // c0) * ROWS * c0 + (m % ROWS) * c0 + k % c0
    return _flat(dst, src)


def fill(size: int, imm: Imm) -> tuple[Index, Index]:
    """imm: repeats, blocks of a repeat, gap between repeats (blocks), bytes of a block, the value's bits."""
    repeat, blocks, gap, unit, _ = imm
    per = unit // size
    dst = (np.arange(repeat)[:, None] * (blocks + gap) + np.arange(blocks)[None, :])[:, :, None] * per + np.arange(per)
    return _flat(dst, np.int64(-1))


@lru_cache(maxsize=1024)
def _places(places: Places, size: int, imm: Imm) -> tuple[Index, Index, bool]:
    dst, src = places(size, imm)
    return dst, src, bool((src < 0).any())


def move(places: Places, filler: Callable[[Imm], float] | None = None) -> Callable[[Memory, int, Imm, Operands], None]:
    """An ``execute`` that puts elements where ``places`` says."""

    def execute(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
        code = unpack(dtype)[0]
        dst, src, fills = _places(places, SIZES[code], imm)
        target = memory.view(operands[0], code)
        value = _element(NUMPY[code], filler(imm)) if filler is not None else NUMPY[code].type(0)
        if len(operands) == 1 or not operands[1][2]:
            target[dst] = value
            return
        source = memory.view(operands[1], code)
        target[dst] = np.where(src >= 0, source[src], value) if fills else source[src]

    return execute


def store(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """nz2nd: to global memory, combining with what is there if the immediates say so."""
    from cannlab.machine.core.movement import ATOMIC

    code = unpack(dtype)[0]
    dst, src, _ = _places(nz2nd, SIZES[code], imm)
    target, values = memory.view(operands[0], code), memory.view(operands[1], code)[src]
    operation = ATOMIC[imm[7]]
    target[dst] = values if operation is None else operation(target[dst], values)


def _element(kind: np.dtype[Any], value: float) -> Any:
    return kind.type(value) if kind.kind == "f" else np.array(int(value)).astype(kind)[()]


def last_as_float(imm: Imm) -> float:
    """The value whose bits are the last immediate."""
    return from_bits(imm[-1])


def touched(places: Places, operand: int) -> Callable[[int, Imm], layout.Spans]:
    """The bytes of an operand that an operation with such places touches."""

    def touch(dtype: int, imm: Imm) -> layout.Spans:
        size = SIZES[unpack(dtype)[0]]
        dst, src, _ = _places(places, size, imm)
        return layout.runs(dst if operand == 0 else src[src >= 0], size)

    return touch
