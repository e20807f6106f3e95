"""Reductions. Source: pyasc 6, 7.3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.enums import ReduceOrder
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.dtypes import CODES, pack

_TWO = (("dst", d.is_tensor), ("src", d.is_tensor))
_STRIDES = (("dst_rep_stride", d.is_int), ("src_blk_stride", d.is_int), ("src_rep_stride", d.is_int))
_WHOLE_SUM = (d.Form(*_TWO, d.MASKED, ("repeat_time", d.is_int), *_STRIDES, d.SET_MASK, is_set_mask=True),)
_WHOLE = (
    d.Form(
        *_TWO,
        d.MASKED,
        ("repeat_time", d.is_int),
        *_STRIDES,
        ("order", d.of(ReduceOrder)),
        order=ReduceOrder.ORDER_VALUE_INDEX,
    ),
)
_BLOCK = (d.Form(*_TWO, ("repeat", d.is_int), d.MASKED, *_STRIDES),)
_PAIR = (d.Form(*_TWO, ("repeat_time", d.is_int), d.MASKED, *_STRIDES, d.SET_MASK, is_set_mask=True),)
_REPEAT = (
    d.Form(
        *_TWO,
        ("repeat_time", d.is_int),
        d.MASKED,
        ("dst_blk_stride", d.is_int),
        ("src_blk_stride", d.is_int),
        ("dst_rep_stride", d.is_int),
        ("src_rep_stride", d.is_int),
        d.SET_MASK,
        is_set_mask=True,
    ),
)
_THREE = (("dst", d.is_tensor), ("src", d.is_tensor), ("shared_tmp_buffer", d.is_tensor))
_INDEX = ("cal_index", d.is_bool)
_SUM = (
    d.Form(*_THREE, d.MASKED, ("repeat_time", d.is_int), ("src_rep_stride", d.is_int)),
    d.Form(*_THREE, d.COUNTED),
)
_EXTREME = (
    d.Form(*_THREE, d.MASKED, ("repeat_time", d.is_int), ("src_rep_stride", d.is_int), _INDEX, cal_index=False),
    d.Form(*_THREE, d.COUNTED, _INDEX, cal_index=False),
)


def _per_repeat(name: str, forms: tuple[d.Form, ...], row_name: str | None = None) -> Callable[..., None]:
    row = d.row(row_name or name)

    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        _, values = d.dispatch(name, forms, args, kwargs)
        tensors = (values["dst"], values["src"])
        src = tensors[1]
        key = "repeat" if "repeat" in values else "repeat_time"
        repeats = d.literal(name, key, values[key])
        strides = (
            0,
            int(raw(values["src_blk_stride"])),
            0,
            int(raw(values["dst_rep_stride"])),
            int(raw(values["src_rep_stride"])),
            0,
        )
        order = values.get("order", ReduceOrder.ORDER_ONLY_VALUE)
        source = pack(CODES[src.dtype.name])
        form = d.masked(state, name, source, values, strides, repeats)
        dtype = d.types(tensors)
        if order is ReduceOrder.ORDER_ONLY_INDEX:
            # The index is a uint32 whatever the destination's type is called.
            dtype = pack(CODES["uint32"], CODES[src.dtype.name])
        if repeats:
            d.emit(state, row, tensors, (*form, int(order)), name, dtype)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}{forms[0].text()}."
    return operation


def _total(name: str, forms: tuple[d.Form, ...]) -> Callable[..., None]:
    row = d.row(name)

    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        _, values = d.dispatch(name, forms, args, kwargs)
        tensors = (values["dst"], values["src"])
        src = tensors[1]
        index = int(bool(raw(values.get("cal_index", False))))
        if "count" in values:
            form = d.counted(values)
        else:
            repeats = d.literal(name, "repeat_time", values["repeat_time"])
            strides = (0, 1, 0, 0, int(raw(values["src_rep_stride"])), 0)
            form = d.masked(state, name, pack(CODES[src.dtype.name]), values, strides, repeats)
        if form[1]:
            d.emit(state, row, tensors, (*form, index), name)

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}(dst, src, shared_tmp_buffer, count) or (..., mask, repeat_time, src_rep_stride)."
    return operation


whole_reduce_sum = _per_repeat("whole_reduce_sum", _WHOLE_SUM)
whole_reduce_max = _per_repeat("whole_reduce_max", _WHOLE)
whole_reduce_min = _per_repeat("whole_reduce_min", _WHOLE)
block_reduce_sum = _per_repeat("block_reduce_sum", _BLOCK)
block_reduce_max = _per_repeat("block_reduce_max", _BLOCK)
block_reduce_min = _per_repeat("block_reduce_min", _BLOCK)
pair_reduce_sum = _per_repeat("pair_reduce_sum", _PAIR)
repeat_reduce_sum = _per_repeat("repeat_reduce_sum", _REPEAT, "whole_reduce_sum")
reduce_sum = _total("reduce_sum", _SUM)
reduce_max = _total("reduce_max", _EXTREME)
reduce_min = _total("reduce_min", _EXTREME)


__getattr__ = names_of(__name__)
