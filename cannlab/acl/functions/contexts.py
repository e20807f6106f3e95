"""Contexts. Source: pyacl-semantics 3."""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, opened, refuse, take, take_device
from cannlab.machine import Context, Machine


def _handle(m: Machine, context: Context) -> int:
    """The handle of a context; one for each, made when it is first given out."""
    if context.handle == 0:
        context.handle = m.handles.open(context)
    return context.handle


@api("acl.rt.create_context")
def create_context(m: Machine, device_id: int) -> tuple[int, int]:
    """create_context(device_id) -> (context, ret): the new context becomes current in this thread."""
    device = take_device(m, device_id)
    if device.streams_left < 1:
        raise refuse(m, "runtime.stream_limit", device=device_id, limit=m.soc.max_streams)
    context = device.create_context()
    m.thread.context = context
    context.handle = opened(m, context)
    return context.handle, 0


@api("acl.rt.destroy_context")
def destroy_context(m: Machine, context: int) -> int:
    """destroy_context(context) -> ret: waits for its tasks; 107002 for the default context or a destroyed one."""
    if context and m.handles.closed(context) is not None:
        raise refuse(m, "runtime.destroy_context", reason="was destroyed already")
    entry = take(m, context, Context)
    if not entry.alive:
        raise refuse(m, "runtime.destroy_context", reason="was destroyed already")
    if entry.primary:
        raise refuse(m, "runtime.destroy_context", reason="set_device made")
    code = entry.destroy()
    m.handles.close(context, m.here())
    if m.thread.context is entry:
        m.thread.context = None
    return code


@api("acl.rt.set_context")
def set_context(m: Machine, context: int) -> int:
    """set_context(context) -> ret: makes it current in this thread; 107000 for a destroyed one."""
    if context and m.handles.closed(context) is not None:
        raise refuse(m, "runtime.context_destroyed")
    entry = take(m, context, Context)
    if not entry.alive:
        raise refuse(m, "runtime.context_destroyed")
    m.thread.context = entry
    return 0


@api("acl.rt.get_context")
def get_context(m: Machine) -> tuple[int, int]:
    """get_context() -> (context, ret); (0, 107002) without one."""
    return _handle(m, current_context(m)), 0
