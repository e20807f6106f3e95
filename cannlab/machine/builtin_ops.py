"""Operators that ONNX does not have and the chip does: AIPP, the quantisation of models that AMCT made, and the
rounding of what products read.

They stand in the registry of custom operators beside the learner's own. Source: pyacl-and-atc 3.5; onnx-rules 7.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cannlab.machine import aipp
from cannlab.machine.custom_ops import Attributes, CustomOp, TensorType, build_in
from cannlab.om.errors import om_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

DOMAIN = "cannlab"
"""Domain of the operators that only the compiler puts in."""

_OPSETS = tuple(range(8, 23))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


# -- AIPP --------------------------------------------------------------------------------------------------


def _aipp_types(inputs: Sequence[TensorType], attributes: Attributes) -> list[TensorType]:
    from onnx import helper

    dtype = helper.tensor_dtype_to_np_dtype(int(attributes["dtype"]))
    return [TensorType(dtype, tuple(int(dim) for dim in attributes["dims"]))]


def _aipp(inputs: list[NDArray[Any]], attributes: Attributes) -> list[NDArray[Any]]:
    images, channels, height, width = (int(dim) for dim in attributes["dims"])
    config = json.loads(_text(attributes["config"]))
    if len(inputs) == 1:
        return [aipp.apply(inputs[0], images, channels, aipp.Aipp.from_json(config))]
    try:
        found = aipp.unpack(inputs[1].tobytes(), images)
    except ValueError as problem:
        raise om_error("aipp_unset", reason=str(problem)) from problem
    made = [found.output_size(index) for index in range(images)]
    if any(size != (height, width) for size in made) or found.image_bytes * images > inputs[0].nbytes:
        raise om_error("aipp_unset", reason=f"it makes images of {made[0]}, the model reads {(height, width)}")
    return [aipp.apply(inputs[0], images, channels, found)]


# -- quantisation ------------------------------------------------------------------------------------------

_ROUNDING = {"Round": "rint", "Floor": "floor", "Ceil": "ceil", "Trunc": "trunc"}


def _quant_types(inputs: Sequence[TensorType], attributes: Attributes) -> list[TensorType]:
    import numpy as np

    return [TensorType(np.dtype(np.int8), inputs[0].dims)]


def _quant(inputs: list[NDArray[Any]], attributes: Attributes) -> list[NDArray[Any]]:
    """int8: x * scale (twice with sqrt_mode) + offset, rounded, saturated."""
    import numpy as np

    scale = np.float32(attributes.get("scale", 1.0))
    scaled = inputs[0].astype(np.float32) * scale
    if attributes.get("sqrt_mode", 0):
        scaled = scaled * scale
    mode = _ROUNDING[_text(attributes.get("round_mode", "Round"))]
    rounded = getattr(np, mode)(scaled + np.float32(attributes.get("offset", 0.0)))
    return [np.clip(rounded, -128, 127).astype(np.int8)]


def _dequant_types(inputs: Sequence[TensorType], attributes: Attributes) -> list[TensorType]:
    import numpy as np

    return [TensorType(np.dtype(np.float32), inputs[0].dims)]


def _dequant(inputs: list[NDArray[Any]], attributes: Attributes) -> list[NDArray[Any]]:
    """x * deq_scale, for all or for each channel (dimension 1). The scale's bits lie in the lower half of a uint64."""
    import numpy as np

    values, scales = inputs
    factor = (scales.astype(np.uint64) & np.uint64(0xFFFF_FFFF)).astype(np.uint32).view(np.float32)
    if factor.size > 1:
        shape = [1] * values.ndim
        shape[1] = factor.size
        factor = factor.reshape(shape)
    made = values.astype(np.float32) * factor
    if attributes.get("sqrt_mode", 0):
        made = made * factor
    return [np.maximum(made, 0) if attributes.get("relu_flag", 0) else made]


def _antiquant(inputs: list[NDArray[Any]], attributes: Attributes) -> list[NDArray[Any]]:
    """int8 back to a float: (x + offset) * scale (twice with sqrt_mode)."""
    import numpy as np

    scale = np.float32(attributes.get("scale", 1.0))
    made = (inputs[0].astype(np.float32) + np.float32(attributes.get("offset", 0.0))) * scale
    return [made * scale if attributes.get("sqrt_mode", 0) else made]


# -- HF32 --------------------------------------------------------------------------------------------------


def to_hf32(values: NDArray[Any]) -> NDArray[Any]:
    """float32 with 11 bits of fraction, the type that matrix products may read in its place; halves go up in size.

    Source: the reference results that the toolkit's own tests of the products compare with.
    """
    import numpy as np

    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    kept = (((bits >> np.uint32(11)) + np.uint32(1)) >> np.uint32(1)) << np.uint32(12)
    # Infinities and NaN stay what they are.
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    made: NDArray[Any] = np.where(special, bits, kept).astype(np.uint32).view(np.float32).reshape(values.shape)
    return made


def _hf32(inputs: list[NDArray[Any]], attributes: Attributes) -> list[NDArray[Any]]:
    return [to_hf32(inputs[0])]


AIPP = build_in(CustomOp(DOMAIN, "Aipp", _aipp, infer=_aipp_types, core_type="AI_CORE"))
HF32 = build_in(CustomOp(DOMAIN, "Hf32", _hf32))
QUANT = build_in(CustomOp("ai.onnx", "AscendQuant", _quant, _OPSETS, _quant_types))
DEQUANT = build_in(CustomOp("ai.onnx", "AscendDequant", _dequant, _OPSETS, _dequant_types))
ANTIQUANT = build_in(CustomOp("ai.onnx", "AscendAntiQuant", _antiquant, _OPSETS, _dequant_types))
