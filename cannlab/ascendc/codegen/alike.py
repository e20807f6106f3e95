"""Turns of a loop that go alike are not run one by one.

Most loops of a kernel do the same in every turn, on other parts of global memory. So a few turns run with a counter that
says of every value how it follows from it (:mod:`moving`). When the kernel's state after a period of turns is the one
before it, but for what moves, the rest of the turns can only go as these did: their instructions are executed and
recorded without the kernel's code. What depends on the turn in any other way (a value that is read, a branch that goes
another way, something printed or told) runs turn by turn, as ever, and so do the turns from the one on where a comparison
would come out otherwise. The record is the same in either case.
"""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Iterator
from enum import Enum
from math import lcm
from types import FrameType
from typing import Any

from cannlab.ascendc.language.core.builder import BlockState, GlobalBuilder
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.language.core.moving import Moving, Watch
from cannlab.ascendc.language.core.range import range as runtime_range
from cannlab.ascendc.language.core.tensor import MovingTensor
from cannlab.machine.core.repeats import repeat

LEAST = 3
"""Periods that a loop must have left, for a watch to be worth its trouble."""
_LONGEST = 64
"""Turns of the longest period that is tried."""
_PATIENCE = 4
"""Periods that are watched before a loop is given up."""
_FAILURES = 2
"""So often a loop of a launch is given up before it is not watched any more."""
_NOT_STATE = {"launch", "entry", "loops", "watch", "since", "full", "empty"}
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
    if state is None or not state.launch.repeats or span is None:
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
) -> Iterator[PlainValue]:
    """Turns until some were repeated or the watch is given up; gives the next turn."""
    launch = state.launch
    watch = state.watch = Watch(period)
    slope = period * span.step
    before: list[Any] = []
    last: dict[tuple[int, int], int] = {}
    try:
        for _ in builtins.range(_PATIENCE):
            if (len(span) - turn) // period < 2:
                return turn
            watch.begin()
            first, told = len(launch.trace.starts), launch.told_so_far()
            for value in span[turn : turn + period]:
                yield Moving(watch, value, slope, loop.dtype)
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
            notes = {(number - first, at): step for (number, at), step in watch.notes.items()}
            if _same(before, after) and notes == last:
                count = min(watch.most, (len(span) - turn) // period)
                done = repeat(launch, first, watch.notes, count)
                for mover in movers:
                    mover.now += done * mover.slope
                known.period = period
                if done:
                    return turn + done * period
            before, last = after, notes
        known.failures += 1
        return turn
    finally:
        state.watch = None


def _same(before: list[Any], after: list[Any]) -> bool:
    """Is the later state the earlier one, with what moves moved by one period?"""
    if len(before) != len(after):
        return False
    for old, new in zip(before, after, strict=True):
        if type(old) is not type(new):
            return False
        if type(old) is _Moved:
            if old[1:] != new[1:] or new[0] - old[0] != old[1]:
                return False
        elif old != new:
            return False
    return True


class _Moved(tuple[int, int]):
    """Where something that moves is, and its slope."""


def _state(state: BlockState, frame: FrameType | None, watch: Watch) -> tuple[list[Any], list[Moving | MovingTensor]]:
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
        self.movers: list[Moving | MovingTensor] = []
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
        elif kind in (Moving, MovingTensor):
            moves = value.watch is self._watch
            self.items.append(_Moved((value.now, value.slope)) if moves else value.now)
            self.items.append((kind, value.dtype.name))
            if kind is MovingTensor:
                self.items.append(value.allocation)
            if moves:
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
