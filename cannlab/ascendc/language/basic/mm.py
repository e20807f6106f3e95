"""Loads of the cube's buffers and mmad. Source: pyasc 5, 6, 7.9."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.builder import BlockState
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.ir_value import converted, raw
from cannlab.ascendc.language.core.tensor import BaseTensor, GlobalTensor, LocalTensor
from cannlab.ascendc.language.core.types import (
    InitConstValueParams,
    LoadData2DParams,
    LoadData2DParamsV2,
    LoadData2dTransposeParams,
    LoadData2dTransposeParamsV2,
    LoadData3DParamsV1,
    LoadData3DParamsV2,
    LoadData3DParamsV2Pro,
    LoadDataRepeatParam,
    MmadParams,
)
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.floats import to_bits
from cannlab.machine.core.fractals import FRACTAL, ROWS, TO_LEFT, TO_RIGHT, up
from cannlab.machine.core.pipes import BLOCK, Pipe, Space

_COLUMNS = d.row("load_data_3d")
_LOCAL = (("dst", d.is_tensor), ("src", d.is_tensor))
_ANY = (("dst", d.is_tensor), ("src", d.of(BaseTensor)))
_LOAD = (
    d.Form(*_ANY, ("params", d.of(LoadData2DParams))),
    d.Form(*_LOCAL, ("params", d.of(LoadData3DParamsV2))),
    d.Form(*_ANY, ("params", d.of(LoadData2DParamsV2, LoadData3DParamsV1, LoadData3DParamsV2Pro))),
)
_FORMS = {LoadData2DParams: 0, LoadData3DParamsV2: 1}
"""Of calls with two local tensors and nothing by name."""
_IMAGE = attrgetter(*(each.name for each in fields(LoadData3DParamsV2) if each.name != "pad_list"))
_ONCE = (0, 1, 0)
_KNOWN: dict[tuple[Any, ...], tuple[tuple[tuple[int, ...], int, int], float, tuple[int, ...]]] = {}
"""Parameters of loads as columns, and what they come to: feature map, padding value, immediates."""
_MOST_KNOWN = 4096
_TRANSPOSE = (
    d.Form(*_LOCAL, ("params", d.of(LoadData2dTransposeParams))),
    d.Form(*_LOCAL, ("params", d.of(LoadData2dTransposeParamsV2))),
)
_ALL_LOCAL = frozenset({LocalTensor})
_THREE = (("dst", d.is_tensor), ("fm", d.is_tensor), ("filter", d.is_tensor))
_MMAD = (
    d.Form(*_THREE, ("params", d.of(MmadParams))),
    d.Form(*_THREE, ("bias", d.is_tensor), ("params", d.of(MmadParams))),
)


def _backwards(state: BlockState, name: str, src: Any, start: int, repeat: int, stride: int, mode: int) -> None:
    """Counting down must not lead before the source."""
    if mode and start - (repeat - 1) * stride < 0:
        d.over(state, name, 1, src, (start - (repeat - 1) * stride) * 512)


def load_data(*args: Any, **kwargs: Any) -> None:
    """load_data(dst, src, LoadData2DParams | LoadData3DParamsV2): L1 (or global memory, 2D) to L0A and L0B."""
    state = d.state("load_data")
    number = _FORMS.get(type(args[2]), -1) if len(args) == 3 and not kwargs else -1
    if number >= 0 and type(args[0]) is LocalTensor is type(args[1]):
        dst, src, p = args
    else:
        number, values = d.dispatch("load_data", _LOAD, args, kwargs)
        dst, src, p = values["dst"], values["src"], values["params"]
    if number == 2:
        if isinstance(p, LoadData3DParamsV2Pro):
            _load_packed(state, dst, src, p)
            return
        state.launch.stop("kernel.not_on_chip", name=type(p).__name__, soc=state.launch.soc.name)
    if number == 1:
        _load_3d(state, dst, src, p)
        return
    start, repeat, stride, gap, transpose, mode = d.numbers(
        p.start_index, p.repeat_times, p.src_stride, p.dst_gap, p.if_transpose, p.addr_mode
    )
    if repeat == 0:
        return
    _backwards(state, "load_data", src, start, repeat, stride, mode)
    if transpose and (dst.dtype.sizeof() != 2 or isinstance(src, GlobalTensor)):
        state.launch.stop(
            "kernel.dtype",
            name="load_data with if_transpose",
            types=f"{dst.dtype}, {src.dtype}",
            legal="16-bit types, from L1 to L0A or L0B; other types with load_data_with_transpose",
            soc=state.launch.soc.name,
        )
    name, pipe = ("load_data_gm", Pipe.MTE2) if isinstance(src, GlobalTensor) else ("load_data", Pipe.MTE1)
    imm = (start, repeat, stride, gap, transpose, mode)
    d.emit_wide(state, d.row(name), (dst, src), imm, "load_data", int(pipe))


def _load_3d(state: BlockState, dst: LocalTensor, src: LocalTensor, p: LoadData3DParamsV2) -> None:
    given = (*_IMAGE(p), *p.pad_list)
    key = (given, dst.space, dst.dtype.name)
    plain = state.load_repeat == _ONCE and d.plain(given)
    known = _KNOWN.get(key) if plain else None
    if known is not None:
        state.feature_map, state.load_padding, imm = known
        d.emit_wide(state, _COLUMNS, (dst, src), imm, "load_data", int(Pipe.MTE1))
        return
    pads = d.numbers(*p.pad_list)
    if len(pads) != 4:
        raise ValueError("pad_list has four numbers: left, right, top, bottom")
    fw, fh = d.numbers(p.filter_w, p.filter_h)
    fw, fh = fw + 256 * int(bool(raw(p.filter_size_w))), fh + 256 * int(bool(raw(p.filter_size_h)))
    height, width = d.numbers(p.l1_h, p.l1_w)
    state.feature_map, state.load_padding = (pads, height, width), float(converted(p.pad_value, dst.dtype))
    body = d.numbers(p.channel_size, p.k_extension, p.m_extension, p.k_start_pt, p.m_start_pt, p.stride_w, p.stride_h)
    filters = (fw, fh, *d.numbers(p.dilation_filter_w, p.dilation_filter_h))
    made = _columns(state, dst, src, body, filters, bool(raw(p.en_transpose)))
    if plain and made and len(_KNOWN) < _MOST_KNOWN:
        _KNOWN[key] = (state.feature_map, state.load_padding, made)


def _load_packed(state: BlockState, dst: Any, src: Any, p: LoadData3DParamsV2Pro) -> None:
    """The form that takes the image from the registers."""
    if state.feature_map is None:
        raise NotImplementedError(
            "asc.load_data with LoadData3DParamsV2Pro reads the image's size from registers that pyasc sets only with "
            "LoadData3DParamsV2: give LoadData3DParamsV2 first"
        )
    size, extent, packed = d.numbers(p.channel_size, p.ext_config, p.filter_config)
    k_extension, m_extension, k_start, m_start = (extent >> shift & 0xFFFF for shift in (0, 16, 32, 48))
    sw, sh, fw, fh, dw, dh = (packed >> shift & 0xFF for shift in range(0, 48, 8))
    fw, fh = fw + 256 * int(bool(raw(p.filter_size_w))), fh + 256 * int(bool(raw(p.filter_size_h)))
    body = (size, k_extension, m_extension, k_start, m_start, sw, sh)
    _columns(state, dst, src, body, (fw, fh, dw, dh), bool(raw(p.en_transpose)))


def _columns(
    state: BlockState, dst: Any, src: Any, body: tuple[int, ...], filters: tuple[int, ...], transposed: bool
) -> tuple[int, ...]:
    """Image to columns, as often as set_load_data_repeat says, each behind the last in dst (the place is inferred).

    Gives the immediates of the last one; nothing if there was none.

    Args:
        body: channels, columns and rows to make, first column, first row, stride (w, h).
        filters: filter and dilation (w, h each).
    """
    turned = TO_RIGHT if dst.space == Space.L0B else TO_LEFT if transposed else 0
    size = dst.dtype.sizeof()
    if turned and size == 1:
        state.launch.stop(
            "kernel.dtype",
            name="load_data (image to columns, transposed)",
            types=str(dst.dtype),
            legal="16-bit and 32-bit types",
            soc=state.launch.soc.name,
        )
    assert state.feature_map is not None
    pads, height, width = state.feature_map
    channels, columns, rows, first_k, first_m, *strides = body
    imm: tuple[int, ...] = ()
    if 0 in (height, width, channels, columns, rows, *filters[:2]):
        return imm
    stride, repeats, along_k = state.load_repeat
    fill = to_bits(float(converted(state.load_padding, dst.dtype)))
    c0 = BLOCK // size
    made = up(rows, ROWS if turned != TO_RIGHT else c0) * up(columns, ROWS if turned else c0)
    for turn in range(repeats):
        k, m = first_k + turn * stride * c0 * along_k, first_m + turn * stride * ROWS * (1 - along_k)
        imm = (*pads, height, width, channels, columns, rows, k, m, *strides, *filters, turned, fill)
        to = dst[turn * made :] if turn else dst
        d.emit_wide(state, _COLUMNS, (to, src), imm, "load_data", int(Pipe.MTE1))
    return imm


def load_data_with_sparse(
    dst: LocalTensor, src: LocalTensor, idx: LocalTensor, load_data_params: LoadData2DParams
) -> None:
    """Fractals of a 4:2 sparse matrix (int8) from L1 to L0B, and those of its index (128 bytes each) beside them.

    Only start_index and repeat_times count. In the record it is two instructions. Source: the toolkit's page of
    LoadDataWithSparse.
    """
    name = "load_data_with_sparse"
    state = d.state(name)
    _sparse(state, name, (dst, src, idx), load_data_params, LoadData2DParams)
    start, repeat = d.numbers(load_data_params.start_index, load_data_params.repeat_times)
    if not repeat:
        return
    d.emit_wide(state, d.row(name), (dst, src), (start, repeat), name, int(Pipe.MTE1))
    beside = _index(dst, repeat * FRACTAL // 4)
    d.emit_wide(state, d.row("load_sparse_index"), (beside, idx), (start, repeat), name, int(Pipe.MTE1))


def _sparse(state: BlockState, name: str, tensors: tuple[Any, ...], params: Any, kind: type) -> None:
    """Has the chip sparse products, and are the arguments of their kinds?"""
    for given, wanted in (*((tensor, LocalTensor) for tensor in tensors), (params, kind)):
        if not isinstance(given, wanted):
            raise TypeError(f"{name} expects a {wanted.__name__}, got {type(given).__name__}")
    if not state.launch.soc.sparse:
        state.launch.stop("kernel.not_on_chip", name=name, soc=state.launch.soc.name)


def _index(tensor: LocalTensor, size: int) -> LocalTensor:
    """The index beside a matrix in L0B."""
    return LocalTensor._make(KnownTypes.uint8, int(Space.INDEX), tensor.offset // 4, size, 0, None)


def load_data_with_transpose(*args: Any, **kwargs: Any) -> None:
    """load_data_with_transpose(dst, src, LoadData2dTransposeParams): square blocks of L1, transposed, to L0A or L0B."""
    name = "load_data_with_transpose"
    state = d.state(name)
    number, values = d.dispatch(name, _TRANSPOSE, args, kwargs)
    dst, src, p = values["dst"], values["src"], values["params"]
    if number == 1:
        state.launch.stop("kernel.not_on_chip", name=type(p).__name__, soc=state.launch.soc.name)
    imm = d.numbers(p.start_index, p.repeat_times, p.src_stride, p.dst_gap, p.dst_frac_gap, p.addr_mode)
    if imm[1] == 0:
        return
    _backwards(state, name, src, imm[0], imm[1], imm[2], imm[5])
    d.emit_wide(state, d.row(name), (dst, src), imm, name, int(Pipe.MTE1))


def init_const_value(dst: LocalTensor, init_const_value_params: InitConstValueParams) -> None:
    """Fill blocks of L1 (32 bytes) or fractals of L0A and L0B (512 bytes) with a value."""
    state = d.state("init_const_value")
    p = init_const_value_params
    repeat, blocks, gap = d.numbers(p.repeat_times, p.block_num, p.dst_gap)
    if not repeat or not blocks:
        return
    unit = BLOCK if dst.space == Space.L1 else 512
    imm = (repeat, blocks, gap, unit, to_bits(float(converted(p.init_value, dst.dtype))))
    d.emit_wide(state, d.row("init_const_value"), (dst,), imm, "init_const_value", int(Pipe.MTE1))


def mmad(*args: Any, **kwargs: Any) -> None:
    """mmad(dst, fm, filter, params) or (dst, fm, filter, bias, params): dst (L0C) = fm (L0A) x filter (L0B).

    It starts from nothing (cmatrix_init_val), from what L0C holds, or from the bias of each column.
    """
    state = d.state("mmad")
    if len(args) == 4 and not kwargs and type(args[3]) is MmadParams and _ALL_LOCAL.issuperset(map(type, args[:3])):
        _multiply(state, "mmad", args[:3], None, args[3])
        return
    _, values = d.dispatch("mmad", _MMAD, args, kwargs)
    dst, fm, filter_, p = values["dst"], values["fm"], values["filter"], values["params"]
    _multiply(state, "mmad", (dst, fm, filter_), values.get("bias"), p)


def mmad_with_sparse(dst: LocalTensor, fm: LocalTensor, filter: LocalTensor, mmad_params: MmadParams) -> None:
    """dst (L0C, int32) = fm (L0A, int8, m x k) x the sparse matrix (k x n) that load_data_with_sparse brought.

    Of every four columns of fm each column of filter takes the two that its index names; a single row is no vector.
    Source: the toolkit's page of MmadWithSparse.
    """
    name = "mmad_with_sparse"
    state = d.state(name)
    _sparse(state, name, (dst, fm, filter), mmad_params, MmadParams)
    _multiply(state, name, (dst, fm, filter), None, mmad_params)


def _multiply(state: BlockState, name: str, three: tuple[Any, ...], bias: Any, p: MmadParams) -> None:
    """The product as its parameters reach the device; the sparse one has its index behind the operands."""
    if not p.complete():
        state.launch.warn("kernel.mmad_empty", m=raw(p.m), n=raw(p.n), k=raw(p.k))
        return
    imm = d.numbers(p.m, p.n, p.k)
    if 0 in imm:
        return
    dst, _, right = three
    row = name
    index: tuple[LocalTensor, ...] = ()
    if name == "mmad_with_sparse":
        row, index = "mmad_sparse", (_index(right, (right.size + 3) // 4),)
    fresh = not bool(raw(p.is_bias)) if p.is_bias is not None else bool(raw(p.cmatrix_init_val))
    if bias is None and not fresh and p.is_bias is None and bool(raw(p.cmatrix_source)):
        bias = LocalTensor._make(dst.dtype, int(Space.BIAS), 0, imm[1], 0, None)
    if bias is not None:
        d.emit_wide(state, d.row(row + "_bias"), (*three, bias, *index), imm, name, int(Pipe.M))
        return
    d.emit_wide(state, d.row(row if fresh else row + "_accumulate"), (*three, *index), imm, name, int(Pipe.M))


def set_load_data_boundary(boundary: Any) -> None:
    """The boundary of a load from L1; 0 is none, which is all that is emulated."""
    d.state("set_load_data_boundary")
    if int(raw(boundary)):
        raise NotImplementedError("asc.set_load_data_boundary is emulated for 0 (no boundary) only")


def set_load_data_padding_value(pad_value: Any) -> None:
    """The padding value of a load with LoadData3DParamsV2Pro; one with LoadData3DParamsV2 sets its own."""
    d.state("set_load_data_padding_value").load_padding = float(raw(pad_value))


def set_load_data_repeat(param: LoadDataRepeatParam) -> None:
    """One load of an image as columns does the work of several, from then on.

    Mode 0 goes on by stride x 16 rows, mode 1 by stride x 32 bytes of columns. pyasc 1.1.1 emits the fields in the
    order repeat_time, repeat_stride; the device reads stride, repeats.
    Source: the toolkit's page of SetLoadDataRepeat.
    """
    state = d.state("set_load_data_repeat")
    if not isinstance(param, LoadDataRepeatParam):
        raise TypeError(f"set_load_data_repeat expects a LoadDataRepeatParam, got {type(param).__name__}")
    stride, repeats, mode = d.numbers(param.repeat_time, param.repeat_stride, param.repeat_mode)
    if stride != repeats:
        state.launch.warn("kernel.load_repeat_order", stride=stride, repeats=repeats)
    if isinstance(param.repeat_stride, int):
        repeats = d.literal("LoadDataRepeatParam", "repeat_stride", repeats, 8, False)
    state.load_repeat = (stride, repeats & 0xFF, int(bool(mode)))


__getattr__ = names_of(__name__)
