"""Mask registers, atomics and the state of the core. Source: pyasc 6, 7.8, 7.10."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.enums import MaskMode
from cannlab.ascendc.language.core.ir_value import PlainValue, raw
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.layout import WORD

_ADDABLE = ("float16", "float32", "int32", "int16", "int8")


def set_mask_count() -> None:
    """Counter mode: the mask is the total number of elements, repeats are ignored."""
    d.state("set_mask_count").counter = True


def set_mask_norm() -> None:
    """Normal mode: the mask counts inside each repeat."""
    d.state("set_mask_norm").counter = False


def reset_mask() -> None:
    """All elements of a repeat take part."""
    d.state("reset_mask").mask = (WORD, WORD)


def set_vector_mask(*args: Any, dtype: DataType, mode: MaskMode) -> None:
    """(mask_high, mask_low) or (length); used by operations called with is_set_mask=False."""
    state = d.state("set_vector_mask")
    numbers = [int(raw(value)) for value in args]
    if len(numbers) not in (1, 2):
        raise RuntimeError("No viable candidates were found to dispatch set_vector_mask()")
    if len(numbers) == 1 and mode is MaskMode.COUNTER:
        state.length = numbers[0]
    elif len(numbers) == 1:
        bits = (1 << numbers[0]) - 1
        state.mask = (bits & WORD, bits >> 64)
    else:
        state.mask = (numbers[1] & WORD, numbers[0] & WORD)


def init_soc_state() -> None:
    """The prologue of kernels without a TPipe: registers as after a reset."""
    state = d.state("init_soc_state")
    state.counter, state.atomic, state.mask = False, 0, (WORD, WORD)


def ascend_is_aic() -> PlainValue:
    """Is this a cube core?"""
    d.state("ascend_is_aic")
    return PlainValue(False, KnownTypes.int1)


def ascend_is_aiv() -> PlainValue:
    """Is this a vector core?"""
    d.state("ascend_is_aiv")
    return PlainValue(True, KnownTypes.int1)


def _atomic(name: str, operation: int, dtype: DataType) -> None:
    state = d.state(name)
    if not isinstance(dtype, DataType) or dtype.name not in _ADDABLE:
        raise TypeError(f"{name} takes {', '.join(_ADDABLE)}, got {dtype}")
    state.atomic = operation


def set_atomic_add(dtype: DataType) -> None:
    """Writes to global memory add to what is there, until set_atomic_none."""
    _atomic("set_atomic_add", 1, dtype)


def set_atomic_max(dtype: DataType) -> None:
    """Writes to global memory keep the larger value."""
    _atomic("set_atomic_max", 2, dtype)


def set_atomic_min(dtype: DataType) -> None:
    """Writes to global memory keep the smaller value."""
    _atomic("set_atomic_min", 3, dtype)


def set_atomic_none() -> None:
    """Writes to global memory replace what is there."""
    d.state("set_atomic_none").atomic = 0


__getattr__ = names_of(__name__)
