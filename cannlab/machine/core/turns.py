"""Who runs: the cores of a launch take turns, one at a time, in an order that never varies.

A core runs until it is over or has to wait for another one. As long as nobody waits, all run one after another in the
caller's thread; a core that waits keeps its stack in the thread that it is in, and the next ones run in another.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cannlab.machine.core.launch import Launch

_STACK = 1 << 19
"""Bytes of a waiting core's stack."""
_POLL = 0.05
"""Seconds between two attempts to stop a running core."""


_M_ARENA_MAX = -8


def _arenas(most: int) -> None:
    """How many heaps the C library may keep (0: as many as it likes).

    It reserves 64 MB of addresses for each new thread, which a process with a limited address space cannot afford;
    these threads never run at the same time.
    """
    if sys.platform == "linux":
        adjust = getattr(ctypes.CDLL(None), "mallopt", None)
        if adjust is not None:
            adjust(_M_ARENA_MAX, most)


class _Abandoned(BaseException):
    """Unwinds a core that waits in a launch that is over."""


class Turns:
    """One launch's cores.

    Args:
        launch: the launch.
        body: the kernel, called once for each unit.
        order: units in the order in which they begin; the launch's own by default.
    """

    def __init__(self, launch: Launch, body: Callable[[Launch], None], order: Iterable[int] | None = None) -> None:
        self._launch, self._body = launch, body
        self._order = [unit.number for unit in launch.units] if order is None else list(order)
        self._next = 0
        self._batons: dict[int, threading.Lock] = {}
        """Of each waiting unit, in the order in which they began to wait: released when it may go on."""
        self._unfinished: dict[int, int] = {}
        """Group -> units of it that have begun and are not over."""
        self._problem: BaseException | None = None
        self._ended = False
        self._threads = False
        self._running = 0
        """The identity of the thread whose core runs."""
        self._over = _thread.allocate_lock()
        self._over.acquire()

    def run(self) -> None:
        """All cores, to the end.

        Raises:
            what a core's run raises, and KernelFault where none can go on.
        """
        self._launch.pause = self._wait
        try:
            if not self._work():
                self._await_end()
        except BaseException as problem:
            self._stop(problem)
            self._await_end()
        finally:
            self._launch.pause = None
            if self._threads:
                _arenas(0)
        if self._problem is not None:
            raise self._problem

    def _await_end(self) -> None:
        """The caller's thread has nothing left to run."""
        try:
            self._over.acquire()
        except BaseException as problem:
            self._interrupt(problem, None)

    # -- inside whichever thread has the turn ------------------------------------------------------------

    def _work(self) -> bool:
        """Run units that have not begun while it is their turn; True when all are over, False when another goes on."""
        self._running = _thread.get_ident()
        with np.errstate(all="ignore"):
            while self._problem is None:
                unit = self._pick()
                if unit is None:
                    return True
                if unit in self._batons:
                    self._batons.pop(unit).release()
                    return False
                self._begin(unit)
        raise _Abandoned

    def _begin(self, unit: int) -> None:
        launch = self._launch
        group = launch.units[unit].group
        self._next += 1
        self._unfinished[group] = self._unfinished.get(group, 0) + 1
        launch.start_block(unit)
        self._body(launch)
        self._next, launch.passed = self._next + launch.passed, 0
        self._unfinished[group] -= 1
        if not self._unfinished[group] and not self._begins_later(group):
            del self._unfinished[group]

    def _begins_later(self, group: int) -> bool:
        """Has a group units that have not begun?"""
        units = self._launch.units
        return self._next < len(self._order) and units[self._order[self._next]].group == group

    def _pick(self) -> int | None:
        """Whose turn it is: the first waiting unit that may go on, else the next one to begin; None when all are over.

        A cube core that waits for requests lets the vector cores of its group go first: what they ask for at the same
        time is served in that order, not one core after the other.

        Raises:
            KernelFault: units wait, and none of them may go on.
        """
        launch = self._launch
        server: int | None = None
        for unit in self._batons:
            if launch.may_go_on(unit):
                if not launch.serves(unit):
                    return unit
                server = unit if server is None else server
        if self._next < len(self._order):
            unit = self._order[self._next]
            group = launch.units[unit].group
            if server is not None and launch.units[server].group != group:
                return server
            if group in self._unfinished or len(self._unfinished) < launch.at_once:
                return unit
        if server is not None:
            return server
        if self._batons:
            launch.deadlock()
        return None

    def _wait(self) -> None:
        """The running core waits: others run until it may go on."""
        launch = self._launch
        unit = launch.unit.number
        baton = _thread.allocate_lock()
        baton.acquire()
        self._batons[unit] = baton
        try:
            turn = self._pick()
            assert turn is not None
            if turn in self._batons:
                self._batons.pop(turn).release()
            else:
                self._start_thread()
        except BaseException:
            self._batons.pop(unit, None)
            raise
        try:
            baton.acquire()
        except BaseException as problem:
            self._interrupt(problem, baton)
            raise
        if self._problem is not None:
            raise _Abandoned
        self._running = _thread.get_ident()
        launch.go_on(unit)

    # -- threads and their end --------------------------------------------------------------------------

    def _start_thread(self) -> None:
        # Not threading.Thread: the machine takes those for threads of the program.
        self._threads = True
        before = threading.stack_size(_STACK)
        _arenas(1)
        try:
            _thread.start_new_thread(self._thread, ())
        finally:
            threading.stack_size(before)

    def _thread(self) -> None:
        try:
            if self._work():
                self._over.release()
        except BaseException as problem:
            self._stop(problem)

    def _stop(self, problem: BaseException) -> None:
        """A core's run ended with a problem: those that wait are unwound one after another."""
        if self._problem is None and not isinstance(problem, _Abandoned):
            self._problem = problem
        if self._batons:
            self._batons.pop(next(iter(self._batons))).release()
        elif not self._ended:
            self._ended = True
            self._over.release()

    def _interrupt(self, problem: BaseException, baton: threading.Lock | None) -> None:
        """Ctrl-C came to a thread that waits: the core that runs in another one stops, then all are unwound.

        Args:
            problem: what came. baton: that of the core that waits in this thread.
        """
        self._problem = problem
        if baton is not None:
            mine = next((unit for unit, each in self._batons.items() if each is baton), None)
            if mine is not None:
                del self._batons[mine]
        while not self._over.acquire(timeout=_POLL):
            if baton is not None and baton.acquire(blocking=False):
                # The turn was just given to this core.
                baton = None
                self._stop(problem)
                continue
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._running), ctypes.py_object(_Abandoned))
        # run() waits for the end once more.
        self._over.release()
