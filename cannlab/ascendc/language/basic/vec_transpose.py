"""transpose and trans_data_to_5hd. Source: pyasc 6, 7.6."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.builder import BlockState
from cannlab.ascendc.language.core.enums import TransposeType
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.language.core.tensor import LocalTensor
from cannlab.ascendc.language.core.types import TransDataTo5HDParams, TransposeParamsExt
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.access import extents
from cannlab.machine.core.dtypes import CODES, pack
from cannlab.machine.core.pipes import Pipe, Space
from cannlab.machine.core.transposing import LINES, NCHW2NHWC, NHWC2NCHW, SQUARE

_TWO = (("dst", d.is_tensor), ("src", d.is_tensor))
_TRANSPOSE = (
    d.Form(*_TWO),
    d.Form(*_TWO, ("shared_tmp_buffer", d.is_tensor), ("params", d.of(TransposeParamsExt))),
)
_PLAIN = ("int16", "uint16", "float16")


def transpose(*args: Any, **kwargs: Any) -> None:
    """transpose(dst, src): 16 x 16 of 16 bits; or (dst, src, shared_tmp_buffer, TransposeParamsExt): NCHW and NHWC."""
    state = d.state("transpose")
    number, values = d.dispatch("transpose", _TRANSPOSE, args, kwargs)
    dst, src = values["dst"], values["src"]
    if dst.dtype != src.dtype:
        raise TypeError("Dst and src must be same type.")
    if number == 0:
        if src.dtype.name not in _PLAIN:
            raise TypeError(f"Invalid data type for transpose: {src.dtype}; it takes {', '.join(_PLAIN)}.")
        d.emit_wide(state, d.row("transpose"), (dst, src), (SQUARE, 1, 1, 16, 16), "transpose", int(Pipe.V))
        return
    p, tmp = values["params"], values["shared_tmp_buffer"]
    if tmp.dtype.name != "uint8":
        raise TypeError("shared_tmp_buffer must be uint8.")
    n, c, h, w = d.numbers(p.n_size, p.c_size, p.h_size, p.w_size)
    if p.transpose_type == TransposeType.TRANSPOSE_ND2ND_B16:
        d.emit_wide(state, d.row("transpose"), (dst, src), (SQUARE, 1, 1, 16, 16), "transpose", int(Pipe.V))
        return
    kind = int(p.transpose_type)
    if kind not in (NCHW2NHWC, NHWC2NCHW):
        name = TransposeType(kind).name
        state.launch.stop("kernel.not_on_chip", name=f"transpose with {name}", soc=state.launch.soc.name)
    if h * w * src.dtype.sizeof() % 32 or h * w > 4095 or c > 4095:
        state.launch.stop("kernel.transpose_size", n=n, c=c, h=h, w=w, size=src.dtype.sizeof())
    if n * c * h * w:
        d.emit_wide(state, d.row("transpose_ext"), (dst, src, tmp), (kind, n, c, h, w), "transpose", int(Pipe.V))


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == LINES


_LISTS = (
    d.Form(("dst_list", _is_list), ("src_list", _is_list), ("params", d.of(TransDataTo5HDParams))),
    d.Form(("dst", d.is_tensor), ("src", d.is_tensor), ("params", d.of(TransDataTo5HDParams))),
)


def _lines(state: BlockState, given: Any) -> tuple[list[tuple[int, int, int]], Any]:
    """(space, offset, bytes to the end) of 16 lines, and their type."""
    if isinstance(given, LocalTensor):
        if given.dtype.name != "uint64":
            raise TypeError("a LocalTensor of addresses must be uint64.")
        given = [given.get_value(place) for place in range(LINES)]
    found, dtype = [], None
    for each in given:
        if isinstance(each, LocalTensor):
            found.append((each.space, each.offset, each.size * each.dtype.sizeof()))
            dtype = each.dtype
        elif isinstance(each, PlainValue):
            address = int(each.value)
            dtype = state.addresses.get(address, dtype)
            found.append((int(Space.UB), address, state.launch.soc.ub_bytes - address))
        else:
            raise RuntimeError("No viable candidates were found to dispatch trans_data_to_5hd()")
    if dtype is None:
        raise RuntimeError("could not infer element type from addr tensor")
    return found, dtype


def trans_data_to_5hd(*args: Any, **kwargs: Any) -> None:
    """trans_data_to_5hd(dst_list, src_list, params): 16 lines of a block each, transposed; lists of 16 tensors, of 16
    addresses, or two uint64 tensors of addresses."""
    name = "trans_data_to_5hd"
    state = d.state(name)
    number, values = d.dispatch(name, _LISTS, args, kwargs)
    first, second = ("dst_list", "src_list") if number == 0 else ("dst", "src")
    if state.launch.probing and number == 1:
        return
    targets, dtype = _lines(state, values[first])
    sources, other = _lines(state, values[second])
    if dtype != other:
        raise TypeError("Dst and src must be same type.")
    p = values["params"]
    imm = d.numbers(p.repeat_times, p.dst_rep_stride, p.src_rep_stride, bool_(p.dst_high_half), bool_(p.src_high_half))
    if not imm[0]:
        return
    row, packed = d.row(name), pack(CODES[dtype.name])
    operands = []
    for place, ((space, offset, have), size) in enumerate(
        zip([*targets, *sources], extents(row.number, packed, imm), strict=True)
    ):
        assert size is not None
        if size > have:
            over = LocalTensor._make(dtype, space, offset, have // dtype.sizeof(), 0, None)
            d.over(state, name, place, over, size)
        operands.append((space, offset, size))
    state.launch.issue(row.number, int(Pipe.V), packed, imm, tuple(operands))


def bool_(value: Any) -> int:
    """A flag as 0 or 1."""
    return int(bool(d.numbers(value)[0]))


__getattr__ = names_of(__name__)
