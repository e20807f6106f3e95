"""Values that grow by the same step with every turn of a loop: how they follow from the loop's counter.

While a loop is watched (``codegen/alike.py``) its counter is a :class:`Moving`. Sums, differences and products with
constants move too; a comparison holds for as many turns as it can be proved for; a remainder or a quotient moves when
the period fits. Whoever reads anything else of a moving value (``.value``) gets it and spoils the watch: code that
does not know moving values is right, only not repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, lcm
from typing import Any

from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.lib.placeholders import names_of

FOREVER = 1 << 62


class Watch:
    """A loop whose turns are watched.

    Attributes:
        period: turns after which everything is alike. most: how many periods more all that was decided holds.
        spoiled: something depends on the turn in a way that is not followed.
        wanted: the period that a remainder or a quotient would need.
        notes: (instruction, operand) -> bytes by which the operand moves in global memory with each period.
    """

    def __init__(self, period: int) -> None:
        self.period = self.wanted = period
        self.most = FOREVER
        self.spoiled = False
        self.notes: dict[tuple[int, int], int] = {}

    def begin(self) -> None:
        """A period begins."""
        self.most = FOREVER
        self.spoiled = False
        self.notes = {}

    def holds(self, value: int, slope: int, low: int, high: int) -> None:
        """Something stays as it is while ``value``, which moves by ``slope``, lies between two bounds (inclusive)."""
        if slope > 0:
            self.most = min(self.most, (high - value) // slope)
        elif slope < 0:
            self.most = min(self.most, (value - low) // -slope)

    def needs(self, divisor: int, slope: int) -> None:
        """A slope that ``divisor`` does not divide: in a longer period it would."""
        self.wanted = lcm(self.wanted, self.period * (divisor // gcd(divisor, slope)))
        self.spoiled = True


class Moving(PlainValue):
    """A runtime integer that grows by ``slope`` with each period of a watched loop."""

    __slots__ = ("now", "slope", "watch")

    def __init__(self, watch: Watch, now: int, slope: int, dtype: DataType) -> None:
        self.dtype, self.watch, self.now, self.slope = dtype, watch, now, slope

    @property
    def value(self) -> int:  # type: ignore[override]
        """The number in this turn; whoever asks depends on the turn in a way of his own."""
        self.watch.spoiled = True
        return self.now

    def _moved(self, now: int, slope: int) -> PlainValue | None:
        """A result, as long as nothing wraps; None where it does."""
        half = 1 << (self.dtype.bitwidth - 1)
        if not -half <= now < half:
            return None
        if not slope:
            made = PlainValue.__new__(PlainValue)
            made.dtype, made.value = self.dtype, now
            return made
        self.watch.holds(now, slope, -half, half - 1)
        return Moving(self.watch, now, slope, self.dtype)

    def _other(self, other: Any) -> tuple[int, int] | None:
        """The other operand and its slope; None: not one that can be followed."""
        if type(other) is int:
            half = 1 << (self.dtype.bitwidth - 1)
            return (other, 0) if -half <= other < half else None
        if type(other) is Moving and other.watch is self.watch:
            return (other.now, other.slope) if other.dtype is self.dtype else None
        if type(other) is PlainValue and not other.dtype.is_float() and other.dtype is self.dtype:
            return (other.value, 0)
        return None

    def _linear(self, other: Any, mine: int, its: int) -> PlainValue | None:
        found = self._other(other)
        if found is None:
            return None
        return self._moved(mine * self.now + its * found[0], mine * self.slope + its * found[1])

    def __add__(self, other: Any) -> Any:
        made = self._linear(other, 1, 1)
        return PlainValue.__add__(self, other) if made is None else made

    def __radd__(self, other: Any) -> Any:
        if type(other) is PlainValue and other.dtype is not self.dtype:
            # The left operand's type decides.
            return PlainValue.__add__(other, self)
        made = self._linear(other, 1, 1)
        return PlainValue.__radd__(self, other) if made is None else made

    def __sub__(self, other: Any) -> Any:
        made = self._linear(other, 1, -1)
        return PlainValue.__sub__(self, other) if made is None else made

    def __rsub__(self, other: Any) -> Any:
        if type(other) is PlainValue and other.dtype is not self.dtype:
            # The left operand's type decides.
            return PlainValue.__sub__(other, self)
        made = self._linear(other, -1, 1)
        return PlainValue.__rsub__(self, other) if made is None else made

    def __mul__(self, other: Any) -> Any:
        made = self._scaled(other)
        return PlainValue.__mul__(self, other) if made is None else made

    def __rmul__(self, other: Any) -> Any:
        if type(other) is PlainValue and other.dtype is not self.dtype:
            # The left operand's type decides.
            return PlainValue.__mul__(other, self)
        made = self._scaled(other)
        return PlainValue.__rmul__(self, other) if made is None else made

    def _scaled(self, other: Any) -> PlainValue | None:
        found = self._other(other)
        if found is None or found[1]:
            return None
        return self._moved(self.now * found[0], self.slope * found[0])

    def _divisor(self, other: Any) -> int:
        """A positive constant by which a value that stays positive is divided; 0 for anything else."""
        found = self._other(other)
        if found is None or found[1] or found[0] <= 0 or self.now < 0:
            return 0
        self.watch.holds(self.now, self.slope, 0, FOREVER)
        return found[0]

    def __truediv__(self, other: Any) -> Any:
        divisor = self._divisor(other)
        if divisor and self.slope % divisor == 0:
            return self._moved(self.now // divisor, self.slope // divisor)
        if divisor:
            self.watch.needs(divisor, self.slope)
        return PlainValue.__truediv__(self, other)

    __floordiv__ = __truediv__

    def __mod__(self, other: Any) -> Any:
        divisor = self._divisor(other)
        if divisor and self.slope % divisor == 0:
            return self._moved(self.now % divisor, 0)
        if divisor:
            self.watch.needs(divisor, self.slope)
        return PlainValue.__mod__(self, other)

    def __and__(self, other: Any) -> Any:
        if type(other) is int and other > 0 and not other & (other + 1) and self.now >= 0:
            return self % (other + 1)
        return PlainValue.__and__(self, other)

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other) if type(other) is int and 0 <= other < 31 else PlainValue.__lshift__(self, other)

    def __rshift__(self, other: Any) -> Any:
        if type(other) is int and 0 <= other < 31 and self.now >= 0:
            return self / (1 << other)
        return PlainValue.__rshift__(self, other)

    def __neg__(self) -> Any:
        made = self._moved(-self.now, -self.slope)
        return PlainValue.__neg__(self) if made is None else made

    def _compare(self, other: Any, operation: Callable[[Any, Any], bool]) -> Any:
        found = self._other(other)
        if found is None or self.dtype.is_unsigned():
            return PlainValue._compare(self, other, operation)
        now, slope = self.now - found[0], self.slope - found[1]
        # The sign of the difference decides, whatever is asked.
        if now > 0:
            self.watch.holds(now, slope, 1, FOREVER)
        elif now < 0:
            self.watch.holds(now, slope, -FOREVER, -1)
        elif slope:
            self.watch.most = 0
        return PlainValue(operation(now, 0), KnownTypes.int1)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __repr__(self) -> str:
        return f"Moving({self.now}, {self.slope}, {self.dtype})"


__getattr__ = names_of(__name__)
