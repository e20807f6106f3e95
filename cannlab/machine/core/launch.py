"""A kernel launch: instructions are executed at once, recorded, judged and timed.

A face makes a :class:`Launch`, starts each block and issues instructions; :func:`replay` feeds the
instructions of a record through the same :meth:`Launch.apply`. Blocks run one after another.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cannlab.errors import Diagnosis, Place, diagnose
from cannlab.errors.places import place_of
from cannlab.machine.core import cube, layout
from cannlab.machine.core.access import element_size
from cannlab.machine.core.cost import vector_cycles
from cannlab.machine.core.dtypes import unpack
from cannlab.machine.core.faults import KernelFault
from cannlab.machine.core.fractals import MAX_EXTENT
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.opcodes import BY_NAME, ROWS, Kind, Row, type_names
from cannlab.machine.core.ordering import Ordering
from cannlab.machine.core.pipes import (
    ALIGN,
    CORES,
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
from cannlab.machine.core.schedule import Schedule, Timing
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
    }
)
"""Rules whose breaking is told but does not fail the launch."""
_MOST_REPORTS = 100

_SET_FLAG, _WAIT_FLAG, _BARRIER = (BY_NAME[name].number for name in ("set_flag", "wait_flag", "pipe_barrier"))
_INIT, _ALLOC, _ENQUE, _DEQUE, _FREE, _RESET = (
    BY_NAME[name].number
    for name in ("queue_init", "queue_alloc", "queue_enque", "queue_deque", "queue_free", "pipe_reset")
)
_BLOCK_START = BY_NAME["block_start"].number
_QUEUE, _VECTOR, _SCALAR, _MOVE = Kind.QUEUE, Kind.VECTOR, Kind.SCALAR, Kind.MOVE
_MOST_FINE = 16384
_ALLOCATED, _ENQUEUED, _DEQUEUED = State.ALLOCATED, State.ENQUEUED, State.DEQUEUED
_SPACE_NAMES = {int(space): space.name for space in Space} | {int(Space.BIAS): "bias table", int(Space.FIXBUF): "FB"}
_MASKS = {int(space): align - 1 for space, align in ALIGN.items()}


def _where(row: Row, place: int) -> str:
    """Where an operand may lie, for a person."""
    if not row.spaces:
        return "a buffer from which or to which there is a way"
    return " or ".join(_SPACE_NAMES.get(space, "global memory") for space in sorted(row.spaces[place], reverse=True))


@dataclass(frozen=True, slots=True)
class Result:
    """What a launch came to.

    Attributes:
        outputs: the bytes of every argument in global memory, uint8, in order.
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
        sync: "auto" or "strict": is the compiler's automatic synchronisation assumed?
        scalars: plain arguments, for the record only (JSON values).
        data: False leaves the data effects out (for the time alone).
        cores: "AIV" or "AIC": which cores of a split chip run the blocks.

    Attributes:
        trace, diagnoses, warnings: as in :class:`Result`.
        block, blocks: the running block, and how many there are.
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
        data: bool = True,
        cores: str = VECTOR_CORE,
    ) -> None:
        if cores not in CORES:
            raise ValueError(f"cores are {' or '.join(CORES)}, not {cores!r}")
        if sync not in ("auto", "strict"):
            raise ValueError(f"sync is 'auto' or 'strict', not {sync!r}")
        self.soc = soc or chips.current()
        self._data = data
        self.blocks = blocks
        self.cores = cores
        self.block = -1
        self.memory = Memory(self.soc, list(arguments))
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
            }
        )
        self._files: dict[str, int] = {}
        self._labels: dict[int, int] = {}
        self._codes: list[CodeType] = []
        """Keeps the labelled code alive, so that no other gets its identity."""
        self._fine: dict[tuple[Any, ...], int] = {}
        """Vector instructions that broke no rule of their own, and their cycles."""
        self._ways: set[tuple[int, ...]] = set()
        """Operations with the spaces of their operands, found legal."""
        self.diagnoses: list[Diagnosis] = []
        self.warnings: list[Diagnosis] = []
        self._told: set[tuple[object, ...]] = set()
        self._ordering = Ordering(self.memory, self._from_ordering, sync == "strict")
        self._schedule = Schedule(self.soc, blocks, cores)
        self._limits = dict(enumerate(self.memory.sizes))
        self._limits |= {int(space): self.memory.limit(int(space)) for space in spaces(self.soc, cores)}
        self._reset()

    def _reset(self) -> None:
        self.queues: list[Queue] = []
        self._live: dict[int, int] = {}
        self._buffers = 0

    # -- what faces call ------------------------------------------------------------------------------

    def start_block(self, block: int) -> None:
        """Begin a block; the one before it is finished."""
        self.apply(_BLOCK_START, int(Pipe.S), 0, 0, 0, (block, self.blocks), ())

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
        return self._schedule.now_ns()

    def load(self, operand: tuple[int, int, int], code: int) -> Any:
        """get_value: the element as a Python number; recorded and timed."""
        self.issue(161, 0, code, (), (operand,))
        return self.memory.view(operand, code)[0].item()

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
        trace.add(op, self.block if op != _BLOCK_START else imm[0], pipe, dtype, file, line, imm, operands)
        kind = row.kind
        if kind is _QUEUE:
            self._queue(number, op, imm, operands)
            return
        if kind is _VECTOR:
            key = (op, dtype, imm, operands)
            cycles = self._fine.get(key)
            if cycles is None:
                fine = self._judge(number, row, dtype, imm, operands)
                cycles = vector_cycles(row, dtype, imm, operands)
                if fine and len(self._fine) < _MOST_FINE:
                    self._fine[key] = cycles
        elif kind > _SCALAR:
            self._control(number, row, imm)
            return
        else:
            cycles = 0
            self._judge(number, row, dtype, imm, operands)
        ordering = self._ordering
        ordering.access(number, row, pipe, dtype, imm, operands)
        if self._data:
            row.execute(self.memory, dtype, imm, operands)
            if ordering._unsettled:
                ordering.settle()
        self._schedule.run(row, pipe, dtype, imm, operands, ordering.waited, cycles)

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
            types = cube.legal(self.soc.split, len(operands) > 3)
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
            self._end_block(number)
            self.block = imm[0]
            self.memory.start_block()
            self._reset()
            ordering.start_block(number)
            schedule.start_block()

    def _end_block(self, number: int) -> None:
        if self.block < 0:
            return
        self._ordering.end_block(number)
        for queue in self.queues:
            for buffer in queue.buffers:
                if buffer.state is _ENQUEUED:
                    self._tell("kernel.queue_left", buffer.since, ())

    def _queue(self, number: int, op: int, imm: tuple[int, ...], operands: tuple[tuple[int, int, int], ...]) -> None:
        if op == _RESET:
            self._ordering.disown()
            self._reset()
            self._schedule.queue(op, None)
            return
        if op == _INIT:
            self._init(number, imm, operands)
            self._schedule.queue(op, None)
            return
        queue = self.queues[imm[0]]
        buffer = queue.buffers[imm[1]]
        ordering = self._ordering
        if op == _ALLOC:
            self._live[queue.position] = live = self._live.get(queue.position, 0) + 1
            if live > MAX_LIVE:
                self._fault("kernel.live_tensors", number, live=live, most=MAX_LIVE)
            if buffer.empty is not None:
                ordering.join(queue.produces, buffer.empty)
            ordering.forget(buffer)
            buffer.state = _ALLOCATED
        elif op == _ENQUE:
            if buffer.state is not _ALLOCATED:
                self._fault("kernel.enque_state", number, state=buffer.state.name.lower())
            queue.waiting.append(buffer)
            if len(queue.waiting) > max(queue.depth, 1):
                self._tell("kernel.queue_depth", number, (), depth=queue.depth, waiting=len(queue.waiting))
            buffer.full = ordering.snapshot(queue.produces)
            buffer.state = _ENQUEUED
        elif op == _DEQUE:
            queue.waiting.remove(buffer)
            assert buffer.full is not None
            ordering.join(queue.consumes, buffer.full)
            buffer.state = _DEQUEUED
        else:
            if buffer.state is State.FREE:
                self._fault("kernel.free_twice", number)
            if buffer.state is _ENQUEUED:
                self._tell("kernel.queue_enqueued", number, (("given away at", buffer.since),))
                queue.waiting.remove(buffer)
            self._live[queue.position] -= 1
            buffer.empty = ordering.snapshot(queue.consumes)
            buffer.state = State.FREE
        buffer.since = number
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

    def queue_deque(self, queue: Queue) -> Buffer:
        """DeQue; a queue with nothing in it would wait for ever."""
        if not queue.waiting:
            self.stop("kernel.deque_empty")
        buffer = queue.waiting[0]
        self.issue(_DEQUE, int(Pipe.S), 0, (queue.number, buffer.number))
        return buffer

    def queue_free(self, buffer: Buffer) -> None:
        """FreeTensor."""
        self.issue(_FREE, int(Pipe.S), 0, (buffer.queue.number, buffer.number))

    def pipe_reset(self) -> None:
        """TPipe.Reset, Destroy, Init: every buffer is given back."""
        self.issue(_RESET, int(Pipe.S), 0, ())

    # -- telling --------------------------------------------------------------------------------------

    def place(self, number: int) -> Place | None:
        """Where in the learner's code an instruction of the record stands."""
        file, line = self.trace.place(number)
        return Place(self.trace.meta["files"][file - 1], line) if file else None

    def _from_ordering(self, rule: str, number: int, others: tuple[tuple[str, int], ...], **facts: Any) -> None:
        self._tell(rule, number, others, **facts)

    def _tell(self, rule: str, number: int, others: tuple[tuple[str, int], ...], **facts: Any) -> None:
        """Add a diagnosis, once per rule and pair of places."""
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

    def finish(self) -> Result:
        """The launch is over: last checks, time and outputs."""
        self._end_block(len(self.trace.starts))
        self.block = -1
        return Result(self.memory.outputs(), self.diagnoses, self.warnings, self._schedule.timing(), self.trace)


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
) -> Result:
    """Run a kernel on arrays: ``body`` is called once per block, with the launch at that block.

    Floating-point warnings of numpy are silenced: on the chip they do not exist.

    Raises:
        KernelFault: a rule at which the core stops.
    """
    launch = Launch(name, arguments, blocks, soc=soc, sync=sync, scalars=scalars, cores=cores)
    with np.errstate(all="ignore"):
        for block in range(blocks):
            launch.start_block(block)
            body(launch)
    return launch.finish()


