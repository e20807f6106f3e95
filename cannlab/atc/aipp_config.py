"""``--insert_op_conf``: reading an AIPP configuration, and putting AIPP into the graph.

Keys, defaults and limits: pyacl-and-atc 3.5 and the documented template. What is wrong with a configuration is E10052;
text that is no configuration at all is a file that cannot be parsed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto

from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.atc.prototxt import Message, TextError, Word, parse
from cannlab.atc.source import read_file
from cannlab.machine import aipp, builtin_ops
from cannlab.machine.aipp import Aipp, BatchAipp, ImageFormat
from cannlab.soc import Soc

STATIC, DYNAMIC = "static", "dynamic"

_BOOL = frozenset(("crop", "padding", "csc_switch", "rbuv_swap_switch", "ax_swap_switch"))
_COUNTS: dict[str, tuple[int, int]] = {
    "related_input_rank": (0, 1 << 31),
    "max_src_image_size": (0, 1 << 31),
    "src_image_size_w": (0, 4096),
    "src_image_size_h": (0, 4096),
    "load_start_pos_w": (0, 4095),
    "load_start_pos_h": (0, 4095),
    "crop_size_w": (0, 4096),
    "crop_size_h": (0, 4096),
    **{f"{side}_padding_size": (0, 32) for side in ("left", "right", "top", "bottom")},
    **{f"matrix_r{row}c{column}": (-32677, 32676) for row in range(3) for column in range(3)},
    **{f"{side}_bias_{index}": (0, 255) for side in ("input", "output") for index in range(3)},
    **{f"mean_chn_{index}": (0, 255) for index in range(4)},
}
_REALS: dict[str, tuple[float, float]] = {
    "padding_value": (-65504, 65504),
    **{f"min_chn_{index}": (0, 255) for index in range(4)},
    **{f"var_reci_chn_{index}": (-65504, 65504) for index in range(4)},
}
_WORDS = frozenset(("aipp_mode", "input_format"))
RESERVED: dict[str, object] = {
    "resize": Word("false"),
    "resize_output_w": 0,
    "resize_output_h": 0,
    "rotation_angle": 0,
    "single_line_mode": Word("false"),
    "cpadding_value": 0,
    "support_rotation": Word("false"),
    "raw_rgbir_to_f16_n": 8,
}
"""Keys of the template that no chip supports: their default alone is taken."""

_UNSUPPORTED_FORMATS = frozenset(
    ("NC1HWC0DI_FP16", "NC1HWC0DI_S8", "ARGB8888_U8", "YUYV_U8", "YUV422SP_U8", "AYUV444_U8")
    + ("RAW10", "RAW12", "RAW16", "RAW24", "RGB16", "RGB20", "RGB24", "RGB8_IR", "RGB16_IR", "RGB24_IR")
)

TO_BGR = (298, 516, 0, 298, -100, -208, 298, 0, 409)
TO_YUV = (66, 129, 25, -38, -74, 112, 112, -94, -18)
"""Coefficients where the configuration gives none: from YUV (rows B, G, R), and to YUV."""

_NARROW = frozenset(("Ascend310P", "Ascend910"))
_NARROW_WIDTH, _WIDTH = 1080, 4096


@dataclass(frozen=True)
class AippOp:
    """One aipp_op of a configuration: mode, index of the input, and the keys given."""

    mode: str
    rank: int
    keys: Mapping[str, Any]

    def get(self, key: str, default: Any = 0) -> Any:
        """A key's value."""
        return self.keys.get(key, default)


def _bad(reason: str) -> AtcError:
    return atc_error("aipp", reason=reason)


