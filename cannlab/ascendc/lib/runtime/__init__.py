"""asc.lib.runtime: devices and streams. Source: pyasc 2."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from cannlab.ascendc.lib.placeholders import missing_names
from cannlab.ascendc.lib.runtime.support import (
    CoreType,
    DeviceInfoType,
    DeviceModuleType,
    MagicElf,
    MallocPolicy,
    MemcpyKind,
    MemorySizes,
    MemoryType,
    MsprofTaskType,
)
from cannlab.ascendc.runtime.config import Backend, Chosen, Platform

if TYPE_CHECKING:
    from cannlab.machine import Machine
    from cannlab.machine import Stream as MachineStream


class Stream(ctypes.c_void_p):
    """A stream's handle."""


class Memory(ctypes.c_void_p):
    """A device address."""


class Kernel(ctypes.c_void_p):
    """A registered binary."""


class Function(ctypes.c_void_p):
    """A registered function."""


def use_model(prefix: str | None = None) -> None:
    """Run on the simulator."""
    Chosen.backend = Backend.Model


def use_npu(prefix: str | None = None) -> None:
    """Run on the device."""
    Chosen.backend = Backend.NPU


def set_soc_version(platform: Platform) -> None:
    """Choose the chip."""
    Chosen.platform = platform


def get_soc_version() -> Platform:
    """The chosen chip."""
    return Chosen.platform or Platform.Ascend910B1


def is_initialized() -> bool:
    """Was a platform chosen?"""
    return Chosen.backend is not None


def is_available() -> bool:
    """The emulated runtime is always there."""
    return True


def is_model() -> bool:
    """Does the model backend run the kernels? False before set_platform."""
    return Chosen.backend is Backend.Model


def check_device_handle(device_id: Any) -> None:
    """RuntimeError unless it is an int of at least 0."""
    if not isinstance(device_id, int) or device_id < 0:
        raise RuntimeError(f"Device id must be a non-negative integer, got {device_id!r}")


def default_device() -> int:
    """0."""
    return 0


def current_device() -> int:
    """The device in use."""
    return Chosen.device


def device_count() -> int:
    """Devices of the emulated machine."""
    from cannlab.machine import machine

    return len(machine().devices)


def set_device(device_id: int) -> None:
    """Use another device.

    Raises:
        RuntimeError: there is no such device ("Function rtSetDevice returned 107001").
    """
    check_device_handle(device_id)
    if device_id >= device_count():
        raise RuntimeError("Function rtSetDevice returned 107001")
    Chosen.device = device_id


def device_info(module_type: DeviceModuleType, info_type: DeviceInfoType, device_id: int | None = None) -> int:
    """How many cores a device has: AICORE or VECTOR_CORE with INFO_TYPE_CORE_NUM, AICORE with INFO_TYPE_CUBE_NUM.

    Raises:
        RuntimeError: no such device.
        NotImplementedError: another question.
    """
    from cannlab.soc import soc as chips

    number = Chosen.device if device_id is None else device_id
    check_device_handle(number)
    if number >= device_count():
        raise RuntimeError("Function rtGetDeviceInfo returned 107001")
    chip = chips.get(current_platform())
    known = {
        (DeviceModuleType.RT_MODULE_TYPE_AICORE, DeviceInfoType.INFO_TYPE_CORE_NUM): chip.ai_cores,
        (DeviceModuleType.RT_MODULE_TYPE_AICORE, DeviceInfoType.INFO_TYPE_CUBE_NUM): chip.matrix_cores,
        (DeviceModuleType.RT_MODULE_TYPE_VECTOR_CORE, DeviceInfoType.INFO_TYPE_CORE_NUM): chip.kernel_cores,
    }
    found = known.get((module_type, info_type))
    if found is None:
        raise NotImplementedError(
            f"asc.lib.runtime.device_info knows the numbers of cores, not {info_type} of {module_type}: "
            "ask npu-smi for the rest"
        )
    return found


_MAGIC = {
    CoreType.AiCore: MagicElf.RT_DEV_BINARY_MAGIC_ELF,
    CoreType.VectorCore: MagicElf.RT_DEV_BINARY_MAGIC_ELF_AIVEC,
    CoreType.CubeCore: MagicElf.RT_DEV_BINARY_MAGIC_ELF_AICUBE,
    CoreType.AiCpu: MagicElf.RT_DEV_BINARY_MAGIC_ELF_AICPU,
}
_TASKS = {
    CoreType.AiCore: MsprofTaskType.MSPROF_TASK_TYPE_AI_CORE,
    CoreType.VectorCore: MsprofTaskType.MSPROF_TASK_TYPE_AIV,
    CoreType.CubeCore: MsprofTaskType.MSPROF_TASK_TYPE_AI_CORE,
    CoreType.AiCpu: MsprofTaskType.MSPROF_TASK_TYPE_AI_CPU,
}


