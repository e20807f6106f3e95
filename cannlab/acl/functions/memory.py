"""Device and pinned host memory, copies, fills. Source: pyacl-semantics 5."""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse, take_stream
from cannlab.errors import Diagnosis, diagnose
from cannlab.machine import Machine, MemoryFault, MemoryKind
from cannlab.machine.copies import Copy, Direction, copy_now, fill_later, fill_now
from cannlab.machine.memory import PADDING
from cannlab.machine.requested_faults import check_alive

_LAST_ATTRIBUTE = 17
_DEVICE = MemoryKind.DEVICE
_DIRECTIONS = tuple(Direction)
_PITCHED = (Direction.HOST_TO_DEVICE, Direction.DEVICE_TO_HOST, Direction.DEVICE_TO_DEVICE, Direction.DEFAULT)


def memory_fault(m: Machine, rule: str, **facts: Any) -> MemoryFault:
    found: Diagnosis = diagnose(rule, where=m.here().place, function=m.thread.function, **facts)
    return MemoryFault(found)


def _malloc(m: Machine, size: int, padding: int = PADDING) -> tuple[int, int]:
    if size == 0:
        raise memory_fault(m, "memory.zero_size", size=size)
    device = current_context(m).device
    if device.lost:
        check_alive(device, m.here().place)
    return m.memory.allocate(size, MemoryKind.DEVICE, device, padding).start, 0


@api("acl.rt.malloc")
def malloc(m: Machine, size: int, policy: int) -> tuple[int, int]:
    """malloc(size, policy) -> (pointer, ret): 64-aligned; size rounded up to 32 and 32 more; 207001 when full."""
    context = (m.clock.current or m.clock.thread).context
    if size == 0 or context is None or not context.alive or context.device.lost:
        return _malloc(m, size)
    return m.memory.allocate(size, _DEVICE, context.device).start, 0


@api("acl.rt.malloc_align32")
def malloc_align32(m: Machine, size: int, policy: int) -> tuple[int, int]:
    """malloc_align32(size, policy) -> (pointer, ret): size rounded up to 32 only."""
    return _malloc(m, size, 0)


@api("acl.rt.malloc_cached")
def malloc_cached(m: Machine, size: int, policy: int) -> tuple[int, int]:
    """malloc_cached(size, policy) -> (pointer, ret)."""
    return _malloc(m, size)


@api("acl.rt.free")
def free(m: Machine, pointer: int) -> int:
    """free(pointer) -> ret: at once, without waiting for tasks that use it; 100000 for 0."""
    if pointer == 0:
        raise memory_fault(m, "memory.free_null")
    m.memory.free(pointer, _DEVICE)
    return 0


@api("acl.rt.malloc_host")
def malloc_host(m: Machine, size: int) -> tuple[int, int]:
    """malloc_host(size) -> (pointer, ret): pinned host memory."""
    if size == 0:
        raise memory_fault(m, "memory.zero_size", size=size)
    return m.memory.allocate(size, MemoryKind.HOST, None).start, 0


@api("acl.rt.free_host")
def free_host(m: Machine, pointer: int) -> int:
    """free_host(pointer) -> ret; 100000 for 0."""
    return _free(m, pointer, MemoryKind.HOST)


def _free(m: Machine, pointer: int, kind: MemoryKind) -> int:
    if pointer == 0:
        raise memory_fault(m, "memory.free_null")
    m.memory.free(pointer, kind)
    return 0


def _direction(m: Machine, destination: int, limit: int, source: int, count: int, kind: int) -> Direction:
    """The checks of memcpy in the real order, after count 0."""
    if destination == 0 or source == 0:
        argument = "source" if destination else "destination"
        raise memory_fault(m, "memory.null_pointer", argument=argument)
    if not 0 <= kind <= 5:
        raise memory_fault(m, "memory.bad_kind", kind=kind)
    if limit == 0 or count > limit:
        raise memory_fault(m, "memory.dest_max", count=count, limit=limit)
    return _DIRECTIONS[kind]


@api("acl.rt.memcpy")
def memcpy(m: Machine, destination: int, limit: int, source: int, count: int, kind: int) -> int:
    """memcpy(dst, dest_max, src, count, kind) -> ret: copies at once; waits for no stream.

    kind: 0 host to host, 1 host to device, 2 device to host, 3 device to device, 4 by the pointers.
    """
    if count == 0:
        return 0
    if destination == 0 or source == 0 or not 0 <= kind <= 5 or count > limit:
        _direction(m, destination, limit, source, count, kind)
    if destination != source:
        copy_now(m, destination, source, count, kind)
    return 0


@api("acl.rt.memcpy_async")
def memcpy_async(m: Machine, destination: int, limit: int, source: int, count: int, kind: int, stream: int) -> int:
    """memcpy_async(dst, dest_max, src, count, kind, stream) -> ret.

    With pinned host memory the copy is queued; with ordinary host memory the call waits for the stream and copies.
    """
    target = take_stream(m, stream)
    if count == 0:
        return 0
    direction = _direction(m, destination, limit, source, count, kind)
    if direction is Direction.HOST_TO_HOST:
        raise refuse(m, "runtime.host_to_host_async")
    if destination == source:
        return 0
    copy = Copy(m, destination, source, count, direction)
    if copy.direction is Direction.HOST_TO_HOST:
        raise refuse(m, "runtime.host_to_host_async")
    if not copy.pageable:
        return copy.later(target)
    code = target.synchronize()
    if code == 0:
        copy.now()
    return code


