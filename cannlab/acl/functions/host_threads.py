"""util.start_thread and stop_thread. Source: pyacl-semantics 7.

The real start_thread also resets SIGINT to its default action, so that Ctrl-C ends the process at once. That is left
out on purpose: in a notebook it would end the kernel.
"""

from __future__ import annotations

import threading
import traceback
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse
from cannlab.machine import Machine

_KEY = "acl.util.threads"


class UtilThread(threading.Thread):
    """A thread of ``start_thread``; what its function raised is kept for ``stop_thread``."""

    def __init__(self, function: Any, argument: Any) -> None:
        super().__init__(name=getattr(function, "__name__", "thread"), daemon=True)
        self._function, self._argument = function, argument
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Call the function with one argument, or with none if that is None."""
        try:
            if self._argument is None:
                self._function()
            else:
                self._function(self._argument)
        except BaseException as problem:
            self.problem = problem


@api("acl.util.start_thread")
def start_thread(m: Machine, function: Any, argument: Any) -> tuple[int, int]:
    """start_thread(fn, args) -> (thread_id, ret): calls fn(args), or fn() if args is None, in a new thread."""
    if not callable(function):
        raise TypeError("parameter must be callable")
    thread = UtilThread(function, argument)
    thread.start()
    assert thread.ident is not None
    m.faces.setdefault(_KEY, {})[thread.ident] = thread
    return thread.ident, 0


@api("acl.util.stop_thread")
def stop_thread(m: Machine, thread_id: int) -> int:
    """stop_thread(thread_id) -> ret: waits for its end. RuntimeError if its function raised."""
    thread = m.faces.setdefault(_KEY, {}).pop(thread_id, None)
    if thread is None:
        raise refuse(m, "runtime.bad_handle", kind="thread id of start_thread")
    depth = m.clock.open(m.thread)
    try:
        thread.join()
    finally:
        m.clock.shut(m.thread, depth)
    if thread.problem is not None:
        traceback.print_exception(thread.problem)
        raise RuntimeError(f"exception={type(thread.problem).__name__},msg=thread call failed;")
    return 0
