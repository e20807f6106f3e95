"""Computing ahead: the arithmetic of model runs that wait in other streams, while the host waits for one.

Streams are lazy, so the thread that waits would compute one model after another, and a host of several cores would use
one of them. So when a model runs, the next run in each other stream is computed beside it, from a copy of its inputs as
they will be then. When that run is due, its inputs are compared with the copy: the results count only if they are the
same. Nothing of this can be told from the outside, except by a clock on the wall.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cannlab.machine.copies import Copy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cannlab.machine.executor import Model
    from cannlab.machine.memory import Memory
    from cannlab.machine.stream import Stream
    from cannlab.machine.tasks import Task
    from cannlab.machine.work import Work
    from cannlab.om import OmTensor

LEAST_SECONDS = 0.003
"""A model that takes less is not worth a thread."""

_running: set[Ahead] = set()


class Ahead:
    """One run that is computed ahead, in a thread of its own."""

    def __init__(self, executor: Model, inputs: list[NDArray[Any]]) -> None:
        """Begin. RuntimeError if the host gives no thread."""
        self._executor = executor
        self._inputs = inputs
        self._results: tuple[list[NDArray[Any]], Work] | None = None
        self._done = threading.Event()
        _running.add(self)
        try:
            # Not threading.Thread: whatever starts one of those is a host thread of the program.
            _thread.start_new_thread(self._compute, ())
        except RuntimeError:
            _running.discard(self)
            raise

    def _compute(self) -> None:
        try:
            self._results = self._executor.run(self._inputs)
        except Exception:
            # Whatever it is happens again, and is told, when the run is due.
            self._results = None
        finally:
            _running.discard(self)
            self._done.set()

    def wait(self) -> None:
        """Until it is computed."""
        self._done.wait()

    def results(self, inputs: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], Work] | None:
        """What was computed, if these are the inputs that it was computed from."""
        import numpy as np

        self.wait()
        for one, other in zip(self._inputs, inputs, strict=True):
            # As bytes: a NaN equals itself here, and 0 is not -0.
            if not np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8)):
                return None
        return self._results


def _wait_for_all() -> None:
    for ahead in list(_running):
        ahead.wait()


atexit.register(_wait_for_all)
if hasattr(os, "register_at_fork"):
    # A child would find the executor's lock taken by a thread that it does not have.
    os.register_at_fork(before=_wait_for_all)


def there_is_room() -> bool:
    """True while fewer runs are computed ahead than the host has cores."""
    return len(_running) < (os.cpu_count() or 1)


def timed(executor: Model, inputs: list[NDArray[Any]], gear: int | None) -> tuple[list[NDArray[Any]], Work, float]:
    """Results and work of a run, and how many seconds it took."""
    began = time.perf_counter()
    results, work = executor.run(inputs, gear)
    return results, work, time.perf_counter() - began


def inputs_then(
    memory: Memory, stream: Stream, task: Task, tensors: Sequence[OmTensor], addresses: Sequence[int]
) -> list[NDArray[Any]] | None:
    """Copies of the inputs of a queued run as the copies before it will leave them; None if that cannot be foreseen."""
    import numpy as np

    brought: dict[int, tuple[int, int]] = {}
    for earlier in stream.queue:
        if earlier.after is not None and not earlier.after.done:
            return None
        if earlier is task:
            break
        copy = getattr(earlier.run, "__self__", None)
        if isinstance(copy, Copy):
            brought[copy.to] = (copy.by, copy.count)
        elif earlier.run is not None or earlier.callback is not None:
            return None
    found = []
    for tensor, address in zip(tensors, addresses, strict=True):
        source, count = brought.get(address, (address, tensor.size))
        block = memory.blocks.find(source)
        if block is None or not block.live or block.mapping is None or count < tensor.size:
            return None
        start = block.offset + source - block.start
        data = bytes(block.mapping.view[start : start + tensor.size])
        if source - block.start + tensor.size > block.capacity:
            return None
        found.append(np.frombuffer(data, tensor.type.numpy).reshape(tensor.dims))
    return found
