"""rmsnorm. Source: pyasc 8."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.adv.activation import maybe_tensor
from cannlab.ascendc.language.adv.tiling import RmsNormTiling
from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.floats import to_bits
from cannlab.machine.core.pipes import BLOCK

_FORMS = (
    d.Form(
        ("dst", d.is_tensor),
        ("src", d.is_tensor),
        ("gamma", d.is_tensor),
        ("epsilon", d.is_number),
        ("tiling", d.of(RmsNormTiling)),
        ("temp_buffer", maybe_tensor),
        ("basic_block", d.is_bool),
        temp_buffer=None,
        basic_block=False,
    ),
)


def rmsnorm(*args: Any, **kwargs: Any) -> None:
    """rmsnorm(dst, src, gamma, epsilon, tiling): x / sqrt(mean(x * x) + epsilon) * gamma of each of b x s rows.

    A row has h_length elements, a multiple of 32 bytes, of which original_h_length count (0: all). The mean's factor
    is the tiling's reciprocal_of_h_length, or 1 / original_h_length where that is 0.

    Raises:
        ValueError: a tiling without a shape, or rows that are no multiples of 32 bytes.
    """
    state = d.state("rmsnorm")
    _, values = d.dispatch("rmsnorm", _FORMS, args, kwargs)
    if state.launch.probing:
        return
    tiling, src = values["tiling"], values["src"]
    rows = int(raw(tiling.b_length)) * int(raw(tiling.s_length))
    whole = int(raw(tiling.h_length))
    count = int(raw(tiling.original_h_length)) or whole
    if rows <= 0 or whole <= 0 or count > whole:
        raise ValueError(f"rmsnorm: a tiling of {rows} rows of {whole} elements, of which {count} count")
    if whole * src.dtype.sizeof() % BLOCK:
        raise ValueError(f"rmsnorm: a row of {whole} elements is no multiple of 32 bytes: pad it (original_h_length)")
    factor = float(raw(tiling.reciprocal_of_h_length)) or 1 / count
    epsilon = d.scalar_bits(values["epsilon"], src)
    tensors = (values["dst"], src, values["gamma"])
    d.emit(state, d.row("rmsnorm"), tensors, (rows, whole, count, epsilon, to_bits(factor)), "adv.rmsnorm")


__getattr__ = names_of(__name__)
