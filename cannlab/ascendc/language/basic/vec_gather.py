"""gather, gatherb, gather_mask. Source: pyasc 6, 7.5."""

from __future__ import annotations

from typing import Any

import numpy as np

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.ir_value import PlainValue, RawHandle, raw
from cannlab.ascendc.language.core.tensor import LocalTensor
from cannlab.ascendc.language.core.types import GatherMaskParams, GatherRepeatParams
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core import gathering
from cannlab.machine.core.dtypes import CODES, pack

_OPERANDS = (("dst", d.is_tensor), ("src", d.is_tensor), ("src_offset", d.is_tensor), ("src_base", d.is_int))
_GATHER = (
    d.Form(*_OPERANDS, d.MASKED, d.REPEAT, ("dst_rep_stride", d.is_int)),
    d.Form(*_OPERANDS, d.COUNTED),
)


def gather(*args: Any, **kwargs: Any) -> None:
    """gather(dst, src, src_offset, src_base, count) or (..., mask, repeat_times, dst_rep_stride); offsets in bytes."""
    state = d.state("gather")
    number, values = d.dispatch("gather", _GATHER, args, kwargs)
    dst, src, offset = tensors = (values["dst"], values["src"], values["src_offset"])
    base = int(raw(values["src_base"]))
    if number == 1:
        form = d.counted(values)
    else:
        repeats = d.literal("gather", "repeat_times", values["repeat_times"], sign=False)
        strides = (1, 1, 1, int(raw(values["dst_rep_stride"])), 8, 8)
        form = d.masked(state, "gather", pack(CODES[dst.dtype.name]), values, strides, repeats)
    reach = offset.size if number == 0 else form[1]
    view = state.launch.peek().view((offset.space, offset.offset, min(reach, offset.size) * 4), CODES["uint32"])
    top = int(view.max()) + base + src.dtype.sizeof() if len(view) else 0
    if number == 1 and top > src.size * src.dtype.sizeof():
        d.over(state, "gather", 1, src, top)
    d.emit(state, d.row("gather"), tensors, (*form, base))


def gatherb(
    dst: LocalTensor, src0: LocalTensor, offset: LocalTensor, repeat_times: Any, repeat_params: GatherRepeatParams
) -> None:
    """Whole 32-B blocks from the byte offsets, eight per repeat."""
    state = d.state("gatherb")
    repeats = d.literal("gatherb", "repeat_times", repeat_times, sign=False)
    imm = (repeats, int(raw(repeat_params.dst_blk_stride)), int(raw(repeat_params.dst_rep_stride)))
    d.emit(state, d.row("gatherb"), (dst, src0, offset), imm)


def gather_mask(
    dst: LocalTensor,
    src0: LocalTensor,
    src1_pattern: Any,
    reduce_mode: Any,
    mask: Any,
    params: GatherMaskParams,
    gather_mask_mode: Any = None,
) -> PlainValue:
    """Pack the elements that the pattern keeps; returns how many there are (uint64).

    Raises:
        TypeError, ValueError: a pattern that does not fit the data.
    """
    state = d.state("gather_mask")
    size = dst.dtype.sizeof()
    with_tensor = isinstance(src1_pattern, LocalTensor)
    if with_tensor and src1_pattern.dtype.name != {2: "uint16", 4: "uint32"}.get(size):
        raise TypeError("the pattern must be uint16 for 16-bit and uint32 for 32-bit data")
    if not with_tensor and not 1 <= int(raw(src1_pattern)) <= 7:
        raise ValueError("a built-in pattern is 1 to 7")
    imm = (
        0 if with_tensor else int(raw(src1_pattern)),
        int(bool(raw(reduce_mode))),
        int(raw(mask)),
        int(raw(params.src0_block_stride)),
        int(raw(params.repeat_times)),
        int(raw(params.src0_repeat_stride)),
        int(raw(params.src1_repeat_stride)),
    )
    per = imm[2] if imm[1] else 256 // size
    tensors = (dst, src0, src1_pattern) if with_tensor else (dst, src0)
    wide = tuple((t.space, t.offset, t.size * t.dtype.sizeof()) for t in tensors)
    kept = gathering.kept(state.launch.peek(), d.types(tensors), imm, wide)
    blocks = -(-per * size // 32)
    reach = ((imm[4] - 1) * imm[5] + (blocks - 1) * imm[3] + 1) * 32 if imm[4] else 0
    if reach > src0.size * size:
        d.over(state, "gather_mask", 1, src0, reach)
    if len(kept) > dst.size:
        d.over(state, "gather_mask", 0, dst, len(kept) * size)
    operands = [(dst.space, dst.offset, max(len(kept), 1) * size), (src0.space, src0.offset, reach)]
    if with_tensor:
        operands.append(wide[2])
    name = "gather_mask_tensor" if with_tensor else "gather_mask"
    state.launch.issue(d.row(name).number, 1, d.types(tensors), imm, tuple(operands))
    return PlainValue(int(np.int64(len(kept))), KnownTypes.uint64)


def get_gather_mask_remain_count() -> RawHandle:
    """In 1.1.1 a bare handle: it cannot be used as a number (gather_mask itself returns the count)."""
    d.state("get_gather_mask_remain_count")
    return RawHandle()


def scatter(*args: Any, **kwargs: Any) -> None:
    """The chip does not have it, although the front end accepts it."""
    state = d.state("scatter")
    state.launch.stop("kernel.not_on_chip", name="scatter", soc=state.launch.soc.name)


__getattr__ = names_of(__name__)