def replay(trace: KernelTrace, inputs: Sequence[NDArray[Any]]) -> Result:
    """Run a record's instructions on inputs, through the same path as the live launch.

    Args:
        trace: the record of a launch.
        inputs: one array per argument in global memory, of the sizes that the record names.

    Raises:
        ValueError: the inputs do not fit the record.
        KernelFault: as the live launch.
    """
    meta = trace.meta
    wanted = [argument["bytes"] for argument in meta["arguments"]]
    given = [int(array.nbytes) for array in inputs]
    if wanted != given:
        raise ValueError(f"the record has arguments of {wanted} bytes, the inputs have {given}: give fitting arrays")
    return _again(trace, inputs, True)


def timing(trace: KernelTrace) -> Timing:
    """The simulated time of a record, from the record alone: no inputs, no data effects."""
    empty = [np.zeros(argument["bytes"], dtype=np.uint8) for argument in trace.meta["arguments"]]
    return _again(trace, empty, False).timing


def _again(trace: KernelTrace, inputs: Sequence[NDArray[Any]], data: bool) -> Result:
    meta = trace.meta
    launch = Launch(
        meta["name"],
        inputs,
        meta["blocks"],
        soc=chips.get(meta["soc"]),
        sync=meta["sync"],
        scalars=meta["scalars"],
        data=data,
        cores=meta.get("cores", VECTOR_CORE),
    )
    launch.trace.meta.update({key: value for key, value in meta.items() if key != "files"})
    for label in meta["files"]:
        launch._file(label)
    with np.errstate(all="ignore"):
        for op, _, pipe, dtype, file, line, imm, operands in trace:
            launch.apply(op, pipe, dtype, file, line, imm, operands)
    return launch.finish()
