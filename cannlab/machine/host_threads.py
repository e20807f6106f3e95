"""Telling the machine when Python threads start, end and are joined.

``threading.Thread.start`` and ``join`` are wrapped, once, because nothing else says in which order a program makes
its threads and at which simulated time: without it the order of first use, which differs from run to run, would
decide. Threads of a thread that never used the machine are left alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from cannlab.machine.clock import HostThread, ThreadState

if TYPE_CHECKING:
    from cannlab.machine.clock import Clock

_installed = False
_ATTRIBUTE = "_cannlab_host_thread"


def install(current: Callable[[], Clock | None]) -> None:
    """Wrap ``threading.Thread`` once. ``current`` gives the clock of the present machine, if there is one."""
    global _installed
    if _installed:
        return
    _installed = True
    start, join = threading.Thread.start, threading.Thread.join

    @wraps(start)
    def machine_start(self: threading.Thread) -> None:
        clock = current()
        parent = clock.known() if clock is not None else None
        if clock is None or parent is None or hasattr(self, _ATTRIBUTE):
            start(self)
            return
        child = clock.expect(parent.now)
        setattr(self, _ATTRIBUTE, (clock, child))
        run = self.run

        def machine_run() -> None:
            clock.start(child)
            try:
                run()
            finally:
                del self.run
                clock.end(child)

        self.run = machine_run  # type: ignore[method-assign]
        try:
            start(self)
        except BaseException:
            clock.end(child)
            raise
        # The new thread does this itself, but perhaps only after the caller has used its id.
        child.bind(self)

    @wraps(join)
    def machine_join(self: threading.Thread, timeout: float | None = None) -> None:
        clock, child = getattr(self, _ATTRIBUTE, (None, None))
        parent = clock.known() if clock is not None else None
        if clock is None or child is None or parent is None:
            join(self, timeout)
            return
        with joining(clock, parent, child, forever=timeout is None):
            join(self, timeout)

    threading.Thread.start = machine_start  # type: ignore[method-assign]
    threading.Thread.join = machine_join  # type: ignore[method-assign]


class joining:
    """While it is entered, ``parent`` waits for the end of ``child``; afterwards it is not earlier than that."""

    def __init__(self, clock: Clock, parent: HostThread, child: HostThread, *, forever: bool) -> None:
        self._clock, self._parent, self._child, self._forever = clock, parent, child, forever

    def __enter__(self) -> None:
        child = self._child
        with self._clock.lock:
            if self._forever:
                self._parent.state = ThreadState.WAITING
                self._parent.wake = lambda: child.now if child.state is ThreadState.DONE else None
                self._clock.notify()

    def __exit__(self, *problem: Any) -> None:
        with self._clock.lock:
            self._parent.state, self._parent.wake = ThreadState.RUNNING, None
            if self._child.state is ThreadState.DONE:
                self._parent.now = max(self._parent.now, self._child.now)
