"""The compiler: from an ONNX model to an om, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cannlab import __version__
from cannlab.atc import engines, outputs, parse, precision, shapes, support, tasks
from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph
from cannlab.atc.passes import constant_folding, gemm, registry, remove_identity, transposes
from cannlab.atc.passes.report import Effect, Report
from cannlab.atc.passes.switches import Switches
from cannlab.atc.wiring import Wiring
from cannlab.errors import Diagnosis, tables
from cannlab.om import Format, Fusion, OmModel, OmTensor, Task, dtypes
from cannlab.om.model import WEIGHTS
from cannlab.soc import Soc

INLINE_BYTES = 256
"""Constants up to this size stay in the graph; larger ones go into the weights."""
ALIGNMENT = 64

FORMATS = {"NCHW": Format.NCHW, "NCDHW": Format.NCDHW, "ND": Format.ND}


@dataclass(frozen=True)
class Request:
    """What a conversion is to do; the texts are the options' values."""

    soc: Soc
    input_shape: str = ""
    input_format: str = ""
    out_nodes: str = ""
    output_type: str = ""
    input_fp16_nodes: str = ""
    precision_mode: str = "force_fp16"
    weight_clip: bool = True
    switches: Switches = field(default_factory=Switches)
    command: str = ""


@dataclass(frozen=True)
class Result:
    """What a conversion gave.

    Attributes:
        om: the compiled model.
        warnings: what the user should know of it.
        reports: what each pass did that matched anything, in the order in which they ran.
    """

    om: OmModel
    warnings: tuple[Diagnosis, ...]
    reports: tuple[Report, ...]


def compile_model(model: onnx.ModelProto, request: Request, log: Callable[[str, str], None]) -> Result:
    """Compile an ONNX model.

    Args:
        model: with its weights. A caller that keeps no reference saves the memory of one copy of them.
        request: the options.
        log: called with a level ("info", "debug") and a text at each step.

    Raises:
        AtcError: every rule of the steps.
    """
    family = support.family(request.soc)
    graph = parse.parse(model, family)
    graph.detach()
    del model  # its weights are in the graph now
    log("info", f"parsed {len(graph.nodes)} nodes, {len(graph.constants)} constants, opset {graph.opset}")
    shapes.freeze(graph, shapes.parse(request.input_shape))
    declared = _declared(graph, request)
    reports = _prepare(graph, log)
    reports += _fuse(graph, registry.GRAPH, request, family, log)
    lowering = precision.lower(graph, request.precision_mode, family, declared, clip=request.weight_clip)
    log("info", f"precision_mode {request.precision_mode}: {lowering.casts} casts inserted")
    for name in lowering.clipped:
        log("warning", f"weight {name} was clipped to the range of float16")
    reports += _fuse(graph, registry.UB, request, family, log)
    placement = engines.place(graph, family, request.soc.name, split=request.soc.split)
    found = tasks.build(graph, placement, request.soc)
    log("info", f"{len(found)} operators to run")
    om = _om(graph, found, request, reports)
    return Result(om, tuple(placement.warnings), tuple(reports))


def _fuse(graph: Graph, kind: str, request: Request, family: str, log: Callable[[str, str], None]) -> list[Report]:
    """Run the fusion passes of a kind."""
    w = Wiring(graph, family)
    reports = registry.run_all(w, kind, request.switches.enabled)
    w.commit()
    for report in reports:
        log("info", f"{report.name} took effect {report.effect_times} times")
        for node, reason in report.refused:
            log("debug", f"{report.name} left {node} alone: {reason}")
    return reports


def _declared(graph: Graph, request: Request) -> dict[str, int]:
    """Types of inputs and outputs that the options ask for."""
    outputs.select(graph, request.out_nodes)
    wanted = outputs.types(graph, request.output_type, request.out_nodes)
    found = {name: dtype.onnx for name, dtype in wanted.items()}
    for name in filter(None, (part.strip() for part in request.input_fp16_nodes.split(";"))):
        shapes.require_input(graph, name, "--input_fp16_nodes")
        if graph.dtype(name) not in (TensorProto.FLOAT, TensorProto.FLOAT16):
            raise atc_error("fp16_input", name=name, dtype=TensorProto.DataType.Name(graph.dtype(name)))
        found[name] = TensorProto.FLOAT16
    return found


