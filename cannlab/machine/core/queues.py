"""TPipe and TQue on the machine's side: buffers, their states, and the events between pipes.

A buffer goes FREE -> ALLOCATED -> ENQUEUED -> DEQUEUED -> FREE. enque sets an event from the pipe that
fills it to the pipe that uses it, deque waits for it; free sets the event back, alloc waits for that.
Source: ascend-c 2.3, pyasc 5.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import IntEnum

MAX_BUFFERS = 64
"""Buffers of all queues of a kernel together."""
MAX_LIVE = 8
"""Tensors allocated at once from all queues on one position."""


class State(IntEnum):
    """What a buffer of a queue is."""

    FREE = 0
    ALLOCATED = 1
    ENQUEUED = 2
    DEQUEUED = 3
    WHOLE = 4
    """A TBuf: always usable, in no queue."""


@dataclass(slots=True, eq=False)
class Buffer:
    """One buffer of a queue.

    Attributes:
        full, empty: what was complete when it was enqueued and when it was freed (the events' clocks).
        since: number of the instruction that changed its state last.
    """

    queue: Queue
    number: int
    space: int
    start: int
    size: int
    state: State = State.FREE
    full: list[int] | None = None
    empty: list[int] | None = None
    since: int = -1


@dataclass(slots=True, eq=False)
class Queue:
    """A TQue (or TBuf, with ``whole``).

    Attributes:
        position: TPosition number: live tensors are counted per position.
        produces, consumes: pipes that fill and use its buffers.
        depth: how many tensors may be enqueued in a row.
    """

    number: int
    position: int
    produces: int
    consumes: int
    depth: int
    whole: bool = False
    buffers: list[Buffer] = field(default_factory=list)
    waiting: deque[Buffer] = field(default_factory=deque)
    turn: int = 0

    def free_buffer(self) -> Buffer | None:
        """The next buffer to hand out: round robin, as the toolkit does."""
        for step in range(len(self.buffers)):
            buffer = self.buffers[(self.turn + step) % len(self.buffers)]
            if buffer.state is State.FREE:
                self.turn = (buffer.number + 1) % len(self.buffers)
                return buffer
        return None
