"""GlobalTensor and LocalTensor. Source: pyasc 5."""

from __future__ import annotations

import struct
import sys
from typing import Any

from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes, numpy_type
from cannlab.ascendc.language.core.enums import CacheMode, CacheRwMode, Hardware, TPosition
from cannlab.ascendc.language.core.ir_value import (
    GlobalAddress,
    IRValue,
    PlainValue,
    converted,
    materialize_ir_value,
    raw,
)
from cannlab.ascendc.language.core.moving import Moves, Moving, moved, spoil
from cannlab.ascendc.language.core.types import ShapeInfo
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.dtypes import CODES
from cannlab.machine.core.opcodes import BY_NAME
from cannlab.machine.core.pipes import BLOCK, Space, capacity, position_space, usable
from cannlab.machine.core.queues import Buffer
from cannlab.soc import Soc


def space_of(soc: Soc, position: int) -> Space | None:
    """Where a position lies on a chip; None for global memory."""
    return position_space(soc, TPosition(position).name)


HARDWARE: dict[int, Space] = {
    Hardware.UB: Space.UB,
    Hardware.L1: Space.L1,
    Hardware.L0A: Space.L0A,
    Hardware.L0B: Space.L0B,
    Hardware.L0C: Space.L0C,
    Hardware.BIAS: Space.BIAS,
    Hardware.FIXBUF: Space.FIXBUF,
}
_STORE = BY_NAME["set_value"].number


def element_bits(value: Any, dtype: DataType) -> int:
    """An element's bits, lowest first, as a signed 64-bit number."""
    data = numpy_type(dtype).type(converted(value, dtype)).tobytes().ljust(8, b"\0")
    return int(struct.unpack("<q", data)[0])


def start_of(slices: Any) -> Any:
    """The first element of ``t[i]`` or ``t[i:]``, as a Python number.

    Raises:
        RuntimeError: an end or a step. TypeError: ``t[:]``.
    """
    if type(slices) is slice:
        if slices.stop is not None or slices.step is not None:
            raise RuntimeError("Only the start of a slice is supported: t[start:]")
        if slices.start is None:
            raise TypeError("t[:] has no start: use the tensor itself")
        slices = slices.start
    elif not isinstance(slices, (int, PlainValue)):
        raise TypeError(f"an index is an int or a runtime int, got {type(slices).__name__}")
    return slices.value if isinstance(slices, PlainValue) else slices


class BaseTensor(IRValue):
    """What both kinds of tensors share."""

    dtype: DataType
    _shape: ShapeInfo | None = None

    def set_shape_info(self, shape_info: ShapeInfo) -> None:
        """Attach a shape."""
        self._shape = shape_info

    def get_shape_info(self) -> ShapeInfo:
        """The attached shape."""
        return self._shape or ShapeInfo()


class GlobalTensor(BaseTensor):
    """A view of global memory; empty until ``set_global_buffer``.

    Attributes:
        at: the first byte. left: elements. moves: how the first byte moves with the turns of the loops that are
            watched (see moving); an instruction that uses ``at`` notes it (:func:`follow`).
    """

    __slots__ = ("allocation", "at", "dtype", "left", "moves")

    def __init__(self) -> None:
        GlobalBuilder.get("GlobalTensor")
        self.allocation = -100
        self.at = 0
        self.left = 0
        self.moves: Moves | None = None

    @classmethod
    def _make(cls, allocation: int, at: int, left: int, dtype: DataType, moves: Moves | None) -> GlobalTensor:
        tensor = cls.__new__(cls)
        tensor.allocation, tensor.at, tensor.left, tensor.dtype, tensor.moves = allocation, at, left, dtype, moves
        return tensor

    @property
    def offset(self) -> int:
        """The first byte, for those who do not follow how it moves."""
        spoil(self.moves)
        return self.at

    @property
    def size(self) -> int:
        """Elements."""
        spoil(self.moves)
        return self.left

    def set_global_buffer(self, buffer: GlobalAddress | None = None, buffer_size: Any = None) -> None:
        """Point at an address; the size is in elements (0 or None: unknown)."""
        if not isinstance(buffer, GlobalAddress):
            raise TypeError(f"set_global_buffer expects a GlobalAddress, got {type(buffer).__name__}")
        if buffer.dtype is None:
            raise TypeError("the address has no element type")
        self.allocation, self.at, self.dtype, self.moves = buffer.allocation, buffer.at, buffer.dtype, buffer.moves
        self.left = int(raw(buffer_size) or 0)

    def __getitem__(self, slices: Any) -> GlobalTensor:
        dtype, moves = self.dtype, self.moves
        if type(slices) is slice and type(slices.start) is Moving and slices.stop is slices.step is None:
            start = slices.start.at
            moves = moved(moves, slices.start.moves, dtype._bytes)
        else:
            start = start_of(slices)
        left = self.left - start
        return self._make(self.allocation, self.at + start * dtype._bytes, left if left > 0 else 0, dtype, moves)

    def __call__(self, index: Any) -> GlobalTensor:
        return self[index]

    def get_size(self) -> PlainValue:
        """Elements, as given to ``set_global_buffer`` (uint64)."""
        return PlainValue(self.size, KnownTypes.uint64)

    def get_phy_addr(self, offset: Any = 0) -> GlobalAddress:
        """The address, without an element type."""
        return GlobalAddress(self.allocation, None, self.offset + raw(offset) * self.dtype.sizeof())

    def _operand(self, offset: Any) -> tuple[int, int, int]:
        size = self.dtype.sizeof()
        return (self.allocation, self.offset + raw(offset) * size, size)

    def get_value(self, offset: Any) -> PlainValue:
        """Read one element with the scalar unit (slow)."""
        launch = GlobalBuilder.get("get_value").launch
        return PlainValue(launch.load(self._operand(offset), CODES[self.dtype.name]), self.dtype)

    def set_value(self, offset: Any, value: Any) -> None:
        """Write one element with the scalar unit (slow)."""
        launch = GlobalBuilder.get("set_value").launch
        bits = element_bits(value, self.dtype)
        launch.issue(_STORE, 0, CODES[self.dtype.name], (bits,), (self._operand(offset),))

    def set_l2_cache_hint(
        self, mode: CacheMode = CacheMode.CACHE_MODE_NORMAL, rw_mode: CacheRwMode = CacheRwMode.RW
    ) -> None:
        """A hint for the L2 cache; the time model has no L2 policy, so nothing changes."""


