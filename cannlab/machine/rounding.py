"""Carrying fp16 and bf16 in fp32: rewrites a lowered graph so that ONNX Runtime rounds where the chip does.

Each 16-bit float tensor ``t`` becomes the fp32 tensor ``t/f32``. Where ``t`` leaves a fused operator and is not exact
anyway, a node writes ``t/raw``, a Cast gives ``t`` (fp16) and another one ``t/f32``. ONNX Runtime keeps such a pair,
because it loses precision. The graph is cut at custom operators and at each If; between the parts fp16 tensors are real
fp16 arrays (bf16 ones go in and out as fp32, because ONNX Runtime takes no numpy array of bf16). On a chip that
saturates a Clip stands before the rounding; behind an operator that makes NaN of numbers, NaN becomes 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cannlab.om import OmModel, branch_label
from cannlab.om.model import branches, graphs

EXACT = frozenset(
    ("Abs", "Ceil", "Clip", "Concat", "DepthToSpace", "Expand", "Flatten", "Floor", "Gather", "GatherElements")
    + ("GatherND", "GlobalMaxPool", "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "Relu", "Reshape", "Round")
    + ("Sign", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Where")
)
"""ONNX types whose results are fp16 values if their inputs are: they move or choose values, or round to integers."""

MAKES_NAN = frozenset(
    ("Acos", "Acosh", "Asin", "Atanh", "Cos", "Div", "Log", "LpNormalization", "Mod", "Pow", "ReduceLogSum", "Sin")
    + ("Sqrt", "Tan")
)
"""ONNX types that may give NaN for numbers (where infinities do not occur)."""

BOUNDED = frozenset(("HardSigmoid", "LogSoftmax", "Sigmoid", "Softmax", "Softsign", "Tanh"))
"""ONNX types whose results stay far inside the range of fp16, or overflow only if their inputs do."""

HALF_MAX = 65504.0
"""The largest fp16 number."""

LIMITS = {"half/lowest": -HALF_MAX, "half/highest": HALF_MAX, "half/zero": 0.0}
"""Constants of the rewritten graph, by name, where fp16 saturates."""

HIGHEST = "half/highest"

HALVES = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""The 16-bit float types."""

INLINE_BYTES = 1024
"""Constants up to this size stay in the graph (ONNX Runtime reads shapes from them while it builds the session)."""


@dataclass(frozen=True)
class Part:
    """A run of nodes between custom operators, as a graph of its own in fp32.

    Attributes:
        model: the rewritten graph; initializers in ``weights`` are empty in it.
        weights: large constants by name, fp16 ones as fp32.
        inputs: tensors that it reads, by the names of the lowered graph, in the lowered graph's types (bf16 as fp32).
        outputs: tensors that it gives, and the name under which the rewritten graph gives each.
        shapes: tensors whose shapes it gives too, and the names of those outputs.
    """

    model: onnx.ModelProto
    weights: Mapping[str, NDArray[Any]]
    inputs: tuple[str, ...]
    outputs: Mapping[str, str]
    shapes: Mapping[str, str]


@dataclass(frozen=True)
class Branching:
    """An If: one of two graphs runs.

    Attributes:
        condition: the tensor that decides; True takes the first branch.
        labels: how tasks name the branches.
        branches: the parts of each.
        results: the tensors that each branch gives.
        outputs: the names under which they go on.
    """

    condition: str
    labels: tuple[str, str]
    branches: tuple[list[Piece], list[Piece]]
    results: tuple[tuple[str, ...], tuple[str, ...]]
    outputs: tuple[str, ...]


Piece: TypeAlias = "Part | Branching | onnx.NodeProto"
"""What a graph is cut into; a node is a custom operator."""


class Lowered:
    """A lowered graph with the types and consumers of its tensors. Names are unique in the graph and its branches."""

    def __init__(self, om: OmModel, saturates: bool) -> None:
        self.saturates = saturates
        self.model = om.graph()
        graph = self.model.graph
        outside = om.weights(self.model)
        self.constants = {
            item.name: outside[item.name] if item.name in outside else numpy_helper.to_array(item)
            for item in graph.initializer
        }
        self.graphs = list(graphs(graph))
        self.infos = {info.name: info for part in self.graphs for info in (*part.input, *part.value_info, *part.output)}
        self.inputs = tuple(info.name for info in graph.input)
        self.outputs = tuple(info.name for info in graph.output)
        self.rounded = {node for task in om.tasks for node in task.rounded}
        self.sized = frozenset(_plain_names(om, self.infos)) if om.dynamic else frozenset[str]()
        """Tensors whose shapes the time model needs once the model ran."""
        self.task_of = {node: number for number, task in enumerate(om.tasks) for node in task.lowered}
        self.kept = {info.name for part in self.graphs for info in part.output}
        """Tensors that must be there as arrays, whoever reads them."""
        self.consumers: dict[str, list[onnx.NodeProto]] = {}
        for part in self.graphs:
            for node in part.node:
                for name in node.input:
                    self.consumers.setdefault(name, []).append(node)

    def type_of(self, name: str) -> int:
        """TensorProto.DataType number of a tensor."""
        if name in self.constants:
            return int(helper.np_dtype_to_tensor_dtype(self.constants[name].dtype))
        return int(self.infos[name].type.tensor_type.elem_type)

    def is_half(self, name: str) -> bool:
        """True for an fp16 or bf16 tensor."""
        return bool(name) and self.type_of(name) in HALVES

    def leaves(self, name: str, node: onnx.NodeProto) -> bool:
        """True if a tensor that ``node`` writes is read outside its fused operator, or stored inside it."""
        if node.name in self.rounded:
            return True
        task = self.task_of.get(node.name)
        readers = self.consumers.get(name, ())
        return task is None or name in self.kept or any(self.task_of.get(reader.name) != task for reader in readers)


