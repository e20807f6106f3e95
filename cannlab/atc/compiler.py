"""The compiler: from an ONNX model to an om, step by step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cannlab import __version__
from cannlab.atc import (
    aipp_config,
    engines,
    gears,
    hw_layout,
    implementations,
    order,
    outputs,
    parse,
    precision,
    settle,
    shapes,
    support,
    tasks,
)
from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.gears import Gears
from cannlab.atc.graph import Graph
from cannlab.atc.kernel_modes import KernelModes
from cannlab.atc.node_precision import Overrides
from cannlab.atc.passes import constant_folding, gemm, registry, remove_identity, transposes
from cannlab.atc.passes.report import Effect, Report, merged
from cannlab.atc.passes.switches import Switches
from cannlab.atc.plugins.check import Plugins
from cannlab.atc.precision_lists import Lists
from cannlab.atc.shapes import Dims
from cannlab.atc.wiring import Wiring
from cannlab.errors import Diagnosis, tables
from cannlab.machine.aipp import DATA_INPUT
from cannlab.om import Format, Fusion, OmModel, OmTensor, Variant, dtypes
from cannlab.om.model import WEIGHTS, largest
from cannlab.soc import Soc

INLINE_BYTES = 256
"""Constants up to this size stay in the graph; larger ones go into the weights."""
ALIGNMENT = 64

FORMATS = {"NCHW": Format.NCHW, "NCDHW": Format.NCDHW, "ND": Format.ND}


@dataclass(frozen=True)
class Request:
    """What a conversion is to do; the texts are the options' values.

    Attributes:
        dynamic: texts of the options for gears by kind, and "range" for ``--input_shape_range``.
        aipp: ``--insert_op_conf``.
        lists: white and black list of the mixed modes; the chip's own by default.
        overrides: ``--keep_dtype`` and ``--customize_dtypes``.
        chip: what the options leave of the chip (see ``OmModel.chip``).
        reuse_memory: False with ``--disable_reuse_memory=1``.
        small_channel: ``--enable_small_channel``.
        order: ``--topo_sorting_mode``.
        modes: ``--op_precision_mode`` and its kin.
        hw_inputs: ``--is_input_adjust_hw_layout``: a bool for each name in ``input_fp16_nodes``.
        hw_outputs: ``--is_output_adjust_hw_layout``: a bool for each name in ``out_nodes``.
        sparse: ``--sparsity``.
        fold_constants: False with ``--oo_constant_folding=false``.
        drop_branches: False with ``--oo_dead_code_elimination=false``.
        vector_only: ``--core_type=VectorCore``.
    """

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
    dynamic: Mapping[str, str] = field(default_factory=dict)
    aipp: tuple[aipp_config.AippOp, ...] = ()
    lists: Lists | None = None
    overrides: Overrides = field(default_factory=Overrides)
    chip: Mapping[str, int] = field(default_factory=dict)
    reuse_memory: bool = True
    small_channel: bool = False
    order: str = ""
    modes: KernelModes = field(default_factory=KernelModes)
    hw_inputs: tuple[bool, ...] = ()
    hw_outputs: tuple[bool, ...] = ()
    sparse: bool = False
    fold_constants: bool = True
    drop_branches: bool = True
    vector_only: bool = False

    @property
    def half_inputs(self) -> tuple[str, ...]:
        """Names in ``--input_fp16_nodes``."""
        return tuple(filter(None, (part.strip() for part in self.input_fp16_nodes.split(";"))))


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


@dataclass(frozen=True)
class _Compiled:
    """The model for one set of shapes.

    Attributes:
        variant: its part of the om. aipp: what the om says of AIPP, by input. name: the graph's.
        open: shapes are known only when the model runs.
    """

    variant: Variant
    warnings: tuple[Diagnosis, ...]
    reports: list[Report]
    aipp: Mapping[str, Any]
    name: str
    open: bool


def plan(request: Request) -> tuple[dict[str, Dims], Gears | None]:
    """The shapes and gears that the options ask for, checked as far as that goes without the model.

    Raises:
        AtcError: the rules of :func:`shapes.parse` and :func:`gears.plan`, and ``atc.range_chip``.
    """
    wanted = shapes.parse(request.input_shape)
    planned = gears.plan(request.dynamic, wanted, request.input_format, request.soc)
    ranges = planned is None and not all(map(shapes.is_fixed, wanted.values()))
    if (ranges or request.dynamic.get("range")) and request.soc.short == "Ascend310B":
        raise atc_error("range_chip", soc=request.soc.name)
    return wanted, planned


def compile_model(model: onnx.ModelProto, request: Request, log: Callable[[str, str], None]) -> Result:
    """Compile an ONNX model.

    Args:
        model: with its weights. A caller that keeps no reference saves the memory of one copy of them.
        request: the options.
        log: called with a level ("info", "debug") and a text at each step.

    Raises:
        AtcError: every rule of the steps.
    """
    wanted, planned = plan(request)
    plugins = Plugins(request.soc)
    with _noted(plugins):
        graph = parse.parse(model, plugins.notes)
        graph.detach()
        del model  # its weights are in the graph now
        for part in graph.walk():
            plugins.parse(part)
    log("info", f"parsed {len(graph.nodes)} nodes, {len(graph.constants)} constants, opset {graph.opset}")
    if request.dynamic.get("range"):
        wanted = shapes.parse_range(request.dynamic["range"], graph.inputs)
    shapes.check(graph, wanted)
    branches = any(node.branches for node in graph.nodes)
    weights = _Weights(shared=planned is not None or branches)
    if planned is None:
        made = [_compile(graph, wanted, request, log, weights, plugins)]
    else:
        made = []
        images = max(dims[name][0] for dims in planned.shapes for name in dims if dims[name])
        for values, dims in zip(planned.values, planned.shapes, strict=True):
            log("info", f"gear {len(made)}: {','.join(map(str, values))}")
            fixed = {name: tuple((dim, dim) for dim in shape) for name, shape in dims.items()}
            own = plugins.copy()
            made.append(_compile(graph.copy(), fixed, request, log, weights, own, images=images, gear=values))
    shown = made[largest([compiled.variant for compiled in made])]
    om = _om(made, shown, planned, request, weights)
    return Result(om, shown.warnings, tuple(shown.reports))


@contextmanager
def _noted(plugins: Plugins) -> Iterator[None]:
    """What was converted into something else may be why a later step fails: it is told with the error."""
    try:
        yield
    except AtcError as error:
        raise AtcError([*error.diagnoses, *plugins.notes]) from error


def _compile(
    graph: Graph,
    wanted: Mapping[str, Dims],
    request: Request,
    log: Callable[[str, str], None],
    weights: _Weights,
    plugins: Plugins,
    *,
    images: int = 0,
    gear: tuple[int, ...] = (),
) -> _Compiled:
    """:func:`_steps`, with what the plugins note beside an error."""
    with _noted(plugins):
        return _steps(graph, wanted, request, log, weights, plugins, images=images, gear=gear)


def _steps(
    graph: Graph,
    wanted: Mapping[str, Dims],
    request: Request,
    log: Callable[[str, str], None],
    weights: _Weights,
    plugins: Plugins,
    *,
    images: int,
    gear: tuple[int, ...],
) -> _Compiled:
    """The steps for one set of shapes."""
    soc, family = request.soc, support.family(request.soc)
    graph.open = not all(map(shapes.is_fixed, wanted.values()))
    open_dims = {name: tuple(low if low == high else None for low, high in dims) for name, dims in wanted.items()}
    shapes.freeze(graph, open_dims)
    half = frozenset(request.half_inputs)
    aipp = aipp_config.insert(graph, request.aipp, soc, half_inputs=half, images=images)
    declared = _declared(graph, request)
    layouts = hw_layout.insert(graph, request, declared)
    reports = _prepare(graph, shapes.references(wanted), soc, plugins, log, request, may_open=not gear)
    for part in graph.walk():
        order.sort(part, request.order)
    reports += _fuse(graph, registry.GRAPH, request, family, log)
    _implement(graph, request, family, log)
    lowering = precision.lower(
        graph,
        request.precision_mode,
        family,
        declared,
        clip=request.weight_clip,
        lists=request.lists,
        overrides=request.overrides,
    )
    log("info", f"precision_mode {request.precision_mode}: {lowering.casts} casts inserted")
    for name in lowering.clipped:
        log("warning", f"weight {name} was clipped to the range of float16")
    for name in lowering.unused:
        log("warning", f"{name}, named in --keep_dtype or --customize_dtypes, is no operator of the model")
    products = sum(implementations.hf32(part, request.modes) for part in list(graph.walk()))
    if products:
        log("info", f"{products} products of float32 read HF32")
    reports += _fuse(graph, registry.UB, request, family, log)
    placement = engines.place(graph, family, soc.name, split=soc.split, vector_only=request.vector_only)
    found = tasks.build(graph, placement, soc, small_channel=request.small_channel, sparse=request.sparse)
    log("info", f"{len(found)} operators to run")
    variant = Variant(
        values=gear,
        inputs=_inputs(graph, aipp, request, layouts),
        outputs=_outputs(graph, layouts),
        tasks=found,
        graph_bytes=_graph(graph, weights).SerializeToString(deterministic=True),
    )
    return _Compiled(variant, (*placement.warnings, *plugins.notes), reports, aipp, graph.name, graph.open)


def _fuse(graph: Graph, kind: str, request: Request, family: str, log: Callable[[str, str], None]) -> list[Report]:
    """Run the fusion passes of a kind on the graph and its branches."""
    found, taken = [], graph.names()
    for part in list(graph.walk()):
        w = Wiring(part, family, taken)
        found += registry.run_all(w, kind, request.switches.enabled)
        w.commit()
    reports = merged(found)
    for report in reports:
        log("info", f"{report.name} took effect {report.effect_times} times")
        for node, reason in report.refused:
            log("debug", f"{report.name} left {node} alone: {reason}")
    return reports


def _implement(graph: Graph, request: Request, family: str, log: Callable[[str, str], None]) -> None:
    """Put in what the kernels' modes compute otherwise."""
    for text in request.modes.ignored:
        log("warning", f"{text} in --op_precision_mode is no mode of a kernel and is passed over")
    for name in request.modes.unused(graph):
        log("warning", f"{name}, named in --op_precision_mode, is no operator of the model")
    taken = graph.names()
    for part in list(graph.walk()):
        w = Wiring(part, family, taken)
        for name in implementations.apply(w, request.modes):
            log("info", f"{name} computes in the steps of its kernel's mode")
        w.commit()


