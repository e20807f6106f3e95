"""AIPP of loaded models: the parameters of dynamic AIPP, and what a model says of its own.

Checks and codes: pyacl-semantics 9 and 16, documentation of the set_aipp functions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import name_kind, refuse, take
from cannlab.acl.functions.data_buffers import DataBuffer
from cannlab.acl.functions.datasets import Dataset
from cannlab.acl.functions.loading import loaded
from cannlab.machine import Machine, aipp
from cannlab.machine.aipp import Aipp, BatchAipp, ImageFormat
from cannlab.machine.models import LoadedModel
from cannlab.om import OmModel

_NONE, _STATIC, _DYNAMIC, _DATA = range(4)
"""aclmdlInputAippType."""

_NO_INDEX = 0xFFFF_FFFF
_FORMATS = range(1, 15)
"""All numbers of aclAippInputFormat; the kernels of these chips take the first four."""


class AippParameters:
    """What create_aipp makes: parameters for so many images, filled by the set_aipp functions."""

    def __init__(self, images: int) -> None:
        self.aipp = Aipp(ImageFormat.YUV420SP_U8, 0, 0, batch=tuple(BatchAipp() for _ in range(images)))
        self.format = 0

    def change(self, index: int, **changes: Any) -> None:
        """Change the parameters of one image."""
        batch = list(self.aipp.batch)
        batch[index] = replace(batch[index], **changes)
        self.aipp = replace(self.aipp, batch=tuple(batch))


name_kind(AippParameters, "AIPP parameters", "acl.mdl.destroy_aipp")


def _ranged(m: Machine, least: int, most: int, **values: int) -> None:
    for argument, value in values.items():
        if not least <= value <= most:
            raise refuse(m, "runtime.bad_parameter", argument=argument, value=value, allowed=f"{least} to {most}")


def _image(m: Machine, handle: int, batch_index: int) -> AippParameters:
    entry = take(m, handle, AippParameters)
    _ranged(m, 0, len(entry.aipp.batch) - 1, batch_index=batch_index)
    return entry


@api("acl.mdl.create_aipp")
def create_aipp(m: Machine, batch: int) -> int:
    """create_aipp(batch) -> aipp: parameters for so many images; 0 for 0."""
    return m.handles.open(AippParameters(batch), m.here()) if 0 < batch <= 1 << 16 else 0


@api("acl.mdl.destroy_aipp")
def destroy_aipp(m: Machine, handle: int) -> int:
    """destroy_aipp(aipp) -> ret."""
    take(m, handle, AippParameters)
    m.handles.close(handle, m.here())
    return 0


@api("acl.mdl.get_aipp_data_size")
def get_aipp_data_size(m: Machine, batch: int) -> tuple[int, int]:
    """get_aipp_data_size(batch) -> (bytes, ret): of the input ascend_dynamic_aipp_data."""
    if batch == 0:
        raise refuse(m, "runtime.bad_parameter", argument="batch", value=0, allowed="above 0")
    return aipp.block_bytes(batch), 0


@api("acl.mdl.set_aipp_input_format")
def set_aipp_input_format(m: Machine, handle: int, format: int) -> int:
    """set_aipp_input_format(aipp, format) -> ret: 1 YUV420SP_U8, 2 XRGB8888_U8, 3 RGB888_U8, 4 YUV400_U8."""
    entry = take(m, handle, AippParameters)
    if format not in _FORMATS:
        raise refuse(m, "runtime.bad_parameter", argument="format", value=format, allowed="1 to 14")
    entry.format = format
    return 0


@api("acl.mdl.set_aipp_csc_params")
def set_aipp_csc_params(m: Machine, handle: int, csc_switch: int, *numbers: int) -> int:
    """set_aipp_csc_params(aipp, csc_switch, 9 coefficients, 3 output biases, 3 input biases) -> ret."""
    entry = take(m, handle, AippParameters)
    _ranged(m, 0, 1, csc_switch=csc_switch)
    entry.aipp = replace(entry.aipp, csc=bool(csc_switch))
    if csc_switch:
        for number in numbers[:9]:
            _ranged(m, -32677, 32676, coefficient=number)
        matrix, output_bias, input_bias = numbers[:9], numbers[9:12], numbers[12:15]
        entry.aipp = replace(entry.aipp, matrix=matrix, output_bias=output_bias, input_bias=input_bias)
    return 0


@api("acl.mdl.set_aipp_rbuv_swap_switch")
def set_aipp_rbuv_swap_switch(m: Machine, handle: int, on: int) -> int:
    """set_aipp_rbuv_swap_switch(aipp, on) -> ret."""
    entry = take(m, handle, AippParameters)
    _ranged(m, 0, 1, on=on)
    entry.aipp = replace(entry.aipp, swap_rb=bool(on))
    return 0


@api("acl.mdl.set_aipp_ax_swap_switch")
def set_aipp_ax_swap_switch(m: Machine, handle: int, on: int) -> int:
    """set_aipp_ax_swap_switch(aipp, on) -> ret."""
    entry = take(m, handle, AippParameters)
    _ranged(m, 0, 1, on=on)
    entry.aipp = replace(entry.aipp, swap_ax=bool(on))
    return 0


@api("acl.mdl.set_aipp_src_image_size")
def set_aipp_src_image_size(m: Machine, handle: int, w: int, h: int) -> int:
    """set_aipp_src_image_size(aipp, w, h) -> ret: width 2 to 4096, height 1 to 4096."""
    entry = take(m, handle, AippParameters)
    _ranged(m, 2, 4096, w=w)
    _ranged(m, 1, 4096, h=h)
    entry.aipp = replace(entry.aipp, width=w, height=h)
    return 0


@api("acl.mdl.set_aipp_scf_params")
def set_aipp_scf_params(
    m: Machine, handle: int, on: int, in_w: int, in_h: int, out_w: int, out_h: int, batch_index: int
) -> int:
    """set_aipp_scf_params(aipp, on, in_w, in_h, out_w, out_h, batch_index) -> ret: no chip here scales, so only 0."""
    _image(m, handle, batch_index)
    _ranged(m, 0, 1, on=on)
    if on:
        raise refuse(m, "model.aipp_scale")
    return 0


@api("acl.mdl.set_aipp_crop_params")
def set_aipp_crop_params(
    m: Machine, handle: int, on: int, start_w: int, start_h: int, size_w: int, size_h: int, batch_index: int
) -> int:
    """set_aipp_crop_params(aipp, on, start_w, start_h, size_w, size_h, batch_index) -> ret."""
    entry = _image(m, handle, batch_index)
    _ranged(m, 0, 1, on=on)
    entry.change(batch_index, crop=bool(on))
    if on:
        _ranged(m, 0, 4095, start_w=start_w, start_h=start_h)
        _ranged(m, 1, 4096, size_w=size_w, size_h=size_h)
        entry.change(batch_index, crop_w=start_w, crop_h=start_h, crop_size_w=size_w, crop_size_h=size_h)
    return 0


@api("acl.mdl.set_aipp_padding_params")
def set_aipp_padding_params(
    m: Machine, handle: int, on: int, top: int, bottom: int, left: int, right: int, batch_index: int
) -> int:
    """set_aipp_padding_params(aipp, on, top, bottom, left, right, batch_index) -> ret: 0 to 32 pixels of 0."""
    entry = _image(m, handle, batch_index)
    _ranged(m, 0, 1, on=on)
    entry.change(batch_index, padding=bool(on))
    if on:
        _ranged(m, 0, 32, top=top, bottom=bottom, left=left, right=right)
        entry.change(batch_index, top=top, bottom=bottom, left=left, right=right)
    return 0


@api("acl.mdl.set_aipp_dtc_pixel_mean")
def set_aipp_dtc_pixel_mean(m: Machine, handle: int, c0: int, c1: int, c2: int, c3: int, batch_index: int) -> int:
    """set_aipp_dtc_pixel_mean(aipp, c0, c1, c2, c3, batch_index) -> ret: 0 to 255."""
    entry = _image(m, handle, batch_index)
    _ranged(m, 0, 255, c0=c0, c1=c1, c2=c2, c3=c3)
    entry.change(batch_index, mean=(c0, c1, c2, c3))
    return 0


@api("acl.mdl.set_aipp_dtc_pixel_min")
def set_aipp_dtc_pixel_min(
    m: Machine, handle: int, c0: float, c1: float, c2: float, c3: float, batch_index: int
) -> int:
    """set_aipp_dtc_pixel_min(aipp, c0, c1, c2, c3, batch_index) -> ret: 0 to 255."""
    entry = _image(m, handle, batch_index)
    for value in (c0, c1, c2, c3):
        if not 0 <= value <= 255:
            raise refuse(m, "runtime.bad_parameter", argument="minimum", value=value, allowed="0 to 255")
    entry.change(batch_index, minimum=(c0, c1, c2, c3))
    return 0


@api("acl.mdl.set_aipp_pixel_var_reci")
def set_aipp_pixel_var_reci(
    m: Machine, handle: int, c0: float, c1: float, c2: float, c3: float, batch_index: int
) -> int:
    """set_aipp_pixel_var_reci(aipp, c0, c1, c2, c3, batch_index) -> ret: -65504 to 65504."""
    entry = _image(m, handle, batch_index)
    for value in (c0, c1, c2, c3):
        if not -65504 <= value <= 65504:
            raise refuse(m, "runtime.bad_parameter", argument="var_reci", value=value, allowed="-65504 to 65504")
    entry.change(batch_index, var_reci=(c0, c1, c2, c3))
    return 0


# -- giving them to a model ----------------------------------------------------------------------------------


@api("acl.mdl.set_input_aipp")
def set_input_aipp(m: Machine, model_id: int, dataset: int, index: int, handle: int) -> int:
    """set_input_aipp(model_id, dataset, index, aipp) -> ret: index is that of ascend_dynamic_aipp_data."""
    entry, model = take(m, dataset, Dataset), loaded(m, model_id)
    given = take(m, handle, AippParameters)
    data = {info["data"]: name for name, info in model.om.aipp.items() if info["mode"] == "dynamic"}
    named = model.om.inputs[index].name if index < len(model.om.inputs) else ""
    if named not in data:
        raise refuse(m, "model.aipp_index", index=index, names=", ".join(data) or "none")
    _give(m, model, entry, index, data[named], given)
    return 0


@api("acl.mdl.set_aipp_by_input_index")
def set_aipp_by_input_index(m: Machine, model_id: int, dataset: int, index: int, handle: int) -> int:
    """set_aipp_by_input_index(model_id, dataset, index, aipp) -> ret: index is that of the image."""
    entry, model = take(m, dataset, Dataset), loaded(m, model_id)
    given = take(m, handle, AippParameters)
    kind, attached = _kind(model.om, index)
    if kind != _DYNAMIC:
        raise refuse(m, "model.aipp_not_linked", index=index)
    _give(m, model, entry, attached, model.om.inputs[index].name, given)
    return 0


def _give(m: Machine, model: LoadedModel, dataset: Dataset, index: int, image: str, given: AippParameters) -> None:
    """Check the parameters against the model, and write them into the buffer of their input."""
    if given.format not in ImageFormat.__members__.values():
        raise refuse(m, "model.aipp_format", format=given.format)
    made = replace(given.aipp, format=ImageFormat(given.format))
    info = model.om.aipp[image]
    images, _, height, width = info["model_dims"]
    reason = aipp.unfit(made, images, (height, width), info["size"])
    if reason:
        raise refuse(m, "model.aipp_unfit", reason=reason)
    if index >= len(dataset.buffers):
        raise refuse(m, "model.bad_index", index=index, count=len(dataset.buffers))
    buffer = take(m, dataset.buffers[index], DataBuffer)
    block = aipp.pack(made)
    if buffer.address == 0 or buffer.size < len(block):
        raise refuse(m, "model.aipp_buffer", size=buffer.size, needed=len(block))
    m.memory.view(buffer.address, len(block), "device")[:] = block


# -- asking --------------------------------------------------------------------------------------------------


def _kind(om: OmModel, index: int) -> tuple[int, int]:
    """aclmdlInputAippType of an input, and the index of the parameters' input."""
    name = om.inputs[index].name
    info = om.aipp.get(name)
    if info is not None and info["mode"] == "dynamic":
        return _DYNAMIC, [tensor.name for tensor in om.inputs].index(info["data"])
    if info is not None:
        return _STATIC, _NO_INDEX
    is_data = any(entry.get("data") == name for entry in om.aipp.values())
    return (_DATA if is_data else _NONE), _NO_INDEX


