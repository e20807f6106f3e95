"""cast and set_deq_scale. Source: pyasc 6, 7.2."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.enums import RoundMode
from cannlab.ascendc.language.core.ir_value import convert, raw
from cannlab.ascendc.language.core.types import UnaryRepeatParams
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


def set_deq_scale(*args: Any, **kwargs: Any) -> None:
    """set_deq_scale(scale): the factor of cast int32 -> half (rounded to half)."""
    state = d.state("set_deq_scale")
    if len(args) + len(kwargs) != 1:
        raise NotImplementedError("asc.set_deq_scale with offset or a table is not emulated yet: give one scale")
    scale = args[0] if args else kwargs["scale"]
    value = float(convert(float(raw(scale)), KnownTypes.float16))
    state.launch.issue(d.row("set_deq_scale").number, 0, 0, (to_bits(value),))


__getattr__ = names_of(__name__)
