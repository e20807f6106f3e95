"""The last error of a thread, and its last task. Source: acl_rt.h (aclrtGetLastError)."""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse
from cannlab.machine import Machine

THREAD_LEVEL = 0


def _check_level(m: Machine, level: int) -> None:
    if level != THREAD_LEVEL:
        raise refuse(m, "runtime.invalid_parameter", argument="level", value=level, allowed="0 (thread)")


@api("acl.rt.peek_at_last_error")
def peek_at_last_error(m: Machine, level: int) -> int:
    """peek_at_last_error(0) -> code: the last failure of a call of this thread; 0 without one. Keeps it."""
    _check_level(m, level)
    return m.thread.last_error


@api("acl.rt.get_last_error")
def get_last_error(m: Machine, level: int) -> int:
    """get_last_error(0) -> code: as peek_at_last_error, and forgets it."""
    _check_level(m, level)
    code, m.thread.last_error = m.thread.last_error, 0
    return code


@api("acl.rt.get_thread_last_task_id")
def get_thread_last_task_id(m: Machine) -> tuple[int, int]:
    """get_thread_last_task_id() -> (number, ret): of the last task that this thread queued; 0 before the first."""
    return m.thread.last_task, 0
