"""Sessions of ONNX Runtime for the parts of a graph, as fast as exact rounding allows.

A pair of rounding Casts between two convolutions makes ONNX Runtime leave its blocked layout (NCHWc) and come back:
up to a third of the time of a small network. So a part with convolutions is built in two steps: it is optimised with a
stand-in (Tanh, which the optimiser keeps in the blocked layout) for each pair, and the pairs are put in afterwards,
where rounding is the same in any layout. If not every stand-in is found again, the part is run as it is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto, helper

from cannlab.machine.ort_errors import ORT_ERRORS
from cannlab.machine.rounding import HALVES, Part

STAND_IN = "Tanh"
MOST_BYTES = 256 << 20
"""Weights up to which the second step is worth its time: the optimised part goes through a file."""

_NOT_TO_BE_HAD: tuple[type[Exception], ...] = (*ORT_ERRORS, OSError)


def build(part: Part, threads: int) -> Any:
    """The session of a part."""
    if not part.shapes and any(node.op_type == "Conv" for node in part.model.graph.node):
        blocked = _blocked(part, threads)
        if blocked is not None:
            return blocked
    return plain(part, threads)


def plain(part: Part, threads: int) -> Any:
    """The session of a part as it is."""
    return _session(part.model, part, _options(threads))


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 4
    return options


def _session(model: onnx.ModelProto, part: Part, options: Any) -> Any:
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in part.weights.values()]
    options.add_external_initializers(list(part.weights), values)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _blocked(part: Part, threads: int) -> Any:
    """The session in the blocked layout; None if it cannot be had."""
    if sum(array.nbytes for array in part.weights.values()) > MOST_BYTES:
        return None
    marked = onnx.ModelProto()
    marked.CopyFrom(part.model)
    kinds = {int(node.attribute[0].i) for node in marked.graph.node if node.op_type == "Cast"} & {*HALVES}
    count = _mark(marked) if len(kinds) == 1 else 0
    if not count:
        return None
    try:
        optimised = _optimised(marked, part, threads)
        if _unmark(optimised, *kinds) != count:
            return None
        options = _options(threads)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(optimised.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except _NOT_TO_BE_HAD:
        return None


def _mark(model: onnx.ModelProto) -> int:
    """Put a stand-in in place of each pair of rounding Casts; how many. 0 if the part has such an operator itself."""
    nodes = list(model.graph.node)
    if any(node.op_type == STAND_IN for node in nodes):
        return 0
    half = {node.output[0]: node for node in nodes if node.op_type == "Cast" and node.attribute[0].i in HALVES}
    kept = {info.name for info in model.graph.output}
    readers: dict[str, int] = {}
    for node in nodes:
        for name in node.input:
            readers[name] = readers.get(name, 0) + 1
    pairs = {
        name
        for node in nodes
        if node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT
        for name in node.input
        if name in half and name not in kept and readers[name] == 1
    }
    del model.graph.node[:]
    for node in nodes:
        if node.output[0] in pairs:
            continue
        if node.input and node.input[0] in pairs:
            node = helper.make_node(STAND_IN, [half[node.input[0]].input[0]], node.output, f"{node.name}/round")
        model.graph.node.append(node)
    return len(pairs)


def _optimised(model: onnx.ModelProto, part: Part, threads: int) -> onnx.ModelProto:
    options = _options(threads)
    with tempfile.TemporaryDirectory(prefix="cannlab-") as folder:
        file = Path(folder) / "part.onnx"
        options.optimized_model_filepath = str(file)
        _session(model, part, options)
        return onnx.load(file)


def _unmark(model: onnx.ModelProto, kind: int = TensorProto.FLOAT16) -> int:
    """Put pairs of Casts that round to ``kind`` in place of the stand-ins; how many were found, as nodes or inside a
    fused operator."""
    nodes = list(model.graph.node)
    del model.graph.node[:], model.graph.value_info[:]
    count = 0
    for node in nodes:
        target = node.output[0] if node.output else ""
        fused = [item for item in node.attribute if item.name == "activation" and item.s == STAND_IN.encode()]
        if node.op_type == STAND_IN:
            source = node.input[0]
        elif fused:
            node.attribute.remove(fused[0])
            if node.op_type == "FusedGemm":
                node.op_type, node.domain = "Gemm", ""
            source = node.output[0] = f"{target}/raw"
            model.graph.node.append(node)
        else:
            model.graph.node.append(node)
            continue
        count += 1
        middle = f"{target}/rounded"
        model.graph.node.append(helper.make_node("Cast", [source], [middle], f"{target}/to_half", to=kind))
        model.graph.node.append(
            helper.make_node("Cast", [middle], [target], f"{target}/to_float", to=TensorProto.FLOAT)
        )
    return count