def _declared(graph: Graph, request: Request) -> dict[str, int]:
    """Types of inputs and outputs that the options ask for."""
    outputs.select(graph, request.out_nodes)
    wanted = outputs.types(graph, request.output_type, request.out_nodes)
    found = {name: dtype.onnx for name, dtype in wanted.items()}
    for name in request.half_inputs:
        shapes.require_input(graph, name, "--input_fp16_nodes")
        if graph.dtype(name) not in (TensorProto.FLOAT, TensorProto.FLOAT16):
            raise atc_error("fp16_input", name=name, dtype=TensorProto.DataType.Name(graph.dtype(name)))
        found[name] = TensorProto.FLOAT16
    return found


def _prepare(
    graph: Graph,
    references: Mapping[str, tuple[int, ...]],
    soc: Soc,
    plugins: Plugins,
    log: Callable[[str, str], None],
    request: Request,
    *,
    may_open: bool,
) -> list[Report]:
    """Infer shapes, apply the plugins' rules, and leave only operators that run."""
    graph.drop_dead()
    named = _names(graph)
    settle.settle(graph, plugins, fold_floats=request.fold_constants, choose=request.drop_branches)
    folded = sorted(named - _names(graph))
    parts = list(graph.walk())

    def prepared(name: str, run: Callable[[Wiring, Report], None]) -> list[Report]:
        return merged(report for part in parts for report in registry.prepare(part, {name: run}))

    reports = prepared(remove_identity.NAME, remove_identity.run)
    _close(graph, references, soc, log, may_open=may_open)
    if graph.open:
        plugins.note_unjudged()
    reports += prepared(transposes.NAME, transposes.run)
    for part in parts:
        if gemm.run(part):
            part.infer()
    if folded:
        found = [Effect((name,), "") for name in folded]
        reports.insert(0, Report(constant_folding.NAME, "Preparation", found))
    for report in reports:
        log("info", f"{report.name} took effect {report.effect_times} times")
    for part in parts:
        for _, name in part.uses():
            if dtypes.by_onnx(part.dtype(name)) is None:
                raise parse.type_error(name, part.dtype(name))
    return reports


