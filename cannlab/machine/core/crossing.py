"""What cores tell one another: cross-core flags, sync_all, and the flags that lie in global memory.

A set carries what its core knows to be finished; a wait hands that on, and is over when what it waits for is there.
The state here follows from the instructions alone, so a replay needs no values.

Source: ascend-c 2.3, pyasc 7.10, and the interfaces' documentation: CrossCoreSetFlag, SyncAll, IBSet, IBWait,
NotifyNextBlock, WaitPreBlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from cannlab.machine.core.opcodes import BY_NAME
from cannlab.machine.core.pipes import BLOCK, CUBE_CORE, VECTOR_CORE
from cannlab.machine.core.units import Unit

MOST_FLAG = 10
"""Flags 0 to 10 are the programmer's."""
MOST_SETS = 15
"""A flag's counter."""
MODES = (0, 1, 2)
SYNC_ALL = 14
"""The flag that the hard sync_all uses. Source: inferred from public kernels."""
Imm = tuple[int, ...]
Operands = tuple[tuple[int, int, int], ...]
SET, WAIT, ALL, ALL_WAIT, SOFT, SOFT_WAIT, IB_SET, IB_WAIT, NOTIFY, WAIT_PRE, SEND, RECEIVE = (
    BY_NAME[name].number
    for name in (
        "cross_core_set_flag",
        "cross_core_wait_flag",
        "sync_all",
        "sync_all_wait",
        "sync_all_soft",
        "sync_all_soft_wait",
        "ib_set",
        "ib_wait",
        "notify_next_block",
        "wait_pre_block",
        "message_send",
        "message_wait",
    )
)


@dataclass(slots=True)
class Signal:
    """What a set hands on.

    Attributes:
        clock: per core and pipe the last instruction that is finished.
        when: cycles from the launch's start at which it is there.
        number: the instruction that set it last.
    """

    clock: list[int]
    when: int
    number: int

    def merge(self, other: Signal) -> Signal:
        """Both have happened."""
        return Signal(
            list(map(max, self.clock, other.clock)), max(self.when, other.when), max(self.number, other.number)
        )


@dataclass(slots=True)
class _Slot:
    """A flag in global memory that one core sets and another takes down (ib_set, ib_wait)."""

    up: bool = False
    last: Signal | None = None


@dataclass(slots=True)
class _Arrivals:
    """Of a workspace: how often each unit has told, and what it told in its last turns."""

    counts: dict[int, int] = field(default_factory=dict)
    told: dict[tuple[int, int], Signal] = field(default_factory=dict)
    merged: dict[tuple[int, int], Signal | None] = field(default_factory=dict)
    """What all parties of a soft sync_all told: by (parties, turn)."""

    def count(self, unit: int) -> int:
        return self.counts.get(unit, 0)

    def tell(self, unit: int, signal: Signal, everybody: Sequence[Unit]) -> None:
        """A unit's next turn; turns that everybody has left behind are forgotten."""
        turn = self.counts.get(unit, 0)
        self.counts[unit] = turn + 1
        self.told[unit, turn] = signal
        old = min(self.count(each.number) for each in everybody) - 3
        self.told.pop((unit, old), None)


