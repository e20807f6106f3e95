"""The compiler: from an ONNX model to an om, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from cannlab import __version__
from cannlab.atc import engines, outputs, parse, precision, settle, shapes, support, tasks
from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.graph import Graph
from cannlab.atc.passes import gemm, registry, remove_identity
from cannlab.atc.passes.switches import Switches
from cannlab.atc.plugins.check import Plugins
from cannlab.errors import Diagnosis, tables
from cannlab.om import Format, OmModel, OmTensor, Task, dtypes
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
        effects: how often each fusion pass took effect, by name.
    """

    om: OmModel
    warnings: tuple[Diagnosis, ...]
    effects: dict[str, int]


def compile_model(model: onnx.ModelProto, request: Request, log: Callable[[str, str], None]) -> Result:
    """Compile an ONNX model.

    Args:
        model: with its weights.
        request: the options.
        log: called with a level ("info", "debug") and a text at each step.

    Raises:
        AtcError: every rule of the steps.
    """
    plugins = Plugins(request.soc)
    try:
        return _compile(model, request, log, plugins)
    except AtcError as error:
        # What was converted into something else may be why a later step fails.
        raise AtcError([*error.diagnoses, *plugins.notes]) from error


def _compile(model: onnx.ModelProto, request: Request, log: Callable[[str, str], None], plugins: Plugins) -> Result:
    family = support.family(request.soc)
    graph = parse.parse(model, plugins.notes)
    for part in graph.walk():
        plugins.parse(part)
    log("info", f"parsed {len(graph.nodes)} nodes, {len(graph.constants)} constants, opset {graph.opset}")
    shapes.freeze(graph, shapes.parse(request.input_shape))
    declared = _declared(graph, request)
    _prepare(graph, plugins, log)
    effects: dict[str, int] = {}
    for part in graph.walk():
        for name, count in registry.run_all(part, request.switches.enabled).items():
            effects[name] = effects.get(name, 0) + count
    for name, count in effects.items():
        log("info", f"{name} took effect {count} times")
    log("debug", f"nodes after fusion: {', '.join(node.name for node in graph.nodes)}")
    lowering = precision.lower_branches(graph, request.precision_mode, family, declared, clip=request.weight_clip)
    log("info", f"precision_mode {request.precision_mode}: {lowering.casts} casts inserted")
    for name in lowering.clipped:
        log("warning", f"weight {name} was clipped to the range of float16")
    placement = engines.place(graph, family, request.soc.name, split=request.soc.split)
    found = tasks.build(graph, placement, request.soc)
    log("info", f"{len(found)} operators to run")
    om = _om(graph, found, request)
    return Result(om, (*placement.warnings, *plugins.notes), effects)


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


def _prepare(graph: Graph, plugins: Plugins, log: Callable[[str, str], None]) -> None:
    """Infer shapes, and leave only operators that run."""
    graph.drop_dead()
    before = sum(len(part.nodes) for part in graph.walk())
    settle.settle(graph, plugins)
    parts = list(graph.walk())
    after = sum(len(part.nodes) for part in parts)
    removed = sum(remove_identity.run(part) for part in parts)
    for part in parts:
        if gemm.run(part):
            part.infer()
        _check_known(part)
    log("info", f"{before - after} nodes folded into constants, {removed} removed")


def _check_known(graph: Graph) -> None:
    """Every tensor has a type and a shape."""
    for node in graph.nodes:
        for name in filter(None, (*node.inputs, *node.outputs)):
            if graph.shape(name) is None:
                raise atc_error("shape_unknown", node=node.name, op_type=node.op_type, tensor=name)
            if dtypes.by_onnx(graph.dtype(name)) is None:
                raise parse.type_error(name, graph.dtype(name))


def _om(graph: Graph, found: tuple[Task, ...], request: Request) -> OmModel:
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
    parts = list(graph.walk())
    weights = bytearray()
    places: list[onnx.TensorProto] = []
    offsets: dict[int, int] = {}
    constants = {name: array for part in parts for name, array in part.constants.items()}
    for name, original in constants.items():
        array = np.ascontiguousarray(original)
        if array.nbytes <= INLINE_BYTES:
            places.append(numpy_helper.from_array(array.reshape(original.shape), name))
            continue
        shared = id(original) in offsets  # both branches of an If may read it
        if not shared:
            weights += bytes(-len(weights) % ALIGNMENT)
            offsets[id(original)] = len(weights)
        place = onnx.TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        place.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, value in (("location", WEIGHTS), ("offset", offsets[id(original)]), ("length", array.nbytes)):
            place.external_data.add(key=key, value=str(value))
        places.append(place)
        if not shared:
            weights += array.data.cast("B") if array.size else b""
    own, graph.constants = graph.constants, {}
    model = graph.to_onnx()
    graph.constants = own
    model.graph.initializer.extend(places)
    return model, memoryview(weights)
