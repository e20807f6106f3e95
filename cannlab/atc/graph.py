"""The graph that the compiler works on: nodes, constants, types. Passes change it in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from cannlab.atc.errors import atc_error
from cannlab.machine import custom_ops
from cannlab.om import DataType, dtypes

SMALL_BYTES = 4096
"""Constants up to this size are shown to shape inference (shapes, axes, pads)."""

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

    def __post_init__(self) -> None:
        self.task = self.task or self.name

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the nodes of the model that it stands for."""
        return (self.name,) if self.origins is None else self.origins

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an attribute."""
        attribute = self.attributes.get(name)
        return default if attribute is None else helper.get_attribute_value(attribute)

    def set(self, name: str, value: Any) -> None:
        """Set an attribute."""
        self.attributes[name] = helper.make_attribute(name, value)

    def to_onnx(self) -> onnx.NodeProto:
        """As an ONNX node."""
        domain = "" if self.domain == "ai.onnx" else self.domain
        node = helper.make_node(self.op_type, self.inputs, self.outputs, self.name, domain=domain)
        node.attribute.extend(self.attributes[name] for name in sorted(self.attributes))
        return node


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
            replace(node, inputs=list(node.inputs), outputs=list(node.outputs), attributes=dict(node.attributes))
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

    def fresh(self, stem: str) -> str:
        """A name that no node and no tensor has."""
        taken = {*self.types, *self.constants, *(node.name for node in self.nodes)}
        number = 0
        while f"{stem}_{number}" in taken:
            number += 1
        return f"{stem}_{number}"

    # -- changing ----------------------------------------------------------------------------------------

    def detach(self) -> None:
        """Copy the attributes out of the model that they were read from: each keeps all of it in memory."""
        for node in self.nodes:
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
    ) -> onnx.ModelProto:
        """As an ONNX model.

        Args:
            nodes: only these nodes.
            outputs: other outputs than the graph's.
            constants: False leaves large constants out and makes inputs of them (for shape inference).
            typed: state the types of all tensors that are known.
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
            [node.to_onnx() for node in (self.nodes if nodes is None else nodes)],
            self.name,
            inputs,
            [self.info(name) if name in self.types else onnx.ValueInfoProto(name=name) for name in ends],
            initializers,
            value_info=between,
        )
        opsets = [helper.make_opsetid("" if domain == "ai.onnx" else domain, n) for domain, n in self.opsets.items()]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="cannlab")
        model.ir_version = 8
        return model

    def infer(self) -> None:
        """Infer the types of all tensors from those of the inputs.

        Raises:
            AtcError: rule ``atc.infer_shape`` if the shapes contradict each other.
        """
        self.types = {name: self.types[name] for name in self.inputs}
        customs = [node for node in self.nodes if self.custom(node) is not None]
        self._infer_once()
        for node in customs:
            if self.open and any(self.shape(name) is None for name in node.inputs if name):
                continue
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

    def custom(self, node: Node) -> custom_ops.CustomOp | None:
        """The registered custom operator of a node."""
        return custom_ops.find(node.domain, node.op_type, self.opsets.get(node.domain))

    def _infer_once(self) -> None:
        try:
            inferred = onnx.shape_inference.infer_shapes(
                self.to_onnx(constants=False), strict_mode=True, data_prop=True
            )
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
            shape = self.shape(name)
            if shape is None:
                raise atc_error("infer_shape", reason=f"the shape of {name!r}, which {node.name} reads, is not known")
            types.append(custom_ops.TensorType(np.dtype(helper.tensor_dtype_to_np_dtype(self.dtype(name))), shape))
        attributes = {name: node.get(name) for name in node.attributes}
        for name, found in zip(node.outputs, op.infer(types, attributes), strict=True):
            self.types[name] = (int(helper.np_dtype_to_tensor_dtype(found.dtype)), tuple(found.dims))


def _reason(problem: Exception) -> str:
    """The last line of what ONNX says: the earlier ones name its own sources."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[-1] if lines else type(problem).__name__
