"""When each instruction starts and ends: list scheduling over the record.

The scalar unit issues in program order; an instruction starts when its pipe is free and what it waits for
is done. Global memory is a channel that a core's copies share with those of the other cores. Blocks beyond
the cores run in waves. A wait for another core ends when that one has set what is waited for. All times inside
are whole cycles; the result is in ns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from cannlab.machine.core import cost
from cannlab.machine.core.channel import Channel
from cannlab.machine.core.opcodes import BY_NAME, Kind, Row
from cannlab.machine.core.pipes import ALL_PIPES, CUBE_CORE, EVENT_PIPES, PIPES, VECTOR_CORE, Pipe
from cannlab.machine.core.queues import Buffer
from cannlab.machine.core.units import MIXED, Unit, at_once
from cannlab.soc.soc import Soc

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SCALAR, _VECTOR, _MOVE = Kind.SCALAR, Kind.VECTOR, Kind.MOVE
_ALLOC, _ENQUE, _DEQUE, _FREE = (BY_NAME[f"queue_{name}"].number for name in ("alloc", "enque", "deque", "free"))
_QUEUE_CALL = cost.QUEUE_CALL
_S, _V, _MTE2, _MTE3 = int(Pipe.S), int(Pipe.V), int(Pipe.MTE2), int(Pipe.MTE3)


_OWN = ("_unit", "_now", "_free", "_done", "_busy_until", "_channel", "_flags", "_full", "_empty", "_issued")
"""Fields of a schedule that belong to the running core."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a launch takes.

    Attributes:
        ns: the whole launch, launch cost included.
        launch_ns: the launch cost.
        busy: pipe name -> ns in which that pipe of some core was at work, summed over the cores.
        blocks: (core, start, end) of every block (of every unit of a mixed launch) in ns.
        spans: int64, shape (instructions, 2): start and end of every instruction of the record in ns.
        cores: cores that ran blocks.
    """

    ns: int
    launch_ns: int
    busy: dict[str, int]
    blocks: tuple[tuple[int, int, int], ...]
    spans: NDArray[np.int64]
    cores: int


class Part(NamedTuple):
    """One block's times by themselves, in cycles since it began.

    Attributes:
        starts, ends: of its instructions.
        busy: for each pipe how long it was at work.
        length: when the block was over.
    """

    starts: list[int]
    ends: list[int]
    busy: list[int]
    length: int


class Schedule:
    """The timelines of a launch, block after block.

    Args:
        soc: the chip.
        blocks: blocks of the launch.
        cores: which cores run them: "AIV", "AIC", or a mixed launch.
    """

    def __init__(self, soc: Soc, blocks: int, cores: str = VECTOR_CORE) -> None:
        self._soc = soc
        self._blocks = blocks
        slots = max(1, min(blocks, at_once(soc, cores)))
        self._each = 1 + MIXED.get(cores, 0)
        self._cores = slots * self._each
        self._rates = cost.Rates(soc, self._cores)
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._marks: list[tuple[int, int]] = []
        """(first instruction, unit): from there on they are this unit's."""
        self._placed: dict[int, tuple[int, int]] = {}
        """Unit -> (core, cycle at which it begins)."""
        self._over: dict[int, int] = {}
        """Unit -> cycle at which it ends."""
        self._slots = [0] * slots
        """When each AI core is free again; -1 while units of a group are on it."""
        self._latest = [0] * slots
        """When the last unit on each AI core ended."""
        self._groups: dict[int, tuple[int, int, int]] = {}
        """Group -> (AI core, cycle at which it begins, units of it that are not over)."""
        self._unit = -1
        self._busy = [0] * PIPES
        self._begin()

    def _begin(self) -> None:
        self._now = 0
        self._free = [0] * PIPES
        self._done = [0] * PIPES
        self._busy_until = [0] * PIPES
        self._channel = Channel()
        self._flags: dict[tuple[int, int], int] = {}
        self._full: dict[Buffer, int] = {}
        self._empty: dict[Buffer, int] = {}
        self._issued: list[list[int]] = [[] for _ in range(PIPES)]

    def start_block(self, unit: Unit) -> None:
        """A block begins on a core of its own, the first that is free."""
        self._unit = unit.number
        self._marks.append((len(self._starts), unit.number))
        slot, begin, left = self._groups.get(unit.group, (-1, 0, self._each))
        if slot < 0:
            free = [when for when in self._slots if when >= 0] or [0]
            begin = min(free)
            slot = self._slots.index(begin) if begin in self._slots else 0
            self._slots[slot] = -1
            self._groups[unit.group] = (slot, begin, left)
        inside = 0 if self._each == 1 or unit.kind == CUBE_CORE else 1 + unit.sub
        self._placed[unit.number] = (slot * self._each + inside, begin)
        self._begin()
        self._put(_S, 0, 0)

    def end_block(self, unit: Unit) -> None:
        """The running block is over; the AI core is free once all of its group are."""
        slot, begin, left = self._groups[unit.group]
        self._over[unit.number] = over = begin + max(self._now, *self._done)
        self._latest[slot] = max(self._latest[slot], over)
        if left > 1:
            self._groups[unit.group] = (slot, begin, left - 1)
        else:
            self._slots[slot] = self._latest[slot]

    def part(self) -> Part:
        """The times of the only block so far, which is over."""
        ((_, begin),) = self._placed.values()
        (over,) = self._over.values()
        return Part(self._starts, self._ends, self._busy, over - begin)

    def take(self, unit: Unit, part: Part) -> None:
        """A whole block whose times are known."""
        self.start_block(unit)
        self._starts += part.starts[1:]
        self._ends += part.ends[1:]
        self._busy = [mine + more for mine, more in zip(self._busy, part.busy, strict=True)]
        self._now = part.length
        self.end_block(unit)

    def leave(self) -> tuple[Any, ...]:
        """The running core stands; another one comes."""
        return tuple(getattr(self, name) for name in _OWN)

    def enter(self, kept: tuple[Any, ...]) -> None:
        """Go on with a core that was left."""
        for name, value in zip(_OWN, kept, strict=True):
            setattr(self, name, value)
        self._marks.append((len(self._starts), self._unit))

    def tell(self, pipe: int, every: bool) -> int:
        """A set for other cores, when the pipe (or every one) has done what it was given; gives the cycle."""
        self._now += cost.ISSUE
        when = max(self._now, *self._done) if every else max(self._now, self._done[pipe], self._free[pipe])
        if every:
            self._now = when
        self._starts.append(when)
        self._ends.append(when)
        return when + self._placed[self._unit][1]

    def hear(self, when: int, latency: int) -> None:
        """The scalar unit stands until another core's set is here."""
        self._now += cost.ISSUE
        until = when - self._placed[self._unit][1] + latency
        start = self._now
        self._now = max(start, until)
        self._starts.append(start)
        self._ends.append(self._now)

    def here(self) -> int:
        """The scalar unit's time since the launch's start, in cycles."""
        return self._now + self._placed[self._unit][1]

    def pause(self) -> None:
        """The core gives its turn away: nothing that takes time."""
        self._starts.append(self._now)
        self._ends.append(self._now)

    def _put(self, pipe: int, start: int, end: int) -> None:
        self._starts.append(start)
        self._ends.append(end)
        if end > self._done[pipe]:
            self._done[pipe] = end
        since = self._busy_until[pipe]
        if end > since:
            self._busy[pipe] += end - (start if start > since else since)
            self._busy_until[pipe] = end

    def _issue(self, pipe: int) -> int:
        """The scalar unit sends an instruction; the earliest cycle at which it may start."""
        self._now += cost.ISSUE
        issued = self._issued[pipe]
        if len(issued) >= cost.QUEUE_DEPTH:
            oldest = issued[-cost.QUEUE_DEPTH]
            if oldest > self._now:
                self._now = oldest
            if len(issued) > 4096:
                del issued[: -cost.QUEUE_DEPTH]
        start = self._free[pipe]
        return start if start > self._now else self._now

    def run(
        self,
        row: Row,
        pipe: int,
        dtype: int,
        imm: tuple[int, ...],
        operands: tuple[tuple[int, int, int], ...],
        waited: Sequence[int],
        cycles: int = -1,
    ) -> None:
        """An instruction that works; ``cycles`` is what a vector instruction takes, if that is known already."""
        kind = row.kind
        if kind is _SCALAR:
            start = self._now
            for other in waited:
                start = max(start, self._ends[other])
            end = start + (cost.SCALAR_GLOBAL if cost.is_global(row, operands) else cost.SCALAR_LOCAL)
            self._now = end
            self._put(_S, start, end)
            return
        start = self._issue(pipe)
        for other in waited:
            start = max(start, self._ends[other])
        self._issued[pipe].append(start)
        if kind is _VECTOR:
            end = start + (cycles if cycles >= 0 else cost.vector_cycles(row, dtype, imm, operands))
            self._free[pipe] = end
            self._put(pipe, start, end)
            return
        if kind is not _MOVE:
            self._cube(row, pipe, dtype, imm, operands, start)
            return
        size = imm[0] * imm[1]
        issue = cost.COPY_ISSUE + (imm[0] - 1) * cost.BURST_ISSUE if imm[0] else cost.COPY_ISSUE
        if pipe == _MTE2:
            rate, latency = self._rates.read, cost.READ_LATENCY
        elif pipe == _MTE3:
            rate, latency = self._rates.write, cost.WRITE_LATENCY
        else:
            rate, latency = self._rates.local, cost.LOCAL_LATENCY
        moved = start + max(issue, math.ceil(size / rate))
        if operands[0][0] >= 0 or operands[1][0] >= 0:
            moved = max(moved, self._channel.take(start, math.ceil(size / self._rates.share), self._now))
        self._free[pipe] = moved
        self._put(pipe, start, moved + latency)

    def _cube(
        self,
        row: Row,
        pipe: int,
        dtype: int,
        imm: tuple[int, ...],
        operands: tuple[tuple[int, int, int], ...],
        start: int,
    ) -> None:
        """mmad, fixpipe, and the copies that rearrange."""
        rates = self._rates
        if row.kind == Kind.CUBE:
            end = start + cost.cube_cycles(dtype, imm)
            self._free[pipe] = end
            self._put(pipe, start, end)
            return
        if row.kind == Kind.FIX:
            read, size, rows = cost.fix_size(dtype, imm)
            rate, latency = min(rates.fix, rates.fix * size / max(read, 1)), cost.FIX_LATENCY
        else:
            size, rows = cost.load_size(row, dtype, imm)
            rate = rates.load.get(operands[0][0], rates.local)
            latency = cost.LOAD_LATENCY
            if pipe == _MTE2:
                rate, latency = rates.read, cost.READ_LATENCY
            elif pipe == _MTE3:
                rate, latency = rates.write, cost.WRITE_LATENCY
        moved = start + max(cost.COPY_ISSUE + (rows - 1) * cost.BURST_ISSUE, math.ceil(size / rate))
        if any(operand[0] >= 0 for operand in operands):
            moved = max(moved, self._channel.take(start, math.ceil(size / rates.share), self._now))
        self._free[pipe] = moved
        self._put(pipe, start, moved + latency)

    def set_flag(self, event: int, identity: int) -> None:
        """The flag is up when everything before it on its pipe is done."""
        source = EVENT_PIPES[event][0]
        self._now += cost.ISSUE
        when = max(self._now, self._done[source], self._free[source])
        self._flags[event, identity] = when
        self._starts.append(when)
        self._ends.append(when)

    def wait_flag(self, event: int, identity: int) -> None:
        """The pipe (or the scalar unit) stands until the flag is up."""
        waits = EVENT_PIPES[event][1]
        self._now += cost.ISSUE
        self._hold(waits, self._flags.pop((event, identity), 0))

    def _hold(self, pipe: int, until: int) -> None:
        start = max(self._now, self._free[pipe])
        if pipe == _S:
            start = self._now
            self._now = max(self._now, until)
        elif until > self._free[pipe]:
            self._free[pipe] = until
        self._starts.append(start)
        self._ends.append(max(start, until))

    def barrier(self, pipe: int) -> None:
        """A pipe, or all, finish what they have."""
        self._now += cost.ISSUE
        if pipe != ALL_PIPES:
            self._hold(pipe, self._done[pipe])
            return
        start = self._now
        self._now = max(self._now, *self._done)
        self._free = [max(free, self._now) for free in self._free]
        self._starts.append(start)
        self._ends.append(self._now)

    def queue(self, op: int, buffer: Buffer | None) -> None:
        """A call of a queue; its events are flags between the queue's two pipes."""
        before = self._now
        self._now = now = before + _QUEUE_CALL
        if buffer is not None:
            queue = buffer.queue
            if op == _ENQUE:
                done = self._done[queue.produces]
                self._full[buffer] = done if done > now else now
            elif op == _FREE:
                done = self._done[queue.consumes]
                self._empty[buffer] = done if done > now else now
            elif op == _DEQUE:
                ready = self._full.get(buffer, 0)
                if ready > self._free[queue.consumes]:
                    self._free[queue.consumes] = ready
            elif op == _ALLOC:
                ready = self._empty.get(buffer, 0)
                if ready > self._free[queue.produces]:
                    self._free[queue.produces] = ready
        self._put(_S, before, now)

    def now_ns(self) -> int:
        """The scalar unit's time since the block's start, in ns."""
        return self._now * 1000 // self._soc.vector_mhz

    def timing(self) -> Timing:
        """The finished timelines; call once, after the last instruction."""
        import numpy as np

        mhz = self._soc.vector_mhz
        launch = cost.launch_ns(self._blocks)

        def ns(cycles: int) -> int:
            return (cycles * 1000 + mhz // 2) // mhz

        spans = np.stack([np.array(self._starts, dtype=np.int64), np.array(self._ends, dtype=np.int64)], axis=1)
        bounds = [*(first for first, _ in self._marks), len(self._starts)]
        for number, (first, unit) in enumerate(self._marks):
            spans[first : bounds[number + 1]] += self._placed[unit][1]
        placed = [
            (core, launch + ns(begin), launch + ns(self._over[unit]))
            for unit, (core, begin) in sorted(self._placed.items())
        ]
        busy = {Pipe(pipe).name: ns(cycles) for pipe, cycles in enumerate(self._busy) if cycles}
        total = launch + ns(max(self._over.values(), default=0))
        return Timing(total, launch, busy, tuple(placed), launch + (spans * 1000 + mhz // 2) // mhz, self._cores)
