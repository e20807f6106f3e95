"""Host threads and the order in which their calls take effect.

Every host thread has its own simulated clock. A call takes effect when no other running thread is behind
the caller in simulated time (ties: the thread made first). So shared things are granted by virtual time, and
two runs of a program with threads give the same record. A program with one thread pays nothing for this.

A thread that does host work which cannot be seen (it sleeps, it waits for a lock) would hold up the others for
ever; after ``PATIENCE`` seconds of real time without progress it is counted as parked until its next call. A thread
that could run and gets no processor (the host is busy) does not count as waiting.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cannlab.machine.context import Context
    from cannlab.machine.spots import Spot

PATIENCE = 0.02
"""Real seconds without progress after which a thread counts as parked."""
_POLL = 0.005


class ThreadState(IntEnum):
    """Where a host thread is, as far as the machine knows."""

    RUNNING = 1
    """In the program's own code, or inside a call."""
    WAITING = 2
    """Inside a call or a join, until something happens or its turn comes."""
    DONE = 3


class HostThread:
    """One host thread: its clock (ns), its current context, the messages of its last errors.

    ``index`` is the order of creation; ``ident`` the thread's id as ``acl.util.start_thread`` returns it; ``function``
    and ``spot`` are the name and the learner's line of the call in progress; without one, ``spot`` is None. ``nested``
    counts the calls inside that call (of a callback that runs while it is in progress).
    """

    __slots__ = (
        "__weakref__",
        "_python",
        "context",
        "deadline",
        "function",
        "hooked",
        "ident",
        "index",
        "last_error",
        "last_task",
        "messages",
        "nested",
        "now",
        "parked",
        "seen",
        "since",
        "spot",
        "state",
        "wake",
    )

    def __init__(self, index: int, now: int) -> None:
        self.index = index
        self.now = now
        self.context: Context | None = None
        self.messages: list[str] = []
        self.last_error = 0
        self.last_task = 0
        self.function = ""
        self.spot: Spot | None = None
        self.ident = 0
        self.state = ThreadState.RUNNING
        self.nested = 0
        self.parked = False
        self.hooked = False
        self.wake: Callable[[], int | None] | None = None
        self.deadline: int | None = None
        self.seen: tuple[int, int] = (-1, 0)
        self.since = 0.0
        self._python: weakref.ref[threading.Thread] | None = None

    def bind(self, python: threading.Thread) -> None:
        """Say which Python thread this is."""
        self.ident = python.ident or 0
        self._python = weakref.ref(python)

    @property
    def alive(self) -> bool:
        """False once the Python thread has ended."""
        if self.state is ThreadState.DONE:
            return False
        python = self._python() if self._python is not None else None
        return self.ident == 0 or (python is not None and python.is_alive())

    def due(self) -> int | None:
        """The simulated time at which this thread may act next; None while only another one can wake it."""
        if self.state is not ThreadState.WAITING:
            return self.now
        at = self.wake() if self.wake is not None else None
        if at is not None:
            at = max(at, self.now)
        if self.deadline is not None:
            at = self.deadline if at is None else min(at, self.deadline)
        return at

    def progress(self) -> tuple[int, int]:
        """Something that changes whenever the thread does: its clock and its processor time."""
        if self.hooked and self.ident and hasattr(time, "pthread_getcpuclockid"):
            # Safe only for hooked threads: they cannot end while the caller holds the clock's lock.
            return self.now, time.clock_gettime_ns(time.pthread_getcpuclockid(self.ident))
        return self.now, 0

    def runnable(self) -> bool:
        """True if the host says that it only lacks a processor, or waits for a disk (Linux)."""
        python = self._python() if self._python is not None else None
        # One that has ended is still the host's for a moment, and its number is given to others.
        if python is None or python.native_id is None or not python.is_alive():
            return False
        try:
            with open(f"/proc/self/task/{python.native_id}/stat", "rb") as file:
                return file.read().rpartition(b") ")[2][:1] in b"RD"
        except OSError:
            return False


