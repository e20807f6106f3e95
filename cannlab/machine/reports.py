"""Host callbacks of streams: who runs them, and when."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cannlab.machine.tasks import NOTHING, Task
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.machine.clock import HostThread
    from cannlab.machine.node import Machine
    from cannlab.machine.stream import Stream


def call_back(function: Callable[[Any], object], value: object) -> None:
    """Call a function of the program's. What it raises is only logged, as the real module does, and all goes on."""
    try:
        function(value)
    except Exception:
        traceback.print_exc()


class Callback:
    """A function that a stream hands to a host thread: called with one positional argument."""

    def __init__(self, function: Callable[[Any], object], data: object, *, blocking: bool) -> None:
        self.function = function
        self.data = data
        self.blocking = blocking
        self.delivered = False
        self.done = False
        self.at = 0
        self.end = 0

    def finish(self, end: int) -> None:
        """It has run (or never will); a stream that it blocks goes on."""
        self.delivered = self.done = True
        self.end = end


class Subscription:
    """The streams whose callbacks one thread runs. Source: pyacl-semantics 7."""

    def __init__(self, machine: Machine, thread: HostThread) -> None:
        self._machine = machine
        self.thread = thread
        self.streams: list[Stream] = []
        self._arrived: deque[tuple[Callback, Stream]] = deque()
        self._held: list[Task] = []

    def add(self, stream: Stream) -> None:
        """Take over the callbacks of a stream."""
        self.streams.append(stream)
        stream.subscription = self

    def remove(self, stream: Stream) -> None:
        """Give a stream up; callbacks that arrived and did not run are dropped."""
        self.streams.remove(stream)
        stream.subscription = None
        for callback, origin in self._arrived:
            if origin is stream:
                callback.finish(callback.at)
        self._arrived = deque(entry for entry in self._arrived if entry[1] is not stream)

    def deliver(self, callback: Callback, at: int) -> None:
        """A stream has reached a callback at simulated time ``at``."""
        callback.delivered, callback.at = True, at
        origin = next(stream for stream in self.streams if stream.queue and stream.queue[0].callback is callback)
        self._arrived.append((callback, origin))
        self._machine.clock.notify()

    def process(self, timeout: int | None) -> bool:
        """Run the callbacks that are ready, in the calling thread; wait for the first one.

        Args:
            timeout: simulated ns; None waits for ever.

        Returns:
            False if none came in time (or none can ever come).
        """
        clock, thread = self._machine.clock, self.thread
        deadline = None if timeout is None else thread.now + timeout
        while True:
            self._run_streams()
            ran = self._machine.callbacks_run
            if not clock.wait(thread, lambda seen=ran: self._next(seen), deadline):  # type: ignore[misc]
                return False
            self._run_streams()
            ready = [entry for entry in self._arrived if entry[0].at <= thread.now]
            if ready:
                break
        for entry in ready:
            self._arrived.remove(entry)
            self._call(*entry)
        return True

    def _pending(self) -> list[Task]:
        """The next callback of each subscribed stream that it has not handed over yet."""
        found = []
        for stream in self.streams:
            task = next((task for task in stream.queue if task.callback is not None), None)
            if task is not None and task.callback is not None and not task.callback.delivered:
                found.append(task)
        return found

    def _next(self, callbacks_run: int) -> int | None:
        """A simulated time before which nothing arrives; None if nothing can until another thread acts.

        A stream that is held up by a callback of another thread is tried again once any callback has returned.
        """
        times = [callback.at for callback, _ in self._arrived]
        held = callbacks_run == self._machine.callbacks_run
        times += [task.queued for task in self._pending() if not (held and task in self._held)]
        return min(times, default=None)

    def _run_streams(self) -> None:
        """Let the subscribed streams reach their next callbacks."""
        self._held = []
        for task in sorted(self._pending(), key=lambda task: (task.earliest(), task.order)):
            callback = task.callback
            if not task.done and not task.stream.run_until(task) and callback is not None and not callback.delivered:
                self._held.append(task)

    def _call(self, callback: Callback, stream: Stream) -> None:
        machine, thread = self._machine, self.thread
        start = thread.now = max(thread.now, callback.at)
        outer = (thread.function, thread.spot)
        thread.function, thread.spot = "", None
        depth = machine.clock.open(thread)
        try:
            call_back(callback.function, callback.data)
        finally:
            machine.clock.shut(thread, depth)
            thread.function, thread.spot = outer
            callback.finish(thread.now)
            machine.callbacks_run += 1
            name = getattr(callback.function, "__name__", "callback")
            machine.record_work(
                stream.context.device.index,
                stream.number,
                TaskKind.CALLBACK,
                name,
                start,
                thread.now,
                NOTHING,
                queued=callback.at,
                spot=machine.here(),
                core_type="CALLBACK",
            )
            machine.clock.notify()
