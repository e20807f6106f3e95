"""The graph that the compiler works on: nodes, constants, types. Passes change it in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cannlab.atc import operand_shapes
from cannlab.atc.errors import atc_error
from cannlab.machine import custom_ops
from cannlab.machine.shape_inference import infer_shapes
from cannlab.om import DataType, dtypes

SMALL_BYTES = 4096
"""Constants up to this size are shown to shape inference (shapes, axes, pads)."""

CONTROL = "cannlab.control"
"""Domain of nodes with branches while types are inferred: ONNX leaves nodes of a domain that it does not know alone."""

LIKE_INPUT = frozenset(("MeanVarianceNormalization",))
"""Types on which the strict inference of ONNX fails; their output is like their input."""

Type = tuple[int, tuple[int | None, ...] | None]
"""TensorProto.DataType number and shape; a dimension, or the whole shape, may be unknown."""


@dataclass(eq=False)
class Node:
    """An operator.

    Attributes:
        name: its name; unique in the graph.
        op_type: ONNX type.
        domain: ONNX domain, "ai.onnx" for the default one.
        inputs: tensors that it reads; "" for one left out.
        outputs: tensors that it writes.
        attributes: ONNX attributes by name.
        origins: names of the nodes of the model that it stands for; () for one that the
            compiler put in, None for itself.
        task: name of the fused operator that it belongs to: its own name, or the leading node's.
        kernel: GE type of the operator that a pass composed of it and others ("LayerNorm"); "" for its own type.
        absorbed: a pass of the graph took it into another operator: no trace of its name is left.
        fixed: numbers of inputs whose constants travel with the operator as attributes.
        rounds: its result is stored in its own type although it stays inside the fused operator.
        inner: True for a part of its operator's kernel: it has none of its own.
        stands_for: ONNX type under which the tables know its kernel, where a plugin rewrote it; "" for its own.
        branches: the graphs of an If, "then_branch" and "else_branch". Its inputs are the condition and what the
            branches read from outside; each branch's graph has an input for each of the latter, in this order.
    """

    name: str
    op_type: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, onnx.AttributeProto] = field(default_factory=dict)
    origins: tuple[str, ...] | None = None
    task: str = ""
    kernel: str = ""
    absorbed: bool = False
    fixed: tuple[int, ...] = ()
    rounds: bool = False
    inner: bool = False
    stands_for: str = ""
    branches: dict[str, Graph] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.task = self.task or self.name

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the nodes of the model that it stands for."""
        return (self.name,) if self.origins is None else self.origins

    @property
    def known_as(self) -> str:
        """ONNX type under which the tables know its kernel."""
        return self.stands_for or self.op_type

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an attribute."""
        attribute = self.attributes.get(name)
        return default if attribute is None else helper.get_attribute_value(attribute)

    def set(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.attributes[name] = helper.make_attribute(name, value)

    def to_onnx(self, names: Mapping[str, str] | None = None) -> onnx.NodeProto:
        """As an ONNX node.

        Args:
            names: other names for tensors that it, or its branches, read from outside of the graph.
        """
        domain = "" if self.domain == "ai.onnx" else self.domain
        inputs = [(names or {}).get(name, name) for name in self.inputs]
        read = inputs[:1] if self.branches else inputs
        node = helper.make_node(self.op_type, read, self.outputs, self.name, domain=domain)
        node.attribute.extend(self.attributes[name] for name in sorted(self.attributes))
        for name, branch in self.branches.items():
            outer = dict(zip(branch.inputs, inputs[1:], strict=True))
            node.attribute.append(helper.make_attribute(name, branch.to_branch(outer)))
        return node

    @property
    def hidden(self) -> bool:
        """True if ONNX is not to infer its types: an If, and what ONNX's own inference fails on."""
        return bool(self.branches) or self.op_type in LIKE_INPUT

    def opaque(self) -> onnx.NodeProto:
        """As an ONNX node whose branches nobody looks at."""
        return helper.make_node(self.op_type, self.inputs, self.outputs, self.name, domain=CONTROL)


