"""The scalar unit's own operations: they work on runtime numbers and leave nothing in the record. Source: pyasc 7.2."""

from __future__ import annotations

from typing import Any

import numpy as np

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.enums import RoundMode
from cannlab.ascendc.language.core.ir_value import PlainValue, raw
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.conversion import to_float, to_integer

_WORD = (1 << 64) - 1
_MODES = {
    "int32": (RoundMode.CAST_RINT, RoundMode.CAST_FLOOR, RoundMode.CAST_CEIL, RoundMode.CAST_ROUND),
    "float16": (RoundMode.CAST_ODD,),
}


def scalar_cast(value_in: Any, dtype: DataType, round_mode: RoundMode) -> PlainValue:
    """A float to int32 (ROUND, CEIL, FLOOR, RINT) or to half (ODD)."""
    state = d.state("scalar_cast")
    if round_mode not in _MODES.get(dtype.name, ()):
        state.launch.stop(
            "kernel.dtype",
            name=f"scalar_cast with {round_mode.name}",
            types=f"{dtype}, float32",
            legal="int32 with RINT, FLOOR, CEIL, ROUND; float16 with ODD",
            soc=state.launch.soc.name,
        )
    value = np.array([raw(value_in)], dtype=np.float32)
    convert = to_integer if dtype.name == "int32" else to_float
    return PlainValue(convert(value, np.dtype(dtype.name), int(round_mode))[0].item(), dtype)


def _bits(value: Any) -> str:
    """64 bits, lowest first."""
    return f"{int(raw(value)) & _WORD:064b}"[::-1]


def scalar_get_sff_value(value_in: Any, count_value: Any) -> PlainValue:
    """Place of the first bit, from the lowest on, that is 0 or 1 (count_value); -1 without one (int64)."""
    d.state("scalar_get_sff_value")
    return PlainValue(_bits(value_in).find(str(int(raw(count_value)))), KnownTypes.int64)


def scalar_get_count_of_value(value_in: Any, count_value: Any) -> PlainValue:
    """How many of the 64 bits are 0 or 1 (count_value) (int64)."""
    d.state("scalar_get_count_of_value")
    return PlainValue(_bits(value_in).count(str(int(raw(count_value)))), KnownTypes.int64)


def scalar_count_leading_zero(value_in: Any) -> PlainValue:
    """Zeros above the highest 1 of 64 bits (int64)."""
    d.state("scalar_count_leading_zero")
    return PlainValue(64 - (int(raw(value_in)) & _WORD).bit_length(), KnownTypes.int64)


def count_bits_cnt_same_as_sign_bit(value_in: Any) -> PlainValue:
    """Bits after the sign bit that are like it; -1 for 0 and -1 (int64)."""
    d.state("count_bits_cnt_same_as_sign_bit")
    word = int(raw(value_in)) & _WORD
    if word in (0, _WORD):
        return PlainValue(-1, KnownTypes.int64)
    text = f"{word:064b}"
    return PlainValue(len(text) - len(text.lstrip(text[0])) - 1, KnownTypes.int64)


__getattr__ = names_of(__name__)
