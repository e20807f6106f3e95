"""Kernels that compute otherwise in another mode: their steps take the operator's place, each stored in its own type.

- Gelu, high_performance: a parabola in the place of the error function.
- Sigmoid, high_performance: exp, sum and quotient in float16; on Ascend310P a polynomial.
- LayerNorm, keep_fp16: every step in float16, the root by log and exp.

Others compute in float32 and round once in every mode, or differ by less than a rounding. Source: the formulas of the
operators in CANN 8.1. A sum in float16 is rounded once here; the chip rounds partial sums too.
"""

from __future__ import annotations

import numpy as np

from cannlab.atc import kernel_modes
from cannlab.atc.graph import Graph, Node
from cannlab.atc.kernel_modes import KernelModes
from cannlab.atc.tasks import ge_type
from cannlab.atc.wiring import Wiring

HALF_MAX = 65504.0


def apply(w: Wiring, modes: KernelModes) -> list[str]:
    """Put the steps of the chosen mode in the place of operators; what no pass has lowered yet.

    Returns:
        Names of the operators that were replaced.

    Raises:
        AtcError: rule ``atc.kernel_mode``.
    """
    replaced = []
    for leader in [node for node in w.nodes() if node.name == node.task and node.domain == "ai.onnx"]:
        members = w.members(leader)
        made = _MADE.get((ge_type(w.graph, leader), modes.of(w.graph, leader, members)))
        if made is not None and not any(node.inner for node in members) and made(w, leader, members):
            replaced.append(leader.name)
    return replaced


class _Steps:
    """Nodes in the place of an operator. The last one has its name and its result."""

    def __init__(self, w: Wiring, leader: Node, kernel: str, members: list[Node]) -> None:
        self.w = w
        self.leader = leader
        self.kernel = kernel
        self.members = members
        self.result = members[-1].outputs[0]
        self.dtype, self.dims = w.graph.types[self.result]

    def __call__(self, op_type: str, *inputs: str | float, dims: tuple[int | None, ...] | None = None) -> str:
        """One step; numbers become constants. Returns the tensor that it writes."""
        target = self.w.fresh(f"{self.leader.name}/{op_type}")
        self._put(op_type, inputs, self.w.fresh(f"{self.leader.name}/step"), target, ())
        self.w.graph.types[target] = (self.dtype, self.dims if dims is None else dims)
        return target

    def end(self, op_type: str, *inputs: str | float) -> None:
        """The last step; the old nodes go."""
        for node in self.members:
            self.w.remove(node)
        self._put(op_type, inputs, self.leader.name, self.result, self._origins())

    def _origins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for node in self.members for name in node.sources))

    def _put(
        self, op_type: str, inputs: tuple[str | float, ...], name: str, target: str, origins: tuple[str, ...]
    ) -> None:
        read = [item if isinstance(item, str) else self._number(item) for item in inputs]
        node = Node(
            name,
            op_type,
            "ai.onnx",
            read,
            [target],
            origins=origins,
            task=self.leader.task,
            kernel=self.kernel,
            rounds=True,
        )
        self.w.put(node, self.leader)

    def _number(self, value: float) -> str:
        return self.w.add_constant(f"{self.leader.name}/number", np.array(value, np.float32))

    def reduced(self, tensor: str, axes: tuple[int, ...], dims: tuple[int | None, ...]) -> str:
        """The sum over axes, which stay as 1."""
        target = self("ReduceSum", tensor, dims=dims)
        node = self.w.writer(target)
        assert node is not None
        node.set("keepdims", 1)
        if (self.w.graph.opset or 0) >= 13:
            name = self.w.add_constant(f"{self.leader.name}/axes", np.array(axes, np.int64))
            self.w.rewire(node, inputs=[*node.inputs, name])
        else:
            node.set("axes", list(axes))
        return target


def _variable(w: Wiring, members: list[Node]) -> str | None:
    """The one tensor that an operator reads; None if there are several."""
    written = {name for node in members for name in node.outputs}
    read = {name for node in members for name in node.inputs if name} - written - w.graph.constants.keys()
    return read.pop() if len(read) == 1 else None


def _fast_gelu(w: Wiring, leader: Node, members: list[Node]) -> bool:
    x = _variable(w, members)
    if x is None:
        return False
    step = _Steps(w, leader, "Gelu", members)
    size = step("Min", step("Abs", step("Mul", x, 0.7071)), 1.769)
    short = step("Add", size, -1.769)
    half = step("Add", step("Mul", step("Mul", short, short), -0.1444), 0.5)
    moved = step("Add", x, 1e-7)
    # The reciprocal of the offset alone leaves float16: it is kept in range, as on the chips that saturate.
    sign = step("Mul", moved, step("Min", step("Div", 1.0, step("Abs", moved)), HALF_MAX))
    step.end("Mul", x, step("Add", step("Mul", half, sign), 0.5))
    return True


