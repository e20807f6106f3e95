"""acl.prof: marks and ranges that a program sets itself, and the times of iterations.

Source: runtime documentation, profiling (msproftx); acl_prof.h (aclprofStepTag).
"""

from __future__ import annotations

from cannlab.acl import profiling
from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take, take_stream
from cannlab.acl.profiling import Stamp, StepMarks, prof_state
from cannlab.machine import Engine, Machine
from cannlab.trace import TaskKind

_LONGEST = 127
_TAGS = (0, 1)
_TRACE_TASK = "PROFILER_TRACE_EX"

name_kind(Stamp, "stamp", "acl.prof.destroy_stamp")
name_kind(StepMarks, "step info", "acl.prof.destroy_step_info")


def _require_marks(m: Machine) -> None:
    if not prof_state(m).marking:
        raise refuse(m, "prof.stamp", reason="no profiling with marks (0x80) has been started")


def _stamp(m: Machine, handle: int) -> Stamp:
    """The stamp of a handle. Raises Refused ``prof.stamp`` (-1), as the real library answers 0."""
    _require_marks(m)
    if handle == 0:
        raise refuse(m, "prof.stamp", reason="the stamp is 0")
    return take(m, handle, Stamp)


@api("acl.prof.create_stamp")
def create_stamp(m: Machine) -> int:
    """create_stamp() -> stamp: 0 before a start that wants marks."""
    _require_marks(m)
    state = prof_state(m)
    state.stamps += 1
    return opened(m, Stamp(state.stamps))


@api("acl.prof.destroy_stamp")
def destroy_stamp(m: Machine, stamp: int) -> None:
    """destroy_stamp(stamp)."""
    if stamp:
        take(m, stamp, Stamp)
        m.handles.close(stamp, m.here())


@api("acl.prof.set_stamp_trace_message")
def set_stamp_trace_message(m: Machine, stamp: int, message: str, length: int) -> int:
    """set_stamp_trace_message(stamp, text, length) -> ret: length in bytes, at most 127."""
    if stamp == 0:
        raise refuse(m, "prof.stamp", reason="the stamp is 0")
    entry = take(m, stamp, Stamp)
    data = message.encode()
    if length > min(_LONGEST, len(data)):
        reason = f"the text has {len(data)} bytes, {length} were named, {_LONGEST} are possible"
        raise refuse(m, "prof.stamp", reason=reason)
    entry.message = data[:length].decode(errors="replace")
    return 0


@api("acl.prof.mark")
def mark(m: Machine, stamp: int) -> int:
    """mark(stamp) -> ret: a mark at this time."""
    profiling.mark(m, "marker", m.thread.now, _stamp(m, stamp).message)
    return 0


@api("acl.prof.mark_ex")
def mark_ex(m: Machine, message: str, stream: int) -> int:
    """mark_ex(text, stream) -> ret: a mark on the host, and one when the stream comes to it; 1 to 127 bytes, and a
    stream of one's own (not 0)."""
    _require_marks(m)
    if stream == 0 or not 1 <= len(message.encode()) <= _LONGEST:
        raise refuse(m, "prof.stamp", reason=f"the stream is 0, or the text is not 1 to {_LONGEST} bytes long")
    target = take_stream(m, stream)
    profiling.mark(m, "marker_ex", m.thread.now, message)
    return target.submit(TaskKind.EVENT_RECORD, message, engine=Engine.NONE, core_type=_TRACE_TASK)


@api("acl.prof.push")
def push(m: Machine, stamp: int) -> int:
    """push(stamp) -> ret: a range of this thread begins; ranges of a thread lie inside each other."""
    entry = _stamp(m, stamp)
    entry.start = m.thread.now
    prof_state(m).pushed[m.thread.index].append(entry)
    return 0


@api("acl.prof.pop")
def pop(m: Machine) -> int:
    """pop() -> ret: the range that this thread pushed last ends."""
    _require_marks(m)
    pushed = prof_state(m).pushed[m.thread.index]
    if not pushed:
        raise refuse(m, "prof.stamp", reason="this thread has pushed no range that is still open")
    entry = pushed.pop()
    profiling.mark(m, "push/pop", entry.start, entry.message)
    return 0


@api("acl.prof.range_start")
def range_start(m: Machine, stamp: int) -> tuple[int, int]:
    """range_start(stamp) -> (range_id, ret): a range begins, which any thread may end."""
    entry = _stamp(m, stamp)
    entry.start = m.thread.now
    prof_state(m).ranges[entry.number] = entry
    return entry.number, 0


@api("acl.prof.range_stop")
def range_stop(m: Machine, range_id: int) -> int:
    """range_stop(range_id) -> ret."""
    _require_marks(m)
    entry = prof_state(m).ranges.pop(range_id, None)
    if entry is None:
        raise refuse(m, "prof.stamp", reason=f"no range {range_id} is open")
    profiling.mark(m, "start/end", entry.start, entry.message)
    return 0


@api("acl.prof.create_step_info")
def create_step_info(m: Machine) -> int:
    """create_step_info() -> step_info: the marks of one iteration."""
    state = prof_state(m)
    made = StepMarks(len(state.steps) + 1)
    state.steps.append(made)
    return opened(m, made)


@api("acl.prof.destroy_step_info")
def destroy_step_info(m: Machine, step_info: int) -> None:
    """destroy_step_info(step_info)."""
    if step_info:
        take(m, step_info, StepMarks)
        m.handles.close(step_info, m.here())


@api("acl.prof.get_step_timestamp")
def get_step_timestamp(m: Machine, step_info: int, tag: int, stream: int) -> int:
    """get_step_timestamp(step_info, tag, stream) -> ret: queues a mark on the stream; tag 0 start, 1 end of the
    iteration. The times go into step_trace of the PROF_ directory."""
    entry = take(m, step_info, StepMarks)
    if tag not in _TAGS:
        raise refuse(m, "runtime.bad_parameter", argument="tag", value=tag, allowed="0, 1")
    target = take_stream(m, stream)
    waiting = target.last
    name = f"step_{'end' if tag else 'start'}"
    code = target.submit(TaskKind.EVENT_RECORD, name, engine=Engine.NONE, core_type=_TRACE_TASK)
    if target.last is not None and target.last is not waiting:
        entry.tasks[tag] = target.last
    return code
