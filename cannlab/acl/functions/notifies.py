"""Notifies: marks between the streams of a program, each wait uses one record up. Source: acl_rt.h (aclrtNotify).

A wait that no record ever answers is an error here (``runtime.notify_never_recorded``); hardware waits for ever.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import current_context, name_kind, opened, refuse, take, take_stream
from cannlab.acl.shared_keys import SharedKeys, check_chip, pids
from cannlab.errors import diagnose
from cannlab.machine import Context, Engine, Machine, TaskFault, Work
from cannlab.machine.tasks import NOTHING, Task
from cannlab.trace import TaskKind

_LONGEST = (1 << 32) - 1
_KEY = "acl.rt.notifies"
_SHARED = "acl.rt.shared_notifies"
NO_PIDS, PEER_ACCESS = 2, 2
"""ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS."""


@dataclass
class Notify:
    """``records`` are marks that no wait has used; ``waits`` are waits that no mark has answered."""

    context: Context
    number: int
    records: deque[Task] = field(default_factory=deque)
    waits: deque[Task] = field(default_factory=deque)


name_kind(Notify, "notify", "acl.rt.destroy_notify")


@api("acl.rt.create_notify")
def create_notify(m: Machine, flag: int) -> tuple[int, int]:
    """create_notify(0) -> (notify, ret)."""
    context = current_context(m)
    if flag:
        raise refuse(m, "runtime.invalid_parameter", argument="flag", value=flag, allowed="0")
    number = m.faces.get(_KEY, 0)
    m.faces[_KEY] = number + 1
    return opened(m, Notify(context, number)), 0


@api("acl.rt.destroy_notify")
def destroy_notify(m: Machine, notify: int) -> int:
    """destroy_notify(notify) -> ret."""
    take(m, notify, Notify)
    m.handles.close(notify, m.here())
    return 0


@api("acl.rt.get_notify_id")
def get_notify_id(m: Machine, notify: int) -> tuple[int, int]:
    """get_notify_id(notify) -> (id, ret)."""
    return take(m, notify, Notify).number, 0


@api("acl.rt.record_notify")
def record_notify(m: Machine, notify: int, stream: int) -> int:
    """record_notify(notify, stream) -> ret: when the stream comes to it, one wait for the notify may go on."""
    entry = take(m, notify, Notify)
    target = take_stream(m, stream)
    code = target.submit(TaskKind.EVENT_RECORD, "NotifyRecord", engine=Engine.NONE, core_type="NOTIFY_RECORD")
    mark = target.last
    if entry.waits:
        entry.waits.popleft().after = mark
    elif mark is not None:
        entry.records.append(mark)
    return code


@api("acl.rt.wait_and_reset_notify")
def wait_and_reset_notify(m: Machine, notify: int, stream: int, timeout_ms: int) -> int:
    """wait_and_reset_notify(notify, stream, ms) -> ret: the stream waits for a record and uses it up; 0 waits without
    end."""
    if not 0 <= timeout_ms <= _LONGEST:
        raise TypeError("acl.rt.wait_and_reset_notify args parse failed")
    entry = take(m, notify, Notify)
    target = take_stream(m, stream)
    mark = entry.records.popleft() if entry.records else None
    where = m.here().place

    def run() -> Work:
        if task is not None and task in entry.waits:
            entry.waits.remove(task)
            raise TaskFault(diagnose("runtime.notify_never_recorded", where=where, notify=entry.number))
        return NOTHING

    task: Task | None = None
    target.submit(TaskKind.EVENT_WAIT, "NotifyWait", run, engine=Engine.NONE, core_type="NOTIFY_WAIT", after=mark)
    task = target.last
    if mark is None and task is not None:
        entry.waits.append(task)
    return target.synchronize() if m.launch_blocking else 0


@api("acl.rt.notify_batch_reset")
def notify_batch_reset(m: Machine, notifies: Any) -> int:
    """notify_batch_reset([notify, ...]) -> ret: forget the records that no wait has used."""
    if not isinstance(notifies, list) or not all(isinstance(handle, int) for handle in notifies):
        raise TypeError("acl.rt.notify_batch_reset args parse failed")
    if not notifies:
        raise refuse(m, "runtime.bad_parameter", argument="notifies", value="[]", allowed="at least one notify")
    for entry in [take(m, handle, Notify) for handle in notifies]:
        entry.records.clear()
    return 0


def _shared(m: Machine) -> SharedKeys[Notify]:
    found: SharedKeys[Notify] = m.faces.setdefault(_SHARED, SharedKeys("notify"))
    return found


@api("acl.rt.notify_get_export_key")
def notify_get_export_key(m: Machine, notify: int, key_length: int, flag: int) -> tuple[str, int]:
    """notify_get_export_key(notify, 65, flag) -> (key, ret): flag 2 lets every process import it."""
    check_chip(m)
    return _shared(m).export(m, take(m, notify, Notify), key_length, flag, NO_PIDS), 0


@api("acl.rt.notify_set_import_pid")
def notify_set_import_pid(m: Machine, notify: int, processes: Any) -> int:
    """notify_set_import_pid(notify, [pid, ...]) -> ret: who may import it; 107000 before it was exported."""
    entry, allowed = take(m, notify, Notify), pids(m, processes)
    _shared(m).allow_item(m, entry, allowed)
    return 0


@api("acl.rt.notify_import_by_key")
def notify_import_by_key(m: Machine, key: str, flag: int) -> tuple[int, int]:
    """notify_import_by_key(key, flag) -> (notify, ret): another handle of the same notify, which is destroyed on its
    own; 507022 for a key of another process: each has a node of its own here."""
    return opened(m, _shared(m).taken(m, key, flag, PEER_ACCESS)), 0
