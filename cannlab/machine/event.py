"""Events: a mark in a stream that others can wait for."""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

from cannlab.machine.tasks import Task

if TYPE_CHECKING:
    from cannlab.machine.context import Context


class EventFlag(IntFlag):
    """What an event can do (bits of ``create_event_with_flag``). Source: pyacl-semantics 6."""

    SYNC = 0x1
    CAPTURE_STREAM_PROGRESS = 0x2
    TIME_LINE = 0x8
    DEVICE_USE_ONLY = 0x10
    EXTERNAL = 0x20
    IPC = 0x40


ALL_ABILITIES = EventFlag.SYNC | EventFlag.CAPTURE_STREAM_PROGRESS | EventFlag.TIME_LINE


class Event:
    """``capture`` is the recorded mark (None before the first recording); ``waits`` the last wait queued for it."""

    def __init__(self, context: Context, number: int, flags: EventFlag = ALL_ABILITIES, *, extended: bool = False):
        self.context = context
        self.number = number
        self.flags = flags
        self.extended = extended
        self.capture: Task | None = None
        self.waits: Task | None = None
        self.alive = True

    def complete(self, now: int) -> bool:
        """True if it was never recorded or its mark is passed at ``now`` (ns); runs what is due by then."""
        task = self.capture
        if task is None:
            return True
        if not task.done:
            task.stream.run_until(task, due=now)
        return task.done and task.end <= now

    @property
    def time(self) -> int | None:
        """When the mark was passed (ns); None if it is not known yet."""
        task = self.capture
        return task.end if task is not None and task.done else None