def _prepare(graph: Graph, log: Callable[[str, str], None]) -> list[Report]:
    """Infer shapes, and leave only operators that run."""
    graph.drop_dead()
    named = {node.name for node in graph.nodes}
    constant_folding.run(graph)
    folded = sorted(named - {node.name for node in graph.nodes})
    steps = {remove_identity.NAME: remove_identity.run, transposes.NAME: transposes.run}
    reports = registry.prepare(graph, steps)
    expanded = gemm.run(graph)
    if expanded:
        graph.infer()
    if folded:
        found = [Effect((name,), "") for name in folded]
        reports.insert(0, Report(constant_folding.NAME, "Preparation", found))
    for report in reports:
        log("info", f"{report.name} took effect {report.effect_times} times")
    for node in graph.nodes:
        for name in filter(None, (*node.inputs, *node.outputs)):
            if graph.shape(name) is None:
                raise atc_error("shape_unknown", node=node.name, op_type=node.op_type, tensor=name)
            if dtypes.by_onnx(graph.dtype(name)) is None:
                raise parse.type_error(name, graph.dtype(name))
    return reports


def _om(graph: Graph, found: tuple[Task, ...], request: Request, reports: list[Report]) -> OmModel:
    stated = FORMATS.get(request.input_format, Format.NCHW)
    model, weights = _separated(graph)

    def io(name: str, tensor: str, format: Format) -> OmTensor:
        return OmTensor(name, graph.known_type(tensor).acl, format, graph.known_shape(tensor))

    return OmModel(
        name=graph.name,
        soc=request.soc.name,
        cann=tables.cann_version(),
        cannlab=__version__,
        inputs=tuple(
            io(name, name, stated if len(graph.known_shape(name)) >= 4 else Format.ND) for name in graph.inputs
        ),
        outputs=tuple(io(_output_name(graph, name), name, Format.ND) for name in graph.outputs),
        tasks=found,
        graph_bytes=model.SerializeToString(deterministic=True),
        weight_bytes=weights,
        work_size=tasks.work_size(found),
        precision_mode=request.precision_mode,
        command=request.command,
        fusions=tuple(
            Fusion(report.name, effect.nodes, effect.into) for report in reports for effect in report.effects
        ),
    )


def _output_name(graph: Graph, tensor: str) -> str:
    """``node:index:tensor``; the node is the model's, not a Cast that was put behind it."""
    writer, name = graph.producer(tensor), tensor
    while writer is not None and writer.origins == ():
        name = writer.inputs[0]
        writer = graph.producer(name)
    if writer is None:
        return tensor
    return f"{writer.sources[-1]}:{writer.outputs.index(name)}:{tensor}"


def _separated(graph: Graph) -> tuple[onnx.ModelProto, memoryview]:
    """The graph, and its large constants one after another."""
    names = list(graph.constants)
    weights = bytearray()
    places: list[onnx.TensorProto] = []
    for name in names:
        array = np.ascontiguousarray(graph.constants[name])
        if array.nbytes <= INLINE_BYTES:
            places.append(numpy_helper.from_array(array.reshape(graph.constants[name].shape), name))
            continue
        weights += bytes(-len(weights) % ALIGNMENT)
        place = onnx.TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        place.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, value in (("location", WEIGHTS), ("offset", len(weights)), ("length", array.nbytes)):
            place.external_data.add(key=key, value=str(value))
        places.append(place)
        weights += array.reshape(-1).view(np.uint8).data
    constants, graph.constants = graph.constants, {}
    model = graph.to_onnx()
    graph.constants = constants
    model.graph.initializer.extend(places)
    return model, memoryview(weights).toreadonly()
