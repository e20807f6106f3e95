"""Blocks that go alike are judged once.

Most kernels do the same in every block, on other parts of global memory. A launch whose cores do not wait for each
other is therefore recorded and executed first; then one block of each kind is judged by happens-before and timed, and
the others take over what was found. Two blocks are of one kind when their instructions differ in nothing but where
in global memory they work, by one distance for each argument. What the blocks do to one another is judged by the
bytes that each of them reads and writes. As soon as anything is found, the whole record is judged instruction by
instruction, so diagnoses do not depend on this short cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.faults import KernelFault
from cannlab.machine.core.opcodes import BY_NAME, ROWS
from cannlab.machine.core.pipes import PIPES
from cannlab.machine.core.schedule import Part, Schedule, Timing

if TYPE_CHECKING:
    from cannlab.machine.core.launch import Launch
    from cannlab.trace.kernel import KernelTrace

Words = NDArray[np.int64]
_BLOCK_START = BY_NAME["block_start"].number
_HEAD = 8
"""Words of an instruction before its immediates: see KernelTrace."""
_OP, _CORE, _IMMEDIATES, _OPERANDS = 0, 1, 6, 7


class Restart(BaseException):
    """A launch that was put off turns out to need its order or its time while it runs."""


class Later:
    """Takes the place of a launch's order and schedule while the judgement is put off."""

    waited = ()
    _unsettled = ()

    def __init__(self) -> None:
        self.last = [0] * PIPES

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # Asked for once: from then on it is there.
        setattr(self, name, _nothing)
        return _nothing

    def clock(self, pipe: int) -> list[int]:
        """Nothing is known."""
        return []

    def snapshot(self, pipe: int) -> list[int]:
        """Nothing is known."""
        return []

    def wait_flag(self, event: int, identity: int) -> bool:
        """Whether it was set is judged later."""
        return True

    def now_ns(self) -> int:
        """There is no time yet.

        Raises:
            Restart: always.
        """
        raise Restart


def _nothing(*values: Any, **named: Any) -> None:
    pass


@dataclass(frozen=True)
class _Kind:
    """Blocks that go alike: the first of them, and how the others are compared with it.

    Attributes:
        first, last: its instructions in the record.
        words: the record's words of it.
        free: words that may differ: the block's number.
        moved: for each argument, the words that hold offsets in it.
    """

    first: int
    last: int
    words: Words
    free: NDArray[np.bool_]
    moved: dict[int, NDArray[np.int64]]

    @classmethod
    def of(cls, words: Words, starts: Words, first: int, last: int) -> _Kind:
        """Of a block's words; ``starts``: where its instructions begin in them."""
        free = np.zeros(len(words), dtype=bool)
        free[starts + _CORE] = True
        free[starts[0] + _HEAD] = True
        counts = words[starts + _OPERANDS]
        begin = starts + _HEAD + words[starts + _IMMEDIATES]
        each = np.repeat(begin, counts)
        number = np.arange(len(each)) - np.repeat(np.cumsum(counts) - counts, counts)
        operands = each + 3 * number
        allocations = words[operands]
        moved = {
            int(allocation): operands[allocations == allocation] + 1
            for allocation in np.unique(allocations)
            if allocation >= 0
        }
        return cls(first, last, words, free, moved)

    def distances(self, words: Words) -> dict[int, int] | None:
        """How far another block lies from this one in each argument; None when it does not go like this one."""
        if len(words) != len(self.words):
            return None
        apart = words - self.words
        apart[self.free] = 0
        found = {}
        for allocation, at in self.moved.items():
            steps = apart[at]
            found[allocation] = int(steps[0])
            if (steps != steps[0]).any():
                return None
            apart[at] = 0
        return None if apart.any() else found


