"""Parameter structs with the defaults of pyasc. Source: pyasc 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cannlab.ascendc.language.core.array import Array
from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.enums import DataFormat
from cannlab.ascendc.language.core.ir_value import raw
from cannlab.ascendc.lib.placeholders import names_of

Int = Any
"""A Python int or a runtime int."""


@dataclass
class BinaryRepeatParams:
    """Strides in 32-B blocks: between blocks of a repeat, then between repeats; destination first."""

    dst_blk_stride: Int = 1
    src0_blk_stride: Int = 1
    src1_blk_stride: Int = 1
    dst_rep_stride: Int = 8
    src0_rep_stride: Int = 8
    src1_rep_stride: Int = 8

    def strides(self) -> tuple[int, ...]:
        """Block strides, then repeat strides, of three operands."""
        return (
            raw(self.dst_blk_stride),
            raw(self.src0_blk_stride),
            raw(self.src1_blk_stride),
            raw(self.dst_rep_stride),
            raw(self.src0_rep_stride),
            raw(self.src1_rep_stride),
        )


@dataclass
class UnaryRepeatParams:
    """Strides in 32-B blocks: between blocks of a repeat, then between repeats."""

    dst_blk_stride: Int = 1
    src_blk_stride: Int = 1
    dst_rep_stride: Int = 8
    src_rep_stride: Int = 8

    def strides(self) -> tuple[int, ...]:
        """Block strides, then repeat strides, of three operands (the third is not used)."""
        return (
            raw(self.dst_blk_stride),
            raw(self.src_blk_stride),
            1,
            raw(self.dst_rep_stride),
            raw(self.src_rep_stride),
            8,
        )


@dataclass
class BrcbRepeatParams:
    """Strides of the destination in 32-B blocks."""

    dst_blk_stride: Int = 1
    dst_rep_stride: Int = 8


@dataclass
class GatherRepeatParams:
    """Strides of the destination in 32-B blocks."""

    dst_blk_stride: Int = 1
    dst_rep_stride: Int = 8


@dataclass
class CopyRepeatParams:
    """Block strides, then repeat strides, in 32-B blocks."""

    dst_stride: Int = 0
    src_stride: Int = 0
    dst_repeat_size: Int = 0
    src_repeat_size: Int = 0


@dataclass
class DataCopyParams:
    """block_count blocks of block_len x 32 B; gaps from the end of a block to the start of the next, in 32-B blocks."""

    block_count: Int = 1
    block_len: Int = 0
    src_stride: Int = 0
    dst_stride: Int = 0


@dataclass
class DataCopyExtParams:
    """block_count blocks of block_len bytes; gaps in bytes on the global side, in 32-B blocks in the UB."""

    block_count: Int = 1
    block_len: Int = 0
    src_stride: Int = 0
    dst_stride: Int = 0
    rsv: Int = 0


@dataclass
class DataCopyPadExtParams:
    """Padding in elements on either side of each block, and its value."""

    dtype: DataType
    is_pad: Any = False
    left_padding: Int = 0
    right_padding: Int = 0
    padding_value: Any = 0


@dataclass
class DataCopyPadParams:
    """The older form of :class:`DataCopyPadExtParams`."""

    is_pad: Any = False
    left_padding: Int = 0
    right_padding: Int = 0
    padding_value: Any = 0


@dataclass
class GatherMaskParams:
    """Strides of the source in 32-B blocks; the pattern's repeat stride in 32-B blocks."""

    src0_block_stride: Int = 1
    repeat_times: Int = 1
    src0_repeat_stride: Int = 0
    src1_repeat_stride: Int = 0


class TensorShape(tuple):  # type: ignore[type-arg]
    """Dimensions of a tensor."""

    __slots__ = ()


class ShapeInfo:
    """Shape and original shape of a tensor, made from ``asc.array``."""

    def __init__(
        self, shape: Array | None = None, original_shape: Array | None = None, data_format: DataFormat | None = None
    ) -> None:
        self._shape = shape
        self._original = original_shape or shape
        self.data_format = DataFormat.ND if data_format is None else data_format

    def shape(self, dim: Int) -> Any:
        """One dimension."""
        assert self._shape is not None
        return self._shape[dim]

    def original_shape(self, dim: Int) -> Any:
        """One dimension before alignment."""
        assert self._original is not None
        return self._original[dim]

    def __len__(self) -> int:
        return 0 if self._shape is None else len(self._shape)


def get_shape_size(shape_info: ShapeInfo) -> Any:
    """Elements of a shape."""
    size: Any = 1
    for dim in range(len(shape_info)):
        size = shape_info.shape(dim) * size
    return size


__getattr__ = names_of(__name__)