def _names(graph: Graph) -> set[str]:
    """Names of the nodes of a graph and its branches."""
    return {node.name for part in graph.walk() for node in part.nodes}


def _close(
    graph: Graph,
    references: Mapping[str, tuple[int, ...]],
    soc: Soc,
    log: Callable[[str, str], None],
    *,
    may_open: bool,
) -> None:
    """Give a graph whose shapes stay open a reference shape everywhere; what is fixed is in ``open_types`` then.

    What depends on the data (NonZero) leaves shapes open too. Branches have shapes that are fixed.
    """
    unknown = []
    for part in graph.walk():
        for node, name in part.uses():
            if part.shape(name) is not None:
                continue
            if part.dtype(name) == TensorProto.UNDEFINED:
                raise atc_error("no_tensor", node=node.name, op_type=node.op_type, tensor=name)
            if node.branches or part is not graph:
                raise atc_error("open_branch", node=node.name, op_type=node.op_type, tensor=name)
            unknown.append((node, name))
    graph.open = graph.open or bool(unknown)
    if not graph.open:
        return
    node, name = unknown[0] if unknown else (graph.nodes[0], graph.inputs[0])
    if not may_open:
        raise atc_error("shape_unknown", node=node.name, op_type=node.op_type, tensor=name)
    log("info", f"shapes are open from {node.name} on: they are known when the model runs")
    graph.open_types = dict(graph.types)
    shapes.freeze(graph, references)
    graph.hints = _known_at_reference(graph)
    for at, tensor in graph.uses():
        if graph.rank(tensor) is None and graph.hints.get(tensor, (0, None))[1] is None:
            raise atc_error("rank_unknown", node=at.name, op_type=at.op_type, tensor=tensor)
    graph.assumed = shapes.REFERENCE
    graph.infer()
    if soc.short == "Ascend310":
        kind = tasks.ge_type(graph, node)
        raise atc_error("dynamic_chip", op_type=kind, name=node.name, soc=soc.name)


