"""A limit on the work that the judge does for one answer, so that what a stranger's process sent cannot hold it up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class TooLong(BaseException):
    """The time is up. No Exception: nobody on the way takes it for a mistake of theirs."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TooLong inside the block when this process has computed for so long (waiting does not count).

    Only in a main thread; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def up(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