class Crossing:
    """The flags between the cores of one launch."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.units = units
        self._vectors = [each for each in units if each.kind == VECTOR_CORE]
        self._partial: dict[tuple[int, int, str, int], dict[int, deque[Signal]]] = {}
        self._there: dict[tuple[int, int], deque[Signal]] = {}
        self._slots: dict[tuple[int, int], _Slot] = {}
        self._arrivals: dict[tuple[int, int, int], _Arrivals] = {}
        self._mail: dict[int, deque[Signal]] = {}
        """Unit -> messages that came for it, in the order in which they were sent."""
        self.ended: set[int] = set()

    # -- flags of the hardware --------------------------------------------------------------------------

    def _members(self, unit: Unit, mode: int) -> tuple[list[Unit], list[Unit]]:
        """Who has to set a flag in a unit's place, and whom that releases."""
        if mode == 0:
            mine = [each for each in self.units if each.kind == unit.kind]
            return mine, mine
        group = [each for each in self.units if each.group == unit.group]
        if mode == 1:
            mine = [each for each in group if each.kind == unit.kind]
            return mine, mine
        mine = [each for each in group if each.kind == unit.kind]
        return mine, [each for each in group if each.kind != unit.kind]

    def set_flag(self, unit: Unit, flag: int, mode: int, signal: Signal) -> bool:
        """A core's set; False where a counter would go beyond what it holds."""
        key = (flag, mode, unit.kind, -1 if mode == 0 else unit.group)
        waiting = self._partial.setdefault(key, {})
        waiting.setdefault(unit.number, deque()).append(signal)
        members, released = self._members(unit, mode)
        if len(waiting) < len(members) or not all(waiting.values()):
            return len(waiting[unit.number]) <= MOST_SETS
        whole = waiting[members[0].number].popleft()
        for each in members[1:]:
            whole = whole.merge(waiting[each.number].popleft())
        for each in released:
            self._there.setdefault((each.number, flag), deque()).append(whole)
        return all(len(self._there[each.number, flag]) <= MOST_SETS for each in released)

    def left(self) -> list[tuple[int, int]]:
        """(flag, instruction that set it) of what nobody waited for."""
        found: dict[int, int] = {}
        for (_, flag), signals in self._there.items():
            for signal in signals:
                found.setdefault(flag, signal.number)
        for (flag, _, _, _), waiting in self._partial.items():
            for each in waiting.values():
                for signal in each:
                    found.setdefault(flag, signal.number)
        return sorted(found.items())

    # -- the general form -------------------------------------------------------------------------------

    def ready(self, unit: Unit, op: int, imm: Imm, operands: Operands) -> bool:
        """May the instruction be passed?"""
        if op in (WAIT, ALL_WAIT):
            return bool(self._there.get((unit.number, imm[0] if op == WAIT else SYNC_ALL)))
        if op == SOFT_WAIT:
            arrivals = self._of(op, operands)
            wanted = arrivals.count(unit.number)
            return wanted > 0 and all(arrivals.count(each.number) >= wanted for each in self._parties(imm[0]))
        if op == RECEIVE:
            return bool(self._mail.get(unit.number))
        if op in (IB_SET, IB_WAIT):
            return self._slot(operands).up is (op == IB_WAIT)
        if op == WAIT_PRE:
            arrivals = self._of(op, operands)
            mine = arrivals.count(unit.number)
            return all(
                arrivals.count(each.number) >= mine + (each.block < unit.block)
                for each in self._vector_cores()
                if each is not unit
            )
        return True

    def tell(self, unit: Unit, op: int, imm: Imm, operands: Operands, signal: Signal) -> bool:
        """What a core's instruction tells the others; False where a counter overflows."""
        if op == SET:
            return self.set_flag(unit, imm[0], imm[1], signal)
        if op == ALL:
            return self.set_flag(unit, SYNC_ALL, 0, signal)
        if op == SEND:
            self._mail.setdefault(imm[0], deque()).append(signal)
        if op in (SOFT, NOTIFY):
            self._of(op, operands).tell(unit.number, signal, self._vector_cores())
        elif op in (IB_SET, IB_WAIT):
            slot = self._slot(operands)
            slot.up, slot.last = op == IB_SET, signal
        return True

    def hear(self, unit: Unit, op: int, imm: Imm, operands: Operands) -> Signal | None:
        """What a core knows once it has passed the instruction."""
        if op in (WAIT, ALL_WAIT):
            return self._there[unit.number, imm[0] if op == WAIT else SYNC_ALL].popleft()
        if op == SOFT_WAIT:
            arrivals = self._of(op, operands)
            turn = arrivals.count(unit.number) - 1
            key = (imm[0], turn)
            if key not in arrivals.merged:
                arrivals.merged = {key: _all([arrivals.told[each.number, turn] for each in self._parties(imm[0])])}
            return arrivals.merged[key]
        if op == RECEIVE:
            return self._mail[unit.number].popleft()
        if op in (IB_SET, IB_WAIT):
            return self._slot(operands).last
        if op == WAIT_PRE:
            arrivals = self._of(op, operands)
            mine = arrivals.count(unit.number)
            found = []
            for each in self._vector_cores():
                turn = mine - (each.block > unit.block)
                if each is not unit and turn >= 0:
                    found.append(arrivals.told[each.number, turn])
            return _all(found)
        return None

    def first(self, unit: Unit, op: int, operands: Operands) -> bool:
        """Is this the core's first use of its flag in global memory, which has to be 0 then?"""
        if op == IB_SET:
            return self._slot(operands).last is None
        return self._of(op, operands).count(unit.number) == 0

    def _vector_cores(self) -> Sequence[Unit]:
        return self._vectors

    def _parties(self, used: int) -> list[Unit]:
        """Who takes part in a soft sync_all: all vector cores, or the first so many."""
        return [each for each in self._vector_cores() if not used or each.block < used]

    def _slot(self, operands: Operands) -> _Slot:
        return self._slots.setdefault(operands[0][:2], _Slot())

    def _of(self, op: int, operands: Operands) -> _Arrivals:
        """The arrivals at a workspace; the two uses of one do not mix."""
        use = 0 if op in (SOFT, SOFT_WAIT) else 1
        return self._arrivals.setdefault((*operands[0][:2], use), _Arrivals())

    # -- who waits for what -----------------------------------------------------------------------------

    def missing(self, unit: Unit, op: int, imm: Imm, operands: Operands) -> tuple[str, list[Unit]]:
        """What a waiting core waits for, in words, and the cores that would have to act."""
        if op == WAIT:
            flag, mode = imm[0], imm[1]
            if mode == 2:
                wanted = [each for each in self.units if each.group == unit.group and each.kind != unit.kind]
                if not wanted:
                    other = VECTOR_CORE if unit.kind == CUBE_CORE else CUBE_CORE
                    return f"flag {flag} (mode 2), which only an {other} can set, and this launch has none", []
            else:
                wanted = self._members(unit, mode)[0]
            return f"flag {flag} (mode {mode})", self._not_set(flag, mode, wanted)
        if op == RECEIVE:
            others = [each for each in self.units if each.group == unit.group and each.kind != unit.kind]
            what = "a request of a Matmul object" if unit.kind == CUBE_CORE else "the answer to its Matmul object"
            return what, others
        if op == ALL_WAIT:
            return "sync_all", self._not_set(SYNC_ALL, 0, self._members(unit, 0)[0])
        if op == SOFT_WAIT:
            arrivals = self._of(op, operands)
            turn = arrivals.count(unit.number)
            return "sync_all", [each for each in self._parties(imm[0]) if arrivals.count(each.number) < turn]
        if op == IB_WAIT:
            return f"ib_set of slot {imm[0]}, event {imm[1]}", [each for each in self.units if each is not unit]
        if op == IB_SET:
            return (
                f"ib_wait of slot {imm[0]}, event {imm[1]}, which is set already",
                [each for each in self.units if each is not unit],
            )
        arrivals = self._of(op, operands)
        mine = arrivals.count(unit.number)
        return "notify_next_block", [
            each
            for each in self._vector_cores()
            if each is not unit and arrivals.count(each.number) < mine + (each.block < unit.block)
        ]

    def _not_set(self, flag: int, mode: int, wanted: list[Unit]) -> list[Unit]:
        found = []
        for each in wanted:
            waiting = self._partial.get((flag, mode, each.kind, -1 if mode == 0 else each.group), {})
            if not waiting.get(each.number):
                found.append(each)
        return found


def _all(signals: list[Signal]) -> Signal | None:
    found: Signal | None = None
    for signal in signals:
        found = signal if found is None else found.merge(signal)
    return found


def slot(units: int, block: int, event: int) -> int:
    """Byte offset of ib_set's flag in its workspace. Source: IBSet's documentation (size of the workspace)."""
    return (units * event + block) * BLOCK