@api("acl.mdl.get_aipp_type")
def get_aipp_type(m: Machine, model_id: int, index: int) -> tuple[int, int, int]:
    """get_aipp_type(model_id, index) -> (type, attached_index, ret): 0 none, 1 static, 2 dynamic, 3 parameters."""
    om = _checked(m, model_id, index)
    return *_kind(om, index), 0


@api("acl.mdl.get_first_aipp_info")
def get_first_aipp_info(m: Machine, model_id: int, index: int) -> tuple[Any, int]:
    """get_first_aipp_info(model_id, index) -> (info, ret); (None, 145015) for an input without AIPP.

    As in the real module, the coefficients R0C2, R2C0 and R2C1 are missing. Of dynamic AIPP only the source and the
    shapes count.
    """
    om = _checked(m, model_id, index)
    name = om.inputs[index].name
    info = om.aipp.get(name)
    if info is None:
        raise refuse(m, "model.no_aipp")
    made = Aipp.from_json(info["parameters"]) if info["mode"] == "static" else None
    return _info(om, name, made), 0


def _checked(m: Machine, model_id: int, index: int) -> OmModel:
    om = loaded(m, model_id).om
    if index >= len(om.inputs):
        raise refuse(m, "model.bad_index", index=index, count=len(om.inputs))
    return om


