"""Events. Source: pyacl-semantics 6."""

from __future__ import annotations

import ctypes

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, opened, refuse, take_event, take_stream
from cannlab.machine import Event, EventFlag, Machine
from cannlab.machine.event import ALL_ABILITIES
from cannlab.machine.node import STREAM_TIMEOUT

_ALONE = EventFlag.DEVICE_USE_ONLY | EventFlag.EXTERNAL
_KNOWN = ALL_ABILITIES | _ALONE | EventFlag.IPC


@api("acl.rt.create_event")
def create_event(m: Machine) -> tuple[int, int]:
    """create_event() -> (event, ret): with all abilities."""
    return _create(m, ALL_ABILITIES, extended=False), 0


@api("acl.rt.create_event_with_flag")
def create_event_with_flag(m: Machine, flag: int) -> tuple[int, int]:
    """create_event_with_flag(flag) -> (event, ret): bits 1 SYNC, 2 CAPTURE_STREAM_PROGRESS, 8 TIME_LINE."""
    return _create(m, _flags(m, flag), extended=False), 0


@api("acl.rt.create_event_ex_with_flag")
def create_event_ex_with_flag(m: Machine, flag: int) -> tuple[int, int]:
    """create_event_ex_with_flag(flag) -> (event, ret): without query_event, query_event_wait_status, reset_event."""
    return _create(m, _flags(m, flag), extended=True), 0


def _flags(m: Machine, flag: int) -> EventFlag:
    if flag == 0 or flag & ~int(_KNOWN):
        raise refuse(m, "runtime.event_flags", flags=flag)
    flags = EventFlag(flag)
    if flags & _ALONE and flags not in (EventFlag.DEVICE_USE_ONLY, EventFlag.EXTERNAL):
        raise refuse(m, "runtime.event_flags", flags=flag)
    return flags


def _create(m: Machine, flags: EventFlag, *, extended: bool) -> int:
    context = current_context(m)
    device = context.device
    if device.events >= device.max_events:
        raise refuse(m, "runtime.event_limit", device=device.index, limit=device.max_events)
    device.events += 1
    device.event_numbers += 1
    return opened(m, Event(context, device.event_numbers - 1, flags, extended=extended))


@api("acl.rt.destroy_event")
def destroy_event(m: Machine, event: int) -> int:
    """destroy_event(event) -> ret."""
    entry = take_event(m, event)
    entry.context.device.events -= 1
    m.handles.close(event, m.here())
    return 0


@api("acl.rt.record_event")
def record_event(m: Machine, event: int, stream: int) -> int:
    """record_event(event, stream) -> ret: marks what is queued so far; recording again replaces the mark."""
    found = m.handles.objects.get(event)
    return take_stream(m, stream).record(found if isinstance(found, Event) else take_event(m, event))


@api("acl.rt.reset_event")
def reset_event(m: Machine, event: int, stream: int) -> int:
    """reset_event(event, stream) -> ret: once the stream comes to it, the event counts as not recorded."""
    entry = _classic(m, event)
    target = take_stream(m, stream)
    if not entry.flags & EventFlag.SYNC:
        raise refuse(m, "runtime.event_ability", needed="SYNC (1)")
    return target.reset(entry)


def _classic(m: Machine, handle: int) -> Event:
    entry = take_event(m, handle)
    if entry.extended:
        raise refuse(m, "runtime.event_ability", needed="the classic interface (not create_event_ex_with_flag)")
    return entry


def _not_external(m: Machine, entry: Event) -> Event:
    if entry.flags & EventFlag.EXTERNAL:
        raise refuse(m, "runtime.event_ability", needed="no EXTERNAL (32)")
    return entry


@api("acl.rt.query_event")
def query_event(m: Machine, event: int) -> tuple[int, int]:
    """query_event(event) -> (status, ret): 0 complete, 1 not ready."""
    entry = _not_external(m, _classic(m, event))
    return 0 if entry.complete(m.thread.now) else 1, 0


@api("acl.rt.query_event_status")
def query_event_status(m: Machine, event: int) -> tuple[int, int]:
    """query_event_status(event) -> (status, ret): 1 complete, 0 not ready (the reverse of query_event)."""
    entry = _not_external(m, take_event(m, event))
    if entry.capture is None:
        return 1 if entry.extended else 0, 0
    return 1 if entry.complete(m.thread.now) else 0, 0


@api("acl.rt.query_event_wait_status")
def query_event_wait_status(m: Machine, event: int) -> tuple[int, int]:
    """query_event_wait_status(event) -> (status, ret): 0 when every stream_wait_event for it is done, else 1."""
    entry = _classic(m, event)
    task, now = entry.waits, m.thread.now
    if task is None:
        return 0, 0
    if not task.done:
        task.stream.run_until(task, due=now)
    return 0 if task.done and task.end <= now else 1, 0


@api("acl.rt.synchronize_event")
def synchronize_event(m: Machine, event: int) -> int:
    """synchronize_event(event) -> ret: waits until the mark is passed; 0 at once if it was never recorded."""
    return _synchronize(m, event, None)


@api("acl.rt.synchronize_event_with_timeout")
def synchronize_event_with_timeout(m: Machine, event: int, timeout_ms: int) -> int:
    """synchronize_event_with_timeout(event, ms) -> ret: 507047 when it takes longer; -1 waits without end."""
    if timeout_ms == 0 or timeout_ms < -1:
        raise refuse(m, "runtime.sync_timeout", timeout=timeout_ms)
    code = _synchronize(m, event, None if timeout_ms == -1 else timeout_ms * 1_000_000)
    if code == STREAM_TIMEOUT:
        raise refuse(m, "runtime.event_timeout", timeout=timeout_ms)
    return code


def _synchronize(m: Machine, event: int, timeout: int | None) -> int:
    current_context(m)
    entry = _not_external(m, take_event(m, event))
    if entry.capture is None:
        return 0
    return m.wait_for(entry.capture.stream, entry.capture, timeout)


def _time(m: Machine, event: int) -> int:
    """When the mark was passed, ns."""
    entry = _not_external(m, take_event(m, event))
    if not entry.flags & EventFlag.TIME_LINE:
        raise refuse(m, "runtime.event_ability", needed="TIME_LINE (8)")
    if entry.capture is None:
        raise refuse(m, "runtime.event_not_recorded")
    if not entry.complete(m.thread.now) or entry.time is None:
        raise refuse(m, "runtime.event_not_complete")
    return entry.time


@api("acl.rt.event_elapsed_time")
def event_elapsed_time(m: Machine, start: int, end: int) -> tuple[float, int]:
    """event_elapsed_time(start, end) -> (ms, ret): single precision, as the real function gives it."""
    first, second = _time(m, start), _time(m, end)
    if second < first:
        raise refuse(m, "runtime.event_order")
    return ctypes.c_float((second - first) / 1e6).value, 0


@api("acl.rt.event_get_timestamp")
def event_get_timestamp(m: Machine, event: int) -> tuple[int, int]:
    """event_get_timestamp(event) -> (us, ret)."""
    return _time(m, event) // 1000, 0


@api("acl.rt.get_event_id")
def get_event_id(m: Machine, event: int) -> tuple[int, int]:
    """get_event_id(event) -> (id, ret)."""
    return take_event(m, event).number, 0


@api("acl.rt.get_event_avail_num")
def get_event_avail_num(m: Machine) -> tuple[int, int]:
    """get_event_avail_num() -> (count, ret): how many more events fit on the device."""
    device = current_context(m).device
    return device.max_events - device.events, 0
