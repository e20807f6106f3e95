"""What an om holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from cannlab.om import dtypes
from cannlab.om.dtypes import DataType, Format
from cannlab.om.external import External

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

WEIGHTS = "weights"
"""The name under which the graph's initializers point to the weights of the om."""


def branches(node: onnx.NodeProto) -> dict[str, onnx.GraphProto]:
    """The graphs inside an If by the names of its attributes; {} for any other node."""
    return {item.name: item.g for item in node.attribute if item.HasField("g")}


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph, and those of its branches after it."""
    yield graph
    for node in graph.node:
        for branch in branches(node).values():
            yield from graphs(branch)


def branch_label(node: str, branch: str) -> str:
    """How tasks name a branch ("then_branch", "else_branch") of an If."""
    return f"{node}/{branch.removesuffix('_branch')}"


@dataclass(frozen=True, slots=True)
class OmTensor:
    """An input or output of a model or of an operator.

    Attributes:
        name: its name. An output of a model is called ``node:index:tensor``, as ATC names it.
        dtype: aclDataType number.
        format: aclFormat number.
        dims: shape in elements; -1 where it is not fixed (gears, ranges).
        stated: size in bytes where the shape does not give it (gears: that of the largest; images in YUV); else -1.
        ranges: least and most of each dimension of a model with ranges, most -1 without a limit; () otherwise.
    """

    name: str
    dtype: int
    format: int
    dims: tuple[int, ...]
    stated: int = -1
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def type(self) -> DataType:
        """The element type."""
        return dtypes.by_acl(self.dtype)

    @property
    def fixed(self) -> bool:
        """True if every dimension is known."""
        return all(dim >= 0 for dim in self.dims)

    @property
    def elements(self) -> int:
        """How many elements it has; 0 if a dimension is not fixed."""
        return prod(self.dims) if self.fixed else 0

    @property
    def size(self) -> int:
        """Its size in bytes. With ranges that of the largest shape, 0 without a limit. Source: pyacl-semantics 8.3."""
        if self.stated >= 0:
            return self.stated
        if self.ranges:
            most = [high for _, high in self.ranges]
            return prod(most) * self.type.size if min(most, default=1) > 0 else 0
        return self.elements * self.type.size

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        data = {"name": self.name, "dtype": self.dtype, "format": self.format, "dims": list(self.dims)}
        if self.stated >= 0:
            data["stated"] = self.stated
        if self.ranges:
            data["ranges"] = [list(pair) for pair in self.ranges]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OmTensor:
        """The inverse of :meth:`to_json`; ValueError or KeyError for anything else."""
        dtypes.by_acl(data["dtype"])
        dims = tuple(int(dim) for dim in data["dims"])
        if any(dim < -1 for dim in dims):
            raise ValueError("negative dimension")
        ranges = tuple((int(low), int(high)) for low, high in data.get("ranges", ()))
        stated = int(data.get("stated", -1))
        return cls(str(data["name"]), int(data["dtype"]), int(Format(data["format"])), dims, stated, ranges)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the time model needs to know of one operator. Bytes are global memory traffic.

    Attributes:
        bytes_in: activations read.
        bytes_out: activations written.
        bytes_weights: weights read.
        cube: (batch, M, K, N) of the matrix product on the cube; () if there is none. K is
            already padded as the cube needs it (input channels to 16, times kh * kw).
        vector_elements: elements times passes on the vector unit.
        depthwise: True if ``vector_elements`` counts a depthwise convolution's products.
        element_bytes: size of an element in the computation (2 for fp16, 4 for fp32, 1 for int8).
        fixed_ns: the time itself, where a custom operator states it; 0 otherwise.
    """

    bytes_in: int = 0
    bytes_out: int = 0
    bytes_weights: int = 0
    cube: tuple[int, ...] = ()
    vector_elements: int = 0
    depthwise: bool = False
    element_bytes: int = 2
    fixed_ns: int = 0

    @property
    def macs(self) -> int:
        """Multiply-accumulates on the cube, padding of K included."""
        return prod(self.cube) if self.cube else 0

    @property
    def bytes(self) -> int:
        """All global memory traffic."""
        return self.bytes_in + self.bytes_out + self.bytes_weights


