"""Layer by layer: the om as the chip computes it, against ONNX Runtime on the model that it was compiled from.

Two errors are measured for each operator of the om: of its result in the run of the whole model, and its own, where it
reads the reference's values. An operator whose result is off and whose own error is small hands on what came before.
Where there are Ifs, the branches that these inputs take are compared, and the others are not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cannlab import om as oms
from cannlab import soc as socs
from cannlab.atc import causes, precision, source, taken_branches
from cannlab.atc.errors import atc_error
from cannlab.errors import Diagnosis
from cannlab.machine.executor import Model
from cannlab.machine.ort_errors import ORT_ERRORS
from cannlab.om import OmModel, Task
from cannlab.om.model import branches, graphs
from cannlab.profiler.plain_table import Column, PlainTable

TOLERANCE = 0.02
"""Relative error (length of the difference over length of the reference) from which on a layer counts as bad."""
SUFFIXES = ("/computed", "/wide", *(f"/{suffix}" for suffix in precision.SUFFIX.values()))
"""What the compiler appends to the name of a tensor of the model when it changes its type."""

Values = Mapping[str, "NDArray[Any]"]


@dataclass(frozen=True)
class Errors:
    """How far an array is from its reference.

    Attributes:
        cosine: cosine of the angle between them (1 is best; nan if a value is not finite).
        max_abs: largest difference.
        max_rel: largest difference relative to the reference's value, which counts as at least a thousandth of its
            largest one.
        relative: length of the difference over length of the reference.
        finite: the array is finite where the reference is.
    """

    cosine: float
    max_abs: float
    max_rel: float
    relative: float
    finite: bool


@dataclass(frozen=True)
class Layer:
    """One operator of the om and one tensor that it writes.

    Attributes:
        number: position of the operator in the om.
        operator: its name. op_type: its GE type. nodes: the ONNX nodes that it stands for.
        tensor: the tensor of the ONNX model. dims: its shape.
        errors: in the run of the whole model.
        own: where the operator reads the reference's values; None if they are not all there.
        bad: the error is above the tolerance, or a value is not finite.
        cause: why it may be; None for a good layer.
    """

    number: int
    operator: str
    op_type: str
    nodes: tuple[str, ...]
    tensor: str
    dims: tuple[int, ...]
    errors: Errors
    own: Errors | None
    bad: bool
    cause: Diagnosis | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is not finite is None."""

        def plain(errors: Errors | None) -> dict[str, Any] | None:
            if errors is None:
                return None
            return {name: _finite(value) for name, value in vars(errors).items()}

        return {
            "number": self.number,
            "operator": self.operator,
            "op_type": self.op_type,
            "nodes": list(self.nodes),
            "tensor": self.tensor,
            "dims": list(self.dims),
            "errors": plain(self.errors),
            "own": plain(self.own),
            "bad": self.bad,
            "cause": None if self.cause is None else self.cause.to_dict(),
        }


COLUMNS = (
    Column("No.", right=True),
    Column("Operator"),
    Column("Type"),
    Column("ONNX node"),
    Column("Cosine", right=True),
    Column("Max abs", right=True),
    Column("Max rel", right=True),
    Column("Rel. error", right=True),
    Column("Own error", right=True),
    Column("Verdict"),
)