def judged(launch: Launch, fresh: Callable[[], Launch], order: bool = True) -> Timing | None:
    """The time of a finished launch whose judgement was put off; None when something is wrong with it.

    Args:
        launch: the launch.
        fresh: makes another one, with the same arguments and without data effects.
        order: judge the order too; False gives the time alone.
    """
    trace = launch.trace
    words = np.frombuffer(trace.words, dtype=np.int64)
    starts = np.frombuffer(trace.starts, dtype=np.int64)
    firsts = np.flatnonzero(words[starts + _OP] == _BLOCK_START)
    lasts = np.append(firsts[1:], len(starts))
    if len(firsts) != len(launch.units):
        return None
    kinds: list[tuple[_Kind, Part, _Used]] = []
    schedule = Schedule(launch.soc, launch.blocks, trace.meta["cores"])
    used: list[tuple[_Used, dict[int, int]]] = []
    for unit, first, last in zip(launch.units, firsts.tolist(), lasts.tolist(), strict=True):
        begin = int(starts[first])
        own = words[begin : int(starts[last]) if last < len(starts) else len(words)]
        alike = ((each, apart) for each in kinds if (apart := each[0].distances(own)) is not None)
        found = next(alike, None)
        if found is None:
            by_itself = _judge(trace, first, last, fresh())
            if by_itself is None or (order and by_itself[2]):
                return None
            kind = _Kind.of(own, starts[first:last] - begin, first, last)
            found = (kind, *by_itself[:2]), dict.fromkeys(kind.moved, 0)
            kinds.append(found[0])
        (_, part, uses), apart = found
        schedule.take(unit, part)
        used.append((uses, apart))
    return None if order and _meet(used) else schedule.timing()


def _judge(trace: KernelTrace, first: int, last: int, launch: Launch) -> tuple[Part, _Used, bool] | None:
    """One block by itself: its times, the bytes it uses, and whether a rule of order is broken; None: it stopped."""
    uses = _Used()
    try:
        for op, _, pipe, dtype, file, line, imm, operands in trace.part(first, last):
            launch.apply(op, pipe, dtype, file, line, imm, operands)
            row = ROWS[op]
            for place, operand in enumerate(operands):
                if operand[0] >= 0 and row.roles[place] != "r":
                    uses.written(operand[0], imm[row.atomic] if row.atomic >= 0 else 0)
                if operand[0] >= 0 and row.roles[place] != "w":
                    uses.read.add(operand[0])
        launch.end()
    except KernelFault:
        return None
    uses.spans = launch.used()
    return launch.part(), uses, launch.disordered


class _Used:
    """What a block does to global memory.

    Attributes:
        spans: argument -> (bytes read only, bytes written), each int64 of shape (spans, 2), sorted.
        how: argument -> the ways in which it is written (0: plainly; else the atomic operation).
        read: arguments that are read somewhere.
    """

    def __init__(self) -> None:
        self.spans: dict[int, tuple[Words, Words]] = {}
        self.how: dict[int, set[int]] = {}
        self.read: set[int] = set()

    def written(self, allocation: int, how: int) -> None:
        """An argument is written."""
        self.how.setdefault(allocation, set()).add(how)


def _meet(used: list[tuple[_Used, dict[int, int]]]) -> bool:
    """May a block write bytes that another one uses? Atomic writes of one sort do not disturb each other."""
    if len(used) < 2:
        return False
    how: dict[int, set[int]] = {}
    for uses, _ in used:
        for allocation, ways in uses.how.items():
            how.setdefault(allocation, set()).update(ways)
    for allocation, ways in how.items():
        there = [(uses.spans[allocation], apart[allocation]) for uses, apart in used if allocation in uses.spans]
        writes = _sorted([written + apart for (_, written), apart in there])
        reads = _sorted([read + apart for (read, _), apart in there])
        if len(ways) > 1 or 0 in ways:
            if (writes[1:, 0] < writes[:-1, 1]).any():
                return True
        elif any(allocation in uses.read for uses, _ in used):
            # Written and read by the same block: the spans tell no more whether others come between.
            return True
        else:
            writes[:, 1] = np.maximum.accumulate(writes[:, 1])
        # Of the writes that begin before a read ends, does one end after it begins?
        before = np.searchsorted(writes[:, 0], reads[:, 1])
        ends = np.append(0, np.maximum.accumulate(writes[:, 1]) if len(writes) else [])
        if (ends[before] > reads[:, 0]).any():
            return True
    return False


def _sorted(spans: list[Words]) -> Words:
    whole = np.concatenate(spans) if spans else np.zeros((0, 2), dtype=np.int64)
    return whole[np.argsort(whole[:, 0], kind="stable")]
