"""Composite functions: each is many instructions on hardware. Source: pyasc 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.lib.placeholders import names_of

_T = d.is_tensor


def _maybe(test: d.Test) -> d.Test:
    return lambda value: value is None or test(value)


_REST = (("temp_buffer", _maybe(_T)), ("is_reuse_source", d.is_bool))
_DEFAULTS: dict[str, Any] = {"temp_buffer": None, "is_reuse_source": False}
_COUNT = ("count", _maybe(d.is_int))
_ONE = (d.Form(("dst", _T), ("src", _T), _COUNT, *_REST, count=None, **_DEFAULTS),)
_TWO = (d.Form(("dst", _T), ("src0", _T), ("src1", _T), _COUNT, *_REST, count=None, **_DEFAULTS),)
_EXP = (d.Form(("dst", _T), ("src", _T), d.COUNTED, ("taylor_expand_level", d.is_int), *_REST, **_DEFAULTS),)
_AXPY = (d.Form(("dst", _T), ("src", _T), ("scalar", d.is_number), _COUNT, *_REST, count=None, **_DEFAULTS),)


def length(values: dict[str, Any], source: Any) -> int:
    """The count, or the whole source."""
    count = values["count"]
    return int(source.size) if count is None else int(raw(count))


def _unary(name: str, forms: tuple[d.Form, ...] = _ONE) -> Callable[..., None]:
    row = d.row(f"adv_{name}")

    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        _, values = d.dispatch(name, forms, args, kwargs)
        src = values["src"]
        d.emit(state, row, (values["dst"], src), (d.COUNT, length(values, src)), f"adv.{name}")

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}(dst, src, count=None): of each element; without a count of the whole tensor."
    return operation


def _binary(name: str) -> Callable[..., None]:
    row = d.row(f"adv_{name}")

    def operation(*args: Any, **kwargs: Any) -> None:
        state = d.state(name)
        _, values = d.dispatch(name, _TWO, args, kwargs)
        tensors = (values["dst"], values["src0"], values["src1"])
        d.emit(state, row, tensors, (d.COUNT, length(values, values["src0"])), f"adv.{name}")

    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = f"{name}(dst, src0, src1, count=None)."
    return operation


acos, acosh, asin, asinh, atan, atanh = (_unary(n) for n in ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
cos, cosh, sin, sinh, tan, tanh = (_unary(n) for n in ("cos", "cosh", "sin", "sinh", "tan", "tanh"))
ceil, floor, frac, round, sign, trunc = (_unary(n) for n in ("ceil", "floor", "frac", "round", "sign", "trunc"))
digamma, erf, erfc, lgamma, log = (_unary(n) for n in ("digamma", "erf", "erfc", "lgamma", "log"))
exp = _unary("exp", _EXP)
power, xor = _binary("power"), _binary("xor")


def axpy(*args: Any, **kwargs: Any) -> None:
    """axpy(dst, src, scalar, count=None): dst += scalar * src."""
    state = d.state("axpy")
    _, values = d.dispatch("axpy", _AXPY, args, kwargs)
    dst, src = values["dst"], values["src"]
    imm = (d.COUNT, length(values, src), d.scalar_bits(values["scalar"], src))
    d.emit(state, d.row("axpy"), (dst, src), imm, "adv.axpy")


__getattr__ = names_of(__name__)
