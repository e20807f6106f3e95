"""Running a job in a process of its own, and reading what comes back without believing it."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from cannlab.course import wire
from cannlab.course.job import Job
from cannlab.course.player import Player
from cannlab.course.sandbox import Sandbox, clean_environment
from cannlab.course.spec.attempt import Ending

_CHUNK = 1 << 16
_START = 30.0
"""Seconds that a process may take until it is ready for the answer."""


@dataclass
class Outcome:
    """What an answer's process left behind.

    ``cases`` holds (message, blob) of each case that arrived whole and in order; ``status`` is the exit status or the
    signal's number; ``setup`` describes an error of the course's own setup cells.
    """

    ending: Ending = Ending.BROKEN
    cases: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    status: int = 0
    setup: dict[str, Any] | None = None
    printed: str = ""
    layers: dict[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """Runs jobs."""

    def run(self, job: Job) -> Outcome:
        """Run a job to its end, whatever that is. Never raises for what the answer does."""


def serve(job: Job, folder: str, result: int, sandbox: Sandbox) -> None:
    """The life of an answer's process after it was made; does not return."""
    status = 1
    try:
        os.environ.clear()
        os.environ.update(clean_environment(folder))
        os.chdir(folder)
        layers = sandbox.enter(folder, job.limits)

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
        self._frames = wire.Frames((job.limits.result + 1) * 1024 * 1024)
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
            self.done = True
        else:
            raise wire.BrokenFrame("a message out of order")

    def text(self) -> str:
        """What was printed, as text."""
        return self._text.decode("utf-8", "replace")


def _end(pid: int, deadline: float) -> tuple[int, float]:
    """Wait for a process to end by itself; kill its whole group when time is up. Gives (wait status, CPU s)."""
    pause = 0.0005
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return status, usage.ru_utime + usage.ru_stime
        if time.monotonic() >= deadline:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            return status, usage.ru_utime + usage.ru_stime
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


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


def _follow(job: Job, pid: int, output: int, result: int) -> Outcome:
    """Read a process to its end and clear it away."""
    reader = _Reader(job, output, result)
    stopped: Ending | None = None
    status, cpu = 0, 0.0
    try:
        stopped = reader.until_end()
    finally:
        at_once = reader.done or stopped is not None
        status, cpu = _end(pid, 0.0 if at_once else reader.deadline)
    if stopped is None and not reader.done and time.monotonic() >= reader.deadline:
        stopped = Ending.TIMEOUT
    reader.outcome.printed = reader.text()
    _judge_end(reader.outcome, stopped, status, cpu, job)
    return reader.outcome


class ForkRunner:
    """Forks this process for each job: 2 to 5 ms. The process must have run no torch and no threads that hold locks."""

    def __init__(self) -> None:
        self.sandbox = Sandbox.prepare()

    def run(self, job: Job) -> Outcome:
        """Run a job in a forked process."""
        folder = tempfile.mkdtemp(prefix="cannlab-answer-")
        output, output_end = os.pipe()
        result, result_end = os.pipe()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            pid = os.fork()
            if pid == 0:
                self._child(job, folder, output_end, result_end)
            os.close(output_end)
            os.close(result_end)
            output_end = result_end = -1
            return _follow(job, pid, output, result)
        finally:
            for descriptor in (output, result, output_end, result_end):
                if descriptor >= 0:
                    os.close(descriptor)
            shutil.rmtree(folder, ignore_errors=True)

    def _child(self, job: Job, folder: str, output: int, result: int) -> None:
        try:
            os.setsid()
            self.sandbox.die_with_parent()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            private = os.dup2(result, 3) if result != 3 else result
            os.closerange(4, 65536)
            # They stay open as long as the process.
            sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False, buffering=1)  # noqa: SIM115
            serve(job, folder, private, self.sandbox)
        finally:
            os._exit(1)


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
            outcome = _follow(job, process.pid, process.stdout.fileno(), result)
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

    serve(job, os.getcwd(), result, Sandbox.prepare())


def runner() -> Runner:
    """The runner for this machine: fork on Linux, spawn elsewhere or with CANNLAB_RUNNER=spawn."""
    if sys.platform.startswith("linux") and os.environ.get("CANNLAB_RUNNER", "fork") != "spawn":
        return ForkRunner()
    return SpawnRunner()
