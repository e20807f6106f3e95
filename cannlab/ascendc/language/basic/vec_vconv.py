"""cast and set_deq_scale. Source: pyasc 6, 7.2."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.enums import RoundMode
from cannlab.ascendc.language.core.ir_value import convert, raw
from cannlab.ascendc.language.core.types import UnaryRepeatParams, VdeqInfo
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.conversion import MODES, PAIRS
from cannlab.machine.core.floats import to_bits

_OPERANDS = (("dst", d.is_tensor), ("src", d.is_tensor), ("round_mode", d.of(RoundMode)))
_FORMS = (
    d.Form(*_OPERANDS, d.COUNTED),
    d.Form(*_OPERANDS, d.MASKED, d.REPEAT, ("repeat_params", d.of(UnaryRepeatParams)), d.SET_MASK, is_set_mask=True),
)


def cast(*args: Any, **kwargs: Any) -> None:
    """cast(dst, src, round_mode, count) or (dst, src, round_mode, mask, repeat_times, repeat_params)."""
    state = d.state("cast")
    number, values = d.dispatch("cast", _FORMS, args, kwargs)
    dst, src = tensors = (values["dst"], values["src"])
    mode = int(values["round_mode"])
    modes = PAIRS.get((src.dtype.name, dst.dtype.name))
    if modes is not None and mode not in modes:
        legal = ", ".join(f"CAST_{MODES[each]}" for each in modes)
        state.launch.stop(
            "kernel.dtype",
            name=f"cast with {values['round_mode'].name}",
            types=f"{dst.dtype}, {src.dtype}",
            legal=f"the round modes {legal} for this pair",
            soc=state.launch.soc.name,
        )
    if number == 0:
        d.emit(state, d.row("cast"), tensors, (*d.counted(values), mode))
        return
    repeats = d.literal("cast", "repeat_times", values["repeat_times"])
    form = d.masked(state, "cast", d.types(tensors), values, values["repeat_params"].strides(), repeats)
    d.emit(state, d.row("cast"), tensors, (*form, mode))


_SCALE = (
    d.Form(("scale", d.is_number)),
    d.Form(("scale", d.is_number), ("offset", d.is_int), ("sign_mode", d.is_bool)),
    d.Form(("vdeq", d.is_tensor), ("vdeq_info", d.of(VdeqInfo))),
)


def set_deq_scale(*args: Any, **kwargs: Any) -> None:
    """set_deq_scale(scale): the factor of cast int32 -> half (rounded to half), of add_deq_relu and cast_deq.

    cast_deq to bytes takes (scale, offset, sign_mode).
    """
    state = d.state("set_deq_scale")
    number, values = d.dispatch("set_deq_scale", _SCALE, args, kwargs)
    if number == 2:
        # In 1.1.1 cast_deq is always emitted without the table: it would not be read.
        raise NotImplementedError("asc.set_deq_scale with a table is not emulated: pyasc's cast_deq never reads it")
    kind = KnownTypes.float16 if number == 0 else KnownTypes.float32
    value = float(convert(float(raw(values["scale"])), kind))
    offset = 0 if number == 0 else (int(raw(values["offset"])) + 256) % 512 - 256
    state.launch.issue(d.row("set_deq_scale").number, 0, 0, (to_bits(value), offset))


_DEQ = (("dst", d.is_tensor), ("src", d.is_tensor))
_CAST_DEQ = (
    d.Form(*_DEQ, d.COUNTED),
    d.Form(*_DEQ, d.MASKED, d.REPEAT, ("repeat_params", d.of(UnaryRepeatParams)), d.SET_MASK, is_set_mask=True),
)


def cast_deq(*args: Any, **kwargs: Any) -> None:
    """cast_deq(dst, src, count) or (dst, src, mask, repeat_times, repeat_params).

    int32 to half, int16 to int8 or uint8: times the scale of set_deq_scale, plus its offset. Bytes fill the lower half
    of each block.
    """
    state = d.state("cast_deq")
    number, values = d.dispatch("cast_deq", _CAST_DEQ, args, kwargs)
    dst, src = tensors = (values["dst"], values["src"])
    byte = dst.dtype.sizeof() == 1
    row = d.row("cast_deq_byte" if byte else "cast_deq")
    if number == 0:
        d.emit(state, row, tensors, d.counted(values), "cast_deq")
        return
    repeats = d.literal("cast_deq", "repeat_times", values["repeat_times"])
    width = d.types((src,)) if byte else d.types(tensors)
    form = d.masked(state, "cast_deq", width, values, values["repeat_params"].strides(), repeats)
    d.emit(state, row, tensors, form, "cast_deq")


__getattr__ = names_of(__name__)
