"""concat and extract, around asc.sort. Source: pyasc 7.7."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.language.core.tensor import LocalTensor
from cannlab.ascendc.lib.placeholders import names_of

_T = d.is_tensor
_EXTRACT = (d.Form(("dst_value", _T), ("dst_index", _T), ("src", _T), ("repeat_time", d.is_int)),)


def concat(dst: LocalTensor, src: LocalTensor, tmp: LocalTensor, repeat_time: Any) -> None:
    """On this chip the result is the source itself: dst becomes another name of it."""
    d.state("concat")
    if not isinstance(dst, LocalTensor) or not isinstance(src, LocalTensor):
        d.dispatch("concat", (), (dst, src, tmp, repeat_time), {})
    dst.dtype, dst.space, dst.offset, dst.size = src.dtype, src.space, src.offset, src.size
    dst.position, dst.buffer = src.position, src.buffer


def extract(*args: Any, **kwargs: Any) -> None:
    """extract(dst_value, dst_index, src, repeat_time): structures apart into values and indices, 32 a repeat."""
    state = d.state("extract")
    _, values = d.dispatch("extract", _EXTRACT, args, kwargs)
    tensors = (values["dst_value"], values["dst_index"], values["src"])
    d.emit(state, d.row("extract"), tensors, (int(raw(values["repeat_time"])),), "adv.extract")


__getattr__ = names_of(__name__)
