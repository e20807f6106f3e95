"""LocalMemAllocator: addresses one after another, without a TPipe. Source: pyasc 5."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.constexpr import ConstExpr
from cannlab.ascendc.language.core.dtype import DataType, KnownTypes
from cannlab.ascendc.language.core.enums import Hardware, TPosition
from cannlab.ascendc.language.core.ir_value import IRValue, PlainValue, raw
from cannlab.ascendc.language.core.tensor import HARDWARE, LocalTensor, space_of
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import BLOCK, Space, usable


class LocalMemAllocator(IRValue):
    """Hands out a local buffer from its first byte on."""

    def __init__(self, hard: Hardware = Hardware.UB) -> None:
        self._state = GlobalBuilder.get("LocalMemAllocator")
        self._space = HARDWARE[hard]
        self._next = 0

    def get_cur_addr(self) -> PlainValue:
        """The next byte that is free."""
        return PlainValue(self._next, KnownTypes.uint32)

    def alloc(self, pos: TPosition, data_type: DataType, tile_size: Any) -> LocalTensor:
        """A tensor of so many elements; the next one starts on a multiple of 32 bytes."""
        launch = self._state.launch
        if space_of(launch.soc, int(pos)) is not self._space:
            raise ValueError(f"{TPosition(pos).name} does not lie in the {self._space.name} of this allocator")
        count = int(raw(ConstExpr.unwrap(tile_size)))
        size = -(-count * data_type.sizeof() // BLOCK) * BLOCK
        most = usable(launch.soc, self._space)
        if self._next + size > most:
            facts = {"used": self._next, "wanted": size, "usable": most}
            if self._space is Space.UB:
                launch.stop("kernel.ub_overflow", **facts)
            launch.stop("kernel.buffer_overflow", buffer=self._space.name, **facts)
        tensor = LocalTensor._make(data_type, int(self._space), self._next, count, int(pos), None)
        self._next += size
        return tensor


__getattr__ = names_of(__name__)
