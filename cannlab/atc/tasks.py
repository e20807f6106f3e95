"""The task list of an om: fused operators with their layouts and what the time model needs to know of them.

Layouts: convolutions and pooling read and write NC1HWC0, elementwise operators take over the layout of their input,
everything else works on ND; where two meet, a TransData operator stands between. Source: pyacl-and-atc 1.3.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from math import prod

import numpy as np

from cannlab.atc import engines, hw_layout, support
from cannlab.atc.engines import Placement
from cannlab.atc.graph import Graph, Node
from cannlab.atc.passes import matmul_graph
from cannlab.atc.passes.channels import is_depthwise
from cannlab.atc.wiring import Wiring
from cannlab.machine import builtin_ops, custom_ops
from cannlab.om import Cost, Format, OmTensor, Task, branch_label
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

COMPOSED = {
    "LayerNorm": 6,
    "AddLayerNorm": 7,
    "Gelu": 10,
    "Sigmoid": 4,
    "SoftmaxV2": 5,
    "BNInfer": 2,
    "ConfusionTransposeD": 1,
}
"""The same for operators that a pass composed of several nodes, by GE type."""

ALIGN = 512
"""Granularity of device memory for activations, bytes."""


SMALL_CHANNELS = 4
"""Input channels up to which ``--enable_small_channel`` spares a convolution the padding of its channels to 16."""


def build(
    graph: Graph, placement: Placement, soc: Soc, *, small_channel: bool = False, sparse: bool = False
) -> tuple[Task, ...]:
    """The fused operators of a lowered graph, in execution order.

    Args:
        small_channel: ``--enable_small_channel``: a convolution behind AIPP pads few channels to 4 only.
        sparse: ``--sparsity``: products of int8 whose weights are sparse skip their zeros.
    """
    return _Builder(graph, placement, soc, small_channel, sparse).build()


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
    def __init__(
        self, graph: Graph, placement: Placement, soc: Soc, small_channel: bool, sparse: bool, within: str = ""
    ) -> None:
        self.within = within
        self.graph = graph
        self.w = Wiring(graph)
        self.small_channel = small_channel
        self.sparse = sparse
        self.placement = placement
        self.soc = soc
        self.tasks: list[Task] = []
        self.format_of = {name: self.plain(name) for name in graph.inputs}
        self.transdata: dict[tuple[str, int], OmTensor] = {}

    def plain(self, tensor: str) -> Format:
        return Format.NCHW if len(self.graph.known_shape(tensor)) == 4 else Format.ND

    def build(self) -> tuple[Task, ...]:
        for nodes in self.groups():
            leader = _leader(nodes)
            if leader.branches:
                self.control(leader)
            elif leader.kernel == hw_layout.KERNEL:
                self.change_layout(nodes)
            elif self.placement.core_of[leader.name] == engines.LOCAL:
                self.local(leader)
            else:
                self.task(nodes)
        for name in self.graph.outputs:
            if self.format_of.get(name) == Format.NC1HWC0:
                self.as_format(name, self.plain(name))
        return tuple(replace(task, within=task.within or self.within) for task in self.tasks)

    def control(self, node: Node) -> None:
        """An If: what its branches read and what it writes is in plain layout; the operators of both follow."""
        for name in node.inputs:
            if self.format_of.get(name) == Format.NC1HWC0:
                self.as_format(name, self.plain(name))
        for key, branch in node.branches.items():
            label = branch_label(node.name, key)
            self.tasks += _Builder(branch, self.placement, self.soc, self.small_channel, self.sparse, label).build()
        self.format_of.update((name, self.plain(name)) for name in node.outputs)

    def groups(self) -> list[list[Node]]:
        """The nodes of each fused operator; an operator comes after those whose results it reads."""
        members: dict[str, list[Node]] = {}
        for node in self.graph.nodes:
            members.setdefault(node.task, []).append(node)
        order = {task: number for number, task in enumerate(members)}
        tasks = list(members)
        waiting: dict[str, set[str]] = {}
        readers: dict[str, list[str]] = {}
        for task, nodes in members.items():
            writers = (self.w.writer(name) for node in nodes for name in node.inputs)
            waiting[task] = {writer.task for writer in writers if writer is not None} - {task}
            for source in waiting[task]:
                readers.setdefault(source, []).append(task)
        ready = [number for task, number in order.items() if not waiting[task]]
        found: list[list[Node]] = []
        while ready:
            task = tasks[heappop(ready)]
            found.append(members[task])
            for reader in readers.get(task, ()):
                waiting[reader].discard(task)
                if not waiting[reader]:
                    heappush(ready, order[reader])
        assert len(found) == len(members), "fused operators wait for each other"
        return found

    def change_layout(self, nodes: list[Node]) -> None:
        """Between an input or output in NC1HWC0 and the plain tensor: no operator, the layout is already right."""
        source = next(name for name in nodes[0].inputs if name not in self.graph.constants)
        target = nodes[-1].outputs[0]
        if len(self.graph.known_shape(source)) == 4:
            self.as_format(source, Format.NC1HWC0)
            self.format_of[target] = Format.ND
        else:
            self.format_of[target] = Format.NC1HWC0

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
        if leader.op_type in FIVE_D or self.spatial_mean(leader):
            return Format.NC1HWC0
        if leader.outputs[0] in self.graph.outputs and not leader.sources:
            return None  # the Cast to an output's type comes after the change of layout, where the data is smaller
        if leader.op_type in FOLLOWS and any(self.format_of.get(name) == Format.NC1HWC0 for name in inputs):
            return Format.NC1HWC0
        return None

    def spatial_mean(self, node: Node) -> bool:
        """True for a mean over height and width, which has a kernel for NC1HWC0."""
        return node.op_type == "ReduceMean" and self.w.axes(node) == (2, 3)

    def tensor(self, name: str, format: Format) -> OmTensor:
        return OmTensor(name, self.graph.known_type(name).acl, format, self.graph.known_shape(name))

    def as_format(self, name: str, format: Format) -> OmTensor:
        """A tensor in a layout; a TransData is put in if it has another one."""
        have = self.format_of.get(name, self.plain(name))
        if have == format or Format.NC1HWC0 not in (have, format):
            return self.tensor(name, have)
        key = (name, format)
        if key not in self.transdata:
            number = f"{self.within.replace('/', '_')}{'_' if self.within else ''}{len(self.transdata)}"
            source = self.tensor(name, have)
            target = replace(source, name=f"{name}:{format.name}", format=format)
            core = engines.AI_VECTOR_CORE if self.soc.split else engines.AI_CORE
            cost = Cost(source.size, target.size, vector_elements=source.elements, element_bytes=source.type.size)
            self.tasks.append(Task(f"trans_TransData_{number}", "TransData", core, (), (), (source,), (target,), cost))
            self.transdata[key] = target
        return self.transdata[key]

    def task(self, nodes: list[Node]) -> None:
        graph = self.graph
        leader = _leader(nodes)
        written = [name for node in nodes for name in node.outputs if name]
        read = list(dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in written))
        inputs = [name for name in read if name not in graph.constants]
        inside = {id(node) for node in nodes}
        outputs = [
            name
            for name in written
            if self.w.is_output(name) or any(id(reader) not in inside for reader in self.w.readers(name))
        ]
        layout = self.layout(leader, inputs)
        operands = tuple(self.as_format(name, layout or self.plain(name)) for name in inputs)
        # AIPP writes what convolutions read, from images in plain layout.
        made = Format.NC1HWC0 if graph.custom(leader) is builtin_ops.AIPP else layout
        results = tuple(self.tensor(name, made or self.plain(name)) for name in outputs)
        self.format_of.update((tensor.name, Format(tensor.format)) for tensor in results)
        described = {node.inputs[number] for node in nodes for number in node.fixed}
        weights = sum(
            graph.constants[name].nbytes for name in read if name in graph.constants and name not in described
        )
        op_type, cost = ge_type(self.graph, leader), self.cost(leader, nodes, operands, results, weights)
        if self.sparse and self.is_sparse(leader):
            # Half of the weights are left, and two bits say for each which one it is.
            batch, m, k, n = cost.cube
            cost = replace(cost, cube=(batch, m, -(-k // 2), n), bytes_weights=cost.bytes_weights * 5 // 8)
            op_type += "Compress"
        self.tasks.append(
            Task(
                name=fused_name(nodes) or leader.name,
                op_type=op_type,
                core_type=self.placement.core_of[leader.name],
                nodes=tuple(dict.fromkeys(origin for node in nodes for origin in node.sources)),
                lowered=tuple(node.name for node in nodes),
                inputs=operands,
                outputs=results,
                cost=cost,
                rounded=tuple(node.name for node in nodes if node.rounds),
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
        elements = prod(graph.known_shape(next(name for name in leader.outputs if name)))
        if custom is not None:
            return replace(base, vector_elements=elements, fixed_ns=self.custom_ns(custom, leader))
        if leader.op_type == "Conv":
            weight = graph.known_shape(leader.inputs[1])
            kernel = prod(weight[2:])
            group = leader.get("group", 1)
            element = self.w.kernel_type(leader).size
            if is_depthwise(self.graph, leader):
                return replace(base, vector_elements=elements * kernel, depthwise=True, element_bytes=element)
            m, n, k = elements // weight[0], weight[0] // group, self.padded_channels(leader, weight[1]) * kernel
            return replace(base, cube=(group, m, k, n), element_bytes=element)
        if leader.op_type == "MatMul":
            left, right = graph.known_shape(leader.inputs[0]), graph.known_shape(leader.inputs[1])
            k = left[-1]
            n = right[-1] if len(right) > 1 else 1
            # Where a batch meets one matrix its rows are one product if a pass has seen it, else one product each.
            together = leader.kernel == matmul_graph.FLAT_KERNEL
            batch = 1 if together else prod((right if len(right) > 2 else left)[:-2])
            m = max(1, elements // (n * batch))
            return replace(base, cube=(batch, m, -(-k // 16) * 16, n), element_bytes=self.w.kernel_type(leader).size)
        if leader.op_type in ("LSTM", "GRU"):
            steps, batch, _ = graph.known_shape(leader.inputs[0])
            directions, gates, width = graph.known_shape(leader.inputs[1])
            k = -(-(width + graph.known_shape(leader.inputs[2])[2]) // 16) * 16
            element = self.w.kernel_type(leader).size
            return replace(base, cube=(steps * directions, batch, k, gates), element_bytes=element)
        if leader.op_type == "ConvTranspose":
            weight, source = graph.known_shape(leader.inputs[1]), graph.known_shape(leader.inputs[0])
            m, k = prod(source) // weight[0], -(-weight[0] // 16) * 16
            return replace(base, cube=(1, m, k, prod(weight[1:])), element_bytes=self.w.kernel_type(leader).size)
        if leader.op_type in ("MaxPool", "AveragePool"):
            return replace(base, vector_elements=elements * prod(leader.get("kernel_shape", [1])))
        largest = max((prod(tensor.dims) for tensor in (*inputs, *outputs)), default=elements)
        composed = {node.kernel for node in nodes if node.kernel}
        passes = sum(COMPOSED.get(kernel, 1) for kernel in composed)
        passes += sum(PASSES.get(node.op_type, 1) for node in nodes if not node.kernel)
        return replace(base, vector_elements=largest * passes)

    def is_sparse(self, node: Node) -> bool:
        """True for a product of int8 tensors on the cube with two zeros in every four weights of input channels.

        Source: documentation of --sparsity.
        """
        weight = self.graph.constants.get(node.inputs[1]) if len(node.inputs) > 1 else None
        if weight is None or not self.graph.is_quantised(node) or is_depthwise(self.graph, node) or weight.ndim < 2:
            return False
        channels = np.moveaxis(weight, 1 if node.op_type == "Conv" else -2, -1)
        groups = channels.reshape(*channels.shape[:-1], -1, 4) if channels.shape[-1] % 4 == 0 else None
        return groups is not None and bool((np.count_nonzero(groups, axis=-1) <= 2).all())

    def padded_channels(self, convolution: Node, channels: int) -> int:
        """Input channels as the cube takes them."""
        writer = self.w.writer(convolution.inputs[0])
        behind_aipp = writer is not None and self.graph.custom(writer) is builtin_ops.AIPP
        if self.small_channel and behind_aipp and channels <= SMALL_CHANNELS:
            return SMALL_CHANNELS
        return -(-channels // 16) * 16

    def custom_ns(self, op: custom_ops.CustomOp, node: Node) -> int:
        """What a custom operator says that it takes, for its inputs (constants too) and outputs in the types of now."""
        if op.cost is None:
            return 0

        def types(names: list[str]) -> list[custom_ops.TensorType]:
            known = [(self.graph.known_type(name), self.graph.known_shape(name)) for name in names if name]
            return [custom_ops.TensorType(dtype.numpy, dims) for dtype, dims in known]

        attributes = {name: node.get(name) for name in node.attributes}
        return int(op.cost(self.soc, types(node.inputs), types(node.outputs), attributes))


def fused_name(nodes: list[Node]) -> str:
    """The name of a fused operator: those of its parts joined, as kernel fusion names it. A part that a pass took in
    (a batch normalisation, a bias) leaves no trace in it."""
    shown = [node for node in nodes if node.sources and not node.absorbed]
    return "".join(dict.fromkeys(node.sources[0] for node in shown))


def _leader(nodes: list[Node]) -> Node:
    """The leading node of a fused operator: the one that it is called after."""
    named = next((node for node in nodes if node.name == node.task), None)
    return named or next((node for node in nodes if node.op_type != "Cast"), nodes[0])


def ge_type(graph: Graph, node: Node) -> str:
    """The GE type of a node."""
    custom = graph.custom(node)
    if custom is not None:
        return custom.ge_type or custom.op_type
    if node.kernel:
        return node.kernel
    if node.op_type == "Conv":
        if is_depthwise(graph, node):
            return "DepthwiseConv2D"
        return "Conv3D" if len(graph.known_shape(node.inputs[0])) == 5 else "Conv2D"
    if node.op_type == "MatMul" and all(len(graph.known_shape(name)) == 2 for name in node.inputs[:2]):
        return "MatMulV2"
    known = support.find(node.domain, node.known_as)
    return node.known_as if known is None else known.ge_type
