"""``--precision_mode``: in which types the operators compute, and the Casts between them.

Source: pyacl-and-atc 3.3 and 3.6, onnx-rules 4, documentation of precision_mode and precision_mode_v2. In all modes
integers are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from cannlab.atc import support
from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.atc.node_precision import Overrides
from cannlab.atc.precision_lists import Colour, Lists
from cannlab.machine import builtin_ops
from cannlab.soc import Soc

FLOAT, HALF, BF16 = int(TensorProto.FLOAT), int(TensorProto.FLOAT16), int(TensorProto.BFLOAT16)
FLOATS = (FLOAT, HALF, BF16)
SUFFIX = {FLOAT: "float", HALF: "half", BF16: "bf16"}
HALF_MAX = 65504.0

V2 = {
    "fp16": "force_fp16",
    "origin": "must_keep_origin_dtype",
    "cube_fp16in_fp32out": "force_fp32",
    "mixed_float16": "allow_mix_precision",
    "mixed_bfloat16": "allow_mix_precision_bf16",
}
SAME = {"cube_fp16in_fp32out": "force_fp32", "allow_mix_precision_fp16": "allow_mix_precision"}
MIXED = {"allow_mix_precision": HALF, "allow_mix_precision_bf16": BF16}
"""The modes with white, grey and black lists, and the type that they lower to."""

_BF16_MODES = frozenset(("allow_mix_precision_bf16", "allow_fp32_to_bf16"))
_BF16_CHIPS = frozenset(("Ascend310B", "Ascend910B", "Ascend910_93", "Ascend910_95"))
_HIF8_MODES = frozenset(("mixed_hif8", "cube_hif8"))
_HIF8_CHIPS = frozenset(("Ascend910_95",))

FLOAT_INPUTS: dict[str, frozenset[int]] = {
    "Resize": frozenset((1, 2)),
    "Upsample": frozenset((1,)),
    "BatchNormalization": frozenset((1, 2, 3, 4)),
}
"""Inputs that stay float32 whatever the operator computes in (scales; BatchNorm's parameters)."""


FLOAT_INSIDE = frozenset(("AddLayerNorm", "Gelu", "LayerNorm", "SoftmaxV2"))
"""Operators that a pass composes of several nodes and that compute in float32 from what they read to what they write:
their small constants (an epsilon) are attributes and keep their values. By GE type. Not so where the kernel's mode
stores each step (``implementations``)."""


class Compute(Enum):
    """What an operator reads and writes where the model says float32 (or another float)."""

    KEEP = "the model's types"
    FLOAT = "float32"
    HALF = "float16"
    BF16 = "bfloat16"
    HALF_IN = "float16 in, float32 out"


_TYPE = {Compute.FLOAT: FLOAT, Compute.HALF: HALF, Compute.BF16: BF16}
_COMPUTE = {dtype: compute for compute, dtype in _TYPE.items()}


@dataclass(frozen=True, slots=True)
class Lowering:
    """What :func:`lower` did.

    Attributes:
        casts: how many Cast nodes it put in.
        clipped: names of weights that had values outside float16's range and were clipped to it.
        overflowed: the same where they were not clipped and became infinite.
        unused: names of operators that the files of ``--keep_dtype`` and ``--customize_dtypes`` list and the model
            does not have.
    """

    casts: int
    clipped: tuple[str, ...]
    overflowed: tuple[str, ...]
    unused: tuple[str, ...] = ()


def mode(v1: str, v2: str, soc: Soc | None = None) -> str:
    """The mode that the two options ask for.

    Raises:
        AtcError: rules ``atc.precision_chip`` if the chip has no such type, ``atc.value_not_emulated``.
    """
    option, value = ("--precision_mode_v2", v2) if v2 else ("--precision_mode", v1 or "force_fp16")
    name = V2.get(value, value)
    name = SAME.get(name, name)
    for modes, chips, dtype in ((_BF16_MODES, _BF16_CHIPS, "bfloat16"), (_HIF8_MODES, _HIF8_CHIPS, "hifloat8")):
        if name in modes and soc is not None and soc.short not in chips:
            raise atc_error("precision_chip", option=option, value=value, soc=soc.name, dtype=dtype)
    if name in _HIF8_MODES:
        raise atc_error("value_not_emulated", option=option, value=value, usable=", ".join(V2))
    return name


def choose(
    graph: Graph, node: Node, mode: str, family: str, origin: int, lists: Lists | None = None, lowered: bool = False
) -> Compute:
    """In which type an operator computes.

    Args:
        graph, node: the operator; the leading one where a pass made one of several.
        mode: one of the modes of :func:`mode`.
        family: the chip's family in the support table.
        origin: the float type that the model gives it; UNDEFINED for one without floats.
        lists: white, grey and black list; needed by the modes of :data:`MIXED`.
        lowered: True if the operator before it was lowered, which operators of the grey list follow.
    """
    custom = graph.custom(node)
    if custom is not None:
        if custom is builtin_ops.AIPP:
            return Compute.HALF
        return Compute.HALF if custom.float16 and mode == "force_fp16" else Compute.KEEP
    if node.branches:
        return Compute.HALF if mode == "force_fp16" else Compute.KEEP
    known = support.of_node(node.domain, node.known_as, node.kernel)
    types = known.cores.get(family, ()) if known is not None else ()
    local = node.op_type in support.LOCAL and not node.kernel
    half, full, short = (local or name in types for name in ("float16", "float32", "bfloat16"))
    cube = node.op_type in support.CUBE
    kept = Compute.KEEP if {FLOAT: full, HALF: half, BF16: short}.get(origin, True) else Compute.FLOAT
    if mode in MIXED:
        target = Compute.HALF if MIXED[mode] == HALF else Compute.BF16
        assert lists is not None
        colour = Colour.GREY if local else lists.colour(graph, node)
        wanted = colour is Colour.WHITE or (colour is Colour.GREY and lowered)
        if wanted and (half if target is Compute.HALF else short):
            return target
        if not full and half and not local:
            return Compute.HALF
        return Compute.KEEP
    if mode == "must_keep_origin_dtype":
        return kept if origin != FLOAT and full else Compute.KEEP
    if mode == "allow_fp32_to_bf16":
        return Compute.BF16 if origin == FLOAT and not full and short else Compute.KEEP
    if not half:
        return Compute.FLOAT if origin == BF16 and full else Compute.KEEP
    if mode == "force_fp16" or (cube and mode == "allow_fp32_to_fp16" and origin == FLOAT):
        return Compute.HALF
    if cube and mode == "force_fp32":
        return Compute.HALF_IN
    if mode == "force_fp32":
        return Compute.FLOAT if full else Compute.HALF
    if origin == BF16 and short:
        return Compute.KEEP
    return kept if full else Compute.HALF


def lower(
    graph: Graph,
    mode: str,
    family: str,
    declared: Mapping[str, int],
    *,
    clip: bool,
    lists: Lists | None = None,
    overrides: Overrides | None = None,
) -> Lowering:
    """Lower the float32 tensors of a graph, and put Casts where types meet; then its branches, which read and write
    what the If around them does. Types of the graph are updated.

    Args:
        graph: with types of all tensors; inputs in the types of the model.
        mode: one of the modes of :func:`mode`.
        family: the chip's family in the support table.
        declared: TensorProto.DataType numbers of inputs and outputs of the om, where they differ from the model's.
        clip: clip weights to float16's range (``--is_weight_clip``).
        lists: white, grey and black list, for the mixed modes; the chip's own by default.
        overrides: operators whose types the user gives (``--keep_dtype``, ``--customize_dtypes``).

    Raises:
        AtcError: rules ``atc.custom_types`` if a file gives a type that an operator cannot take.
    """
    lists, overrides = lists or Lists.of(family), overrides or Overrides()
    found = [_Lowerer(graph, declared, clip, lists, overrides).run(mode, family)]
    for node in graph.nodes:
        for branch in node.branches.values():
            types = dict(zip(branch.inputs, map(graph.dtype, node.inputs[1:]), strict=True))
            types.update(zip(branch.outputs, map(graph.dtype, node.outputs), strict=True))
            found.append(lower(branch, mode, family, types, clip=clip, lists=lists, overrides=overrides))
    return Lowering(
        sum(item.casts for item in found),
        tuple(name for item in found for name in item.clipped),
        tuple(name for item in found for name in item.overflowed),
        found[0].unused,
    )


class _Lowerer:
    def __init__(
        self, graph: Graph, declared: Mapping[str, int], clip: bool, lists: Lists, overrides: Overrides
    ) -> None:
        self.graph = graph
        self.clip = clip
        self.lists = lists
        self.overrides = overrides
        self.modelled = {name: graph.dtype(name) for name in (*graph.types, *graph.constants)}
        self.declared = {name: declared.get(name, self.modelled[name]) for name in graph.outputs}
        for name in graph.inputs:
            graph.types[name] = (declared.get(name, self.modelled[name]), graph.types[name][1])
        self.value: dict[str, str] = {}
        """Where the value of a tensor is, if not under its own name."""
        self.cast_of: dict[tuple[str, int, str], str] = {}
        self.nodes: list[Node] = []
        self.task_of: dict[str, str] = {}
        """Which operator writes a tensor."""
        self.wide: dict[str, str] = {}
        """The float32 value of a tensor inside the operator that writes it narrower."""
        tasks: dict[str, set[str]] = {name: {""} for name in graph.outputs}
        for node in graph.nodes:
            for name in (*node.inputs, *node.outputs):
                tasks.setdefault(name, set()).add(node.task)
        self.shared = {name for name, readers in tasks.items() if len(readers) > 1}
        """Tensors that more than one operator has to do with, and outputs."""
        self.choices: dict[str, tuple[Compute, Compute]] = {}
        """What each operator reads and writes."""
        self.casts = 0
        self.clipped: list[str] = []
        self.overflowed: list[str] = []

    def run(self, mode: str, family: str) -> Lowering:
        leaders = {node.name: node for node in self.graph.nodes}
        members: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            members.setdefault(node.task, []).append(node)
        for node in self.graph.nodes:
            # What a pass took into an operator computes as that operator does; only the product itself reads halves.
            leader = leaders.get(node.task, node)
            read, written = self.choice(leader, members[leader.task], mode, family)
            if read is Compute.HALF_IN and leader is not node:
                read = written = Compute.FLOAT
            self.lower_node(node, read, written)
        for name in self.graph.outputs:
            if name in self.value:
                self.add_cast(self.value[name], name, self.declared[name])
        self.graph.nodes = self.nodes
        self.graph.drop_dead()
        return Lowering(self.casts, tuple(self.clipped), tuple(self.overflowed), self.overrides.unused(self.graph))

    def choice(self, leader: Node, members: list[Node], mode: str, family: str) -> tuple[Compute, Compute]:
        """What an operator reads and what it writes; decided at the first of its members."""
        if leader.task not in self.choices:
            self.choices[leader.task] = self.choose(leader, members, mode, family)
        return self.choices[leader.task]

    def choose(self, leader: Node, members: list[Node], mode: str, family: str) -> tuple[Compute, Compute]:
        named = [leader, *(node for node in members if node is not leader)]
        given = self.overrides.types(self.graph, named, family)
        if given is not None:
            return _COMPUTE[given[0]], _COMPUTE[given[1]]
        if self.overrides.keeps(self.graph, named) and mode != "must_keep_origin_dtype":
            mode = "must_keep_origin_dtype"
        found = (self.modelled[name] for name in (*leader.inputs, *leader.outputs) if name)
        origin = next((dtype for dtype in found if dtype in FLOATS), int(TensorProto.UNDEFINED))
        lowered = self.follows(members[0], mode)
        compute = choose(self.graph, leader, mode, family, origin, self.lists, lowered)
        return compute, compute

    def follows(self, node: Node, mode: str) -> bool:
        """True if the operator before this one was lowered: what it reads first has the lower type."""
        for name in node.inputs:
            if name and name not in self.graph.constants and self.modelled[name] in FLOATS:
                return self.graph.dtype(self.value.get(name, name)) == MIXED.get(mode)
        return False

    def lower_node(self, node: Node, compute: Compute, written: Compute) -> None:
        # Steps that are stored are stored in float16 only; of bfloat16 every kernel makes float32.
        inside = compute in (Compute.HALF, Compute.BF16) and (node.rounds or node.kernel in FLOAT_INSIDE)
        inside = inside and not (node.rounds and compute is Compute.HALF)
        originals = list(node.inputs)
        node.inputs = [self.value.get(name, name) for name in node.inputs]
        if inside and node.op_type != "Cast":
            node.inputs = [
                self.inner(node, old, name, compute) if old and self.modelled[old] in FLOATS else name
                for old, name in zip(originals, node.inputs, strict=True)
            ]
        elif node.op_type != "Cast":
            keep = FLOAT_INPUTS.get(node.op_type, frozenset())
            for index, name in enumerate(originals):
                if name and self.modelled[name] in FLOATS:
                    wanted = FLOAT if index in keep else self.wanted(compute, self.modelled[name])
                    taken = self.task_of.get(node.inputs[index]) == node.task
                    tensor = self.as_type(node.inputs[index], wanted, node if taken else None)
                    if index not in keep and compute is Compute.HALF_IN:
                        tensor = self.as_type(tensor, FLOAT, node)
                    elif index not in keep and written is Compute.FLOAT and compute is not Compute.FLOAT:
                        # The kernel's own conversion: ONNX operators have one type for all.
                        tensor = self.as_type(tensor, self.wanted(written, self.modelled[name]), node)
                    node.inputs[index] = tensor
        self.nodes.append(node)
        self.task_of.update(dict.fromkeys(node.outputs, node.task))
        for index, name in enumerate(list(node.outputs)):
            if not name:
                continue
            dtype = self.modelled[name]
            if node.op_type != "Cast" and dtype in FLOATS:
                if written is Compute.HALF_IN or (inside and name not in self.shared):
                    dtype = FLOAT
                else:
                    dtype = self.wanted(written, dtype)
            dims = self.graph.types[name][1]
            target = name
            if name in self.declared and dtype != self.declared[name]:
                self.value[name] = target = f"{name}/computed"
                self.graph.types[name] = (self.declared[name], dims)
            self.graph.types[target] = (dtype, dims)
            node.outputs[index] = target
            if (compute is Compute.FLOAT or inside) and dtype in (HALF, BF16):
                # Read as float32 and written narrower: the kernel converts at its end.
                self.wide[name] = node.outputs[index] = f"{target}/wide"
                self.graph.types[node.outputs[index]] = (FLOAT, dims)
                self.add_cast(node.outputs[index], target, dtype, node)

    def inner(self, node: Node, name: str, value: str, compute: Compute) -> str:
        """What a part of an operator that computes in float32 inside reads; only what it shares is stored narrow."""
        if self.task_of.get(name) == node.task:
            return self.wide.get(name, value)
        if name in self.graph.constants and self.graph.constants[name].size == 1:
            return self.as_type(value, FLOAT)  # an attribute of the operator
        return self.as_type(self.as_type(value, _TYPE[compute]), FLOAT, node)

    @staticmethod
    def wanted(compute: Compute, modelled: int) -> int:
        """The type of a tensor that is read (HALF_IN: as it is read)."""
        return modelled if compute is Compute.KEEP else _TYPE.get(compute, HALF)

    def as_type(self, name: str, dtype: int, inside: Node | None = None) -> str:
        """A tensor in another type; a Cast inside a node's own operator if one is given."""
        if self.graph.dtype(name) == dtype:
            return name
        key = (name, dtype, "" if inside is None else inside.name)
        if key not in self.cast_of:
            target = f"{name}/{SUFFIX[dtype]}" + ("" if inside is None else f"/{inside.name}")
            if name in self.graph.constants and inside is None:
                self.graph.constants[target] = self.constant(name, dtype)
            else:
                self.add_cast(name, target, dtype, inside)
            self.cast_of[key] = target
        return self.cast_of[key]

    def add_cast(self, source: str, target: str, dtype: int, inside: Node | None = None) -> None:
        # A Cast inside an operator is the kernel's own conversion, not an operator that ATC inserts.
        if inside is None:
            node = Node(f"trans_Cast_{self.casts}", "Cast", "ai.onnx", [source], [target], origins=())
            self.casts += 1
        else:
            name, kernel = f"{inside.task}/{target}", inside.kernel
            node = Node(name, "Cast", "ai.onnx", [source], [target], origins=(), task=inside.task, kernel=kernel)
        node.set("to", dtype)
        self.graph.types[target] = (dtype, self.graph.known_shape(source))
        self.nodes.append(node)

    def constant(self, name: str, dtype: int) -> NDArray[Any]:
        array = self.graph.constants[name]
        if dtype != HALF:
            return array.astype(helper.tensor_dtype_to_np_dtype(dtype))
        array = array.astype(np.float32)
        if (np.abs(array) > HALF_MAX).any():
            (self.clipped if self.clip else self.overflowed).append(name)
            if self.clip:
                array = np.clip(array, -HALF_MAX, HALF_MAX)
        with np.errstate(over="ignore"):
            return array.astype(np.float16)