def _of_core(table: dict[CoreType, Any], core_type: Any) -> int:
    if not isinstance(core_type, CoreType):
        raise RuntimeError("Core type is not supported!")
    return int(table[core_type].value)


def magic_elf_value(core_type: CoreType) -> int:
    """The first word of a binary for a kind of core. RuntimeError for anything else."""
    return _of_core(_MAGIC, core_type)


def msprof_task_type(core_type: CoreType) -> int:
    """How a profile counts the tasks of a kind of core. RuntimeError for anything else."""
    return _of_core(_TASKS, core_type)


def current_platform() -> str:
    """The chosen chip's name."""
    return str(get_soc_version().value)


def resolve(node: Machine, handle: Any, device: int) -> MachineStream:
    """The stream of a handle; None is the default stream of the thread's context.

    Raises:
        RuntimeError: a handle that no stream has.
    """
    from cannlab.machine import Stream as MachineStream

    context = node.thread.context
    if context is None or context.device.index != device:
        context = node.thread.context = node.devices[device].retain()
    number = handle.value if isinstance(handle, ctypes.c_void_p) else handle
    if number is None:
        return context.default_stream
    found = node.faces.setdefault("asc", {}).get(number) or node.handles.get(int(number), MachineStream)
    if found is None or not found.alive:
        raise RuntimeError("Function rtKernelLaunch returned 107003")
    assert isinstance(found, MachineStream)
    return found


def _handle(node: Machine, stream: MachineStream) -> Stream:
    """The handle of a stream; the same stream always has the same one."""
    known: dict[int, MachineStream] = node.faces.setdefault("asc", {})
    for number, each in known.items():
        if each is stream:
            return Stream(number)
    number = len(known) + 1
    known[number] = stream
    return Stream(number)


def current_stream(device_id: int | None = None) -> Stream:
    """The default stream of a device."""
    from cannlab.machine import machine

    node = machine()
    return _handle(node, resolve(node, None, Chosen.device if device_id is None else device_id))


def create_stream(priority: int = 0) -> Stream:
    """A new stream of the current device."""
    from cannlab.machine import machine

    node = machine()
    resolve(node, None, Chosen.device)
    context = node.thread.context
    assert context is not None
    return _handle(node, context.create_stream(priority=priority))


def destroy_stream(stream: Stream) -> None:
    """Wait for a stream and release it."""
    from cannlab.machine import machine

    node = machine()
    found = resolve(node, stream, Chosen.device)
    found.synchronize()
    found.context.destroy_stream(found)


def synchronize(stream: Stream | None = None, timeout: int = 0) -> None:
    """Wait for a stream.

    Raises:
        RuntimeError: a task failed ("Function rtStreamSynchronize returned ...").
    """
    from cannlab.machine import machine

    node = machine()
    code = resolve(node, stream, Chosen.device).synchronize()
    if code:
        raise RuntimeError(f"Function rtStreamSynchronize returned {code}")


def synchronize_device() -> None:
    """Wait for every stream of the device."""
    from cannlab.machine import machine

    node = machine()
    resolve(node, None, Chosen.device)
    context = node.thread.context
    assert context is not None
    code = node.wait_for_all(context.streams)
    if code:
        raise RuntimeError(f"Function rtDeviceSynchronize returned {code}")


def current_tick() -> int | None:
    """Simulated ticks (ns) with the model backend, None on the device."""
    from cannlab.machine import machine

    return machine().thread.now if is_model() else None


__all__ = [
    "CoreType",
    "DeviceInfoType",
    "DeviceModuleType",
    "Function",
    "Kernel",
    "MagicElf",
    "MallocPolicy",
    "MemcpyKind",
    "Memory",
    "MemorySizes",
    "MemoryType",
    "MsprofTaskType",
    "Stream",
    "check_device_handle",
    "create_stream",
    "current_device",
    "current_platform",
    "current_stream",
    "current_tick",
    "default_device",
    "destroy_stream",
    "device_count",
    "device_info",
    "get_soc_version",
    "is_available",
    "is_initialized",
    "is_model",
    "magic_elf_value",
    "msprof_task_type",
    "resolve",
    "set_device",
    "set_soc_version",
    "synchronize",
    "synchronize_device",
    "use_model",
    "use_npu",
]


def __getattr__(name: str) -> Any:
    return missing_names("asc.lib.runtime", name)
