"""``--precision_mode``: in which types the operators compute, and the Casts between them.

Source: pyacl-and-atc 3.3 and 3.6, onnx-rules 4. In all modes integers are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from cannlab.atc import support
from cannlab.atc.graph import Graph, Node

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
HALF_MAX = 65504.0

V2 = {"fp16": "force_fp16", "origin": "must_keep_origin_dtype", "cube_fp16in_fp32out": "force_fp32"}
SAME = {"cube_fp16in_fp32out": "force_fp32"}

FLOAT_INPUTS: dict[str, frozenset[int]] = {
    "Resize": frozenset((1, 2)),
    "Upsample": frozenset((1,)),
    "BatchNormalization": frozenset((1, 2, 3, 4)),
}
"""Inputs that stay float32 whatever the operator computes in (scales; BatchNorm's parameters)."""


class Compute(Enum):
    """What an operator reads and writes where the model says float32."""

    KEEP = "the model's types"
    FLOAT = "float32"
    HALF = "float16"
    HALF_IN = "float16 in, float32 out"


@dataclass(frozen=True, slots=True)
class Lowering:
    """What :func:`lower` did.

    Attributes:
        casts: how many Cast nodes it put in.
        clipped: names of weights that had values outside float16's range and were clipped to it.
        overflowed: the same where they were not clipped and became infinite.
    """

    casts: int
    clipped: tuple[str, ...]
    overflowed: tuple[str, ...]


def mode(v1: str, v2: str) -> str:
    """The mode that the two options ask for."""
    name = V2[v2] if v2 else v1 or "force_fp16"
    return SAME.get(name, name)


def choose(graph: Graph, node: Node, mode: str, family: str) -> Compute:
    """In which type an operator computes."""
    custom = graph.custom(node)
    if custom is not None:
        return Compute.HALF if custom.float16 and mode == "force_fp16" else Compute.KEEP
    if node.branches:
        return Compute.HALF if mode == "force_fp16" else Compute.KEEP
    known = support.find(node.domain, node.known_as)
    types = known.cores.get(family, ()) if known is not None else ()
    local = node.op_type in support.LOCAL
    half, full = local or "float16" in types, local or "float32" in types
    cube = node.op_type in support.CUBE
    if mode == "must_keep_origin_dtype" or not half:
        return Compute.KEEP
    if mode == "force_fp16" or (cube and mode == "allow_fp32_to_fp16"):
        return Compute.HALF
    if cube and mode == "force_fp32":
        return Compute.HALF_IN
    if not full:
        return Compute.HALF
    return Compute.FLOAT if mode == "force_fp32" else Compute.KEEP


def lower(graph: Graph, mode: str, family: str, declared: Mapping[str, int], *, clip: bool) -> Lowering:
    """Lower the float32 tensors of a graph, and put Casts where types meet. Types of the graph are updated.

    Args:
        graph: with types of all tensors; inputs in the types of the model.
        mode: one of the modes of :func:`mode`.
        family: the chip's family in the support table.
        declared: TensorProto.DataType numbers of inputs and outputs of the om, where they differ from the model's.
        clip: clip weights to float16's range (``--is_weight_clip``).
    """
    return _Lowerer(graph, declared, clip).run(mode, family)


def lower_branches(graph: Graph, mode: str, family: str, declared: Mapping[str, int], *, clip: bool) -> Lowering:
    """:func:`lower` for a graph and then for its branches, which read and write what the If around them does."""
    own = lower(graph, mode, family, declared, clip=clip)
    found = [own]
    for node in graph.nodes:
        for branch in node.branches.values():
            types = dict(zip(branch.inputs, map(graph.dtype, node.inputs[1:]), strict=True))
            types.update(zip(branch.outputs, map(graph.dtype, node.outputs), strict=True))
            found.append(lower_branches(branch, mode, family, types, clip=clip))
    return Lowering(
        sum(item.casts for item in found),
        tuple(name for item in found for name in item.clipped),
        tuple(name for item in found for name in item.overflowed),
    )


class _Lowerer:
    def __init__(self, graph: Graph, declared: Mapping[str, int], clip: bool) -> None:
        self.graph = graph
        self.clip = clip
        self.modelled = {name: graph.dtype(name) for name in (*graph.types, *graph.constants)}
        self.declared = {name: declared.get(name, self.modelled[name]) for name in graph.outputs}
        for name in graph.inputs:
            graph.types[name] = (declared.get(name, self.modelled[name]), graph.types[name][1])
        self.value: dict[str, str] = {}
        """Where the value of a tensor is, if not under its own name."""
        self.cast_of: dict[tuple[str, int, str], str] = {}
        self.nodes: list[Node] = []
        self.casts = 0
        self.clipped: list[str] = []
        self.overflowed: list[str] = []

    def run(self, mode: str, family: str) -> Lowering:
        for node in self.graph.nodes:
            self.lower_node(node, choose(self.graph, node, mode, family))
        for name in self.graph.outputs:
            if name in self.value:
                self.add_cast(self.value[name], name, self.declared[name])
        self.graph.nodes = self.nodes
        self.graph.drop_dead()
        return Lowering(self.casts, tuple(self.clipped), tuple(self.overflowed))

    def lower_node(self, node: Node, compute: Compute) -> None:
        originals = list(node.inputs)
        node.inputs = [self.value.get(name, name) for name in node.inputs]
        if node.op_type != "Cast":
            keep = FLOAT_INPUTS.get(node.op_type, frozenset())
            for index, name in enumerate(originals):
                if name and self.modelled[name] in (FLOAT, HALF):
                    wanted = FLOAT if index in keep else self.wanted(compute, self.modelled[name])
                    tensor = self.as_type(node.inputs[index], wanted)
                    if compute is Compute.HALF_IN and index not in keep:
                        tensor = self.as_type(tensor, FLOAT, node)
                    node.inputs[index] = tensor
        self.nodes.append(node)
        for index, name in enumerate(node.outputs):
            if not name:
                continue
            dtype = self.modelled[name]
            if node.op_type != "Cast" and dtype in (FLOAT, HALF):
                dtype = FLOAT if compute is Compute.HALF_IN else self.wanted(compute, dtype)
            dims = self.graph.types[name][1]
            if name in self.declared and dtype != self.declared[name]:
                self.value[name] = node.outputs[index] = f"{name}/computed"
                self.graph.types[f"{name}/computed"] = (dtype, dims)
                self.graph.types[name] = (self.declared[name], dims)
            else:
                self.graph.types[name] = (dtype, dims)

    @staticmethod
    def wanted(compute: Compute, modelled: int) -> int:
        if compute is Compute.KEEP:
            return modelled
        return int(FLOAT if compute is Compute.FLOAT else HALF)

    def as_type(self, name: str, dtype: int, inside: Node | None = None) -> str:
        """A tensor in another type; a Cast inside a node's own operator if one is given."""
        if self.graph.dtype(name) == dtype:
            return name
        key = (name, dtype, "" if inside is None else inside.name)
        if key not in self.cast_of:
            target = f"{name}/{'half' if dtype == HALF else 'float'}" + ("" if inside is None else f"/{inside.name}")
            if name in self.graph.constants and inside is None:
                self.graph.constants[target] = self.constant(name, dtype)
            else:
                self.add_cast(name, target, dtype, "" if inside is None else inside.task)
            self.cast_of[key] = target
        return self.cast_of[key]

    def add_cast(self, source: str, target: str, dtype: int, task: str = "") -> None:
        # A Cast inside an operator is the kernel's own conversion, not an operator that ATC inserts.
        name = f"{task}/{target}" if task else f"trans_Cast_{self.casts}"
        self.casts += not task
        node = Node(name, "Cast", "ai.onnx", [source], [target], origins=(), task=task)
        node.set("to", dtype)
        self.graph.types[target] = (dtype, self.graph.known_shape(source))
        self.nodes.append(node)

    def constant(self, name: str, dtype: int) -> NDArray[Any]:
        array = self.graph.constants[name]
        if dtype == FLOAT:
            return array.astype(np.float32)
        if (np.abs(array) > HALF_MAX).any():
            (self.clipped if self.clip else self.overflowed).append(name)
            if self.clip:
                array = np.clip(array, -HALF_MAX, HALF_MAX)
        with np.errstate(over="ignore"):
            return array.astype(np.float16)
