"""Parameter structs with the defaults of pyasc. Source: pyasc 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cannlab.ascendc.language.core.array import Array
from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.enums import (
    BlockMode,
    CO2Layout,
    DataFormat,
    DeqScale,
    QuantModes,
    TransposeType,
    pad_t,
)
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
class DataCopyEnhancedParams:
    """What a copy does besides copying; between global memory and the UB only the defaults mean anything."""

    block_mode: BlockMode = BlockMode.BLOCK_MODE_NORMAL
    deq_scale: DeqScale = DeqScale.DEQ_NONE
    deq_value_in: Int = 0
    sid_store_mode_in: Int = 0
    is_relu_in: Any = False
    pad_mode_in: pad_t = pad_t.PAD_NONE
    pad_value_in: Int = 0

    @property
    def plain(self) -> bool:
        """Is it a copy and nothing else?"""
        return not any(int(raw(each)) for each in (self.block_mode, self.deq_scale, self.is_relu_in, self.pad_mode_in))


@dataclass
class SliceInfo:
    """One dimension of a sliced copy: elements start_index to end_index (inclusive), taken in bursts of burst_len with
    gaps of stride between them; shape_value is the dimension's length. In the innermost dimension a burst is in 32-B
    blocks and the rest in elements; in the others a burst is 1."""

    start_index: Int = 0
    end_index: Int = None
    stride: Int = 0
    burst_len: Int = None
    shape_value: Int = 0


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


@dataclass
class TransposeParamsExt:
    """Sizes in elements and what to do."""

    n_size: Int = 0
    c_size: Int = 0
    h_size: Int = 0
    w_size: Int = 0
    transpose_type: TransposeType = TransposeType.TRANSPOSE_ND2ND_B16


@dataclass
class TransDataTo5HDParams:
    """Halves for 8-bit data, repeats and their steps in 32-B blocks."""

    dst_high_half: Any = False
    src_high_half: Any = False
    repeat_times: Int = 1
    dst_rep_stride: Int = 0
    src_rep_stride: Int = 0


@dataclass
class MrgSort4Info:
    """Lengths of the queues in structures, and how to merge them."""

    element_lengths: list[Int]
    if_exhausted_suspension: Any = False
    valid_bit: Int = 15
    repeat_times: Int = 1


@dataclass
class VdeqInfo:
    """Scale, offset and sign of 16 elements."""

    scale: list[Any] | None = None
    offset: list[Any] | None = None
    sign_mode: list[Any] | None = None


@dataclass
class Nd2NzParams:
    """Row-major to fractals. Elements, except the strides of the destination's column blocks and rows: 32-B units."""

    nd_num: Int
    n_value: Int
    d_value: Int
    src_nd_matrix_stride: Int
    src_d_value: Int
    dst_nz_c0_stride: Int
    dst_nz_n_stride: Int
    dst_nz_matrix_stride: Int


@dataclass
class Nz2NdParamsFull:
    """Fractals to row-major. Elements, except the source's matrix stride (256 elements) and row stride (rows)."""

    nd_num: Int
    n_value: Int
    d_value: Int
    src_nd_matrix_stride: Int
    src_n_stride: Int
    dst_d_stride: Int
    dst_nd_matrix_stride: Int


@dataclass
class DataCopyCO12DstParams:
    """L0C out of the cube: as fixpipe, with ``nz2nd_en`` for rows."""

    n_size: Int
    m_size: Int
    dst_stride: Int
    src_stride: Int
    quant_pre: QuantModes = QuantModes.NoQuant
    relu_pre: Int = 0
    channel_split: Any = False
    nz2nd_en: Any = False


@dataclass
class LoadData2DParams:
    """Fractals of 512 bytes, one after another. Units: fractals."""

    start_index: Int = 0
    repeat_times: Int = 1
    src_stride: Int = 0
    sid: Int = 0
    dst_gap: Int = 0
    if_transpose: Any = False
    addr_mode: Int = 0


@dataclass
class LoadData2DParamsV2:
    """Of the 950: this chip does not have it."""

    m_start_position: Int = 0
    k_start_position: Int = 0
    m_step: Int = 0
    k_step: Int = 0
    src_stride: Int = 0
    dst_stride: Int = 0
    if_transpose: Any = False
    sid: Int = 0


@dataclass
class LoadData2dTransposeParams:
    """Square blocks, transposed. Units: square blocks (start, stride), fractals (gaps)."""

    start_index: Int = 0
    repeat_times: Int = 1
    src_stride: Int = 0
    dst_gap: Int = 0
    dst_frac_gap: Int = 0
    addr_mode: Int = 0


@dataclass
class LoadData2dTransposeParamsV2:
    """Of the 310B and the 950: this chip does not have it."""

    start_index: Int = 0
    repeat_times: Int = 0
    src_stride: Int = 0
    dst_gap: Int = 0
    dst_frac_gap: Int = 0
    src_frac_gap: Int = 0
    addr_mode: Int = 0


@dataclass
class LoadData3DParamsV1:
    """Of the 910 and the 310P: pyasc's chips do not have it."""

    pad_list: Any = (0, 0, 0, 0)
    l1_h: Int = 1
    l1_w: Int = 1
    c1_index: Int = 0
    fetch_filter_w: Int = 0
    fetch_filter_h: Int = 0
    left_top_w: Int = 0
    left_top_h: Int = 0
    stride_w: Int = 1
    stride_h: Int = 1
    filter_w: Int = 1
    filter_h: Int = 1
    dilation_filter_w: Int = 1
    dilation_filter_h: Int = 1
    jump_stride: Int = 1
    repeat_mode: Int = 0
    repeat_time: Int = 1
    c_size: Int = 0
    pad_value: Any = 0


