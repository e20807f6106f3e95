"""asc.number and asc.inline."""

from __future__ import annotations

from typing import Any, NoReturn

from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.ir_value import PlainValue, materialize_ir_value
from cannlab.ascendc.lib.placeholders import names_of


def number(value: Any, dtype: DataType) -> PlainValue:
    """A runtime scalar of a type: what a loop may change."""
    return materialize_ir_value(value, dtype)


def inline(code: str, args: Any = None, before_function: bool = False) -> NoReturn:
    """Pastes C++ text on hardware.

    Raises:
        NotImplementedError: always; there is no C++ compiler behind the emulation of pyasc.
    """
    raise NotImplementedError("asc.inline is not emulated: C++ text cannot run here; use the operations of asc instead")


__getattr__ = names_of(__name__)
