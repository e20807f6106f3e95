"""Constant folding: what depends on constants and known shapes only is computed once, by the compiler."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.atc.wiring import Wiring
from cannlab.machine.ort_errors import ORT_ERRORS
from cannlab.om import dtypes

NAME = "ConstantFoldingPass"

RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
)
"""Types whose result differs from run to run."""

FLOATS = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE))

SEQUENCES = frozenset(("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence"))
"""Types whose result is no tensor."""


def fold(graph: Graph, *, floats: bool = True) -> bool:
    """Fold what can be folded with the types that are known. True if anything was: types must be inferred again.

    Args:
        floats: False leaves what gives floats, and folds what shapes are made of.
    """
    return _fold_shapes(graph) | _fold_constants(graph, floats)


def _fold_shapes(graph: Graph) -> bool:
    """Shape and Size of tensors of known shape."""
    found = False
    for node in [node for node in graph.nodes if node.op_type in ("Shape", "Size") and node.domain == "ai.onnx"]:
        shape = graph.shape(node.inputs[0])
        if shape is None or node.outputs[0] in graph.outputs:
            continue
        start, end = node.get("start", 0), node.get("end")
        values = np.array(shape, np.int64)
        graph.constants[node.outputs[0]] = values[start:end] if node.op_type == "Shape" else values.prod()
        graph.nodes.remove(node)
        found = True
    return found


def _fold_constants(graph: Graph, floats: bool) -> bool:
    """Nodes that read constants only, all at once."""
    known = {*graph.constants, ""}
    chosen: list[Node] = []
    for node in graph.nodes:
        foldable = node.domain == "ai.onnx" and node.op_type not in RANDOM and graph.custom(node) is None
        foldable = foldable and not node.branches and node.op_type not in SEQUENCES
        foldable = foldable and (floats or not any(graph.dtype(name) in FLOATS for name in node.outputs if name))
        if foldable and all(name in known for name in node.inputs) and not set(node.outputs) & set(graph.outputs):
            chosen.append(node)
            known.update(node.outputs)
    if not chosen:
        return False
    inside = set(map(id, chosen))
    w = Wiring(graph)
    wanted = [
        name
        for node in chosen
        for name in node.outputs
        if name and any(id(reader) not in inside for reader in w.readers(name))
    ]
    if wanted:
        part = Graph(graph.name, graph.opsets)
        # ONNX Runtime gives no array of bfloat16: such a result comes out as float32, which holds it exactly.
        short = {name: f"{name}/read" for name in wanted if graph.dtype(name) == TensorProto.BFLOAT16}
        part.nodes, part.types = chosen + [_read(name, target) for name, target in short.items()], graph.types
        part.outputs = [short.get(name, name) for name in wanted]
        needed = {name for node in chosen for name in node.inputs}
        part.constants = {name: array for name, array in graph.constants.items() if name in needed}
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        try:
            model = part.to_onnx(typed=False).SerializeToString()
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            for name, array in zip(wanted, session.run(part.outputs, {}), strict=True):
                graph.constants[name] = array.astype(dtypes.BFLOAT16.numpy) if name in short else array
        except ORT_ERRORS as problem:
            raise atc_error("infer_shape", reason=f"constants cannot be computed: {problem}") from problem
    graph.nodes = [node for node in graph.nodes if id(node) not in inside]
    return True


def _read(name: str, target: str) -> Node:
    cast = Node(f"{target}_Cast", "Cast", "ai.onnx", [name], [target])
    cast.set("to", TensorProto.FLOAT)
    return cast
