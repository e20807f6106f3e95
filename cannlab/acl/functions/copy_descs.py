"""Copies inside a device whose addresses stand in device memory. Source: documentation of memcpy_async_with_desc."""

from __future__ import annotations

import ctypes
import struct

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse, take_stream
from cannlab.acl.functions.memory import memory_fault
from cannlab.machine import Engine, Machine, Work, api_costs
from cannlab.trace import TaskKind

INNER_DEVICE_TO_DEVICE = 6
_FIELDS = struct.Struct("<QQQ")
DESC_SIZE = 64
"""Bytes of a description; what is in it is no part of the interface."""
_WITHOUT = ("Ascend910", "Ascend310P", "Ascend310")


def _check(m: Machine, kind: int) -> None:
    current_context(m)
    if m.soc.short in _WITHOUT:
        raise refuse(m, "runtime.not_supported", what=f"{m.soc.name} has no copies by description")
    if kind != INNER_DEVICE_TO_DEVICE:
        raise memory_fault(m, "memory.bad_kind", kind=kind)


@api("acl.rt.get_memcpy_desc_size")
def get_memcpy_desc_size(m: Machine, kind: int) -> tuple[int, int]:
    """get_memcpy_desc_size(6) -> (bytes, ret): device memory for one description; 6 is inside a device."""
    _check(m, kind)
    return DESC_SIZE, 0


@api("acl.rt.set_memcpy_desc")
def set_memcpy_desc(
    m: Machine, desc: int, kind: int, source: int, destination: int, count: int, config: int
) -> tuple[int, int]:
    """set_memcpy_desc(desc, 6, src, dst, count, 0) -> (desc, ret): what a copy by this description copies."""
    _check(m, kind)
    for argument, pointer in (("desc", desc), ("source", source), ("destination", destination)):
        if pointer == 0:
            raise memory_fault(m, "memory.null_pointer", argument=argument)
    if config:
        raise refuse(m, "runtime.invalid_parameter", argument="config", value="not 0", allowed="0")
    m.memory.resolve(source, count, "device")
    m.memory.resolve(destination, count, "device", write=True)
    m.memory.view(desc, DESC_SIZE, "device")[: _FIELDS.size] = _FIELDS.pack(source, destination, count)
    return desc, 0


@api("acl.rt.memcpy_async_with_desc")
def memcpy_async_with_desc(m: Machine, desc: int, kind: int, stream: int) -> int:
    """memcpy_async_with_desc(desc, 6, stream) -> ret: the description is read when the stream comes to the copy."""
    target = take_stream(m, stream)
    _check(m, kind)
    if desc == 0:
        raise memory_fault(m, "memory.null_pointer", argument="desc")
    view = m.memory.resolve(desc, DESC_SIZE, "device")
    *_, count = _FIELDS.unpack_from(m.memory.view(desc, DESC_SIZE, "device", write=False))

    def run() -> Work:
        fields = m.memory.view(desc, DESC_SIZE, "device", write=False)
        source, destination, size = _FIELDS.unpack_from(fields)
        m.memory.resolve(source, size, "device")
        m.memory.resolve(destination, size, "device", write=True)
        ctypes.memmove(destination, source, size)
        return Work(api_costs.device_copy_ns(size, m.soc))

    return target.submit(
        TaskKind.COPY_D2D,
        "MemcpyAsyncWithDesc",
        run,
        engine=Engine.NONE,
        core_type="MEMCPY_ASYNC",
        bytes=count,
        keep=(view.owner,),
    )
