"""Turns of a loop that go alike are not run one by one; nor are blocks.

Most loops of a kernel do the same in every turn, on other parts of global memory. So a few turns run with a counter
that says of every value how it follows from it (:mod:`moving`). When the kernel's state after a period of turns is the
one before it, but for what moves, the rest of the turns can only go as these did: their instructions are executed and
recorded without the kernel's code. A block begins with the state in which every other one does, so one block is enough
to know those that differ from it in nothing but get_block_idx.

What depends on the turn in any other way (a value that is read, a branch that goes another way, something printed or
told) runs turn by turn, as ever; so do the turns from the one on in which a comparison would come out otherwise. The
record is the same in either case.
"""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import Enum
from math import lcm
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cannlab.ascendc.language.core.builder import BlockState, GlobalBuilder
from cannlab.ascendc.language.core.ir_value import GlobalAddress, PlainValue
from cannlab.ascendc.language.core.moving import Moves, Moving, Watch
from cannlab.ascendc.language.core.range import range as runtime_range
from cannlab.ascendc.language.core.tensor import GlobalTensor
from cannlab.machine.core.repeats import repeat

_on = True


@contextmanager
def one_by_one() -> Iterator[None]:
    """Within it every turn and every block is run by the kernel's code (to compare)."""
    global _on
    before, _on = _on, False
    try:
        yield
    finally:
        _on = before


LEAST = 3
"""Periods that a loop must have left, for a watch to be worth its trouble."""
_LONGEST = 64
"""Turns of the longest period that is tried."""
_PATIENCE = 4
"""Periods that are watched before a loop is given up."""
_FAILURES = 2
"""So often a loop of a launch is given up before it is not watched any more."""
_NOT_STATE = {"launch", "entry", "loops", "watch", "blocks", "since", "full", "empty"}
"""Fields of the running block and of its queues that decide nothing."""


class Loop:
    """A loop in a kernel's text, over one launch.

    Attributes:
        period: the period that was found, 0: none yet. failures: how often it was given up.
        inner: turns of the longest loop inside it.
    """

    def __init__(self) -> None:
        self.period = self.failures = self.inner = 0


def turns(loop: runtime_range) -> Iterator[PlainValue]:
    """The counter of a loop, turn by turn, without those that were repeated."""
    state = GlobalBuilder.state
    span = loop.span()
    if state is None or not _on or not state.launch.repeats or span is None:
        return iter(loop)
    return _turns(state, loop, span)


def _turns(state: BlockState, loop: runtime_range, span: builtins.range) -> Iterator[PlainValue]:
    frame = sys._getframe(1)
    place = (id(frame.f_code), frame.f_lasti)
    known = state.launch.loops.setdefault(place, Loop())
    for outer in state.loops:
        outer.inner = max(outer.inner, len(span))
    if state.watch is not None or known.failures > _FAILURES or len(span) <= LEAST:
        yield from loop.values(span)
        return
    state.loops.append(known)
    try:
        turn = 0
        if not known.period:
            # The first turn is often another one (nothing is there to wait for), and tells what loops are inside.
            yield from loop.values(span[:1])
            turn = 1
        while turn < len(span):
            period = known.period or _first_guess(state)
            if known.failures > _FAILURES or (len(span) - turn) // period < LEAST or len(span) <= known.inner:
                break
            turn = yield from _watched(state, loop, span, turn, period, known, frame)
        yield from loop.values(span[turn:])
    finally:
        state.loops.remove(known)


def _first_guess(state: BlockState) -> int:
    """After so many turns every queue is at the same buffer again."""
    return min(lcm(*(len(queue.buffers) or 1 for queue in state.launch.queues if not queue.whole)), _LONGEST)


