"""The executor: runs an om's lowered graph in the precision of the chip.

Inside a fused operator the chip accumulates in fp32; between operators it stores fp16 (or bf16). ONNX Runtime's CPU
provider computes a chain of fp16 operators in fp32 throughout, so the graph is rewritten first (``rounding``). Custom
operators run between the parts of the graph. A model with gears has a graph for each; one with ranges has a single
graph that takes any shape. Source: DESIGN 3 (executor).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from cannlab import soc as socs
from cannlab.machine import cost, custom_ops, open_shapes, sessions
from cannlab.machine.ort_errors import ORT_ERRORS, first_line
from cannlab.machine.rounding import Branching, Lowered, Part, Piece, plain_name, split
from cannlab.machine.work import Work
from cannlab.om import OmModel, OmTensor, dtypes
from cannlab.om.errors import om_error
from cannlab.soc import Soc
from cannlab.trace import KernelTrace

THREADS = 1
"""Threads of ONNX Runtime: one, so that results and forked processes are the same everywhere."""

_UNUSABLE: tuple[type[Exception], ...] = (*ORT_ERRORS, ValueError, KeyError)
"""What a graph raises that cannot be run although its checksum fits."""


@dataclass
class _Run:
    """What one execution has come to.

    Attributes:
        values: tensors by name. shapes: of those whose size the time model asks for, where shapes are open.
        kernels: instruction traces by the position of the operator in the om's task list.
        taken: labels of the branches that ran.
    """

    values: dict[str, NDArray[Any]]
    shapes: dict[str, tuple[int, ...]]
    kernels: dict[int, KernelTrace] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Session:
    """A part of the graph between custom operators, ready to run."""

    session: Any
    part: Part
    """What it was built from; the session reads its weights in place."""
    bf16: frozenset[str]
    """Outputs that are bf16 between the parts."""

    def run(self, now: _Run) -> None:
        part = self.part
        feeds = {name: _as_fed(now.values[name]) for name in part.inputs}
        names = [*part.outputs.values(), *part.shapes.values()]
        given = dict(zip((*part.outputs, *part.shapes.values()), self.session.run(names, feeds), strict=True))
        for name in part.outputs:
            now.values[name] = given[name].astype(dtypes.BFLOAT16.numpy) if name in self.bf16 else given[name]
        for name, source in part.shapes.items():
            now.shapes[name] = tuple(int(dim) for dim in given[source])


def _as_fed(array: NDArray[Any]) -> NDArray[Any]:
    """ONNX Runtime takes no bf16 array: fp32 instead."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


@dataclass(frozen=True)
class _Custom:
    """A custom operator of the graph; ``operator`` is its position in the om's task list."""

    operator: int
    op: custom_ops.CustomOp
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    attributes: custom_ops.Attributes

    def run(self, now: _Run) -> None:
        ran = self.op.run([now.values[name] for name in self.inputs], self.attributes)
        results = ran.outputs if isinstance(ran, custom_ops.Ran) else ran
        for name, dtype, result in zip(self.outputs, self.dtypes, results, strict=True):
            now.values[name] = np.ascontiguousarray(result, dtype=dtype)
            now.shapes[name] = now.values[name].shape
        if isinstance(ran, custom_ops.Ran) and ran.kernels:
            now.kernels[self.operator] = ran.kernels[0]


@dataclass(frozen=True)
class _Branches:
    """An If of the graph."""

    source: Branching
    steps: tuple[list[_Step], list[_Step]]

    def run(self, now: _Run) -> None:
        at = 0 if now.values[self.source.condition].reshape(-1)[0] else 1
        now.taken.add(self.source.labels[at])
        for step in self.steps[at]:
            step.run(now)
        for name, result in zip(self.source.outputs, self.source.results[at], strict=True):
            now.values[name] = now.values[result]
            now.shapes[name] = now.values[result].shape


_Step = _Session | _Custom | _Branches


