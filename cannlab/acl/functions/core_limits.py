"""How many cores a device, a stream or a thread may use. Source: acl_rt.h (aclrtDevResLimitType)."""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse, take_device, take_stream
from cannlab.machine import Device, Machine, Stream

CUBE, VECTOR = 0, 1
_KEY = "acl.rt.core_limits"


def _cores(m: Machine, kind: int) -> int:
    """How many cores of a kind the chip has."""
    if kind not in (CUBE, VECTOR):
        raise refuse(m, "runtime.invalid_parameter", argument="res_type", value=kind, allowed="0 (cube), 1 (vector)")
    return m.soc.cube_cores if kind == CUBE else m.soc.kernel_cores


def _checked(m: Machine, kind: int, value: int) -> None:
    most = _cores(m, kind)
    if not 1 <= value <= most:
        raise refuse(m, "runtime.invalid_parameter", argument="value", value=value, allowed=f"1 to {most}")


def _device_limit(m: Machine, device: Device, kind: int) -> int:
    return device.core_limits.get(kind, _cores(m, kind))


def _stream_limit(m: Machine, stream: Stream, kind: int) -> int:
    most = _device_limit(m, stream.context.device, kind)
    return min(stream.core_limits.get(kind, most), most)


@api("acl.rt.get_device_res_limit")
def get_device_res_limit(m: Machine, device_id: int, kind: int) -> tuple[int, int]:
    """get_device_res_limit(device, kind) -> (cores, ret): 0 cube, 1 vector."""
    return _device_limit(m, take_device(m, device_id), kind), 0


@api("acl.rt.set_device_res_limit")
def set_device_res_limit(m: Machine, device_id: int, kind: int, value: int) -> int:
    """set_device_res_limit(device, kind, cores) -> ret: 1 up to what the chip has. Models keep their times."""
    device = take_device(m, device_id)
    _checked(m, kind, value)
    device.core_limits[kind] = value
    return 0


@api("acl.rt.reset_device_res_limit")
def reset_device_res_limit(m: Machine, device_id: int) -> int:
    """reset_device_res_limit(device) -> ret: back to all cores of the chip."""
    take_device(m, device_id).core_limits.clear()
    return 0


@api("acl.rt.get_stream_res_limit")
def get_stream_res_limit(m: Machine, stream: int, kind: int) -> tuple[int, int]:
    """get_stream_res_limit(stream, kind) -> (cores, ret): the device's limit if the stream has none."""
    return _stream_limit(m, take_stream(m, stream), kind), 0


@api("acl.rt.set_stream_res_limit")
def set_stream_res_limit(m: Machine, stream: int, kind: int, value: int) -> int:
    """set_stream_res_limit(stream, kind, cores) -> ret."""
    entry = take_stream(m, stream)
    _checked(m, kind, value)
    entry.core_limits[kind] = value
    return 0


@api("acl.rt.reset_stream_res_limit")
def reset_stream_res_limit(m: Machine, stream: int) -> int:
    """reset_stream_res_limit(stream) -> ret."""
    take_stream(m, stream).core_limits.clear()
    return 0


@api("acl.rt.use_stream_res_in_current_thread")
def use_stream_res_in_current_thread(m: Machine, stream: int) -> int:
    """use_stream_res_in_current_thread(stream) -> ret: the thread takes over the stream's limits."""
    m.faces.setdefault(_KEY, {})[m.thread.index] = take_stream(m, stream)
    return 0


@api("acl.rt.unuse_stream_res_in_current_thread")
def unuse_stream_res_in_current_thread(m: Machine, stream: int) -> int:
    """unuse_stream_res_in_current_thread(stream) -> ret."""
    take_stream(m, stream)
    m.faces.setdefault(_KEY, {}).pop(m.thread.index, None)
    return 0


@api("acl.rt.get_res_in_current_thread")
def get_res_in_current_thread(m: Machine, kind: int) -> tuple[int, int]:
    """get_res_in_current_thread(kind) -> (cores, ret): by the stream that the thread uses, else the device's limit."""
    device = current_context(m).device
    used = m.faces.setdefault(_KEY, {}).get(m.thread.index)
    if used is not None and used.alive:
        return _stream_limit(m, used, kind), 0
    return _device_limit(m, device, kind), 0
