"""Device memory under a key. Source: runtime documentation, sharing of memory between processes.

A key works in the process that made it: each process has an emulated node of its own.
"""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse
from cannlab.acl.functions.memory import memory_fault
from cannlab.acl.shared_keys import SharedKeys, check_chip, pids
from cannlab.machine import Machine

NO_PIDS, PEER_ACCESS = 1, 1
"""ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS."""
_KEY = "acl.rt.shared_memory"


def _shared(m: Machine) -> SharedKeys[int]:
    found: SharedKeys[int] = m.faces.setdefault(_KEY, SharedKeys("piece of memory"))
    return found


@api("acl.rt.ipc_mem_get_export_key")
def ipc_mem_get_export_key(m: Machine, pointer: int, size: int, key_length: int, flag: int) -> tuple[str, int]:
    """ipc_mem_get_export_key(pointer, size, 65, flag) -> (key, ret): flag 1 lets every process import it."""
    check_chip(m)
    if pointer == 0:
        raise memory_fault(m, "memory.null_pointer", argument="pointer")
    if size == 0:
        raise refuse(m, "runtime.invalid_parameter", argument="size", value=0, allowed="above 0")
    m.memory.resolve(pointer, size, "device")
    return _shared(m).export(m, pointer, key_length, flag, NO_PIDS), 0


@api("acl.rt.ipc_mem_set_import_pid")
def ipc_mem_set_import_pid(m: Machine, key: str, processes: Any) -> int:
    """ipc_mem_set_import_pid(key, [pid, ...]) -> ret: who may import it."""
    _shared(m).allow(m, key, pids(m, processes))
    return 0


@api("acl.rt.ipc_mem_import_by_key")
def ipc_mem_import_by_key(m: Machine, key: str, flag: int) -> tuple[int, int]:
    """ipc_mem_import_by_key(key, flag) -> (pointer, ret): 507022 for a key of another process, or one that does not
    name this process."""
    return _shared(m).taken(m, key, flag, PEER_ACCESS), 0


@api("acl.rt.ipc_mem_close")
def ipc_mem_close(m: Machine, key: str) -> int:
    """ipc_mem_close(key) -> ret: once for each import, and then once by the exporter."""
    _shared(m).close(m, key)
    return 0
