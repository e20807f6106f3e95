"""The package ``asc`` (pyasc, the Python face of Ascend C), emulated. Mirrors pyasc 1.1.1's layout.

Every public name of pyasc exists here; what is not emulated yet says so when it is used.
"""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic.block_sync import data_sync_barrier, pipe_barrier, set_flag, wait_flag
from cannlab.ascendc.language.basic.common import (
    ascend_is_aic,
    ascend_is_aiv,
    init_soc_state,
    reset_mask,
    set_atomic_add,
    set_atomic_max,
    set_atomic_min,
    set_atomic_none,
    set_hf32_mode,
    set_hf32_trans_mode,
    set_mask_count,
    set_mask_norm,
    set_vector_mask,
)
from cannlab.ascendc.language.basic.data_copy import data_copy, data_copy_pad, set_pad_value
from cannlab.ascendc.language.basic.dump_tensor import dump_tensor, print_time_stamp, printf
from cannlab.ascendc.language.basic.fixpipe import fixpipe, set_fix_pipe_pre_quant_flag
from cannlab.ascendc.language.basic.mm import (
    init_const_value,
    load_data,
    load_data_with_transpose,
    mmad,
    set_load_data_boundary,
)
from cannlab.ascendc.language.basic.sys_var import (
    get_block_idx,
    get_block_num,
    get_data_block_size_in_bytes,
    get_sub_block_idx,
    get_sub_block_num,
    get_task_ratio,
    trap,
)
from cannlab.ascendc.language.basic.vec_binary import (
    add,
    add_relu,
    add_relu_cast,
    bitwise_and,
    bitwise_or,
    div,
    fused_mul_add,
    fused_mul_add_relu,
    max,
    min,
    mul,
    mul_add_dst,
    mul_cast,
    sub,
    sub_relu,
    sub_relu_cast,
)
from cannlab.ascendc.language.basic.vec_binary_scalar import (
    adds,
    axpy,
    leaky_relu,
    maxs,
    mins,
    muls,
    shift_left,
    shift_right,
)
from cannlab.ascendc.language.basic.vec_cmpsel import compare, compare_scalar, get_cmp_mask, select, set_cmp_mask
from cannlab.ascendc.language.basic.vec_duplicate import brcb, copy, duplicate
from cannlab.ascendc.language.basic.vec_gather import gather, gather_mask, gatherb, scatter
from cannlab.ascendc.language.basic.vec_reduce import (
    block_reduce_max,
    block_reduce_min,
    block_reduce_sum,
    pair_reduce_sum,
    reduce_max,
    reduce_min,
    reduce_sum,
    repeat_reduce_sum,
    whole_reduce_max,
    whole_reduce_min,
    whole_reduce_sum,
)
from cannlab.ascendc.language.basic.vec_unary import abs, bitwise_not, exp, ln, reciprocal, relu, rsqrt, sqrt
from cannlab.ascendc.language.basic.vec_vconv import cast, set_deq_scale
from cannlab.ascendc.language.core.array import array
from cannlab.ascendc.language.core.constexpr import ConstExpr
from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.dtype import KnownTypes as _KnownTypes
from cannlab.ascendc.language.core.enums import *  # noqa: F403 - the enumerations, all public
from cannlab.ascendc.language.core.ir_value import GlobalAddress
from cannlab.ascendc.language.core.memory_allocator import LocalMemAllocator
from cannlab.ascendc.language.core.ops import inline, number
from cannlab.ascendc.language.core.range import range, static_range
from cannlab.ascendc.language.core.tensor import GlobalTensor, LocalTensor
from cannlab.ascendc.language.core.types import (
    BinaryRepeatParams,
    BrcbRepeatParams,
    CopyRepeatParams,
    DataCopyCO12DstParams,
    DataCopyExtParams,
    DataCopyPadExtParams,
    DataCopyPadParams,
    DataCopyParams,
    FixpipeConfig,
    FixpipeParamsV220,
    GatherMaskParams,
    GatherRepeatParams,
    InitConstValueParams,
    LoadData2DParams,
    LoadData2DParamsV2,
    LoadData2dTransposeParams,
    LoadData2dTransposeParamsV2,
    LoadData3DParamsV1,
    LoadData3DParamsV2,
    LoadData3DParamsV2Pro,
    MmadParams,
    Nd2NzParams,
    Nz2NdParamsFull,
    ShapeInfo,
    UnaryRepeatParams,
    get_shape_size,
)
from cannlab.ascendc.language.core.utils import ceildiv, static_assert
from cannlab.ascendc.language.fwk.tpipe import TBuf, TPipe, TQue, TQueBind, get_tpipe_ptr
from cannlab.ascendc.lib.placeholders import missing_top
from cannlab.ascendc.runtime.jit import jit

