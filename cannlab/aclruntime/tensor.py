"""Tensors that lie on the host or on a device."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from cannlab.machine import Block, Context, Machine, MemoryKind, TaskFault, machine
from cannlab.machine.copies import Copy, Direction
from cannlab.om import dtypes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def failure(m: Machine, fault: TaskFault) -> RuntimeError:
    """The error that the extension raises; the diagnosis is kept by the machine."""
    m.report(fault.diagnosis)
    return RuntimeError(f"{fault.diagnosis.title} (error code {fault.code}): {fault.diagnosis.what}")


def context_of(m: Machine, device: int) -> Context:
    """The context of a device, current in this thread. RuntimeError for a device that does not exist."""
    if not 0 <= device < len(m.devices):
        raise RuntimeError(f"device {device} does not exist: this node has 0 to {len(m.devices) - 1}")
    context = m.thread.context = m.devices[device].default_context()
    return context


def _release(m: Machine, block: Block) -> None:
    if block.live:
        m.memory.retire(block)


class Tensor:
    """A tensor: ``Tensor(array)`` lies on the host; ``to_device`` and ``to_host`` move it; ``np.array(tensor)`` copies.

    Args:
        array: a numpy array whose type the chip has.
    """

    def __init__(self, array: Any) -> None:
        import numpy as np

        found = np.ascontiguousarray(array)
        kind = dtypes.by_numpy(found.dtype)
        if kind is None:
            raise RuntimeError(f"a tensor cannot have the type {found.dtype}: convert the array first")
        self._m = machine()
        self._array: NDArray[Any] | None = found.copy()
        self._shape = tuple(int(dim) for dim in np.shape(array))
        self._type = kind
        self.block: Block | None = None

    @classmethod
    def on_device(cls, m: Machine, block: Block, dims: tuple[int, ...], kind: dtypes.DataType) -> Tensor:
        """A tensor that takes over memory of a device."""
        made = cls.__new__(cls)
        made._m, made._array, made._shape, made._type, made.block = m, None, dims, kind, block
        weakref.finalize(made, _release, m, block)
        return made

    @property
    def shape(self) -> list[int]:
        """Elements along each axis."""
        return list(self._shape)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        count = self._type.size
        for dim in self._shape:
            count *= dim
        return count

    def to_device(self, device: int) -> None:
        """Copy it to a device, unless it lies on one. RuntimeError if there is no room."""
        if self.block is not None:
            return
        assert self._array is not None
        m = self._m
        with m.call("aclruntime.to_device"):
            context = context_of(m, device)
            try:
                block = m.memory.allocate(max(self.bytes, 1), MemoryKind.WORKSPACE, context.device)
                weakref.finalize(self, _release, m, block)
                if self.bytes:
                    address = int(self._array.ctypes.data)
                    m.memory.known_host(address, self.bytes, self._array)
                    Copy(m, block.start, address, self.bytes, Direction.HOST_TO_DEVICE).now()
            except TaskFault as fault:
                raise failure(m, fault) from None
        self._array, self.block = None, block

    def to_host(self) -> None:
        """Copy it to the host, unless it lies there."""
        import numpy as np

        block = self.block
        if block is None:
            return
        m = self._m
        array = np.empty(self._shape, self._type.numpy)
        with m.call("aclruntime.to_host"):
            try:
                if self.bytes:
                    m.memory.known_host(int(array.ctypes.data), self.bytes, array)
                    Copy(m, int(array.ctypes.data), block.start, self.bytes, Direction.DEVICE_TO_HOST).now()
            except TaskFault as fault:
                raise failure(m, fault) from None
            _release(m, block)
        self._array, self.block = array, None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if self._array is None:
            raise RuntimeError("the tensor lies on a device: call to_host() before you read it")
        found = self._array if dtype is None else self._array.astype(dtype)
        return found.copy() if copy is not False and found is self._array else found
