"""MatmulConfig and its relatives: what the templates of the Matmul object are told. Source: pyasc 8.

The emulated object takes its cut from the tiling alone: these hold hints that change speed only on hardware, and those
of them that would change what is computed are refused where the object is made.
"""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.core.enums import BatchMode, BatchOutMode, IterateMode, IterateOrder, ScheduleType
from cannlab.ascendc.language.core.ir_value import IRValue
from cannlab.ascendc.lib.placeholders import names_of


class _Fields(IRValue):
    """Named values with defaults."""

    _defaults: dict[str, Any] = {}  # noqa: RUF012 - read only

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = list(self._defaults)
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes at most {len(names)} arguments, got {len(args)}")
        for name, value in zip(names, args, strict=False):
            if name in kwargs:
                raise TypeError(f"{type(self).__name__} got multiple values for argument '{name}'")
            kwargs[name] = value
        unknown = [name for name in kwargs if name not in self._defaults]
        if unknown:
            raise TypeError(f"{type(self).__name__} got an unexpected keyword argument '{unknown[0]}'")
        self._values = {name: kwargs.get(name, default) for name, default in self._defaults.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'") from None


class MatmulConfig(_Fields):
    """Template parameters of a Matmul object."""

    _defaults = {  # noqa: RUF012 - read only
        "do_norm": True,
        "do_basic_block": False,
        "do_multi_data_load": False,
        "basic_m": 0,
        "basic_n": 0,
        "basic_k": 0,
        "intrinsics_check": False,
        "is_n_batch": False,
        "en_vec_nd2nz": False,
        "do_special_basic_block": False,
        "do_mte2_preload": 0,
        "single_core_m": 0,
        "single_core_n": 0,
        "single_core_k": 0,
        "step_m": 0,
        "step_n": 0,
        "base_mn": 0,
        "single_core_mn": 0,
        "en_unit_flag": True,
        "is_per_tensor": False,
        "has_anti_quant_offset": False,
        "do_ib_share_norm": False,
        "do_special_mdl": False,
        "enable_init": True,
        "batch_mode": BatchMode.BATCH_LESS_THAN_L1,
        "enable_end": True,
        "enable_get_tensor_c": True,
        "enable_set_org_shape": True,
        "enable_set_bias": True,
        "enable_set_tail": True,
        "enable_quant_vector": True,
        "enable_set_define_data": True,
        "iterate_mode": IterateMode.ITERATE_MODE_DEFAULT,
        "enable_reuse": True,
        "enable_ub_reuse": False,
        "enable_l1_cache_ub": False,
        "intra_block_part_sum": False,
        "iterate_order": IterateOrder.UNDEF,
        "schedule_type": ScheduleType.INNER_PRODUCT,
        "enable_double_cache": 0,
        "is_bias_batch": True,
        "enable_static_pad_zeros": False,
        "is_partial_output": False,
        "enable_mix_dual_master": False,
        "is_a2b2_shared": False,
        "is_enable_channel_split": False,
        "enable_kdim_reorder_load": False,
        "is_co1_shared": False,
        "shared_co1_buffer_size": 64 * 1024,
        "batch_out_mode": BatchOutMode.SINGLE_BATCH,
    }


class QuantConfig(_Fields):
    """Template parameters of quant; hints."""

    _defaults = dict.fromkeys(("calc_count", "offset_count", "scale_count", "work_local_size"), 0)


class MatmulShapeParams(_Fields):
    """Shapes for get_mm_config."""

    _defaults = dict.fromkeys(("single_core_m", "single_core_n", "single_core_k", "basic_m", "basic_n", "basic_k"), 0)


class MatmulQuantParams(_Fields):
    """Quantisation for get_mm_config."""

    _defaults = {"is_per_tensor": False, "has_anti_quant_offset": False}  # noqa: RUF012 - read only


class MatmulBatchParams(_Fields):
    """Batches for get_mm_config."""

    _defaults = {"is_b_batch": False, "batch_mode": 1, "is_bias_batch": False}  # noqa: RUF012 - read only


class MatmulFuncParams(_Fields):
    """Functions for get_mm_config."""

    _defaults = {  # noqa: RUF012 - read only
        "intrinsics_limit": False,
        "en_vec_nd2_nz": False,
        "enable_double_cache": False,
        "enable_l1_cache": False,
        "do_mte2_pre_load": 0,
        "iterate_order": 0,
        "schedule_type": 0,
        "enable_reuse": True,
        "enable_ub_reuse": False,
        "is_partial_output": False,
        "is_a2_b2_shared": False,
        "is_enable_channel_split": False,
        "enable_kdim_reorder_load": False,
    }


__getattr__ = names_of(__name__)
