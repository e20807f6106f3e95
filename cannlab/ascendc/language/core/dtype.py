"""DataType and its constants. Source: pyasc 5."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cannlab.ascendc.lib.placeholders import names_of

_BITS = {
    "void": 0,
    "bit": 1,
    "int1": 1,
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint8": 8,
    "uint16": 16,
    "uint32": 32,
    "uint64": 64,
    "float16": 16,
    "float32": 32,
    "float64": 64,
}
_ALIASES = {
    "half": "float16",
    "float_": "float32",
    "float": "float32",
    "double": "float64",
    "bool_": "int8",
    "int_": "int32",
}


class DataType:
    """An element type. Equal by name, and not hashable, as in pyasc.

    Raises:
        ValueError: a name that pyasc does not have ("Unsupported DataType name").
    """

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        name = _ALIASES.get(name, name)
        if name not in _BITS:
            raise ValueError(f"Unsupported DataType name: {name}")
        self.name = name
        self.bitwidth = _BITS[name]
        self._int = name.startswith(("int", "uint"))
        self._signed, self._unsigned = name.startswith("int"), name.startswith("uint")
        self._float = name.startswith("float")
        self._bytes = (self.bitwidth + 7) // 8

    def sizeof(self) -> int:
        """Bytes of an element."""
        return self._bytes

    def is_int(self) -> bool:
        """True for an integer type."""
        return self._int

    def is_signed(self) -> bool:
        """True for a signed integer type."""
        return self._signed

    def is_unsigned(self) -> bool:
        """True for an unsigned integer type."""
        return self._unsigned

    def is_float(self) -> bool:
        """True for a floating-point type."""
        return self._float

    def is_numeric(self) -> bool:
        """True for a number type."""
        return self._int or self.is_float()

    def is_void(self) -> bool:
        """True for void."""
        return self.name == "void"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataType) and other.name == self.name

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


def numpy_type(dtype: DataType) -> np.dtype[Any]:
    """The numpy type of an element type."""
    return np.dtype("bool" if dtype.name in ("int1", "bit") else dtype.name)


class KnownTypes:
    """The type constants."""

    void = DataType("void")
    int1 = DataType("int1")
    bit = DataType("bit")
    int8 = DataType("int8")
    int16 = DataType("int16")
    int32 = DataType("int32")
    int64 = DataType("int64")
    uint8 = DataType("uint8")
    uint16 = DataType("uint16")
    uint32 = DataType("uint32")
    uint64 = DataType("uint64")
    float16 = DataType("float16")
    float32 = DataType("float32")
    float64 = DataType("float64")
    bool_ = int8
    int_ = int32
    half = float16
    float_ = float32
    double = float64


__getattr__ = names_of(__name__)
