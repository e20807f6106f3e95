"""The checks that many functions share: context, handles, streams."""

from __future__ import annotations

from typing import Any, TypeVar

from cannlab.errors import diagnose
from cannlab.machine import Context, Device, Event, Machine, Stream, TaskFault
from cannlab.machine.requested_faults import check_alive

T = TypeVar("T")


class Refused(TaskFault):
    """A call that the runtime refuses; its diagnosis holds the code."""


def refuse(m: Machine, rule: str, **facts: Any) -> Refused:
    """The refusal of a call: rule and facts; the function's name and the learner's line are added."""
    facts.setdefault("function", m.thread.function)
    return Refused(diagnose(rule, where=m.here().place, **facts))


KIND_NAMES: dict[type, str] = {Stream: "stream", Event: "event", Context: "context"}
DESTROYERS: dict[type, str] = {
    Stream: "acl.rt.destroy_stream",
    Event: "acl.rt.destroy_event",
    Context: "acl.rt.destroy_context",
}
"""Which function destroys the objects of a class."""


def name_kind(kind: type, name: str, destroyer: str = "") -> None:
    """How diagnoses call the objects of a class, and the pyACL function that destroys them."""
    KIND_NAMES[kind] = name
    if destroyer:
        DESTROYERS[kind] = destroyer


def opened(m: Machine, item: object) -> int:
    """A handle for an object that the program has to destroy."""
    return m.handles.open(item, m.here())


def take(m: Machine, handle: int, kind: type[T]) -> T:
    """The object of a handle.

    Raises:
        Refused: ``runtime.null_handle``, ``runtime.stale_handle`` or ``runtime.bad_handle``, all 100000. The real
            module has no table of handles and crashes on the last two; a code is cannlab's choice.
    """
    found = m.handles.objects.get(handle)
    if isinstance(found, kind):
        return found
    name = KIND_NAMES.get(kind, kind.__name__)
    if handle == 0:
        raise refuse(m, "runtime.null_handle", kind=name)
    closed = m.handles.closed(handle)
    if closed is not None and issubclass(closed[0], kind):
        others = (("destroyed at", closed[1].place),) if closed[1].place is not None else ()
        raise refuse(m, "runtime.stale_handle", kind=name, others=others)
    raise refuse(m, "runtime.bad_handle", kind=name)


def current_context(m: Machine) -> Context:
    """The calling thread's context. Raises Refused ``runtime.no_context`` (107002)."""
    context = (m.clock.current or m.clock.thread).context
    if context is None or not context.alive:
        if m.default_device is None:
            raise refuse(m, "runtime.no_context")
        context = m.thread.context = m.devices[m.default_device].default_context()
    return context


def take_stream(m: Machine, handle: int) -> Stream:
    """A stream of the current context; handle 0 is its default stream.

    Raises:
        Refused: 107002 without context, 107003 for a stream of another context, 100000 for no stream.
    """
    context = (m.clock.current or m.clock.thread).context
    if context is None or not context.alive:
        context = current_context(m)
    if context.device.lost:
        check_alive(context.device, m.here().place)
    if handle == 0:
        return context.default_stream
    found = m.handles.objects.get(handle)
    stream = found if isinstance(found, Stream) else take(m, handle, Stream)
    if stream.context is not context:
        raise refuse(m, "runtime.stream_context")
    return stream


def take_event(m: Machine, handle: int) -> Event:
    """An event."""
    found = m.handles.objects.get(handle)
    return found if isinstance(found, Event) else take(m, handle, Event)


def take_device(m: Machine, index: int) -> Device:
    """A device by its id. Raises Refused ``runtime.bad_device`` (107001)."""
    if not 0 <= index < len(m.devices):
        raise refuse(m, "runtime.bad_device", device=index, last=len(m.devices) - 1)
    return m.devices[index]
