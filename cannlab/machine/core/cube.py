"""The cube unit and what leaves it: mmad and fixpipe. Source: pyasc 7.9; ascend-c 1.2, 2.6.

mmad: C (m x n, L0C, NZ of 16 x 16) = A (L0A, ZZ) x B (L0B, ZN), products and sums in float32 (half, float) or int32
(int8, saturating). Immediates: ``(m, n, k)``.

sparse mmad: of every four rows of B only two are kept (k / 2 x n, int8), and the index says for each column of B which
two: of each pair the first number is the place among the first three, the second that among the last three (0, 1 or 2).
The index lies beside L0B, in fractals of 16 columns x 32 numbers of 2 bits (128 bytes; the first in the lowest bits).
Source: the toolkit's pages of MmadWithSparse, LoadDataWithSparse and of the index's fractals.

fixpipe: quantise or convert, then ReLU, then layout. Immediates: ``(n, m, source stride, destination stride, mode,
deq word, matrices, source matrix stride, destination matrix stride, relu, row major, channel split, atomic)``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import CODES, NUMPY, SIZES, pack, unpack
from cannlab.machine.core.fractals import FRACTAL, ROWS, up
from cannlab.machine.core.memory import POISON, Memory
from cannlab.machine.core.movement import ATOMIC
from cannlab.machine.core.pipes import BLOCK

Array = NDArray[Any]
Index = NDArray[np.int64]
Imm = tuple[int, ...]
Operands = tuple[tuple[int, int, int], ...]

NO_QUANT, F322F16, F322BF16, DEQF16, VDEQF16, QF322B8_PRE, VQF322B8_PRE, REQ8, VREQ8 = range(9)
VECTOR_MODES = (VDEQF16, VQF322B8_PRE, VREQ8)
_BYTES = ("int8", "uint8")
RESULTS: dict[int, tuple[tuple[str, str], ...]] = {
    NO_QUANT: (("float32", "float32"), ("int32", "int32")),
    F322F16: (("float16", "float32"),),
    F322BF16: (),
    DEQF16: (("float16", "int32"),),
    VDEQF16: (("float16", "int32"),),
    QF322B8_PRE: tuple((name, "float32") for name in _BYTES),
    VQF322B8_PRE: tuple((name, "float32") for name in _BYTES),
    REQ8: tuple((name, "int32") for name in _BYTES),
    VREQ8: tuple((name, "int32") for name in _BYTES),
}
"""Mode -> (destination, source) types. F322BF16 has none: pyasc has no bfloat16."""

_SPLIT_TYPES = (("float32", "float16", "float16"), ("float32", "float32", "float32"), ("int32", "int8", "int8"))
_MERGED_TYPES = (
    ("float32", "float16", "float16"),
    ("float16", "float16", "float16"),
    ("int32", "int8", "int8"),
    ("int32", "uint8", "uint8"),
)


def _packed(rows: tuple[tuple[str, ...], ...], bias: bool) -> frozenset[int]:
    found = []
    for names in rows:
        codes = [CODES[name] for name in names]
        found.append(pack(*codes, codes[0]) if bias else pack(*codes))
    return frozenset(found)


def mmad_types(bias: bool) -> frozenset[int]:
    """Packed (C, A, B[, bias]) types of any chip."""
    return _packed(_SPLIT_TYPES + _MERGED_TYPES, bias)


@lru_cache(maxsize=64)
def legal(split: bool, bias: bool) -> frozenset[int]:
    """Packed types that an mmad of a chip takes: only split chips multiply float32, only merged ones make half."""
    return _packed(_SPLIT_TYPES if split else _MERGED_TYPES, bias)


@lru_cache(maxsize=64)
def result_types(mode: int, vector: bool) -> frozenset[int]:
    """Packed (destination, source[, words]) types that a mode of fixpipe takes."""
    words = (CODES["uint64"],) if vector else ()
    return frozenset(pack(CODES[dst], CODES[src], *words) for dst, src in RESULTS.get(mode, ()))


def _c0(code: int) -> int:
    return BLOCK // SIZES[code]


def is_sparse(dtype: int) -> bool:
    """Are the packed types those of a sparse product? They end with the index, whose type no bias has."""
    codes = unpack(dtype)
    return len(codes) > 3 and codes[-1] == CODES["uint8"]


def sparse_types(bias: bool) -> frozenset[int]:
    """Packed (C, A, B[, bias], index) types of a sparse product."""
    return _packed((("int32", "int8", "int8", *(("int32",) if bias else ()), "uint8"),), False)


def kept_rows(k: int) -> int:
    """Rows of B that a sparse product keeps of k: two of four."""
    return up(k, 4) // 2


def _left(memory: Memory, operand: tuple[int, int, int], code: int, m: int, k: int, vector: bool) -> Array:
    view = memory.view(operand, code)
    if vector:
        return view[:k].reshape(1, k)
    c0 = _c0(code)
    rows, columns = up(m, ROWS) // ROWS, up(k, c0) // c0
    return view.reshape(rows, columns, ROWS, c0).transpose(0, 2, 1, 3).reshape(rows * ROWS, columns * c0)[:m, :k]


def _right(memory: Memory, operand: tuple[int, int, int], code: int, k: int, n: int) -> Array:
    c0 = _c0(code)
    rows, columns = up(k, c0) // c0, up(n, ROWS) // ROWS
    view = memory.view(operand, code).reshape(rows, columns, ROWS, c0)
    return view.transpose(0, 3, 1, 2).reshape(rows * c0, columns * ROWS)[:k, :n]


def hf32(values: Array, toward_zero: bool) -> Array:
    """float32 with 11 bits of fraction, as the HF32 mode reads its inputs (to nearest even, or towards zero)."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    if not toward_zero:
        bits = bits + np.uint32(0x7FF) + (bits >> np.uint32(12) & np.uint32(1))
    cut = (bits & np.uint32(0xFFFFF000)).view(np.float32)
    return np.where(np.isfinite(values), cut, values)


