"""Happens-before: is every pair of accesses to the same bytes ordered, whatever the schedule?

Each pipe knows, of every pipe, up to which instruction it has certainly finished (a vector clock whose
ticks are instruction numbers). Flags, queue events and barriers hand that knowledge on; an access that
meets another one which its pipe does not know to be finished is a race. Waits between cores hand on what each
core knows of all others.

``auto`` assumes what the compiler's automatic synchronisation inserts: scalar accesses against the other
pipes, and hazards inside a pipe. ``strict`` assumes the hardware alone. ``inserted`` orders every pair of a core.
Source: ascend-c 0.4, 2.3; pyasc 1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core import layout
from cannlab.machine.core.access import element_size, touched
from cannlab.machine.core.dtypes import BYTE, SIZES, unpack, widest
from cannlab.machine.core.memory import Memory
from cannlab.machine.core.opcodes import Kind, Row
from cannlab.machine.core.pipes import ALL_PIPES, EVENT_PIPES, GM_SLACK, PIPES, HardEvent, Pipe, Space
from cannlab.machine.core.queues import Buffer, State
from cannlab.machine.core.shadow import Cell, Shadow

Report = Callable[..., None]
"""report(rule, instruction, others, **facts)"""
Operand = tuple[int, int, int]
_VECTOR, _DEQUEUED, _WHOLE = Kind.VECTOR, State.DEQUEUED, State.WHOLE
_S, _M = int(Pipe.S), int(Pipe.M)
_EVERY = range(PIPES)
SYNCS = ("auto", "strict", "inserted")
LARGE = 10
"""Fractals of a result from which on one mmad may follow another on it without a barrier. Source: ascend-c 2.3."""


class Ordering:
    """The clocks and shadows of a launch.

    Args:
        memory: the launch's memory, for the sizes.
        report: called with each broken rule.
        sync: one of SYNCS.
        cores: how many units the launch has.
    """

    def __init__(self, memory: Memory, report: Report, sync: str, cores: int) -> None:
        self._report = report
        self._strict, self._inserted = sync == "strict", sync == "inserted"
        self._cores = cores
        self._spare: list[dict[int, Shadow]] = []
        self._local = {int(space): Shadow(memory.limit(int(space)), False) for space in Space if memory.has(space)}
        self._global = {number: Shadow(size + GM_SLACK, True) for number, size in enumerate(memory.sizes)}
        self._shadows = {**self._local, **self._global}
        # Reads of an argument that nobody has written yet are only noted: most arguments are never written.
        self._reads: dict[int, list[tuple[Operand, layout.Spans | None, int, int]]] = {
            number: [] for number in self._global
        }
        self._memory = memory
        self._unsettled: list[tuple[Operand, NDArray[np.uint8], int, int]] = []
        self._large = False
        self.waited: list[int] = []
        """Instructions that the automatic synchronisation made the last one wait for."""
        self.start_block(-1, 0)

    def start_block(self, instruction: int, core: int) -> None:
        """A block begins: a fresh core."""
        self._core = core
        self._lane = core * PIPES
        self.foreign: list[int] | None = None
        self._large = False
        self.known = [[instruction] * PIPES for _ in range(PIPES)]
        self.last = [instruction] * PIPES
        self.flags: dict[tuple[int, int], tuple[list[int], int]] = {}
        self._manual = [[-1] * PIPES for _ in range(PIPES)]
        for shadow in self._local.values():
            shadow.clear()

    def leave(self) -> tuple[Any, ...]:
        """What is known of the running core; another one comes."""
        kept = (self._core, self.foreign, self._large, self.known, self.last, self.flags, self._manual, self._local)
        self._local = (
            self._spare.pop()
            if self._spare
            else {space: Shadow(self._memory.limit(space), False) for space in self._local}
        )
        self._shadows = {**self._local, **self._global}
        return kept

    def enter(self, kept: tuple[Any, ...]) -> None:
        """Go on with a core that was left."""
        self._spare.append(self._local)
        self._core, self.foreign, self._large, self.known, self.last, self.flags, self._manual, self._local = kept
        self._lane = self._core * PIPES
        self._shadows = {**self._local, **self._global}

    # -- between cores ---------------------------------------------------------------------------------

    def clock(self, pipe: int) -> list[int]:
        """What is finished, on every core, once everything issued to the pipe so far is."""
        done = [-1] * (PIPES * self._cores) if self.foreign is None else self.foreign.copy()
        done[self._lane : self._lane + PIPES] = self.snapshot(pipe)
        return done

    def hear(self, clock: list[int]) -> None:
        """The core goes on only after all of that is finished."""
        lane = self._lane
        self.join(_S, clock[lane : lane + PIPES])
        self.foreign = clock if self.foreign is None else list(map(max, self.foreign, clock))

    def settled(self, operand: Operand) -> None:
        """Bytes that a function used and is done with, on all pipes."""
        for cell in self._cells(operand, None):
            cell.writer, cell.defined, cell.readers = -1, True, {}

    def arguments(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For each argument that was used the bytes that were only read, and those that were written: (from, to)."""
        found = {}
        for number, shadow in self._global.items():
            read = [(cell.start, cell.end) for cell in shadow._cells if cell.writer < 0 and cell.readers]
            for (_, offset, size), spans, _, _ in self._reads.get(number, ()):
                read += [(offset + a, offset + b) for a, b in spans or ((0, size),)]
            written = [(cell.start, cell.end) for cell in shadow._cells if cell.writer >= 0]
            if read or written:
                found[number] = _joined(read), _joined(written)
        return found

    # -- who has finished what ------------------------------------------------------------------------

    def snapshot(self, pipe: int) -> list[int]:
        """What is finished once everything issued to the pipe so far is."""
        done = self.known[pipe].copy()
        done[pipe] = self.last[pipe]
        return done

    def join(self, pipe: int, done: Sequence[int]) -> None:
        """The pipe goes on only after all of that is finished. Waiting scalar code holds back every pipe."""
        known = self.known
        for each in _EVERY if pipe == _S else (pipe,):
            known[each] = list(map(max, known[each], done))

    def barrier(self, pipe: int) -> None:
        """pipe_barrier."""
        if pipe != ALL_PIPES:
            self.known[pipe][pipe] = self.last[pipe]
            return
        for each in range(PIPES):
            self.known[each] = self.last.copy()
            self._manual[each] = self.last.copy()

    def set_flag(self, event: int, identity: int, instruction: int) -> None:
        """set_flag: the event carries what its source pipe has finished."""
        key = (event, identity)
        if key in self.flags:
            self._report(
                "kernel.flag_set_twice",
                instruction,
                (("set before at", self.flags[key][1]),),
                event=HardEvent(event).name,
                id=identity,
            )
        self.flags[key] = (self.snapshot(EVENT_PIPES[event][0]), instruction)

    def wait_flag(self, event: int, identity: int) -> bool:
        """wait_flag; False when nothing set it."""
        found = self.flags.pop((event, identity), None)
        if found is None:
            return False
        source, waits = EVENT_PIPES[event]
        self.join(waits, found[0])
        self._manual[waits][source] = found[0][source]
        return True

    def end_block(self, instruction: int) -> None:
        """Flags that nobody waited for leak into the next kernel."""
        for (event, identity), (_, where) in self.flags.items():
            self._report("kernel.flag_leaked", where, (), event=HardEvent(event).name, id=identity)

    # -- buffers --------------------------------------------------------------------------------------

    def own(self, buffer: Buffer) -> None:
        """The bytes of a buffer belong to its queue from now on."""
        shadow = self._local.get(buffer.space)
        if shadow is not None:
            for cell in shadow.cells(buffer.start, buffer.start + buffer.size):
                cell.owner = buffer

    def disown(self) -> None:
        """The TPipe gave its buffers back; what was written stays written."""
        for shadow in self._local.values():
            for cell in shadow._cells:
                cell.owner = None

    def disown_part(self, operand: Operand) -> None:
        """A pool gave these bytes back."""
        for cell in self._cells(operand, None):
            cell.owner, cell.defined = None, False

    def forget(self, buffer: Buffer) -> None:
        """A buffer just handed out holds nothing that may be relied on."""
        shadow = self._local.get(buffer.space)
        if shadow is not None:
            for cell in shadow.cells(buffer.start, buffer.start + buffer.size):
                cell.defined = False

    # -- accesses -------------------------------------------------------------------------------------

    def _cells(self, operand: Operand, spans: layout.Spans | None) -> list[Cell]:
        allocation, offset, size = operand
        shadow = self._shadows.get(allocation)
        if shadow is None:
            return []
        if spans is None:
            return shadow.cells(offset, offset + size)
        if len(spans) == 1:
            start, end = spans[0]
            return shadow.cells(offset + start, offset + end)
        found: list[Cell] = []
        for start, end in spans:
            found += shadow.cells(offset + start, offset + end)
        return found

    def access(self, number: int, row: Row, pipe: int, dtype: int, imm: tuple[int, ...], operands: Any) -> None:
        """Judge one instruction's reads and writes and remember them."""
        spans = touched(row, dtype, imm)
        roles = row.roles
        undefined: list[tuple[int, Cell]] = []
        if pipe == _M:
            self._large = -(-imm[0] // 16) * -(-imm[1] // 16) >= LARGE
        if self.waited:
            self.waited = []
        known = self.known[pipe]
        reads = self._reads
        for place, operand in enumerate(operands):
            if roles[place] == "w":
                continue
            if operand[0] >= 0:
                if operand[0] in reads:
                    reads[operand[0]].append((operand, spans[place], self._lane + pipe, number))
                else:
                    self._read_global(number, pipe, operand, spans[place])
                continue
            cells = self._cells(operand, spans[place])
            loose = spans[place] is None and row.kind is _VECTOR
            for cell in cells:
                if not cell.defined and not loose:
                    undefined.append((place, cell))
                if cell.writer >= 0 and cell.writer > known[cell.writer_pipe]:
                    self._after_write(number, pipe, cell, "reads")
                if cell.owner is not None:
                    self._owned(number, pipe, cell, True)
                cell.readers[pipe] = number
        tainted = self._undefined(number, row, dtype, imm, operands, undefined) if undefined else ()
        for place, operand in enumerate(operands):
            if roles[place] == "r":
                continue
            if operand[0] >= 0:
                if operand[0] in reads:
                    self._catch_up(operand[0])
                self._write_global(number, row, pipe, imm, operand, spans[place])
                continue
            cells = self._cells(operand, spans[place])
            for cell in cells:
                self._write(number, pipe, cell)
            if len(cells) > 1 and (spans[place] is None or len(spans[place] or ()) == 1):
                shadow = self._local.get(operand[0])
                if shadow is not None:
                    start, end = spans[place][0] if spans[place] else (0, operand[2])  # type: ignore[index]
                    shadow.merge(operand[1] + start, operand[1] + end)
        if tainted:
            for cell in self._cells(operands[0], tainted):
                cell.defined = False
        self.last[pipe] = number

    def _catch_up(self, allocation: int) -> None:
        """The first write to an argument: its reads so far are entered in its cells."""
        for operand, spans, lane, number in self._reads.pop(allocation):
            for cell in self._cells(operand, spans):
                cell.readers[lane] = number

    def _write(self, number: int, pipe: int, cell: Cell) -> None:
        known = self.known[pipe]
        if cell.writer > known[cell.writer_pipe]:
            self._after_write(number, pipe, cell, "overwrites")
        for reader, when in cell.readers.items():
            if when > known[reader] and reader != pipe:
                self._after_read(number, pipe, cell, reader, when)
        if cell.owner is not None:
            self._owned(number, pipe, cell, False)
        cell.writer, cell.writer_pipe, cell.defined = number, pipe, True
        if cell.readers:
            cell.readers = {}

    # -- global memory, which all cores share ----------------------------------------------------------

    def _unknown(self, core: int, pipe: int, number: int) -> bool:
        """Does the running core not know that this instruction of another one is finished?"""
        foreign = self.foreign
        return foreign is None or number > foreign[core * PIPES + pipe]

    def _read_global(self, number: int, pipe: int, operand: Operand, spans: layout.Spans | None) -> None:
        known, lane, core = self.known[pipe], self._lane + pipe, self._core
        for cell in self._cells(operand, spans):
            writer = cell.writer
            if writer >= 0:
                if cell.writer_core == core:
                    if writer > known[cell.writer_pipe]:
                        self._after_write(number, pipe, cell, "reads")
                elif self._unknown(cell.writer_core, cell.writer_pipe, writer):
                    self._blocks(number, writer, operand, "reads", "written")
                if cell.beside is not None:
                    self._beside(number, operand, cell.beside, "reads")
            cell.readers[lane] = number

    def _write_global(
        self, number: int, row: Row, pipe: int, imm: tuple[int, ...], operand: Operand, spans: layout.Spans | None
    ) -> None:
        known, mine, core = self.known[pipe], self._lane, self._core
        atomic = imm[row.atomic] if row.atomic >= 0 else 0
        for cell in self._cells(operand, spans):
            writer = cell.writer
            if atomic and atomic == cell.atomic:
                if cell.writer_core != core and self._unknown(cell.writer_core, cell.writer_pipe, writer):
                    if cell.beside is None:
                        cell.beside = {}
                    cell.beside[cell.writer_core * PIPES + cell.writer_pipe] = writer
            elif writer >= 0:
                if cell.beside is not None:
                    self._beside(number, operand, cell.beside, "overwrites")
                    cell.beside = None
                if cell.writer_core == core:
                    if writer > known[cell.writer_pipe]:
                        self._after_write(number, pipe, cell, "overwrites")
                elif self._unknown(cell.writer_core, cell.writer_pipe, writer):
                    part = (operand[0], cell.start, cell.end - cell.start)
                    self._unsettled.append((part, self._memory.view(part, BYTE).copy(), number, writer))
            if cell.readers:
                for lane, when in cell.readers.items():
                    reader = lane - mine
                    if 0 <= reader < PIPES:
                        if when > known[reader] and reader != pipe:
                            self._after_read(number, pipe, cell, reader, when)
                    elif self._unknown(*divmod(lane, PIPES), when):
                        self._blocks(number, when, operand, "writes", "read")
                        break
                cell.readers = {}
            cell.writer, cell.writer_pipe, cell.writer_core, cell.atomic = number, pipe, core, atomic

    def _beside(self, number: int, operand: Operand, others: dict[int, int], does: str) -> None:
        """Atomic writes of several cores: each of them has to be finished."""
        for lane, when in others.items():
            core, pipe = divmod(lane, PIPES)
            if core != self._core and self._unknown(core, pipe, when):
                self._blocks(number, when, operand, does, "written")
                return

    def settle(self) -> None:
        """After the data effect: two blocks that wrote the same bytes with the same values are no race."""
        unsettled, self._unsettled = self._unsettled, []
        for part, before, number, other in unsettled:
            if not np.array_equal(before, self._memory.view(part, BYTE)):
                self._blocks(number, other, part, "overwrites", "written")

    @property
    def unsettled(self) -> bool:
        """True when :meth:`settle` has something to look at."""
        return bool(self._unsettled)

    def _automatic(self, pipe: int, other: int, when: int) -> bool:
        """Would the compiler order this pair? Then the wait is remembered."""
        if self._strict and pipe == other == _M and self._large:
            return True
        if self._strict or not (self._inserted or pipe == other or _S in (pipe, other)):
            return False
        if pipe != other:
            self.waited.append(when)
            for known in self.known:
                known[other] = max(known[other], when)
        return True

    def _after_write(self, number: int, pipe: int, cell: Cell, does: str) -> None:
        if self._automatic(pipe, cell.writer_pipe, cell.writer):
            return
        self._race(number, pipe, cell.writer, cell.writer_pipe, does, "written", cell)

    def _after_read(self, number: int, pipe: int, cell: Cell, reader: int, when: int) -> None:
        if self._automatic(pipe, reader, when):
            return
        self._race(number, pipe, when, reader, "overwrites", "read", cell)

    def _race(self, number: int, pipe: int, other: int, other_pipe: int, does: str, did: str, cell: Cell) -> None:
        if pipe == other_pipe:
            self._report(
                "kernel.race_in_pipe",
                number,
                ((f"{did} at", other),),
                pipe=Pipe(pipe).name,
                does=does,
                did=did,
            )
            return
        source, waits = (Pipe(each).name.replace("FIXP", "FIX") for each in (other_pipe, pipe))
        self._report(
            "kernel.race",
            number,
            ((f"{did} at", other),),
            pipe=waits,
            other=source,
            does=does,
            did=did,
            event=f"{source}_{waits}",
            start=cell.start,
            end=cell.end,
        )

    def _blocks(self, number: int, other: int, operand: Operand, does: str, did: str) -> None:
        self._report(
            "kernel.race_blocks",
            number,
            ((f"{did} at", other),),
            does=does,
            did=did,
            argument=operand[0],
            start=operand[1],
            end=operand[1] + operand[2],
        )

    def _owned(self, number: int, pipe: int, cell: Cell, reads: bool) -> None:
        buffer = cell.owner
        assert buffer is not None
        state = buffer.state
        if state is _DEQUEUED or state is _WHOLE:
            return
        if state is State.ALLOCATED:
            produces = buffer.queue.produces
            if (
                reads
                and cell.writer > buffer.since
                and cell.writer_pipe == produces
                and pipe == buffer.queue.consumes
                and pipe != produces
                and self._manual[pipe][produces] < cell.writer
            ):
                self._report("kernel.queue_bypassed", number, (("filled at", cell.writer),), pipe=Pipe(pipe).name)
            return
        rule = "kernel.queue_enqueued" if state is State.ENQUEUED else "kernel.queue_freed"
        self._report(rule, number, (("given away at", buffer.since),) if buffer.since >= 0 else ())

    def _counts(self, row: Row, place: int, dtype: int, imm: tuple[int, ...], operands: Any, cell: Cell) -> bool:
        """Does the result depend on a byte of the cell?"""
        assert row.needs is not None
        size = SIZES[unpack(dtype)[place]]
        at = row.needs(place, dtype, imm) * size + operands[place][1]
        return bool(((at + size > cell.start) & (at < cell.end)).any())

    # -- undefined bytes ------------------------------------------------------------------------------

    def _undefined(
        self,
        number: int,
        row: Row,
        dtype: int,
        imm: tuple[int, ...],
        operands: Any,
        undefined: list[tuple[int, Cell]],
    ) -> layout.Spans:
        """Lane by lane operations pass undefined lanes on; anything else that reads one is reported."""
        if row.name == "data_copy" and operands[0][0] < 0 and imm[0] == 1:
            base = operands[1][1]
            return tuple((max(cell.start - base, 0), min(cell.end - base, operands[1][2])) for _, cell in undefined)
        if row.flow is not None:
            size = SIZES[unpack(dtype)[0]]
            to, source = row.flow(size, imm)
            at = source * size + operands[1][1]
            bad = np.zeros(len(at), dtype=bool)
            for _, cell in undefined:
                bad |= (source >= 0) & (at + size > cell.start) & (at < cell.end)
            return layout.runs(to[bad], size)
        if row.needs is not None:
            undefined = [
                (place, cell) for place, cell in undefined if self._counts(row, place, dtype, imm, operands, cell)
            ]
            if not undefined:
                return ()
        if not row.lanewise:
            place, cell = undefined[0]
            self._report(
                "kernel.undefined",
                number,
                (),
                name=row.name,
                start=cell.start - operands[place][1],
                elements=(cell.start - operands[place][1]) // element_size(dtype, place),
            )
            for _, each in undefined:
                each.defined = True
            return ()
        codes = unpack(dtype)
        width = widest(dtype)

        def lanes(place: int) -> NDArray[np.int64]:
            if imm[0] == layout.COUNT:
                return np.arange(imm[1], dtype=np.int64)
            return layout.indices(SIZES[codes[place]], width, imm[:10], place)

        bad = np.zeros(len(lanes(0)), dtype=bool)
        for place, cell in undefined:
            at = lanes(place) * SIZES[codes[place]] + operands[place][1]
            bad |= (at >= cell.start) & (at < cell.end)
        return layout.runs(lanes(0)[bad], SIZES[codes[0]])


def _joined(spans: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Spans of bytes, sorted, those that touch or overlap made one; shape (spans, 2)."""
    whole = np.array(sorted(spans), dtype=np.int64).reshape(-1, 2)
    if not len(whole):
        return whole
    ends = np.maximum.accumulate(whole[:, 1])
    begins = np.append(True, whole[1:, 0] > ends[:-1])
    return np.stack([whole[begins, 0], np.append(ends[:-1][begins[1:]], ends[-1])], axis=1)