def _known_at_reference(graph: Graph) -> dict[str, tuple[int, tuple[int | None, ...] | None]]:
    """Types at the reference shapes: what depends on shapes only can be computed there."""
    there = graph.copy()
    settle.settle(there, None)
    folded = {name: (there.dtype(name), there.shape(name)) for name in there.constants}
    return {**folded, **there.types}


# -- the om --------------------------------------------------------------------------------------------------


def _om(made: list[_Compiled], shown: _Compiled, planned: Gears | None, request: Request, weights: _Weights) -> OmModel:
    """The om; ``shown`` is what stands in it for a model with gears."""
    variants = tuple(compiled.variant for compiled in made)
    inputs = shown.variant.inputs
    kind = "range" if shown.open else ""
    if planned is not None:
        kind = planned.kind
        chosen = OmTensor(gears.INPUT, dtypes.INT32.acl, Format.ND, (len(planned.values[0]),))
        stated = shapes.parse(request.input_shape)
        of_gears = zip(*(variant.inputs for variant in variants), strict=True)
        inputs = (
            *(_merged(at, () if at[0].name in shown.aipp else stated.get(at[0].name, ())) for at in of_gears),
            chosen,
        )
    return OmModel(
        name=shown.name,
        soc=request.soc.name,
        cann=tables.cann_version(),
        cannlab=__version__,
        inputs=inputs,
        outputs=shown.variant.outputs,
        tasks=shown.variant.tasks,
        graph_bytes=shown.variant.graph_bytes,
        weight_bytes=memoryview(weights.bytes).toreadonly(),
        work_size=max(tasks.work_size(variant.tasks, reuse=request.reuse_memory) for variant in variants),
        precision_mode=request.precision_mode,
        command=request.command,
        fusions=tuple(
            Fusion(report.name, effect.nodes, effect.into) for report in shown.reports for effect in report.effects
        ),
        gears={"kind": kind} if kind else {},
        aipp=shown.aipp,
        variants=variants if planned is not None else (),
        chip=request.chip,
    )