class Clock:
    """All host threads of a machine, and the one lock that a call holds.

    ``crowd`` is True while more than one thread lives; ``local.thread`` is the calling thread's HostThread, once known;
    ``current`` is the thread whose call is in progress (who holds the lock need not look for itself).
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.acquire, self.release = self.lock.acquire, self.lock.release
        self.threads: list[HostThread] = []
        self._changed = threading.Condition(self.lock)
        self.local = threading.local()
        self.crowd = False
        self.current: HostThread | None = None

    # -- threads -------------------------------------------------------------------------------------

    @property
    def thread(self) -> HostThread:
        """The calling thread's HostThread; made at the first use."""
        try:
            return self.local.thread  # type: ignore[no-any-return]
        except AttributeError:
            return self._register()

    def known(self) -> HostThread | None:
        """The calling thread's HostThread, if it ever used the machine."""
        return getattr(self.local, "thread", None)

    def _register(self) -> HostThread:
        with self.lock:
            thread = self.expect(0)
            thread.bind(threading.current_thread())
            thread.hooked = threading.current_thread() is threading.main_thread()
        self.local.thread = thread
        return thread

    def expect(self, now: int) -> HostThread:
        """Add a thread that is about to start; the order of these calls is the order of creation."""
        with self.lock:
            thread = HostThread(len(self.threads), now)
            self.threads.append(thread)
            self.crowd = sum(other.alive for other in self.threads) > 1
            return thread

    def start(self, thread: HostThread) -> None:
        """Called in the new Python thread before its own code."""
        with self.lock:
            thread.bind(threading.current_thread())
            thread.hooked = True
            self.local.thread = thread

    def end(self, thread: HostThread) -> None:
        """Called when a Python thread ends."""
        with self.lock:
            thread.state = ThreadState.DONE
            thread.context = None
            self.current = None
            self.crowd = sum(other.alive for other in self.threads) > 1
            self._changed.notify_all()

    def by_ident(self, ident: int) -> HostThread | None:
        """The newest living thread with that id."""
        for thread in reversed(self.threads):
            if thread.ident == ident and thread.alive:
                return thread
        return None

    # -- turns ---------------------------------------------------------------------------------------

    def enter(self, thread: HostThread) -> None:
        """Begin a call: hold the lock, in turn."""
        self.lock.acquire()
        self.current = thread
        if thread.spot is not None:
            thread.nested += 1
        elif self.crowd:
            self.take_turn(thread)

    def take_turn(self, thread: HostThread) -> None:
        """Wait, with the lock, until no other thread is behind; a call that is interrupted here never began."""
        try:
            thread.parked = False
            self.wait(thread, lambda: thread.now)
        except BaseException:
            self.leave(thread)
            raise

    def leave(self, thread: HostThread) -> None:
        """End a call, whose ``spot`` the thread no longer shows."""
        if thread.spot is not None:
            thread.nested -= 1
        elif self.crowd:
            self.current = None
            self._changed.notify_all()
        self.lock.release()

    def open(self, thread: HostThread) -> int:
        """Let the program's own code run in the middle of a call (a callback); returns what ``shut`` needs."""
        nested, thread.nested = thread.nested, 0
        self.current = None
        self._changed.notify_all()
        for _ in range(nested + 1):
            self.lock.release()
        return nested

    def shut(self, thread: HostThread, nested: int) -> None:
        """Go on with the call after ``open``."""
        for _ in range(nested + 1):
            self.lock.acquire()
        self.current = thread
        thread.nested = nested
        if self.crowd:
            self.wait(thread, lambda: thread.now)

    def wait(self, thread: HostThread, wake: Callable[[], int | None], deadline: int | None = None) -> bool:
        """Wait inside a call until ``wake`` gives a simulated time and it is this thread's turn.

        Args:
            wake: gives the time (ns) at which the thread may go on, or None; called with the lock held.
            deadline: simulated time (ns) at which the thread gives up; None waits for ever.

        Returns:
            True if woken; False at the deadline, or when no other thread can ever wake this one. The thread's
            clock is moved to the time of that.
        """
        thread.wake, thread.deadline, thread.state = wake, deadline, ThreadState.WAITING
        began = time.monotonic()
        try:
            while True:
                at = wake()
                at = None if at is None else max(at, thread.now)
                woken = at is not None and (deadline is None or at <= deadline)
                due = at if woken else deadline
                if due is None:
                    if self._hopeless(thread):
                        return False
                elif not self._others_before(thread, due, began):
                    thread.now = max(thread.now, due)
                    return woken
                self._changed.wait(_POLL)
                self.current = thread
        finally:
            thread.state, thread.wake, thread.deadline = ThreadState.RUNNING, None, None

    def notify(self) -> None:
        """Something happened that a waiting thread may need."""
        if self.crowd:
            self._changed.notify_all()

    def _others_before(self, thread: HostThread, due: int, began: float) -> bool:
        """True if another thread may still act before (``due``, this thread's index)."""
        before = False
        for other in self.threads:
            if other is thread or other.parked or other.state is ThreadState.DONE:
                continue
            at = other.due()
            if at is None or (at, other.index) > (due, thread.index):
                continue
            if other.state is ThreadState.RUNNING and self._idle(other, began):
                other.parked = True
                continue
            before = True
        return before

    def _idle(self, other: HostThread, began: float) -> bool:
        """True if a thread has made no progress for ``PATIENCE`` while somebody watched."""
        if not other.alive:
            other.state = ThreadState.DONE
            return True
        if other.spot is not None:
            return False
        now, seen = time.monotonic(), other.progress()
        if seen != other.seen:
            other.seen, other.since = seen, now
            return False
        if now - max(other.since, began) <= PATIENCE:
            return False
        if other.runnable():
            other.since = now
            return False
        return True

    def _hopeless(self, thread: HostThread) -> bool:
        """True if every other thread has ended or waits without an end, so that nothing can wake this one."""
        return all(
            other is thread or not other.alive or (other.state is ThreadState.WAITING and other.due() is None)
            for other in self.threads
        )
