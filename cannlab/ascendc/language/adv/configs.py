"""The makers of MatmulConfig: templates with names of their own for the same fields. Source: pyasc 8.

All but get_mm_config are hints for speed; get_mm_config ignores its arguments in 1.1.1, and here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cannlab.ascendc.language.adv.types import MatmulConfig
from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.enums import BatchMode, IterateOrder, ScheduleType

_FIELDS = {
    "intrinsics_limit": "intrinsics_check",
    "batch_loop": "is_n_batch",
    "is_vec_nd2_nz": "en_vec_nd2nz",
    "bmm_mode": "batch_mode",
    "do_mte2_pre_load": "do_mte2_preload",
    "is_double_cache": "enable_double_cache",
    "is_msg_reuse": "enable_reuse",
}
"""Parameter -> field, where the names differ."""
_NEEDED = object()
_BASIC = {"basic_m": _NEEDED, "basic_n": _NEEDED, "basic_k": _NEEDED}
_SINGLE = dict.fromkeys(("single_core_m", "single_core_n", "single_core_k", "step_m", "step_n"), _NEEDED)
_LIMIT = {"intrinsics_limit": False, "batch_loop": False}
_BATCH = {"bmm_mode": BatchMode.BATCH_LESS_THAN_L1}


def _maker(name: str, fixed: dict[str, Any], parameters: dict[str, Any]) -> Callable[..., MatmulConfig]:
    def make(*args: Any, **kwargs: Any) -> MatmulConfig:
        GlobalBuilder.get(name)
        given = dict(zip(parameters, args, strict=False))
        wrong = [key for key in kwargs if key not in parameters or key in given]
        values = {**parameters, **given, **kwargs}
        if len(args) > len(parameters) or wrong or any(value is _NEEDED for value in values.values()):
            raise RuntimeError(f"No viable candidates were found to dispatch {name}()")
        return MatmulConfig(**fixed, **{_FIELDS.get(key, key): value for key, value in values.items()})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{name}({', '.join(parameters)}): a MatmulConfig."
    return make


get_basic_config = _maker(
    "get_basic_config", {"do_norm": False, "do_basic_block": True}, {**_BASIC, **_LIMIT, **_BATCH}
)
get_special_basic_config = _maker(
    "get_special_basic_config",
    {"do_norm": False, "do_special_basic_block": True},
    {**_BASIC, **_SINGLE, **_LIMIT, **_BATCH},
)
get_normal_config = _maker(
    "get_normal_config",
    {},
    {
        **_LIMIT,
        "is_vec_nd2_nz": False,
        **_BATCH,
        "is_msg_reuse": True,
        "iterate_order": IterateOrder.ORDER_M,
        "schedule_type": ScheduleType.INNER_PRODUCT,
        "en_unit_flag": True,
    },
)
get_ib_share_norm_config = _maker(
    "get_ib_share_norm_config",
    {"do_ib_share_norm": True},
    {**_LIMIT, "is_vec_nd2_nz": False, **_BATCH, "is_double_cache": False, "en_unit_flag": True},
)
_MDL = {
    **_LIMIT,
    "do_mte2_preload": 0,
    "is_vec_nd2_nz": False,
    "is_per_tensor": False,
    "has_anti_quant_offset": False,
}
get_mdl_config = _maker(
    "get_mdl_config",
    {"do_norm": False, "do_multi_data_load": True},
    {
        **_MDL,
        "en_unit_flag": False,
        "is_msg_reuse": True,
        "enable_ub_reuse": True,
        "enable_l1_cache_ub": False,
        "enable_mix_dual_master": False,
        "enable_kdim_reorder_load": False,
    },
)
get_special_mdl_config = _maker(
    "get_special_mdl_config",
    {"do_norm": False, "do_special_mdl": True},
    {("do_mte2_pre_load" if name == "do_mte2_preload" else name): value for name, value in _MDL.items()},
)


def get_mm_config(*args: Any, **kwargs: Any) -> MatmulConfig:
    """A MatmulConfig with its defaults: 1.1.1 ignores the arguments."""
    GlobalBuilder.get("get_mm_config")
    return MatmulConfig()