class Program:
    """One graph, ready to run: a model with fixed shapes, one gear, or a model with ranges.

    ``inputs`` and ``outputs`` are the graph's, by name; ``constants`` its initializers.
    """

    def __init__(self, om: OmModel, chip: Soc, threads: int) -> None:
        self.om = om
        self._chip = chip
        lowered = Lowered(om, chip.saturates)
        self._opsets = {item.domain or "ai.onnx": item.version for item in lowered.model.opset_import}
        self._steps = self._built(split(lowered, self._is_custom), lowered, threads)
        self.pure = all(isinstance(step, _Session) for step in self._steps)
        self.constants = lowered.constants
        self._known = lowered.infos
        self.inputs, self.outputs = lowered.inputs, lowered.outputs
        self._branches = any(task.within for task in om.tasks)
        self.work = Work(ns=cost.model_ns(om, chip), operators=cost.operators(om, chip))

    def run(self, inputs: Sequence[NDArray[Any]]) -> tuple[list[NDArray[Any]], Work]:
        given = dict(zip(self.inputs, inputs, strict=True))
        now = _Run({**self.constants, **given}, {name: array.shape for name, array in given.items()})
        for step in self._steps:
            step.run(now)
        # ascontiguousarray makes a vector of a single number.
        results = [np.ascontiguousarray(now.values[name]).reshape(now.values[name].shape) for name in self.outputs]
        for result, tensor in zip(results, self.om.outputs, strict=False):
            if not self.om.dynamic and result.shape != tensor.dims:
                reason = f"{tensor.name} came out as {list(result.shape)}, the model says {list(tensor.dims)}"
                raise om_error("run_failed", name=self.om.name, reason=reason)
        return results, self._work(now)

    def _work(self, now: _Run) -> Work:
        """The work of a run: at its shapes, of the branches that it took, with the traces of its kernels."""
        work = self._work_at(now.shapes) if self.om.dynamic else self.work
        if not now.kernels and not self._branches:
            return work
        ran = [not task.within or task.within in now.taken for task in self.om.tasks]
        operators = tuple(
            replace(operator, kernel=now.kernels[number]) if number in now.kernels else operator
            for number, operator in enumerate(work.operators)
            if ran[number]
        )
        left_out = sum(operator.ns for number, operator in enumerate(work.operators) if not ran[number])
        return Work(ns=work.ns - left_out, operators=operators)

    def _work_at(self, shapes: Mapping[str, tuple[int, ...]]) -> Work:
        """The work at the shapes of this run; a layout's suffix on a tensor's name does not matter."""
        names = {tensor.name for task in self.om.tasks for tensor in (*task.inputs, *task.outputs)}
        named = {name: shapes[plain] for name in names if (plain := plain_name(name, self._known)) in shapes}
        there = replace(self.om, tasks=open_shapes.at(self.om, named))
        return Work(ns=cost.model_ns(there, self._chip), operators=cost.operators(there, self._chip))

    def _built(self, pieces: list[Piece], lowered: Lowered, threads: int) -> list[_Step]:
        found: list[_Step] = []
        for piece in pieces:
            if isinstance(piece, Part):
                found.append(self._session(piece, lowered, threads))
            elif isinstance(piece, Branching):
                first, second = piece.branches
                steps = (self._built(first, lowered, threads), self._built(second, lowered, threads))
                found.append(_Branches(piece, steps))
            else:
                found.append(self._custom(piece, lowered))
        return found

    def _session(self, part: Part, lowered: Lowered, threads: int) -> _Session:
        bf16 = frozenset(name for name in part.outputs if lowered.type_of(name) == TensorProto.BFLOAT16)
        return _Session(sessions.build(part, threads), part, bf16)

    def _is_custom(self, node: onnx.NodeProto) -> bool:
        domain = node.domain or "ai.onnx"
        if custom_ops.find(domain, node.op_type, self._opsets.get(domain)) is not None:
            return True
        if domain != "ai.onnx" or not onnx.defs.has(node.op_type):
            raise om_error("custom_missing", domain=domain, op_type=node.op_type)
        return False

    def _custom(self, node: onnx.NodeProto, lowered: Lowered) -> _Custom:
        op = custom_ops.find(node.domain, node.op_type)
        assert op is not None
        return _Custom(
            operator=lowered.task_of[node.name],
            op=op,
            inputs=tuple(name for name in node.input if name),
            outputs=tuple(node.output),
            dtypes=tuple(helper.tensor_dtype_to_np_dtype(lowered.type_of(name)) for name in node.output),
            attributes={item.name: helper.get_attribute_value(item) for item in node.attribute},
        )