__all__ = [
    "BinaryRepeatParams",
    "BrcbRepeatParams",
    "ConstExpr",
    "CopyRepeatParams",
    "DataCopyCO12DstParams",
    "DataCopyExtParams",
    "DataCopyPadExtParams",
    "DataCopyPadParams",
    "DataCopyParams",
    "DataType",
    "FixpipeConfig",
    "FixpipeParamsV220",
    "GatherMaskParams",
    "GatherRepeatParams",
    "GlobalAddress",
    "GlobalTensor",
    "InitConstValueParams",
    "LoadData2DParams",
    "LoadData2DParamsV2",
    "LoadData2dTransposeParams",
    "LoadData2dTransposeParamsV2",
    "LoadData3DParamsV1",
    "LoadData3DParamsV2",
    "LoadData3DParamsV2Pro",
    "LocalMemAllocator",
    "LocalTensor",
    "MmadParams",
    "Nd2NzParams",
    "Nz2NdParamsFull",
    "ShapeInfo",
    "TBuf",
    "TPipe",
    "TQue",
    "TQueBind",
    "UnaryRepeatParams",
    "abs",
    "add",
    "add_relu",
    "add_relu_cast",
    "adds",
    "array",
    "ascend_is_aic",
    "ascend_is_aiv",
    "axpy",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "block_reduce_max",
    "block_reduce_min",
    "block_reduce_sum",
    "brcb",
    "cast",
    "ceildiv",
    "compare",
    "compare_scalar",
    "copy",
    "data_copy",
    "data_copy_pad",
    "data_sync_barrier",
    "div",
    "double",
    "dump_tensor",
    "duplicate",
    "exp",
    "fixpipe",
    "float16",
    "float32",
    "float64",
    "float_",
    "fused_mul_add",
    "fused_mul_add_relu",
    "gather",
    "gather_mask",
    "gatherb",
    "get_block_idx",
    "get_block_num",
    "get_cmp_mask",
    "get_data_block_size_in_bytes",
    "get_shape_size",
    "get_sub_block_idx",
    "get_sub_block_num",
    "get_task_ratio",
    "get_tpipe_ptr",
    "half",
    "init_const_value",
    "init_soc_state",
    "inline",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "jit",
    "leaky_relu",
    "ln",
    "load_data",
    "load_data_with_transpose",
    "max",
    "maxs",
    "min",
    "mins",
    "mmad",
    "mul",
    "mul_add_dst",
    "mul_cast",
    "muls",
    "number",
    "pair_reduce_sum",
    "pipe_barrier",
    "print_time_stamp",
    "printf",
    "range",
    "reciprocal",
    "reduce_max",
    "reduce_min",
    "reduce_sum",
    "relu",
    "repeat_reduce_sum",
    "reset_mask",
    "rsqrt",
    "scatter",
    "select",
    "set_atomic_add",
    "set_atomic_max",
    "set_atomic_min",
    "set_atomic_none",
    "set_cmp_mask",
    "set_deq_scale",
    "set_fix_pipe_pre_quant_flag",
    "set_flag",
    "set_hf32_mode",
    "set_hf32_trans_mode",
    "set_load_data_boundary",
    "set_mask_count",
    "set_mask_norm",
    "set_pad_value",
    "set_vector_mask",
    "shift_left",
    "shift_right",
    "sqrt",
    "static_assert",
    "static_range",
    "sub",
    "sub_relu",
    "sub_relu_cast",
    "trap",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
    "wait_flag",
    "whole_reduce_max",
    "whole_reduce_min",
    "whole_reduce_sum",
]

void, int8, int16, int32, int64 = (
    _KnownTypes.void,
    _KnownTypes.int8,
    _KnownTypes.int16,
    _KnownTypes.int32,
    _KnownTypes.int64,
)
uint8, uint16, uint32, uint64 = _KnownTypes.uint8, _KnownTypes.uint16, _KnownTypes.uint32, _KnownTypes.uint64
float16, float32, float64 = _KnownTypes.float16, _KnownTypes.float32, _KnownTypes.float64
half, float_, double, int_ = _KnownTypes.half, _KnownTypes.float_, _KnownTypes.double, _KnownTypes.int_


def __getattr__(name: str) -> Any:
    if name in ("adv", "runtime", "lib", "codegen", "language"):
        import importlib

        return importlib.import_module(f"cannlab.ascendc.{'language.adv' if name == 'adv' else name}")
    return missing_top(name)