def _plain_names(om: OmModel, known: Mapping[str, Any]) -> set[str]:
    """Names in the graph of the tensors that operators read and write; a changed layout is a suffix of the name."""
    names = {tensor.name for task in om.tasks for tensor in (*task.inputs, *task.outputs)}
    return {plain_name(name, known) for name in names}


def plain_name(name: str, known: Mapping[str, Any]) -> str:
    """The name of an operator's tensor in the graph."""
    return name if name in known else name.rpartition(":")[0]


def split(lowered: Lowered, is_custom: Callable[[onnx.NodeProto], bool]) -> list[Piece]:
    """The graph as parts for ONNX Runtime, custom nodes and branches, in execution order."""
    return _split(lowered, lowered.model.graph.node, is_custom)


def _split(
    lowered: Lowered, nodes: Iterable[onnx.NodeProto], is_custom: Callable[[onnx.NodeProto], bool]
) -> list[Piece]:
    pieces: list[Piece] = []
    run: list[onnx.NodeProto] = []

    def close() -> None:
        if run:
            pieces.append(_Rewriter(lowered, list(run)).part())
            run.clear()

    for node in nodes:
        inner = branches(node)
        if inner:
            close()
            first, second = inner["then_branch"], inner["else_branch"]
            pieces.append(
                Branching(
                    condition=node.input[0],
                    labels=(branch_label(node.name, "then_branch"), branch_label(node.name, "else_branch")),
                    branches=(_split(lowered, first.node, is_custom), _split(lowered, second.node, is_custom)),
                    results=(tuple(info.name for info in first.output), tuple(info.name for info in second.output)),
                    outputs=tuple(node.output),
                )
            )
        elif is_custom(node):
            close()
            pieces.append(node)
        else:
            run.append(node)
    close()
    return pieces


def limits() -> list[TensorProto]:
    """The constants that ``clip`` reads."""
    return [numpy_helper.from_array(np.float32(value), name) for name, value in LIMITS.items()]


def clip(opset: int, source: str, target: str, low: str) -> onnx.NodeProto:
    """A Clip from one of LIMITS to the largest float16; they are attributes before opset 11."""
    if opset >= 11:
        return helper.make_node("Clip", [source, low, HIGHEST], [target], target)
    return helper.make_node("Clip", [source], [target], target, min=LIMITS[low], max=LIMITS[HIGHEST])