class Model:
    """A loaded om, ready to run.

    Args:
        om: the om; ``om.read`` has checked it.
        soc: the SoC whose times are wanted; the om's own by default.
        threads: threads of ONNX Runtime.

    Attributes:
        work: how long one execution takes, and its operators: of the largest gear, or at the reference shapes, where
            the shapes are not fixed; those of all branches, if there are any.

    Raises:
        OmError: rule ``om.custom_missing`` if a custom operator of the model is not registered,
            ``om.graph_damaged`` if the graph cannot be run.
    """

    def __init__(self, om: OmModel, soc: Soc | None = None, *, threads: int = THREADS) -> None:
        self.om = om
        self._lock = threading.Lock()
        self._chip = cost.chip(om, soc or socs.get(om.soc))
        self._threads = threads
        self._programs: dict[int, Program] = {}
        self.work = self._program(om.largest if om.variants else 0).work

    def _program(self, gear: int) -> Program:
        """The program of a gear (0 without gears), made at its first use."""
        if gear not in self._programs:
            om = self.om.at(gear) if self.om.variants else self.om
            try:
                self._programs[gear] = Program(om, self._chip, self._threads)
            except _UNUSABLE as problem:
                raise om_error("graph_damaged", name=om.name, reason=str(problem)) from problem
        return self._programs[gear]

    @property
    def pure(self) -> bool:
        """True if nothing but ONNX Runtime computes it: no custom operator, no branch, no gear."""
        return not self.om.variants and self._program(0).pure

    def gear(self, chosen: NDArray[Any]) -> int:
        """The index of the gear that the contents of ``ascend_mbatch_shape_data`` name; the largest for anything else.

        Source: pyacl-and-atc 3.4 (an unset gear is the largest).
        """
        values = tuple(int(value) for value in chosen.reshape(-1))
        gears = [variant.values for variant in self.om.variants]
        return gears.index(values) if values in gears else self.om.largest

    def run(self, inputs: list[NDArray[Any]], gear: int | None = None) -> tuple[list[NDArray[Any]], Work]:
        """Execute the model.

        Args:
            inputs: one array for each of ``om.inputs``, of its dtype and shape (of the gear's shape; of any shape in
                the ranges). The input that chooses the gear may be left out if ``gear`` is given. Images for AIPP may
                have any shape with their number of bytes.
            gear: index of the gear; by default the one that the last input names.

        Returns:
            One array for each of ``om.outputs``, and the work (the same for every run that has these shapes and takes
            these branches, but for the traces of kernels).

        Raises:
            OmError: rules ``om.input_count``, ``om.input``, ``om.input_range``; ``om.run_failed`` where an operator
                cannot compute with these values (an index out of range) or shapes.
            TaskFault: a kernel of a custom operator broke a rule.
        """
        wanted = self.om.inputs
        if self.om.variants:
            count = len(self.om.variants[0].inputs)
            if gear is None and len(inputs) == len(wanted):
                gear = self.gear(inputs[count])
            inputs = inputs[:count] if len(inputs) in (count, len(wanted)) else inputs
            gear = self.om.largest if gear is None else gear
            wanted = self.om.variants[gear].inputs
        self._check(inputs, wanted)
        with self._lock:
            try:
                return self._program(gear or 0).run(inputs)
            except ORT_ERRORS as problem:
                raise om_error("run_failed", name=self.om.name, reason=first_line(problem)) from problem

    def _check(self, inputs: list[NDArray[Any]], wanted: Sequence[OmTensor]) -> None:
        if len(inputs) != len(wanted):
            names = ", ".join(tensor.name for tensor in wanted)
            raise om_error("input_count", count=len(inputs), wanted=len(wanted), names=names)
        for index, (given, tensor) in enumerate(zip(inputs, wanted, strict=True)):
            facts: dict[str, Any] = {"index": index, "name": tensor.name, "dims": list(given.shape)}
            if tensor.name in self.om.aipp:
                exact = self.om.aipp[tensor.name]["mode"] == "static"
                fits = given.dtype == np.uint8 and (given.nbytes == tensor.size or not exact)
            elif tensor.ranges:
                if len(given.shape) != len(tensor.dims) or not all(map(_within, given.shape, tensor.ranges)):
                    ranges = ",".join(f"{low}~{high}" for low, high in tensor.ranges)
                    raise om_error("input_range", ranges=ranges, **facts)
                fits = given.dtype == tensor.type.numpy
            else:
                fits = given.dtype == tensor.type.numpy and given.shape == tensor.dims
            if not fits:
                wanted_type = {"wanted_dtype": tensor.type.name, "wanted_dims": list(tensor.dims)}
                raise om_error("input", dtype=given.dtype.name, **wanted_type, **facts)


def _within(size: int, limits: tuple[int, int]) -> bool:
    low, high = limits
    return low <= size and (high < 0 or size <= high)
