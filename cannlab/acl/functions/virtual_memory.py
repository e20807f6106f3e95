"""Addresses and memory apart: reserve a range, make physical memory, map it. Source: acl_rt.h (aclrtReserveMemAddress).

Physical memory that is shared can be imported in the process that exported it: each process has a node of its own here.
Mapping twice is not emulated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, name_kind, opened, refuse, take, take_device
from cannlab.acl.functions.memory import memory_fault
from cannlab.acl.shared_keys import SharedKeys, pids
from cannlab.machine import Block, Machine
from cannlab.machine.pages import Mapping

GRANULARITY = 2 << 20
"""Sizes are multiples of a huge page, bytes."""
_KEY = "acl.rt.reservations"
_SHARED = "acl.rt.shared_physical"
NO_PIDS = 1
"""ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION."""


@dataclass
class Physical:
    """Physical memory of a device; ``block`` is where it is mapped, ``handles`` how many stand for it."""

    device: int
    size: int
    block: Block | None = None
    handles: int = 1


name_kind(Physical, "physical memory handle", "acl.rt.free_physical")


@dataclass
class Reservation:
    """A range of addresses; ``handle`` is the physical memory that is mapped there."""

    mapping: Mapping
    size: int
    handle: int = 0


def _reservations(m: Machine) -> dict[int, Reservation]:
    found: dict[int, Reservation] = m.faces.setdefault(_KEY, {})
    return found


def _multiple(m: Machine, size: int) -> None:
    if size == 0 or size % GRANULARITY:
        raise refuse(m, "runtime.invalid_parameter", argument="size", value=size, allowed="a multiple of 2 MiB")


def _none(m: Machine, **values: int) -> None:
    for name, value in values.items():
        if value:
            raise refuse(m, "runtime.invalid_parameter", argument=name, value=value, allowed="0")


def _located(prop: Any, name: str) -> int:
    if not isinstance(prop, dict):
        raise TypeError(f"acl.rt.{name} args parse failed")
    location = prop.get("location", {})
    if not isinstance(location, dict):
        raise TypeError(f"acl.rt.{name} args parse failed")
    number = location.get("id", 0)
    return number if isinstance(number, int) else 0


@api("acl.rt.mem_get_allocation_granularity")
def mem_get_allocation_granularity(m: Machine, prop: Any, option: int) -> tuple[int, int]:
    """mem_get_allocation_granularity({...}, option) -> (bytes, ret): 2 MiB, both least (0) and recommended (1)."""
    take_device(m, _located(prop, "mem_get_allocation_granularity"))
    if option not in (0, 1):
        raise refuse(m, "runtime.invalid_parameter", argument="option", value=option, allowed="0, 1")
    return GRANULARITY, 0


@api("acl.rt.reserve_mem_address")
def reserve_mem_address(m: Machine, size: int, alignment: int, expected: int, flags: int) -> tuple[int, int]:
    """reserve_mem_address(size, 0, 0, flags) -> (address, ret): a range without memory; flags 0 or 1 (huge pages)."""
    current_context(m)
    _multiple(m, size)
    _none(m, alignment=alignment, expect_ptr=expected, flags=flags & ~1)
    try:
        mapping = Mapping(size)
    except (MemoryError, OSError, OverflowError, ValueError):
        raise memory_fault(m, "memory.host_exhausted", size=size) from None
    _reservations(m)[mapping.address] = Reservation(mapping, size)
    m.memory.reserve(mapping)
    return mapping.address, 0


@api("acl.rt.release_mem_address")
def release_mem_address(m: Machine, address: int) -> int:
    """release_mem_address(address) -> ret: 107000 while memory is mapped there, or for another address."""
    entry = _reserved(m, address)
    if entry.handle:
        raise refuse(m, "runtime.invalid_parameter", argument="address", value="mapped", allowed="after unmap_mem")
    del _reservations(m)[address]
    found = m.memory.blocks.find(address)
    if found is not None:
        m.memory.blocks.forget(found)
    return 0


def _reserved(m: Machine, address: int) -> Reservation:
    entry = _reservations(m).get(address)
    if entry is None:
        allowed = "what reserve_mem_address gave"
        raise refuse(m, "runtime.invalid_parameter", argument="address", value="not reserved", allowed=allowed)
    return entry


@api("acl.rt.malloc_physical")
def malloc_physical(m: Machine, size: int, prop: Any, flags: int) -> tuple[int, int]:
    """malloc_physical(size, {"location": {"id": device, "type": 1}, ...}, 0) -> (handle, ret): 207001 when full."""
    device = take_device(m, _located(prop, "malloc_physical"))
    _multiple(m, size)
    _none(m, flags=flags)
    m.memory.take(size, device, "physical memory")
    return opened(m, Physical(device.index, size)), 0


@api("acl.rt.free_physical")
def free_physical(m: Machine, handle: int) -> int:
    """free_physical(handle) -> ret: 107000 while it is mapped; the last of its handles frees the memory."""
    entry = take(m, handle, Physical)
    if entry.block is not None and entry.handles == 1:
        raise refuse(m, "runtime.invalid_parameter", argument="handle", value="mapped", allowed="after unmap_mem")
    entry.handles -= 1
    if not entry.handles:
        m.devices[entry.device].memory_used -= entry.size
    m.handles.close(handle, m.here())
    return 0


@api("acl.rt.map_mem")
def map_mem(m: Machine, address: int, size: int, offset: int, handle: int, flags: int) -> int:
    """map_mem(address, size, 0, handle, 0) -> ret: the range now has memory and works as device memory."""
    entry, physical = _reserved(m, address), take(m, handle, Physical)
    _none(m, offset=offset, flags=flags)
    if size != physical.size or size > entry.size:
        allowed = f"{physical.size}, inside the range"
        raise refuse(m, "runtime.invalid_parameter", argument="size", value=size, allowed=allowed)
    if entry.handle or physical.block is not None:
        raise refuse(m, "runtime.not_supported", what="mapping twice is not emulated")
    physical.block = m.memory.adopt(entry.mapping, size, physical.device)
    entry.handle = handle
    return 0


@api("acl.rt.unmap_mem")
def unmap_mem(m: Machine, address: int) -> int:
    """unmap_mem(address) -> ret."""
    entry = _reserved(m, address)
    if not entry.handle:
        raise refuse(m, "runtime.invalid_parameter", argument="address", value="not mapped", allowed="a mapped range")
    physical = take(m, entry.handle, Physical)
    if physical.block is not None:
        m.memory.disown(physical.block)
    physical.block, entry.handle = None, 0
    return 0


def _shared(m: Machine) -> SharedKeys[Physical]:
    found: SharedKeys[Physical] = m.faces.setdefault(_SHARED, SharedKeys("physical memory"))
    return found


@api("acl.rt.mem_export_to_shareable_handle")
def mem_export_to_shareable_handle(m: Machine, handle: int, kind: int, flags: int) -> tuple[int, int]:
    """mem_export_to_shareable_handle(handle, 0, flags) -> (shareable, ret): flags 1 lets every process import it."""
    entry = take(m, handle, Physical)
    _none(m, handle_type=kind)
    return _shared(m).export_number(m, entry, flags, NO_PIDS), 0


@api("acl.rt.mem_set_pid_to_shareable_handle")
def mem_set_pid_to_shareable_handle(m: Machine, shareable: int, processes: Any) -> int:
    """mem_set_pid_to_shareable_handle(shareable, [pid, ...]) -> ret: who may import it."""
    _shared(m).allow(m, str(shareable), pids(m, processes))
    return 0


@api("acl.rt.mem_import_from_shareable_handle")
def mem_import_from_shareable_handle(m: Machine, shareable: int, device_id: int) -> tuple[int, int]:
    """mem_import_from_shareable_handle(shareable, device) -> (handle, ret): another handle of the same memory, freed on
    its own; 507022 for a number of another process."""
    take_device(m, device_id)
    entry = _shared(m).taken(m, str(shareable), 0, 0)
    entry.handles += 1
    return opened(m, entry), 0
