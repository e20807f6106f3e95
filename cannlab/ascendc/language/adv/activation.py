"""softmax. Source: pyasc 8."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.adv.tiling import SoftmaxTiling
from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.language.core.tensor import LocalTensor
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import BLOCK


def maybe_tensor(value: Any) -> bool:
    """A LocalTensor, or none."""
    return value is None or d.is_tensor(value)


_FORMS = (
    d.Form(
        ("dst", d.is_tensor),
        ("sum", d.is_tensor),
        ("max", d.is_tensor),
        ("src", d.is_tensor),
        ("tiling", d.of(SoftmaxTiling)),
        ("temp_buffer", maybe_tensor),
        ("reuse_source", d.is_bool),
        ("basic_block", d.is_bool),
        ("data_format_nz", d.is_bool),
        temp_buffer=None,
        reuse_source=False,
        basic_block=False,
        data_format_nz=False,
    ),
)


def _extents(src: LocalTensor, tiling: SoftmaxTiling) -> tuple[int, int, int]:
    """Rows, elements of a row, elements that count: of the shape attached to the source, else of the tiling."""
    shape = src.get_shape_info()
    if len(shape):
        last = len(shape) - 1
        sizes = [int(raw(shape.shape(dim))) for dim in range(len(shape))]
        rows = 1
        for size in sizes[:-1]:
            rows *= size
        return rows, sizes[-1], int(raw(shape.original_shape(last)))
    rows, columns = int(raw(tiling.src_m)), int(raw(tiling.src_k))
    return rows, columns, columns


def softmax(*args: Any, **kwargs: Any) -> None:
    """softmax(dst, sum, max, src, tiling): of each row; sum and max hold 32 bytes of equal values for each.

    The shape is what ``src.set_shape_info`` said, else the tiling's src_m and src_k; a row is a multiple of 32 bytes.
    reuse_source and basic_block are hints.

    Raises:
        NotImplementedError: data_format_nz=True. ValueError: no shape, or rows that are no multiples of 32 bytes.
    """
    state = d.state("softmax")
    _, values = d.dispatch("softmax", _FORMS, args, kwargs)
    if bool(raw(values["data_format_nz"])):
        raise NotImplementedError("asc.adv.softmax with data_format_nz=True is not emulated yet: give rows (ND)")
    if state.launch.probing:
        return
    src = values["src"]
    rows, columns, count = _extents(src, values["tiling"])
    if min(rows, columns, count) <= 0:
        raise ValueError("softmax: no shape: call src.set_shape_info, or fill the tiling's src_m and src_k")
    if columns * src.dtype.sizeof() % BLOCK:
        raise ValueError(
            f"softmax: a row of {columns} elements is no multiple of 32 bytes: pad it, with original_shape"
        )
    tensors = tuple(values[name] for name in ("dst", "sum", "max", "src"))
    d.emit(state, d.row("softmax"), tensors, (rows, columns, count), "adv.softmax")


__getattr__ = names_of(__name__)
