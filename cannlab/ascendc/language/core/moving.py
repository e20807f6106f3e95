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
    """A loop whose turns are watched; or the launch's blocks.

    Attributes:
        period: turns after which everything is alike. most: how many periods more all that was decided holds.
        spoiled: something depends on the turn in a way that is not followed.
        wanted: the period that a remainder or a quotient would need.
        notes: (instruction, operand, bytes by which it moves in global memory with each period).
        bounds: (value, how it moves, low, high) of what has to stay within bounds while other things move, too.
    """

    def __init__(self, period: int) -> None:
        self.period = self.wanted = period
        self.begin()

    def begin(self) -> None:
        """A period begins."""
        self.most = FOREVER
        self.spoiled = False
        self.notes: list[tuple[int, int, int]] = []
        self.bounds: list[tuple[int, Moves, int, int]] = []

    def holds(self, value: int, slope: int, low: int, high: int) -> None:
        """Something stays as it is while ``value``, which moves by ``slope``, lies between two bounds (inclusive)."""
        if slope > 0:
            self.most = min(self.most, (high - value) // slope)
        elif slope < 0:
            self.most = min(self.most, (value - low) // -slope)

    def repeated(self, count: int) -> None:
        """It was repeated so often: what other watches move has to stay within bounds in all these turns."""
        for value, moves, low, high in self.bounds:
            for other, slope in moves.items():
                if other is not self:
                    other.holds(value + count * moves[self], slope, low, high)

    def needs(self, divisor: int, slope: int) -> None:
        """A slope that ``divisor`` does not divide: in a longer period it would."""
        self.wanted = lcm(self.wanted, self.period * (divisor // gcd(divisor, slope)))
        self.spoiled = True


Moves = dict[Watch, int]
"""By how much something moves with each period of the loops that are watched."""


def within(value: int, moves: Moves, low: int, high: int) -> None:
    """All that follows holds while a value lies between two bounds (inclusive)."""
    for watch, slope in moves.items():
        watch.holds(value, slope, low, high)
        if len(moves) > 1:
            watch.bounds.append((value, moves, low, high))


def spoil(moves: Moves | None) -> None:
    """Somebody goes by where something is in this turn."""
    for watch in moves or ():
        watch.spoiled = True


def moved(moves: Moves | None, more: Moves | None, factor: int = 1) -> Moves:
    """The sum of two ways to move, the second ``factor`` times."""
    made = dict(moves or {})
    for watch, slope in (more or {}).items():
        made[watch] = made.get(watch, 0) + factor * slope
    return {watch: slope for watch, slope in made.items() if slope}


class Moving(PlainValue):
    """A runtime integer that grows by the same with each period of a watched loop.

    Attributes:
        at: the number in this turn. moves: how it moves.
    """

    __slots__ = ("at", "moves")

    def __init__(self, at: int, moves: Moves, dtype: DataType) -> None:
        self.dtype, self.at, self.moves = dtype, at, moves

    @property
    def value(self) -> int:
        """The number in this turn; whoever asks depends on the turn in a way of his own."""
        spoil(self.moves)
        return self.at

    def _made(self, at: int, moves: Moves) -> PlainValue | None:
        """A result, as long as nothing wraps; None where it does."""
        half = 1 << (self.dtype.bitwidth - 1)
        if not -half <= at < half:
            return None
        if not moves:
            made = PlainValue.__new__(PlainValue)
            made.dtype, made.value = self.dtype, at
            return made
        within(at, moves, -half, half - 1)
        return Moving(at, moves, self.dtype)

    def _other(self, other: Any) -> tuple[int, Moves] | None:
        """The other operand and how it moves; None: not one that can be followed."""
        if type(other) is int:
            half = 1 << (self.dtype.bitwidth - 1)
            return (other, {}) if -half <= other < half else None
        if type(other) is Moving and other.dtype is self.dtype:
            return other.at, other.moves
        if type(other) is PlainValue and other.dtype is self.dtype:
            return other.value, {}
        return None

    def _linear(self, other: Any, mine: int, its: int) -> PlainValue | None:
        found = self._other(other)
        if found is None:
            return None
        at, moves = found
        return self._made(mine * self.at + its * at, moved(moved({}, self.moves, mine), moves, its))

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
        return self._made(self.at * found[0], moved({}, self.moves, found[0]))

    def _divisor(self, other: Any) -> int:
        """A constant by which a value that stays positive is divided, and all its slopes without a rest; else 0."""
        found = self._other(other)
        if found is None or found[1] or found[0] <= 0 or self.at < 0:
            return 0
        rests = {watch: slope for watch, slope in self.moves.items() if slope % found[0]}
        for watch, slope in rests.items():
            watch.needs(found[0], slope)
        if rests:
            return 0
        within(self.at, self.moves, 0, FOREVER)
        return found[0]

    def __truediv__(self, other: Any) -> Any:
        divisor = self._divisor(other)
        if divisor:
            return self._made(self.at // divisor, {watch: slope // divisor for watch, slope in self.moves.items()})
        return PlainValue.__truediv__(self, other)

    __floordiv__ = __truediv__

    def __mod__(self, other: Any) -> Any:
        divisor = self._divisor(other)
        return self._made(self.at % divisor, {}) if divisor else PlainValue.__mod__(self, other)

    def __and__(self, other: Any) -> Any:
        if type(other) is int and other > 0 and not other & (other + 1) and self.at >= 0:
            return self % (other + 1)
        return PlainValue.__and__(self, other)

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other) if type(other) is int and 0 <= other < 31 else PlainValue.__lshift__(self, other)

    def __rshift__(self, other: Any) -> Any:
        if type(other) is int and 0 <= other < 31 and self.at >= 0:
            return self / (1 << other)
        return PlainValue.__rshift__(self, other)

    def __neg__(self) -> Any:
        made = self._made(-self.at, moved({}, self.moves, -1))
        return PlainValue.__neg__(self) if made is None else made

    def _compare(self, other: Any, operation: Callable[[Any, Any], bool]) -> Any:
        found = self._other(other)
        if found is None or self.dtype.is_unsigned():
            return PlainValue._compare(self, other, operation)
        apart, moves = self.at - found[0], moved(self.moves, found[1], -1)
        # The sign of the difference decides, whatever is asked.
        if apart:
            within(apart, moves, *((1, FOREVER) if apart > 0 else (-FOREVER, -1)))
        else:
            within(apart, moves, 0, 0)
        return PlainValue(operation(apart, 0), KnownTypes.int1)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __repr__(self) -> str:
        return f"Moving({self.at}, {self.dtype})"


__getattr__ = names_of(__name__)
