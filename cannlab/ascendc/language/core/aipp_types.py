"""Settings of the image preprocessing (AIPP). Source: the toolkit's page of SetAippFunctions.

pyasc 1.1.1 emits ``AippParams`` as an empty block: of all settings only the type reaches the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cannlab.ascendc.language.core.builder import GlobalBuilder
from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.ir_value import IRValue, raw
from cannlab.ascendc.lib.placeholders import names_of

Int = Any
"""A Python int or a runtime int."""


@dataclass
class AippPaddingParams:
    """Padding around the image: 0 constant values, 1 nearest row and column, 2 block, 3 mirrored block."""

    padding_mode: Int = 0
    padding_value_ch0: Any = 0
    padding_value_ch1: Any = 0
    padding_value_ch2: Any = 0
    padding_value_ch3: Any = 0


@dataclass
class AippSwapParams:
    """Exchange of channels: R and B, U and V; X of XRGB to the end."""

    is_swap_rb: Any = False
    is_swap_uv: Any = False
    is_swap_ax: Any = False


@dataclass
class AippSingleLineParams:
    """Read one line only."""

    is_single_line_copy: Any = False


@dataclass
class AippDataTypeConvParams:
    """Conversion from bytes: (pixel - mean - min) x var."""

    dtc_mean_ch0: Int = 0
    dtc_mean_ch1: Int = 0
    dtc_mean_ch2: Int = 0
    dtc_min_ch0: Any = 0.0
    dtc_min_ch1: Any = 0.0
    dtc_min_ch2: Any = 0.0
    dtc_var_ch0: Any = 1.0
    dtc_var_ch1: Any = 1.0
    dtc_var_ch2: Any = 1.0
    dtc_round_mode: Int = 0


@dataclass
class AippChannelPaddingParams:
    """Channels of a pixel: 0 up to 32 bytes, 1 up to four; and the value of the added ones."""

    c_padding_mode: Int = 0
    c_padding_value: Any = 0


@dataclass
class AippColorSpaceConvParams:
    """Conversion of the colour space: a matrix in 1/256 and biases."""

    is_enable_csc: Any = False
    csc_matrix_r0_c0: Int = 0
    csc_matrix_r0_c1: Int = 0
    csc_matrix_r0_c2: Int = 0
    csc_matrix_r1_c0: Int = 0
    csc_matrix_r1_c1: Int = 0
    csc_matrix_r1_c2: Int = 0
    csc_matrix_r2_c0: Int = 0
    csc_matrix_r2_c1: Int = 0
    csc_matrix_r2_c2: Int = 0
    csc_bias_in_0: Int = 0
    csc_bias_in_1: Int = 0
    csc_bias_in_2: Int = 0
    csc_bias_out_0: Int = 0
    csc_bias_out_1: Int = 0
    csc_bias_out_2: Int = 0


class AippParams(IRValue):
    """All settings of a load of an image, for int8 or float16.

    Attributes:
        lost: names of those that differ from what the device uses without them.

    Raises:
        TypeError: another type.
    """

    def __init__(
        self,
        dtype: DataType,
        padding_params: AippPaddingParams | None = None,
        swap_params: AippSwapParams | None = None,
        single_line_params: AippSingleLineParams | None = None,
        dtc_params: AippDataTypeConvParams | None = None,
        c_padding_params: AippChannelPaddingParams | None = None,
        csc_params: AippColorSpaceConvParams | None = None,
    ) -> None:
        GlobalBuilder.get("AippParams")
        if not isinstance(dtype, DataType) or dtype.name not in ("int8", "float16"):
            raise TypeError(f"AippParams dtype must be asc.int8 or asc.float16, but got {dtype}")
        self.dtype = dtype
        given = (padding_params, swap_params, single_line_params, dtc_params, c_padding_params, csc_params)
        self.lost = tuple(
            name
            for each in given
            if each is not None
            for name, value in vars(each).items()
            if raw(value) != getattr(type(each), name)
        )


__getattr__ = names_of(__name__)
