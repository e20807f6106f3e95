"""The process that answers are forked from. It knows nothing: no check, no solution, no seed, no earlier answer.

It is forked before the first request is read, and what an answer is given to do is read by the answer's own process. So
whoever searches an answer's memory, its frames or its parent finds nothing of the judge's. Where the machine allows it,
the nursery is process 1 of a namespace: nobody outside can be seen or signalled, and what an answer leaves running is
ended before its end is reported.

One order is served at a time: [job, output, result, line] as descriptors, and the modules to import first as text.
The line carries back how the answer's process ended; when its other end closes, the answer is ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from cannlab.course import wire
from cannlab.course.job import Job
from cannlab.course.sandbox import Sandbox, mapped_bytes, open_status
from cannlab.course.untouched import original

_ORDER = 1 << 12
_LAST_DESCRIPTOR = 65536
_PARTING = 5.0
"""Seconds to wait for the nursery's end; a fork that is still there keeps it alive."""

Live = Callable[[Job, str, int, Sandbox, dict[str, str], int], NoReturn]
"""The life of an answer's process: job, folder, result descriptor, sandbox, layers so far, mapped bytes."""


class Nursery:
    """Starts the nursery, and sends it orders. May be used by forks of the process that made it, one at a time."""

    def __init__(self, sandbox: Sandbox, live: Live) -> None:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        alive, alive_end = os.pipe()
        scratch = tempfile.mkdtemp(prefix="cannlab-answers-")
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be_born(far.detach(), alive, scratch, sandbox, live)
        far.close()
        os.close(alive)
        self._line = near
        self._close = weakref.finalize(self, _bury, near, alive_end, self.pid, os.getpid())

    def close(self) -> None:
        """End the nursery and remove its folder."""
        self._close()

    @property
    def alive(self) -> bool:
        """False when it has ended."""
        if not self._close.alive:
            return False
        try:
            # It never says anything here: there is something to read only when the other end is closed.
            self._line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def order(self, job: Job, output: int, result: int) -> socket.socket:
        """Have a job run; gives the line on which ``{"status": ..., "cpu": ...}`` arrives. OSError if it is gone."""
        line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        paper = os.memfd_create("job")
        try:
            wire.write_all(paper, job.pack())
            os.lseek(paper, 0, os.SEEK_SET)
            words = json.dumps(list(job.preload)).encode()
            socket.send_fds(self._line, [words], [paper, output, result, far.fileno()])
        except BaseException:
            line.close()
            raise
        finally:
            os.close(paper)
            far.close()
        return line


def _bury(line: socket.socket, alive: int, pid: int, owner: int) -> None:
    if os.getpid() != owner:
        return
    line.close()
    os.close(alive)
    deadline = time.monotonic() + _PARTING
    with contextlib.suppress(ChildProcessError):
        while not os.waitpid(pid, os.WNOHANG)[0] and time.monotonic() < deadline:
            time.sleep(0.001)


def _be_born(orders: int, alive: int, scratch: str, sandbox: Sandbox, live: Live) -> NoReturn:
    """Two processes: one that leaves the namespaces and cleans up at the end, whatever ended its maker, and the
    nursery itself, the first in the new ones."""
    try:
        orders, alive = _above(orders), _above(alive)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.dup2(orders, 3)
        os.dup2(alive, 4)
        os.closerange(5, _LAST_DESCRIPTOR)
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_IGN)
        os.setsid()
        layers = sandbox.namespaces(processes=True)
        pid = os.fork()
        if pid:
            os.close(3)
            os.read(4, 1)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            sandbox.remove_scratch(scratch)
            os._exit(0)
        os.close(4)
        sandbox.die_with_parent()
        Keeper(socket.socket(fileno=3), scratch, sandbox, layers, live).keep()
    finally:
        os._exit(1)


class Keeper:
    """The nursery, from inside."""

    def __init__(
        self, orders: socket.socket, scratch: str, sandbox: Sandbox, layers: dict[str, str], live: Live
    ) -> None:
        self.orders = orders
        self.scratch = scratch
        self.sandbox = sandbox
        self.live = live
        self.status = open_status()
        self.alone = layers["processes"] == "on"
        self.layers = layers | sandbox.scratch(scratch) | sandbox.close_reading(scratch)
        sandbox.hide_memory()
        original()
        self.wake, wake_end = os.pipe()
        for number in (self.wake, wake_end):
            os.set_blocking(number, False)
        self.processors = os.sched_getaffinity(0)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)

    def keep(self) -> None:
        """Serve orders until the other end closes."""
        while True:
            words, descriptors, _, _ = socket.recv_fds(self.orders, _ORDER, 4)
            if not words:
                return
            for name in json.loads(words):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)
            job, output, result, line = descriptors
            # An answer may have moved this process to one processor, which the next would inherit.
            os.sched_setaffinity(0, self.processors)
            folder = tempfile.mkdtemp(prefix="answer-", dir=self.scratch)
            pid = os.fork()
            if pid == 0:
                self._child(job, output, result, folder)
            for number in (job, output, result):
                os.close(number)
            with socket.socket(fileno=line) as report:
                status, cpu = self._follow(pid, report)
                self._clear(pid)
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(OSError):
                    report.send(json.dumps({"status": status, "cpu": cpu}).encode())

    def _follow(self, pid: int, line: socket.socket) -> tuple[int, float]:
        """Wait until the answer's process has ended, by itself or because the line spoke or closed."""
        with selectors.DefaultSelector() as selector:
            selector.register(line, selectors.EVENT_READ)
            selector.register(self.wake, selectors.EVENT_READ)
            while True:
                done, status, usage = os.wait4(pid, os.WNOHANG)
                if not done and line in {key.fileobj for key, _ in selector.select()}:
                    self._kill(pid)
                    done, status, usage = os.wait4(pid, 0)
                if done:
                    return status, usage.ru_utime + usage.ru_stime
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake, 1 << 12)

    def _kill(self, pid: int) -> None:
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(pid, signal.SIGKILL)

    def _clear(self, pid: int) -> None:
        """End and bury everything that the answer left running."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.alone:
                os.kill(-1, signal.SIGKILL)
            else:
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, 0 if self.alone else os.WNOHANG)[0]:
                pass

    def _child(self, job: int, output: int, result: int, folder: str) -> NoReturn:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for name in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(name, signal.SIG_DFL)
            mapped = mapped_bytes(self.status)
            # The numbers may be among those that they move to, so they first move out of the way.
            job, output, result = (_above(number) for number in (job, output, result))
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.dup2(result, 3)
            os.dup2(job, 4)
            os.closerange(5, _LAST_DESCRIPTOR)
            ((message, blob),) = wire.Frames(1 << 50).feed(_read_all(4))
            os.close(4)
            # They stay open as long as the process.
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)  # noqa: SIM115
            self.live(Job.unpack(message, blob), folder, 3, self.sandbox, self.layers, mapped)
        finally:
            os._exit(1)


def _above(number: int) -> int:
    """The same file under a number that is not among the first five."""
    return fcntl.fcntl(number, fcntl.F_DUPFD, 5)


def _read_all(descriptor: int) -> bytes:
    parts: list[Any] = []
    while data := os.read(descriptor, 1 << 20):
        parts.append(data)
    return b"".join(parts)
