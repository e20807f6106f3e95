"""The task list of an om: fused operators with their layouts and what the time model needs to know of them.

Layouts: convolutions and pooling read and write NC1HWC0, elementwise operators take over the layout of their input,
everything else works on ND; where two meet, a TransData operator stands between. Source: pyacl-and-atc 1.3.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cannlab.atc import engines, support
from cannlab.atc.engines import Placement
from cannlab.atc.graph import Graph, Node
from cannlab.atc.passes.joining import is_depthwise
from cannlab.machine import builtin_ops, custom_ops
from cannlab.om import Cost, Format, OmTensor, Task
from cannlab.soc import Soc

FIVE_D = frozenset(("Conv", "MaxPool", "AveragePool", "BatchNormalization", "GlobalAveragePool", "GlobalMaxPool"))
"""Types that work on NC1HWC0 (for 4-dimensional tensors)."""

FOLLOWS = frozenset(
    ("Abs", "Add", "Ceil", "Clip", "Concat", "Div", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish")
    + ("LeakyRelu", "Max", "Min", "Mul", "Neg", "Pow", "PRelu", "Relu", "Sigmoid", "Softplus", "Sqrt", "Sub", "Tanh")
    + ("Cast",)
)
"""Types that take the layout that their input has."""

PASSES = {
    "Softmax": 5,
    "LogSoftmax": 6,
    "BatchNormalization": 2,
    "LayerNormalization": 6,
    "InstanceNormalization": 6,
    "Sigmoid": 4,
    "HardSigmoid": 3,
    "HardSwish": 4,
    "Tanh": 6,
    "Erf": 12,
    "Exp": 2,
    "Pow": 4,
    "Elu": 4,
    "Clip": 2,
    "Div": 2,
}
"""How often the vector unit goes over each element; once where nothing stands here. Assumed."""

ALIGN = 512
"""Granularity of device memory for activations, bytes."""


SMALL_CHANNELS = 4
"""Input channels up to which ``--enable_small_channel`` spares a convolution the padding of its channels to 16."""


def build(graph: Graph, placement: Placement, soc: Soc, *, small_channel: bool = False) -> tuple[Task, ...]:
    """The fused operators of a lowered graph, in execution order.

    Args:
        small_channel: ``--enable_small_channel``: a convolution behind AIPP pads few channels to 4 only.
    """
    return _Builder(graph, placement, soc, small_channel).build()


def work_size(tasks: tuple[Task, ...], *, reuse: bool = True) -> int:
    """Device memory for activations between operators, bytes.

    Each is kept from its writer to its last reader, or to the end without ``reuse`` (``--disable_reuse_memory=1``).
    """
    if not reuse:
        return sum(-(-tensor.size // ALIGN) * ALIGN for task in tasks for tensor in task.outputs)
    last: dict[str, int] = {}
    for number, task in enumerate(tasks):
        last.update((tensor.name, number) for tensor in task.inputs)
    live: dict[str, int] = {}
    peak = 0
    for number, task in enumerate(tasks):
        live.update((tensor.name, -(-tensor.size // ALIGN) * ALIGN) for tensor in task.outputs)
        peak = max(peak, sum(live.values()))
        live = {name: size for name, size in live.items() if last.get(name, -1) > number}
    return peak


class _Builder:
    def __init__(self, graph: Graph, placement: Placement, soc: Soc, small_channel: bool) -> None:
        self.graph = graph
        self.small_channel = small_channel
        self.placement = placement
        self.soc = soc
        self.tasks: list[Task] = []
        self.format_of = {name: self.plain(name) for name in graph.inputs}
        self.transdata: dict[tuple[str, int], OmTensor] = {}

    def plain(self, tensor: str) -> Format:
        return Format.NCHW if len(self.graph.known_shape(tensor)) == 4 else Format.ND

    def build(self) -> tuple[Task, ...]:
        groups: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            groups.setdefault(node.task, []).append(node)
        for nodes in groups.values():
            if self.placement.core_of[nodes[0].name] == engines.LOCAL:
                self.local(nodes[0])
            else:
                self.task(nodes)
        for name in self.graph.outputs:
            if self.format_of.get(name) == Format.NC1HWC0:
                self.as_format(name, self.plain(name))
        return tuple(self.tasks)

    def local(self, node: Node) -> None:
        """An operator without a kernel: its result is its input in plain layout."""
        source = node.inputs[0]
        if self.format_of.get(source) == Format.NC1HWC0:
            self.as_format(source, self.plain(source))
        for name in node.outputs:
            self.format_of[name] = self.plain(name)

    def layout(self, leader: Node, inputs: list[str]) -> Format | None:
        """The layout that an operator works in; None for the plain one of each tensor."""
        four = all(len(self.graph.known_shape(name)) == 4 for name in (*inputs, *leader.outputs))
        if not four:
            return None
        if leader.op_type in FIVE_D:
            return Format.NC1HWC0
        if leader.outputs[0] in self.graph.outputs and not leader.sources:
            return None  # the Cast to an output's type comes after the change of layout, where the data is smaller
        if leader.op_type in FOLLOWS and any(self.format_of.get(name) == Format.NC1HWC0 for name in inputs):
            return Format.NC1HWC0
        return None

    def tensor(self, name: str, format: Format) -> OmTensor:
        return OmTensor(name, self.graph.known_type(name).acl, format, self.graph.known_shape(name))

    def as_format(self, name: str, format: Format) -> OmTensor:
        """A tensor in a layout; a TransData is put in if it has another one."""
        have = self.format_of.get(name, self.plain(name))
        if have == format or Format.NC1HWC0 not in (have, format):
            return self.tensor(name, have)
        key = (name, format)
        if key not in self.transdata:
            number = len(self.transdata)
            source = self.tensor(name, have)
            target = replace(source, name=f"{name}:{format.name}", format=format)
            core = engines.AI_VECTOR_CORE if self.soc.split else engines.AI_CORE
            cost = Cost(source.size, target.size, vector_elements=source.elements, element_bytes=source.type.size)
            self.tasks.append(Task(f"trans_TransData_{number}", "TransData", core, (), (), (source,), (target,), cost))
            self.transdata[key] = target
        return self.transdata[key]

    def task(self, nodes: list[Node]) -> None:
        graph = self.graph
        leader = next((node for node in nodes if node.op_type != "Cast"), nodes[0])
        written = [name for node in nodes for name in node.outputs if name]
        read = list(dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in written))
        inputs = [name for name in read if name not in graph.constants]
        inside = {id(node) for node in nodes}
        outputs = [
            name
            for name in written
            if name in graph.outputs or any(id(reader) not in inside for reader in graph.readers(name))
        ]
        layout = self.layout(leader, inputs)
        operands = tuple(self.as_format(name, layout or self.plain(name)) for name in inputs)
        # AIPP writes what convolutions read, from images in plain layout.
        made = Format.NC1HWC0 if graph.custom(leader) is builtin_ops.AIPP else layout
        results = tuple(self.tensor(name, made or self.plain(name)) for name in outputs)
        self.format_of.update((tensor.name, Format(tensor.format)) for tensor in results)
        weights = sum(graph.constants[name].nbytes for name in read if name in graph.constants)
        self.tasks.append(
            Task(
                name=fused_name(nodes) or leader.name,
                op_type=ge_type(graph, leader),
                core_type=self.placement.core_of[leader.name],
                nodes=tuple(dict.fromkeys(origin for node in nodes for origin in node.sources)),
                lowered=tuple(node.name for node in nodes),
                inputs=operands,
                outputs=results,
                cost=self.cost(leader, nodes, operands, results, weights),
            )
        )

    def cost(
        self, leader: Node, nodes: list[Node], inputs: tuple[OmTensor, ...], outputs: tuple[OmTensor, ...], weights: int
    ) -> Cost:
        graph = self.graph
        custom = graph.custom(leader)
        base = Cost(
            bytes_in=sum(tensor.size for tensor in inputs),
            bytes_out=sum(tensor.size for tensor in outputs),
            bytes_weights=weights,
            element_bytes=max((tensor.type.size for tensor in inputs), default=2),
        )
        elements = prod(graph.known_shape(leader.outputs[0]))
        if custom is not None:
            return replace(base, vector_elements=elements, fixed_ns=self.custom_ns(custom, leader, inputs, outputs))
        if leader.op_type == "Conv":
            weight = graph.known_shape(leader.inputs[1])
            kernel = prod(weight[2:])
            group = leader.get("group", 1)
            element = graph.kernel_type(leader).size
            if is_depthwise(graph, leader):
                return replace(base, vector_elements=elements * kernel, depthwise=True, element_bytes=element)
            m, n, k = elements // weight[0], weight[0] // group, self.padded_channels(leader, weight[1]) * kernel
            return replace(base, cube=(group, m, k, n), element_bytes=element)
        if leader.op_type == "MatMul":
            left, right = graph.known_shape(leader.inputs[0]), graph.known_shape(leader.inputs[1])
            k = left[-1]
            n = right[-1] if len(right) > 1 else 1
            batch = prod(right[:-2]) if len(right) > 2 else 1
            m = max(1, elements // (n * batch))
            return replace(base, cube=(batch, m, -(-k // 16) * 16, n), element_bytes=graph.kernel_type(leader).size)
        if leader.op_type == "ConvTranspose":
            weight, source = graph.known_shape(leader.inputs[1]), graph.known_shape(leader.inputs[0])
            m, k = prod(source) // weight[0], -(-weight[0] // 16) * 16
            return replace(base, cube=(1, m, k, prod(weight[1:])), element_bytes=graph.kernel_type(leader).size)
        if leader.op_type in ("MaxPool", "AveragePool"):
            return replace(base, vector_elements=elements * prod(leader.get("kernel_shape", [1])))
        largest = max((prod(tensor.dims) for tensor in (*inputs, *outputs)), default=elements)
        passes = sum(PASSES.get(node.op_type, 1) for node in nodes)
        return replace(base, vector_elements=largest * passes)

    def padded_channels(self, convolution: Node, channels: int) -> int:
        """Input channels as the cube takes them."""
        writer = self.graph.producer(convolution.inputs[0])
        behind_aipp = writer is not None and self.graph.custom(writer) is builtin_ops.AIPP
        if self.small_channel and behind_aipp and channels <= SMALL_CHANNELS:
            return SMALL_CHANNELS
        return -(-channels // 16) * 16

    def custom_ns(
        self, op: custom_ops.CustomOp, node: Node, inputs: tuple[OmTensor, ...], outputs: tuple[OmTensor, ...]
    ) -> int:
        if op.cost is None:
            return 0

        def types(tensors: tuple[OmTensor, ...]) -> list[custom_ops.TensorType]:
            return [custom_ops.TensorType(tensor.type.numpy, tensor.dims) for tensor in tensors]

        attributes = {name: node.get(name) for name in node.attributes}
        return int(op.cost(self.soc, types(inputs), types(outputs), attributes))


def fused_name(nodes: list[Node]) -> str:
    """The name of a fused operator: those of its parts joined, as kernel fusion names it. A part that a pass took in
    (a batch normalisation, a bias) leaves no trace in it."""
    return "".join(dict.fromkeys(node.sources[0] for node in nodes if node.sources))


def ge_type(graph: Graph, node: Node) -> str:
    """The GE type of a node."""
    custom = graph.custom(node)
    if custom is not None:
        return custom.ge_type or custom.op_type
    if node.op_type == "Conv":
        if is_depthwise(graph, node):
            return "DepthwiseConv2D"
        return "Conv3D" if len(graph.known_shape(node.inputs[0])) == 5 else "Conv2D"
    if node.op_type == "MatMul" and all(len(graph.known_shape(name)) == 2 for name in node.inputs[:2]):
        return "MatMulV2"
    known = support.find(node.domain, node.op_type)
    return node.op_type if known is None else known.ge_type
