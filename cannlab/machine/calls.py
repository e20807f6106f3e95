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

    The call's cost is added to the thread's clock when it is entered; what it waits for comes on top. The acl face does
    the same in line, because a call there has to cost little (``cannlab.acl.binding``).
    """

    __slots__ = ("_machine", "_outer", "code", "name", "start", "thread")

    thread: HostThread
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
        self._outer: tuple[str, Spot | None] = (thread.function, thread.spot)
        thread.function, thread.spot = self.name, machine.spots.caller(2)
        start = self.start = thread.now
        thread.now = start + call_ns(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        machine, thread = self._machine, self.thread
        assert thread.spot is not None
        file, line, _ = thread.spot
        record = machine.record
        number = record.strings.number(self.name)
        record.calls.append(thread.index, number, self.start, thread.now, self.code, file, line)
        thread.function, thread.spot = self._outer
        machine.clock.leave(thread)
