"""A kernel launch: instructions are executed at once, recorded, judged and timed.

A face makes a :class:`Launch`, starts each block and issues instructions; :func:`replay` feeds the
instructions of a record through the same :meth:`Launch.apply`. Blocks run one after another; one that has to
wait for others gives its turn away (``turns.py``), and the record says so.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cannlab.errors import Diagnosis, Place, diagnose
from cannlab.errors.places import place_of
from cannlab.machine.core import crossing, cube, layout
from cannlab.machine.core.access import element_size
from cannlab.machine.core.cost import CROSS_FLAG, CROSS_MEMORY, vector_cycles
from cannlab.machine.core.crossing import MOST_FLAG, MOST_SETS, Crossing, Signal
from cannlab.machine.core.dtypes import CODES, unpack
from cannlab.machine.core.faults import KernelFault
from cannlab.machine.core.fold import Later, Restart, judged
from cannlab.machine.core.fractals import MAX_EXTENT
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.modes import DATA, WHOLE, Mode, current
from cannlab.machine.core.opcodes import BY_NAME, ROWS, Kind, Row, type_names
from cannlab.machine.core.ordering import SYNCS, Ordering
from cannlab.machine.core.pipes import (
    ALIGN,
    ALL_PIPES,
    BLOCK,
    CUBE_CORE,
    GM,
    MAX_REPEAT,
    PATHS,
    RESERVED_EVENT_IDS,
    VECTOR_CORE,
    HardEvent,
    Pipe,
    Space,
    capacity,
    spaces,
    usable,
)
from cannlab.machine.core.queues import MAX_BUFFERS, MAX_LIVE, Buffer, Queue, State
from cannlab.machine.core.schedule import Part, Schedule, Timing
from cannlab.machine.core.turns import Turns
from cannlab.machine.core.units import LAYOUTS, MIXED, Unit, at_once, units
from cannlab.soc import soc as chips
from cannlab.soc.soc import Soc
from cannlab.trace.kernel import KernelTrace

WARNINGS = frozenset(
    {
        "kernel.tail_lost",
        "kernel.gm_spare",
        "kernel.reserved_event",
        "kernel.nested_constants",
        "kernel.compare_tail",
        "kernel.load_repeat_order",
        "kernel.queue_unfreed",
    }
)
"""Rules whose breaking is told but does not fail the launch."""
_MOST_REPORTS = 100

_SET_FLAG, _WAIT_FLAG, _BARRIER = (BY_NAME[name].number for name in ("set_flag", "wait_flag", "pipe_barrier"))
_INIT, _ALLOC, _ENQUE, _DEQUE, _FREE, _RESET = (
    BY_NAME[name].number
    for name in ("queue_init", "queue_alloc", "queue_enque", "queue_deque", "queue_free", "pipe_reset")
)
_BLOCK_START, _BLOCK_PAUSE = BY_NAME["block_start"].number, BY_NAME["block_pause"].number
_CROSS_SET, _CROSS_WAIT, _SYNC_ALL, _IB_SET = crossing.SET, crossing.WAIT, crossing.ALL, crossing.IB_SET
_SEND, _RECEIVE = crossing.SEND, crossing.RECEIVE
_TELLS = frozenset({_SEND, _CROSS_SET, _SYNC_ALL, crossing.SOFT, _IB_SET, crossing.IB_WAIT, crossing.NOTIFY})
_FROM_ZERO = frozenset({crossing.SOFT, _IB_SET, crossing.NOTIFY})
_MOST_WAITS = 8
_POOL_RESET = BY_NAME["pool_reset"].number
_QUEUE, _VECTOR, _SCALAR, _MOVE, _CROSS = Kind.QUEUE, Kind.VECTOR, Kind.SCALAR, Kind.MOVE, Kind.CROSS
_FIX, _FLAG = Kind.FIX, Kind.FLAG
_MOST_FINE = 16384
_ALLOCATED, _ENQUEUED, _DEQUEUED = State.ALLOCATED, State.ENQUEUED, State.DEQUEUED
_SPACE_NAMES = {int(space): space.name for space in Space} | {
    int(Space.BIAS): "bias table",
    int(Space.FIXBUF): "FB",
    int(Space.INDEX): "index buffer",
}
INT32 = CODES["int32"]
_MASKS = {int(space): align - 1 for space, align in ALIGN.items()}


def _where(row: Row, place: int) -> str:
    """Where an operand may lie, for a person."""
    if not row.spaces:
        return "a buffer from which or to which there is a way"
    return " or ".join(_SPACE_NAMES.get(space, "global memory") for space in sorted(row.spaces[place], reverse=True))


def _names(found: Sequence[Unit]) -> str:
    """Cores for a person, not too many of them: "blocks 0, 1, 2 and 5 more (AIV)"."""
    kinds: dict[str, list[int]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each.block)
    parts = []
    for kind, blocks in kinds.items():
        shown = ", ".join(str(block) for block in blocks[:4]) + (f" and {len(blocks) - 4} more" if blocks[4:] else "")
        parts.append(f"block{'s' if blocks[1:] else ''} {shown} ({kind})")
    return ", ".join(parts)


def _s(found: Sequence[Unit]) -> str:
    """The ending of their verb."""
    return "s" if len(found) == 1 else ""


@dataclass(frozen=True, slots=True)
class Result:
    """What a launch came to.

    Attributes:
        outputs: the bytes of every argument in global memory, uint8, in order; empty for a launch without data.
        diagnoses: broken rules, in the order found; empty for a correct kernel.
        warnings: what is worth telling although the launch goes through.
        timing: simulated time.
        trace: the record of the launch.
    """

    outputs: list[NDArray[np.uint8]]
    diagnoses: list[Diagnosis]
    warnings: list[Diagnosis]
    timing: Timing
    trace: KernelTrace


class Launch:
    """One launch of a kernel over ``blocks`` blocks.

    Args:
        name: the kernel's name.
        arguments: arrays in global memory, allocations 0, 1, ... of the operands; read, never written.
        blocks: how many blocks run.
        soc: the chip; the emulated one by default.
        sync: "auto" or "strict": is the compiler's automatic synchronisation assumed? "inserted": the front end puts
            all synchronisation inside a core in itself (automatic tensors).
        scalars: plain arguments, for the record only (JSON values).
        mode: what is left out: the judgement of the order, the data effects (for the time alone).
        cores: which cores of a split chip run the blocks: "AIV", "AIC", or both ("MIX_1_1", "MIX_1_2").
        later: order and time are judged when the launch is over (see fold), but for a mixed launch; not for cores that
            wait for each other.

    Attributes:
        trace, diagnoses, warnings: as in :class:`Result`.
        disordered: a rule of order was broken.
        units: the cores' runs of the kernel, in the order in which they begin.
        unit: the running one. block: what get_block_idx says there; blocks: how many there are.
        cores: which kind of core is running.
        probing: False: instructions have effects (a face's pass before the launch has a stand-in where it is True).
    """

    probing = False

    def __init__(
        self,
        name: str,
        arguments: Sequence[NDArray[Any]],
        blocks: int,
        *,
        soc: Soc | None = None,
        sync: str = "auto",
        scalars: Sequence[Any] = (),
        mode: Mode = WHOLE,
        cores: str = VECTOR_CORE,
        later: bool = False,
    ) -> None:
        if cores not in LAYOUTS:
            raise ValueError(f"cores are {' or '.join(LAYOUTS)}, not {cores!r}")
        if sync not in SYNCS:
            raise ValueError(f"sync is {', '.join(map(repr, SYNCS))}, not {sync!r}")
        self.soc = soc or chips.current()
        if cores in MIXED and not self.soc.split:
            raise ValueError(f"{self.soc.name} has no separate cube and vector cores: a launch cannot be mixed there")
        self.sync = sync
        self._mode = mode
        self._checks, self._data = mode
        self._later = later = later and cores not in MIXED
        self._given = arguments
        self.blocks = blocks
        self._event_ids = min(self.soc.event_ids, *RESERVED_EVENT_IDS)
        """Ids from 0 on of which nothing is told."""
        self.units = units(blocks, cores)
        self.at_once = at_once(self.soc, cores)
        self.unit = self.units[0]
        self.cores = self.unit.kind
        self.block = -1
        self.memory = Memory(self.soc, list(arguments), mode.data)
        self.trace = KernelTrace(
            {
                "name": name,
                "blocks": blocks,
                "soc": self.soc.name,
                "sync": sync,
                "cores": cores,
                "arguments": [
                    {"dtype": array.dtype.name, "shape": list(array.shape), "bytes": int(array.nbytes)}
                    for array in arguments
                ],
                "scalars": list(scalars),
                "files": [],
                **mode.said,
            }
        )
        self._files: dict[str, int] = {}
        self._labels: dict[int, int] = {}
        self._codes: list[CodeType] = []
        """Keeps the labelled code alive, so that no other gets its identity."""
        self._fine: dict[tuple[Any, ...], int] = {}
        """Instructions on local buffers that broke no rule of their own, and the cycles of the vector's."""
        self._ways: set[tuple[int, ...]] = set()
        """Operations with the spaces of their operands, found legal."""
        self._by_kind: dict[str, tuple[dict[tuple[Any, ...], int], set[tuple[int, ...]], dict[int, int]]] = {}
        self.diagnoses: list[Diagnosis] = []
        self.warnings: list[Diagnosis] = []
        self._told: set[tuple[object, ...]] = set()
        self.disordered = False
        self.told: list[tuple[int, str, Place | None, dict[str, Any]]] = []
        """What the face told: before which instruction, the rule, where, and the facts."""
        self._ordering: Any = Later()
        self._schedule: Any = self._ordering
        if not later:
            # What the automatic synchronisation waits for costs time, so there the order is followed in any case.
            if mode.checks or sync != "strict":
                self._ordering = Ordering(self.memory, self._from_ordering, sync, len(self.units))
            self._schedule = Schedule(self.soc, blocks, cores)
        self._limits: dict[int, int] = {}
        self._crossing = Crossing(self.units)
        self.waits: dict[int, tuple[int, tuple[int, ...], tuple[tuple[int, int, int], ...], int]] = {}
        """Unit -> the instruction between cores at which it stands, and its number."""
        self.letters: dict[int, deque[Any]] = {}
        """Unit -> what the messages for it say, in order; the face's."""
        self._begun: set[int] = set()
        self._away: dict[int, tuple[Any, ...]] = {}
        """Units that wait: what is theirs."""
        self._paused = False
        self.peeks = 0
        self.passed = 0
        """Units that were repeated since the caller asked last."""
        self.loops: dict[Any, Any] = {}
        """What the face knows of the kernel's loops."""
        self.blocks_alike: Any = None
        """And of its blocks."""
        self.pause: Callable[[], None] | None = None
        """Lets other cores run until this one may go on; None where nobody else can run."""
        self._of_kind(self.cores)
        self._reset()

    def _reset(self) -> None:
        self.queues: list[Queue] = []
        self.live: dict[int, int] = {}
        self._buffers = 0

    # -- what faces call ------------------------------------------------------------------------------

    def _of_kind(self, kind: str) -> None:
        """The limits of a kind of core, and what is known to be legal there."""
        found = self._by_kind.get(kind)
        if found is None:
            limits = dict(enumerate(self.memory.sizes))
            limits |= {int(space): self.memory.limit(int(space)) for space in spaces(self.soc, kind)}
            found = self._by_kind[kind] = ({}, set(), limits)
        self.cores = kind
        self._fine, self._ways, self._limits = found

    def start_block(self, unit: int) -> None:
        """Begin a unit (a block, where cores of one kind run); the one before it is finished or waits."""
        which = self.units[unit]
        mixed = (unit,) if len(self.units) > self.blocks else ()
        self.apply(_BLOCK_START, int(Pipe.S), 0, 0, 0, (which.block, self.blocks, *mixed), ())

    def cross(self, op: int, pipe: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...] = ()) -> None:
        """An instruction between cores; other cores run until it may be passed.

        Raises:
            KernelFault: no core can release this one, or a rule at which the core stops.
        """
        if self._later:
            raise Restart
        while not self._crossing.ready(self.unit, op, imm, operands):
            self.waits[self.unit.number] = (op, imm, operands, len(self.trace.starts))
            self.issue(_BLOCK_PAUSE, int(Pipe.S), 0, ())
            if self.pause is None:
                self.deadlock()
            else:
                self.pause()
        self.issue(op, pipe, 0, imm, operands)

    def may_go_on(self, unit: int) -> bool:
        """Is what a waiting unit waits for there?"""
        op, imm, operands, _ = self.waits[unit]
        return self._crossing.ready(self.units[unit], op, imm, operands)

    def serves(self, unit: int) -> bool:
        """Is a waiting unit a cube core that waits for requests?"""
        return self.waits[unit][0] == _RECEIVE and self.units[unit].kind == CUBE_CORE

    def go_on(self, unit: int) -> None:
        """Back to a unit that waited; the running one is finished or waits."""
        self._put_away(len(self.trace.starts))
        which = self.units[unit]
        self.unit, self.block = which, which.block
        self.waits.pop(unit, None)
        self.queues, self.live, self._buffers, memory, ordering, schedule = self._away.pop(unit)
        self._of_kind(which.kind)
        self.memory.enter(memory)
        self._ordering.enter(ordering)
        self._schedule.enter(schedule)

    def _put_away(self, number: int) -> None:
        """The running unit waits, or it is over."""
        if not self._paused:
            self._end_block(number)
            return
        self._paused = False
        self._away[self.unit.number] = (
            self.queues,
            self.live,
            self._buffers,
            self.memory.leave(),
            self._ordering.leave(),
            self._schedule.leave(),
        )
        self.block = -1

    def deadlock(self) -> NoReturn:
        """Every core that is not over waits, and none can release another.

        Raises:
            KernelFault: always.
        """
        waits = sorted(self.waits.items())
        reasons: dict[str, list[Unit]] = {}
        lines: dict[Place, list[Unit]] = {}
        for unit, (op, imm, operands, number) in waits:
            reasons.setdefault(self._reason(unit, op, imm, operands), []).append(self.units[unit])
            if (place := self.place(number)) is not None:
                lines.setdefault(place, []).append(self.units[unit])
        told = [f"{_names(each)} wait{_s(each)} for {reason}" for reason, each in reasons.items()]
        if len(told) > _MOST_WAITS:
            told[_MOST_WAITS:] = [f"and {len(told) - _MOST_WAITS} more such waits"]
        first = waits[0][1][3]
        others = tuple(
            (f"{_names(each)} wait{_s(each)} at", place)
            for place, each in list(lines.items())[:_MOST_WAITS]
            if place != self.place(first)
        )
        found = diagnose(
            "kernel.deadlock",
            where=self.place(first),
            others=others,
            kernel=self.trace.meta["name"],
            block=self.units[waits[0][0]].block,
            count=len(waits),
            waits="; ".join(told),
        )
        self.diagnoses.append(found)
        raise KernelFault(found)

    def _reason(self, unit: int, op: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...]) -> str:
        what, absent = self._crossing.missing(self.units[unit], op, imm, operands)
        states: dict[str, list[Unit]] = {}
        for each in absent:
            state = "wait" if each.number in self.waits else "end" if each.number in self._begun else "begin"
            states.setdefault(state, []).append(each)
        said = {
            "wait": lambda found: f"wait{_s(found)} too",
            "end": lambda found: f"ha{'s' if len(found) == 1 else 've'} ended without it",
            "begin": lambda found: f"cannot begin (the chip runs {self.at_once} at a time)",
        }
        parts = [f"{_names(found)} {said[state](found)}" for state, found in states.items()]
        return f"{what}: {', '.join(parts)}" if parts else what

    def issue(
        self,
        op: int,
        pipe: int,
        dtype: int,
        imm: tuple[int, ...],
        operands: tuple[tuple[int, int, int], ...] = (),
    ) -> None:
        """Execute and record an instruction; the place is the caller's line.

        Raises:
            KernelFault: a rule at which the core stops.
        """
        frame = sys._getframe(1)
        labels = self._labels
        while True:
            # By identity: a code object's hash goes through all of its constants.
            number = labels.get(id(frame.f_code), -1)
            if number == -1:
                number = self._label(frame.f_code)
            if number or frame.f_back is None:
                break
            frame = frame.f_back
        self.apply(op, pipe, dtype, number, frame.f_lineno if number else 0, imm, operands)

    def line(self) -> tuple[int, int]:
        """The caller's file, by its number in the record, and line: for instructions that are issued elsewhere."""
        frame = sys._getframe(1)
        while True:
            number = self._labels.get(id(frame.f_code), -1)
            if number == -1:
                number = self._label(frame.f_code)
            if number or frame.f_back is None:
                return number, frame.f_lineno if number else 0
            frame = frame.f_back

    def _label(self, code: CodeType) -> int:
        from cannlab.errors.places import label as learner_file

        label = learner_file(code)
        number = 0 if label is None else self._file(label)
        self._labels[id(code)] = number
        self._codes.append(code)
        return number

    def _file(self, label: str) -> int:
        known = self._files.get(label)
        if known is None:
            known = self._files[label] = len(self._files) + 1
            self.trace.meta["files"].append(label)
        return known

    def now_ns(self) -> int:
        """Simulated time of the scalar unit since the block's start, in ns."""
        now: int = self._schedule.now_ns()
        return now

    def load(self, operand: tuple[int, int, int], code: int) -> Any:
        """get_value: the element as a Python number; recorded and timed."""
        self.issue(161, 0, code, (), (operand,))
        return self.peek().view(operand, code)[0].item()

    def peek(self) -> Memory:
        """The memory, for a face that goes by what lies there: its turns do not go alike (see :meth:`repeat`)."""
        self.peeks += 1
        return self.memory

    @property
    def repeats(self) -> bool:
        """May turns of a loop be repeated? Where the order is judged later."""
        return self._later

    def block_over(self) -> None:
        """The running block issues nothing more: what has to be told at its end."""
        self._end_block(len(self.trace.starts))

    def took_over(self, count: int) -> None:
        """So many blocks more went like those before them: the last of them is the running one."""
        first = self.unit.number + 1
        self._begun.update(range(first, first + count))
        self.unit = self.units[self.unit.number + count]
        self.block = self.unit.block
        self.passed += count

    @property
    def data(self) -> bool:
        """Are data effects computed?"""
        return self._data

    def told_so_far(self) -> tuple[int, int, int, int]:
        """Grows with all that is told, and with every look at the memory."""
        return len(self._told), len(self.told), len(self.diagnoses), self.peeks

    def learner_code(self, code: CodeType) -> bool:
        """Is it the learner's?"""
        number = self._labels.get(id(code), -1)
        return bool(self._label(code) if number == -1 else number)

    # -- one instruction ------------------------------------------------------------------------------

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
        """Record, judge, execute and time an instruction whose place is known."""
        row = ROWS[op]
        trace = self.trace
        number = len(trace.starts)
        trace.add(
            op,
            self.unit[0] if op != _BLOCK_START else imm[-1 if len(imm) > 2 else 0],
            pipe,
            dtype,
            file,
            line,
            imm,
            operands,
        )
        kind = row.kind
        if kind is _QUEUE:
            self._queue(number, op, imm, operands)
            return
        if kind is _FLAG and self._later and 0 <= imm[1] < self._event_ids:
            return
        if kind is _VECTOR or (_MOVE < kind < _FIX and operands[0][0] < 0 > operands[-1][0]):
            # Asked once for each form: what lies in local buffers comes again and again.
            key = (op, dtype, imm, operands)
            cycles = self._fine.get(key)
            if cycles is None:
                fine = self._judge(number, row, dtype, imm, operands)
                cycles = vector_cycles(row, dtype, imm, operands) if kind is _VECTOR else 0
                if fine and len(self._fine) < _MOST_FINE:
                    self._fine[key] = cycles
        elif kind > _SCALAR:
            if kind is _CROSS:
                self._cross(number, row, pipe, imm, operands)
            else:
                self._control(number, row, imm)
            return
        else:
            cycles = 0
            if self._checks or kind is not _MOVE:
                self._judge(number, row, dtype, imm, operands)
            else:
                self._within(number, row, operands)
        if self._later:
            if self._data:
                row.execute(self.memory, dtype, imm, operands)
            return
        ordering = self._ordering
        ordering.access(number, row, pipe, dtype, imm, operands)
        if self._data:
            row.execute(self.memory, dtype, imm, operands)
            if ordering._unsettled:
                ordering.settle()
        self._schedule.run(row, pipe, dtype, imm, operands, ordering.waited, cycles)

    def _within(self, number: int, row: Row, operands: tuple[tuple[int, int, int], ...]) -> None:
        """The bounds of memory alone."""
        limits = self._limits
        for allocation, offset, size in operands:
            limit = limits.get(allocation, 0)
            if offset < 0 or offset + size > limit:
                self._outside(number, row, allocation, offset, size, limit)

    def _judge(
        self,
        number: int,
        row: Row,
        dtype: int,
        imm: tuple[int, ...],
        operands: tuple[tuple[int, int, int], ...],
    ) -> bool:
        """The rules of one instruction by itself: where its operands lie, their alignment, types and sizes.

        True when it broke none of them (some are told without stopping the core).
        """
        kind = row.kind
        align = row.align
        limits = self._limits
        if kind is not _SCALAR:
            way = (row.number, *[operand[0] if operand[0] < 0 else 0 for operand in operands])
            if way not in self._ways:
                self._places(number, row, operands)
                self._ways.add(way)
        for place, (allocation, offset, size) in enumerate(operands):
            limit = limits.get(allocation, 0)
            if offset < 0 or offset + size > limit:
                self._outside(number, row, allocation, offset, size, limit)
            if allocation < 0 and offset & _MASKS[allocation] and (align[place] or offset % element_size(dtype, place)):
                self._fault(
                    "kernel.alignment",
                    number,
                    name=row.name,
                    operand=place,
                    buffer=_SPACE_NAMES[allocation],
                    offset=offset,
                    align=ALIGN[allocation] if align[place] else element_size(dtype, place),
                )
        if kind is _VECTOR:
            return self._vector(number, row, dtype, imm, operands)
        if kind is not _SCALAR and kind is not _MOVE:
            self._cube(number, row, dtype, imm, operands)
        return True

    def _places(self, number: int, row: Row, operands: tuple[tuple[int, int, int], ...]) -> None:
        """May the operands lie where they are? Which core has them is asked first."""
        for allocation, _, _ in operands:
            if allocation < min(Space):
                self._fault("kernel.no_address", number, name=row.name)
            if allocation < 0 and allocation not in self._limits:
                self._foreign_buffer(number, row.name, allocation)
        for place, (allocation, _, _) in enumerate(operands):
            if row.spaces:
                lies = min(allocation, GM) in row.spaces[place]
            else:
                lies = len(operands) < 2 or (min(operands[1][0], GM), min(operands[0][0], GM)) in PATHS
            if not lies:
                self._fault(
                    "kernel.wrong_buffer",
                    number,
                    name=row.name,
                    operand=place,
                    buffer=_SPACE_NAMES.get(allocation, "global memory"),
                    wanted=_where(row, place),
                )

    def _cube(
        self, number: int, row: Row, dtype: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...]
    ) -> None:
        """Rules of the loads, of mmad and of fixpipe."""
        types = row.types
        if row.kind == Kind.CUBE:
            types = row.types if cube.is_sparse(dtype) else cube.legal(self.soc.split, len(operands) > 3)
            if not all(0 <= each <= MAX_EXTENT for each in imm):
                self._fault("kernel.mmad_extent", number, m=imm[0], n=imm[1], k=imm[2], most=MAX_EXTENT)
        elif row.kind == Kind.FIX:
            types = cube.result_types(imm[4], len(operands) > 2)
        if types and dtype not in types:
            legal = "; ".join(type_names(packed) for packed in sorted(types)) or "nothing"
            self._fault("kernel.dtype", number, name=row.name, types=type_names(dtype), legal=legal, soc=self.soc.name)

    def _vector(
        self, number: int, row: Row, dtype: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...]
    ) -> bool:
        fine = True
        if row.types and dtype not in row.types:
            legal = "; ".join(type_names(packed) for packed in sorted(row.types))
            self._fault("kernel.dtype", number, name=row.name, types=type_names(dtype), legal=legal, soc=self.soc.name)
        if imm and imm[0] == layout.MASK and len(imm) >= 10 and not 0 <= imm[1] <= MAX_REPEAT:
            self._fault("kernel.repeat", number, name=row.name, repeat=imm[1])
        if row.lanewise and len(operands) > 1 and imm[0] == layout.COUNT:
            target = operands[0]
            for place, source in enumerate(operands[1:], start=1):
                if source[0] != target[0] or source[2] != target[2]:
                    continue
                step = target[1] - source[1]
                if 0 < step < source[2] or (step < 0 and -step < source[2] and -step % 256):
                    fine = False
                    self._tell(
                        "kernel.alias", number, (), name=row.name, operand=place, step=step, codes=unpack(dtype)[0]
                    )
        return fine

    def _outside(self, number: int, row: Row, allocation: int, offset: int, size: int, limit: int) -> None:
        if allocation < min(Space):
            self._fault("kernel.no_address", number, name=row.name)
        if allocation < 0 and allocation not in self._limits:
            self._foreign_buffer(number, row.name, allocation)
        facts: dict[str, Any] = {"name": row.name, "offset": offset, "end": offset + size, "limit": limit}
        if allocation >= 0:
            from cannlab.machine.core.pipes import GM_SLACK

            if offset >= 0 and offset + size <= limit + GM_SLACK:
                self._tell("kernel.gm_spare", number, (), argument=allocation, **facts)
                return
            self._fault("kernel.gm_range", number, argument=allocation, **facts)
        self._fault("kernel.local_range", number, buffer=_SPACE_NAMES.get(allocation, "?"), **facts)

    def _foreign_buffer(self, number: int, name: str, allocation: int) -> NoReturn:
        """A buffer that the running core does not have."""
        buffer = _SPACE_NAMES.get(allocation, "?")
        if not any(space == allocation and capacity(self.soc, space) for space in Space):
            self._fault("kernel.not_on_chip", number, name=f"the {buffer}", soc=self.soc.name)
        mine, other = ("vector", "cube") if self.cores == VECTOR_CORE else ("cube", "vector")
        self._fault("kernel.core_kind", number, name=name, buffer=buffer, cores=mine, other=other)

    # -- control --------------------------------------------------------------------------------------

    def _control(self, number: int, row: Row, imm: tuple[int, ...]) -> None:
        op = row.number
        ordering, schedule = self._ordering, self._schedule
        if op in (_SET_FLAG, _WAIT_FLAG):
            event, identity = imm
            if not 0 <= identity < self.soc.event_ids:
                self._fault("kernel.event_id", number, event=HardEvent(event).name, id=identity, ids=self.soc.event_ids)
            if op == _SET_FLAG:
                if identity in RESERVED_EVENT_IDS:
                    self._tell("kernel.reserved_event", number, (), event=HardEvent(event).name, id=identity)
                ordering.set_flag(event, identity, number)
                schedule.set_flag(event, identity)
            else:
                if not ordering.wait_flag(event, identity):
                    self._fault("kernel.wait_without_set", number, event=HardEvent(event).name, id=identity)
                schedule.wait_flag(event, identity)
        elif op == _BARRIER:
            if imm[0] == Pipe.S:
                self._fault("kernel.barrier_scalar", number)
            ordering.barrier(imm[0])
            schedule.barrier(imm[0])
        elif op == _BLOCK_START:
            self._put_away(number)
            unit = self.unit = self.units[imm[-1] if len(imm) > 2 else imm[0]]
            if self._away:
                groups = {self.units[each].group for each in self._away}
                if unit.group not in groups and len(groups) >= self.at_once:
                    raise ValueError(f"{unit.named} begins while {len(groups)} others wait on all cores of the chip")
            self.block = unit.block
            self._begun.add(unit.number)
            self._of_kind(unit.kind)
            self.memory.start_block()
            self._reset()
            ordering.start_block(number, unit.number)
            schedule.start_block(unit)
        elif op == _BLOCK_PAUSE:
            self._paused = True
            schedule.pause()

    def _cross(self, number: int, row: Row, pipe: int, imm: tuple[int, ...], operands: Any) -> None:
        """What cores tell one another."""
        op, unit = row.number, self.unit
        crossing, ordering, schedule = self._crossing, self._ordering, self._schedule
        if op in (_CROSS_SET, _CROSS_WAIT) and not 0 <= imm[0] <= MOST_FLAG:
            self._fault("kernel.cross_flag_id", number, name=row.name, id=imm[0], most=MOST_FLAG)
        if operands:
            self._judge(number, row, 0, imm, operands)
            if self._data and op in _FROM_ZERO and crossing.first(unit, op, operands):
                self._from_zero(number, row, imm, operands)
        if not crossing.ready(unit, op, imm, operands):
            raise ValueError(f"instruction {number} passes a wait that no core has released")
        every = bool(operands) or op == _SYNC_ALL
        if op == _SEND:
            pipe, every = imm[1], imm[1] == ALL_PIPES
        if every:
            ordering.barrier(ALL_PIPES)
            ordering.last[Pipe.S] = number
        heard = crossing.hear(unit, op, imm, operands)
        if heard is not None:
            ordering.hear(heard.clock)
            schedule.hear(heard.when, CROSS_MEMORY if operands or op == _RECEIVE else CROSS_FLAG)
        if op in _TELLS:
            when = schedule.tell(pipe, every) if heard is None else schedule.here()
            signal = Signal(ordering.clock(pipe), when, number)
            if not crossing.tell(unit, op, imm, operands, signal):
                self._fault("kernel.cross_flag_full", number, id=imm[0], most=MOST_SETS)
        elif heard is None:
            schedule.pause()
        if operands:
            ordering.settled(operands[1])
            if self._data:
                row.execute(self.memory, 0, imm, operands)

    def _from_zero(self, number: int, row: Row, imm: tuple[int, ...], operands: Any) -> None:
        """A core's flag in a workspace has to be 0 at its first use."""
        allocation, offset, _ = operands[0]
        at = offset if row.number == _IB_SET else offset + imm[1] * BLOCK
        value = int(self.memory.view((allocation, at, 4), INT32)[0])
        if value:
            self._tell("kernel.sync_workspace", number, (), name=row.name, argument=allocation, value=value)

    def _end_block(self, number: int) -> None:
        if self.block < 0:
            return
        self._ordering.end_block(number)
        self._schedule.end_block(self.unit)
        for queue in self.queues:
            for buffer in queue.buffers:
                if buffer.state is _ENQUEUED:
                    self._tell("kernel.queue_left", buffer.since, ())
                elif buffer.state in (_ALLOCATED, _DEQUEUED):
                    self._tell("kernel.queue_unfreed", buffer.since, (), state=buffer.state.name.lower())

    def _queue(self, number: int, op: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...]) -> None:
        if op == _RESET:
            self._ordering.disown()
            self._reset()
            self._schedule.queue(op, None)
            return
        if op == _POOL_RESET:
            self._ordering.disown_part(operands[0])
            self._schedule.queue(op, None)
            return
        if op == _INIT:
            self._init(number, imm, operands)
            self._schedule.queue(op, None)
            return
        queue = self.queues[imm[0]]
        buffer = queue.buffers[imm[1]]
        ordering, now = self._ordering, not self._later
        if op == _ALLOC:
            self.live[queue.position] = live = self.live.get(queue.position, 0) + 1
            if live > MAX_LIVE:
                self._fault("kernel.live_tensors", number, live=live, most=MAX_LIVE)
            if now:
                if buffer.empty is not None:
                    ordering.join(queue.produces, buffer.empty)
                ordering.forget(buffer)
            buffer.state = _ALLOCATED
        elif op == _ENQUE:
            if buffer.state is not _ALLOCATED:
                self._fault("kernel.enque_state", number, state=buffer.state.name.lower())
            queue.waiting.append(buffer)
            if len(queue.waiting) > queue.depth > 0:
                self._tell("kernel.queue_depth", number, (), depth=queue.depth, waiting=len(queue.waiting))
            if now:
                buffer.full = ordering.snapshot(queue.produces)
            buffer.state = _ENQUEUED
        elif op == _DEQUE:
            queue.waiting.remove(buffer)
            if now:
                assert buffer.full is not None
                ordering.join(queue.consumes, buffer.full)
            buffer.state = _DEQUEUED
        else:
            if buffer.state is State.FREE:
                self._fault("kernel.free_twice", number)
            if buffer.state is _ENQUEUED:
                self._tell("kernel.queue_enqueued", number, (("given away at", buffer.since),))
                queue.waiting.remove(buffer)
            self.live[queue.position] -= 1
            if now:
                buffer.empty = ordering.snapshot(queue.consumes)
            buffer.state = State.FREE
        buffer.since = number
        if now:
            self._schedule.queue(op, buffer)

    def _init(self, number: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...]) -> None:
        identity, position, produces, consumes, depth, whole = imm
        queue = Queue(identity, position, produces, consumes, depth, bool(whole))
        for space, start, size in operands:
            if space not in self._limits:
                self._foreign_buffer(number, "init_buffer", space)
            most = usable(self.soc, Space(space))
            if start + size > most:
                self._overflow(number, space, start, size, most)
            state = State.WHOLE if whole else State.FREE
            queue.buffers.append(Buffer(queue, len(queue.buffers), space, start, size, state))
        self._buffers += len(operands)
        if self._buffers > MAX_BUFFERS:
            self._fault("kernel.too_many_buffers", number, count=self._buffers, most=MAX_BUFFERS)
        for buffer in queue.buffers:
            self._ordering.own(buffer)
        if identity < len(self.queues):
            self.queues[identity].buffers += queue.buffers
        else:
            self.queues.append(queue)

    def _overflow(self, number: int, space: int, used: int, wanted: int, most: int) -> NoReturn:
        facts = {"used": used, "wanted": wanted, "usable": most}
        if space == Space.UB:
            self._fault("kernel.ub_overflow", number, **facts)
        self._fault("kernel.buffer_overflow", number, buffer=_SPACE_NAMES[space], **facts)

    # -- queue calls of a face -------------------------------------------------------------------------

    def queue_init(
        self,
        position: int,
        produces: int,
        consumes: int,
        depth: int,
        buffers: Sequence[tuple[int, int, int]],
        whole: bool = False,
    ) -> Queue:
        """TPipe.InitBuffer: buffers are (space, first byte, bytes)."""
        identity = len(self.queues)
        imm = (identity, position, int(produces), int(consumes), depth, int(whole))
        self.issue(_INIT, int(Pipe.S), 0, imm, tuple(buffers))
        return self.queues[identity]

    def queue_alloc(self, queue: Queue) -> Buffer:
        """AllocTensor; a queue without a free buffer would wait for ever."""
        buffer = queue.free_buffer()
        if buffer is None:
            self.stop("kernel.queue_empty", number_of=len(queue.buffers))
        self.issue(_ALLOC, int(Pipe.S), 0, (queue.number, buffer.number))
        return buffer

    def queue_enque(self, buffer: Buffer) -> None:
        """EnQue."""
        self.issue(_ENQUE, int(Pipe.S), 0, (buffer.queue.number, buffer.number))

    def queue_deque(self, queue: Queue, buffer: Buffer | None = None) -> Buffer:
        """DeQue, of a certain buffer where tensors are handed on in place; what was not enqueued never comes."""
        if not queue.waiting or (buffer is not None and buffer not in queue.waiting):
            self.stop("kernel.deque_empty")
        buffer = buffer or queue.waiting[0]
        self.issue(_DEQUE, int(Pipe.S), 0, (queue.number, buffer.number))
        return buffer

    def queue_free(self, buffer: Buffer) -> None:
        """FreeTensor."""
        self.issue(_FREE, int(Pipe.S), 0, (buffer.queue.number, buffer.number))

    def pipe_reset(self) -> None:
        """TPipe.Reset, Destroy, Init: every buffer is given back."""
        self.issue(_RESET, int(Pipe.S), 0, ())

    def pool_reset(self, space: int, start: int, size: int) -> None:
        """TBufPool.reset: the pool's buffers are given back."""
        self.issue(_POOL_RESET, int(Pipe.S), 0, (), ((space, start, size),))

    # -- telling --------------------------------------------------------------------------------------

    def place(self, number: int) -> Place | None:
        """Where in the learner's code an instruction of the record stands."""
        file, line = self.trace.place(number)
        return Place(self.trace.meta["files"][file - 1], line) if file else None

    def _from_ordering(self, rule: str, number: int, others: tuple[tuple[str, int], ...], **facts: Any) -> None:
        self.disordered = True
        self._tell(rule, number, others, **facts)

    def _tell(self, rule: str, number: int, others: tuple[tuple[str, int], ...], **facts: Any) -> None:
        """Add a diagnosis, once per rule and pair of places."""
        if not self._checks:
            return
        where = self.place(number)
        places = tuple((part, place) for part, other in others if (place := self.place(other)) is not None)
        key = (rule, where, places)
        if key in self._told or len(self._told) >= _MOST_REPORTS:
            return
        self._told.add(key)
        found = diagnose(rule, where=where, others=places, kernel=self.trace.meta["name"], block=self.block, **facts)
        (self.warnings if rule in WARNINGS else self.diagnoses).append(found)

    def warn(self, rule: str, **facts: Any) -> None:
        """A face tells something about the caller's line."""
        where = place_of(sys._getframe(1))
        self.told.append((len(self.trace.starts), rule, where, facts))
        self.tell_at(rule, where, facts)

    def tell_at(self, rule: str, where: Place | None, facts: dict[str, Any]) -> None:
        """What a face tells, at a place that is known."""
        if (rule, where) in self._told or len(self._told) >= _MOST_REPORTS:
            return
        self._told.add((rule, where))
        found = diagnose(rule, where=where, kernel=self.trace.meta["name"], block=self.block, **facts)
        (self.warnings if rule in WARNINGS else self.diagnoses).append(found)

    def stop(self, rule: str, **facts: Any) -> NoReturn:
        """A face found a rule at which the core stops; the place is the caller's line."""
        found = diagnose(
            rule,
            where=place_of(sys._getframe(1)),
            kernel=self.trace.meta["name"],
            block=self.block,
            **facts,
        )
        self.diagnoses.append(found)
        raise KernelFault(found)

    def _fault(self, rule: str, number: int, **facts: Any) -> NoReturn:
        found = diagnose(rule, where=self.place(number), kernel=self.trace.meta["name"], block=self.block, **facts)
        self.diagnoses.append(found)
        raise KernelFault(found)

    def end(self) -> None:
        """The launch is over: last checks."""
        self._end_block(len(self.trace.starts))
        for flag, where in self._crossing.left():
            if flag <= MOST_FLAG:
                self._tell("kernel.cross_flag_leaked", where, (), id=flag)
        self.block = -1

    def used(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For each argument that was used the bytes that were only read, and those that were written."""
        found: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] | None = self._ordering.arguments()
        return found or {}

    def part(self) -> Part:
        """The times of a launch of one block, which is over."""
        found: Part = self._schedule.part()
        return found

    def finish(self) -> Result:
        """The launch is over: last checks, time and outputs."""
        self.end()
        timing: Timing | None = None
        if not self._later:
            timing = self._schedule.timing()
        else:
            timing = judged(self, self._fresh, order=self._checks)
            if timing is None:
                return self.exactly()
        outputs = self.memory.outputs() if self._data else []
        return Result(outputs, self.diagnoses, self.warnings, timing, self.trace)

    def _fresh(self) -> Launch:
        """Another launch like this one, for its order and time alone; for the time alone where that is all that is
        asked, and where nothing waits for what the scalar unit does."""
        sync = self.sync
        if sync == "auto" and not self._checks and not _scalar(self.trace):
            sync = "strict"
        checks = self._checks or sync != "strict"
        return like(self.trace, self._given, mode=Mode(checks, False), sync=sync)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Around the instructions: while judging is put off, an earlier one may be where the core really stops.

        Raises:
            KernelFault: a rule at which the core stops, the first one.
        """
        try:
            yield
        except KernelFault:
            if self._later:
                self.exactly()
            raise

    def exactly(self) -> Result:
        """The recorded launch once more, judged instruction by instruction.

        Raises:
            KernelFault: a rule at which the core stops.
        """
        return again(like(self.trace, self._given, mode=self._mode), self.trace, self.told).finish()


def run(
    name: str,
    body: Callable[[Launch], None],
    arguments: Sequence[NDArray[Any]],
    blocks: int,
    *,
    soc: Soc | None = None,
    sync: str = "auto",
    scalars: Sequence[Any] = (),
    cores: str = VECTOR_CORE,
    apart: bool = False,
    mode: Mode | None = None,
) -> Result:
    """Run a kernel on arrays: ``body`` is called once per block (per core of a mixed launch), with the launch at it.

    ``apart``: the kernel's cores neither wait for each other nor read the time, as far as its text tells.
    ``mode``: what is left out; by default what the environment asks for.

    Floating-point warnings of numpy are silenced: on the chip they do not exist.

    Raises:
        KernelFault: a rule at which the core stops.
        ValueError: the environment asks for a mode that there is not.
    """
    mode = current() if mode is None else mode
    launch = Launch(name, arguments, blocks, soc=soc, sync=sync, scalars=scalars, mode=mode, cores=cores, later=apart)
    try:
        with launch.stopping():
            Turns(launch, body).run()
    except Restart:
        return run(name, body, arguments, blocks, soc=soc, sync=sync, scalars=scalars, cores=cores, mode=mode)
    return launch.finish()


def replay(trace: KernelTrace, inputs: Sequence[NDArray[Any]]) -> Result:
    """Run a record's instructions on inputs, through the same path as the live launch.

    Args:
        trace: the record of a launch.
        inputs: one array per argument in global memory, of the sizes that the record names.

    Everything is judged and computed, whatever the live launch left out.

    Raises:
        ValueError: the inputs do not fit the record, or it was made without data.
        KernelFault: as the live launch.
    """
    meta = trace.meta
    with_data(trace)
    wanted = [argument["bytes"] for argument in meta["arguments"]]
    given = [int(array.nbytes) for array in inputs]
    if wanted != given:
        raise ValueError(f"the record has arguments of {wanted} bytes, the inputs have {given}: give fitting arrays")
    launch = like(trace, inputs, later=not _crosses(trace))
    with launch.stopping():
        again(launch, trace)
    return launch.finish()


def with_data(trace: KernelTrace) -> None:
    """A launch without data may have gone another way than one with them.

    Raises:
        ValueError: the record is of one.
    """
    if trace.meta.get("data") == "off":
        raise ValueError(f"the record was made with {DATA}=off: it computes nothing; launch the kernel without")


def _ops(trace: KernelTrace) -> list[int]:
    """The operations of a record, each once."""
    words = np.frombuffer(trace.words, dtype=np.int64)
    ops: list[int] = np.unique(words[np.frombuffer(trace.starts, dtype=np.int64)]).tolist()
    return ops


def _crosses(trace: KernelTrace) -> bool:
    """Are there instructions between cores?"""
    return any(ROWS[op].kind is _CROSS or op == _BLOCK_PAUSE for op in _ops(trace))


def _scalar(trace: KernelTrace) -> bool:
    """Does the scalar unit read or write memory?"""
    return any(ROWS[op].kind is _SCALAR for op in _ops(trace))


def timing(trace: KernelTrace) -> Timing:
    """The simulated time of a record, from the record alone: no inputs, no data effects."""
    empty = [np.zeros(argument["bytes"], dtype=np.uint8) for argument in trace.meta["arguments"]]
    return again(like(trace, empty, mode=WHOLE._replace(data=False)), trace).finish().timing


def like(
    trace: KernelTrace,
    inputs: Sequence[NDArray[Any]],
    *,
    mode: Mode = WHOLE,
    later: bool = False,
    kind: type[Launch] | None = None,
    sync: str = "",
) -> Launch:
    """A launch like the recorded one, at its beginning; ``sync`` in place of its own."""
    meta = trace.meta
    launch = (kind or Launch)(
        meta["name"],
        inputs,
        meta["blocks"],
        soc=chips.get(meta["soc"]),
        sync=sync or meta["sync"],
        scalars=meta["scalars"],
        mode=mode,
        cores=meta.get("cores", VECTOR_CORE),
        later=later,
    )
    launch.trace.meta.update({key: value for key, value in meta.items() if key not in ("files", *Mode._fields)})
    for label in meta["files"]:
        launch._file(label)
    return launch


def again(
    launch: Launch, trace: KernelTrace, told: Sequence[tuple[int, str, Place | None, dict[str, Any]]] = ()
) -> Launch:
    """The record's instructions, on a launch at its beginning; it is not finished. What the face told is told again."""
    tells = list(reversed(told))
    with np.errstate(all="ignore"):
        for number, (op, core, pipe, dtype, file, line, imm, operands) in enumerate(trace):
            while tells and tells[-1][0] <= number:
                launch.tell_at(*tells.pop()[1:])
            if core != launch.unit.number and op != _BLOCK_START:
                launch.go_on(core)
            launch.apply(op, pipe, dtype, file, line, imm, operands)
    return launch
