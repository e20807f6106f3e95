"""Running a job in a process of its own, and reading what comes back without believing it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from cannlab.course import wire
from cannlab.course.job import Job
from cannlab.course.nursery import Nursery
from cannlab.course.player import Player
from cannlab.course.sandbox import LAYERS, Sandbox, clean_environment, mapped_bytes, open_status
from cannlab.course.spec.attempt import Ending

_CHUNK = 1 << 16
_START = 30.0
"""Seconds that a process may take until it is ready for the answer."""
_LEAVING = 0.1
"""Seconds that a process may take to end after its last word."""


@dataclass
class Outcome:
    """What an answer's process left behind.

    ``cases`` holds (message, blob) of each case that arrived whole and in order; ``status`` is the exit status or the
    signal's number; ``setup`` describes an error of the course's own setup cells; ``touched`` names functions and
    classes of cannlab that were replaced.
    """

    ending: Ending = Ending.BROKEN
    cases: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    status: int = 0
    setup: dict[str, Any] | None = None
    printed: str = ""
    layers: dict[str, str] = field(default_factory=dict)
    touched: tuple[str, ...] = ()


class Runner(Protocol):
    """Runs jobs."""

    def run(self, job: Job) -> Outcome:
        """Run a job to its end, whatever that is. Never raises for what the answer does."""


def serve(job: Job, folder: str, result: int, sandbox: Sandbox, outer: Mapping[str, str], mapped: int) -> NoReturn:
    """The life of an answer's process after it was made; does not return."""
    status = 1
    try:
        os.environ.clear()
        os.environ.update(clean_environment(folder))
        os.chdir(folder)
        layers = {**outer, **sandbox.enter(folder, job.limits, mapped)}
        layers = {name: layers[name] for name in LAYERS}

        def send(message: dict[str, Any], blob: bytes) -> None:
            wire.write_all(result, wire.pack(message, blob))

        send({"ready": layers}, b"")
        Player(job, send).play()
        status = 0
    finally:
        # No exit handlers of the parent's libraries run here, and none of the answer's.
        os._exit(status)


class _Reader:
    """Collects what a process writes until it ends, floods, or runs out of time."""

    def __init__(self, job: Job, output: int, result: int) -> None:
        self.job = job
        self.outcome = Outcome()
        self.done = False
        self._frames = wire.Frames((job.limits.result + 1) * 1024 * 1024, stranger=True)
        self._text = bytearray()
        self._read = 0
        self._descriptors = (output, result)
        self.deadline = time.monotonic() + _START

    def until_end(self) -> Ending | None:
        """Read on; gives why it stopped early, or None when the process closed both ends or finished."""
        output, result = self._descriptors
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(result, selectors.EVENT_READ)
            while selector.get_map() and not self.done:
                left = self.deadline - time.monotonic()
                if left <= 0:
                    return Ending.TIMEOUT
                for key, _ in selector.select(left):
                    data = os.read(key.fd, _CHUNK)
                    if not data:
                        selector.unregister(key.fd)
                        continue
                    stop = self._output(data) if key.fd == output else self._result(data)
                    if stop is not None:
                        return stop
        return None

    def _output(self, data: bytes) -> Ending | None:
        self._read += len(data)
        room = self.job.limits.output * 1024 - len(self._text)
        self._text += data[: max(room, 0)]
        return Ending.FLOOD if self._read > self.job.limits.output * 1024 else None

    def _result(self, data: bytes) -> Ending | None:
        try:
            for message, blob in self._frames.feed(data):
                self._message(message, blob)
        except wire.BrokenFrame as problem:
            return Ending.TOO_BIG if problem.large else Ending.BROKEN
        return None

    def _message(self, message: Any, blob: bytes) -> None:
        """Messages count only in their order: ready, then case after case, then the end."""
        outcome = self.outcome
        if not isinstance(message, dict):
            raise wire.BrokenFrame("no message")
        if "ready" in message and not outcome.layers and isinstance(message["ready"], dict):
            outcome.layers = {str(name): str(state) for name, state in message["ready"].items()}
            # The answer's time counts from here: starting an interpreter is not its fault.
            self.deadline = time.monotonic() + self.job.limits.wall
        elif "setup" in message and isinstance(message["setup"], dict):
            outcome.setup = message["setup"]
            outcome.ending = Ending.SETUP
            self.done = True
        elif message.get("case") == len(outcome.cases) < len(self.job.cases) and outcome.layers:
            outcome.cases.append((message, blob))
        elif message.get("end") == len(self.job.cases) == len(outcome.cases):
            outcome.ending = Ending.FINISHED
            touched = message.get("touched")
            outcome.touched = tuple(str(name)[:200] for name in touched[:20]) if isinstance(touched, list) else ()
            self.done = True
        else:
            raise wire.BrokenFrame("a message out of order")

    def text(self) -> str:
        """What was printed, as text."""
        return self._text.decode("utf-8", "replace")


