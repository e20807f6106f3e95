"""Copies and fills of memory: their checks, their effect, their time."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import TYPE_CHECKING

from cannlab.errors import diagnose
from cannlab.machine import api_costs
from cannlab.machine.engines import Engine
from cannlab.machine.faults import MemoryFault
from cannlab.machine.work import Work
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.machine.node import Machine
    from cannlab.machine.stream import Stream


class Direction(IntEnum):
    """aclrtMemcpyKind. Source: acl_rt.h of CANN 8.1.RC1."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4
    HOST_TO_BUF_TO_DEVICE = 5


_SLICED = 64 << 10
"""Copies up to this many bytes are cheaper by slices of memoryviews."""
# By direction, as tuples: hashing an enum member is slow.
DIRECTION_NAMES = ("0 (host to host)", "1 (host to device)", "2 (device to host)", "3 (device to device)")
_DIRECTIONS = tuple(Direction)
_KINDS = (
    (TaskKind.COPY_H2H, Engine.NONE),
    (TaskKind.COPY_H2D, Engine.H2D),
    (TaskKind.COPY_D2H, Engine.D2H),
    (TaskKind.COPY_D2D, Engine.NONE),
)


class Copy:
    """A checked copy of ``count`` bytes.

    Raises (when made):
        MemoryFault: for memory that cannot be used, or ``memory.wrong_direction`` (107000) when the direction
            does not fit and one side is ordinary host memory. With both sides known to the driver the runtime
            corrects the direction itself; that is reported. Source: pyacl-semantics 5.
    """

    def __init__(self, m: Machine, destination: int, source: int, count: int, direction: Direction) -> None:
        self._m = m
        self._destination, self._source, self.count = destination, source, count
        to = self.destination = m.memory.resolve(destination, count, write=True)
        by = self.source = m.memory.resolve(source, count)
        actual = (0 if by.on_host else 2) + (0 if to.on_host else 1)
        self.pageable = (to.block is None and not m.memory.is_registered(destination, count)) or (
            by.block is None and not m.memory.is_registered(source, count)
        )
        """One side is ordinary host memory: hardware makes such a copy synchronous."""
        if direction != actual and direction is not Direction.DEFAULT:
            self._correct(direction, actual)
        self.direction = _DIRECTIONS[actual]
        self.kind, self.engine = _KINDS[actual]
        self.device = -1
        for block in (by.block, to.block):
            if block is not None and block.device >= 0:
                if self.device >= 0 and block.device != self.device:
                    self.kind = TaskKind.COPY_P2P
                    self._check_peers(self.device, block.device)
                self.device = block.device

    @property
    def ns(self) -> int:
        """How long its engine is busy."""
        if self.direction is Direction.HOST_TO_HOST:
            return api_costs.host_copy_ns(self.count)
        if self.kind is TaskKind.COPY_D2D:
            return api_costs.device_copy_ns(self.count, self._m.soc)
        return api_costs.transfer_ns(self.count, pinned=not self.pageable) * self._m.requested.link_factor(self.device)

    @property
    def to(self) -> int:
        """The address that it writes to."""
        return self._destination

    @property
    def by(self) -> int:
        """The address that it reads from."""
        return self._source

    def now(self) -> None:
        """Copy at once: the calling thread waits for the engine and the copy, and for no stream."""
        m = self._m
        if m.requested.faults and self.device >= 0:
            m.requested.on_task(m.devices[self.device], self.kind, "", "Memcpy", m.here().place)
        m.memory.check_reuse(self.destination, writing=True)
        m.memory.check_reuse(self.source, writing=False)
        ctypes.memmove(self._destination, self._source, self.count)
        _spend(m, self.device, self.kind, "Memcpy", self.engine, self.ns, self.count)

    def later(self, stream: Stream) -> int:
        """Queue the copy: the memory is read and written when the stream is drained."""
        m = self._m
        m.memory.check_reuse(self.destination, writing=True)
        m.memory.check_reuse(self.source, writing=False)
        owners = (self.destination.owner, self.source.owner)
        waiting = len(stream.queue)
        code = stream.submit(
            self.kind,
            "MemcpyAsync",
            self._run,
            engine=self.engine,
            core_type="MEMCPY_ASYNC",
            bytes=self.count,
            keep=owners,
            ns=self.ns,
        )
        if len(stream.queue) > waiting:
            for view, writing in ((self.destination, True), (self.source, False)):
                if view.pinned and view.block is not None:
                    offset = view.address - view.block.start
                    m.memory.note_copy(view.block, stream.queue[-1], offset, self.count, writing=writing)
        return code

    def _run(self) -> Work:
        # Looked at again: the memory may have been freed since the copy was queued.
        self._m.memory.resolve(self._destination, self.count, write=True)
        self._m.memory.resolve(self._source, self.count)
        ctypes.memmove(self._destination, self._source, self.count)
        return Work(self.ns)

    def _check_peers(self, first: int, second: int) -> None:
        """Two devices copy only where one of them was given access to the other."""
        devices = self._m.devices
        if second not in devices[first].peers and first not in devices[second].peers:
            raise MemoryFault(
                diagnose("memory.no_peer_access", where=self._m.here().place, source=first, destination=second)
            )

    def _correct(self, direction: Direction, actual: int) -> None:
        """The direction does not fit the pointers: report it, or refuse it if the driver cannot know better."""
        said = Direction.HOST_TO_DEVICE if direction is Direction.HOST_TO_BUF_TO_DEVICE else direction
        if said == actual:
            return
        diagnosis = diagnose(
            "memory.wrong_direction" if self.pageable else "memory.corrected_direction",
            where=self._m.here().place,
            others=tuple(
                (f"{part} allocated at", view.block.made.place)
                for part, view in (("destination", self.destination), ("source", self.source))
                if view.block is not None and view.block.made.place is not None
            ),
            said=DIRECTION_NAMES[said],
            right=DIRECTION_NAMES[actual],
            destination=self.destination.name,
            source=self.source.name,
        )
        if self.pageable:
            raise MemoryFault(diagnosis)
        self._m.report(diagnosis)