@dataclass(frozen=True, slots=True)
class Task:
    """One fused operator: what the chip runs as one kernel.

    Attributes:
        name: name of the operator.
        op_type: GE type ("Conv2D"); that of the leading operator when several are fused.
        core_type: "AI_CORE", "AI_VECTOR_CORE" or "AI_CPU".
        nodes: names of the ONNX nodes that it stands for, in order.
        lowered: names of the nodes of the om's graph that it runs; () for a change of layout only.
        inputs: activations that it reads.
        outputs: activations that it writes.
        cost: inputs of the time model.
        rounded: those of ``lowered`` whose results are stored in their own type although they stay inside.
        within: the branch of an If that it belongs to (:func:`branch_label`), the innermost one; "" outside.
    """

    name: str
    op_type: str
    core_type: str
    nodes: tuple[str, ...]
    lowered: tuple[str, ...]
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]
    cost: Cost
    rounded: tuple[str, ...] = ()
    within: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        cost = {name: getattr(self.cost, name) for name in Cost.__slots__}
        cost["cube"] = list(self.cost.cube)
        return {
            "name": self.name,
            "op_type": self.op_type,
            "core_type": self.core_type,
            "nodes": list(self.nodes),
            "lowered": list(self.lowered),
            "inputs": [tensor.to_json() for tensor in self.inputs],
            "outputs": [tensor.to_json() for tensor in self.outputs],
            "cost": cost,
            **({"rounded": list(self.rounded)} if self.rounded else {}),
            **({"within": self.within} if self.within else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """The inverse of :meth:`to_json`; ValueError, TypeError or KeyError for anything else."""
        cost = dict(data["cost"])
        cost["cube"] = tuple(int(value) for value in cost["cube"])
        return cls(
            name=str(data["name"]),
            op_type=str(data["op_type"]),
            core_type=str(data["core_type"]),
            nodes=tuple(str(node) for node in data["nodes"]),
            lowered=tuple(str(node) for node in data["lowered"]),
            inputs=tuple(OmTensor.from_json(tensor) for tensor in data["inputs"]),
            outputs=tuple(OmTensor.from_json(tensor) for tensor in data["outputs"]),
            cost=Cost(**cost),
            rounded=tuple(str(node) for node in data.get("rounded", ())),
            within=str(data.get("within", "")),
        )


@dataclass(frozen=True, slots=True)
class Fusion:
    """One effect of a step of the compiler.

    Attributes:
        name: the fusion pass (or the step that always runs).
        nodes: names of the ONNX nodes that it took.
        into: name of the lowered node that leads the operator they are in; "" if they are gone.
    """

    name: str
    nodes: tuple[str, ...]
    into: str

    def to_json(self) -> list[Any]:
        """Plain data."""
        return [self.name, list(self.nodes), self.into]

    @classmethod
    def from_json(cls, data: Any) -> Fusion:
        """The inverse of :meth:`to_json`; ValueError or TypeError for anything else."""
        name, nodes, into = data
        return cls(str(name), tuple(str(node) for node in nodes), str(into))


@dataclass(frozen=True)
class Variant:
    """The model as it was compiled for one gear.

    Attributes:
        values: the gear's values in the option: (batch,), (height, width), or one for each -1 of the input shapes.
        inputs: the model's inputs with the shapes of the gear, without the inputs that atc adds.
        outputs: its outputs.
        tasks: the fused operators in execution order.
        graph_bytes: the lowered graph; its weights are those of the om.
    """

    values: tuple[int, ...]
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]
    tasks: tuple[Task, ...]
    graph_bytes: bytes | memoryview = field(repr=False)

    @property
    def extent(self) -> tuple[int, int]:
        """How large the gear is: elements of its inputs, then the product of its values (images for dynamic AIPP have
        one size for all gears)."""
        return sum(tensor.elements for tensor in self.inputs), prod(self.values)


def largest(variants: Sequence[Variant]) -> int:
    """Index of the largest gear."""
    extents = [variant.extent for variant in variants]
    return extents.index(max(extents))


@dataclass(frozen=True)
class OmModel:
    """A compiled model.

    Attributes:
        name: the graph's name.
        soc: the SoC that it was compiled for.
        cann: the CANN version that the compiler answered with.
        cannlab: the version of cannlab that wrote it.
        inputs: what ``execute`` reads, in order.
        outputs: what ``execute`` writes, in order.
        tasks: the fused operators in execution order.
        graph_bytes: the lowered ONNX graph, serialised; its large initializers point into ``weight_bytes``.
        weight_bytes: all weights, one after another; a view of the mapped file.
        work_size: device memory for activations while it runs, bytes.
        framework: the framework number of the original model (5 for ONNX).
        precision_mode: how fp32 was lowered.
        command: the original atc command line, as it was typed.
        gears: ``{"kind": "batch" | "image" | "dims"}`` of a model with gears, ``{"kind": "range"}`` of one whose
            shapes are known only when it runs; empty otherwise.
        aipp: AIPP by the name of the input, each ``{"mode": "static" | "dynamic", ...}``; empty without.
        encrypted: True if the weights are encrypted.
        fusions: what the compiler's steps did, in order.
        variants: one for each gear, in the order of the option; ``tasks`` and ``graph_bytes`` are then those of the
            largest gear.
        chip: what the options leave of the chip: ``{"cores": n}``, ``{"l2": 0}``.
        external: where the weights lie that are written into files beside the om; () if they are in it.
        compressed: True if the graph and the task list are compressed in the file.
        original: True for a model that is not compiled: ``graph_bytes`` is the ONNX model, and nothing runs it.
    """

    name: str
    soc: str
    cann: str
    cannlab: str
    inputs: tuple[OmTensor, ...]
    outputs: tuple[OmTensor, ...]
    tasks: tuple[Task, ...]
    graph_bytes: bytes | memoryview = field(repr=False)
    weight_bytes: bytes | memoryview = field(repr=False)
    work_size: int
    framework: int = 5
    precision_mode: str = "force_fp16"
    command: str = ""
    gears: Mapping[str, Any] = field(default_factory=dict)
    aipp: Mapping[str, Any] = field(default_factory=dict)
    encrypted: bool = False
    fusions: tuple[Fusion, ...] = ()
    variants: tuple[Variant, ...] = ()
    chip: Mapping[str, int] = field(default_factory=dict)
    external: tuple[External, ...] = ()
    compressed: bool = False
    original: bool = False

    @property
    def dynamic(self) -> bool:
        """True if shapes are known only when the model runs (ranges, or shapes that depend on the data)."""
        return self.gears.get("kind") == "range"

    @property
    def largest(self) -> int:
        """Index of the largest gear: the one that runs if none is chosen."""
        return largest(self.variants)

    def at(self, gear: int) -> OmModel:
        """The model for one gear, as if it had been compiled for it alone."""
        variant = self.variants[gear]
        return replace(
            self,
            inputs=(*variant.inputs, *self.inputs[len(variant.inputs) :]),
            outputs=variant.outputs,
            tasks=variant.tasks,
            graph_bytes=variant.graph_bytes,
            variants=(),
        )

    @property
    def weight_size(self) -> int:
        """Device memory for weights, bytes."""
        return len(self.weight_bytes)

    def graph(self, *, weights: bool = False) -> onnx.ModelProto:
        """The lowered graph. Its weights are left out (they point to ``weights``) unless asked for."""
        import onnx
        from onnx import numpy_helper

        model = onnx.ModelProto.FromString(bytes(self.graph_bytes))
        if weights:
            arrays = self.weights(model)
            for tensor in model.graph.initializer:
                if tensor.name in arrays:
                    tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
        return model

    def weights(self, model: onnx.ModelProto | None = None) -> dict[str, NDArray[Any]]:
        """The weights that lie outside the graph, by name: read-only views of ``weight_bytes``."""
        import numpy as np

        found: dict[str, NDArray[Any]] = {}
        for tensor in (model or self.graph()).graph.initializer:
            place = {entry.key: entry.value for entry in tensor.external_data}
            if place.get("location") != WEIGHTS:
                continue
            dtype = dtypes.by_onnx(tensor.data_type)
            assert dtype is not None
            offset, length = int(place["offset"]), int(place["length"])
            array = np.frombuffer(self.weight_bytes, dtype.numpy, length // dtype.size, offset)
            found[tensor.name] = array.reshape(tuple(tensor.dims))
        return found
