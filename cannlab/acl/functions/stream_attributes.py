"""Attributes of streams, and streams that are stopped. Source: acl_rt.h (aclrtStreamAttr)."""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take_device, take_stream
from cannlab.machine import Machine

FAILURE_MODE, OVERFLOW_CHECK, CUSTOM_TAG, PRIORITY = 1, 2, 3, 5


@api("acl.rt.set_stream_attribute")
def set_stream_attribute(m: Machine, stream: int, attribute: int, value: Any) -> int:
    """set_stream_attribute(stream, attribute, {...}) -> ret: 1 failureMode, 2 overflowSwitch, 3 userCustomTag."""
    if not isinstance(value, dict):
        raise TypeError("acl.rt.set_stream_attribute args parse failed")
    entry = take_stream(m, stream)

    def number(key: str) -> int:
        # As the wrapper: a missing key or one of another type is 0.
        found = value.get(key, 0)
        return found & 0xFFFF_FFFF if isinstance(found, int) else 0

    if attribute == CUSTOM_TAG:
        entry.custom_tag = number("userCustomTag")
        return 0
    keys = {FAILURE_MODE: "failureMode", OVERFLOW_CHECK: "overflowSwitch"}
    if attribute not in keys:
        raise refuse(m, "runtime.invalid_parameter", argument="attr", value=attribute, allowed="1, 2, 3")
    switch = number(keys[attribute])
    if switch not in (0, 1):
        raise refuse(m, "runtime.bad_parameter", argument=keys[attribute], value=switch, allowed="0, 1")
    if attribute == FAILURE_MODE:
        entry.stop_on_failure = switch == 1
    else:
        entry.overflow_switch = switch
        if switch:
            entry.context.device.watches_overflow = True
    return 0


@api("acl.rt.get_stream_attribute", empty=dict)
def get_stream_attribute(m: Machine, stream: int, attribute: int) -> tuple[dict[str, Any], int]:
    """get_stream_attribute(stream, attribute) -> ({...}, ret): the keys of all attributes, the asked one filled."""
    entry = take_stream(m, stream)
    found: dict[str, Any] = {"failureMode": 0, "overflowSwitch": 0, "userCustomTag": 0, "reserved": [0] * 4}
    if attribute == FAILURE_MODE:
        found["failureMode"] = int(entry.stop_on_failure)
    elif attribute == OVERFLOW_CHECK:
        found["overflowSwitch"] = entry.overflow_switch
    elif attribute == CUSTOM_TAG:
        found["userCustomTag"] = entry.custom_tag
    else:
        raise refuse(m, "runtime.invalid_parameter", argument="attr", value=attribute, allowed="1, 2, 3")
    return found, 0


@api("acl.rt.stream_abort")
def stream_abort(m: Machine, stream: int) -> int:
    """stream_abort(stream) -> ret: its queued tasks are dropped; the next synchronisation gives 107023."""
    entry = take_stream(m, stream)
    if entry.queue:
        entry.drop()
        entry.fault = entry.fault or refuse(m, "runtime.stream_aborted").code
    return 0


@api("acl.rt.device_task_abort")
def device_task_abort(m: Machine, device_id: int, timeout_ms: int) -> int:
    """device_task_abort(device, ms) -> ret: the queued tasks of all its streams are dropped; their next
    synchronisation gives 107022."""
    for context in take_device(m, device_id).contexts:
        for entry in context.streams:
            if entry.queue:
                entry.drop()
                entry.fault = entry.fault or refuse(m, "runtime.device_aborted").code
    return 0