def follow(launch: Any, operands: tuple[Any, ...]) -> None:
    """The next instruction has these tensors as its operands: note those that move."""
    for place, tensor in enumerate(operands):
        if type(tensor) is GlobalTensor and tensor.moves:
            for watch, slope in tensor.moves.items():
                watch.notes.append((len(launch.trace.starts), place, slope))


class LocalTensor(BaseTensor):
    """A tensor in a local buffer: ``LocalTensor(dtype, pos, addr, tile_size)`` puts one at an address.

    ``t[i]`` and ``t[i:]`` are the tensor from element i on.

    Attributes:
        space, offset: local buffer and byte address in it.
        size: elements.
    """

    __slots__ = ("buffer", "dtype", "offset", "position", "size", "space", "tag")

    def __init__(
        self,
        dtype: DataType | None = None,
        pos: TPosition | int | None = TPosition.VECIN,
        addr: Any = 0,
        tile_size: Any = 0,
    ) -> None:
        state = GlobalBuilder.get("LocalTensor")
        if dtype is None:
            dtype = KnownTypes.void
        if not isinstance(dtype, DataType):
            raise TypeError(f"LocalTensor expects a DataType, got {type(dtype).__name__}")
        if not isinstance(pos, TPosition):
            if isinstance(pos, (int, PlainValue)):
                pos, addr = TPosition.VECIN, pos
            else:
                pos = TPosition.VECIN if pos is None else TPosition(int(raw(pos)))
        known = state.spaces.get(pos)
        if known is None:
            space = space_of(state.launch.soc, pos)
            if space is None:
                raise ValueError(f"{pos.name} is not a local position")
            known = state.spaces[pos] = int(space), int(pos)
        self.dtype = dtype
        self.space, self.position = known
        self.offset = addr if type(addr) is int else int(raw(addr))
        size = tile_size if type(tile_size) is int else int(raw(tile_size))
        if not size and dtype.sizeof():
            size = max(capacity(state.launch.soc, Space(self.space)) - self.offset, 0) // dtype.sizeof()
        self.size = size
        self.buffer: Buffer | None = None
        self.tag = 0

    @classmethod
    def _make(
        cls, dtype: DataType, space: int, offset: int, size: int, position: int, buffer: Buffer | None
    ) -> LocalTensor:
        tensor = LocalTensor.__new__(LocalTensor)
        tensor.dtype, tensor.space, tensor.offset, tensor.size = dtype, space, offset, size
        tensor.position, tensor.buffer, tensor.tag = position, buffer, 0
        return tensor

    def __getitem__(self, slices: Any) -> LocalTensor:
        start, dtype = start_of(slices), self.dtype
        return self._make(
            dtype, self.space, self.offset + start * dtype._bytes, self.size - start, self.position, self.buffer
        )

    def __call__(self, index: Any) -> LocalTensor:
        return self[index]

    def _operand(self, name: str, index: Any) -> tuple[int, int, int]:
        size, at = self.dtype.sizeof(), int(raw(index))
        if not 0 <= at < self.size:
            GlobalBuilder.get(name).launch.stop(
                "kernel.tensor_range",
                name=name,
                operand=0,
                wanted=(at + 1) * size,
                have=self.size * size,
                elements=self.size,
            )
        return (self.space, self.offset + at * size, size)

    def get_value(self, index: Any) -> PlainValue:
        """Read one element with the scalar unit (slow)."""
        launch = GlobalBuilder.get("get_value").launch
        return PlainValue(launch.load(self._operand("get_value", index), CODES[self.dtype.name]), self.dtype)

    def set_value(self, index: Any, value: Any) -> None:
        """Write one element with the scalar unit (slow); the value is converted to the tensor's type."""
        launch = GlobalBuilder.get("set_value").launch
        bits = element_bits(value, self.dtype)
        launch.issue(_STORE, 0, CODES[self.dtype.name], (bits,), (self._operand("set_value", index),))

    def reinterpret_cast(self, dtype: DataType) -> LocalTensor:
        """The same bytes as another type; the element count is rescaled."""
        if dtype == self.dtype:
            return self
        size = self.size * self.dtype.sizeof() // dtype.sizeof()
        return self._make(dtype, self.space, self.offset, size, self.position, self.buffer)

    def get_size(self) -> PlainValue:
        """Elements."""
        return PlainValue(self.size, KnownTypes.uint32)

    def set_size(self, size: Any = 0) -> None:
        """Change the element count."""
        self.size = int(raw(size))

    def get_length(self) -> PlainValue:
        """Bytes."""
        return PlainValue(self.size * self.dtype.sizeof(), KnownTypes.uint32)

    def set_buffer_len(self, data_len: Any) -> None:
        """Change the length, in bytes."""
        self.size = int(raw(data_len)) // self.dtype.sizeof()

    def get_position(self) -> PlainValue:
        """The number of its TPosition."""
        return PlainValue(self.position, KnownTypes.int32)

    def get_phy_addr(self, offset: Any = 0) -> PlainValue:
        """Byte address in the local buffer (uint64)."""
        address = self.offset + raw(offset) * self.dtype.sizeof()
        GlobalBuilder.get("get_phy_addr").addresses[address] = self.dtype
        return PlainValue(address, KnownTypes.uint64)

    def set_addr_with_offset(self, src: LocalTensor, offset: Any) -> None:
        """Take the address of another tensor, moved by elements."""
        self.space, self.position, self.buffer = src.space, src.position, src.buffer
        self.offset = src.offset + raw(offset) * src.dtype.sizeof()
        self.size = max(src.size - raw(offset), 0) * src.dtype.sizeof() // self.dtype.sizeof()

    def get_user_tag(self) -> PlainValue:
        """The tag."""
        return PlainValue(self.tag, KnownTypes.int32)

    def set_user_tag(self, tag: Any = 0) -> None:
        """Set the tag."""
        self.tag = int(raw(tag))

    def print(self, data_len: Any) -> None:
        """Print the first elements."""
        from cannlab.ascendc.language.basic.dump_tensor import dump_tensor

        dump_tensor(self, 0, data_len)

    def to_file(self, file_name: str) -> None:
        """Only for debugging on the CPU.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("LocalTensor.to_file is not emulated yet: copy the tensor to global memory instead")


class LocalTensorAuto(LocalTensor):
    """A tensor in the UB whose storage and synchronisation the compiler makes: ``LocalTensorAuto(dtype, shape)``.

    The same place in a kernel has the same storage each time. A kernel that makes one has all synchronisation inside
    its cores inserted; its own flags and barriers are left out. Source: pyasc 1.1 (insert_sync), 5.
    """

    def __init__(self, dtype: DataType, shape: Any) -> None:
        state = GlobalBuilder.get("LocalTensorAuto")
        if not isinstance(dtype, DataType):
            raise TypeError(f"LocalTensorAuto expects a DataType, got {type(dtype).__name__}")
        count = 1
        for size in shape if isinstance(shape, (tuple, list)) else (shape,):
            count *= int(raw(size))
        caller = sys._getframe(1)
        place = (id(caller.f_code), caller.f_lasti)
        wanted = -(-count * dtype.sizeof() // BLOCK) * BLOCK
        most = usable(state.launch.soc, Space.UB)
        start, have = state.autos.get(place, (0, -1))
        if wanted > have:
            floor = most if state.auto_floor is None else state.auto_floor
            start = floor - wanted
            if start < 0:
                state.launch.stop("kernel.ub_overflow", used=most - floor, wanted=wanted, usable=most)
            state.autos[place] = (start, wanted)
            state.auto_floor = start
        state.automatic = True
        self.dtype, self.space, self.offset, self.size = dtype, int(Space.UB), start, count
        self.position, self.buffer, self.tag = int(TPosition.VECCALC), None, 0


class MrgSortSrcList(IRValue):
    """Two to four queues for mrg_sort; the element type comes first."""

    def __init__(
        self,
        dtype: DataType,
        src1: LocalTensor,
        src2: LocalTensor,
        src3: LocalTensor | None = None,
        src4: LocalTensor | None = None,
    ) -> None:
        if not isinstance(dtype, DataType):
            raise TypeError(f"MrgSortSrcList expects a DataType first, got {type(dtype).__name__}")
        self.dtype = dtype
        self.sources = (src1, src2, src3, src4)


def buffer_tensor(buffer: Buffer, dtype: DataType) -> LocalTensor:
    """A tensor over a whole buffer of a queue."""
    size = buffer.size // dtype.sizeof()
    return LocalTensor._make(dtype, buffer.space, buffer.start, size, buffer.queue.position, buffer)


__all__ = ["BaseTensor", "GlobalTensor", "LocalTensor", "LocalTensorAuto", "materialize_ir_value"]


__getattr__ = names_of(__name__)
