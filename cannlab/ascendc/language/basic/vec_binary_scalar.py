"""Vector operations with a tensor and a scalar. The scalar takes the tensor's type. Source: pyasc 6, 7.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.types import UnaryRepeatParams
from cannlab.ascendc.lib.placeholders import names_of

_OPERANDS = (("dst", d.is_tensor), ("src", d.is_tensor), ("scalar", d.is_number))
_PARAMS = ("repeat_params", d.of(UnaryRepeatParams))
_FORMS = (
    d.Form(*_OPERANDS, d.COUNTED, d.SET_MASK, is_set_mask=True),
    d.Form(*_OPERANDS, d.MASKED, d.REPEAT, _PARAMS, d.SET_MASK, is_set_mask=True),
)
_AXPY = (
    d.Form(*_OPERANDS, d.MASKED, d.REPEAT, _PARAMS, d.SET_MASK, is_set_mask=True),
    d.Form(*_OPERANDS, d.COUNTED),
)


def make(name: str, forms: tuple[d.Form, ...] = _FORMS) -> Callable[..., None]:
    """The function of an operation of this family."""
    row = d.row(name)

    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        _, values = d.dispatch(name, forms, args, kwargs)
        tensors = (values["dst"], values["src"])
        extra = d.scalar_bits(values["scalar"], tensors[1])
        if "count" in values:
            d.emit(state, row, tensors, (*d.counted(values), extra))
            return
        repeats = d.literal(name, "repeat_times", values["repeat_times"])
        strides = values["repeat_params"].strides()
        form = d.masked(state, name, d.types(tensors), values, strides, repeats)
        d.emit(state, row, tensors, (*form, extra))

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}(dst, src, scalar, count) or (dst, src, scalar, mask, repeat_times, repeat_params)."
    return operation


adds, muls, maxs, mins = (make(name) for name in ("adds", "muls", "maxs", "mins"))
leaky_relu, shift_left, shift_right = (make(name) for name in ("leaky_relu", "shift_left", "shift_right"))
axpy = make("axpy", _AXPY)


__getattr__ = names_of(__name__)
