"""Descriptions of the program's own allocators. Source: acl_rt_allocator.h; pyacl-semantics 16.

The real module passes a null pointer on whatever the Python functions return, so nothing can ever be allocated
through them; here they are kept and never called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take, take_stream
from cannlab.machine import Machine, Stream

_KEY = "acl.rt.allocators"


@dataclass
class AllocatorDesc:
    """The object and the functions of an allocator, by part."""

    parts: dict[str, Any] = field(default_factory=dict)


name_kind(AllocatorDesc, "allocator description", "acl.rt.allocator_destroy_desc")


@api("acl.rt.allocator_create_desc")
def allocator_create_desc(m: Machine) -> int:
    """allocator_create_desc() -> desc."""
    return opened(m, AllocatorDesc())


@api("acl.rt.allocator_destroy_desc")
def allocator_destroy_desc(m: Machine, desc: int) -> int:
    """allocator_destroy_desc(desc) -> ret."""
    take(m, desc, AllocatorDesc)
    m.handles.close(desc, m.here())
    return 0


def _set(m: Machine, desc: int, part: str, value: Any) -> int:
    if part != "obj" and not callable(value):
        raise TypeError("parameter must be callable")
    take(m, desc, AllocatorDesc).parts[part] = value
    return 0


@api("acl.rt.allocator_set_obj_to_desc")
def allocator_set_obj_to_desc(m: Machine, desc: int, allocator: int) -> int:
    """allocator_set_obj_to_desc(desc, allocator) -> ret."""
    return _set(m, desc, "obj", allocator)


@api("acl.rt.allocator_set_alloc_func_to_desc")
def allocator_set_alloc_func_to_desc(m: Machine, desc: int, function: Any) -> int:
    """allocator_set_alloc_func_to_desc(desc, fn) -> ret."""
    return _set(m, desc, "alloc", function)


@api("acl.rt.allocator_set_free_func_to_desc")
def allocator_set_free_func_to_desc(m: Machine, desc: int, function: Any) -> int:
    """allocator_set_free_func_to_desc(desc, fn) -> ret."""
    return _set(m, desc, "free", function)


@api("acl.rt.allocator_set_alloc_advise_func_to_desc")
def allocator_set_alloc_advise_func_to_desc(m: Machine, desc: int, function: Any) -> int:
    """allocator_set_alloc_advise_func_to_desc(desc, fn) -> ret."""
    return _set(m, desc, "advise", function)


@api("acl.rt.allocator_set_get_addr_from_block_func_to_desc")
def allocator_set_get_addr_from_block_func_to_desc(m: Machine, desc: int, function: Any) -> int:
    """allocator_set_get_addr_from_block_func_to_desc(desc, fn) -> ret."""
    return _set(m, desc, "address", function)


@api("acl.rt.allocator_register")
def allocator_register(m: Machine, stream: int, desc: int) -> int:
    """allocator_register(stream, desc) -> ret: 100000 unless alloc, free and address functions are set."""
    target, entry = take_stream(m, stream), take(m, desc, AllocatorDesc)
    missing = {"obj", "alloc", "free", "address"} - set(entry.parts)
    if missing:
        raise refuse(
            m, "runtime.bad_parameter", argument="desc", value=f"without {sorted(missing)}", allowed="complete"
        )
    _registered(m)[target] = entry
    return 0


@api("acl.rt.allocator_unregister")
def allocator_unregister(m: Machine, stream: int) -> int:
    """allocator_unregister(stream) -> ret: 100000 if none is registered."""
    if _registered(m).pop(take_stream(m, stream), None) is None:
        raise refuse(m, "runtime.bad_parameter", argument="stream", value="without an allocator", allowed="registered")
    return 0


def _registered(m: Machine) -> dict[Stream, AllocatorDesc]:
    found: dict[Stream, AllocatorDesc] = m.faces.setdefault(_KEY, {})
    return found