def clips_from(node: onnx.NodeProto) -> str | None:
    """Which of LIMITS a Clip that saturates begins with; None for any other node."""
    if node.op_type != "Clip":
        return None
    if len(node.input) == 3:
        return node.input[1] if node.input[2] == HIGHEST else None
    given = {item.name: item.f for item in node.attribute}
    return next((low for low, value in LIMITS.items() if given == {"min": value, "max": HALF_MAX}), None)


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators in a model."""
    imported = {item.domain: item.version for item in model.opset_import}
    return int(imported.get("", imported.get("ai.onnx", 0)))


class _Rewriter:
    """Rewrites one run of nodes."""

    def __init__(self, lowered: Lowered, run: list[onnx.NodeProto]) -> None:
        self.lowered = lowered
        self.run = run
        self.nodes: list[onnx.NodeProto] = []
        self.exact: set[str] = set()
        self.opset = opset_of(lowered.model)

    def part(self) -> Part:
        written = {name for node in self.run for name in node.output if name}
        read = list(dict.fromkeys(name for node in self.run for name in node.input if name))
        inputs = tuple(name for name in read if name not in written and name not in self.lowered.constants)
        inside = {id(node) for node in self.run}
        outputs = tuple(
            name
            for node in self.run
            for name in node.output
            if name in self.lowered.kept
            or any(id(reader) not in inside for reader in self.lowered.consumers.get(name, ()))
        )
        for name in inputs:
            if self.lowered.is_half(name):
                self.cast(name, f"{name}/f32", TensorProto.FLOAT)
                self.exact.add(name)
        for node in self.run:
            self.rewrite(node, outputs)
        gives = {name: f"{name}/f32" if self.is_bf16(name) else name for name in outputs}
        shapes = {name: f"{name}/shape" for name in sorted(self.lowered.sized & written)}
        for name, target in shapes.items():
            self.nodes.append(helper.make_node("Shape", [self.carrier(name)], [target], target))
        used = [name for name in read if name in self.lowered.constants]
        initializers, weights = self.constants(used)
        if self.lowered.saturates:
            initializers += limits()
        graph = helper.make_graph(
            self.nodes,
            "part",
            [self.info(name, name) for name in inputs],
            [self.info(name, given) for name, given in gives.items()]
            + [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in shapes.values()],
            initializers,
        )
        model = helper.make_model(graph, opset_imports=list(self.lowered.model.opset_import))
        model.ir_version = self.lowered.model.ir_version
        return Part(model, weights, inputs, gives, shapes)

    def is_bf16(self, name: str) -> bool:
        return self.lowered.type_of(name) == int(TensorProto.BFLOAT16)

    def info(self, name: str, given: str) -> onnx.ValueInfoProto:
        """A tensor's type at the border of the part."""
        info = onnx.ValueInfoProto()
        info.CopyFrom(self.lowered.infos[name])
        info.name = given
        if self.is_bf16(name):
            info.type.tensor_type.elem_type = TensorProto.FLOAT
        return info

    def carrier(self, name: str) -> str:
        """The name under which the rewritten nodes read a tensor."""
        half = self.lowered.is_half(name) and name not in self.lowered.constants
        return f"{name}/f32" if half else name

    def cast(self, source: str, target: str, to: int) -> None:
        self.nodes.append(helper.make_node("Cast", [source], [target], f"{target}/cast", to=to))

    def rewrite(self, node: onnx.NodeProto, outputs: tuple[str, ...]) -> None:
        lowered = self.lowered
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:], copy.output[:]
        copy.input.extend(self.carrier(name) for name in node.input)
        for attribute in copy.attribute:
            if attribute.name in ("dtype", "to") and attribute.i in HALVES:
                attribute.i = TensorProto.FLOAT
        exact = node.op_type in EXACT and all(
            name in self.exact or name in lowered.constants for name in node.input if lowered.is_half(name)
        )
        after: list[tuple[str, str, int]] = []
        bounded: list[onnx.NodeProto] = []
        for name in node.output:
            if not lowered.is_half(name):
                copy.output.append(name)
            elif exact or not lowered.leaves(name, node):
                copy.output.append(f"{name}/f32")
                if exact:
                    self.exact.add(name)
                if name in outputs and not self.is_bf16(name):
                    after.append((f"{name}/f32", name, TensorProto.FLOAT16))
            else:
                copy.output.append(f"{name}/raw")
                self.exact.add(name)
                rounded = f"{name}/raw"
                if lowered.saturates and not self.is_bf16(name):
                    made = self.bound(copy, rounded)
                    bounded += made
                    rounded = made[-1].output[0] if made else rounded
                after.append((rounded, name, lowered.type_of(name)))
                after.append((name, f"{name}/f32", TensorProto.FLOAT))
        self.nodes += [copy, *bounded]
        for source, target, to in after:
            self.cast(source, target, to)

    def bound(self, node: onnx.NodeProto, raw: str) -> list[onnx.NodeProto]:
        """Keep what a node gives in the range of fp16 as the chip does; the nodes to put behind it."""
        if node.op_type in BOUNDED:
            return []
        if node.op_type == "Relu":
            # One Clip for both, which ONNX Runtime takes into the convolution before it.
            node.CopyFrom(clip(self.opset, node.input[0], raw, "half/zero"))
            return []
        made = []
        if node.op_type in MAKES_NAN:
            made.append(helper.make_node("IsNaN", [raw], [f"{raw}/nan"], f"{raw}/nan"))
            made.append(helper.make_node("Where", [f"{raw}/nan", "half/zero", raw], [f"{raw}/number"], f"{raw}/number"))
            raw = f"{raw}/number"
        made.append(clip(self.opset, raw, f"{raw}/kept", "half/lowest"))
        return made

    def constants(self, names: list[str]) -> tuple[list[onnx.TensorProto], dict[str, NDArray[Any]]]:
        """Small constants as they are, large ones as empty tensors with their data beside."""
        initializers: list[onnx.TensorProto] = []
        weights: dict[str, NDArray[Any]] = {}
        for name in names:
            array = self.lowered.constants[name]
            if array.dtype.name in ("float16", "bfloat16"):
                array = array.astype(np.float32)
            if array.nbytes <= INLINE_BYTES:
                initializers.append(numpy_helper.from_array(array, name))
                continue
            weights[name] = np.ascontiguousarray(array)
            outside = onnx.TensorProto(name=name, dims=array.shape)
            outside.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            outside.data_location = TensorProto.EXTERNAL
            outside.external_data.add(key="location", value="beside")
            initializers.append(outside)
        return initializers, weights
