"""Vector operations with one source. Source: pyasc 6, 7.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.types import UnaryRepeatParams
from cannlab.ascendc.lib.placeholders import names_of

_TENSORS = (("dst", d.is_tensor), ("src", d.is_tensor))
FORMS = (
    d.Form(*_TENSORS, d.COUNTED),
    d.Form(*_TENSORS, d.MASKED, d.REPEAT, ("repeat_params", d.of(UnaryRepeatParams)), d.SET_MASK, is_set_mask=True),
)


def _make(name: str) -> Callable[..., None]:
    row = d.row(name)

    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        count = d.quick_count(args, kwargs, 2)
        if count is not None:
            d.emit(state, row, args[:2], (d.COUNT, count))
            return
        number, values = d.dispatch(name, FORMS, args, kwargs)
        tensors = (values["dst"], values["src"])
        if number == 0:
            d.emit(state, row, tensors, d.counted(values))
            return
        repeats = d.literal(name, "repeat_times", values["repeat_times"])
        strides = values["repeat_params"].strides()
        d.emit(state, row, tensors, d.masked(state, name, d.types(tensors), values, strides, repeats))

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}(dst, src, count) or (dst, src, mask, repeat_times, repeat_params)."
    return operation


abs, exp, ln, sqrt = (_make(name) for name in ("abs", "exp", "ln", "sqrt"))
reciprocal, rsqrt, relu, bitwise_not = (_make(name) for name in ("reciprocal", "rsqrt", "relu", "bitwise_not"))


__getattr__ = names_of(__name__)