def _merged(tensors: tuple[OmTensor, ...], stated: shapes.Dims) -> OmTensor:
    """An input of a model with gears: -1 where the command says so or the gears differ, the size of the largest."""
    by_dim = list(zip(*(tensor.dims for tensor in tensors), strict=True))
    is_open = [low != high for low, high in stated]
    if len(is_open) != len(by_dim):  # AIPP and NC1HWC0 have dimensions of their own
        is_open = [False] * len(by_dim)
    dims = tuple(-1 if left or len(set(sizes)) > 1 else sizes[0] for left, sizes in zip(is_open, by_dim, strict=True))
    return replace(tensors[0], dims=dims, stated=max(tensor.size for tensor in tensors))


def _inputs(graph: Graph, aipp: Mapping[str, Any], request: Request, layouts: frozenset[str]) -> tuple[OmTensor, ...]:
    stated = FORMATS.get(request.input_format, Format.NCHW)
    wanted = shapes.parse(request.input_shape) if graph.open else {}
    if graph.open and request.dynamic.get("range"):
        wanted = shapes.parse_range(request.dynamic["range"], graph.inputs)
    found = []
    for name in graph.inputs:
        dims, dtype = graph.known_shape(name), graph.known_type(name).acl
        if name in aipp:
            info = aipp[name]
            format = Format.NHWC if info["mode"] == aipp_config.STATIC else Format.ND
            found.append(OmTensor(name, dtype, format, tuple(info["dims"]), info["size"]))
            continue
        format = stated if len(dims) >= 4 and not name.startswith(DATA_INPUT) else Format.ND
        format = Format.NC1HWC0 if name in layouts else format
        ranges = wanted.get(name, ())
        if ranges and not shapes.is_fixed(ranges):
            open_dims = tuple(low if low == high else -1 for low, high in ranges)
            found.append(OmTensor(name, dtype, format, open_dims, -1, ranges))
        else:
            found.append(OmTensor(name, dtype, format, dims))
    return tuple(found)


def _outputs(graph: Graph, layouts: frozenset[str]) -> tuple[OmTensor, ...]:
    found = []
    for name in graph.outputs:
        dims = tuple(-1 if dim is None else dim for dim in graph.fixed_dims(name))
        ranges = tuple((0, -1) if dim < 0 else (dim, dim) for dim in dims) if -1 in dims else ()
        format = Format.NC1HWC0 if name in layouts else Format.ND
        found.append(OmTensor(_output_name(graph, name), graph.known_type(name).acl, format, dims, -1, ranges))
    return tuple(found)


