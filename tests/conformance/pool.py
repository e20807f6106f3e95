"""Trials in child processes: a crash or a loop costs its own case only."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

FORK = multiprocessing.get_context("fork")


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    job: int | None = None
    since: float = 0.0


def run(
    work: Callable[[int], Any], count: int, lost: Callable[[str], Any], *, workers: int, seconds: float
) -> list[Any]:
    """``work(0) ... work(count - 1)`` in forked children.

    Args:
        work: picklable results; what it raises becomes ``lost("crash: ...")``.
        count: how many jobs there are.
        lost: the result of a job whose child died or took too long ("crash" or "timeout" and what is known).
        workers: children at a time.
        seconds: wall time that one job may take.
    """
    results: list[Any] = [None] * count
    waiting = list(range(count))[::-1]
    pool: list[_Worker] = []
    while waiting or any(worker.job is not None for worker in pool):
        while waiting and len(pool) < workers:
            pool.append(_start(work, lost))
        for worker in pool:
            if worker.job is None and waiting:
                worker.job, worker.since = waiting.pop(), time.monotonic()
                worker.pipe.send(worker.job)
        ready = wait([worker.pipe for worker in pool], timeout=0.5)
        for worker in list(pool):
            if worker.job is None:
                continue
            if worker.pipe in ready:
                try:
                    results[worker.job] = worker.pipe.recv()
                    worker.job = None
                except EOFError:
                    worker.process.join()
                    results[worker.job] = lost(f"crash: exit status {worker.process.exitcode}")
                    pool.remove(worker)
            elif time.monotonic() - worker.since > seconds:
                worker.process.kill()
                worker.process.join()
                results[worker.job] = lost(f"timeout: over {seconds:g} s")
                pool.remove(worker)
    for worker in pool:
        worker.pipe.send(None)
        worker.process.join()
    return results


def _start(work: Callable[[int], Any], lost: Callable[[str], Any]) -> _Worker:
    here, there = FORK.Pipe()
    process = FORK.Process(target=_serve, args=(there, here, work, lost), daemon=True)
    process.start()
    there.close()
    return _Worker(process, here)


def _serve(pipe: Connection, other: Connection, work: Callable[[int], Any], lost: Callable[[str], Any]) -> None:
    other.close()
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    os.dup2(quiet, 1)
    while True:
        job = pipe.recv()
        if job is None:
            return
        try:
            result = work(job)
        except Exception as problem:
            result = lost(f"crash: {type(problem).__name__}: {problem}")
        pipe.send(result)


def spread(items: Sequence[Any], every: int) -> list[Any]:
    """Each ``every``-th item."""
    return list(items[::every])
