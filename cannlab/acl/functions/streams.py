"""Streams. Source: pyacl-semantics 4."""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, opened, refuse, take, take_event, take_stream
from cannlab.machine import EventFlag, Machine, Stream

COMPLETE, NOT_READY = 0, 1
HUGE = 0x8
_KNOWN_FLAGS = 0x3F
_LEAST_PRIORITY = 7


@api("acl.rt.create_stream")
def create_stream(m: Machine) -> tuple[int, int]:
    """create_stream() -> (stream, ret); 207008 when the device has no more."""
    return _create(m, 0, 0), 0


@api("acl.rt.create_stream_with_config")
def create_stream_with_config(m: Machine, priority: int, flag: int) -> tuple[int, int]:
    """create_stream_with_config(priority, flag) -> (stream, ret): 0 is the highest of the priorities 0 to 7."""
    if flag & HUGE:
        raise refuse(m, "runtime.unsupported_flag", flag=flag)
    if flag & ~_KNOWN_FLAGS:
        raise refuse(m, "runtime.invalid_parameter", argument="flag", value=flag, allowed="1 and 2, or both")
    return _create(m, min(max(priority, 0), _LEAST_PRIORITY), flag), 0


def _create(m: Machine, priority: int, flags: int) -> int:
    context = current_context(m)
    if context.device.streams_left < 1:
        raise refuse(m, "runtime.stream_limit", device=context.device.index, limit=m.soc.max_streams)
    return opened(m, context.create_stream(priority=priority, flags=flags))


@api("acl.rt.destroy_stream")
def destroy_stream(m: Machine, stream: int) -> int:
    """destroy_stream(stream) -> ret: waits for its tasks; 100000 for 0."""
    entry = _own(m, stream)
    code = entry.synchronize()
    _destroy(m, stream, entry)
    return code


@api("acl.rt.destroy_stream_force")
def destroy_stream_force(m: Machine, stream: int) -> int:
    """destroy_stream_force(stream) -> ret: drops its tasks; 100000 for 0."""
    entry = _own(m, stream)
    entry.drop()
    _destroy(m, stream, entry)
    return 0


def _own(m: Machine, handle: int) -> Stream:
    """A stream that may be destroyed: not the default one, of this context."""
    entry = take(m, handle, Stream)
    if entry.context is not current_context(m):
        raise refuse(m, "runtime.stream_context")
    return entry


def _destroy(m: Machine, handle: int, entry: Stream) -> None:
    entry.context.destroy_stream(entry)
    m.handles.close(handle, m.here())


@api("acl.rt.synchronize_stream")
def synchronize_stream(m: Machine, stream: int) -> int:
    """synchronize_stream(stream) -> ret: waits for its tasks; the code of one that failed."""
    return take_stream(m, stream).synchronize()


@api("acl.rt.synchronize_stream_with_timeout")
def synchronize_stream_with_timeout(m: Machine, stream: int, timeout_ms: int) -> int:
    """synchronize_stream_with_timeout(stream, ms) -> ret: 507046 when it takes longer; -1 waits without end."""
    entry = take_stream(m, stream)
    if timeout_ms == 0 or timeout_ms < -1:
        raise refuse(m, "runtime.sync_timeout", timeout=timeout_ms)
    code = entry.synchronize(None if timeout_ms == -1 else timeout_ms * 1_000_000)
    if code == 507046:
        raise refuse(m, "runtime.stream_timeout", timeout=timeout_ms)
    return code


@api("acl.rt.stream_query")
def stream_query(m: Machine, stream: int) -> tuple[int, int]:
    """stream_query(stream) -> (status, ret): 0 complete, 1 not ready; never waits."""
    return COMPLETE if take_stream(m, stream).query() else NOT_READY, 0


@api("acl.rt.stream_wait_event")
def stream_wait_event(m: Machine, stream: int, event: int) -> int:
    """stream_wait_event(stream, event) -> ret: later tasks of the stream wait; the host does not."""
    entry = take_stream(m, stream)
    mark = take_event(m, event)
    if not mark.flags & EventFlag.SYNC:
        raise refuse(m, "runtime.event_ability", needed="SYNC (1)")
    return entry.wait(mark)


@api("acl.rt.stream_get_id")
def stream_get_id(m: Machine, stream: int) -> tuple[int, int]:
    """stream_get_id(stream) -> (id, ret)."""
    return take_stream(m, stream).number, 0


@api("acl.rt.get_stream_available_num")
def get_stream_available_num(m: Machine) -> tuple[int, int]:
    """get_stream_available_num() -> (count, ret): how many more streams fit on the device."""
    return current_context(m).device.streams_left, 0


@api("acl.rt.set_stream_failure_mode")
def set_stream_failure_mode(m: Machine, stream: int, mode: int) -> int:
    """set_stream_failure_mode(stream, mode) -> ret: 0 go on after a failure, 1 stop."""
    entry = take_stream(m, stream)
    if mode not in (0, 1):
        raise refuse(m, "runtime.bad_parameter", argument="mode", value=mode, allowed="0, 1")
    entry.stop_on_failure = mode == 1
    return 0


@api("acl.rt.ctx_get_current_default_stream")
def ctx_get_current_default_stream(m: Machine) -> tuple[int, int]:
    """ctx_get_current_default_stream() -> (stream, ret)."""
    context = current_context(m)
    if context.default_handle == 0:
        context.default_handle = m.handles.open(context.default_stream)
    return context.default_handle, 0


@api("acl.rt.set_stream_overflow_switch")
def set_stream_overflow_switch(m: Machine, stream: int, flag: int) -> int:
    """set_stream_overflow_switch(stream, flag) -> ret: 0 off, 1 on: the device looks for overflows from then on."""
    entry = take_stream(m, stream)
    if flag not in (0, 1):
        raise refuse(m, "runtime.bad_parameter", argument="flag", value=flag, allowed="0, 1")
    entry.overflow_switch = flag
    if flag:
        entry.context.device.watches_overflow = True
    return 0


@api("acl.rt.get_stream_overflow_switch")
def get_stream_overflow_switch(m: Machine, stream: int) -> tuple[int, int]:
    """get_stream_overflow_switch(stream) -> (flag, ret)."""
    return take_stream(m, stream).overflow_switch, 0
