"""quant. Source: pyasc 8."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.floats import to_bits


def _anything(value: Any) -> bool:
    return True


_FORMS = (
    d.Form(
        ("dst", d.is_tensor),
        ("src", d.is_tensor),
        ("scale", d.is_number),
        ("offset", d.is_number),
        d.COUNTED,
        ("temp_buffer", _anything),
        ("reuse_source", d.is_bool),
        ("config", _anything),
        temp_buffer=None,
        reuse_source=False,
        config=None,
    ),
)
"""The count has a default in the signature, but a call without it fails to bind in 1.1.1."""


def quant(*args: Any, **kwargs: Any) -> None:
    """quant(dst, src, scale, offset, count): int8(rint(half(src) * scale + offset)), saturating."""
    state = d.state("quant")
    _, values = d.dispatch("quant", _FORMS, args, kwargs)
    scale, offset = (to_bits(float(raw(values[name]))) for name in ("scale", "offset"))
    imm = (*d.counted(values), scale, offset)
    d.emit(state, d.row("quant"), (values["dst"], values["src"]), imm, "adv.quant")


__getattr__ = names_of(__name__)
