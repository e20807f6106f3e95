"""Another order: a launch's instructions again, as late and as early as its synchronisation lets them run.

A launch has its effects in program order, and races are found by happens-before. On a chip a race shows as wrong
numbers, now and then. Here the recorded instructions run in an order drawn from a seed that keeps what the hardware
keeps (each pipe's order, flags, queues, barriers, waits between cores) and nothing else. A kernel without races gives
the same numbers for every seed; only sums of floats that several cores add atomically may differ in their rounding.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.launch import Launch, again, like, with_data
from cannlab.machine.core.opcodes import ROWS, Kind, Row
from cannlab.machine.core.pipes import PIPES, Pipe

if TYPE_CHECKING:
    from cannlab.machine.core.memory import Memory
    from cannlab.trace.kernel import KernelTrace

_S = int(Pipe.S)
_CHANGE = 0.1
"""How often a lane that has run is given another rank."""


class _Step(NamedTuple):
    """An instruction that has an effect, and what has to be finished before: per lane the last instruction."""

    number: int
    row: Row
    dtype: int
    imm: tuple[int, ...]
    operands: tuple[tuple[int, int, int], ...]
    own: list[int]
    foreign: list[int] | None


class _Witness(Launch):
    """A replay that notes what each instruction has to wait for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lanes: dict[int, deque[_Step]] = {}
        self._fence: dict[int, int] = {}

    def apply(
        self,
        op: int,
        pipe: int,
        dtype: int,
        file: int,
        line: int,
        imm: tuple[int, ...],
        operands: tuple[tuple[int, int, int], ...],
    ) -> None:
        """As the launch, and a note."""
        number = len(self.trace.starts)
        super().apply(op, pipe, dtype, file, line, imm, operands)
        row = ROWS[op]
        if row.kind > Kind.SCALAR and not (row.kind is Kind.CROSS and operands):
            return
        ordering, unit = self._ordering, self.unit.number
        lane = _S if row.kind is Kind.CROSS else pipe
        own = ordering.known[lane].copy()
        own[_S] = max(own[_S], self._fence.get(unit, -1))
        if row.kind is Kind.SCALAR and not row.roles:
            # A register: set in order with everything around it.
            own = ordering.last.copy()
            self._fence[unit] = number
        own[lane] = -1
        step = _Step(number, row, dtype, imm, operands, own, ordering.foreign)
        self.lanes.setdefault(unit * PIPES + lane, deque()).append(step)


def shuffled(trace: KernelTrace, inputs: Sequence[NDArray[Any]], seed: int) -> list[NDArray[np.uint8]]:
    """Run a record's instructions in another order that its synchronisation allows.

    Args:
        trace: the record of a launch.
        inputs: one array per argument, as for :func:`~cannlab.machine.core.launch.replay`.
        seed: chooses the order.

    Returns:
        The bytes of every argument afterwards.

    Raises:
        ValueError, KernelFault: as replay.
    """
    with_data(trace)
    launch = again(like(trace, inputs, kind=_Witness), trace)
    assert isinstance(launch, _Witness)
    lanes = launch.lanes
    # Everything starts again from the inputs: only the order was wanted.
    memory = launch.memory.again(list(inputs))
    cores: dict[int, Memory] = {}
    rng = random.Random(seed)
    ranks = {lane: rng.random() for lane in lanes}
    order = sorted(lanes, key=ranks.__getitem__)

    def finished(lane: int, number: int) -> bool:
        waiting = lanes.get(lane)
        return not waiting or waiting[0].number > number

    def ready(lane: int, step: _Step) -> bool:
        first = lane - lane % PIPES
        if not all(finished(first + pipe, number) for pipe, number in enumerate(step.own) if number >= 0):
            return False
        return step.foreign is None or all(
            finished(other, number)
            for other, number in enumerate(step.foreign)
            if number >= 0 and not first <= other < first + PIPES
        )

    with np.errstate(all="ignore"):
        while order:
            lane = next(each for each in order if ready(each, lanes[each][0]))
            step = lanes[lane].popleft()
            core = cores.get(lane // PIPES)
            if core is None:
                core = cores[lane // PIPES] = memory.beside()
            step.row.execute(core, step.dtype, step.imm, step.operands)
            if not lanes[lane]:
                order.remove(lane)
            elif rng.random() < _CHANGE:
                ranks[lane] = rng.random()
                order.sort(key=ranks.__getitem__)
    return memory.outputs()