def _fast_sigmoid(w: Wiring, leader: Node, members: list[Node]) -> bool:
    x = leader.inputs[0]
    step = _Steps(w, leader, "Sigmoid", members)
    if w.family == "ascend310p":
        square = step("Mul", x, x)
        inner = step("Add", step("Mul", square, 0.000207697530), -0.0102459298)
        outer = step("Add", step("Mul", square, inner), 0.229270815)
        value = step("Add", step("Mul", x, outer), 0.5)
        step.end("Max", step("Min", value, 1.0), 0.0)
    else:
        step.end("Div", 1.0, step("Add", step("Exp", step("Neg", x)), 1.0))
    return True


def _half_norm(w: Wiring, leader: Node, members: list[Node]) -> bool:
    found = _norm(w, leader, members)
    if found is None:
        return False
    x, axes, epsilon, scale, offset = found
    shape = w.graph.shape(x)
    if shape is None or any(shape[axis] is None for axis in axes):
        return False
    step = _Steps(w, leader, "LayerNorm", members)
    count = float(np.prod([shape[axis] for axis in axes]))
    small = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))

    def small_step(op_type: str, *inputs: str | float) -> str:
        return step(op_type, *inputs, dims=small)

    mean = small_step("Mul", step.reduced(x, axes, small), 1.0 / count)
    centred = step("Sub", x, mean)
    variance = small_step("Mul", step.reduced(step("Mul", centred, centred), axes, small), 1.0 / count)
    root = small_step("Exp", small_step("Mul", small_step("Log", small_step("Add", variance, epsilon)), -0.5))
    if scale is None and offset is None:
        step.end("Mul", centred, root)
        return True
    value = step("Mul", centred, root)
    if offset is None:
        step.end("Mul", value, scale or 1.0)
        return True
    step.end("Add", step("Mul", value, scale or 1.0), offset)
    return True


def _norm(
    w: Wiring, leader: Node, members: list[Node]
) -> tuple[str, tuple[int, ...], float, str | None, str | None] | None:
    """(input, axes, epsilon, scale, offset) of a LayerNorm: the ONNX operator, or what a pass composed."""
    if leader.op_type == "LayerNormalization":
        rank = w.graph.rank(leader.inputs[0])
        if rank is None or any(name and (w.readers(name) or w.is_output(name)) for name in leader.outputs[1:]):
            return None
        first = leader.get("axis", -1) % rank
        scale, offset = (*leader.inputs[1:], "")[:2]
        return leader.inputs[0], tuple(range(first, rank)), leader.get("epsilon", 1e-5), scale or None, offset or None
    by_type = {node.op_type: node for node in members}
    mean = next(node for node in members if node.op_type == "ReduceMean")
    axes, add = w.axes(mean), w.writer(by_type["Sqrt"].inputs[0])
    pair = w.operand(add) if add is not None else None
    epsilon = w.scalar(pair[1]) if pair is not None else None
    if axes is None or epsilon is None:
        return None
    if leader.op_type != "Add":
        return mean.inputs[0], axes, epsilon, None, None
    last = w.operand(leader)
    product = w.writer(last[0]) if last is not None else None
    factor = w.operand(product) if product is not None else None
    if last is None or factor is None:
        return None
    return mean.inputs[0], axes, epsilon, factor[1], last[1]


_MADE = {
    ("Gelu", kernel_modes.FAST): _fast_gelu,
    ("Sigmoid", kernel_modes.FAST): _fast_sigmoid,
    ("LayerNorm", kernel_modes.KEEP_HALF): _half_norm,
}
"""What takes an operator's place, by GE type and mode."""


def hf32(graph: Graph, modes: KernelModes) -> int:
    """Let the products of float32 whose mode says so read HF32. After the types are lowered.

    Returns:
        How many products.
    """
    from onnx import TensorProto

    from cannlab.machine import builtin_ops

    w, count = Wiring(graph), 0
    for leader in w.of("Conv", "MatMul", "ConvTranspose"):
        floats = all(graph.dtype(name) == TensorProto.FLOAT for name in leader.inputs[:2])
        members = w.members(leader)
        if leader.name != leader.task or not floats or modes.of(graph, leader, members) != kernel_modes.HF32:
            continue
        read = list(leader.inputs)
        for index, name in enumerate(read[:2]):
            target = f"{name}/hf32/{leader.name}"
            if name in graph.constants:
                graph.constants[target] = builtin_ops.to_hf32(graph.constants[name])
            else:
                node = Node(
                    f"{leader.name}/hf32_{index}",
                    "Hf32",
                    builtin_ops.DOMAIN,
                    [name],
                    [target],
                    origins=(),
                    task=leader.task,
                )
                graph.types[target] = graph.types[name]
                w.put(node, leader)
            read[index] = target
        w.rewire(leader, inputs=read)
        graph.opsets[builtin_ops.DOMAIN] = 1
        count += 1
    w.commit()
    return count
