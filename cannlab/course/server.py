"""The checking process: ``python -m cannlab.course.server``.

It imports what answers need once and runs none of it; above all it never runs torch, since a child of a process that
has run torch hangs. Before it reads anything it forks the nursery, from which answers' processes are forked. Each
request gets a judge, forked here; so nothing that an answer or a check does stays behind, and no answer's process ever
held what a judge holds. It talks over its standard input and output and ends when they close.

Where processes are not forked (macOS), the judge works in this process and the answers' processes are started afresh.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cannlab.course import bundle, layout, wire
from cannlab.course.judge import Judge, Terms
from cannlab.course.manifest import Exercise, Limits
from cannlab.course.result import Result, Verdict
from cannlab.course.runner import ForkRunner, Runner, runner
from cannlab.course.sandbox import Sandbox, limit_memory
from cannlab.errors import CannlabError, diagnose

PRELOAD = (
    ("numpy", "onnx", "onnxruntime", "ml_dtypes", "IPython.core.inputtransformer2", "cannlab.course.spec")
    + ("cannlab.machine", "cannlab.machine.core", "cannlab.acl", "cannlab.ascendc", "cannlab.atc", "cannlab.om")
    + ("cannlab.profiler", "cannlab.activation")
)
_LIMIT = 64 * 1024 * 1024
_JUDGE_MIB = 4096
_SPARE = 60.0


def preload(modules: tuple[str, ...]) -> None:
    """Import modules; one that is not there is left to the answer that needs it."""
    for name in modules:
        if name not in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
            # What is imported lives as long as this process: a child's garbage collection need not touch its pages.
            gc.freeze()


def _exercise(request: dict[str, Any]) -> Exercise | None:
    """The exercise's manifest entry: what to import and how long to wait. None if there is none (handle says so)."""
    with contextlib.suppress(CannlabError, OSError):
        return layout.find(Path(request["root"])).course.exercise(request["exercise"])
    return None


def _load(request: dict[str, Any]) -> bundle.Bundle:
    return bundle.load(layout.find(Path(request["root"])), request["exercise"])


def handle(
    request: dict[str, Any], run: Runner, load: Callable[[dict[str, Any]], bundle.Bundle] = _load
) -> dict[str, Any]:
    """Judge one answer. Gives {"result": ...} or {"error": a diagnosis}. ``load`` finds the request's exercise."""
    try:
        loaded = load(request)
        terms = Terms(**request["terms"])
        return {"result": Judge(loaded, run).judge(request["answer"], terms).to_dict()}
    except CannlabError as problem:
        return {"error": problem.diagnosis.to_dict()}
    except Exception as problem:
        # Fail closed: whatever goes wrong here gives no verdict. The traceback is for authors, on standard error.
        traceback.print_exc()
        message = f"{type(problem).__name__}: {problem}"
        failed = Result(request["exercise"], "", Verdict.ERROR, diagnosis=diagnose("course.engine", message=message))
        return {"result": failed.to_dict()}


class Server:
    """Reads requests, has each one judged in a forked process, writes the replies in order."""

    MOST_ROUNDS = 10
    """How often a graded run may draw its cases: it is waited for that long."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader = reader
        self._writer = writer
        self._frames = wire.Frames(1 << 50)
        self._run = runner()

    def serve(self) -> None:
        """Until the other end closes."""
        wire.write_all(self._writer, wire.pack({"ready": os.getpid()}))
        while True:
            data = os.read(self._reader, 1 << 16)
            if not data:
                return
            for request, blob in self._frames.feed(data):
                reply = self.answer(request, blob)
                if reply is None:
                    return
                wire.write_all(self._writer, wire.pack(reply))

    def answer(self, request: dict[str, Any], blob: bytes) -> dict[str, Any] | None:
        """The reply to a request; None if the server must end: the other end closed, or the nursery is lost."""
        exercise = _exercise(request)
        limits = Limits() if exercise is None else exercise.limits
        if request["terms"].get("secret"):
            limits = limits.times(self.MOST_ROUNDS, patience=2)
        return self.apart(lambda run: handle(request, run), limits)

    def apart(self, work: Callable[[Runner], dict[str, Any]], limits: Limits) -> dict[str, Any] | None:
        """Do some work in a process of its own. ``limits``: what the answers in it may use. None as for answer."""
        if not isinstance(self._run, ForkRunner):
            return work(self._run)
        if not self._run.nursery.alive:
            # A new one would be forked from a process that has seen requests: who asks starts a new server instead.
            return None
        back, back_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._judge(work, limits, back_end)
        os.close(back_end)
        try:
            return self._reply(back, time.monotonic() + 3 * limits.wall + _SPARE)
        finally:
            os.close(back)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _judge(self, work: Callable[[Runner], dict[str, Any]], limits: Limits, result: int) -> None:
        try:
            assert isinstance(self._run, ForkRunner)
            self._run.sandbox.die_with_parent()
            limit_memory(limits.memory + _JUDGE_MIB)
            # Requests and replies belong to the server alone.
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, self._reader)
            os.dup2(null, self._writer)
            wire.write_all(result, wire.pack(work(self._run)))
        finally:
            os._exit(0)

    def _reply(self, back: int, deadline: float) -> dict[str, Any] | None:
        frames = wire.Frames(_LIMIT)
        with selectors.DefaultSelector() as selector:
            selector.register(back, selectors.EVENT_READ)
            selector.register(self._reader, selectors.EVENT_READ)
            while True:
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    late = diagnose("course.engine", message="judging took too long and was ended")
                    return {"error": late.to_dict()}
                for key, _ in ready:
                    if key.fd == self._reader:
                        # One request at a time: news here means that the other end is gone.
                        return None
                    data = os.read(back, 1 << 16)
                    for reply, _ in frames.feed(data):
                        return dict(reply)
                    if not data:
                        lost = diagnose("course.engine", message="the judging process ended without a verdict")
                        return {"error": lost.to_dict()}


def main(kind: type[Server] = Server) -> None:
    """Serve over standard input and output; anything printed goes to standard error."""
    reader, writer = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (open as long as the process)
    preload(PRELOAD)
    Sandbox.prepare().hide_memory()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        kind(reader, writer).serve()


if __name__ == "__main__":
    main()
