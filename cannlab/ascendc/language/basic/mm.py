"""Loads of the cube's buffers and mmad. Source: pyasc 5, 6, 7.9."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.builder import BlockState
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
    MmadParams,
)
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.floats import to_bits
from cannlab.machine.core.pipes import BLOCK, Pipe, Space

_LOCAL = (("dst", d.is_tensor), ("src", d.is_tensor))
_ANY = (("dst", d.is_tensor), ("src", d.of(BaseTensor)))
_LOAD = (
    d.Form(*_ANY, ("params", d.of(LoadData2DParams))),
    d.Form(*_LOCAL, ("params", d.of(LoadData3DParamsV2))),
    d.Form(*_ANY, ("params", d.of(LoadData2DParamsV2, LoadData3DParamsV1, LoadData3DParamsV2Pro))),
)
_TRANSPOSE = (
    d.Form(*_LOCAL, ("params", d.of(LoadData2dTransposeParams))),
    d.Form(*_LOCAL, ("params", d.of(LoadData2dTransposeParamsV2))),
)
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
    number, values = d.dispatch("load_data", _LOAD, args, kwargs)
    dst, src, p = values["dst"], values["src"], values["params"]
    if number == 2:
        if isinstance(p, LoadData3DParamsV2Pro):
            raise NotImplementedError(
                "asc.load_data with LoadData3DParamsV2Pro is not emulated: give LoadData3DParamsV2"
            )
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
    pads = [d.numbers(value)[0] for value in p.pad_list]
    if len(pads) != 4:
        raise ValueError("pad_list has four numbers: left, right, top, bottom")
    fw, fh = d.numbers(p.filter_w, p.filter_h)
    fw, fh = fw + 256 * int(bool(raw(p.filter_size_w))), fh + 256 * int(bool(raw(p.filter_size_h)))
    right = int(dst.space == Space.L0B)
    size = dst.dtype.sizeof()
    if right and size == 1:
        state.launch.stop(
            "kernel.dtype",
            name="load_data (image to columns) to L0B",
            types=str(dst.dtype),
            legal="16-bit and 32-bit types",
            soc=state.launch.soc.name,
        )
    body = d.numbers(
        p.l1_h, p.l1_w, p.channel_size, p.k_extension, p.m_extension, p.k_start_pt, p.m_start_pt, p.stride_w, p.stride_h
    )
    if not body[3] or not body[4]:
        return
    fill = to_bits(float(converted(p.pad_value, dst.dtype)))
    dilation = d.numbers(p.dilation_filter_w, p.dilation_filter_h)
    imm = (*pads, *body, fw, fh, *dilation, right, fill)
    d.emit_wide(state, d.row("load_data_3d"), (dst, src), imm, "load_data", int(Pipe.MTE1))


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
    number, values = d.dispatch("mmad", _MMAD, args, kwargs)
    dst, fm, filter_, p = values["dst"], values["fm"], values["filter"], values["params"]
    if not p.complete():
        state.launch.warn("kernel.mmad_empty", m=raw(p.m), n=raw(p.n), k=raw(p.k))
        return
    imm = d.numbers(p.m, p.n, p.k)
    if 0 in imm:
        return
    three = (dst, fm, filter_)
    if number == 1:
        d.emit_wide(state, d.row("mmad_bias"), (*three, values["bias"]), imm, "mmad", int(Pipe.M))
        return
    fresh = not bool(raw(p.is_bias)) if p.is_bias is not None else bool(raw(p.cmatrix_init_val))
    if not fresh and p.is_bias is None and bool(raw(p.cmatrix_source)):
        bias = LocalTensor._make(dst.dtype, int(Space.BIAS), 0, imm[1], 0, None)
        d.emit_wide(state, d.row("mmad_bias"), (*three, bias), imm, "mmad", int(Pipe.M))
        return
    d.emit_wide(state, d.row("mmad" if fresh else "mmad_accumulate"), three, imm, "mmad", int(Pipe.M))


def set_load_data_boundary(boundary: Any) -> None:
    """The boundary of a load from L1; 0 is none, which is all that is emulated."""
    d.state("set_load_data_boundary")
    if int(raw(boundary)):
        raise NotImplementedError("asc.set_load_data_boundary is emulated for 0 (no boundary) only")


__getattr__ = names_of(__name__)
