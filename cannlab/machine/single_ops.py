"""Single operators: one built-in operator of the chip as a model of its own, run by the same executor as an om.

An operator is named by its GE type; :func:`build` makes the om of one for given tensors. On hardware ``acl.op`` finds
only operators whose om was loaded; here the built-in ones of this table are always there. Source: pyacl-semantics 10;
operator information of CANN 8.1 for names, attributes and inputs that must be known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from cannlab.om import Cost, Format, OmModel, OmTensor, Task, dtypes

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    from cannlab.soc import Soc

OPSET = 13
IR_VERSION = 8


class Unbuildable(Exception):
    """No operator fits what was asked for; the text says why."""


@dataclass(frozen=True)
class Operand:
    """An input: its description, and its value where that is known before the operator runs."""

    tensor: OmTensor
    value: NDArray[Any] | None = None


@dataclass
class _Order:
    """What a builder works on: operands called x0, x1, ..., attributes, and the nodes that it makes, ending in y0."""

    op_type: str
    operands: Sequence[Operand]
    outputs: Sequence[OmTensor]
    attributes: Mapping[str, Any]
    nodes: list[onnx.NodeProto]
    constants: dict[str, NDArray[Any]]
    cube: tuple[int, ...] = ()

    def node(self, onnx_type: str, inputs: Sequence[str], output: str = "y0", **attributes: Any) -> str:
        from onnx import helper

        name = self.op_type if output == "y0" else f"{self.op_type}_{output}"
        self.nodes.append(helper.make_node(onnx_type, list(inputs), [output], name, **attributes))
        return output

    def constant(self, name: str, values: Any) -> str:
        import numpy as np

        self.constants[name] = np.array(values, np.int64)
        return name

    def known(self, at: int) -> list[int]:
        """The value of an input that shapes the operator (axes, sizes)."""
        value = self.operands[at].value
        if value is None:
            raise Unbuildable(f"the value of input {at} is not known")
        return [int(item) for item in value.reshape(-1)]

    def dims(self, at: int = 0) -> tuple[int, ...]:
        return self.operands[at].tensor.dims


Builder = Callable[[_Order], None]


@dataclass(frozen=True)
class _Entry:
    """A built-in operator: its builder, how many inputs it takes, and which of them must be known."""

    build: Builder
    least: int
    most: int
    known: tuple[int, ...] = ()


def _plain(onnx_type: str) -> Builder:
    """The same inputs, no attributes."""

    def build(order: _Order) -> None:
        order.node(onnx_type, [f"x{at}" for at in range(len(order.operands))])

    return build


def _matmul(first: str, second: str) -> Builder:
    def build(order: _Order) -> None:
        names = []
        for at, key in enumerate((first, second)):
            name, rank = f"x{at}", len(order.dims(at))
            if rank < 2:
                raise Unbuildable(f"input {at} is no matrix")
            if order.attributes.get(key, False):
                name = order.node("Transpose", [name], f"t{at}", perm=[*range(rank - 2), rank - 1, rank - 2])
            names.append(name)
        biased = len(order.operands) > 2
        product = order.node("MatMul", names, "product" if biased else "y0")
        if biased:
            order.node("Add", [product, "x2"])
        rows, inner = order.dims(0)[-2:]
        if order.attributes.get(first, False):
            rows, inner = inner, rows
        shape = order.outputs[0].dims
        order.cube = (prod(shape[:-2]), rows, -(-inner // 16) * 16, shape[-1] if shape else 1)

    return build


def _cast(order: _Order) -> None:
    wanted = dtypes.by_acl(order.attributes.get("dst_type", order.outputs[0].dtype))
    order.node("Cast", ["x0"], to=wanted.onnx)


def _transpose(order: _Order) -> None:
    order.node("Transpose", ["x0"], perm=order.known(1))


def _transpose_d(order: _Order) -> None:
    order.node("Transpose", ["x0"], perm=list(order.attributes["perm"]))


def _reduce(onnx_type: str, *, fixed: bool) -> Builder:
    """A reduction: the axes are an attribute (``fixed``) or the second input."""

    def build(order: _Order) -> None:
        axes = list(order.attributes["axes"]) if fixed else order.known(1)
        keep = int(order.attributes.get("keep_dims", False))
        if onnx_type == "ReduceSum":
            order.node(onnx_type, ["x0", order.constant("axes", axes)], keepdims=keep)
        else:
            order.node(onnx_type, ["x0"], axes=axes, keepdims=keep)

    return build


def _softmax(order: _Order) -> None:
    axes = list(order.attributes.get("axes", [-1]))
    if len(axes) != 1:
        raise Unbuildable(f"Softmax over {len(axes)} axes is not emulated")
    order.node("Softmax", ["x0"], axis=axes[0])


def _log_softmax(order: _Order) -> None:
    axes = list(order.attributes.get("axes", [-1]))
    order.node("LogSoftmax", ["x0"], axis=axes[0])


def _slice(order: _Order) -> None:
    _cut(order, order.known(1), order.known(2))


def _slice_d(order: _Order) -> None:
    _cut(order, list(order.attributes["offsets"]), list(order.attributes["size"]))


def _cut(order: _Order, offsets: list[int], sizes: list[int]) -> None:
    dims = order.dims()
    if len(offsets) != len(dims) or len(sizes) != len(dims):
        raise Unbuildable("offsets and size need a number for each axis")
    ends = [dim if size == -1 else at + size for at, size, dim in zip(offsets, sizes, dims, strict=True)]
    if any(not 0 <= at <= end <= dim for at, end, dim in zip(offsets, ends, dims, strict=True)):
        raise Unbuildable("the slice does not lie in the tensor")
    order.node("Slice", ["x0", order.constant("starts", offsets), order.constant("ends", ends)])


def _concat(order: _Order) -> None:
    order.node("Concat", [f"x{at}" for at in range(len(order.operands))], axis=int(order.attributes["concat_dim"]))


def _reshape(order: _Order) -> None:
    order.node("Reshape", ["x0", order.constant("shape", order.known(1))])


def _tile_d(order: _Order) -> None:
    order.node("Tile", ["x0", order.constant("repeats", list(order.attributes["multiples"]))])


def _tile(order: _Order) -> None:
    order.node("Tile", ["x0", order.constant("repeats", order.known(1))])


def _broadcast_d(order: _Order) -> None:
    order.node("Expand", ["x0", order.constant("shape", list(order.attributes["shape"]))])


def _broadcast(order: _Order) -> None:
    order.node("Expand", ["x0", order.constant("shape", order.known(1))])


def _gather(order: _Order) -> None:
    order.node("Gather", ["x0", "x1"], axis=order.known(2)[0])


def _arg_max(order: _Order) -> None:
    found = order.node("ArgMax", ["x0"], "found", axis=order.known(1)[0], keepdims=0)
    order.node("Cast", [found], to=dtypes.by_acl(order.outputs[0].dtype).onnx)


def _arg_max_d(order: _Order) -> None:
    found = order.node("ArgMax", ["x0"], "found", axis=int(order.attributes["dimension"]), keepdims=0)
    order.node("Cast", [found], to=dtypes.by_acl(order.outputs[0].dtype).onnx)


def _square(order: _Order) -> None:
    order.node("Mul", ["x0", "x0"])


def _rsqrt(order: _Order) -> None:
    order.node("Reciprocal", [order.node("Sqrt", ["x0"], "root")])


def _with_attribute(onnx_type: str, onnx_name: str, ge_name: str) -> Builder:
    def build(order: _Order) -> None:
        given = {onnx_name: order.attributes[ge_name]} if ge_name in order.attributes else {}
        order.node(onnx_type, ["x0"], **given)

    return build


def _gemm(order: _Order) -> None:
    """alpha * op(A) * op(B) + beta * C: inputs a, b, c, alpha, beta (the blas interface)."""
    names = []
    for at, key in enumerate(("transpose_a", "transpose_b")):
        turned = order.attributes.get(key, False)
        names.append(order.node("Transpose", [f"x{at}"], f"t{at}", perm=[1, 0]) if turned else f"x{at}")
    whole = dtypes.by_acl(order.operands[0].tensor.dtype).name == "int8"
    product = order.node("MatMulInteger" if whole else "MatMul", names, "product")
    scaled = order.node("Mul", ["x3", product], "scaled")
    order.node("Add", [scaled, order.node("Mul", ["x4", "x2"], "kept")])
    rows, columns = order.outputs[0].dims
    inner = order.dims(0)[0 if order.attributes.get("transpose_a", False) else 1]
    order.cube = (1, rows, -(-inner // 16) * 16, columns)


_UNARY: tuple[str, ...] = (
    "Abs",
    "Ceil",
    "Cos",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Sigmoid",
    "Sign",
)
_UNARY += ("Sin", "Softplus", "Sqrt", "Tan", "Tanh", "Identity")
_BINARY = {"Add": "Add", "Sub": "Sub", "Mul": "Mul", "Div": "Div", "RealDiv": "Div", "Pow": "Pow", "Maximum": "Max"}
_BINARY |= {"Minimum": "Min", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less"}
_BINARY |= {"LessEqual": "LessOrEqual", "Equal": "Equal", "LogicalAnd": "And", "LogicalOr": "Or"}
_REDUCED = {"ReduceSum": "ReduceSum", "ReduceMax": "ReduceMax", "ReduceMin": "ReduceMin", "ReduceMean": "ReduceMean"}
_REDUCED |= {"ReduceProd": "ReduceProd"}
_MANY = 64

TABLE: dict[str, _Entry] = {
    **{name: _Entry(_plain(name), 1, 1) for name in _UNARY},
    **{name: _Entry(_plain(onnx_type), 2, 2) for name, onnx_type in _BINARY.items()},
    **{name: _Entry(_reduce(onnx_type, fixed=False), 2, 2, (1,)) for name, onnx_type in _REDUCED.items()},
    **{f"{name}D": _Entry(_reduce(onnx_type, fixed=True), 1, 1) for name, onnx_type in _REDUCED.items()},
    "LogicalNot": _Entry(_plain("Not"), 1, 1),
    "SelectV2": _Entry(_plain("Where"), 3, 3),
    "AddN": _Entry(_plain("Sum"), 1, _MANY),
    "Square": _Entry(_square, 1, 1),
    "Rsqrt": _Entry(_rsqrt, 1, 1),
    "LeakyRelu": _Entry(_with_attribute("LeakyRelu", "alpha", "negative_slope"), 1, 1),
    "Elu": _Entry(_with_attribute("Elu", "alpha", "alpha"), 1, 1),
    "MatMul": _Entry(_matmul("transpose_x1", "transpose_x2"), 2, 3),
    "MatMulV2": _Entry(_matmul("transpose_x1", "transpose_x2"), 2, 3),
    "BatchMatMul": _Entry(_matmul("adj_x1", "adj_x2"), 2, 2),
    "BatchMatMulV2": _Entry(_matmul("adj_x1", "adj_x2"), 2, 3),
    "Cast": _Entry(_cast, 1, 1),
    "Transpose": _Entry(_transpose, 2, 2, (1,)),
    "TransposeD": _Entry(_transpose_d, 1, 1),
    "SoftmaxV2": _Entry(_softmax, 1, 1),
    "LogSoftmaxV2": _Entry(_log_softmax, 1, 1),
    "Slice": _Entry(_slice, 3, 3, (1, 2)),
    "SliceD": _Entry(_slice_d, 1, 1),
    "ConcatD": _Entry(_concat, 1, _MANY),
    "Reshape": _Entry(_reshape, 2, 2, (1,)),
    "Tile": _Entry(_tile, 2, 2, (1,)),
    "TileD": _Entry(_tile_d, 1, 1),
    "BroadcastTo": _Entry(_broadcast, 2, 2, (1,)),
    "BroadcastToD": _Entry(_broadcast_d, 1, 1),
    "GatherV2": _Entry(_gather, 3, 3, (2,)),
    "ArgMaxV2": _Entry(_arg_max, 2, 2, (1,)),
    "ArgMaxD": _Entry(_arg_max_d, 1, 1),
    "GEMM": _Entry(_gemm, 5, 5),
}
"""The built-in operators by GE type."""


def known_inputs(op_type: str) -> tuple[int, ...]:
    """Which inputs of an operator must be known before it is built; Unbuildable for one that is not built in."""
    entry = TABLE.get(op_type)
    if entry is None:
        raise Unbuildable(f"{op_type} is not among the built-in operators ({', '.join(sorted(TABLE))})")
    return entry.known


def build(
    op_type: str, operands: Sequence[Operand], outputs: Sequence[OmTensor], attributes: Mapping[str, Any], soc: Soc
) -> OmModel:
    """The om of one operator; its inputs are the operands whose value is not given.

    Args:
        outputs: their descriptions; with dims () of a size that is not known the shape is found.

    Raises:
        Unbuildable: for a type that is not built in, and for tensors or attributes that do not fit it.
    """
    from cannlab import __version__
    from cannlab.errors.tables import cann_version

    known_inputs(op_type)
    entry = TABLE[op_type]
    if not entry.least <= len(operands) <= entry.most:
        raise Unbuildable(f"{op_type} takes {entry.least} to {entry.most} inputs, not {len(operands)}")
    if len(outputs) != 1:
        raise Unbuildable(f"{op_type} has 1 output, not {len(outputs)}")
    order = _Order(op_type, operands, outputs, attributes, [], {})
    try:
        entry.build(order)
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise Unbuildable(f"its attributes do not fit ({problem})") from None
    model = _model(order, outputs[0])
    data = tuple(operand.tensor for operand in operands if operand.value is None)
    cost = Cost(
        bytes_in=sum(tensor.size for tensor in data),
        bytes_out=outputs[0].size,
        cube=order.cube,
        vector_elements=0 if order.cube else max(tensor.elements for tensor in (*data, outputs[0])),
        element_bytes=max(1, min(operands[0].tensor.type.size, 4)) if operands else 2,
    )
    vector = soc.split and not order.cube
    task = Task(
        op_type,
        op_type,
        "AI_VECTOR_CORE" if vector else "AI_CORE",
        (op_type,),
        tuple(node.name for node in order.nodes),
        data,
        tuple(outputs),
        cost,
    )
    return OmModel(
        name=op_type,
        soc=soc.name,
        cann=cann_version(),
        cannlab=__version__,
        inputs=data,
        outputs=tuple(outputs),
        tasks=(task,),
        graph_bytes=model.SerializeToString(),
        weight_bytes=b"",
        work_size=0,
    )


def infer(
    op_type: str, operands: Sequence[Operand], attributes: Mapping[str, Any], dtype: int
) -> tuple[int, tuple[int, ...]]:
    """Type and shape of an operator's output, from its inputs. Raises Unbuildable."""
    known_inputs(op_type)
    order = _Order(op_type, operands, [OmTensor("y0", dtype, Format.ND, ())], attributes, [], {})
    try:
        TABLE[op_type].build(order)
    except (KeyError, ValueError, TypeError, IndexError) as problem:
        raise Unbuildable(f"its attributes do not fit ({problem})") from None
    model = _model(order, None)
    found = model.graph.output[0].type.tensor_type
    kind = dtypes.by_onnx(found.elem_type)
    if kind is None:
        raise Unbuildable(f"its output has a type that the chip does not have ({found.elem_type})")
    return kind.acl, tuple(dim.dim_value for dim in found.shape.dim)


def _model(order: _Order, output: OmTensor | None) -> onnx.ModelProto:
    """The checked graph; without ``output`` the output's type and shape are found."""
    import onnx
    from onnx import helper, numpy_helper

    from cannlab.machine.shape_inference import infer_shapes

    def info(name: str, tensor: OmTensor) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, tensor.type.onnx, list(tensor.dims))

    constants = dict(order.constants)
    used = {name for node in order.nodes for name in node.input}
    for at, operand in enumerate(order.operands):
        if operand.value is not None and f"x{at}" in used:
            constants[f"x{at}"] = operand.value.reshape(operand.tensor.dims)
    data = [(f"x{at}", operand.tensor) for at, operand in enumerate(order.operands) if operand.value is None]
    found = helper.make_empty_tensor_value_info("y0") if output is None else info("y0", output)
    graph = helper.make_graph(
        order.nodes,
        order.op_type,
        [info(*pair) for pair in data],
        [found],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    try:
        model = infer_shapes(model, strict_mode=True, check_type=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as problem:
        raise Unbuildable(str(problem).strip().splitlines()[-1].strip()) from None
    return model
