"""Several checking processes side by side, for the author's long jobs."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

from cannlab.course.client import Client

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def default_jobs() -> int:
    """As many as there are processors for this process, at most four."""
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(count, 4))


class Clients:
    """``jobs`` checking processes, started when first used; each does one thing at a time."""

    def __init__(self, jobs: int) -> None:
        self._clients = [Client() for _ in range(max(jobs, 1))]

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()

    def each(self, work: Callable[[Client, _Item], _Answer], items: Iterable[_Item]) -> Iterator[_Answer]:
        """``work(client, item)`` of every item; the answers come in the items' order, whoever is done first."""
        free: queue.SimpleQueue[Client] = queue.SimpleQueue()
        for client in self._clients:
            free.put(client)

        def run(item: _Item) -> _Answer:
            client = free.get()
            try:
                return work(client, item)
            finally:
                free.put(client)

        with ThreadPoolExecutor(len(self._clients)) as pool:
            futures = [pool.submit(run, item) for item in items]
            try:
                for future in futures:
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()
