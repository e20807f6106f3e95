"""asc.adv: composite operations; the Matmul object, normalisation, quantisation, math. Source: pyasc 8."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.adv.activation import softmax
from cannlab.ascendc.language.adv.configs import (
    get_basic_config,
    get_ib_share_norm_config,
    get_mdl_config,
    get_mm_config,
    get_normal_config,
    get_special_basic_config,
    get_special_mdl_config,
)
from cannlab.ascendc.language.adv.math import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    axpy,
    ceil,
    cos,
    cosh,
    digamma,
    erf,
    erfc,
    exp,
    floor,
    frac,
    lgamma,
    log,
    power,
    round,
    sign,
    sin,
    sinh,
    tan,
    tanh,
    trunc,
    xor,
)
from cannlab.ascendc.language.adv.matmul import Matmul, MatmulIterator, MatmulType, MatrixOffset, register_matmul
from cannlab.ascendc.language.adv.normalization import rmsnorm
from cannlab.ascendc.language.adv.quantization import quant
from cannlab.ascendc.language.adv.sort import concat, extract
from cannlab.ascendc.language.adv.tiling import RmsNormTiling, SoftmaxTiling, TCubeTiling
from cannlab.ascendc.language.adv.types import (
    MatmulBatchParams,
    MatmulConfig,
    MatmulFuncParams,
    MatmulQuantParams,
    MatmulShapeParams,
    QuantConfig,
)
from cannlab.ascendc.lib.placeholders import missing_names

__all__ = [
    "Matmul",
    "MatmulBatchParams",
    "MatmulConfig",
    "MatmulFuncParams",
    "MatmulIterator",
    "MatmulQuantParams",
    "MatmulShapeParams",
    "MatmulType",
    "MatrixOffset",
    "QuantConfig",
    "RmsNormTiling",
    "SoftmaxTiling",
    "TCubeTiling",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "axpy",
    "ceil",
    "concat",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "exp",
    "extract",
    "floor",
    "frac",
    "get_basic_config",
    "get_ib_share_norm_config",
    "get_mdl_config",
    "get_mm_config",
    "get_normal_config",
    "get_special_basic_config",
    "get_special_mdl_config",
    "lgamma",
    "log",
    "power",
    "quant",
    "register_matmul",
    "rmsnorm",
    "round",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "tan",
    "tanh",
    "trunc",
    "xor",
]


def __getattr__(name: str) -> Any:
    return missing_names("asc.language.adv", name, "asc.adv")
