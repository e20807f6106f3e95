"""The registry of custom operators: what atc accepts beyond the built-in ones, and what the executor runs for them.

A custom operator is a Python callable on numpy arrays; the face asc makes one of a kernel. atc asks it for
the shapes of its outputs, the executor runs it between two parts of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cannlab.soc import Soc
    from cannlab.trace import KernelTrace

Attributes = Mapping[str, Any]
"""Attributes of a node: int, float, bytes, lists of these, or numpy arrays."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (a numpy dtype) and shape of a tensor."""

    dtype: np.dtype[Any]
    dims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run of a custom operator gave: its outputs, and the instruction traces of the kernels that it launched."""

    outputs: Sequence[NDArray[Any]]
    kernels: tuple[KernelTrace, ...] = ()


def _same_as_first(inputs: Sequence[TensorType], attributes: Attributes) -> list[TensorType]:
    return [inputs[0]]


@dataclass(frozen=True)
class CustomOp:
    """A custom operator.

    Attributes:
        domain: ONNX domain of its nodes; "ai.onnx" is the default domain.
        op_type: ONNX type of its nodes; letters count.
        run: ``run(inputs, attributes) -> outputs``, numpy arrays both ways, or a :class:`Ran`. It may raise
            ``TaskFault``.
        opsets: opset versions of the domain that it is registered for; () for every one.
        infer: ``infer(inputs, attributes) -> outputs``, types and shapes; like the first input by default.
        cost: ``cost(soc, inputs, outputs, attributes) -> ns``; None lets the time model count bytes and elements.
        core_type: where it runs: "AI_CORE", "AI_VECTOR_CORE" or "AI_CPU".
        float16: True if it takes float16 where the model is lowered to it; else it keeps float32.
        ge_type: GE type; the ONNX type by default.
    """

    domain: str
    op_type: str
    run: Callable[[list[NDArray[Any]], Attributes], Sequence[NDArray[Any]] | Ran]
    opsets: tuple[int, ...] = ()
    infer: Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]] = _same_as_first
    cost: Callable[[Soc, Sequence[TensorType], Sequence[TensorType], Attributes], int] | None = None
    core_type: str = "AI_VECTOR_CORE"
    float16: bool = True
    ge_type: str = ""


_registered: dict[tuple[str, str], CustomOp] = {}
_built_in: dict[tuple[str, str], CustomOp] = {}


def _key(domain: str, op_type: str) -> tuple[str, str]:
    return (domain or "ai.onnx", op_type)


def register(op: CustomOp) -> CustomOp:
    """Add an operator; a later one of the same domain and type takes its place. Returns it."""
    _registered[_key(op.domain, op.op_type)] = op
    return op


def build_in(op: CustomOp) -> CustomOp:
    """Add an operator of cannlab's own; a learner's of the same domain and type comes first. Returns it."""
    _built_in[_key(op.domain, op.op_type)] = op
    return op


def is_built_in(op: CustomOp) -> bool:
    """True for an operator of cannlab's own."""
    return _built_in.get(_key(op.domain, op.op_type)) is op


def unregister(domain: str, op_type: str) -> None:
    """Remove an operator; KeyError if there is none."""
    del _registered[_key(domain, op_type)]


def find(domain: str, op_type: str, opset: int | None = None) -> CustomOp | None:
    """The operator registered for a node's domain and type (and the model's opset of that domain)."""
    from cannlab.machine import builtin_ops  # noqa: F401  (fills the table)

    key = _key(domain, op_type)
    op = _registered.get(key) or _built_in.get(key)
    if op is None or (opset is not None and op.opsets and opset not in op.opsets):
        return None
    return op


def registered() -> tuple[CustomOp, ...]:
    """All registered operators, in order of registration."""
    return tuple(_registered.values())