def _watched(
    state: BlockState,
    loop: runtime_range,
    span: builtins.range,
    turn: int,
    period: int,
    known: Loop,
    frame: FrameType,
) -> Generator[PlainValue, None, int]:
    """Turns until some were repeated or the watch is given up; gives the next turn."""
    launch = state.launch
    watch = state.watch = Watch(period)
    slope = period * span.step
    before: list[Any] = []
    last: list[tuple[int, int, int]] = []
    try:
        for _ in builtins.range(_PATIENCE):
            if (len(span) - turn) // period < 2:
                return turn
            watch.begin()
            first, told = len(launch.trace.starts), launch.told_so_far()
            for value in span[turn : turn + period]:
                yield from loop.values(builtins.range(value, value + 1), {watch: slope})
                turn += 1
                if watch.spoiled:
                    break
            if watch.spoiled or told != launch.told_so_far():
                known.failures += 1
                if period < watch.wanted <= _LONGEST:
                    known.period = watch.wanted
                    known.failures -= 1
                return turn
            after, movers = _state(state, frame, watch)
            notes = [(number - first, at, step) for number, at, step in watch.notes]
            if _same(before, after, watch) and notes == last:
                count = min(watch.most, (len(span) - turn) // period)
                length, taken = len(launch.trace.starts) - first, _array(watch.notes)
                done = repeat(launch, first, taken, count)
                for mover in movers:
                    mover.at += done * mover.moves[watch]  # type: ignore[index]
                known.period = period
                if done:
                    _for_blocks(state, watch, first, length, done)
                    return turn + done * period
            before, last = after, notes
        known.failures += 1
        return turn
    finally:
        state.watch = None


def _for_blocks(state: BlockState, watch: Watch, first: int, length: int, done: int) -> None:
    """What was repeated in a loop moves from block to block as well."""
    watch.repeated(done)
    blocks = state.blocks
    if blocks is not None:
        inside = _array([note for note in blocks.notes if note[0] >= first])
        if len(inside):
            later = np.repeat(inside[None], done, axis=0)
            later[:, :, 0] += length * np.arange(1, done + 1)[:, None]
            state.launch.blocks_alike.more.append(later.reshape(-1, 3))


def _array(notes: list[tuple[int, int, int]]) -> NDArray[np.int64]:
    return np.array(notes, dtype=np.int64).reshape(-1, 3)


class Blocks:
    """The blocks of a launch.

    Attributes:
        period: how many of them go differently, as far as is known. failures: how often they did not go alike.
        watch: of those that run. first: their first instruction. told: what was told before it. run: how many.
        more: what moves in instructions that were repeated, as :attr:`Watch.notes`.
    """

    def __init__(self) -> None:
        self.period, self.failures = 1, 0
        self.watch: Watch | None = None
        self.first = self.run = 0
        self.told: tuple[int, ...] = ()
        self.more: list[NDArray[np.int64]] = []


def block_begins(state: BlockState) -> None:
    """A block begins; its first instruction is recorded."""
    launch = state.launch
    if not _on or not launch.repeats:
        return
    blocks = launch.blocks_alike = launch.blocks_alike or Blocks()
    left = launch.blocks - launch.block
    if blocks.watch is None and blocks.failures <= _FAILURES and left >= 2 * blocks.period:
        blocks.watch, blocks.run, blocks.more = Watch(blocks.period), 0, []
        blocks.first, blocks.told = len(launch.trace.starts) - 1, launch.told_so_far()
    state.blocks = blocks.watch


def block_ends(state: BlockState) -> None:
    """A block is over: those after it that go like it are taken over."""
    launch, watch = state.launch, state.blocks
    if watch is None:
        return
    blocks = launch.blocks_alike
    launch.block_over()
    if watch.spoiled or state.printed or blocks.told != launch.told_so_far():
        blocks.watch = None
        if blocks.period < watch.wanted <= _LONGEST:
            blocks.period = watch.wanted
        else:
            blocks.failures += 1
        return
    blocks.run += 1
    if blocks.run < blocks.period:
        return
    blocks.watch = None
    count = min(watch.most, (launch.blocks - 1 - launch.block) // blocks.period)
    notes = np.concatenate([_array(watch.notes), *blocks.more])
    if not repeat(launch, blocks.first, notes, count, blocks.period):
        blocks.failures += 1


def _same(before: list[Any], after: list[Any], watch: Watch) -> bool:
    """Is the later state the earlier one, with what moves moved by one period?"""
    if len(before) != len(after):
        return False
    for old, new in zip(before, after, strict=True):
        if type(old) is not type(new):
            return False
        if type(old) is _Moved:
            if old.moves != new.moves or new.at - old.at != (old.moves or {}).get(watch, 0):
                return False
        elif old != new:
            return False
    return True


class _Moved(NamedTuple):
    """Where something that moves is, and how it moves."""

    at: int
    moves: Moves | None


def _state(state: BlockState, frame: FrameType | None, watch: Watch) -> tuple[list[Any], list[_Mover]]:
    """All that the kernel's code can see and change, as plain values in a fixed order, and what of it moves."""
    found = _Found(state, watch)
    while frame is not None and frame is not state.entry:
        if state.launch.learner_code(frame.f_code):
            for name, value in frame.f_locals.items():
                # The conditions of while loops are made where the loop begins.
                if not name.startswith("__while_"):
                    found.items.append(name)
                    found.visit(value)
        frame = frame.f_back
    found.fields(state)
    found.visit(state.launch.queues)
    found.visit(state.launch.live)
    return found.items, found.movers


class _Found:
    def __init__(self, state: BlockState, watch: Watch) -> None:
        self.items: list[Any] = []
        self.movers: list[_Mover] = []
        self._watch = watch
        self._seen: dict[int, int] = {id(state): 0}
        self._kept: list[Any] = []
        """What was seen stays alive meanwhile, so that no other gets its identity."""

    def visit(self, value: Any) -> None:
        kind = type(value)
        if value is None or kind in _PLAIN or isinstance(value, (Enum, str)):
            self.items.append((kind, value))
            return
        known = self._seen.setdefault(id(value), len(self._seen))
        self.items.append(known)
        if known != len(self._seen) - 1:
            return
        self._kept.append(value)
        if kind in (list, tuple, deque):
            self.items.append((kind, len(value)))
            for each in value:
                self.visit(each)
        elif kind is dict:
            self.items.append((kind, len(value)))
            for key, each in value.items():
                self.visit(key)
                self.visit(each)
        elif kind is PlainValue:
            self.items.append((value.dtype.name, value.value))
        elif isinstance(value, (Moving, GlobalTensor, GlobalAddress)):
            self.items.append(_Moved(value.at, value.moves))
            self.visit(getattr(value, "dtype", None))
            self.items.append((kind, getattr(value, "allocation", None)))
            if not value.moves:
                self.items.append(getattr(value, "left", None))
            if value.moves and self._watch in value.moves:
                self.movers.append(value)
        elif kind.__module__.startswith(_OURS) and kind.__name__ != "JITFunction":
            self.fields(value)
        else:
            self.items.append((kind, id(value)))

    def fields(self, value: Any) -> None:
        self.items.append(type(value))
        for name in _slots(type(value)):
            if name not in _NOT_STATE:
                self.visit(getattr(value, name, None))
        for name, each in getattr(value, "__dict__", {}).items():
            if name not in _NOT_STATE:
                self.items.append(name)
                self.visit(each)


_Mover = Moving | GlobalTensor | GlobalAddress
_OURS = ("cannlab.ascendc.", "cannlab.machine.core.queues")
_PLAIN = frozenset({int, bool, float, bytes})
_SLOTS: dict[type, tuple[str, ...]] = {}


def _slots(kind: type) -> tuple[str, ...]:
    found = _SLOTS.get(kind)
    if found is None:
        names = [getattr(each, "__slots__", ()) for each in kind.__mro__]
        flat = [name for some in names for name in ((some,) if isinstance(some, str) else some)]
        found = _SLOTS[kind] = tuple(dict.fromkeys(flat))
    return found