def read(path: str, *, image_gears: bool = False) -> tuple[AippOp, ...]:
    """Read a configuration and check each aipp_op by itself; () for no path.

    Args:
        image_gears: True with ``--dynamic_image_size``, which excludes crop, padding and a source size.

    Raises:
        AtcError: rules of :func:`source.read_file`, ``atc.aipp_text``, ``atc.aipp``.
    """
    if not path:
        return ()
    try:
        text = read_file(path, "--insert_op_conf").decode("utf-8")
        message = parse(text)
    except (UnicodeDecodeError, TextError) as problem:
        reason = str(problem) if isinstance(problem, TextError) else "it is not a text file"
        raise atc_error("aipp_text", path=path, reason=reason) from problem
    found = []
    for name, value, line in message:
        if name != "aipp_op" or not isinstance(value, Message):
            raise atc_error("aipp_text", path=path, reason=f"line {line}: {name} is not aipp_op {{ ... }}")
        found.append(_op(path, value))
    if not found:
        raise _bad("there is no aipp_op in it")
    ranks = [op.rank for op in found]
    if len(set(ranks)) != len(ranks):
        raise _bad(f"two aipp_op have related_input_rank {max(ranks, key=ranks.count)}")
    for op in found:
        _check(op, image_gears)
    return tuple(found)


def _op(path: str, message: Message) -> AippOp:
    keys: dict[str, Any] = {}
    for name, value, line in message:
        known = name in (*_WORDS, *_BOOL, *_COUNTS, *_REALS, *RESERVED, "related_input_name")
        if not known or isinstance(value, Message):
            raise atc_error("aipp_text", path=path, reason=f"line {line}: aipp_op has no key {name}")
        if name in keys:
            raise _bad(f"{name} is given twice")
        if name in RESERVED and value != RESERVED[name]:
            raise _bad(f"{name} is reserved: no chip supports it, only its default is taken")
        keys[name] = _value(path, name, value, line)
    if keys.get("related_input_name"):
        raise _bad("related_input_name is for Caffe models: use related_input_rank")
    mode = keys.get("aipp_mode", "")
    if mode not in (STATIC, DYNAMIC):
        raise _bad("aipp_mode must be static or dynamic")
    return AippOp(mode, keys.get("related_input_rank", 0), keys)


def _value(path: str, name: str, value: object, line: int) -> Any:
    """A key's value in its type."""

    def wrong(wanted: str) -> AtcError:
        return atc_error("aipp_text", path=path, reason=f"line {line}: {name} takes {wanted}")

    if name in _BOOL:
        text = value.text if isinstance(value, Word) else str(value)
        if text not in ("true", "false", "1", "0"):
            raise wrong("true or false")
        return text in ("true", "1")
    if name in _WORDS:
        if not isinstance(value, Word):
            raise wrong("a word, without quotes")
        if name == "input_format":
            return _format(path, value.text, line)
        return value.text
    limits: tuple[float, float] | None = _COUNTS.get(name) or _REALS.get(name)
    if limits is not None:
        if not isinstance(value, int) and not (name in _REALS and isinstance(value, float)):
            raise wrong("a whole number" if name in _COUNTS else "a number")
        if not limits[0] <= value <= limits[1]:
            raise _bad(f"{name} is {value}, not {limits[0]} to {limits[1]}")
    return value


def _format(path: str, text: str, line: int) -> str:
    if text in _UNSUPPORTED_FORMATS:
        raise _bad(f"input_format {text} is not supported: use one of {', '.join(ImageFormat.__members__)}")
    if text not in ImageFormat.__members__:
        raise atc_error("aipp_text", path=path, reason=f"line {line}: {text} is no input_format")
    return text