def copy_now(m: Machine, destination: int, source: int, count: int, direction: int) -> None:
    """Copy at once. Raises as :class:`Copy`.

    The usual copy, between the starts of a device's and a pinned allocation, needs none of the doubts of ``Copy``: what
    is looked at here is all that ``Copy`` would look at in that case.
    """
    blocks = m.memory.blocks.by_start
    to, by = blocks.get(destination), blocks.get(source)
    if (
        to is None
        or by is None
        or not to.live
        or not by.live
        or count > to.size
        or count > by.size
        or to.copies is not None
        or by.copies is not None
        or m.requested.faults
        or count > _SLICED
        or direction != (0 if by.device < 0 else 2) + (0 if to.device < 0 else 1)
        or not (by.device < 0 or to.device < 0)
        or by.device == to.device
    ):
        Copy(m, destination, source, count, _DIRECTIONS[direction]).now()
        return
    assert to.mapping is not None
    assert by.mapping is not None
    # A slice costs a third of a call through ctypes.
    first, second = to.offset, by.offset
    to.mapping.view[first : first + count] = by.mapping.view[second : second + count]
    kind, engine = _KINDS[direction]
    device = by.device if to.device < 0 else to.device
    _spend(m, device, kind, "Memcpy", engine, api_costs.transfer_ns(count, pinned=True), count)


def fill_now(m: Machine, address: int, value: int, count: int) -> None:
    """Set ``count`` bytes to ``value`` at once. Raises MemoryFault for memory that cannot be used."""
    view = m.memory.resolve(address, count, write=True)
    m.memory.check_reuse(view, writing=True)
    ctypes.memset(address, value & 0xFF, count)
    device = view.block.device if view.block is not None else -1
    ns = api_costs.host_copy_ns(count) if view.on_host else api_costs.device_set_ns(count, m.soc)
    _spend(m, device, TaskKind.MEMSET, "Memset", Engine.NONE, ns, count)


def fill_later(m: Machine, address: int, value: int, count: int, stream: Stream) -> int:
    """Queue setting ``count`` bytes of device memory to ``value``."""
    view = m.memory.resolve(address, count, "device", write=True)

    ns = api_costs.device_set_ns(count, m.soc)

    def run() -> Work:
        m.memory.resolve(address, count, "device", write=True)
        ctypes.memset(address, value & 0xFF, count)
        return Work(ns)

    return stream.submit(
        TaskKind.MEMSET,
        "MemsetAsync",
        run,
        engine=Engine.NONE,
        core_type="MEMCPY_ASYNC",
        bytes=count,
        keep=(view.owner,),
        ns=ns,
    )


def _spend(m: Machine, device: int, kind: TaskKind, name: str, engine: Engine, ns: int, count: int) -> None:
    """Make the calling thread wait for work that no stream orders, and record it (stream -1)."""
    thread = m.clock.current or m.clock.thread
    queued = thread.now
    start = m.devices[device].occupy(engine, queued, ns) if device >= 0 else queued
    end = thread.now = start + ns
    m.record_simple(device, -1, kind, name, "", "MEMCPY", queued, start, end, count, 0, thread.spot or m.here())
