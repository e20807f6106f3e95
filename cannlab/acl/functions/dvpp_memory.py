"""DVPP memory. Source: pyacl-semantics 12.1."""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context
from cannlab.acl.functions.memory import memory_fault
from cannlab.machine import Machine, MemoryKind

DVPP_ALIGNMENT = 128


@api("acl.media.dvpp_malloc")
def dvpp_malloc(m: Machine, size: int) -> tuple[int, int]:
    """dvpp_malloc(size) -> (pointer, ret): device memory for DVPP, 128-aligned."""
    if size == 0:
        raise memory_fault(m, "memory.zero_size", size=size)
    device = current_context(m).device
    return m.memory.allocate(size, MemoryKind.DVPP, device, alignment=DVPP_ALIGNMENT).start, 0


@api("acl.media.dvpp_malloc_with_cfg")
def dvpp_malloc_with_cfg(m: Machine, size: int, policy: int, cfg: Any) -> tuple[int, int]:
    """dvpp_malloc_with_cfg(size, policy, {}) -> (pointer, ret): the attributes (a module id) change nothing here."""
    if not isinstance(cfg, dict):
        raise TypeError(f"{m.thread.function} args parse failed")
    return dvpp_malloc(m, size)


@api("acl.media.dvpp_free")
def dvpp_free(m: Machine, pointer: int) -> int:
    """dvpp_free(pointer) -> ret; 100000 for 0."""
    if pointer == 0:
        raise memory_fault(m, "memory.free_null")
    m.memory.free(pointer, MemoryKind.DVPP)
    return 0
