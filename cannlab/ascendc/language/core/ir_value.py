"""Runtime scalars with the arithmetic of C, and addresses in global memory. Source: pyasc 4.1, 4.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cannlab.ascendc.language.core.dtype import DataType, KnownTypes, numpy_type
from cannlab.ascendc.lib.placeholders import names_of

Number = bool | int | float
_INT32, _INT1, _HALF = KnownTypes.int32, KnownTypes.int1, 1 << 31


def _wrap(value: int, dtype: DataType) -> int:
    bits = dtype.bitwidth
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.is_signed() and value >> (bits - 1) else value


def convert(value: Number, dtype: DataType) -> Number:
    """A Python number as a value of a type: integers wrap, floats are rounded, a float becomes an int by truncation."""
    if dtype is _INT32 and type(value) is int and -_HALF <= value < _HALF:
        return value
    if dtype.name in ("int1", "bit"):
        return bool(value)
    if dtype.is_int():
        if isinstance(value, float):
            value = int(value) if np.isfinite(value) else 0
        value = int(value)
        half = 1 << (dtype.bitwidth - 1)
        if dtype.is_signed() and -half <= value < half:
            return value
        return _wrap(value, dtype)
    if dtype.name == "float64":
        return float(value)
    with np.errstate(over="ignore"):
        return float(numpy_type(dtype).type(value))


def default_type(value: Number) -> DataType:
    """Type of a Python number at run time: int32, float32, int1 for a bool."""
    if isinstance(value, bool):
        return KnownTypes.int1
    return KnownTypes.int32 if isinstance(value, int) else KnownTypes.float32


def castable(source: DataType, target: DataType) -> None:
    """Does the compiler convert a runtime value of one type to the other? Floats among themselves, integers except
    between two unsigned types, an integer to the float of its width, half to int16, the other floats to int32.

    Raises:
        NotImplementedError, PassesFailed: as the front end and its verifier do. Measured on pyasc 1.1.1.
    """
    if source.is_float() != target.is_float() and source.name != target.name:
        if source.is_float():
            fits = target.bitwidth == (16 if source.name == "float16" else 32) and target.is_int()
            unsigned = target.is_unsigned()
        else:
            fits, unsigned = source.bitwidth == target.bitwidth, source.is_unsigned()
        if not fits and not (source.is_float() and target.name in ("int1", "bit")):
            raise NotImplementedError(f"Arithmetic cast from {source} to {target} is not supported")
        if unsigned:
            raise PassesFailed(f"cast from {source} to {target}: the operand must be signless-integer-like")
    elif source.is_unsigned() and target.is_unsigned() and source.name != target.name:
        raise PassesFailed(f"cast from {source} to {target}: the operand must be signless-integer-like")


def converted(value: Any, dtype: DataType) -> Number:
    """A compile-time number or a runtime value as a number of a type, if the compiler has the conversion."""
    if isinstance(value, PlainValue):
        if value.dtype is not dtype and value.dtype != dtype:
            castable(value.dtype, dtype)
        value = value.value
    return convert(value, dtype)


class IRValue:
    """Anything that exists on the device."""


class PlainValue(IRValue):
    """A scalar of the running kernel: a value and its type.

    The result of an operation has the type of the left runtime operand, and the other operand is converted to
    it: ``n * 1.5`` with an int n is ``n * 1``. ``/`` and ``//`` on integers truncate towards zero, ``%`` takes the
    sign of the dividend. There is no ``int()``, ``float()``, ``**`` or ``~``: use ``cast``.
    """

    __slots__ = ("dtype", "value")

    def __init__(self, value: Any, dtype: DataType | None = None) -> None:
        if isinstance(value, PlainValue):
            value = value.value
        self.dtype = default_type(value) if dtype is None else dtype
        self.value: Any = convert(value, self.dtype)

    # -- arithmetic -----------------------------------------------------------------------------------

    def _binary(self, other: Any, operation: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        kind = self.dtype
        if isinstance(other, PlainValue):
            value = other.value if other.dtype is kind else converted(other, kind)
        elif isinstance(other, (bool, int, float)):
            value = convert(other, kind)
        else:
            return NotImplemented
        result = operation(value, self.value) if swapped else operation(self.value, value)
        if kind is _INT32 and type(result) is int and -_HALF <= result < _HALF:
            return int32(result)
        return PlainValue(result, kind)

    # Indices are int32 most of the time: their sums, differences and products take the short way when nothing wraps.
    # (A literal too wide for int32 needs no conversion first: the three agree modulo 2^32.)

    def __add__(self, other: Any) -> Any:
        if self.dtype is _INT32:
            if type(other) is int:
                result = self.value + other
            elif type(other) is PlainValue and other.dtype is _INT32:
                result = self.value + other.value
            else:
                return self._binary(other, _add)
            if -_HALF <= result < _HALF:
                return int32(result)
        return self._binary(other, _add)

    def __radd__(self, other: Any) -> Any:
        return self._binary(other, _add, True)

    def __sub__(self, other: Any) -> Any:
        if self.dtype is _INT32:
            if type(other) is int:
                result = self.value - other
            elif type(other) is PlainValue and other.dtype is _INT32:
                result = self.value - other.value
            else:
                return self._binary(other, _sub)
            if -_HALF <= result < _HALF:
                return int32(result)
        return self._binary(other, _sub)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(other, _sub, True)

    def __mul__(self, other: Any) -> Any:
        if self.dtype is _INT32:
            if type(other) is int:
                result = self.value * other
            elif type(other) is PlainValue and other.dtype is _INT32:
                result = self.value * other.value
            else:
                return self._binary(other, _mul)
            if -_HALF <= result < _HALF:
                return int32(result)
        return self._binary(other, _mul)

    def __rmul__(self, other: Any) -> Any:
        return self._binary(other, _mul, True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary(other, _div)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(other, _div, True)

    __floordiv__ = __truediv__
    __rfloordiv__ = __rtruediv__

    def __mod__(self, other: Any) -> Any:
        if self.dtype is _INT32 and type(other) is int and self.value >= 0 and 0 < other < _HALF:
            return int32(self.value % other)
        return self._binary(other, _mod)

    def __rmod__(self, other: Any) -> Any:
        return self._binary(other, _mod, True)

    def __lshift__(self, other: Any) -> Any:
        return self._integers("<<")._binary(other, _shl)

    def __rlshift__(self, other: Any) -> Any:
        return self._integers("<<")._binary(other, _shl, True)

    def __rshift__(self, other: Any) -> Any:
        return self._integers(">>")._binary(other, _shr)

    def __rrshift__(self, other: Any) -> Any:
        return self._integers(">>")._binary(other, _shr, True)

    def __and__(self, other: Any) -> Any:
        return self._integers("&")._binary(other, lambda a, b: a & b)

    def __or__(self, other: Any) -> Any:
        return self._integers("|")._binary(other, lambda a, b: a | b)

    def __xor__(self, other: Any) -> Any:
        return self._integers("^")._binary(other, lambda a, b: a ^ b)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def _integers(self, sign: str) -> PlainValue:
        if self.dtype.is_float():
            raise TypeError(f"'{sign}' is for integers, got {self.dtype}")
        return self

    def __pow__(self, other: Any) -> PlainValue:
        raise NotImplementedError("** is not supported for runtime values")

    __rpow__ = __pow__

    def __invert__(self) -> PlainValue:
        raise NotImplementedError("~ is not supported for runtime values")

    def __neg__(self) -> Any:
        if self.dtype.is_float():
            return RawHandle()
        return PlainValue(-self.value, self.dtype)

    def __pos__(self) -> PlainValue:
        return self

    # -- comparison and logic -------------------------------------------------------------------------

    def _compare(self, other: Any, operation: Callable[[Any, Any], bool]) -> Any:
        if not isinstance(other, (PlainValue, bool, int, float)):
            return NotImplemented
        if self.dtype.is_unsigned():
            raise PassesFailed("an unsigned comparison must be signless-integer-like: cast to int64 first")
        return _truth(operation(self.value, converted(other, self.dtype)))

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a < b)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a <= b)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a > b)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, lambda a, b: a >= b)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, lambda a, b: a == b)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, lambda a, b: a != b)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return bool(self.value)

    def logical_and(self, other: Any) -> PlainValue:
        """Both non-zero."""
        return PlainValue(bool(self.value) and bool(raw(other)), KnownTypes.int1)

    def logical_or(self, other: Any) -> PlainValue:
        """One non-zero."""
        return PlainValue(bool(self.value) or bool(raw(other)), KnownTypes.int1)

    def cast(self, dtype: DataType) -> PlainValue:
        """The value in another type.

        Raises:
            NotImplementedError, PassesFailed: a conversion that the compiler does not have (see :func:`castable`).
        """
        return PlainValue(converted(self, dtype), dtype)

    def ceildiv(self, other: Any) -> Any:
        """(x + y - 1) / y, truncating."""
        return (self + other - 1) / other

    def __repr__(self) -> str:
        return f"PlainValue({self.value}, {self.dtype})"


def int32(value: int) -> PlainValue:
    """An int32 that is known to fit."""
    made = PlainValue.__new__(PlainValue)
    made.dtype, made.value = _INT32, value
    return made


def _truth(value: bool) -> PlainValue:
    """An int1."""
    made = PlainValue.__new__(PlainValue)
    made.dtype, made.value = _INT1, value
    return made


def in_int32(value: int) -> bool:
    """Does a number fit an int32?"""
    return -_HALF <= value < _HALF


class PassesFailed(RuntimeError):
    """What pyasc's verifier refuses: "Failed to run passes"."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"Failed to run passes: {detail}")