class Graph:
    """A graph in execution order."""

    def __init__(self, name: str, opsets: dict[str, int]) -> None:
        self.name = name
        self.opsets = opsets
        self.nodes: list[Node] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.types: dict[str, Type] = {}
        self.open = False
        """True if shapes are known only when the model runs."""
        self.open_types: dict[str, Type] = {}
        """The types as far as they are known without running, where shapes are open; ``types`` has references then."""
        self.assumed = 0
        """What a dimension that stays unknown is taken as from now on; 0 leaves it unknown."""
        self.hints: dict[str, Type] = {}
        """Types to take before that, where inference knows less."""

    @property
    def opset(self) -> int:
        """Version of the default domain."""
        return self.opsets["ai.onnx"]

    # -- asking ------------------------------------------------------------------------------------------

    def walk(self) -> Iterator[Graph]:
        """This graph and those of its branches, outer ones first."""
        yield self
        for node in self.nodes:
            for branch in node.branches.values():
                yield from branch.walk()

    def producer(self, tensor: str) -> Node | None:
        """The node that writes a tensor; None for an input or a constant."""
        return next((node for node in self.nodes if tensor in node.outputs), None)

    def readers(self, tensor: str) -> list[Node]:
        """The nodes that read a tensor."""
        return [node for node in self.nodes if tensor in node.inputs]

    def only_reader(self, tensor: str) -> Node | None:
        """The one node that reads a tensor; None if it is an output of the graph or has other readers."""
        readers = self.readers(tensor)
        return readers[0] if len(readers) == 1 and tensor not in self.outputs else None

    def dtype(self, tensor: str) -> int:
        """TensorProto.DataType number of a tensor; UNDEFINED if unknown."""
        if tensor in self.constants:
            return int(helper.np_dtype_to_tensor_dtype(self.constants[tensor].dtype))
        return self.types[tensor][0] if tensor in self.types else int(TensorProto.UNDEFINED)

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """Shape of a tensor if all of it is known."""
        if tensor in self.constants:
            return tuple(self.constants[tensor].shape)
        dims = self.types.get(tensor, (0, None))[1]
        return None if dims is None or None in dims else tuple(dim for dim in dims if dim is not None)

    def rank(self, tensor: str) -> int | None:
        """How many dimensions a tensor has, known or open; None if that is not known."""
        if tensor in self.constants:
            return self.constants[tensor].ndim
        dims = self.types.get(tensor, (0, None))[1]
        return None if dims is None else len(dims)

    def known_shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor where all shapes are known (after the preparation)."""
        shape = self.shape(tensor)
        assert shape is not None, tensor
        return shape

    def known_type(self, tensor: str) -> DataType:
        """Element type of a tensor where all types are known (after the preparation)."""
        dtype = dtypes.by_onnx(self.dtype(tensor))
        assert dtype is not None, tensor
        return dtype

    def fixed_dims(self, tensor: str) -> tuple[int | None, ...]:
        """Shape of a tensor after the preparation; None for a dimension that is known only when the model runs."""
        shape = self.known_shape(tensor)
        if not self.open or tensor in self.constants:
            return shape
        dims = self.open_types.get(tensor, (0, None))[1]
        return (None,) * len(shape) if dims is None else dims

    def copy(self) -> Graph:
        """A graph of its own with the same tensors; arrays and attributes are shared."""
        made = Graph(self.name, dict(self.opsets))
        made.nodes = [
            replace(
                node,
                inputs=list(node.inputs),
                outputs=list(node.outputs),
                attributes=dict(node.attributes),
                branches={name: branch.copy() for name, branch in node.branches.items()},
            )
            for node in self.nodes
        ]
        made.constants, made.types = dict(self.constants), dict(self.types)
        made.inputs, made.outputs = list(self.inputs), list(self.outputs)
        made.open = self.open
        return made

    def is_quantised(self, node: Node) -> bool:
        """True for a product of int8 tensors (of a model that AMCT made)."""
        types = (self.dtype(name) for name in node.inputs[:2])
        return node.op_type in ("Conv", "MatMul") and all(dtype == TensorProto.INT8 for dtype in types)

    def uses(self) -> Iterator[tuple[Node, str]]:
        """Every node with each tensor that it reads or writes."""
        for node in self.nodes:
            for name in (*node.inputs, *node.outputs):
                if name:
                    yield node, name

    def names(self) -> set[str]:
        """The names of all nodes and tensors of this graph and its branches."""
        return {
            name
            for part in self.walk()
            for names in (part.types, part.constants, (node.name for node in part.nodes))
            for name in names
        }

    def fresh(self, stem: str) -> str:
        """A name that no node and no tensor has."""
        taken = self.names()
        number = 0
        while f"{stem}_{number}" in taken:
            number += 1
        return f"{stem}_{number}"

    # -- changing ----------------------------------------------------------------------------------------

    def detach(self) -> None:
        """Copy the attributes out of the model that they were read from: each keeps all of it in memory."""
        for node in (node for part in self.walk() for node in part.nodes):
            copies = {name: onnx.AttributeProto() for name in node.attributes}
            for name, copy in copies.items():
                copy.CopyFrom(node.attributes[name])
            node.attributes = copies

    def replace_tensor(self, old: str, new: str) -> None:
        """Let every reader of ``old`` read ``new``."""
        for node in self.nodes:
            node.inputs = [new if name == old else name for name in node.inputs]

    def drop_dead(self) -> None:
        """Remove nodes and constants that no output needs."""
        wanted = set(self.outputs)
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                kept.append(node)
                wanted.update(node.inputs)
        self.nodes = kept[::-1]
        self.constants = {name: array for name, array in self.constants.items() if name in wanted}

    def sort(self) -> None:
        """Put nodes into an order in which every tensor is written before it is read, else as they were."""
        ready = {*self.inputs, *self.constants, ""}
        waiting, ordered = list(self.nodes), []
        while waiting:
            rest: list[Node] = []
            for node in waiting:
                if all(name in ready for name in node.inputs):
                    ordered.append(node)
                    ready.update(node.outputs)
                else:
                    rest.append(node)
            if len(rest) == len(waiting):
                missing = next(name for name in rest[0].inputs if name not in ready)
                raise atc_error("dangling", node=rest[0].name, tensor=missing)
            waiting = rest
        self.nodes = ordered

    # -- ONNX --------------------------------------------------------------------------------------------

    def info(self, tensor: str) -> onnx.ValueInfoProto:
        """A tensor's type as ONNX states it."""
        dtype, dims = self.types[tensor]
        return helper.make_tensor_value_info(tensor, dtype, None if dims is None else list(dims))

    def to_onnx(
        self,
        *,
        nodes: Iterable[Node] | None = None,
        outputs: Sequence[str] | None = None,
        constants: bool = True,
        typed: bool = True,
        branches: bool = True,
    ) -> onnx.ModelProto:
        """As an ONNX model.

        Args:
            nodes: only these nodes.
            outputs: other outputs than the graph's.
            constants: False leaves large constants out and makes inputs of them (for shape inference).
            typed: state the types of all tensors that are known.
            branches: False leaves the branches of If out (for shape inference).
        """
        inputs = [self.info(name) for name in self.inputs]
        initializers: list[onnx.TensorProto] = []
        for name, array in self.constants.items():
            if constants or array.nbytes <= SMALL_BYTES:
                initializers.append(numpy_helper.from_array(array, name))
            else:
                inputs.append(helper.make_tensor_value_info(name, self.dtype(name), list(array.shape)))
        ends = self.outputs if outputs is None else outputs
        written = [name for node in self.nodes for name in node.outputs if name]
        between = [self.info(name) for name in written if typed and name in self.types and name not in ends]
        graph = helper.make_graph(
            [
                node.to_onnx() if branches or not node.hidden else node.opaque()
                for node in (self.nodes if nodes is None else nodes)
            ],
            self.name,
            inputs,
            [self.info(name) if name in self.types else onnx.ValueInfoProto(name=name) for name in ends],
            initializers,
            value_info=between,
        )
        opsets = [helper.make_opsetid("" if domain == "ai.onnx" else domain, n) for domain, n in self.opsets.items()]
        if not branches:
            opsets.append(helper.make_opsetid(CONTROL, 1))
        model = helper.make_model(graph, opset_imports=opsets, producer_name="cannlab")
        model.ir_version = 8
        return model

    def to_branch(self, outer: Mapping[str, str]) -> onnx.GraphProto:
        """As the graph of a branch. Its inputs are tensors of the graph around it (``outer``); it has no constants."""
        written = [name for node in self.nodes for name in node.outputs if name]
        return helper.make_graph(
            [node.to_onnx(outer) for node in self.nodes],
            self.name,
            [],
            [self.info(name) for name in self.outputs],
            value_info=[self.info(name) for name in written if name in self.types and name not in self.outputs],
        )

    def infer(self) -> None:
        """Infer the types of all tensors from those of the inputs. Behind an If whose branches are not settled yet
        they stay unknown.

        Raises:
            AtcError: rule ``atc.infer_shape`` if the shapes contradict each other.
        """
        self.types = {name: self.types[name] for name in self.inputs}
        opaque = [node for node in self.nodes if node.hidden or self.custom(node) is not None]
        self._infer_once()
        for node in opaque:
            if node.branches:
                self.take_types(node)
            elif any(self.shape(name) is None for name in node.inputs if name):
                continue
            elif node.hidden:
                self.types[node.outputs[0]] = self.types[node.inputs[0]]
            else:
                self._infer_custom(node)
            self._infer_once()
        for node in self.nodes:
            if self.is_quantised(node):
                # The cube adds products of bytes in int32; ONNX's own Conv and MatMul know no bytes.
                self.types[node.outputs[0]] = (int(TensorProto.INT32), self.types[node.outputs[0]][1])
        if self.assumed:
            for name, (dtype, dims) in self.types.items():
                if dims is None or None in dims:
                    dims = self.hints.get(name, (dtype, dims))[1]
                known = tuple(self.assumed if dim is None else dim for dim in dims or ())
                self.types[name] = (dtype, known)
        else:
            said = operand_shapes.disagreement(self)
            if said is not None:
                raise atc_error("infer_shape", reason=said)

    def take_types(self, node: Node) -> None:
        """Give the outputs of an If the types of its branches' outputs, where these are known and the same."""
        for index, name in enumerate(node.outputs):
            found = {branch.types.get(branch.outputs[index]) for branch in node.branches.values()}
            if len(found) == 1 and None not in found:
                self.types[name] = found.pop() or (TensorProto.UNDEFINED, None)

    def custom(self, node: Node) -> custom_ops.CustomOp | None:
        """The registered custom operator of a node."""
        return custom_ops.find(node.domain, node.op_type, self.opsets.get(node.domain))

    def _infer_once(self) -> None:
        try:
            inferred = infer_shapes(self.to_onnx(constants=False, branches=False), strict_mode=True)
        except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as problem:
            raise atc_error("infer_shape", reason=_reason(problem)) from problem
        for info in (*inferred.graph.value_info, *inferred.graph.output):
            tensor = info.type.tensor_type
            if tensor.elem_type:
                dims = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
                self.types[info.name] = (tensor.elem_type, dims if tensor.HasField("shape") else None)

    def _infer_custom(self, node: Node) -> None:
        op = self.custom(node)
        assert op is not None
        types: list[custom_ops.TensorType] = []
        for name in node.inputs:
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(self.dtype(name)))
            types.append(custom_ops.TensorType(dtype, self.known_shape(name)))
        attributes = {name: node.get(name) for name in node.attributes}
        for name, found in zip(node.outputs, op.infer(types, attributes), strict=True):
            self.types[name] = (int(helper.np_dtype_to_tensor_dtype(found.dtype)), tuple(found.dims))


def _reason(problem: Exception) -> str:
    """The first thing that ONNX says, without its own sources and error classes; the rest follows from it."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    said = next((line for line in lines if "op_type:" in line), lines[-1] if lines else type(problem).__name__)
    return said.rpartition("Inference error(s): ")[2]
