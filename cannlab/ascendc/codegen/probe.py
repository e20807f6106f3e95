"""The part of code generation that looks at operations: every call of a kernel, once, before it runs.

The real front end visits both branches of a runtime ``if`` and each loop's body once, and refuses a call that no
overload takes or whose types do not fit. So does this pass: the kernel's code runs with the operations of ``asc``
on a launch that executes nothing. Numbers are those of the launch where they are known; what depends on them (a range
that is left, a mask that is too large) is the hardware's to judge, and ends the pass in silence.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cannlab.ascendc.codegen import runtime
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.language.core.range import range as runtime_range
from cannlab.ascendc.language.core.range import static_range
from cannlab.machine.core.dtypes import NUMPY
from cannlab.machine.core.queues import Buffer, Queue, State
from cannlab.machine.core.units import Unit, units
from cannlab.soc import Soc

UNROLLED = 256
PLENTY = 1 << 40


class Ended(Exception):
    """The pass cannot go on: what follows depends on values that only the launch has."""


class _Memory:
    """Reads as zeros, of any size."""

    compare_mask = np.zeros(16, dtype=np.uint8)
    merged = (0, 0, 0, 0)

    def view(self, operand: tuple[int, int, int], code: int) -> NDArray[Any]:
        size = operand[2] // NUMPY[code].itemsize
        if not 0 <= size <= 1 << 24:
            raise Ended
        return np.zeros(size, dtype=NUMPY[code])

    def limit(self, allocation: int) -> int:
        return PLENTY


class ProbeLaunch:
    """Takes the calls of the operations and does nothing.

    Attributes:
        apart: so far the kernel's cores neither wait for each other nor read the time.
    """

    probing = True
    sync = "auto"
    apart = True

    def __init__(self, soc: Soc, blocks: int, cores: str, unit: Unit | None = None) -> None:
        self.soc, self.block, self.blocks = soc, 0, blocks
        self.units = units(blocks, cores)
        self.unit = self.units[0] if unit is None else unit
        self.cores = self.unit.kind
        self.memory = _Memory()
        self.queues: list[Queue] = []

    def peek(self) -> _Memory:
        """As that of a launch."""
        return self.memory

    def issue(self, *instruction: Any) -> None:
        """Nothing happens."""

    def cross(self, *instruction: Any) -> None:
        """Nobody is waited for."""
        self.apart = False

    def line(self) -> tuple[int, int]:
        """No place: nothing runs."""
        return 0, 0

    def now_ns(self) -> int:
        """There is no time yet."""
        self.apart = False
        return 0

    def load(self, operand: tuple[int, int, int], code: int) -> Any:
        """Some value."""
        return NUMPY[code].type(1).item()

    def warn(self, rule: str, **facts: Any) -> None:
        """Only a launch tells."""

    def stop(self, rule: str, **facts: Any) -> NoReturn:
        """A rule of the hardware: the launch will tell, if it gets there."""
        raise Ended

    def queue_init(
        self,
        position: int,
        produces: int,
        consumes: int,
        depth: int,
        buffers: Sequence[tuple[int, int, int]],
        whole: bool = False,
    ) -> Queue:
        """A queue whose buffers are always there."""
        queue = Queue(len(self.queues), position, int(produces), int(consumes), depth, whole)
        for space, start, size in buffers or [(-1, 0, 0)]:
            queue.buffers.append(Buffer(queue, len(queue.buffers), space, start, size, State.WHOLE))
        self.queues.append(queue)
        return queue

    def queue_alloc(self, queue: Queue) -> Buffer:
        """Any buffer."""
        return queue.buffers[0]

    def queue_deque(self, queue: Queue, buffer: Buffer | None = None) -> Buffer:
        """Any buffer."""
        return queue.buffers[0]

    def queue_enque(self, buffer: Buffer) -> None:
        """Nothing happens."""

    queue_free = queue_enque

    pool_reset = issue

    def pipe_reset(self) -> None:
        """Nothing happens."""


both, either, negate, turns = runtime.both, runtime.either, runtime.negate, runtime.turns


def loop(function: Any, *args: Any) -> Iterable[Any]:
    """One turn of a runtime loop; every turn of an unrolled one."""
    if function is builtins.range or function is runtime_range:
        made = runtime_range(*args)
        return [PlainValue(made.start, made._type)]
    result: list[Any] = []
    for value in function(*args):
        if len(result) >= UNROLLED:
            break
        result.append(value)
    return result if function is static_range else result[:1]


def watch(condition: Callable[[], Any], reads: bool) -> Callable[[], bool]:
    """One turn of a while loop."""
    turns = iter((True, False))

    def again() -> bool:
        condition()
        return next(turns)

    return again


def then(test: Any) -> bool:
    """Is the first branch compiled?"""
    return True if isinstance(test, PlainValue) else bool(test)


def otherwise(test: Any) -> bool:
    """Is the second branch compiled?"""
    return True if isinstance(test, PlainValue) else not test


def chosen(test: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """``a if c else b``: both sides are compiled."""
    if not isinstance(test, PlainValue):
        return runtime.chosen(first() if test else second())
    value = first()
    second()
    return runtime.chosen(value)