def _info(om: OmModel, name: str, made: Aipp | None) -> dict[str, Any]:
    static = made is not None
    made = made or Aipp(ImageFormat.YUV420SP_U8, 0, 0)
    image = made.batch[0]
    entries: dict[str, Any] = {"cscSwitch": int(made.csc)}
    entries |= {f"matrixR{row}C{column}": made.matrix[3 * row + column] for row, column in _GIVEN}
    entries |= {f"outputBias{at}": value for at, value in enumerate(made.output_bias)}
    entries |= {f"inputBias{at}": value for at, value in enumerate(made.input_bias)}
    entries |= {"rbuvSwapSwitch": int(made.swap_rb), "axSwapSwitch": int(made.swap_ax), "singleLineMode": 0}
    entries |= {"srcImageSizeW": made.width, "srcImageSizeH": made.height}
    shapes = [_shapes(variant.inputs, om, name) for variant in om.variants] or [_shapes(om.inputs, om, name)]
    # The source is the model's own input: NCHW, float.
    entries |= {"srcFormat": 0, "srcDatatype": 0, "srcDimNum": 4, "shapeCount": len(shapes)}
    entries |= {"inputFormat": int(made.format) if static else 0, "aippExtend": 0}
    entries |= {"cropSwitch": int(image.crop), "loadStartPosW": image.crop_w, "loadStartPosH": image.crop_h}
    entries |= {"cropSizeW": image.crop_size_w, "cropSizeH": image.crop_size_h}
    entries |= {"resizeSwitch": 0, "resizeOutputW": 0, "resizeOutputH": 0, "paddingSwitch": int(image.padding)}
    entries |= {"leftPaddingSize": image.left, "rightPaddingSize": image.right}
    entries |= {"topPaddingSize": image.top, "bottomPaddingSize": image.bottom}
    entries |= {f"meanChn{at}": value for at, value in enumerate(image.mean)}
    entries |= {f"minChn{at}": value for at, value in enumerate(image.minimum)}
    entries |= {f"varReciChn{at}": value for at, value in enumerate(image.var_reci)}
    return {**entries, "outDims": shapes}


_GIVEN = ((0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 2))


def _shapes(tensors: Any, om: OmModel, name: str) -> dict[str, Any]:
    """The source's shape and what AIPP makes of it (float16, five dimensions) for one gear."""
    batch = next((tensor.dims[0] for tensor in tensors if tensor.name == name and len(tensor.dims) == 4), 0)
    images, channels, height, width = om.aipp[name]["model_dims"]
    gear: tuple[int, ...] = next((tensor.dims for tensor in tensors if tensor.name == name), ())
    if len(gear) == 4 and om.gears.get("kind") == "image":
        height, width = gear[1], gear[2]
    dims = [batch or images, channels, height, width]
    made = [dims[0], -(-channels // 16), height, width, 16]
    elements = dims[0] * channels * height * width
    return {
        "srcDims": {"name": name, "dimCount": 4, "dims": dims},
        "srcSize": elements * 4,
        "aippOutdims": {"name": "features", "dimCount": 5, "dims": made},
        "aippOutSize": made[0] * made[1] * height * width * 16 * 2,
    }
