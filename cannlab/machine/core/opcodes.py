"""The one table from operation to meaning.

A row says what an instruction computes, on which pipe, which operands it reads and writes, which element
types the chip has for it and what a repeat costs. Live execution and replay both call ``row.execute``.
Numbers are part of the record's format: add rows, never renumber them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import (
    adv_math,
    compare,
    conversion,
    cube,
    elementwise,
    fractals,
    gathering,
    images,
    layout,
    movement,
    normalising,
    quantising,
    reductions,
    sorting,
    transposing,
)
from cannlab.machine.core.dtypes import CODES, NAMES, SIZES, pack, unpack, widest
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.pipes import BLOCK, GM, REPEAT, Pipe, Space

Operands = tuple[tuple[int, int, int], ...]
Imm = tuple[int, ...]
Execute = Callable[[Memory, int, Imm, Operands], None]
Touch = Callable[[int, Imm], layout.Spans]


class Kind(IntEnum):
    """How the checks and the clock treat a row."""

    VECTOR = 0
    MOVE = 1
    LOAD = 2
    """A copy that rearranges: to and from fractals."""
    CUBE = 3
    FIX = 4
    SCALAR = 5
    FLAG = 6
    BARRIER = 7
    QUEUE = 8
    BLOCK = 9
    CROSS = 10
    """Between cores."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operation.

    Attributes:
        number, name: its number in the record and its name (that of pyasc).
        kind: how checks and clock treat it.
        pipe: the pipe it runs on; a copy names its pipe in each instruction.
        execute: its data effect.
        roles: one letter per operand: r read, w written, x both.
        touches: byte spans of each operand from its start; None means all its bytes.
        lanewise: lane i of the result depends on lane i of the sources only.
        types: legal element types of its operands, packed; empty means all.
        align: alignment in bytes of each operand in a local buffer (0: its element's size).
        cycles: cycles per repeat of a vector instruction.
        repeats: repeats that a vector instruction takes, where its immediates do not begin with a form or a count.
        spaces: where each operand may lie (GM or a local buffer); empty means that PATHS says it.
        flow: of an operation that only moves elements: (elements of the destination, element of the source of each),
            by element size and immediates. What is undefined in the source is undefined in the destination.
        needs: of an operation that reads whole fractals: the elements of an operand that count (the rest may be
            undefined), by operand, types and immediates.
        atomic: which immediate says how a write to global memory combines with what is there (-1: it replaces).
    """

    number: int
    name: str
    kind: Kind
    pipe: Pipe
    execute: Execute
    roles: str = ""
    touches: tuple[Touch | None, ...] = ()
    lanewise: bool = False
    types: frozenset[int] = frozenset()
    align: tuple[int, ...] = ()
    cycles: float = 1.0
    spaces: tuple[frozenset[int], ...] = ()
    atomic: int = -1
    repeats: Callable[[int, Imm], int] | None = None
    flow: Callable[[int, Imm], tuple[NDArray[np.int64], NDArray[np.int64]]] | None = None
    needs: Callable[[int, int, Imm], NDArray[np.int64]] | None = None


def _in(*spaces: int) -> frozenset[int]:
    return frozenset(int(space) for space in spaces)


_UB = _in(Space.UB)

ROWS: dict[int, Row] = {}
BY_NAME: dict[str, Row] = {}


def _add(number: int, name: str, kind: Kind, pipe: Pipe, execute: Execute, **rest: object) -> None:
    roles = str(rest.get("roles", ""))
    rest.setdefault("align", (BLOCK,) * len(roles))
    rest.setdefault("touches", (None,) * len(roles))
    if kind == Kind.VECTOR:
        rest.setdefault("spaces", (_UB,) * len(roles))
    row = Row(number, name, kind, pipe, execute, **rest)  # type: ignore[arg-type]
    if number in ROWS or name in BY_NAME:
        raise ValueError(f"{number} {name} stands twice in the table of operations")
    ROWS[number] = BY_NAME[name] = row


def same(names: str, operands: int) -> frozenset[int]:
    """Packed types of operands that share one of the named types."""
    return frozenset(pack(*[CODES[name]] * operands) for name in names.split())


def each(combinations: Iterable[tuple[str, ...]]) -> frozenset[int]:
    """Packed types of the given combinations (first operand first)."""
    return frozenset(pack(*(CODES[name] for name in names)) for names in combinations)


def _strided(operand: int) -> Touch:
    def touch(dtype: int, imm: Imm) -> layout.Spans:
        size = SIZES[unpack(dtype)[operand]]
        form = imm[:2] if imm[0] == layout.COUNT else imm[:10]
        return layout.spans(size, widest(dtype), form, operand)

    return touch


_STRIDED = tuple(_strided(operand) for operand in range(3))

# Cycles per repeat. add: measured (ascend-c 2.6: 22 + repeats). The others are assumed in proportion: the
# documents give no figures, except that a reduction takes 2 to 5 times as long as add.
_SLOW = {"div": 4.0, "exp": 4.0, "ln": 4.0, "sqrt": 4.0, "rsqrt": 2.0, "reciprocal": 2.0}
_NUMERIC = "int16 float16 int32 float32"
_FLOAT = "float16 float32"
_ANY_16_32 = "int16 uint16 float16 int32 uint32 float32"

_BINARY_TYPES = {
    **dict.fromkeys(("add", "sub", "mul", "max", "min"), same(_NUMERIC, 3)),
    **dict.fromkeys(("div", "fused_mul_add", "fused_mul_add_relu", "mul_add_dst"), same(_FLOAT, 3)),
    **dict.fromkeys(("add_relu", "sub_relu"), same("int16 float16 float32", 3)),
    **dict.fromkeys(("bitwise_and", "bitwise_or"), same("int16 uint16", 3)),
    **dict.fromkeys(
        ("add_relu_cast", "sub_relu_cast"),
        each([("int8", "float16", "float16"), ("float16", "float32", "float32"), ("int8", "int16", "int16")]),
    ),
    "mul_cast": each([("int8", "float16", "float16"), ("uint8", "float16", "float16")]),
}
_ACCUMULATES = ("fused_mul_add", "fused_mul_add_relu", "mul_add_dst")
for _number, (_name, _compute) in enumerate(elementwise.BINARY.items(), start=1):
    _add(
        _number,
        _name,
        Kind.VECTOR,
        Pipe.V,
        elementwise.run(_compute),
        roles="xrr" if _name in _ACCUMULATES else "wrr",
        touches=_STRIDED,
        lanewise=True,
        types=_BINARY_TYPES[_name],
        cycles=_SLOW.get(_name, 1.0),
    )

_UNARY_TYPES = {
    **dict.fromkeys(("abs", "exp", "ln", "reciprocal", "rsqrt", "sqrt"), same(_FLOAT, 2)),
    "relu": same("float16 float32 int32", 2),
    "bitwise_not": same("int16 uint16", 2),
}
for _number, (_name, _compute) in enumerate(elementwise.UNARY.items(), start=40):
    _add(
        _number,
        _name,
        Kind.VECTOR,
        Pipe.V,
        elementwise.run(_compute),
        roles="wr",
        touches=_STRIDED[:2],
        lanewise=True,
        types=_UNARY_TYPES[_name],
        cycles=_SLOW.get(_name, 1.0),
    )

_SCALAR_TYPES = {
    **dict.fromkeys(("adds", "muls", "maxs", "mins"), same(_NUMERIC, 2)),
    "leaky_relu": same(_FLOAT, 2),
    **dict.fromkeys(("shift_left", "shift_right"), same("int16 uint16 int32 uint32", 2)),
    "axpy": same(_FLOAT, 2) | each([("float32", "float16")]),
}
for _number, (_name, _compute) in enumerate(elementwise.SCALAR.items(), start=60):
    _add(
        _number,
        _name,
        Kind.VECTOR,
        Pipe.V,
        elementwise.run(_compute),
        roles="xr" if _name == "axpy" else "wr",
        touches=_STRIDED[:2],
        lanewise=True,
        types=_SCALAR_TYPES[_name],
    )


def _cast(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    mode = imm[layout.head(imm)]
    scale = memory.deq_scale

    def compute(dst: elementwise.Array, src: list[elementwise.Array], _: Imm) -> None:
        conversion.cast(dst, src[0], mode, scale)

    elementwise.run(compute)(memory, dtype, imm, operands)


_V = Kind.VECTOR
_add(
    80,
    "duplicate",
    _V,
    Pipe.V,
    elementwise.run(elementwise.duplicate),
    roles="w",
    touches=_STRIDED[:1],
    types=same(_ANY_16_32, 1),
)
_add(
    81,
    "copy",
    _V,
    Pipe.V,
    elementwise.run(elementwise.copy),
    roles="wr",
    touches=_STRIDED[:2],
    lanewise=True,
    types=same(_ANY_16_32, 2),
)
_add(
    82,
    "cast",
    _V,
    Pipe.V,
    _cast,
    roles="wr",
    touches=_STRIDED[:2],
    lanewise=True,
    types=each((dst, src) for src, dst in conversion.PAIRS),
)


def _eight(dtype: int, imm: Imm) -> layout.Spans:
    return ((0, imm[0] * 8 * SIZES[unpack(dtype)[1]]),) if imm[0] else ()


def _blocks(dtype: int, imm: Imm) -> layout.Spans:
    return layout.runs(gathering.block_starts(imm[0], max(imm[1], 1), imm[2]), BLOCK)


def _offsets(dtype: int, imm: Imm) -> layout.Spans:
    size = SIZES[unpack(dtype)[0]]
    lanes = imm[1] if imm[0] == layout.COUNT else imm[1] * (REPEAT // size)
    return ((0, lanes * SIZES[unpack(dtype)[2]]),) if lanes else ()


_add(83, "brcb", _V, Pipe.V, gathering.brcb, roles="wr", touches=(_blocks, _eight), types=same(_ANY_16_32, 2))
_add(
    84,
    "gather",
    _V,
    Pipe.V,
    gathering.gather,
    roles="wrr",
    touches=(_STRIDED[0], None, _offsets),
    types=each((name, name, "uint32") for name in _ANY_16_32.split()),
    cycles=4.0,
)
_add(
    85,
    "gatherb",
    _V,
    Pipe.V,
    gathering.gatherb,
    roles="wrr",
    touches=(_blocks, None, lambda dtype, imm: ((0, imm[0] * 32),)),
    types=each((name, name, "uint32") for name in ("uint16", "uint32")),
    cycles=4.0,
)
_add(
    86,
    "gather_mask",
    _V,
    Pipe.V,
    gathering.gather_mask,
    roles="wr",
    types=same(_ANY_16_32, 2),
    cycles=2.0,
)
_add(
    87,
    "gather_mask_tensor",
    _V,
    Pipe.V,
    gathering.gather_mask,
    roles="wrr",
    types=each((name, name, "uint16" if SIZES[CODES[name]] == 2 else "uint32") for name in _ANY_16_32.split()),
    cycles=2.0,
)


# -- compare and select -------------------------------------------------------------------------------


def _result_bits(dtype: int, imm: Imm) -> layout.Spans:
    size = SIZES[unpack(dtype)[1]]
    found = compare.bit_bytes(size, imm)
    return ((0, found),) if found else ()


def _compared(operand: int) -> Touch:
    def touch(dtype: int, imm: Imm) -> layout.Spans:
        size = SIZES[unpack(dtype)[1]]
        if imm[0] == layout.COUNT:
            return layout.spans(size, size, imm[:2], operand)
        return layout.spans(size, size, compare.unmasked(size, imm), operand)

    return touch


def _registered(operand: int) -> Touch:
    def touch(dtype: int, imm: Imm) -> layout.Spans:
        size = SIZES[unpack(dtype)[0]]
        return layout.spans(size, size, compare.unmasked(size, imm), operand)

    return touch


def _select_bits(dtype: int, imm: Imm) -> layout.Spans:
    size = SIZES[unpack(dtype)[0]]
    if imm[layout.head(imm)] == compare.REGISTER:
        return ((0, REPEAT // size // 8),)
    found = compare.bit_bytes(size, imm)
    return ((0, found),) if found else ()


def _select_part(operand: int) -> Touch:
    def touch(dtype: int, imm: Imm) -> layout.Spans:
        size = SIZES[unpack(dtype)[0]]
        form = imm[:2] if imm[0] == layout.COUNT else imm[:10]
        return layout.spans(size, size, form, operand)

    return touch


_SELECT = tuple(_select_part(operand) for operand in range(3))
_BIT_TYPES = ("uint8", "int8", "uint16", "uint32", "uint64")
_add(
    100,
    "compare",
    _V,
    Pipe.V,
    compare.compare,
    roles="wrr",
    touches=(_result_bits, _compared(1), _compared(2)),
    types=each((bits, kind, kind) for bits in ("uint8", "int8") for kind in ("float16", "float32", "int32")),
)
_add(
    101,
    "compare_scalar",
    _V,
    Pipe.V,
    compare.compare_scalar,
    roles="wr",
    touches=(_result_bits, _compared(1)),
    types=each(("uint8", kind) for kind in ("float16", "float32", "int32")),
)
_add(
    102,
    "compare_register",
    _V,
    Pipe.V,
    compare.compare_register,
    roles="rr",
    touches=(_registered(0), _registered(1)),
    types=same("float16 float32 int32", 2),
)
_add(103, "get_cmp_mask", _V, Pipe.V, compare.get_mask, roles="w", touches=(lambda dtype, imm: ((0, 16),),))
_add(104, "set_cmp_mask", _V, Pipe.V, compare.set_mask, roles="r", touches=(lambda dtype, imm: ((0, 16),),))
_add(
    105,
    "select",
    _V,
    Pipe.V,
    compare.select(True),
    roles="wrrr",
    touches=(_SELECT[0], _select_bits, _SELECT[1], _SELECT[2]),
    types=each((kind, bits, kind, kind) for bits in _BIT_TYPES for kind in ("float16", "float32")),
)
_add(
    106,
    "select_scalar",
    _V,
    Pipe.V,
    compare.select(False),
    roles="wrr",
    touches=(_SELECT[0], _select_bits, _SELECT[1]),
    types=each((kind, bits, kind) for bits in _BIT_TYPES for kind in ("float16", "float32")),
)
_add(
    107,
    "select_register",
    _V,
    Pipe.V,
    compare.select_register(True),
    roles="wrr",
    touches=_SELECT,
    types=same(_FLOAT, 3),
)

# -- reductions ---------------------------------------------------------------------------------------


def _reduced(dtype: int, imm: Imm) -> layout.Spans:
    size = SIZES[unpack(dtype)[1]]
    form = imm[:2] if imm[0] == layout.COUNT else imm[:10]
    return layout.spans(size, size, form, 1)


_PAIR = same(_FLOAT, 2)
_INDEXED = _PAIR | each([("uint32", "float16"), ("uint32", "float32")])
for _number, _name, _execute, _written, _types, _align, _cycles in (
    (120, "whole_reduce_sum", reductions.whole_sum, reductions.whole_dst, _PAIR, 0, 2.0),
    (121, "whole_reduce_max", reductions.whole_extreme(True), reductions.whole_dst, _INDEXED, 0, 2.0),
    (122, "whole_reduce_min", reductions.whole_extreme(False), reductions.whole_dst, _INDEXED, 0, 2.0),
    (123, "block_reduce_sum", reductions.block("sum"), reductions.block_dst, _PAIR, 0, 2.0),
    (124, "block_reduce_max", reductions.block("max"), reductions.block_dst, _PAIR, 0, 2.0),
    (125, "block_reduce_min", reductions.block("min"), reductions.block_dst, _PAIR, 0, 2.0),
    (126, "pair_reduce_sum", reductions.pair_sum, reductions.pair_dst, _PAIR, 0, 2.0),
    (127, "reduce_sum", reductions.total_sum, reductions.total_dst, _PAIR, 0, 3.0),
    (128, "reduce_max", reductions.total_extreme(True), reductions.total_dst, _PAIR, 0, 3.0),
    (129, "reduce_min", reductions.total_extreme(False), reductions.total_dst, _PAIR, 0, 3.0),
):
    _add(
        _number,
        _name,
        _V,
        Pipe.V,
        _execute,
        roles="wr",
        touches=(_written, _reduced),
        types=_types,
        align=(_align, BLOCK),
        cycles=_cycles,
    )

# -- movement and scalar access -----------------------------------------------------------------------


def _copied(gap: int) -> Touch:
    def touch(dtype: int, imm: Imm) -> layout.Spans:
        return movement.rows(imm[0], imm[1], imm[gap])

    return touch


_add(150, "data_copy", Kind.MOVE, Pipe.MTE2, movement.copy, roles="wr", touches=(_copied(3), _copied(2)), atomic=4)
_add(
    151,
    "data_copy_pad",
    Kind.MOVE,
    Pipe.MTE2,
    movement.pad,
    roles="wr",
    touches=(lambda dtype, imm: movement.pad_written(imm), _copied(2)),
)
_L1, _L0A, _L0B, _L0C = (_in(space) for space in (Space.L1, Space.L0A, Space.L0B, Space.L0C))
_GM = _in(GM)
_WIDE = " ".join(name for name in NAMES if name and SIZES[CODES[name]] <= 4)
_LOADED = same(_WIDE, 2)
_SPARSE = {"load_data_with_sparse": same("int8", 2), "load_sparse_index": same("uint8", 2)}
"""One call is both: the matrix, and the index beside it."""
for _number, _name, _pipe, _where, _to, _from in (
    (210, "data_copy_nd2nz", Pipe.MTE2, fractals.nd2nz, _L1, _GM),
    (212, "load_data", Pipe.MTE1, fractals.load_2d, _L0A | _L0B, _L1),
    (213, "load_data_gm", Pipe.MTE2, fractals.load_2d, _L1 | _L0A | _L0B, _GM),
    (214, "load_data_with_transpose", Pipe.MTE1, fractals.load_transpose, _L0A | _L0B, _L1),
    (217, "load_data_with_sparse", Pipe.MTE1, fractals.load_sparse, _L0B, _L1),
    (218, "load_sparse_index", Pipe.MTE1, fractals.load_index, _in(Space.INDEX), _L1),
):
    _add(
        _number,
        _name,
        Kind.LOAD,
        _pipe,
        fractals.move(_where),
        roles="wr",
        touches=(fractals.touched(_where, 0), fractals.touched(_where, 1)),
        flow=_where,
        types=_SPARSE.get(_name, _LOADED),
        spaces=(_to, _from),
    )
_add(
    211,
    "data_copy_nz2nd",
    Kind.LOAD,
    Pipe.MTE3,
    fractals.store,
    roles="wr",
    touches=(fractals.touched(fractals.nz2nd, 0), fractals.touched(fractals.nz2nd, 1)),
    types=_LOADED,
    spaces=(_GM, _UB),
    atomic=7,
)
_add(
    215,
    "load_data_3d",
    Kind.LOAD,
    Pipe.MTE1,
    fractals.move(fractals.load_3d, fractals.last_as_float),
    roles="wr",
    touches=(fractals.touched(fractals.load_3d, 0), fractals.touched(fractals.load_3d, 1)),
    flow=fractals.load_3d,
    types=_LOADED,
    spaces=(_L0A | _L0B, _L1),
)
_add(
    216,
    "init_const_value",
    Kind.LOAD,
    Pipe.MTE1,
    fractals.move(fractals.fill, fractals.last_as_float),
    roles="w",
    touches=(fractals.touched(fractals.fill, 0),),
    types=same("int16 uint16 float16 int32 uint32 float32", 1),
    spaces=(_L1 | _L0A | _L0B,),
)
for _number, _name, _start, _roles in (
    (220, "mmad", "nothing", "wrr"),
    (221, "mmad_accumulate", "sum", "xrr"),
    (222, "mmad_bias", "bias", "wrrr"),
):
    _biased = len(_roles) == 4
    _add(
        _number,
        _name,
        Kind.CUBE,
        Pipe.M,
        cube.mmad(_start),
        roles=_roles,
        touches=(cube.touch_c, cube.touch_a, cube.touch_b, cube.touch_bias)[: len(_roles)],
        needs=cube.needed,
        types=cube.mmad_types(_biased),
        spaces=(_L0C, _L0A, _L0B, _in(Space.BIAS) | _L0C)[: len(_roles)],
    )
for _number, _name, _start, _roles in (
    (226, "mmad_sparse", "nothing", "wrrr"),
    (227, "mmad_sparse_accumulate", "sum", "xrrr"),
    (228, "mmad_sparse_bias", "bias", "wrrrr"),
):
    _biased = len(_roles) == 5
    _add(
        _number,
        _name,
        Kind.CUBE,
        Pipe.M,
        cube.mmad(_start, sparse=True),
        roles=_roles,
        touches=(
            cube.touch_c,
            cube.touch_a,
            cube.touch_b,
            *((cube.touch_bias,) if _biased else ()),
            cube.touch_index,
        ),
        needs=cube.needed,
        types=cube.sparse_types(_biased),
        spaces=(_L0C, _L0A, _L0B, *((_in(Space.BIAS),) if _biased else ()), _in(Space.INDEX)),
    )
for _number, _name, _planes in ((219, "load_image", 1), (229, "load_image_yuv", 2)):
    _add(
        _number,
        _name,
        Kind.LOAD,
        Pipe.MTE2,
        images.load,
        roles="w" + "r" * _planes,
        touches=(images.written, images.read, images.read_colours)[: 1 + _planes],
        types=each((name, *("uint8",) * _planes) for name in ("int8", "float16")),
        spaces=(_L1, *(_GM,) * _planes),
    )
_add(
    223,
    "fixpipe",
    Kind.FIX,
    Pipe.FIXP,
    cube.fixpipe,
    roles="wr",
    touches=(cube.touch_out, cube.touch_in),
    types=each({pair for pairs in cube.RESULTS.values() for pair in pairs}),
    spaces=(_GM, _L0C),
    atomic=12,
)
_add(
    224,
    "fixpipe_vector",
    Kind.FIX,
    Pipe.FIXP,
    cube.fixpipe,
    roles="wrr",
    touches=(cube.touch_out, cube.touch_in, cube.touch_words),
    types=each({(*pair, "uint64") for mode in cube.VECTOR_MODES for pair in cube.RESULTS[mode]}),
    spaces=(_GM, _L0C, _L1),
    atomic=12,
)


def _set_hf32(memory: Memory, dtype: int, imm: Imm, operands: Operands) -> None:
    memory.hf32 = imm[0]


_add(225, "set_hf32", Kind.SCALAR, Pipe.S, _set_hf32)
"""imm: 0 off, 1 to nearest even, 2 towards zero."""

# -- sorting, transposing, quantising, composite functions ----------------------------------------------

_SCORES = ("float16", "float32")
_SORTED = each((name, name, "uint32") for name in _SCORES)
_add(
    240,
    "sort32",
    _V,
    Pipe.V,
    sorting.sort32,
    roles="wrr",
    touches=(sorting.structures, sorting.elements(1), sorting.indices),
    types=_SORTED,
    cycles=4.0,
)
for _number, _queues in ((241, 2), (242, 3), (243, 4)):
    _add(
        _number,
        f"mrg_sort_{_queues}",
        _V,
        Pipe.V,
        sorting.merge,
        roles="w" + "r" * _queues,
        repeats=sorting.merge_repeats(_queues),
        touches=(sorting.merged(_queues), *(sorting.queue(place, _queues) for place in range(_queues))),
        types=same("float16 float32", 1 + _queues),
        cycles=4.0,
    )
_add(
    244,
    "sort",
    _V,
    Pipe.V,
    sorting.sort,
    roles="wrrw",
    touches=(sorting.structures, sorting.elements(1), sorting.indices, sorting.structures),
    types=each((name, name, "uint32", name) for name in _SCORES),
    cycles=12.0,
)
_add(
    245,
    "extract",
    _V,
    Pipe.V,
    sorting.extract,
    roles="wwr",
    touches=(sorting.elements(0), sorting.indices, sorting.structures),
    types=each((name, "uint32", name) for name in _SCORES),
    cycles=2.0,
)
_add(
    250,
    "transpose",
    _V,
    Pipe.V,
    transposing.transpose,
    roles="wr",
    repeats=transposing.repeats,
    touches=(transposing.whole, transposing.whole),
    types=same("int16 uint16 float16", 2),
)
_add(
    251,
    "transpose_ext",
    _V,
    Pipe.V,
    transposing.transpose,
    roles="wrw",
    repeats=transposing.repeats,
    touches=(transposing.whole, transposing.whole, transposing.scratch),
    types=each((name, name, "uint8") for name in _WIDE.split()),
    cycles=4.0,
)
_add(
    252,
    "trans_data_to_5hd",
    _V,
    Pipe.V,
    transposing.to_5hd,
    roles="w" * 16 + "r" * 16,
    touches=(transposing.line(False),) * 16 + (transposing.line(True),) * 16,
    types=same("int8 uint8 int16 uint16 float16 int32 uint32 float32", 1),
    cycles=8.0,
)
"""Its packed types hold one type, that of all lines."""
_add(
    90,
    "add_deq_relu",
    _V,
    Pipe.V,
    quantising.add_deq_relu,
    roles="wrr",
    touches=_STRIDED,
    lanewise=True,
    types=each([("float16", "int32", "int32")]),
    cycles=3.0,
)
_add(
    91,
    "cast_deq",
    _V,
    Pipe.V,
    quantising.cast_deq_half,
    roles="wr",
    touches=_STRIDED[:2],
    lanewise=True,
    types=each([("float16", "int32")]),
)
_add(
    92,
    "cast_deq_byte",
    _V,
    Pipe.V,
    quantising.cast_deq_byte,
    roles="wr",
    touches=(quantising.halves(0), quantising.halves(1)),
    types=each([("int8", "int16"), ("uint8", "int16")]),
)
_add(
    93,
    "quant",
    _V,
    Pipe.V,
    elementwise.run(quantising.quant),
    roles="wr",
    touches=_STRIDED[:2],
    lanewise=True,
    types=each([("int8", "float16"), ("int8", "float32")]),
    cycles=4.0,
)
_add(
    94,
    "bilinear_interpolation",
    _V,
    Pipe.V,
    gathering.bilinear,
    roles="wrrrw",
    repeats=lambda dtype, imm: imm[2] * imm[6],
    touches=(gathering.bilinear_written, None, gathering.bilinear_offsets, gathering.bilinear_weights, None),
    types=each([("float16", "float16", "uint32", "float16", "uint8")]),
    cycles=4.0,
)
COMPOSITE_CYCLES = 20.0
"""Of a composite function, per repeat: about so many instructions (assumed)."""
for _number, (_name, _curve) in enumerate(adv_math.FUNCTIONS.items(), start=300):
    _add(
        _number,
        f"adv_{_name}",
        _V,
        Pipe.V,
        elementwise.run(adv_math.unary(_curve)),
        roles="wr",
        touches=_STRIDED[:2],
        lanewise=True,
        types=same(_FLOAT, 2),
        cycles=COMPOSITE_CYCLES,
    )
for _number, _name, _compute, _names in (
    (340, "adv_power", adv_math.power, "float16 float32 int32"),
    (341, "adv_xor", adv_math.xor, "int16 uint16"),
):
    _add(
        _number,
        _name,
        _V,
        Pipe.V,
        elementwise.run(_compute),
        roles="wrr",
        touches=_STRIDED,
        lanewise=True,
        types=same(_names, 3),
        cycles=COMPOSITE_CYCLES if _name == "adv_power" else 3.0,
    )

for _number, _name, _execute, _operands, _types in (
    (
        350,
        "softmax",
        normalising.softmax,
        (normalising.matrix, normalising.blocks, normalising.blocks, normalising.matrix),
        same(_FLOAT, 4) | each([("float16", "float32", "float32", "float16")]),
    ),
    (351, "rmsnorm", normalising.rmsnorm, (normalising.matrix, normalising.matrix, normalising.line), same(_FLOAT, 3)),
):
    _add(
        _number,
        _name,
        _V,
        Pipe.V,
        _execute,
        roles="wwwr" if _name == "softmax" else "wrr",
        repeats=normalising.repeats,
        touches=tuple(touch(place) for place, touch in enumerate(_operands)),
        types=_types,
        cycles=COMPOSITE_CYCLES,
    )

_add(160, "set_value", Kind.SCALAR, Pipe.S, movement.store, roles="w", align=(0,))
_add(161, "get_value", Kind.SCALAR, Pipe.S, movement.nothing, roles="r", align=(0,))


_add(162, "set_deq_scale", Kind.SCALAR, Pipe.S, quantising.set_scale)
"""imm: the scale's bits[, an offset]."""

# -- synchronisation, queues, blocks ------------------------------------------------------------------

_add(180, "set_flag", Kind.FLAG, Pipe.S, movement.nothing)
"""imm: event, id."""
_add(181, "wait_flag", Kind.FLAG, Pipe.S, movement.nothing)
_add(182, "pipe_barrier", Kind.BARRIER, Pipe.S, movement.nothing)
"""imm: pipe, or ALL_PIPES."""
_add(190, "queue_init", Kind.QUEUE, Pipe.S, movement.nothing)
"""imm: queue, source position's event (enque), event back (free), depth; operands: its buffers."""
_add(191, "queue_alloc", Kind.QUEUE, Pipe.S, movement.nothing)
"""imm: queue, buffer."""
_add(192, "queue_enque", Kind.QUEUE, Pipe.S, movement.nothing)
_add(193, "queue_deque", Kind.QUEUE, Pipe.S, movement.nothing)
_add(194, "queue_free", Kind.QUEUE, Pipe.S, movement.nothing)
_add(195, "pipe_reset", Kind.QUEUE, Pipe.S, movement.nothing)
"""The TPipe forgets its buffers (destroy, reset, init)."""
_add(202, "pool_reset", Kind.QUEUE, Pipe.S, movement.nothing, roles="x")
"""Bytes of a local buffer belong to no queue any more."""
_add(200, "block_start", Kind.BLOCK, Pipe.S, movement.nothing)
"""imm: block, of how many[, the unit's number, where cores of both kinds run]."""
_add(201, "block_pause", Kind.BLOCK, Pipe.S, movement.nothing)
"""The core waits for others: they run until it is released."""

# -- between cores --------------------------------------------------------------------------------------

for _number, _name in ((183, "cross_core_set_flag"), (184, "cross_core_wait_flag")):
    _add(_number, _name, Kind.CROSS, Pipe.S, movement.nothing)
"""imm: flag, mode, pipe."""
for _number, _name in ((203, "message_send"), (204, "message_wait")):
    _add(_number, _name, Kind.CROSS, Pipe.S, movement.nothing)
"""Of the Matmul object: requests to the cube core and its answers, in order. imm of a send: unit, the pipe
(or ALL_PIPES) that has done everything before; of a wait: nothing."""
_add(185, "sync_all", Kind.CROSS, Pipe.S, movement.nothing)
"""The core has arrived; it is held up by sync_all_wait."""
_add(186, "sync_all_wait", Kind.CROSS, Pipe.S, movement.nothing)
for _number, _name, _effect in (
    (187, "sync_all_soft", movement.count_up),
    (188, "sync_all_soft_wait", movement.nothing),
    (196, "ib_set", movement.raise_slot),
    (197, "ib_wait", movement.lower_slot),
    (198, "notify_next_block", movement.count_up),
    (199, "wait_pre_block", movement.nothing),
):
    _add(_number, _name, Kind.CROSS, Pipe.S, _effect, roles="xx", spaces=(_GM, _UB))
"""operands: the flags in global memory and the scratch. imm: how many cores take part (0: all), the core's flag; of
ib_set and ib_wait, whose first operand is the flag itself: block, event."""


def type_names(packed: int) -> str:
    """Packed element types for a person."""
    return ", ".join(NAMES[code] for code in unpack(packed))