class RawHandle:
    """The unusable result of ``-x`` on a runtime float: any use fails with AttributeError. Write ``0.0 - x``."""


def _add(a: Any, b: Any) -> Any:
    return a + b


def _sub(a: Any, b: Any) -> Any:
    return a - b


def _mul(a: Any, b: Any) -> Any:
    return a * b


def _div(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return a / b if b else float(np.divide(a, b))
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _mod(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return float(np.fmod(a, b))
    if b == 0:
        return a
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _shl(a: int, b: int) -> int:
    return a << b if 0 <= b < 64 else 0


def _shr(a: int, b: int) -> int:
    return a >> b if 0 <= b < 64 else (-1 if a < 0 else 0)


def raw(value: Any) -> Any:
    """The Python number behind a runtime or compile-time number."""
    return value.value if isinstance(value, PlainValue) else value


def materialize_ir_value(value: Any, required_type: DataType | None = None) -> PlainValue:
    """A number as a runtime value.

    Raises:
        TypeError: anything that is no number.
    """
    if not isinstance(value, (PlainValue, bool, int, float)):
        raise TypeError(f"Unsupported value type for materialization: {type(value).__name__}")
    if isinstance(value, PlainValue) and (required_type is None or value.dtype == required_type):
        return value
    return PlainValue(value if required_type is None else converted(value, required_type), required_type)


class GlobalAddress(IRValue):
    """An address in global memory: ``address + n`` moves by n elements, nothing else is possible."""

    __slots__ = ("allocation", "at", "dtype", "moves")

    def __init__(
        self, allocation: int, dtype: DataType | None, offset: int = 0, moves: dict[Any, int] | None = None
    ) -> None:
        self.allocation = allocation
        self.dtype = dtype
        self.at = offset
        self.moves = moves

    @property
    def offset(self) -> int:
        """The byte in this turn of the loops that are watched (see moving)."""
        for watch in self.moves or ():
            watch.spoiled = True
        return self.at

    def __add__(self, other: Any) -> GlobalAddress:
        if not isinstance(other, (int, PlainValue)):
            return NotImplemented
        size = self.dtype.sizeof() if self.dtype is not None else 1
        steps = getattr(other, "moves", None)
        if steps is None:
            return GlobalAddress(self.allocation, self.dtype, self.at + raw(other) * size, self.moves)
        moves = dict(self.moves or {})
        for watch, step in steps.items():
            moves[watch] = moves.get(watch, 0) + step * size
        return GlobalAddress(self.allocation, self.dtype, self.at + other.at * size, moves)  # type: ignore[union-attr]


__getattr__ = names_of(__name__)
