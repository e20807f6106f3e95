"""Sessions of ONNX Runtime for the parts of a graph, as fast as exact rounding allows.

A pair of rounding Casts between two convolutions makes ONNX Runtime leave its blocked layout (NCHWc) and come back:
up to a third of the time of a small network, and so does a Clip where fp16 saturates. So a part with convolutions is
built in two steps: it is optimised with a stand-in (Tanh, which the optimiser keeps in the blocked layout) for each
pair and its Clip, and they are put in afterwards, where rounding is the same in any layout; the Clip goes into the
convolution if it can. If not every stand-in is found again, the part is run as it is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto, helper

from cannlab.machine.ort_errors import ORT_ERRORS
from cannlab.machine.rounding import HALVES, HIGHEST, LIMITS, Part, clip, clips_from, limits, opset_of

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
    count, saturates = _mark(marked) if len(kinds) == 1 else (0, False)
    if not count:
        return None
    try:
        optimised = _optimised(marked, part, threads)
        if _unmark(optimised, *kinds, saturates=saturates) != count:
            return None
        options = _options(threads)
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(optimised.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except _NOT_TO_BE_HAD:
        return None


def _mark(model: onnx.ModelProto) -> tuple[int, bool]:
    """Put a stand-in in place of each pair of rounding Casts and the Clip before it.

    Returns:
        How many (0 if the part has such an operator itself), and whether there were Clips.
    """
    nodes = list(model.graph.node)
    if any(node.op_type == STAND_IN for node in nodes):
        return 0, False
    half = {node.output[0]: node for node in nodes if node.op_type == "Cast" and node.attribute[0].i in HALVES}
    readers = _readers(model)
    pairs = {
        name
        for node in nodes
        if node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT
        for name in node.input
        if name in half and readers[name] == 1
    }
    rounded = {half[name].input[0] for name in pairs}
    clips = {
        node.output[0]: node
        for node in nodes
        if clips_from(node) and node.output[0] in rounded and readers[node.output[0]] == 1
    }
    del model.graph.node[:]
    for node in nodes:
        name = node.output[0]
        if name in clips:
            if clips_from(node) == "half/zero":
                model.graph.node.append(helper.make_node("Relu", [node.input[0]], [name], f"{name}/relu"))
            continue
        if name in pairs:
            continue
        if node.input and node.input[0] in pairs:
            source = half[node.input[0]].input[0]
            if source in clips and clips_from(clips[source]) != "half/zero":
                source = clips[source].input[0]
            node = helper.make_node(STAND_IN, [source], node.output, f"{node.name}/round")
        model.graph.node.append(node)
    return len(pairs), bool(clips)


def _readers(model: onnx.ModelProto) -> dict[str, int]:
    """How often each tensor is read, by nodes and as a result."""
    found: dict[str, int] = {}
    for name in (*(name for node in model.graph.node for name in node.input), *(i.name for i in model.graph.output)):
        found[name] = found.get(name, 0) + 1
    return found


def _optimised(model: onnx.ModelProto, part: Part, threads: int) -> onnx.ModelProto:
    options = _options(threads)
    with tempfile.TemporaryDirectory(prefix="cannlab-") as folder:
        file = Path(folder) / "part.onnx"
        options.optimized_model_filepath = str(file)
        _session(model, part, options)
        return onnx.load(file)


def _unmark(model: onnx.ModelProto, kind: int = TensorProto.FLOAT16, *, saturates: bool = False) -> int:
    """Put pairs of Casts that round to ``kind``, and Clips where it saturates, in place of the stand-ins.

    Returns:
        How many were found, as nodes or inside a fused operator.
    """
    nodes, readers = list(model.graph.node), _readers(model)
    del model.graph.node[:], model.graph.value_info[:]
    writers = {name: node for node in nodes for name in node.output}
    opset = opset_of(model)
    made: list[onnx.NodeProto] = []
    count = 0
    for node in nodes:
        target = node.output[0] if node.output else ""
        fused = [item for item in node.attribute if item.name == "activation" and item.s == STAND_IN.encode()]
        writer: onnx.NodeProto | None = None
        if node.op_type == STAND_IN:
            source = node.input[0]
            if readers[source] == 1:
                writer = writers.get(source)
        elif fused:
            node.attribute.remove(fused[0])
            if node.op_type == "FusedGemm":
                node.op_type, node.domain = "Gemm", ""
            source = node.output[0] = f"{target}/raw"
            made.append(node)
            writer = node
        else:
            made.append(node)
            continue
        count += 1
        if saturates and not _clipped_inside(writer, opset):
            made.append(clip(opset, source, f"{target}/kept", "half/lowest"))
            source = f"{target}/kept"
        middle = f"{target}/rounded"
        made.append(helper.make_node("Cast", [source], [middle], f"{target}/to_half", to=kind))
        made.append(helper.make_node("Cast", [middle], [target], f"{target}/to_float", to=TensorProto.FLOAT))
    model.graph.node.extend(made)
    if saturates:
        there = {item.name for item in model.graph.initializer}
        model.graph.initializer.extend(item for item in limits() if item.name not in there)
    return count


def _clipped_inside(node: onnx.NodeProto | None, opset: int) -> bool:
    """Let a convolution or a Relu keep its result in the range of fp16 itself; False if the node is another."""
    if node is None or node.op_type not in ("Conv", "FusedConv", "Relu"):
        return False
    if node.op_type == "Relu":
        node.CopyFrom(clip(opset, node.input[0], node.output[0], "half/zero"))
        return True
    given = {item.name: item for item in node.attribute}
    activation = given["activation"].s.decode() if "activation" in given else ""
    if activation not in ("", "Relu"):
        return False
    if activation:
        node.attribute.remove(given["activation"])
    if not node.domain:
        node.op_type, node.domain = "FusedConv", "com.microsoft"
    low = "half/zero" if activation else "half/lowest"
    node.attribute.append(helper.make_attribute("activation", "Clip"))
    node.attribute.append(helper.make_attribute("activation_params", [LIMITS[low], LIMITS[HIGHEST]]))
    return True
