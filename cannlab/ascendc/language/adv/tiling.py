"""Tiling structs of the composite functions. Names and order are those of pyasc. Source: pyasc 3."""

from __future__ import annotations

from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.struct import Field, Struct
from cannlab.ascendc.lib.placeholders import names_of


def _int(default: int = 0) -> Field:
    return Field(KnownTypes.int32, default)


class TCubeTiling(Struct):
    """How a matmul is cut: over cores, into base tiles, and what L1 and L0 hold (int32, elements)."""

    used_core_num = _int()
    m = _int()
    n = _int()
    k_a = _int()
    k_b = _int()
    single_core_m = _int()
    single_core_n = _int()
    single_core_k = _int()
    base_m = _int()
    base_n = _int()
    base_k = _int()
    depth_a1 = _int()
    depth_b1 = _int()
    step_m = _int()
    step_n = _int()
    is_bias = _int()
    trans_length = _int()
    iterate_order = _int()
    share_mode = _int()
    share_l1_size = _int()
    share_l0c_size = _int()
    share_ub_size = _int()
    batch_m = _int()
    batch_n = _int()
    single_batch_m = _int()
    single_batch_n = _int()
    step_k_a = _int()
    step_k_b = _int()
    depth_a_l1_cache_ub = _int()
    depth_b_l1_cache_ub = _int()
    db_l0a = _int()
    db_l0b = _int()
    db_l0c = _int()
    a_layout_info_b = _int()
    a_layout_info_s = _int()
    a_layout_info_n = _int()
    a_layout_info_g = _int()
    a_layout_info_d = _int()
    b_layout_info_b = _int()
    b_layout_info_s = _int()
    b_layout_info_n = _int()
    b_layout_info_g = _int()
    b_layout_info_d = _int()
    c_layout_info_b = _int()
    c_layout_info_s1 = _int()
    c_layout_info_n = _int()
    c_layout_info_g = _int()
    c_layout_info_s2 = _int()
    batch_num = _int()


class MatmulApiStaticTiling(Struct):
    """What get_matmul_api_tiling would give; -1 stands for what is not known when the kernel is compiled."""

    used_core_num = _int(-1)
    m = _int(-1)
    n = _int(-1)
    k_a = _int(-1)
    k_b = _int(-1)
    single_core_m = _int(-1)
    single_core_n = _int(-1)
    single_core_k = _int(-1)
    base_m = _int(-1)
    base_n = _int(-1)
    base_k = _int(-1)
    depth_a1 = _int(-1)
    depth_b1 = _int(-1)
    step_m = _int(-1)
    step_n = _int(-1)
    is_bias = _int(-1)
    trans_length = _int(-1)
    iterate_order = _int(-1)
    share_mode = _int(-1)
    share_l1_size = _int(-1)
    share_l0c_size = _int(-1)
    share_ub_size = _int(-1)
    step_k_a = _int(-1)
    step_k_b = _int(-1)
    depth_a_l1_cache_ub = _int(-1)
    depth_b_l1_cache_ub = _int(-1)
    db_l0a = _int(-1)
    db_l0b = _int(-1)
    db_l0c = _int(-1)
    a_layout_info_b = _int(-1)
    a_layout_info_s = _int(-1)
    a_layout_info_n = _int(-1)
    a_layout_info_g = _int(-1)
    a_layout_info_d = _int(-1)
    b_layout_info_b = _int(-1)
    b_layout_info_s = _int(-1)
    b_layout_info_n = _int(-1)
    b_layout_info_g = _int(-1)
    b_layout_info_d = _int(-1)
    c_layout_info_b = _int(-1)
    c_layout_info_s1 = _int(-1)
    c_layout_info_n = _int(-1)
    c_layout_info_g = _int(-1)
    c_layout_info_s2 = _int(-1)
    batch_num = _int(-1)
    mx_type_para = _int(-1)


class SoftmaxTiling(Struct):
    """How a softmax is cut (int32, rows and elements)."""

    src_m = _int()
    src_k = _int()
    src_size = _int()
    out_max_m = _int()
    out_max_k = _int()
    out_max_size = _int()
    split_m = _int()
    split_k = _int()
    split_size = _int()
    reduce_m = _int()
    reduce_k = _int()
    reduce_size = _int()
    range_m = _int()
    tail_m = _int()
    tail_split_size = _int()
    tail_reduce_size = _int()


class RmsNormTiling(Struct):
    """How an RMS norm is cut: b x s rows of h elements."""

    b_length = _int()
    s_length = _int()
    h_length = _int()
    original_h_length = _int()
    reciprocal_of_h_length = Field(KnownTypes.float32, 0.0)
    main_bsh_length = _int()
    main_bs_length = _int()
    main_bs_length_align = _int()
    loop_round = _int()
    input_tail_pos = _int()
    tail_bsh_length = _int()
    tail_bs_length = _int()


__getattr__ = names_of(__name__)
