"""Devices. Source: pyacl-semantics 3."""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, refuse, take_device
from cannlab.machine import Machine

HOST_MODE = 1
"""ACL_HOST: the program runs on the host of a PCIe card."""


@api("acl.rt.set_device")
def set_device(m: Machine, device_id: int) -> int:
    """set_device(device_id) -> ret: counts a user; makes the device's default context current in this thread."""
    m.thread.context = take_device(m, device_id).retain()
    return 0


@api("acl.rt.reset_device")
def reset_device(m: Machine, device_id: int) -> int:
    """reset_device(device_id) -> ret: counts a user less; the last one waits for tasks and releases the context."""
    device = take_device(m, device_id)
    if device.references == 0:
        raise refuse(m, "runtime.device_not_set", device=device_id)
    code = device.release()
    _leave(m)
    return code


@api("acl.rt.reset_device_force")
def reset_device_force(m: Machine, device_id: int) -> int:
    """reset_device_force(device_id) -> ret: releases at once, whatever the count."""
    device = take_device(m, device_id)
    if device.references == 0:
        raise refuse(m, "runtime.device_not_set", device=device_id)
    code = device.release(force=True)
    _leave(m)
    return code


def _leave(m: Machine) -> None:
    """A thread whose context is gone has none."""
    if m.thread.context is not None and not m.thread.context.alive:
        m.thread.context = None


@api("acl.rt.get_device")
def get_device(m: Machine) -> tuple[int, int]:
    """get_device() -> (device_id, ret)."""
    return current_context(m).device.index, 0


@api("acl.rt.get_device_count")
def get_device_count(m: Machine) -> tuple[int, int]:
    """get_device_count() -> (count, ret)."""
    return len(m.devices), 0


@api("acl.rt.get_run_mode")
def get_run_mode(m: Machine) -> tuple[int, int]:
    """get_run_mode() -> (1, 0): the emulated node is a host with PCIe cards. Needs no context."""
    return HOST_MODE, 0


@api("acl.rt.set_ts_device")
def set_ts_device(m: Machine, ts_id: int) -> int:
    """set_ts_device(ts_id) -> ret: 0 the AI core's scheduler, 1 the vector core's."""
    if ts_id not in (0, 1):
        raise refuse(m, "runtime.bad_parameter", argument="ts_id", value=ts_id, allowed="0, 1")
    current_context(m)
    return 0


@api("acl.rt.synchronize_device")
def synchronize_device(m: Machine) -> int:
    """synchronize_device() -> ret: waits for every stream of the current device."""
    device = current_context(m).device
    return m.wait_for_all([stream for context in device.contexts for stream in context.streams])


@api("acl.rt.synchronize_device_with_timeout")
def synchronize_device_with_timeout(m: Machine, timeout_ms: int) -> int:
    """synchronize_device_with_timeout(ms) -> ret: 507046 when it takes longer; -1 waits without end."""
    device = current_context(m).device
    if timeout_ms == 0 or timeout_ms < -1:
        raise refuse(m, "runtime.sync_timeout", timeout=timeout_ms)
    timeout = None if timeout_ms == -1 else timeout_ms * 1_000_000
    return m.wait_for_all([stream for context in device.contexts for stream in context.streams], timeout)


@api("acl.rt.device_can_access_peer")
def device_can_access_peer(m: Machine, device_id: int, peer_device_id: int) -> tuple[int, int]:
    """device_can_access_peer(device, peer) -> (1, 0); 100000 for the same device."""
    take_device(m, device_id)
    take_device(m, peer_device_id)
    if device_id == peer_device_id:
        raise refuse(m, "runtime.bad_parameter", argument="peer_device_id", value=device_id, allowed="another device")
    return 1, 0


@api("acl.rt.device_enable_peer_access")
def device_enable_peer_access(m: Machine, peer_device_id: int, flags: int) -> int:
    """device_enable_peer_access(peer, 0) -> ret."""
    context = current_context(m)
    if flags != 0:
        raise refuse(m, "runtime.peer_flags", flags=flags)
    take_device(m, peer_device_id)
    if peer_device_id == context.device.index:
        raise refuse(
            m, "runtime.bad_parameter", argument="peer_device_id", value=peer_device_id, allowed="another device"
        )
    context.device.peers.add(peer_device_id)
    return 0


@api("acl.rt.device_disable_peer_access")
def device_disable_peer_access(m: Machine, peer_device_id: int) -> int:
    """device_disable_peer_access(peer) -> ret."""
    context = current_context(m)
    take_device(m, peer_device_id)
    context.device.peers.discard(peer_device_id)
    return 0


@api("acl.rt.get_device_utilization_rate", empty=dict)
def get_device_utilization_rate(m: Machine, device_id: int) -> tuple[dict[str, int], int]:
    """get_device_utilization_rate(device) -> (rates in percent, ret); memory_utilization is always -1."""
    take_device(m, device_id)
    names = ("cube_utilization", "vector_utilization", "aicpu_utilization")
    return {**dict.fromkeys(names, 0), "memory_utilization": -1, "utilization_extend": 0}, 0


@api("acl.rt.device_get_stream_priority_range")
def device_get_stream_priority_range(m: Machine) -> tuple[int, int, int]:
    """device_get_stream_priority_range() -> (7, 0, ret): least and greatest."""
    current_context(m)
    return 7, 0, 0


@api("acl.rt.get_primary_ctx_state")
def get_primary_ctx_state(m: Machine, device_id: int) -> tuple[int, int, int]:
    """get_primary_ctx_state(device_id) -> (active, flags, ret)."""
    return int(take_device(m, device_id).primary is not None), 0, 0


@api("acl.rt.set_op_wait_timeout")
def set_op_wait_timeout(m: Machine, seconds: int) -> int:
    """set_op_wait_timeout(seconds) -> ret: accepted; no emulated wait takes that long."""
    current_context(m)
    return 0