def product(left: Array, right: Array) -> Array:
    """The exact product of int8 matrices (float64), or the float32 product."""
    if left.dtype.kind != "f":
        # 128 * 128 * 4095 is far below 2**53: float64 is exact, and BLAS is fast.
        return np.asarray(left.astype(np.float64) @ right.astype(np.float64))
    return np.asarray(left.astype(np.float32) @ right.astype(np.float32))


def _whole(dense: Array, index: Array, k: int) -> Array:
    """B (k x n, float64) of its kept rows and their index.

    The second of a pair is never before the first: there the hardware takes the first one's place. There is no 3.
    """
    rows, n = dense.shape
    first, second = index[0::2], index[1::2]
    base = 4 * np.arange(rows // 2)[:, None]
    places = np.empty((rows, n), dtype=np.int64)
    places[0::2] = base + np.minimum(first, 2)
    places[1::2] = base + np.maximum(np.minimum(second, 2) + 1, np.minimum(first, 2))
    found = np.zeros((2 * rows, n), dtype=np.float64)
    np.add.at(found, (places, np.arange(n)[None, :]), dense)
    return found[:k]


def _index(memory: Memory, operand: tuple[int, int, int], rows: int, n: int) -> Array:
    """The 2-bit numbers of an index, (rows, n)."""
    across = up(n, ROWS) // ROWS
    view = memory.view(operand, CODES["uint8"]).reshape(-1, across, ROWS, 8)
    numbers = view[..., None] >> np.array([0, 2, 4, 6], dtype=np.uint8) & 3
    return numbers.transpose(0, 3, 4, 1, 2).reshape(-1, across * ROWS)[:rows, :n].astype(np.int64)


def mmad(start: str, sparse: bool = False) -> Callable[[Memory, int, Imm, Operands], None]:
    """An ``execute``: the sum starts from nothing, from what is in L0C ("sum"), or from the bias of each column."""

    def execute(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
        m, n, k = imm
        codes = unpack(dtype)
        left = _left(memory, operands[1], codes[1], m, k, m == 1 and not sparse)
        right = _right(memory, operands[2], codes[2], kept_rows(k) if sparse else k, n)
        if sparse:
            right = _whole(right, _index(memory, operands[-1], kept_rows(k), n), k)
        if memory.hf32 and codes[1] == CODES["float32"]:
            left, right = (hf32(each, memory.hf32 == 2) for each in (left, right))
        total = product(left, right)
        columns, rows = up(n, ROWS) // ROWS, up(m, ROWS)
        target = memory.view(operands[0], codes[0]).reshape(columns, rows, ROWS)
        if start == "sum":
            total = total + target.transpose(1, 0, 2).reshape(rows, columns * ROWS)[:m, :n]
        elif start == "bias":
            total = total + memory.view(operands[3], codes[3])[:n]
        else:
            memory.view(operands[0], CODES["uint8"])[:] = POISON
        if target.dtype.kind == "i":
            limits = np.iinfo(target.dtype)
            total = np.clip(total, limits.min, limits.max)
        wide = np.zeros((m, columns * ROWS), dtype=target.dtype)
        wide[:, :n] = total
        target[:, :m, :] = wide.reshape(m, columns, ROWS).transpose(1, 0, 2)

    return execute


def _fractals(rows: int, columns: int) -> layout.Spans:
    return ((0, rows * columns * FRACTAL),)


def touch_c(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the result."""
    m, n, _ = imm
    return ((0, up(m, ROWS) * up(n, ROWS) * SIZES[unpack(dtype)[0]]),)


def touch_a(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the left matrix; a single row is read as a plain vector (not by a sparse product)."""
    m, _, k = imm
    code = unpack(dtype)[1]
    if m == 1 and not is_sparse(dtype):
        return ((0, k * SIZES[code]),)
    return _fractals(up(m, ROWS) // ROWS, up(k, _c0(code)) // _c0(code))


def touch_b(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the right matrix."""
    _, n, k = imm
    code = unpack(dtype)[2]
    if is_sparse(dtype):
        k = kept_rows(k)
    return _fractals(up(k, _c0(code)) // _c0(code), up(n, ROWS) // ROWS)


def needed(place: int, dtype: int, imm: Imm) -> Index:
    """Elements of an operand that the result depends on: rows and columns that pad a fractal do not count."""
    m, n, k = imm
    codes = unpack(dtype)
    code = codes[place]
    sparse = is_sparse(dtype)
    if sparse and place == len(codes) - 1:
        i, bytes_ = np.arange(n)[:, None], np.arange(up(kept_rows(k), 4) // 4)[None, :]
        fractal = (bytes_ // 8) * (up(n, ROWS) // ROWS) + i // ROWS
        return np.asarray((fractal * ROWS + i % ROWS) * 8 + bytes_ % 8, dtype=np.int64).reshape(-1)
    if place == 3:
        return np.arange(n, dtype=np.int64)
    if sparse and place == 2:
        k = kept_rows(k)
    if place == 0:
        i, j = np.arange(m)[:, None], np.arange(n)[None, :]
        return np.asarray((j // ROWS) * up(m, ROWS) * ROWS + i * ROWS + j % ROWS, dtype=np.int64).reshape(-1)
    c0 = _c0(code)
    steps = np.arange(k)[None, :]
    if place == 1:
        if m == 1 and not sparse:
            return np.arange(k, dtype=np.int64)
        i = np.arange(m)[:, None]
        fractal = (i // ROWS) * (up(k, c0) // c0) + steps // c0
    else:
        i = np.arange(n)[:, None]
        fractal = (steps // c0) * (up(n, ROWS) // ROWS) + i // ROWS
    return np.asarray((fractal * ROWS + i % ROWS) * c0 + steps % c0, dtype=np.int64).reshape(-1)


def touch_index(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the index of a sparse product: a quarter of those of its right matrix."""
    return tuple((start // 4, end // 4) for start, end in touch_b(dtype, imm))


def touch_bias(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the bias: one element per column."""
    return ((0, imm[1] * SIZES[unpack(dtype)[3]]),)


# -- fixpipe ------------------------------------------------------------------------------------------


def scale_of(word: int | Array) -> Array:
    """The factor of a quantisation word: of its 32 bits of float only the top 19 count."""
    low = np.asarray(np.asarray(word, dtype=np.uint64) & np.uint64(0xFFFFE000)).astype(np.uint32)
    return low.view(np.float32)


def _offset_of(word: int | Array) -> Array:
    field = np.asarray(np.asarray(word, dtype=np.uint64) >> np.uint64(37) & np.uint64(0x1FF)).astype(np.int64)
    return np.where(field >= 256, field - 512, field)


def quantise(values: Array, kind: np.dtype[Any], mode: int, words: Array) -> Array:
    """The conversion of a fixpipe; ``words`` is one word, or one per column."""
    if mode == NO_QUANT:
        return values
    if mode == F322F16:
        return values.astype(kind)
    scaled = values.astype(np.float32) * scale_of(words)
    if mode in (DEQF16, VDEQF16):
        return scaled.astype(kind)
    limits = np.iinfo(kind)
    whole = np.rint(np.nan_to_num(scaled.astype(np.float64) + _offset_of(words), posinf=1e9, neginf=-1e9))
    return np.asarray(np.clip(whole, limits.min, limits.max).astype(kind))


@lru_cache(maxsize=1024)
def _places(dst_size: int, imm: Imm) -> tuple[Index, Index, Index]:
    """Elements of the destination, of the source, and the column of each; shape (matrices, m, n)."""
    n, m, src_stride, dst_stride, _, _, count, src_nd, dst_nd, _, row_major, split, _ = imm
    d = np.arange(count if row_major else 1, dtype=np.int64)[:, None, None]
    i = np.arange(m, dtype=np.int64)[None, :, None]
    j = np.arange(n, dtype=np.int64)[None, None, :]
    src = d * src_nd * 256 + (j // 16) * src_stride * 16 + i * 16 + j % 16
    if row_major:
        dst = d * dst_nd + i * dst_stride + j
    else:
        wide = 8 if split else 32 if dst_size == 1 else 16
        dst = (j // wide) * (dst_stride * BLOCK // dst_size) + i * wide + j % wide
    column = np.broadcast_to(j, src.shape)
    return dst, src, column


def fixpipe(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    """L0C to global memory; operands (dst, src[, words of the columns])."""
    codes = unpack(dtype)
    mode, word, relu, atomic = imm[4], imm[5], imm[9], imm[12]
    dst, src, column = _places(SIZES[codes[0]], imm)
    words = np.asarray(word & layout.WORD, dtype=np.uint64)
    if len(operands) > 2:
        words = memory.view(operands[2], CODES["uint64"])[column]
    values = quantise(memory.view(operands[1], codes[1])[src], NUMPY[codes[0]], mode, words)
    if relu:
        values = np.maximum(values, 0)
    target = memory.view(operands[0], codes[0])
    operation = ATOMIC[atomic]
    target[dst] = values if operation is None else operation(target[dst], values)


def touch_out(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of global memory that a fixpipe writes."""
    size = SIZES[unpack(dtype)[0]]
    return layout.runs(_places(size, imm)[0].reshape(-1), size)


def touch_in(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of L0C that a fixpipe reads."""
    codes = unpack(dtype)
    return layout.runs(_places(SIZES[codes[0]], imm)[1].reshape(-1), SIZES[codes[1]])


def touch_words(dtype: int, imm: Imm) -> layout.Spans:
    """Bytes of the columns' words."""
    return ((0, imm[0] * 8),)