@dataclass(frozen=True)
class Comparison:
    """All layers, in the order in which the om computes them."""

    name: str
    seed: int | None
    tolerance: float
    layers: tuple[Layer, ...]

    @property
    def first_bad(self) -> Layer | None:
        """The first layer that is off."""
        return next((layer for layer in self.layers if layer.bad), None)

    def table(self) -> PlainTable:
        """The layers as a table."""
        first = self.first_bad
        rows = [
            (
                str(layer.number),
                layer.operator,
                layer.op_type,
                layer.nodes[-1] if layer.nodes else "",
                f"{layer.errors.cosine:.6f}",
                f"{layer.errors.max_abs:.3g}",
                f"{layer.errors.max_rel:.3g}",
                f"{layer.errors.relative:.2e}",
                "" if layer.own is None else f"{layer.own.relative:.2e}",
                ("FIRST BAD" if layer is first else "bad") if layer.bad else "",
            )
            for layer in self.layers
        ]
        marked = frozenset(number for number, layer in enumerate(self.layers) if layer.bad)
        return PlainTable(COLUMNS, rows, marked)

    def verdict(self) -> str:
        """Which layer is the first that is off, and why that may be."""
        first = self.first_bad
        if first is None:
            return f"All {len(self.layers)} layers are within {self.tolerance:g} of the reference."
        nodes = ", ".join(first.nodes)
        head = f"First bad layer: {first.operator} ({first.op_type}), ONNX nodes {nodes}, tensor {first.tensor}"
        return head if first.cause is None else f"{head}\n{first.cause.text()}"

    def text(self) -> str:
        """Table and verdict."""
        drawn = "the given inputs" if self.seed is None else f"random inputs, seed {self.seed}"
        return f"{self.name}: the om against ONNX Runtime, {drawn}\n{self.table().text()}\n{self.verdict()}"

    def to_json(self) -> str:
        """Plain data as JSON."""
        first = self.first_bad
        data = {
            "model": self.name,
            "seed": self.seed,
            "tolerance": self.tolerance,
            "first_bad": None if first is None else first.tensor,
            "layers": [layer.to_dict() for layer in self.layers],
        }
        return json.dumps(data, indent=2, allow_nan=False)

    def __str__(self) -> str:
        return self.text()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows where it shows text."""
        printer.text(self.text())

    def _repr_html_(self) -> str:
        """The table for a notebook, bad layers coloured, and the verdict."""
        return self.table().html() + PlainTable.note(self.verdict())


def compare(
    model: str | os.PathLike[str] | onnx.ModelProto,
    om: str | os.PathLike[str] | OmModel,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> Comparison:
    """Compare an om, operator by operator, with the ONNX model that it was compiled from.

    Args:
        model: the original model, or its path.
        om: the om, or its path.
        inputs: arrays by the names of the ONNX model's inputs; drawn from ``seed`` where there are none.
        seed: of the random inputs: normal numbers; integers below the size of the table that they index, else 1.
        tolerance: relative error from which on a layer counts as bad.

    Raises:
        AtcError: rules of ``source.load``, and ``atc.compare_inputs``.
        OmError: rules of ``om.read``.
    """
    proto = model if isinstance(model, onnx.ModelProto) else source.load(os.fspath(model))
    compiled = om if isinstance(om, OmModel) else oms.read(om)
    arrays = _inputs(proto, compiled, dict(inputs or {}), seed)
    runner = _Runner(proto, compiled, arrays, tolerance)
    return Comparison(compiled.name, None if inputs else seed, tolerance, tuple(runner.layers()))


def _inputs(model: onnx.ModelProto, om: OmModel, given: dict[str, NDArray[Any]], seed: int) -> dict[str, NDArray[Any]]:
    """The model's inputs, in its types and the om's shapes."""
    constants = {item.name: item for item in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in constants]
    tensors = {tensor.name: tensor for tensor in om.inputs}
    if om.aipp or om.gears or any(dim < 0 for tensor in om.inputs for dim in tensor.dims):
        raise atc_error("compare_inputs", reason=f"{om.name} has AIPP or dynamic shapes")
    unknown = sorted(set(given) - {info.name for info in infos})
    if unknown:
        raise atc_error("compare_inputs", reason=f"the model has no input {unknown[0]!r}")
    found: dict[str, NDArray[Any]] = {}
    for number, info in enumerate(infos):
        if info.name not in tensors:
            raise atc_error("compare_inputs", reason=f"the om has no input {info.name!r}")
        dims = tensors[info.name].dims
        dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if info.name in given:
            array = np.asarray(given[info.name])
            if array.shape != dims:
                reason = f"{info.name} is {list(array.shape)}, the om takes {list(dims)}"
                raise atc_error("compare_inputs", reason=reason)
            found[info.name] = array.astype(dtype)
        elif given:
            raise atc_error("compare_inputs", reason=f"there is no array for {info.name!r}")
        else:
            random = np.random.default_rng([seed, number])
            found[info.name] = _drawn(random, dims, dtype, _rows(model, info.name, constants))
    return found


def _drawn(random: np.random.Generator, dims: tuple[int, ...], dtype: Any, rows: int) -> NDArray[Any]:
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(dims).astype(dtype)
    return random.integers(0, rows, dims).astype(dtype) if rows else np.ones(dims, dtype)


def _rows(model: onnx.ModelProto, name: str, constants: Mapping[str, TensorProto]) -> int:
    """Rows of the table that an input indexes; 0 if it indexes none."""
    for node in model.graph.node:
        if node.op_type == "Gather" and node.input[1] == name and node.input[0] in constants:
            return int(constants[node.input[0]].dims[0])
    return 0


def errors(got: NDArray[Any], wanted: NDArray[Any]) -> Errors:
    """How far ``got`` is from ``wanted``."""
    a, b = got.astype(np.float64).reshape(-1), wanted.astype(np.float64).reshape(-1)
    known = np.isfinite(b)
    finite = bool(np.isfinite(a[known]).all())
    if not b.size:
        return Errors(1.0, 0.0, 0.0, 0.0, True)
    a, b = a[known], b[known]
    if not finite:
        return Errors(float("nan"), float("inf"), float("inf"), float("inf"), False)
    difference = np.abs(a - b)
    largest = float(np.abs(b).max(initial=0.0))
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    same = float(np.linalg.norm(a - b)) == 0.0
    return Errors(
        cosine=float(a @ b / lengths) if lengths else float(same),
        max_abs=float(difference.max(initial=0.0)),
        max_rel=float((difference / np.maximum(np.abs(b), max(1e-3 * largest, 1e-30))).max(initial=0.0)),
        relative=float(np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), 1e-30)) if not same else 0.0,
        finite=True,
    )


def _finite(value: float | bool) -> float | bool | None:
    return value if isinstance(value, bool) or np.isfinite(value) else None


class _Runner:
    """Runs both models and looks at one operator after the other."""

    def __init__(self, model: onnx.ModelProto, om: OmModel, inputs: Values, tolerance: float) -> None:
        self.om, self.tolerance = om, tolerance
        self.saturates = socs.get(om.soc).saturates
        self.reference, model = _reference(model, inputs)
        self.taken = frozenset[str]()
        self.graph = self.without_branches()
        self.run_tasks = [task for task in om.tasks if task.lowered and (not task.within or task.within in self.taken)]
        self.nodes = {node.name: node for node in self.graph.graph.node}
        self.infos = {
            info.name: info
            for info in (*self.graph.graph.input, *self.graph.graph.value_info, *self.graph.graph.output)
        }
        self.small = {item.name: item for item in self.graph.graph.initializer}
        self.original = {item.name: item for item in model.graph.initializer}
        self.original |= {
            node.output[0]: item.t
            for node in model.graph.node
            if node.op_type == "Constant"
            for item in node.attribute
            if item.name == "value"
        }
        self.got = self.run()

    def without_branches(self) -> onnx.ModelProto:
        """The om's graph with the branches that are taken in place of the Ifs; notes which ones these are."""
        graph = self.om.graph()
        small = {item.name: numpy_helper.to_array(item) for item in graph.graph.initializer if _is_number(item)}

        def decide(name: str) -> bool | None:
            return _truth(self.reference.get(self.base(name), small.get(name)))

        while True:
            graph, more = taken_branches.straight(graph, decide)
            if not more:
                return graph
            self.taken |= more

    def base(self, name: str) -> str:
        """The model's name of a tensor: without the suffixes and the branch that the compiler puts to it."""
        while name not in self.reference and (suffix := next((end for end in SUFFIXES if name.endswith(end)), "")):
            name = name.removesuffix(suffix)
        inside = (name.removeprefix(f"{label}/") for label in self.taken if name.startswith(f"{label}/"))
        return name if name in self.reference else next((base for base in inside if base in self.reference), name)

    def run(self) -> Values:
        """Everything that leaves an operator, in a run of the whole om."""
        names = {tensor.name: None for task in self.run_tasks for tensor in task.outputs}
        names |= {info.name: None for info in self.graph.graph.output}
        probe = self.part(self.graph.graph.node, [info.name for info in self.graph.graph.input], list(names))
        arrays = [self.stored(self.reference[tensor.name], tensor.type.numpy) for tensor in self.om.inputs]
        return dict(zip(names, Model(probe).run(arrays)[0], strict=True))

    def part(self, nodes: Sequence[onnx.NodeProto], inputs: list[str], outputs: list[str]) -> OmModel:
        """An om of some of the nodes."""
        graph = helper.make_graph(
            nodes,
            "part",
            [self.infos[name] for name in inputs],
            [self.infos[name] for name in outputs],
            [
                self.small[name]
                for name in dict.fromkeys(name for node in nodes for name in _read(node))
                if name in self.small
            ],
            value_info=[info for name, info in self.infos.items() if name not in inputs and name not in outputs],
        )
        made = helper.make_model(graph, opset_imports=list(self.graph.opset_import))
        made.ir_version = self.graph.ir_version
        known = {tensor.name: tensor for task in self.om.tasks for tensor in (*task.inputs, *task.outputs)}
        known |= {tensor.name: tensor for tensor in self.om.inputs}
        return replace(
            self.om, graph_bytes=made.SerializeToString(), inputs=tuple(known[name] for name in inputs), outputs=()
        )

    def layers(self) -> list[Layer]:
        """One layer for each tensor of the model that leaves an operator."""
        found = []
        for number, task in enumerate(self.om.tasks):
            if task not in self.run_tasks or not task.nodes:
                continue
            own: Values | None = None
            for tensor in task.outputs:
                name = self.base(tensor.name)
                wanted = self.reference.get(name)
                got = self.got[tensor.name]
                if wanted is None or wanted.shape != got.shape or wanted.dtype.kind != "f":
                    continue
                own = self.alone(task) if own is None else own
                found.append(self.layer(number, task, tensor.name, name, own.get(tensor.name)))
        return found

    def layer(self, number: int, task: Task, tensor: str, name: str, alone: NDArray[Any] | None) -> Layer:
        wanted, got = self.reference[name], self.got[tensor]
        whole = errors(got, wanted)
        own = None if alone is None else errors(alone, wanted)
        bad = not whole.finite or whole.relative > self.tolerance
        cause = None
        if bad:
            inputs = [
                self.reference[base] for item in task.inputs if (base := self.base_of_input(item.name)) is not None
            ]
            off = own is not None and own.finite and own.relative <= self.tolerance
            facts = causes.Facts(
                task.name,
                task.nodes[-1],
                task.op_type,
                got if alone is None else alone,
                wanted,
                inputs,
                self.lost(task),
                self.largest_stored(task),
            )
            cause = causes.inherited(facts) if off else causes.find(facts, self.tolerance)
        return Layer(number, task.name, task.op_type, task.nodes, name, wanted.shape, whole, own, bad, cause)

    def base_of_input(self, name: str) -> str | None:
        """The reference that an operator's input stands for; the layout's suffix is no part of the name."""
        base = self.base(name if name in self.infos else name.rpartition(":")[0])
        return base if base in self.reference else None

    def alone(self, task: Task) -> Values:
        """The operator's results where it reads the reference's values; {} if these are not all there."""
        nodes = [self.nodes[name] for name in task.lowered]
        written = {name for node in nodes for name in node.output}
        read = dict.fromkeys(name for node in nodes for name in node.input if name)
        inputs = [name for name in read if name not in written and name not in self.small]
        outputs = [tensor.name for tensor in task.outputs]
        values = []
        for name in inputs:
            base = self.base(name)
            if base not in self.reference or name not in self.infos:
                return {}
            info = self.infos[name].type.tensor_type
            shape = tuple(dim.dim_value for dim in info.shape.dim)
            if self.reference[base].shape != shape:
                return {}
            values.append(self.stored(self.reference[base], helper.tensor_dtype_to_np_dtype(info.elem_type)))
        known = {tensor.name for each in self.om.tasks for tensor in (*each.inputs, *each.outputs)}
        if any(name not in known for name in inputs):
            return {}
        results, _ = Model(replace(self.part(nodes, inputs, outputs), tasks=(task,))).run(values)
        return dict(zip(outputs, results, strict=True))

    def stored(self, array: NDArray[Any], dtype: Any) -> NDArray[Any]:
        """The array as the chip stores it in a type."""
        if self.saturates and dtype == np.float16:
            array = np.clip(array, -causes.HALF_MAX, causes.HALF_MAX)
        with np.errstate(over="ignore"):
            return array.astype(dtype)

    def lost(self, task: Task) -> tuple[float, float] | None:
        """(value, stored value) of a number of the model that its float16 form does not hold."""
        for node in task.lowered:
            for name in self.nodes[node].input:
                item, before = self.small.get(name), self.original.get(self.constant_base(name))
                if item is None or before is None or item.data_type != TensorProto.FLOAT16 or item.external_data:
                    continue
                stored, value = (numpy_helper.to_array(proto).reshape(-1) for proto in (item, before))
                if value.size == 1 and stored.size == 1 and value[0] and abs(stored[0] / value[0] - 1) > 0.01:
                    return float(value[0]), float(stored[0])
        return None

    def largest_stored(self, task: Task) -> float:
        """The largest finite reference value of the float16 tensors that an operator stores."""
        names = {tensor.name for tensor in task.outputs}
        names |= {name for node in task.rounded if node in self.nodes for name in self.nodes[node].output}
        values = [
            self.reference[base]
            for name in names
            if (base := self.base(name)) in self.reference
            and name in self.infos
            and self.infos[name].type.tensor_type.elem_type == TensorProto.FLOAT16
        ]
        return max((float(np.abs(value[np.isfinite(value)]).max(initial=0.0)) for value in values), default=0.0)

    def constant_base(self, name: str) -> str:
        while name not in self.original and (suffix := next((end for end in SUFFIXES if name.endswith(end)), "")):
            name = name.removesuffix(suffix)
        return name


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """What a node and its branches read."""
    yield from node.input
    for inner in (inner for branch in branches(node).values() for part in graphs(branch) for inner in part.node):
        yield from inner.input


