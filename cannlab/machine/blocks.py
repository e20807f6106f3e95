"""Allocations of the emulated node."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from cannlab.machine.spots import Spot

if TYPE_CHECKING:
    from cannlab.machine.pages import Mapping
    from cannlab.machine.tasks import Task


class MemoryKind(IntEnum):
    """The family of an allocation: who may free it, and where it lies."""

    DEVICE = 1
    """``acl.rt.malloc`` and its variants."""
    HOST = 2
    """Pinned host memory, ``acl.rt.malloc_host``."""
    DVPP = 3
    """``acl.media.dvpp_malloc``: device memory that DVPP can use."""
    WORKSPACE = 4
    """What the machine itself allocates (a model's work and weight memory)."""


KIND_NAMES = {
    MemoryKind.DEVICE: "device memory",
    MemoryKind.HOST: "pinned host memory",
    MemoryKind.DVPP: "DVPP memory",
    MemoryKind.WORKSPACE: "a model's memory",
}
MAKERS = {
    MemoryKind.DEVICE: "acl.rt.malloc",
    MemoryKind.HOST: "acl.rt.malloc_host",
    MemoryKind.DVPP: "acl.media.dvpp_malloc",
    MemoryKind.WORKSPACE: "acl.mdl.load_*",
}
FREERS = {
    MemoryKind.DEVICE: "acl.rt.free",
    MemoryKind.HOST: "acl.rt.free_host",
    MemoryKind.DVPP: "acl.media.dvpp_free",
    MemoryKind.WORKSPACE: "acl.mdl.unload",
}


class Block:
    """One allocation.

    Attributes:
        start: its real address. size: bytes asked for. capacity: bytes that belong to it (size rounded up).
        device: index of its device, -1 for host memory.
        number: its ordinal among all allocations (what the record and the diagnoses call it).
        live: False once freed. made, freed: where. reported: its leak was reported.
        mapping, offset: its memory; mapping is None once the host took it back.
        copies: asynchronous copies that were queued with it (pinned memory only).
    """

    # What every new block has in common stands on the class: an attribute less to set at each allocation.
    freed: Spot | None = None
    live = True
    reported = False
    copies: list[tuple[Task, int, int, bool]] | None = None

    def __init__(
        self,
        mapping: Mapping,
        offset: int,
        size: int,
        capacity: int,
        footprint: int,
        kind: MemoryKind,
        device: int,
        number: int,
        made: Spot,
    ) -> None:
        self.mapping: Mapping | None = mapping
        self.offset = offset
        self.start = mapping.address + offset
        self.size = size
        self.capacity = capacity
        self.footprint = footprint
        self.kind = kind
        self.device = device
        self.number = number
        self.made = made

    @property
    def on_host(self) -> bool:
        """True for host memory."""
        return self.kind is MemoryKind.HOST

    @property
    def name(self) -> str:
        """How diagnoses call it."""
        return f"allocation {self.number} ({self.size} bytes of {KIND_NAMES[self.kind]})"
