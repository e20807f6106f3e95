"""How long an operator may run. No emulated operator hangs, so nothing is ever stopped; the numbers are the chip's.

Source: documentation of acl.rt.set_op_execute_time_out (defaults and maxima); the interval is inferred from them: they
are 254 steps of 2^31, 2^32 or 2^33 ns.
"""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context
from cannlab.machine import Machine

_KEY = "acl.rt.op_timeout"
_STEPS = 254


def _interval(m: Machine) -> int:
    """The smallest step, microseconds."""
    power = {"Ascend910": 31, "Ascend310": 31, "Ascend310P": 33}.get(m.soc.short, 32)
    return (1 << power) // 1000


def _default(m: Machine) -> int:
    """Microseconds if nothing was set: 8 steps on the 310P, the maximum elsewhere."""
    return _interval(m) * (8 if m.soc.short == "Ascend310P" else _STEPS)


def _set(m: Machine, wanted: int) -> int:
    """Keep a time in microseconds, 0 for the longest; gives the one that holds."""
    current_context(m)
    interval = _interval(m)
    steps = min(-(-wanted // interval), _STEPS) if wanted else _STEPS
    m.faces[_KEY] = steps * interval
    return steps * interval


@api("acl.rt.set_op_execute_time_out")
def set_op_execute_time_out(m: Machine, seconds: int) -> int:
    """set_op_execute_time_out(seconds) -> ret: 0 for the longest."""
    _set(m, seconds * 1_000_000)
    return 0


@api("acl.rt.set_op_execute_timeout_v2")
def set_op_execute_timeout_v2(m: Machine, microseconds: int) -> tuple[int, int]:
    """set_op_execute_timeout_v2(us) -> (us, ret): what holds, a multiple of the interval."""
    return _set(m, microseconds), 0


@api("acl.rt.get_op_timeout_interval")
def get_op_timeout_interval(m: Machine) -> tuple[int, int]:
    """get_op_timeout_interval() -> (us, ret): the steps in which times can be set."""
    current_context(m)
    return _interval(m), 0


@api("acl.rt.get_op_execute_timeout")
def get_op_execute_timeout(m: Machine) -> tuple[int, int]:
    """get_op_execute_timeout() -> (ms, ret): what was set, else the chip's default."""
    current_context(m)
    return m.faces.get(_KEY, _default(m)) // 1000, 0