def _truth(value: NDArray[Any] | None) -> bool | None:
    """What a condition says; None for no value."""
    return None if value is None or value.size != 1 else bool(value.reshape(-1)[0])


def _reference(model: onnx.ModelProto, inputs: Values) -> tuple[Values, onnx.ModelProto]:
    """Every tensor of the model, computed by ONNX Runtime in the model's own types, and the model that has them all.

    An If's tensors can be seen from outside only where its branch stands in its place; which one that is, is known once
    the condition is.
    """
    values: dict[str, NDArray[Any]] = {}

    def decide(name: str) -> bool | None:
        return _truth(values.get(name))

    while True:
        values = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer if _is_number(item)}
        given = _computed(model, inputs)
        values |= {**inputs, **given}
        model, taken = taken_branches.straight(model, decide)
        if not taken:
            return {**inputs, **given}, model


def _is_number(item: TensorProto) -> bool:
    """True for a constant that can decide a branch."""
    return item.data_type == TensorProto.BOOL and not item.external_data


def _computed(model: onnx.ModelProto, inputs: Values) -> Values:
    """What the nodes of a model give."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    stated = {info.name for info in probe.graph.output}
    names = [name for node in probe.graph.node for name in node.output if name and name not in stated]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
        wanted = [item.name for item in session.get_outputs()]
        results = session.run(wanted, dict(inputs))
    except ORT_ERRORS as problem:
        raise atc_error("compare_inputs", reason=f"ONNX Runtime cannot run the original model ({problem})") from problem
    return {name: value for name, value in zip(wanted, results, strict=True) if isinstance(value, np.ndarray)}


def read_inputs(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file, by name.

    Raises:
        AtcError: rule ``atc.compare_inputs``.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, AttributeError) as problem:
        raise atc_error("compare_inputs", reason=f"{path.name} is no npz file of plain arrays ({problem})") from problem
