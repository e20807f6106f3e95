"""duplicate, brcb and copy. Source: pyasc 6, 7.1, 7.5."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.ir_value import PlainValue, raw
from cannlab.ascendc.language.core.tensor import LocalTensor
from cannlab.ascendc.language.core.types import BrcbRepeatParams, CopyRepeatParams
from cannlab.ascendc.lib.placeholders import names_of

_DST = ("dst", d.is_tensor)
_DUPLICATE = (
    d.Form(_DST, ("scalar", d.is_number), d.COUNTED),
    d.Form(
        _DST,
        ("scalar", d.is_number),
        d.MASKED,
        d.REPEAT,
        ("dst_block_stride", d.is_int),
        ("dst_repeat_stride", d.is_int),
        d.SET_MASK,
        is_set_mask=True,
    ),
)


def duplicate(*args: Any, **kwargs: Any) -> None:
    """duplicate(dst, scalar, count) or (dst, scalar, mask, repeat_times, dst_block_stride, dst_repeat_stride)."""
    state = d.state("duplicate")
    number, values = d.dispatch("duplicate", _DUPLICATE, args, kwargs)
    dst = values["dst"]
    extra = d.scalar_bits(values["scalar"], dst)
    if number == 0:
        d.emit(state, d.row("duplicate"), (dst,), (*d.counted(values), extra))
        return
    repeats, blk, rep = (
        d.literal("duplicate", name, values[name]) for name in ("repeat_times", "dst_block_stride", "dst_repeat_stride")
    )
    form = d.masked(state, "duplicate", d.types((dst,)), values, (blk, 1, 1, rep, 8, 8), repeats)
    d.emit(state, d.row("duplicate"), (dst,), (*form, extra))


def brcb(dst: LocalTensor, src0: LocalTensor, repeat_times: Any, repeat_params: BrcbRepeatParams) -> None:
    """Each element of src fills one 32-B block of dst, eight per repeat."""
    state = d.state("brcb")
    repeats = d.literal("brcb", "repeat_times", repeat_times, sign=False)
    imm = (repeats, int(raw(repeat_params.dst_blk_stride)), int(raw(repeat_params.dst_rep_stride)))
    d.emit(state, d.row("brcb"), (dst, src0), imm)


def copy(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Any,
    repeat_time: Any,
    repeat_params: CopyRepeatParams,
    is_set_mask: Any = True,
) -> None:
    """UB to UB with mask and repeats. The mask is a Python int or list.

    Raises:
        TypeError: a runtime mask.
    """
    state = d.state("copy")
    if isinstance(mask, PlainValue):
        raise TypeError("copy expects a compile-time mask")
    tensors = (dst, src)
    p = repeat_params
    strides = (raw(p.dst_stride), raw(p.src_stride), 1, raw(p.dst_repeat_size), raw(p.src_repeat_size), 8)
    repeats = d.literal("copy", "repeat_time", repeat_time, sign=False)
    low, high = d.mask_words(state, "copy", mask, dst.dtype.sizeof())
    # Counter mode does not apply here: the mask counts per repeat and the repeats are honoured.
    d.emit(state, d.row("copy"), tensors, (d.MASK, repeats, d.signed(low), d.signed(high), *strides))


__getattr__ = names_of(__name__)
