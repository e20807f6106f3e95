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


def nothing() -> Work:
    """The data effect of a task that has none."""
    return NOTHING


class Task:
    """One task. ``queued``, ``start`` and ``end`` are simulated ns; start and end are known once it is done.

    ``after`` is a task of another stream that must be done before (event wait), ``callback`` the host function
    of a CALLBACK task, ``order`` the creation index of the queueing thread and the task's sequence number.
    """

    __slots__ = (
        "after",
        "blocks",
        "bytes",
        "callback",
        "core_type",
        "done",
        "end",
        "engine",
        "keep",
        "kind",
        "name",
        "op_type",
        "order",
        "queued",
        "run",
        "spot",
        "start",
        "stream",
    )

    def __init__(
        self,
        stream: Stream,
        kind: TaskKind,
        name: str,
        run: Callable[[], Work],
        engine: Engine,
        op_type: str,
        core_type: str,
        bytes: int,
        blocks: int,
        keep: tuple[Any, ...],
        queued: int,
        order: tuple[int, int],
        spot: Spot,
        after: Task | None,
        callback: Callback | None,
    ) -> None:
        self.stream = stream
        self.kind = kind
        self.name = name
        self.run = run
        self.engine = engine
        self.op_type = op_type
        self.core_type = core_type
        self.bytes = bytes
        self.blocks = blocks
        self.keep = keep
        self.queued = queued
        self.order = order
        self.spot = spot
        self.after = after
        self.callback = callback
        self.done = False
        self.start = -1
        self.end = -1

    def earliest(self) -> int:
        """No start before this time (ns): its queueing, its predecessor in the stream, the task it waits for."""
        at = max(self.queued, self.stream.ready)
        if self.after is not None and self.after.done:
            at = max(at, self.after.end)
        return at

    def finish(self, end: int) -> None:
        """Mark it done; its operands may go."""
        self.done = True
        self.end = end
        self.run = nothing
        self.keep = ()
        self.after = None
        self.callback = None
