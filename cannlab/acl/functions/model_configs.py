"""Loading and executing models by configuration objects. Source: acl_mdl.h (aclmdlConfigAttr, aclmdlExecConfigAttr)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, opened, refuse, take, take_stream
from cannlab.acl.functions.execution import execute_async
from cannlab.acl.functions.loading import (
    load_from_file,
    load_from_file_with_mem,
    load_from_mem,
    load_from_mem_with_mem,
)
from cannlab.machine import Machine

PRIORITY, LOAD_TYPE, PATH, MODEL, MODEL_SIZE, WEIGHT, WEIGHT_SIZE, WORK, WORK_SIZE = range(9)
_LAST_ATTRIBUTE = 27
_FILE, _FILE_WITH_MEM, _MEM, _MEM_WITH_MEM = 1, 2, 3, 4
STREAM_TIMEOUT, EVENT_TIMEOUT = 0, 1
_LAST_EXECUTION_ATTRIBUTE = 7


@dataclass
class LoadConfig:
    """How a model is to be loaded: values by aclmdlConfigAttr."""

    values: dict[int, Any] = field(default_factory=dict)


@dataclass
class ExecutionConfig:
    """How a model is to be executed: values by aclmdlExecConfigAttr; -1 ms waits without end."""

    values: dict[int, int] = field(default_factory=dict)


name_kind(LoadConfig, "model configuration", "acl.mdl.destroy_config_handle")
name_kind(ExecutionConfig, "execution configuration", "acl.mdl.destroy_exec_config_handle")


@api("acl.mdl.create_config_handle")
def create_config_handle(m: Machine) -> int:
    """create_config_handle() -> handle."""
    return opened(m, LoadConfig())


@api("acl.mdl.destroy_config_handle")
def destroy_config_handle(m: Machine, handle: int) -> int:
    """destroy_config_handle(handle) -> ret."""
    take(m, handle, LoadConfig)
    m.handles.close(handle, m.here())
    return 0


@api("acl.mdl.set_config_opt")
def set_config_opt(m: Machine, handle: int, attribute: int, value: Any) -> int:
    """set_config_opt(handle, attribute, value) -> ret: 1 load type (1 file, 2 file with memory, 3 memory, 4 memory with
    memory), 2 path, 3 and 4 the om in memory and its size, 5 and 6 weight memory, 7 and 8 work memory."""
    entry = take(m, handle, LoadConfig)
    if not 0 <= attribute <= _LAST_ATTRIBUTE:
        raise refuse(m, "runtime.bad_parameter", argument="attr", value=attribute, allowed=f"0 to {_LAST_ATTRIBUTE}")
    if not isinstance(value, str if attribute == PATH else int):
        raise TypeError("acl.mdl.set_config_opt args parse failed")
    entry.values[attribute] = value
    return 0


@api("acl.mdl.load_with_config")
def load_with_config(m: Machine, handle: int) -> tuple[int, int]:
    """load_with_config(handle) -> (model_id, ret): 100000 for a load type that lacks its values."""
    values = take(m, handle, LoadConfig).values
    kind = values.get(LOAD_TYPE)
    needed = {_FILE: (PATH,), _FILE_WITH_MEM: (PATH,), _MEM: (MODEL, MODEL_SIZE), _MEM_WITH_MEM: (MODEL, MODEL_SIZE)}
    if kind not in needed:
        raise refuse(m, "runtime.bad_parameter", argument="load type", value=kind, allowed="1, 2, 3, 4")
    missing = [attribute for attribute in needed[kind] if attribute not in values]
    if missing:
        raise refuse(m, "runtime.bad_parameter", argument="attribute", value=f"{missing[0]} not set", allowed="set")
    memory = tuple(values.get(attribute, 0) for attribute in (WORK, WORK_SIZE, WEIGHT, WEIGHT_SIZE))
    if kind == _FILE:
        return load_from_file(m, values[PATH])
    if kind == _FILE_WITH_MEM:
        return load_from_file_with_mem(m, values[PATH], *memory)
    if kind == _MEM:
        return load_from_mem(m, values[MODEL], values[MODEL_SIZE])
    return load_from_mem_with_mem(m, values[MODEL], values[MODEL_SIZE], *memory)


@api("acl.mdl.create_exec_config_handle")
def create_exec_config_handle(m: Machine) -> int:
    """create_exec_config_handle() -> handle."""
    return opened(m, ExecutionConfig())


@api("acl.mdl.destroy_exec_config_handle")
def destroy_exec_config_handle(m: Machine, handle: int) -> int:
    """destroy_exec_config_handle(handle) -> ret."""
    take(m, handle, ExecutionConfig)
    m.handles.close(handle, m.here())
    return 0


@api("acl.mdl.set_exec_config_opt")
def set_exec_config_opt(m: Machine, handle: int, attribute: int, value: int) -> int:
    """set_exec_config_opt(handle, attribute, value) -> ret: 0 timeout of the stream, 1 of events, ms (-1: no end)."""
    entry = take(m, handle, ExecutionConfig)
    if attribute > _LAST_EXECUTION_ATTRIBUTE:
        allowed = f"0 to {_LAST_EXECUTION_ATTRIBUTE}"
        raise refuse(m, "runtime.bad_parameter", argument="attr", value=attribute, allowed=allowed)
    signed = value - (1 << 32) if value >> 31 else value
    if attribute in (STREAM_TIMEOUT, EVENT_TIMEOUT) and (signed == 0 or signed < -1):
        raise refuse(m, "runtime.bad_parameter", argument="timeout", value=signed, allowed="-1, or above 0")
    entry.values[attribute] = signed
    return 0


@api("acl.mdl.execute_v2")
def execute_v2(m: Machine, model_id: int, inputs: int, outputs: int, stream: int, handle: int) -> int:
    """execute_v2(model_id, inputs, outputs, stream, config) -> ret: queues the model on the stream and waits for it;
    507046 when that takes longer than the configured timeout."""
    timeout = take(m, handle, ExecutionConfig).values.get(STREAM_TIMEOUT, -1)
    target = take_stream(m, stream)
    code = execute_async(m, model_id, inputs, outputs, stream)
    code = code or target.synchronize(None if timeout == -1 else timeout * 1_000_000)
    if code == 507046:
        raise refuse(m, "runtime.stream_timeout", timeout=timeout)
    return code
