"""Whether numbers left their range on a device. Source: documentation of get_overflow_status.

The device looks for overflows from the first reset on, or once a stream's overflow switch is on: at the results of
every operator of models and of single operators, not at those of asc kernels.
"""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take_stream
from cannlab.acl.functions.memory import memory_fault
from cannlab.machine import Engine, Machine, Work
from cannlab.machine.tasks import NOTHING
from cannlab.trace import TaskKind

STATUS_SIZE = 64
_OVERFLOW = (1).to_bytes(4, "little") + bytes(STATUS_SIZE - 4)
"""Not 0 somewhere: which bits are set on hardware is not published."""


@api("acl.rt.reset_overflow_status")
def reset_overflow_status(m: Machine, stream: int) -> int:
    """reset_overflow_status(stream) -> ret: when the stream comes to it, overflows so far are forgotten."""
    target = take_stream(m, stream)
    device = target.context.device
    device.watches_overflow = True

    def run() -> Work:
        device.overflowed = False
        return NOTHING

    return target.submit(TaskKind.MEMSET, "ResetOverflow", run, engine=Engine.NONE, core_type="NPU_CLEAR_FLOAT_STATUS")


@api("acl.rt.get_overflow_status")
def get_overflow_status(m: Machine, address: int, size: int, stream: int) -> int:
    """get_overflow_status(address, 64, stream) -> ret: writes 64 bytes of device memory: all 0 without an overflow of
    the device's tasks."""
    target = take_stream(m, stream)
    if address == 0:
        raise memory_fault(m, "memory.null_pointer", argument="address")
    if size != STATUS_SIZE:
        raise refuse(m, "runtime.bad_parameter", argument="output_size", value=size, allowed=f"{STATUS_SIZE}")
    owner = m.memory.resolve(address, STATUS_SIZE, "device", write=True).owner
    device = target.context.device

    def run() -> Work:
        m.memory.view(address, STATUS_SIZE, "device")[:] = _OVERFLOW if device.overflowed else bytes(STATUS_SIZE)
        return NOTHING

    return target.submit(
        TaskKind.MEMSET,
        "GetOverflow",
        run,
        engine=Engine.NONE,
        core_type="NPU_GET_FLOAT_STATUS",
        bytes=STATUS_SIZE,
        keep=(owner,),
    )
