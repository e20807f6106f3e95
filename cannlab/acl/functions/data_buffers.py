"""Data buffers: an address and a size, nothing more. Source: pyacl-semantics 8.1."""

from __future__ import annotations

from dataclasses import dataclass

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, take
from cannlab.machine import Machine


@dataclass
class DataBuffer:
    """What a program says lies where; neither is checked before it is used."""

    address: int
    size: int


name_kind(DataBuffer, "data buffer", "acl.destroy_data_buffer")


@api("acl.create_data_buffer")
def create_data_buffer(m: Machine, data: int, size: int) -> int:
    """create_data_buffer(data, size) -> buffer."""
    return opened(m, DataBuffer(data, size))


@api("acl.destroy_data_buffer")
def destroy_data_buffer(m: Machine, buffer: int) -> int:
    """destroy_data_buffer(buffer) -> ret: frees the description, not the memory."""
    take(m, buffer, DataBuffer)
    m.handles.close(buffer, m.here())
    return 0


@api("acl.get_data_buffer_addr")
def get_data_buffer_addr(m: Machine, buffer: int) -> int:
    """get_data_buffer_addr(buffer) -> address; 0 for 0."""
    return take(m, buffer, DataBuffer).address if buffer else 0


@api("acl.get_data_buffer_size")
def get_data_buffer_size(m: Machine, buffer: int) -> int:
    """get_data_buffer_size(buffer) -> size: the low 32 bits of it."""
    return take(m, buffer, DataBuffer).size & 0xFFFF_FFFF if buffer else 0


@api("acl.get_data_buffer_size_v2")
def get_data_buffer_size_v2(m: Machine, buffer: int) -> int:
    """get_data_buffer_size_v2(buffer) -> size."""
    return take(m, buffer, DataBuffer).size if buffer else 0


@api("acl.update_data_buffer")
def update_data_buffer(m: Machine, buffer: int, data: int, size: int) -> int:
    """update_data_buffer(buffer, data, size) -> ret."""
    entry = take(m, buffer, DataBuffer)
    entry.address, entry.size = data, size
    return 0
