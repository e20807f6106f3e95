"""A host API call: its time, its row in the record."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from cannlab.machine.api_costs import call_ns
from cannlab.machine.spots import Spot

if TYPE_CHECKING:
    from cannlab.machine.clock import HostThread
    from cannlab.machine.node import Machine


class Call:
    """A call in progress (``with machine.call(name) as call``). Set ``call.code`` to what it returns.

    The call's cost is added to the thread's clock when it is entered; what it waits for comes on top.
    """

    __slots__ = ("_machine", "_outer", "code", "name", "spot", "start", "thread")

    thread: HostThread
    spot: Spot
    start: int

    def __init__(self, machine: Machine, name: str) -> None:
        self._machine = machine
        self.name = name
        self.code = 0

    def __enter__(self) -> Call:
        machine = self._machine
        clock = machine.clock
        thread = self.thread = clock.thread
        clock.enter(thread)
        self.spot = machine.spots.caller(2)
        self._outer = thread.call
        thread.call = self
        start = self.start = thread.now
        thread.now = start + call_ns(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        machine, thread = self._machine, self.thread
        file, line, _ = self.spot
        record = machine.record
        number = record.strings.number(self.name)
        record.calls.append(thread.index, number, self.start, thread.now, self.code, file, line)
        thread.call = self._outer
        machine.clock.leave(thread)
