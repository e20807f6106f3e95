"""The program's own host memory, registered so that copies of it are asynchronous. Source: acl_rt.h (host_register)."""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse
from cannlab.acl.functions.memory import memory_fault
from cannlab.machine import Machine

_TYPES = (0, 4, 8)
_FLAGS = 0x2 | 0x4 | 0x8 | 0x1000_0000
_HOST, _DEVICE, _UNREGISTERED = 0, 1, 2
PAGE_BYTES, HUGE_PAGE_BYTES = 4096, 2 << 20
"""Pages of host memory and of device memory, bytes."""


def _register(m: Machine, pointer: int, size: int) -> int:
    current_context(m)
    if pointer == 0 or size == 0:
        raise memory_fault(m, "memory.null_pointer", argument="pointer or size")
    view = m.memory.resolve(pointer, size, "host")
    if view.pinned:
        raise refuse(m, "runtime.host_registered")
    m.memory.register_host(pointer, size)
    return pointer


def _registered(m: Machine, pointer: int) -> None:
    current_context(m)
    if pointer == 0:
        raise memory_fault(m, "memory.null_pointer", argument="pointer")
    if pointer not in m.memory.registered:
        raise refuse(m, "runtime.host_not_registered")


@api("acl.rt.host_register")
def host_register(m: Machine, pointer: int, size: int, register_type: int) -> tuple[int, int]:
    """host_register(pointer, size, type) -> (device pointer, ret): the same address; 507910 if it is registered."""
    if register_type not in _TYPES:
        raise refuse(m, "runtime.invalid_parameter", argument="type", value=register_type, allowed="0, 4, 8")
    return _register(m, pointer, size), 0


@api("acl.rt.host_register_v2")
def host_register_v2(m: Machine, pointer: int, size: int, flag: int) -> int:
    """host_register_v2(pointer, size, flag) -> ret: 2 mapped, 4 I/O, 8 read only, 0x10000000 pinned."""
    if flag == 0 or flag & ~_FLAGS:
        raise refuse(m, "runtime.invalid_parameter", argument="flag", value=flag, allowed="2, 4, 8, 0x10000000")
    _register(m, pointer, size)
    return 0


@api("acl.rt.host_get_device_pointer")
def host_get_device_pointer(m: Machine, pointer: int, flag: int) -> tuple[int, int]:
    """host_get_device_pointer(pointer, 0) -> (device pointer, ret): 507911 if it is not registered."""
    if flag:
        raise refuse(m, "runtime.invalid_parameter", argument="flag", value=flag, allowed="0")
    _registered(m, pointer)
    return pointer, 0


@api("acl.rt.host_unregister")
def host_unregister(m: Machine, pointer: int) -> int:
    """host_unregister(pointer) -> ret: 507911 if it is not registered."""
    _registered(m, pointer)
    m.memory.unregister_host(pointer)
    return 0


@api("acl.rt.pointer_get_attributes", empty=dict)
def pointer_get_attributes(m: Machine, pointer: int) -> tuple[dict[str, Any], int]:
    """pointer_get_attributes(pointer) -> (attributes, ret): location type 0 host, 1 device, 2 not known to the
    runtime."""
    if pointer == 0:
        raise memory_fault(m, "memory.null_pointer", argument="pointer")
    block = m.memory.blocks.find(pointer)
    if block is not None and block.live and block.device >= 0:
        location, page = {"id": block.device, "type": _DEVICE}, HUGE_PAGE_BYTES
    else:
        pinned = (block is not None and block.live) or m.memory.is_registered(pointer, 1)
        location, page = {"id": 0, "type": _HOST if pinned else _UNREGISTERED}, PAGE_BYTES
    return {"location": location, "page_size": page, "rsv": [0] * 4}, 0
