"""The callback for tasks that fail, and what it may ask. Source: pyacl-semantics 7."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cannlab.acl import dumps
from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take
from cannlab.acl.functions.tensor_descs import TensorDesc
from cannlab.machine import Machine
from cannlab.machine.reports import call_back
from cannlab.machine.tasks import Task
from cannlab.om import OmTensor

UNKNOWN = 0xFFFF_FFFF
_LONGEST_NAME = 4096
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
            call_back(function, info)
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


@api("acl.mdl.create_and_get_op_desc")
def create_and_get_op_desc(
    m: Machine, device_id: int, stream_id: int, task_id: int, name_length: int
) -> tuple[str, int, int, int, int, int]:
    """create_and_get_op_desc(device, stream, task, name_len) -> (name, inputs, count, outputs, count, ret): what a
    failed task worked on. ``inputs`` and ``outputs`` are arrays of descriptions: acl.get_tensor_desc_by_index gives
    each, acl.destroy_tensor_desc of the first destroys the array. For single operators and models that were queued."""
    if name_length > _LONGEST_NAME:
        raise refuse(m, "runtime.bad_parameter", argument="name_len", value=name_length, allowed="at most 4096")
    described = dumps.dump_state(m).described.get((device_id, stream_id, task_id))
    if described is None:
        raise refuse(m, "model.unknown_operator", device=device_id, stream=stream_id, task=task_id)
    inputs, outputs = (_array(m, tensors) for tensors in (described.inputs, described.outputs))
    name = described.name.encode()[:name_length].decode(errors="replace")
    return name, inputs, len(described.inputs), outputs, len(described.outputs), 0


def _array(m: Machine, tensors: tuple[tuple[OmTensor, int, int], ...]) -> int:
    """Descriptions of tensors with their addresses: the handle of the first, which knows the others; 0 for none."""
    made = [
        TensorDesc(tensor.dtype, list(tensor.dims), tensor.format, name=tensor.name, address=address)
        for tensor, address, _ in tensors
    ]
    if not made:
        return 0
    made[0].following = [m.handles.open(desc) for desc in made[1:]]
    return opened(m, made[0])
