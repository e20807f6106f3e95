"""``--singleop``: from a JSON description of operators to an ONNX model for each.

Operators are named by their GE type. Source: documentation of single-operator descriptions; codes E10024 to E10030 and
E14001 of the error code index.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cannlab.atc import support
from cannlab.atc.errors import AtcError, atc_error
from cannlab.machine.shape_inference import infer_shapes
from cannlab.om import Format, dtypes
from cannlab.om.dtypes import DataType

OPSET = 13

_TYPE_NAMES = {"fp16": "float16", "half": "float16", "float": "float32", "double": "float64"}
_RESERVED_TYPE, _RESERVED_FORMAT = "UNDEFINED", "RESERVED"
_ATTR_TYPES: dict[str, type | tuple[type, ...]] = {
    "bool": bool,
    "int": int,
    "float": (int, float),
    "string": str,
    "list_bool": list,
    "list_int": list,
    "list_float": list,
    "list_string": list,
    "list_list_int": list,
    "data_type": (int, str),
}


@dataclass(frozen=True)
class Tensor:
    """An input or output as described; ``dtype`` is None for an optional input without data."""

    dtype: DataType | None
    format: Format
    dims: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...] = ()
    constant: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class SingleOp:
    """One described operator."""

    index: int
    op_type: str
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Name of its om, without ending: the given one, or number, type and descriptions of the tensors."""
        if self.name:
            return self.name
        parts: list[object] = [self.index, self.op_type]
        for tensor in (*self.inputs, *self.outputs):
            parts += [tensor.dtype.acl if tensor.dtype is not None else 28, int(tensor.format), *tensor.dims]
        return "_".join(map(str, parts))

    @property
    def input_shape(self) -> str:
        """``--input_shape`` for its model; "" if all shapes are fixed."""
        if not any(tensor.ranges for tensor in self.inputs):
            return ""
        return ";".join(f"x{at}:{_dims(tensor)}" for at, tensor in _data(self.inputs))


def _data(inputs: Sequence[Tensor]) -> list[tuple[int, Tensor]]:
    return [(at, tensor) for at, tensor in enumerate(inputs) if tensor.dtype is not None and tensor.constant is None]


def _dims(tensor: Tensor) -> str:
    ranges = iter(tensor.ranges)
    words = []
    for dim in tensor.dims:
        if dim >= 0:
            words.append(str(dim))
        else:
            low, high = next(ranges, (0, -1))
            words.append("-1" if (low, high) == (0, -1) else f"{low}~{high}")
    return ",".join(words)


# -- reading ---------------------------------------------------------------------------------------------------


