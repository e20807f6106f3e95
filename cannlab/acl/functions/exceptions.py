"""The callback for tasks that fail, and what it may ask. Source: pyacl-semantics 7."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, take
from cannlab.machine import Machine
from cannlab.machine.tasks import Task

UNKNOWN = 0xFFFF_FFFF
_KEY = "acl.rt.exception_listener"


@dataclass(frozen=True)
class ExceptionInfo:
    """A failed task: its code, its number, its stream, the host thread that queued it, its device."""

    code: int
    task: int
    stream: int
    thread: int
    device: int


name_kind(ExceptionInfo, "exception info")


@api("acl.rt.set_exception_info_callback")
def set_exception_info_callback(m: Machine, function: Any = None) -> int:
    """set_exception_info_callback([fn]) -> ret: fn(info) runs when a task fails; None takes it back."""
    if function is not None and not callable(function):
        raise TypeError("parameter must be callable")
    old = m.faces.pop(_KEY, None)
    if old is not None:
        m.fault_listeners.remove(old)
    if function is None:
        return 0

    def listener(task: Task, code: int) -> None:
        stream = task.stream
        thread, number = task.order
        info = m.handles.open(ExceptionInfo(code, number, stream.number, thread, stream.context.device.index))
        try:
            function(info)
        except Exception:
            # The real module only logs it and goes on.
            traceback.print_exc()
        finally:
            m.handles.close(info, m.here())

    m.faces[_KEY] = listener
    m.fault_listeners.append(listener)
    return 0


@api("acl.rt.get_error_code_from_exception_info")
def get_error_code_from_exception_info(m: Machine, info: int) -> int:
    """get_error_code_from_exception_info(info) -> code; 0xFFFFFFFF for 0."""
    return take(m, info, ExceptionInfo).code if info else UNKNOWN


@api("acl.rt.get_task_id_from_exception_info")
def get_task_id_from_exception_info(m: Machine, info: int) -> int:
    """get_task_id_from_exception_info(info) -> number of the task."""
    return take(m, info, ExceptionInfo).task if info else UNKNOWN


@api("acl.rt.get_stream_id_from_exception_info")
def get_stream_id_from_exception_info(m: Machine, info: int) -> int:
    """get_stream_id_from_exception_info(info) -> id of the stream."""
    return take(m, info, ExceptionInfo).stream if info else UNKNOWN


@api("acl.rt.get_thread_id_from_exception_info")
def get_thread_id_from_exception_info(m: Machine, info: int) -> int:
    """get_thread_id_from_exception_info(info) -> number of the host thread in the record."""
    return take(m, info, ExceptionInfo).thread if info else UNKNOWN


@api("acl.rt.get_device_id_from_exception_info")
def get_device_id_from_exception_info(m: Machine, info: int) -> int:
    """get_device_id_from_exception_info(info) -> id of the device."""
    return take(m, info, ExceptionInfo).device if info else UNKNOWN
