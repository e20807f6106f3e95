"""A task of a stream: queued with its operands, run when something waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cannlab.machine.engines import Engine
from cannlab.machine.spots import Spot
from cannlab.machine.work import Work
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.machine.reports import Callback
    from cannlab.machine.stream import Stream

NOTHING = Work(0)


class Task:
    """One task. ``queued``, ``start`` and ``end`` are simulated ns; start and end are known once it is done.

    ``run`` does the data effect; None for a task that has none and takes no time.

    ``after`` is a task of another stream that must be done before (event wait), ``callback`` the host function
    of a CALLBACK task, ``order`` the creation index of the queueing thread and the task's sequence number. ``ns`` is
    how long it takes, where that is known before it runs.
    """

    # Most tasks differ from these in few attributes; setting only those is what makes queueing cheap.
    op_type = ""
    core_type = ""
    bytes = 0
    blocks = 0
    keep: tuple[Any, ...] = ()
    after: Task | None = None
    callback: Callback | None = None
    run: Callable[[], Work] | None = None
    ns: int | None = None
    done = False
    start = -1
    end = -1

    def __init__(
        self, stream: Stream, kind: TaskKind, name: str, engine: Engine, queued: int, order: tuple[int, int], spot: Spot
    ) -> None:
        self.stream = stream
        self.kind = kind
        self.name = name
        self.engine = engine
        self.queued = queued
        self.order = order
        self.spot = spot

    def earliest(self) -> int:
        """No start before this time (ns): its queueing, its predecessor in the stream, the task it waits for."""
        at, ready = self.queued, self.stream.ready
        if ready > at:
            at = ready
        if self.after is not None and self.after.done and self.after.end > at:
            at = self.after.end
        return at

    def finish(self, end: int) -> None:
        """Mark it done; its operands may go."""
        self.done = True
        self.end = end
        if self.run is not None:
            self.run = None
        if self.keep:
            self.keep = ()
        if self.after is not None:
            self.after = None
        if self.callback is not None:
            self.callback = None


class EventRecord(Task):
    """The recording of an event: queued so often that it has as little of its own as possible."""

    kind = TaskKind.EVENT_RECORD
    name = "EventRecord"
    engine = Engine.NONE
    core_type = "EVENT_RECORD"

    def __init__(self, stream: Stream, queued: int, order: tuple[int, int], spot: Spot) -> None:
        self.stream = stream
        self.queued = queued
        self.order = order
        self.spot = spot