def _check(op: AippOp, image_gears: bool) -> None:
    crop_or_padding = op.get("crop", False) or op.get("padding", False)
    if image_gears and crop_or_padding:
        raise _bad("when --dynamic_image_size is set, crop and padding cannot be true")
    if op.mode == DYNAMIC:
        if op.get("max_src_image_size") <= 0:
            raise _bad("dynamic AIPP needs max_src_image_size above 0")
        return
    if "input_format" not in op.keys:
        raise _bad("static AIPP needs input_format")
    width, height = op.get("src_image_size_w"), op.get("src_image_size_h")
    if image_gears and (width or height):
        raise _bad("when --dynamic_image_size is set, src_image_size_w and src_image_size_h must be 0")
    if width == 1:
        raise _bad("src_image_size_w is 1, not 0 or 2 to 4096")
    if crop_or_padding and not (width and height):
        raise _bad("with crop or padding, src_image_size_w and src_image_size_h must be given")
    if op.get("csc_switch", False) and op.get("input_format") == "YUV400_U8":
        raise _bad("YUV400_U8 has one channel: csc_switch cannot be true")


# -- into the graph ------------------------------------------------------------------------------------------


def insert(
    graph: Graph, ops: tuple[AippOp, ...], soc: Soc, *, half_inputs: frozenset[str], images: int = 0
) -> dict[str, Any]:
    """Put AIPP behind the inputs that a configuration names; the inputs become images.

    Args:
        graph: with fixed shapes of those inputs.
        ops: the configuration.
        soc: the chip.
        half_inputs: names in ``--input_fp16_nodes``.
        images: images that the block of dynamic parameters is for (the largest gear's); the batch by default.

    Returns:
        What the om says of each input: mode, parameters, shapes.

    Raises:
        AtcError: rules ``atc.aipp``, ``atc.aipp_fp16``.
    """
    inputs = list(graph.inputs)
    found: dict[str, Any] = {}
    for op in ops:
        if op.rank >= len(inputs):
            raise _bad(f"related_input_rank is {op.rank}, the model has {len(inputs)} inputs")
        name = inputs[op.rank]
        if name in half_inputs:
            raise atc_error("aipp_fp16", name=name)
        dtype, dims = graph.types[name][0], graph.shape(name)
        if dims is None:
            raise _bad(f"input {name} has a range of shapes, which AIPP cannot make: give it one shape, or gears")
        if len(dims) != 4 or dtype not in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16):
            raise _bad(f"input {name} is no image: AIPP makes a float tensor of N, C, H, W")
        if op.mode == STATIC:
            found[name] = _static(graph, op, soc, name, dims)
        else:
            number = sum(entry["mode"] == DYNAMIC for entry in found.values())
            found[name] = _dynamic(graph, op, name, dims, images or dims[0], number)
    return found


def _add_node(graph: Graph, name: str, dims: tuple[int, ...], config: Mapping[str, Any], extra: list[str]) -> None:
    target = f"{name}/aipp"
    dtype = graph.types[name][0]
    graph.replace_tensor(name, target)
    node = Node(f"{name}_0_aipp", "Aipp", builtin_ops.DOMAIN, [name, *extra], [target], origins=())
    node.set("dims", list(dims))
    node.set("dtype", dtype)
    node.set("config", json.dumps(config, sort_keys=True))
    graph.nodes.insert(0, node)
    graph.opsets[builtin_ops.DOMAIN] = 1


