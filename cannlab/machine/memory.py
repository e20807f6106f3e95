"""The memory of the node: every allocation, its owner and state, and the checks before each access."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cannlab.errors import Diagnosis, Place, diagnose
from cannlab.machine.block_map import BlockMap
from cannlab.machine.blocks import FREERS, KIND_NAMES, MAKERS, Block, MemoryKind
from cannlab.machine.faults import MemoryFault
from cannlab.machine.host_memory import HostMemory, HostRange
from cannlab.machine.pages import PAGE, Mapping, poison

if TYPE_CHECKING:
    from cannlab.machine.device import Device
    from cannlab.machine.node import Machine
    from cannlab.machine.spots import Spot

Want = Literal["device", "host", "any"]

QUARANTINE_BYTES = 256 << 20
"""Freed memory is kept mapped and poisoned up to this much; beyond it the oldest is used again."""
QUARANTINE_BLOCKS = 4096
REUSABLE_BYTES = 64 << 20
"""Memory out of quarantine that waits for an allocation of its size; what is beyond goes back to the host."""
SMALL = 32 << 10
"""Up to this size allocations share mappings."""
_CHUNK = 256 << 10
ALIGNMENT = 64
"""Addresses are multiples of this. Source: pyacl-semantics 5."""
PADDING = 32
"""Sizes are rounded up to 32 and 32 more belong to the block. Source: pyacl-semantics 5."""


_RECORDED = ("", *(kind.name for kind in MemoryKind))
"""What the record calls each kind; a tuple, because hashing an enum member is slow."""


class View(NamedTuple):
    """Checked memory: where it lies and who owns it (a block, or a known owner's host range, or nobody known)."""

    address: int
    size: int
    on_host: bool
    block: Block | None
    known: HostRange | None

    @property
    def pinned(self) -> bool:
        """True for host memory from ``malloc_host``."""
        return self.on_host and self.block is not None

    @property
    def owner(self) -> Any:
        """What must stay alive while the memory is in use."""
        if self.block is not None:
            return self.block.mapping
        return self.known.owner() if self.known is not None else None

    @property
    def name(self) -> str:
        """How diagnoses call it."""
        if self.block is not None:
            return self.block.name
        return f"host memory of a {self.known.type_name}" if self.known is not None else "ordinary host memory"


def _others(block: Block) -> tuple[tuple[str, Place], ...]:
    found = [("allocated at", block.made.place), ("freed at", block.freed.place if block.freed else None)]
    return tuple((part, place) for part, place in found if place is not None)


class Memory:
    """Device memory, pinned host memory and what is known of other host memory."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.blocks = BlockMap()
        self.host = HostMemory()
        self._allocations = 0
        self._chunk: Mapping | None = None
        self._chunk_used = 0
        self._quarantine: deque[Block] = deque()
        self._quarantined = 0
        self._reusable: dict[int, list[Block]] = {}
        self._reusable_bytes = 0
        self.registered: dict[int, int] = {}
        """Host memory that the program registered: size by address."""

    # -- allocating ----------------------------------------------------------------------------------

    def allocate(
        self, size: int, kind: MemoryKind, device: Device | None, padding: int = PADDING, alignment: int = ALIGNMENT
    ) -> Block:
        """Allocate memory with a real address; nothing of it is committed before it is touched.

        Args:
            size: bytes, at least 1.
            device: whose memory; None for host memory.
            padding: bytes added after rounding up to 32.
            alignment: of the address, bytes (a divisor of the page size).

        Raises:
            MemoryFault: ``memory.out_of_memory`` (207001) above the device's capacity, ``memory.host_exhausted``
                (207001) if this machine has no room for it.
        """
        machine = self._machine
        thread = machine.clock.current or machine.clock.thread
        spot = thread.spot or machine.here()
        capacity = (size + 31) // 32 * 32
        index = -1
        if device is not None:
            capacity += padding
            index = device.index
            if machine.requested.faults:
                machine.requested.on_allocate(device, size, spot.place)
            if capacity > device.memory_total - device.memory_used:
                raise self._full(size, device, KIND_NAMES[kind])
        self._allocations = number = self._allocations + 1
        mapping, offset, footprint = self._find_room(capacity, alignment, size, spot)
        if device is not None:
            device.memory_used += capacity
        block = Block(mapping, offset, size, capacity, footprint, kind, index, number, spot)
        blocks, start = self.blocks.by_start, block.start
        if start in blocks:
            blocks[start] = block
        else:
            self.blocks.add(block)
        self._note(block, size, spot, thread.now)
        return block

    def _full(self, size: int, device: Device, kind: str) -> MemoryFault:
        return MemoryFault(
            diagnose(
                "memory.out_of_memory",
                where=self._machine.here().place,
                size=size,
                kind=kind,
                device=device.index,
                free=device.memory_free,
                total=device.memory_total,
            )
        )

    # -- memory without an address of its own ---------------------------------------------------------

    def take(self, size: int, device: Device, kind: str) -> None:
        """Take bytes of a device that get their address later. Raises MemoryFault ``memory.out_of_memory``."""
        if size > device.memory_free:
            raise self._full(size, device, kind)
        device.memory_used += size

    def reserve(self, mapping: Mapping) -> Block:
        """Enter addresses that have no memory yet: whoever uses them gets ``memory.not_mapped``."""
        self.blocks.clear(mapping.address, mapping.address + mapping.size)
        return self._enter(mapping, mapping.size, -1, live=False)

    def adopt(self, mapping: Mapping, size: int, device: int) -> Block:
        """Make the start of a mapping the memory of a device; its bytes were taken before."""
        return self._enter(mapping, size, device, live=True)

    def disown(self, block: Block) -> None:
        """The inverse of :meth:`adopt`: the addresses are reserved again."""
        block.live = False
        assert block.mapping is not None
        poison(block.mapping, block.offset, block.capacity)
        self.reserve(block.mapping)

    def _enter(self, mapping: Mapping, size: int, device: int, *, live: bool) -> Block:
        self._allocations += 1
        here = self._machine.here()
        block = Block(mapping, 0, size, size, mapping.size, MemoryKind.DEVICE, device, self._allocations, here)
        block.live, block.reported = live, True
        self.blocks.add(block)
        return block

    def register_host(self, address: int, size: int) -> None:
        """Host memory of the program counts as pinned from now on."""
        self.registered[address] = size

    def unregister_host(self, address: int) -> None:
        """The inverse of :meth:`register_host`; KeyError for an address that is not registered."""
        del self.registered[address]

    def is_registered(self, address: int, size: int) -> bool:
        """True if registered memory holds [address, address + size)."""
        return any(start <= address and address + size <= start + count for start, count in self.registered.items())

    def _find_room(self, capacity: int, alignment: int, size: int, spot: Spot) -> tuple[Mapping, int, int]:
        """A mapping, an offset in it and the bytes used up there."""
        small = capacity <= SMALL
        unit = alignment if alignment > ALIGNMENT else ALIGNMENT
        footprint = (capacity + unit - 1) // unit * unit if small else (capacity + PAGE - 1) // PAGE * PAGE
        waiting = self._reusable.get(footprint)
        if waiting:
            old = waiting[-1]
            if old.start % unit == 0 and old.mapping is not None:
                waiting.pop()
                self._reusable_bytes -= footprint
                return old.mapping, old.offset, footprint
        if not small:
            return self._map(footprint, size, spot), 0, footprint
        at = (self._chunk_used + unit - 1) // unit * unit
        if self._chunk is None or at + footprint > self._chunk.size:
            self._chunk = self._map(_CHUNK, size, spot)
            at = 0
        self._chunk_used = at + footprint
        return self._chunk, at, footprint

    def _map(self, size: int, wanted: int, spot: Spot) -> Mapping:
        try:
            made = Mapping(size)
        except (MemoryError, OSError, OverflowError, ValueError):
            self.release_freed()
            try:
                made = Mapping(size)
            except (MemoryError, OSError, OverflowError, ValueError):
                raise MemoryFault(diagnose("memory.host_exhausted", where=spot.place, size=wanted)) from None
        # The host may give addresses that it took back before.
        self.blocks.clear(made.address, made.address + made.size)
        return made

    # -- freeing -------------------------------------------------------------------------------------

    def free(self, address: int, *kinds: MemoryKind) -> None:
        """Free an allocation of one of these families by its start address.

        Raises:
            MemoryFault: ``memory.double_free``, ``memory.wrong_free``, ``memory.free_inside`` or
                ``memory.free_unknown``; nothing is freed then.
        """
        block = self.blocks.by_start.get(address)
        if block is not None and block.live and block.kind in kinds:
            if block.copies is not None:
                self._check_copies(block, 0, block.capacity, "freed", writing=True)
            self.retire(block)
            return
        spot = self._machine.here()
        block = self.blocks.find(address)
        if block is None:
            raise MemoryFault(diagnose("memory.free_unknown", where=spot.place, function=FREERS[kinds[0]]))
        if not block.live:
            raise MemoryFault(
                diagnose("memory.double_free", where=spot.place, others=_others(block), memory=block.name)
            )
        if block.kind not in kinds:
            raise MemoryFault(
                diagnose(
                    "memory.wrong_free",
                    where=spot.place,
                    others=_others(block),
                    memory=block.name,
                    function=FREERS[kinds[0]],
                    maker=MAKERS[block.kind],
                    right=FREERS[block.kind],
                )
            )
        raise MemoryFault(
            diagnose(
                "memory.free_inside",
                where=spot.place,
                others=_others(block),
                memory=block.name,
                offset=address - block.start,
            )
        )

    def retire(self, block: Block) -> None:
        """Mark a live block freed, poison it and put it into quarantine."""
        machine = self._machine
        thread = machine.clock.current or machine.clock.thread
        spot = thread.spot or machine.here()
        block.live = False
        block.freed = spot
        if block.device >= 0:
            machine.devices[block.device].memory_used -= block.capacity
        assert block.mapping is not None
        poison(block.mapping, block.offset, block.capacity)
        self._note(block, -block.size, spot, thread.now)
        self._quarantine.append(block)
        self._quarantined += block.footprint
        if len(self._quarantine) > QUARANTINE_BLOCKS or self._quarantined > QUARANTINE_BYTES:
            self._relieve()

    def _relieve(self) -> None:
        """Let the oldest freed memory out of quarantine."""
        while self._quarantined > QUARANTINE_BYTES or len(self._quarantine) > QUARANTINE_BLOCKS:
            block = self._quarantine.popleft()
            footprint = block.footprint
            self._quarantined -= footprint
            if block.capacity <= SMALL or self._reusable_bytes + footprint <= REUSABLE_BYTES:
                self._reusable_bytes += footprint
                try:
                    self._reusable[footprint].append(block)
                except KeyError:
                    self._reusable[footprint] = [block]
            else:
                block.mapping = None

    def release_freed(self) -> None:
        """Give freed memory back to the host (at finalize, or when it has no more room)."""
        for block in [*self._quarantine, *(block for blocks in self._reusable.values() for block in blocks)]:
            if block.capacity > SMALL:
                block.mapping = None
        self._quarantine = deque(block for block in self._quarantine if block.mapping is not None)
        self._quarantined = sum(block.footprint for block in self._quarantine)
        self._reusable = {
            footprint: kept
            for footprint, blocks in self._reusable.items()
            if (kept := [block for block in blocks if block.mapping is not None])
        }
        self._reusable_bytes = sum(block.footprint for blocks in self._reusable.values() for block in blocks)

    # -- access --------------------------------------------------------------------------------------

    def resolve(self, address: int, size: int, want: Want = "any", *, write: bool = False) -> View:
        """Check [address, address + size) before it is used.

        Args:
            want: where the memory has to lie.
            write: it will be written.

        Raises:
            MemoryFault: with rule ``memory.use_after_free``, ``out_of_range``, ``not_device``, ``not_host`` or
                ``bad_pointer``; its code is what the runtime gives (507899 where that is inferred).
        """
        block = self.blocks.find(address)
        if block is not None and (block.mapping is not None or not self._host_took(address, size)):
            offset = address - block.start
            if not block.live:
                raise MemoryFault(self._freed(block))
            if offset + size > block.size:
                self._check_end(block, offset, size)
            on_host = block.kind is MemoryKind.HOST
            view = View(address, size, on_host, block, None)
        else:
            view = self._resolve_host(address, size, write)
            on_host = True
        if want != "any" and on_host is not (want == "host"):
            rule = "memory.not_host" if want == "host" else "memory.not_device"
            others = _others(view.block) if view.block is not None else ()
            raise MemoryFault(diagnose(rule, where=self._machine.here().place, others=others, memory=view.name))
        return view

    def view(self, address: int, size: int, want: Want = "any", *, write: bool = True) -> memoryview:
        """The bytes at an address, after the checks of :meth:`resolve`; a block's view keeps its memory mapped."""
        found = self.resolve(address, size, want, write=write)
        block = found.block
        if block is not None and block.mapping is not None:
            offset = block.offset + address - block.start
            return block.mapping.view[offset : offset + size]
        return memoryview((ctypes.c_char * size).from_address(address)).cast("B")

    def known_host(self, address: int, size: int, owner: Any) -> None:
        """Register host memory that an object of the program owns (numpy_to_ptr, bytes_to_ptr)."""
        self.host.add(address, size, owner)

    def _freed(self, block: Block) -> Diagnosis:
        where = self._machine.here().place
        if block.freed is None:
            return diagnose("memory.not_mapped", where=where, others=_others(block))
        return diagnose("memory.use_after_free", where=where, others=_others(block), memory=block.name)

    def _host_took(self, address: int, size: int) -> bool:
        """True if the host now uses the address of a block whose memory it got back."""
        return self.host.find(address) is not None or self.host.accessible(address, size, write=False)

    def _check_end(self, block: Block, offset: int, size: int) -> None:
        """The access ends behind the size asked for: refused behind the rounded size, else only said."""
        facts: dict[str, Any] = {
            "memory": block.name,
            "first": offset,
            "count": size,
            "past": offset + size - block.size,
        }
        where, others = self._machine.here().place, _others(block)
        if offset + size > block.capacity:
            raise MemoryFault(diagnose("memory.out_of_range", where=where, others=others, **facts))
        self._machine.report(diagnose("memory.past_requested", where=where, others=others, **facts))

    def _resolve_host(self, address: int, size: int, write: bool) -> View:
        machine = self._machine
        known = self.host.find(address)
        before = self.blocks.before(address) if known is None else None
        if before is not None and before.mapping is not None:
            mapping = before.mapping
            if address < mapping.address + mapping.reach:
                raise MemoryFault(self._beyond(before, address, size))
        behind = self.blocks.overlapping(address, address + size)
        if behind is not None and behind.mapping is not None:
            raise MemoryFault(diagnose("memory.bad_pointer", where=machine.here().place, size=size))
        if known is not None and known.abandoned():
            machine.report(diagnose("memory.host_owner_gone", where=machine.here().place, type=known.type_name))
            if known.gone:
                known = None
        if known is not None and address + size > known.end:
            known_size = known.end - known.start
            raise MemoryFault(
                diagnose(
                    "memory.host_out_of_range",
                    where=machine.here().place,
                    type=known.type_name,
                    size=known_size,
                    first=address - known.start,
                    count=size,
                )
            )
        if known is None and not self.host.accessible(address, size, write=write):
            raise MemoryFault(diagnose("memory.bad_pointer", where=machine.here().place, size=size))
        return View(address, size, True, None, known)

    def _beyond(self, block: Block, address: int, size: int) -> Diagnosis:
        first = address - block.start
        return diagnose(
            "memory.out_of_range",
            where=self._machine.here().place,
            others=_others(block),
            memory=block.name,
            first=first,
            count=size,
            past=first + size - block.size,
        )

    # -- asynchronous copies of pinned memory ---------------------------------------------------------

    def note_copy(self, block: Block, task: Any, offset: int, size: int, *, writing: bool) -> None:
        """Remember that a queued copy reads (or writes) pinned memory until it is done."""
        copies = [entry for entry in block.copies or () if not entry[0].done]
        copies.append((task, offset, size, writing))
        block.copies = copies

    def check_reuse(self, view: View, *, writing: bool) -> None:
        """Report a use of pinned memory that a queued copy still needs."""
        block = view.block
        if block is not None and block.copies is not None:
            what = "written" if writing else "read"
            self._check_copies(block, view.address - block.start, view.size, what, writing=writing)

    def _check_copies(self, block: Block, offset: int, size: int, what: str, *, writing: bool) -> None:
        block.copies = [entry for entry in block.copies or () if not entry[0].done] or None
        for task, first, count, task_writes in block.copies or ():
            if (writing or task_writes) and first < offset + size and offset < first + count:
                place = task.spot.place
                others = (("copy queued at", place),) if place is not None else ()
                self._machine.report(
                    diagnose(
                        "memory.host_in_flight",
                        where=self._machine.here().place,
                        others=others,
                        memory=block.name,
                        what=what,
                    )
                )
                return

    # -- leaks ---------------------------------------------------------------------------------------

    def leaks(self) -> list[Diagnosis]:
        """One diagnosis for each line whose allocations are still live; each is given once."""
        groups: dict[tuple[int, int, MemoryKind], list[Block]] = {}
        for block in sorted(self.blocks, key=lambda block: block.number):
            if block.live and not block.reported and block.kind is not MemoryKind.WORKSPACE:
                block.reported = True
                groups.setdefault((block.made.file, block.made.line, block.kind), []).append(block)
        found = []
        for (_, _, kind), blocks in groups.items():
            found.append(
                diagnose(
                    "memory.leak",
                    where=blocks[0].made.place,
                    count=len(blocks),
                    size=sum(block.size for block in blocks),
                    kind=KIND_NAMES[kind],
                    function=FREERS[kind],
                )
            )
        return found

    def _note(self, block: Block, bytes: int, spot: Spot, now: int) -> None:
        record = self._machine.record
        name = _RECORDED[block.kind]
        kind = record.strings.numbers.get(name) or record.strings.number(name)
        file, line, _ = spot
        changes = record.memory
        changes.cells += changes.packed(block.device, kind, now, block.number, bytes, file, line)
