"""The executor: runs an om's lowered graph in the precision of the chip.

Inside a fused operator the chip accumulates in fp32; between operators it stores fp16. ONNX Runtime's CPU provider
computes a chain of fp16 operators in fp32 throughout, so the graph is rewritten first (``rounding``). Custom operators
run between the parts of the graph. Source: DESIGN 3 (executor).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from cannlab import soc as socs
from cannlab.machine import cost, custom_ops, sessions
from cannlab.machine.ort_errors import ORT_ERRORS
from cannlab.machine.rounding import Branching, Lowered, Part, Piece, split
from cannlab.machine.work import Work
from cannlab.om import OmModel
from cannlab.om.errors import om_error
from cannlab.soc import Soc

THREADS = 1
"""Threads of ONNX Runtime: one, so that results and forked processes are the same everywhere."""

_UNUSABLE: tuple[type[Exception], ...] = (*ORT_ERRORS, ValueError, KeyError)
"""What a graph raises that cannot be run although its checksum fits."""

Values = dict[str, "NDArray[Any]"]


@dataclass(frozen=True)
class _Session:
    """A part of the graph between custom operators, ready to run."""

    session: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: Mapping[str, NDArray[Any]]
    """Weights that the session reads in place."""

    def run(self, values: Values, taken: set[str]) -> None:
        feeds = {name: values[name] for name in self.inputs}
        values.update(zip(self.outputs, self.session.run(list(self.outputs), feeds), strict=True))


@dataclass(frozen=True)
class _Custom:
    """A custom operator of the graph."""

    op: custom_ops.CustomOp
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    attributes: custom_ops.Attributes

    def run(self, values: Values, taken: set[str]) -> None:
        results = self.op.run([values[name] for name in self.inputs], self.attributes)
        for name, dtype, result in zip(self.outputs, self.dtypes, results, strict=True):
            values[name] = np.ascontiguousarray(result, dtype=dtype)


@dataclass(frozen=True)
class _Branches:
    """An If of the graph."""

    source: Branching
    steps: tuple[list[_Step], list[_Step]]

    def run(self, values: Values, taken: set[str]) -> None:
        at = 0 if values[self.source.condition].reshape(-1)[0] else 1
        taken.add(self.source.labels[at])
        for step in self.steps[at]:
            step.run(values, taken)
        for name, result in zip(self.source.outputs, self.source.results[at], strict=True):
            values[name] = values[result]


_Step = _Session | _Custom | _Branches


class Model:
    """A loaded om, ready to run.

    Args:
        om: the om; ``om.read`` has checked it.
        soc: the SoC whose times are wanted; the om's own by default.
        threads: threads of ONNX Runtime.

    Attributes:
        work: how long one execution takes, and its operators; those of all branches, if there are any.

    Raises:
        OmError: rule ``om.custom_missing`` if a custom operator of the model is not registered,
            ``om.graph_damaged`` if the graph cannot be run.
    """

    def __init__(self, om: OmModel, soc: Soc | None = None, *, threads: int = THREADS) -> None:
        self.om = om
        self._lock = threading.Lock()
        try:
            lowered = Lowered(om)
            self._opsets = {item.domain or "ai.onnx": item.version for item in lowered.model.opset_import}
            self._steps = self._built(split(lowered, self._is_custom), lowered, threads)
        except _UNUSABLE as problem:
            raise om_error("graph_damaged", name=om.name, reason=str(problem)) from problem
        self._constants = lowered.constants
        self._inputs, self._outputs = lowered.inputs, lowered.outputs
        chip = soc or socs.get(om.soc)
        self.work = Work(ns=cost.model_ns(om, chip), operators=cost.operators(om, chip))

    def run(self, inputs: list[NDArray[Any]]) -> tuple[list[NDArray[Any]], Work]:
        """Execute the model.

        Args:
            inputs: one array for each of ``om.inputs``, of its dtype and shape.

        Returns:
            One array for each of ``om.outputs``, and the work: the same for every run that takes the same branches.

        Raises:
            OmError: rules ``om.input_count``, ``om.input``; ``om.run_failed`` where an operator cannot compute with
                these values (an index out of range).
        """
        self._check(inputs)
        with self._lock:
            values: Values = dict(self._constants)
            values.update(zip(self._inputs, inputs, strict=True))
            taken: set[str] = set()
            try:
                for step in self._steps:
                    step.run(values, taken)
            except ORT_ERRORS as problem:
                raise om_error(
                    "run_failed", name=self.om.name, reason=str(problem).strip().splitlines()[0]
                ) from problem
        results = [np.ascontiguousarray(values[name]).reshape(values[name].shape) for name in self._outputs]
        for result, tensor in zip(results, self.om.outputs, strict=True):
            if result.shape != tensor.dims:
                reason = f"{tensor.name} came out as {list(result.shape)}, the model says {list(tensor.dims)}"
                raise om_error("run_failed", name=self.om.name, reason=reason)
        return results, self._work_of(taken)

    def _work_of(self, taken: set[str]) -> Work:
        """The work of a run that took these branches."""
        if not any(task.within for task in self.om.tasks):
            return self.work
        pairs = zip(self.om.tasks, self.work.operators, strict=True)
        left_out = sum(found.ns for task, found in pairs if task.within and task.within not in taken)
        pairs = zip(self.om.tasks, self.work.operators, strict=True)
        run = tuple(found for task, found in pairs if not task.within or task.within in taken)
        return Work(ns=self.work.ns - left_out, operators=run)

    def _built(self, pieces: list[Piece], lowered: Lowered, threads: int) -> list[_Step]:
        found: list[_Step] = []
        for piece in pieces:
            if isinstance(piece, Part):
                found.append(_Session(sessions.build(piece, threads), piece.inputs, piece.outputs, piece.weights))
            elif isinstance(piece, Branching):
                first, second = piece.branches
                steps = (self._built(first, lowered, threads), self._built(second, lowered, threads))
                found.append(_Branches(piece, steps))
            else:
                found.append(self._custom(piece, lowered))
        return found

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
            op=op,
            inputs=tuple(name for name in node.input if name),
            outputs=tuple(node.output),
            dtypes=tuple(helper.tensor_dtype_to_np_dtype(lowered.type_of(name)) for name in node.output),
            attributes={item.name: helper.get_attribute_value(item) for item in node.attribute},
        )

    def _check(self, inputs: list[NDArray[Any]]) -> None:
        wanted = self.om.inputs
        if len(inputs) != len(wanted):
            names = ", ".join(tensor.name for tensor in wanted)
            raise om_error("input_count", count=len(inputs), wanted=len(wanted), names=names)
        for index, (given, tensor) in enumerate(zip(inputs, wanted, strict=True)):
            if given.dtype != tensor.type.numpy or given.shape != tensor.dims:
                raise om_error(
                    "input",
                    index=index,
                    name=tensor.name,
                    dtype=given.dtype.name,
                    dims=list(given.shape),
                    wanted_dtype=tensor.type.name,
                    wanted_dims=list(tensor.dims),
                )
