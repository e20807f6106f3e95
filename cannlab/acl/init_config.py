"""The JSON file of ``acl.init``: what may stand in it. Source: pyacl-semantics 2.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cannlab.acl import dump_config
from cannlab.acl.profiling import METRIC_NAMES

_PROFILER = frozenset(
    ("switch", "output", "aic_metrics", "aicpu", "l2", "storage_limit", "hccl", "msproftx", "instr_profiling")
    + ("instr_profiling_freq", "task_tsfw", "ascendcl", "task_time", "runtime_api", "ge_api", "task_memory")
    + ("sys_hardware_mem_freq", "sys_mem_serviceflow", "llc_profiling", "sys_io_sampling_freq")
    + ("sys_interconnection_freq", "sys_cpu_freq", "dvpp_freq", "host_sys", "host_sys_usage", "host_sys_usage_freq")
    + ("sys_lp_freq", "optype")
)
_FREQUENCIES = {
    **dict.fromkeys(("sys_cpu_freq", "sys_interconnection_freq", "host_sys_usage_freq"), 50),
    **dict.fromkeys(("sys_io_sampling_freq", "dvpp_freq", "sys_lp_freq"), 100),
    "sys_hardware_mem_freq": 10_000,
}
_METRICS = ("PipeUtilization", *sorted(set(METRIC_NAMES) - {"PipeUtilization"}), "")
_LEAST_STACK, _STACK_UNIT = 32 << 10, 16 << 10


def problem(config: Mapping[str, Any], devices: int) -> str:
    """Why this configuration is refused (100000); "" if it is not. The part ``dump`` is looked at by ``dump_config``.

    Args:
        devices: how many devices there are.
    """
    if config.get("err_msg_mode", "0") not in ("0", "1"):
        return 'err_msg_mode is neither "0" nor "1"'
    number = config.get("max_opqueue_num")
    if number is not None and not (isinstance(number, str) and number.isdecimal() and int(number) > 0):
        return "max_opqueue_num is not a decimal number in quotes"
    default = config.get("defaultDevice")
    if default is not None:
        device = default.get("default_device") if isinstance(default, dict) else None
        if not (isinstance(device, str) and device.isdecimal() and int(device) < devices):
            return f"defaultDevice.default_device is not the number of a device (0 to {devices - 1}) in quotes"
    stack = config.get("StackSize")
    if stack is not None:
        size = stack.get("aicore_stack_size", _LEAST_STACK) if isinstance(stack, dict) else None
        if not (isinstance(size, int) and size >= _LEAST_STACK and size % _STACK_UNIT == 0):
            return "StackSize.aicore_stack_size is not a multiple of 16384 from 32768 on"
    return _profiler(config.get("profiler"))


def default_device(config: Mapping[str, Any]) -> int | None:
    """The device that threads use which set none."""
    found = config.get("defaultDevice")
    return int(found["default_device"]) if found is not None else None


def not_emulated(config: Mapping[str, Any]) -> list[str]:
    """The parts of a configuration that is right which have no effect here."""
    return ["dump"] if dump_config.not_emulated(config.get("dump")) else []


def _profiler(profiler: Any) -> str:
    if profiler is None:
        return ""
    if not isinstance(profiler, dict):
        return "profiler is not an object"
    if profiler.get("switch") != "on":
        return ""
    unknown = sorted(set(profiler) - _PROFILER)
    if unknown:
        return f"profiler has the unknown key {unknown[0]}"
    if profiler.get("aic_metrics", _METRICS[0]) not in _METRICS:
        return f"profiler.aic_metrics is {profiler['aic_metrics']!r}, not one of {', '.join(_METRICS)}"
    output = profiler.get("output", "")
    if not isinstance(output, str):
        return "profiler.output is not a text"
    for key, most in _FREQUENCIES.items():
        text = str(profiler.get(key, 1))
        if not (text.isdecimal() and 1 <= int(text) <= most):
            return f"profiler.{key} is not a number from 1 to {most}"
    return ""