class _Forked:
    """An answer's process that the nursery made; its end is told on a line."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def end(self, deadline: float) -> tuple[int, float]:
        """Wait for it to end by itself; have it ended when time is up. Gives (wait status, CPU s)."""
        self._line.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            told = self._line.recv(_CHUNK)
        except TimeoutError:
            self._line.settimeout(_START)
            self._line.shutdown(socket.SHUT_WR)
            told = self._line.recv(_CHUNK)
        if not told:
            raise ConnectionError("the process that answers are forked from ended")
        report = json.loads(told)
        return int(report["status"]), float(report["cpu"])


class _Spawned:
    """An answer's process that is a child of this one."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def end(self, deadline: float) -> tuple[int, float]:
        """As _Forked.end; its whole group is killed in any case."""
        pause = 0.0005
        done, status, usage = os.wait4(self._pid, os.WNOHANG)
        while not done and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
            done, status, usage = os.wait4(self._pid, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            _, status, usage = os.wait4(self._pid, 0)
        return status, usage.ru_utime + usage.ru_stime


def _judge_end(outcome: Outcome, stopped: Ending | None, status: int, cpu: float, job: Job) -> None:
    """Name the ending from what stopped it and how the process ended."""
    if outcome.ending in (Ending.FINISHED, Ending.SETUP):
        return
    if stopped is not None:
        outcome.ending = stopped
    elif os.WIFSIGNALED(status):
        outcome.status = os.WTERMSIG(status)
        spent = outcome.status == signal.SIGXCPU or (outcome.status == signal.SIGKILL and cpu >= job.limits.cpu)
        outcome.ending = Ending.CPU if spent else Ending.KILLED
    elif outcome.layers:
        outcome.status = os.waitstatus_to_exitcode(status)
        outcome.ending = Ending.EXITED
    else:
        outcome.ending = Ending.BROKEN


def _follow(job: Job, process: _Forked | _Spawned, output: int, result: int) -> Outcome:
    """Read a process to its end and clear it away."""
    reader = _Reader(job, output, result)
    stopped: Ending | None = None
    status, cpu = 0, 0.0
    try:
        stopped = reader.until_end()
    finally:
        now = time.monotonic()
        until = now if stopped is not None else now + _LEAVING if reader.done else reader.deadline
        status, cpu = process.end(until)
    if stopped is None and not reader.done and time.monotonic() >= reader.deadline:
        stopped = Ending.TIMEOUT
    reader.outcome.printed = reader.text()
    _judge_end(reader.outcome, stopped, status, cpu, job)
    return reader.outcome


class ForkRunner:
    """Has each job's process forked by a nursery: some ms. The nursery is forked when this is made, so make it early:
    what this process knows then, answers could find."""

    def __init__(self) -> None:
        self.sandbox = Sandbox.prepare()
        self.nursery = Nursery(self.sandbox, serve)

    def run(self, job: Job) -> Outcome:
        """Run a job in a forked process. OSError if the nursery has ended."""
        output, output_end = os.pipe()
        result, result_end = os.pipe()
        try:
            with self.nursery.order(job, output_end, result_end) as line:
                os.close(output_end)
                os.close(result_end)
                output_end = result_end = -1
                return _follow(job, _Forked(line), output, result)
        finally:
            for descriptor in (output, result, output_end, result_end):
                if descriptor >= 0:
                    os.close(descriptor)


class SpawnRunner:
    """Starts a fresh interpreter for each job: about 0.2 s, wherever Python runs processes (macOS)."""

    def run(self, job: Job) -> Outcome:
        """Run a job in a fresh interpreter."""
        folder = tempfile.mkdtemp(prefix="cannlab-answer-")
        result, result_end = os.pipe()
        start = (
            f"import sys; sys.path[:] = {sys.path!r}; from cannlab.course.runner import spawned; spawned({result_end})"
        )
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", start],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(result_end,),
                start_new_session=True,
                cwd=folder,
                env=clean_environment(folder),
            )
            os.close(result_end)
            result_end = -1
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(job.pack())
                process.stdin.close()
            outcome = _follow(job, _Spawned(process.pid), process.stdout.fileno(), result)
            process.returncode = 0
            process.stdout.close()
            return outcome
        finally:
            for descriptor in (result, result_end):
                if descriptor >= 0:
                    os.close(descriptor)
            shutil.rmtree(folder, ignore_errors=True)


def spawned(result: int) -> None:
    """The start of a fresh interpreter made by SpawnRunner: the job comes over standard input."""
    frames = wire.Frames(1 << 30)
    job = None
    while job is None:
        data = os.read(0, _CHUNK)
        if not data:
            os._exit(1)
        for message, blob in frames.feed(data):
            job = Job.unpack(message, blob)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    import numpy  # noqa: F401  (mapped before the limits count)

    sandbox, folder = Sandbox.prepare(), os.getcwd()
    mapped = mapped_bytes(open_status())
    layers = {"disk": "missing: a process of its own has none", **sandbox.namespaces(processes=False)}
    serve(job, folder, result, sandbox, layers | sandbox.close_reading(folder), mapped)


def runner() -> Runner:
    """The runner for this machine: fork on Linux, spawn elsewhere or with CANNLAB_RUNNER=spawn."""
    if sys.platform.startswith("linux") and os.environ.get("CANNLAB_RUNNER", "fork") != "spawn":
        return ForkRunner()
    return SpawnRunner()