def read(path: str) -> tuple[SingleOp, ...]:
    """The operators that a file describes.

    Raises:
        AtcError: rules ``atc.singleop_file``, ``atc.singleop_json``, ``atc.singleop_no_type``, ``atc.singleop_desc``,
            ``atc.singleop_attr_name``, ``atc.singleop_attr``.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise atc_error("singleop_file", path=path, reason=reason) from problem
    try:
        content = json.loads(text)
    except ValueError as problem:
        raise atc_error("singleop_json", path=path, reason=str(problem)) from problem
    if not isinstance(content, list) or not content or not all(isinstance(entry, dict) for entry in content):
        raise atc_error("singleop_json", path=path, reason="it is not a list of operators")
    return tuple(_op(path, index, entry) for index, entry in enumerate(content))


def _op(path: str, index: int, entry: Mapping[str, Any]) -> SingleOp:
    op_type = entry.get("op", "")
    if not isinstance(op_type, str) or not op_type:
        raise atc_error("singleop_no_type", index=index)
    sides = {}
    for side in ("input_desc", "output_desc"):
        tensors = entry.get(side, [])
        if not isinstance(tensors, list):
            raise atc_error("singleop_json", path=path, reason=f"{side} of operator {index} is no list")
        sides[side] = tuple(_tensor(op_type, side, at, tensor) for at, tensor in enumerate(tensors))
    return SingleOp(
        index=index,
        op_type=op_type,
        name=str(entry.get("name", "")),
        inputs=sides["input_desc"],
        outputs=sides["output_desc"],
        attributes=_attributes(op_type, entry.get("attr", [])),
    )


def _tensor(op_type: str, side: str, at: int, entry: Any) -> Tensor:
    def bad(key: str, value: Any) -> AtcError:
        return atc_error("singleop_desc", op_type=op_type, side=side, index=at, key=key, value=value)

    if not isinstance(entry, dict):
        raise bad("desc", entry)
    name, format = entry.get("type"), entry.get("origin_format", entry.get("format"))
    if name == _RESERVED_TYPE and entry.get("format") == _RESERVED_FORMAT:
        return Tensor(None, Format.ND, ())
    dtype = {item.name: item for item in dtypes.ALL}.get(_TYPE_NAMES.get(name, name) if isinstance(name, str) else "")
    if dtype is None:
        raise bad("type", name)
    if not isinstance(format, str) or format not in Format.__members__:
        raise bad("format", format)
    dims = entry.get("origin_shape", entry.get("shape"))
    if not isinstance(dims, list) or not all(isinstance(dim, int) and dim >= -1 for dim in dims):
        raise bad("shape", dims)
    ranges = entry.get("shape_range", [])
    if not isinstance(ranges, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in ranges):
        raise bad("shape_range", ranges)
    if ranges and len(ranges) != dims.count(-1):
        raise bad("shape_range", ranges)
    open_ranges = tuple((int(low), int(high)) for low, high in ranges) or ((0, -1),) * dims.count(-1)
    constant = tuple(entry.get("const_value", ())) if entry.get("is_const", False) else None
    if constant is not None and len(constant) != int(np.prod(dims)):
        raise bad("const_value", list(constant))
    return Tensor(dtype, Format[format], tuple(dims), open_ranges, constant)


def _attributes(op_type: str, entries: Any) -> dict[str, Any]:
    found = {}
    for entry in entries if isinstance(entries, list) else []:
        name = entry.get("name", "") if isinstance(entry, dict) else ""
        if not name:
            raise atc_error("singleop_attr_name", op_type=op_type)
        kind, value = entry.get("type"), entry.get("value")
        if kind not in _ATTR_TYPES or not isinstance(value, _ATTR_TYPES[kind]) or (kind == "int" and value is True):
            raise atc_error("singleop_attr", op_type=op_type, name=name, kind=kind, known=", ".join(_ATTR_TYPES))
        found[name] = value
    return found


# -- to ONNX ---------------------------------------------------------------------------------------------------

Built = tuple[list[onnx.NodeProto], dict[str, "np.ndarray[Any, Any]"]]
"""Nodes, and constants by name."""

_PLAIN = {
    **{name: name for name in ("Abs", "Add", "Ceil", "Cos", "Equal", "Erf", "Exp", "Floor", "Greater", "Identity")},
    **{name: name for name in ("Less", "Log", "Mul", "Neg", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign")},
    **{name: name for name in ("Sin", "Softplus", "Sqrt", "Sub", "Tan", "Tanh", "Div")},
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "GreaterEqual": "GreaterOrEqual",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "LogicalNot": "Not",
    "AddN": "Sum",
    "AccumulateNV2": "Sum",
    "SelectV2": "Where",
    "Expand": "Expand",
    "Tile": "Tile",
    "Reshape": "Reshape",
}
"""GE types whose ONNX operator has the same inputs and no attribute."""


def _simple(onnx_type: str) -> Callable[[SingleOp, list[str]], Built]:
    def build(op: SingleOp, names: list[str]) -> Built:
        return [helper.make_node(onnx_type, names, ["y0"], op.op_type)], {}

    return build


def _conv(op: SingleOp, names: list[str]) -> Built:
    # GE's lists have four numbers for N, C, H, W; pads are top, bottom, left, right.
    strides, dilations = (op.attributes.get(key, [1, 1, 1, 1])[-2:] for key in ("strides", "dilations"))
    top, bottom, left, right = op.attributes.get("pads", [0, 0, 0, 0])
    node = helper.make_node(
        "Conv",
        names[:3] if len(names) > 2 and names[2] else names[:2],
        ["y0"],
        op.op_type,
        kernel_shape=list(op.inputs[1].dims[2:]),
        strides=strides,
        dilations=dilations,
        pads=[top, left, bottom, right],
        group=op.attributes.get("groups", 1),
    )
    return [node], {}


def _matmul(first: str, second: str) -> Callable[[SingleOp, list[str]], Built]:
    def build(op: SingleOp, names: list[str]) -> Built:
        nodes, operands = [], []
        for at, key in enumerate((first, second)):
            name = names[at]
            if op.attributes.get(key, False):
                rank = len(op.inputs[at].dims)
                perm = [*range(rank - 2), rank - 1, rank - 2]
                nodes.append(helper.make_node("Transpose", [name], [f"{name}t"], f"{op.op_type}_t{at}", perm=perm))
                name = f"{name}t"
            operands.append(name)
        biased = len(names) > 2 and names[2]
        nodes.append(helper.make_node("MatMul", operands, ["product" if biased else "y0"], op.op_type))
        if biased:
            nodes.append(helper.make_node("Add", ["product", names[2]], ["y0"], f"{op.op_type}_bias"))
        return nodes, {}

    return build


def _with(onnx_type: str, **renamed: str) -> Callable[[SingleOp, list[str]], Built]:
    """An operator whose attributes have other names: ``onnx_name="ge_name"``."""

    def build(op: SingleOp, names: list[str]) -> Built:
        attributes = {to: op.attributes[given] for to, given in renamed.items() if given in op.attributes}
        return [helper.make_node(onnx_type, names, ["y0"], op.op_type, **attributes)], {}

    return build


def _softmax(op: SingleOp, names: list[str]) -> Built:
    axes = op.attributes.get("axes", [-1])
    return [helper.make_node("Softmax", names[:1], ["y0"], op.op_type, axis=axes[0])], {}


def _cast(op: SingleOp, names: list[str]) -> Built:
    number = op.attributes.get("dst_type", op.outputs[0].dtype.acl if op.outputs[0].dtype is not None else 0)
    found = next((item for item in dtypes.ALL if number in (item.acl, item.ge)), None)
    if found is None:
        raise atc_error("singleop_attr", op_type=op.op_type, name="dst_type", kind=number, known="known types")
    return [helper.make_node("Cast", names[:1], ["y0"], op.op_type, to=found.onnx)], {}


BUILDERS: dict[str, Callable[[SingleOp, list[str]], Built]] = {
    **{ge: _simple(name) for ge, name in _PLAIN.items()},
    "Conv2D": _conv,
    "MatMul": _matmul("transpose_x1", "transpose_x2"),
    "MatMulV2": _matmul("transpose_x1", "transpose_x2"),
    "BatchMatMul": _matmul("adj_x1", "adj_x2"),
    "BatchMatMulV2": _matmul("adj_x1", "adj_x2"),
    "SoftmaxV2": _softmax,
    "Cast": _cast,
    "LeakyRelu": _with("LeakyRelu", alpha="negative_slope"),
    "Elu": _with("Elu", alpha="alpha"),
    "ConcatD": _with("Concat", axis="concat_dim"),
    "TransposeD": _with("Transpose", perm="perm"),
}
"""GE type -> what makes its ONNX nodes."""


def to_onnx(op: SingleOp) -> onnx.ModelProto:
    """The model of one operator: inputs x0, x1, ..., outputs y0, ...

    Raises:
        AtcError: rules ``atc.no_ir`` for a type that GE does not know, ``atc.singleop_not_emulated``,
            ``atc.singleop_output`` if the outputs do not fit the inputs.
    """
    build = BUILDERS.get(op.op_type)
    if build is None:
        if op.op_type in {entry.ge_type for entry in support.table().values()}:
            raise atc_error("singleop_not_emulated", op_type=op.op_type, known=", ".join(sorted(BUILDERS)))
        raise atc_error("no_ir", op_type=op.op_type)
    names = [f"x{at}" if tensor.dtype is not None else "" for at, tensor in enumerate(op.inputs)]
    while names and not names[-1]:
        names.pop()
    try:
        nodes, constants = build(op, names)
    except (IndexError, KeyError, ValueError, TypeError) as problem:
        raise atc_error("singleop_output", op_type=op.op_type, reason=f"its inputs or attributes ({problem})") from None
    for at, tensor in enumerate(op.inputs):
        if tensor.constant is not None and tensor.dtype is not None:
            constants[f"x{at}"] = np.array(tensor.constant, tensor.dtype.numpy).reshape(tensor.dims)
    graph = helper.make_graph(
        nodes,
        op.op_type,
        [_info(f"x{at}", tensor) for at, tensor in _data(op.inputs)],
        [_info(f"y{at}", tensor) for at, tensor in enumerate(op.outputs)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    try:
        infer_shapes(model, strict_mode=True, check_type=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as problem:
        reason = str(problem).strip().splitlines()[-1].strip()
        raise atc_error("singleop_output", op_type=op.op_type, reason=reason) from problem
    return model


def _info(name: str, tensor: Tensor) -> onnx.ValueInfoProto:
    dtype = tensor.dtype.onnx if tensor.dtype is not None else int(TensorProto.UNDEFINED)
    return helper.make_tensor_value_info(name, dtype, [dim if dim >= 0 else None for dim in tensor.dims])