def _static(graph: Graph, op: AippOp, soc: Soc, name: str, dims: tuple[int, ...]) -> dict[str, Any]:
    made = parameters(op, dims)
    _check_image(made, op, dims, name, soc)
    _add_node(graph, name, dims, made.to_json(), [])
    images, height, width = dims[0], made.height, made.width
    shape = (images, height * 3 // 2, width, 1) if made.format is ImageFormat.YUV420SP_U8 else None
    shown = (images, height, width, made.format.last_dim)
    graph.types[name] = (int(TensorProto.UINT8), shape or shown)
    return {
        "mode": STATIC,
        "parameters": made.to_json(),
        "model_dims": list(dims),
        "dims": list(shown),
        "size": images * made.image_bytes,
    }


def _dynamic(graph: Graph, op: AippOp, name: str, dims: tuple[int, ...], images: int, number: int) -> dict[str, Any]:
    block = aipp.DATA_INPUT + (f"_{number}" if number else "")
    graph.inputs.append(block)
    graph.types[block] = (int(TensorProto.UINT8), (aipp.block_bytes(images),))
    _add_node(graph, name, dims, {}, [block])
    size = op.get("max_src_image_size")
    graph.types[name] = (int(TensorProto.UINT8), (size,))
    return {"mode": DYNAMIC, "data": block, "model_dims": list(dims), "dims": [size], "size": size}


def parameters(op: AippOp, dims: tuple[int, ...]) -> Aipp:
    """The parameters of a static aipp_op for a model input of N, C, H, W."""
    format = ImageFormat[op.get("input_format")]
    crop, padding = op.get("crop", False), op.get("padding", False)
    sides = {side: op.get(f"{side}_padding_size") if padding else 0 for side in ("top", "bottom", "left", "right")}
    default = TO_BGR if format is ImageFormat.YUV420SP_U8 else TO_YUV
    matrix = [op.get(f"matrix_r{at // 3}c{at % 3}", default[at]) for at in range(9)]
    image = BatchAipp(
        crop=crop,
        crop_w=op.get("load_start_pos_w") if crop else 0,
        crop_h=op.get("load_start_pos_h") if crop else 0,
        crop_size_w=(op.get("crop_size_w") or dims[3] - sides["left"] - sides["right"]) if crop else 0,
        crop_size_h=(op.get("crop_size_h") or dims[2] - sides["top"] - sides["bottom"]) if crop else 0,
        padding=padding,
        mean=tuple(op.get(f"mean_chn_{index}") for index in range(4)),
        minimum=tuple(float(op.get(f"min_chn_{index}")) for index in range(4)),
        var_reci=tuple(float(op.get(f"var_reci_chn_{index}", 1.0)) for index in range(4)),
        **sides,
    )
    return Aipp(
        format=format,
        width=op.get("src_image_size_w") or dims[3],
        height=op.get("src_image_size_h") or dims[2],
        csc=op.get("csc_switch", False),
        swap_rb=op.get("rbuv_swap_switch", False),
        swap_ax=op.get("ax_swap_switch", False),
        matrix=tuple(matrix),
        input_bias=tuple(op.get(f"input_bias_{index}", default) for index, default in enumerate((16, 128, 128))),
        output_bias=tuple(op.get(f"output_bias_{index}", default) for index, default in enumerate((16, 128, 128))),
        padding_value=float(op.get("padding_value")),
        batch=(image,),
    )


def _check_image(made: Aipp, op: AippOp, dims: tuple[int, ...], name: str, soc: Soc) -> None:
    """What the parameters make against what the model reads."""
    (image,) = made.batch
    if made.format is ImageFormat.YUV420SP_U8:
        if made.width % 2 or made.height % 2:
            raise _bad(f"YUV420SP_U8 needs an even source size, not {made.width} x {made.height}")
        if (image.crop_w % 2 or image.crop_h % 2) and soc.short != "Ascend910_95":
            raise _bad("load_start_pos_w and load_start_pos_h must be even for YUV420SP_U8")
    right, bottom = image.crop_w + image.crop_size_w, image.crop_h + image.crop_size_h
    if image.crop and (right > made.width or bottom > made.height):
        raise _bad(f"the crop ends at {right} x {bottom}, outside the source image of {made.width} x {made.height}")
    height, width = made.output_size()
    if (height, width) != dims[2:]:
        raise _bad(
            f"AIPP makes images of {height} x {width} (height x width), "
            f"input {name} of the model reads {dims[2]} x {dims[3]}"
        )
    limit = _NARROW_WIDTH if soc.short in _NARROW else _WIDTH
    if image.padding and width > limit:
        raise _bad(f"with padding the width is {width}; {soc.name} takes up to {limit}")
    channels = 3 if made.csc else made.format.channels
    if dims[1] > channels:
        raise _bad(f"{made.format.name} gives {channels} channels, input {name} of the model reads {dims[1]}")