def _output_name(graph: Graph, tensor: str) -> str:
    """``node:index:tensor``; the node is the model's, not a Cast that was put behind it."""
    writer, name = graph.producer(tensor), tensor
    while writer is not None and writer.origins == ():
        name = writer.inputs[0]
        writer = graph.producer(name)
    if writer is None:
        return tensor
    return f"{writer.sources[-1]}:{writer.outputs.index(name)}:{tensor}"


class _Weights:
    """The large constants one after another; with several gears, what is equal is there once."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        self.bytes = bytearray()
        self.places: dict[bytes, int] = {}

    def add(self, array: NDArray[Any]) -> int:
        """The offset of an array's bytes."""
        data = array.reshape(-1).view(np.uint8).data
        key = hashlib.sha256(data).digest() if self.shared else b""
        if key in self.places:
            return self.places[key]
        self.bytes += bytes(-len(self.bytes) % ALIGNMENT)
        offset = len(self.bytes)
        self.bytes += data
        if self.shared:
            self.places[key] = offset
        return offset


def _graph(graph: Graph, weights: _Weights) -> onnx.ModelProto:
    """The graph of the om, with the constants of its branches too; large ones go into the weights."""
    places: list[onnx.TensorProto] = []
    for name, constant in ((name, array) for part in graph.walk() for name, array in part.constants.items()):
        array = np.ascontiguousarray(constant)
        if array.nbytes <= INLINE_BYTES:
            places.append(numpy_helper.from_array(array.reshape(constant.shape), name))
            continue
        place = onnx.TensorProto(name=name, dims=array.shape, data_location=TensorProto.EXTERNAL)
        place.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, value in (("location", WEIGHTS), ("offset", weights.add(array)), ("length", array.nbytes)):
            place.external_data.add(key=key, value=str(value))
        places.append(place)
    constants, graph.constants = graph.constants, {}
    model = graph.to_onnx()
    graph.constants = constants
    model.graph.initializer.extend(places)
    model.graph.initializer.extend(_integer_products(graph, model.graph))
    if graph.open:
        _open(model.graph, graph)
    return model


def _integer_products(graph: Graph, made: onnx.GraphProto) -> list[onnx.TensorProto]:
    """Products of int8 tensors by the operators that ONNX has for them, in the branches too; a bias is added behind.

    Returns:
        The biases.
    """
    biases: list[onnx.TensorProto] = []
    for node, proto in zip(graph.nodes, made.node, strict=True):
        inner = {item.name: item.g for item in proto.attribute if item.name in node.branches}
        for name, branch in node.branches.items():
            biases += _integer_products(branch, inner[name])
    quantised = {node.name for node in graph.nodes if graph.is_quantised(node)}
    if not quantised:
        return biases
    nodes = list(made.node)
    del made.node[:]
    for item in nodes:
        made.node.append(item)
        if item.name not in quantised:
            continue
        product = made.node[-1]
        product.op_type += "Integer"
        if len(item.input) > 2 and item.input[2]:
            bias = product.input.pop()
            constant = graph.constants[bias].astype(np.int32)
            shape = (-1, *[1] * (len(graph.known_shape(item.output[0])) - 2))
            target, product.output[0] = product.output[0], f"{product.output[0]}/product"
            biases.append(numpy_helper.from_array(constant.reshape(shape), f"{bias}/{item.name}"))
            names = [product.output[0], f"{bias}/{item.name}"]
            made.node.append(helper.make_node("Add", names, [target], f"{item.name}/bias"))
            made.value_info.append(
                helper.make_tensor_value_info(product.output[0], TensorProto.INT32, graph.known_shape(target))
            )
    return biases


def _open(made: onnx.GraphProto, graph: Graph) -> None:
    """Take the reference shapes out again: only inputs keep the dimensions that are fixed."""
    for info in made.input:
        for dim, known in zip(info.type.tensor_type.shape.dim, graph.fixed_dims(info.name), strict=True):
            if known is None:
                dim.Clear()
    for info in (*made.value_info, *made.output):
        info.type.tensor_type.ClearField("shape")