@dataclass
class LoadData3DParamsV2:
    """Image to columns. pad_list: left, right, top, bottom; the rest in pixels and elements.

    Raises:
        TypeError: a channel_size above 255, for which pyasc 1.1.1 has 8 bits.
    """

    pad_list: Any = (0, 0, 0, 0)
    l1_h: Int = 1
    l1_w: Int = 1
    channel_size: Int = 1
    k_extension: Int = 1
    m_extension: Int = 1
    k_start_pt: Int = 0
    m_start_pt: Int = 0
    stride_w: Int = 1
    stride_h: Int = 1
    filter_w: Int = 1
    filter_h: Int = 1
    dilation_filter_w: Int = 1
    dilation_filter_h: Int = 1
    en_transpose: Any = False
    pad_value: Any = 0
    filter_size_w: Any = False
    filter_size_h: Any = False
    f_matrix_ctrl: Any = False

    def __post_init__(self) -> None:
        if type(self.channel_size) is int and not 0 <= self.channel_size <= 255:
            raise TypeError(
                f"incompatible function arguments: channel_size={self.channel_size} of LoadData3DParamsV2 does not fit "
                "uint8 (0 to 255)"
            )


@dataclass
class LoadData3DParamsV2Pro:
    """The packed form; it takes the image's size, padding and padding value from registers, which a load with
    LoadData3DParamsV2 before it sets (and set_load_data_padding_value the last).

    ext_config: m_start_pt, k_start_pt, m_extension, k_extension, 16 bits each, the last one lowest. filter_config:
    dilation h, w, filter h, w, stride h, w, 8 bits each, the last one lowest."""

    channel_size: Int = 0
    en_transpose: Any = False
    en_small_k: Any = False
    filter_size_w: Any = False
    filter_size_h: Any = False
    f_matrix_ctrl: Any = False
    ext_config: Int = 0
    filter_config: Int = 0x10101010101


@dataclass
class LoadDataRepeatParam:
    """Repeats of a load of an image as columns. pyasc 1.1.1 hands the first two on in the wrong order: the device takes
    repeat_time for the stride and repeat_stride for the number of repeats."""

    repeat_time: Int = 1
    repeat_stride: Int = 0
    repeat_mode: Int = 0


@dataclass
class LoadImageToLocalParams:
    """The part of an image to load, and the padding around it, in pixels."""

    horiz_size: Int = 2
    vert_size: Int = 2
    horiz_start_pos: Int = 0
    vert_start_pos: Int = 0
    src_horiz_size: Int = 2
    top_pad_size: Int = 0
    bot_pad_size: Int = 0
    left_pad_size: Int = 0
    right_pad_size: Int = 0


@dataclass
class CheckLocalMemoryIAParam:
    """A watch over blocks start_addr + 1 to end_addr of the UB (32 bytes each), by one of four registers."""

    enable_bit: Int = 0
    start_addr: Int = 0
    end_addr: Int = 0
    is_scalar_read: Any = False
    is_scalar_write: Any = False
    is_vector_read: Any = False
    is_vector_write: Any = False
    is_mte_read: Any = False
    is_mte_write: Any = False
    is_enable: Any = False


@dataclass
class InitConstValueParams:
    """Blocks of 32 bytes in L1, of 512 bytes in L0A and L0B."""

    repeat_times: Int = 0
    block_num: Int = 0
    dst_gap: Int = 0
    init_value: Any = 0


@dataclass
class MmadParams:
    """C (m x n) = A (m x k) B (k x n). Complete with unit_flag, cmatrix_source and cmatrix_init_val, or with the five
    older fields; otherwise pyasc 1.1.1 emits an empty block and the mmad does nothing."""

    m: Int = 0
    n: Int = 0
    k: Int = 0
    is_bias: Any = None
    fm_offset: Any = None
    en_ssparse: Any = None
    en_winograd_a: Any = None
    en_winograd_b: Any = None
    unit_flag: Any = None
    cmatrix_source: Any = None
    cmatrix_init_val: Any = None

    def complete(self) -> bool:
        """Does the block reach the device?"""
        if self.is_bias is None:
            return not (self.unit_flag is None or self.cmatrix_source is None or self.cmatrix_init_val is None)
        old = (self.is_bias, self.fm_offset, self.en_ssparse, self.en_winograd_a, self.en_winograd_b)
        new = (self.unit_flag, self.cmatrix_source, self.cmatrix_init_val)
        return all(value is not None for value in old) and all(value is None for value in new)


@dataclass
class FixpipeParamsV220:
    """Sizes in elements; source stride in rows of a column block; destination stride in elements (row major) or 32-B
    blocks (NZ)."""

    n_size: Int
    m_size: Int
    src_stride: Int
    dst_stride: Int
    quant_pre: QuantModes = QuantModes.NoQuant
    deq_scalar: Int = 0
    nd_num: Int = 1
    src_nd_stride: Int = 0
    dst_nd_stride: Int = 0
    relu_en: Any = False
    unit_flag: Int = 0
    is_channel_split: Any = False


@dataclass
class FixpipeConfig:
    """How a fixpipe lays the result out: ``FixpipeConfig.cfg_row_major()`` or ``cfg_nz()``."""

    layout: CO2Layout

    @classmethod
    def cfg_row_major(cls) -> FixpipeConfig:
        """Rows."""
        return cls(CO2Layout.ROW_MAJOR)

    @classmethod
    def cfg_nz(cls) -> FixpipeConfig:
        """Column blocks."""
        return cls(CO2Layout.NZ)


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
