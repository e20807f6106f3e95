"""Whether a thread of the program lacks a processor or waits, as the host tells it."""

import sys
import threading

import pytest

from cannlab.machine.clock import HostThread

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the host tells it on Linux only")


def of(python: threading.Thread) -> HostThread:
    found = HostThread(0, 0)
    found.bind(python)
    return found


def test_the_thread_that_asks_is_runnable() -> None:
    assert of(threading.current_thread()).runnable()


def test_a_thread_that_waits_for_a_lock_is_not() -> None:
    started, end = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    try:
        # Between telling that it has started and waiting there are a few steps.
        for _ in range(3000):
            if not of(thread).runnable():
                break
            threading.Event().wait(0.01)
        else:
            pytest.fail("it is never seen waiting")
    finally:
        end.set()
        thread.join()
    assert not of(thread).runnable()