@api("acl.rt.memcpy2d")
def memcpy2d(
    m: Machine, destination: int, dpitch: int, source: int, spitch: int, width: int, height: int, kind: int
) -> int:
    """memcpy2d(dst, dpitch, src, spitch, width, height, kind) -> ret: rows of ``width`` bytes, ``pitch`` apart."""
    if width == 0 or height == 0:
        return 0
    direction = _pitched(m, destination, dpitch, source, spitch, width, kind)
    _check_rows(m, destination, dpitch, source, spitch, width, height)
    for row in range(height):
        Copy(m, destination + row * dpitch, source + row * spitch, width, direction).now()
    return 0


@api("acl.rt.memcpy2d_async")
def memcpy2d_async(
    m: Machine, destination: int, dpitch: int, source: int, spitch: int, width: int, height: int, kind: int, stream: int
) -> int:
    """memcpy2d_async(dst, dpitch, src, spitch, width, height, kind, stream) -> ret."""
    target = take_stream(m, stream)
    if width == 0 or height == 0:
        return 0
    direction = _pitched(m, destination, dpitch, source, spitch, width, kind)
    _check_rows(m, destination, dpitch, source, spitch, width, height)
    copies = [Copy(m, destination + row * dpitch, source + row * spitch, width, direction) for row in range(height)]
    code = target.synchronize() if copies[0].pageable else 0
    for copy in copies:
        if copy.pageable:
            copy.now()
        else:
            code = code or copy.later(target)
    return code


def _pitched(m: Machine, destination: int, dpitch: int, source: int, spitch: int, width: int, kind: int) -> Direction:
    for argument, pointer in (("destination", destination), ("source", source)):
        if pointer == 0:
            raise memory_fault(m, "memory.null_pointer", argument=argument)
    for pitch in (dpitch, spitch):
        if width > pitch:
            raise memory_fault(m, "memory.bad_pitch", width=width, pitch=pitch)
    if kind not in _PITCHED:
        raise memory_fault(m, "memory.bad_kind", kind=kind)
    return Direction(kind)


def _check_rows(m: Machine, destination: int, dpitch: int, source: int, spitch: int, width: int, height: int) -> None:
    """Nothing is copied unless the last rows lie inside, too."""
    m.memory.resolve(destination, dpitch * (height - 1) + width, write=True)
    m.memory.resolve(source, spitch * (height - 1) + width)


@api("acl.rt.memset")
def memset(m: Machine, pointer: int, max_count: int, value: int, count: int) -> int:
    """memset(pointer, max_count, value, count) -> ret: the low byte of ``value``; waits for no stream."""
    if count == 0:
        return 0
    _check_fill(m, pointer, max_count, count)
    fill_now(m, pointer, value, count)
    return 0


@api("acl.rt.memset_async")
def memset_async(m: Machine, pointer: int, max_count: int, value: int, count: int, stream: int) -> int:
    """memset_async(pointer, max_count, value, count, stream) -> ret."""
    target = take_stream(m, stream)
    if count == 0:
        return 0
    _check_fill(m, pointer, max_count, count)
    return fill_later(m, pointer, value, count, target)


def _check_fill(m: Machine, pointer: int, max_count: int, count: int) -> None:
    if pointer == 0:
        raise memory_fault(m, "memory.null_memset")
    if count > max_count:
        raise memory_fault(m, "memory.dest_max", count=count, limit=max_count)


@api("acl.rt.get_mem_info")
def get_mem_info(m: Machine, attribute: int) -> tuple[int, int, int]:
    """get_mem_info(attribute) -> (free, total, ret): bytes of the current device."""
    device = current_context(m).device
    if not 0 <= attribute <= _LAST_ATTRIBUTE:
        raise memory_fault(m, "memory.bad_attribute", attribute=attribute)
    return device.memory_free, device.memory_total, 0


@api("acl.rt.mem_flush")
def mem_flush(m: Machine, pointer: int, size: int) -> int:
    """mem_flush(pointer, size) -> ret: nothing to do, the emulated memory has no cache; the range is checked."""
    m.memory.resolve(pointer, size)
    return 0


@api("acl.rt.mem_invalidate")
def mem_invalidate(m: Machine, pointer: int, size: int) -> int:
    """mem_invalidate(pointer, size) -> ret: as mem_flush."""
    m.memory.resolve(pointer, size)
    return 0


@api("acl.rt.malloc_with_cfg")
def malloc_with_cfg(m: Machine, size: int, policy: int, cfg: Any) -> tuple[int, int]:
    """malloc_with_cfg(size, policy, {}) -> (pointer, ret): the attributes (a module id) change nothing here."""
    _check_dict(m, cfg)
    return _malloc(m, size)


@api("acl.rt.malloc_host_with_cfg")
def malloc_host_with_cfg(m: Machine, size: int, cfg: Any) -> tuple[int, int]:
    """malloc_host_with_cfg(size, {}) -> (pointer, ret)."""
    _check_dict(m, cfg)
    if size == 0:
        raise memory_fault(m, "memory.zero_size", size=size)
    return m.memory.allocate(size, MemoryKind.HOST, None).start, 0


def _check_dict(m: Machine, cfg: Any) -> None:
    if not isinstance(cfg, dict):
        raise TypeError(f"{m.thread.function} args parse failed")


@api("acl.rt.malloc_for_task_scheduler")
def malloc_for_task_scheduler(m: Machine, size: int, policy: int, cfg: Any) -> tuple[int, int]:
    """malloc_for_task_scheduler(size, policy, {}) -> (pointer, ret): device memory."""
    _check_dict(m, cfg)
    return _malloc(m, size)
