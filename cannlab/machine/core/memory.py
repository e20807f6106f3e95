"""The bytes that a kernel sees: its arguments in global memory and the local buffers of the core.

One set of local buffers serves blocks that run one after another; it is poisoned before each, so that nothing of
another block can be read. A core that waits for others keeps its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.machine.core.dtypes import BYTE, NUMPY
from cannlab.machine.core.pipes import GM_SLACK, Space, capacity
from cannlab.soc.soc import Soc

POISON = 0xFF
"""Every float is NaN and every signed integer -1."""
_CACHED_VIEWS = 8192


_Local = tuple[dict[int, NDArray[np.uint8]], set[int], dict[tuple[Any, ...], Any], tuple[Any, ...]]
"""A core's own: buffers, which of them were used, views of them, registers."""


class OutOfRange(Exception):
    """An operand that leaves its allocation."""

    def __init__(self, allocation: int, offset: int, size: int, limit: int) -> None:
        super().__init__(allocation, offset, size, limit)
        self.allocation, self.offset, self.size, self.limit = allocation, offset, size, limit


class Memory:
    """Kernel arguments (allocations 0 and up) and local buffers (below 0) as bytes.

    Args:
        soc: the chip whose capacities count.
        arguments: one array per argument in global memory; its bytes are copied in, C order.
        data: False: only the sizes count, and everything reads as 0.

    Attributes:
        spare: operands that reached into the spare bytes behind an argument, since last asked.
    """

    def __init__(self, soc: Soc, arguments: list[NDArray[Any]], data: bool = True) -> None:
        self._soc = soc
        self._poison = POISON if data else 0
        self.sizes = [int(array.nbytes) for array in arguments]
        self._buffers: dict[int, NDArray[np.uint8]] = {}
        for number, array in enumerate(arguments):
            if not data:
                # Zeros that nobody touches take no memory.
                self._buffers[number] = np.zeros(array.nbytes + GM_SLACK, dtype=np.uint8)
                continue
            buffer = np.full(array.nbytes + GM_SLACK, POISON, dtype=np.uint8)
            buffer[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self._buffers[number] = buffer
        self._spaces = {int(space): capacity(soc, space) for space in Space if capacity(soc, space)}
        self._spare: list[_Local] = []
        self._fresh()
        self._views: dict[tuple[Any, ...], Any] = {}
        self.spare: list[tuple[int, int, int]] = []
        self._reset()

    def _reset(self) -> None:
        self.compare_mask = np.zeros(16, dtype=np.uint8)
        self.deq_scale = 1.0
        self.deq_offset = 0
        self.hf32 = 0
        self.merged: tuple[int, ...] = (0, 0, 0, 0)

    def _fresh(self) -> None:
        """Local buffers of a core; all but the UB are made when they are used."""
        for space in self._spaces:
            self._buffers.pop(space, None)
        if int(Space.UB) in self._spaces:
            self._make(int(Space.UB))
        self._dirty: set[int] = set()

    def _make(self, space: int) -> NDArray[np.uint8]:
        made = self._buffers[space] = np.full(self._spaces[space], self._poison, dtype=np.uint8)
        return made

    def start_block(self) -> None:
        """Forget what an earlier block left in the core."""
        for space in {int(Space.UB), *self._dirty} & self._buffers.keys():
            self._buffers[space][:] = self._poison
        self._reset()

    def _local(self) -> _Local:
        buffers = {space: self._buffers[space] for space in self._spaces if space in self._buffers}
        registers = (self.compare_mask, self.deq_scale, self.deq_offset, self.hf32, self.merged)
        return buffers, self._dirty, self._views, registers

    def leave(self) -> _Local:
        """The running core's buffers and registers; the next core finds others."""
        kept = self._local()
        if self._spare:
            self.enter(self._spare.pop(), keep=False)
        else:
            self._views = {}
            self._fresh()
        self._reset()
        return kept

    def enter(self, kept: _Local, *, keep: bool = True) -> None:
        """Go on with the buffers and registers of a core that was left; those at hand serve another one (keep)."""
        if keep:
            self._spare.append(self._local())
        buffers, self._dirty, self._views, registers = kept
        for space in self._spaces:
            self._buffers.pop(space, None)
        self._buffers.update(buffers)
        self.compare_mask, self.deq_scale, self.deq_offset, self.hf32, self.merged = registers

    def again(self, arguments: list[NDArray[Any]]) -> Memory:
        """Memory as it was before the launch."""
        return Memory(self._soc, arguments)

    def beside(self) -> Memory:
        """What another core of the launch sees: the same global memory, local buffers of its own."""
        other = Memory(self._soc, [])
        other.sizes = self.sizes
        other._buffers.update((number, self._buffers[number]) for number in range(len(self.sizes)))
        return other

    def has(self, space: Space) -> bool:
        """Does the chip have this local buffer?"""
        return int(space) in self._spaces

    def limit(self, allocation: int) -> int:
        """Bytes of an allocation that belong to the kernel."""
        return self.sizes[allocation] if allocation >= 0 else self._spaces[allocation]

    def view(self, operand: tuple[int, int, int], code: int) -> NDArray[Any]:
        """The operand's bytes as elements of a type, writable; OutOfRange when they leave the allocation."""
        allocation, offset, size = operand
        key = (allocation, offset, size, code)
        found: NDArray[Any] | None = self._views.get(key)
        if found is None:
            found = self._views[key] = self._new_view(allocation, offset, size, code)
        return found

    def views(self, key: tuple[Any, ...], make: Callable[[], list[NDArray[Any]]]) -> list[NDArray[Any]]:
        """Views of the running core's local buffers, made once: ``key`` is everything that they depend on."""
        found: list[NDArray[Any]] | None = self._views.get(key)
        if found is None:
            found = make()
            if len(self._views) >= _CACHED_VIEWS:
                self._views.clear()
            self._views[key] = found
        return found

    def raw(self, operand: tuple[int, int, int]) -> NDArray[np.uint8]:
        """The operand's bytes. A copy reaches other bytes of global memory each time: they are not kept."""
        allocation, offset, size = operand
        if allocation >= 0 <= offset and offset + size <= self.sizes[allocation]:
            return self._buffers[allocation][offset : offset + size]
        return self.view(operand, BYTE)

    def _new_view(self, allocation: int, offset: int, size: int, code: int) -> NDArray[Any]:
        buffer = self._buffers.get(allocation)
        if buffer is None:
            if allocation not in self._spaces:
                raise OutOfRange(allocation, offset, size, 0)
            buffer = self._make(allocation)
        if offset < 0 or offset + size > len(buffer):
            raise OutOfRange(allocation, offset, size, self.limit(allocation))
        if allocation >= 0 and offset + size > self.sizes[allocation]:
            self.spare.append((allocation, offset, size))
        if allocation < Space.UB:
            self._dirty.add(allocation)
        if len(self._views) >= _CACHED_VIEWS:
            self._views.clear()
        part = buffer[offset : offset + size]
        return part if code == BYTE else part.view(NUMPY[code])

    def outputs(self) -> list[NDArray[np.uint8]]:
        """The bytes of every argument as they are now; copies."""
        return [self._buffers[number][:size].copy() for number, size in enumerate(self.sizes)]
