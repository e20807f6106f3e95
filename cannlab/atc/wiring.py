"""Who writes and who reads each tensor of a graph, kept right while passes change it.

A pass changes the graph through this index only; ``commit`` writes the result back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.atc.graph import Graph, Node
from cannlab.om import DataType


class Wiring:
    """The index of a graph.

    Attributes:
        graph: the graph; its types and constants may be read and added to, its list of nodes not.
        family: the chip's family in the support table ("" where it does not matter).

    Args:
        taken: names that are no longer free, in all graphs of the model; those of this graph by default.
    """

    def __init__(self, graph: Graph, family: str = "", taken: set[str] | None = None) -> None:
        self.graph = graph
        self.family = family
        self._order = list(graph.nodes)
        self._gone: set[int] = set()
        self._place: dict[int, int] = {}
        self._writer: dict[str, Node] = {}
        self._readers: dict[str, list[Node]] = {}
        self._tasks: dict[str, list[Node]] = {}
        self._ends = set(graph.outputs)
        self._taken = graph.names() if taken is None else taken
        self._numbers: dict[str, int] = {}
        for node in self._order:
            self._link(node)
            self._tasks.setdefault(node.task, []).append(node)
        self._number()

    # -- asking ------------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """All nodes, in order."""
        return [node for node in self._order if id(node) not in self._gone]

    def of(self, *types: str) -> list[Node]:
        """The standard operators of some types, in order; never one that a plugin made several nodes of."""
        return [node for node in self.nodes() if self._is(node, types)]

    def rewritten(self, node: Node) -> bool:
        """True for a part of a kernel that a plugin wrote as several nodes: it stays as it is."""
        return any(item.inner for item in self._tasks[node.task])

    def _is(self, node: Node, types: tuple[str, ...]) -> bool:
        return node.op_type in types and node.domain == "ai.onnx" and not self.rewritten(node)

    def ordered(self, nodes: Iterable[Node]) -> list[Node]:
        """Nodes in order of the graph."""
        return sorted(nodes, key=lambda node: self._place[id(node)])

    def alive(self, node: Node) -> bool:
        """True if a node is still in the graph."""
        return id(node) not in self._gone

    def writer(self, tensor: str, *types: str) -> Node | None:
        """The node that writes a tensor (if it is of one of these types); None for an input or a constant."""
        node = self._writer.get(tensor)
        return None if node is None or (types and not self._is(node, types)) else node

    def readers(self, tensor: str) -> list[Node]:
        """The nodes that read a tensor, each once, in order of the graph."""
        return self.ordered(self._readers.get(tensor, ()))

    def only_reader(self, tensor: str, *types: str) -> Node | None:
        """The one node that reads a tensor; None if it is an output, has other readers, or the node another type."""
        readers = self._readers.get(tensor, ())
        if len(readers) != 1 or tensor in self._ends:
            return None
        node = readers[0]
        return node if not types or self._is(node, types) else None

    def is_output(self, tensor: str) -> bool:
        """True for an output of the graph."""
        return tensor in self._ends

    def constant(self, tensor: str) -> NDArray[Any] | None:
        """The value of a constant; None for any other tensor."""
        return self.graph.constants.get(tensor)

    def scalar(self, tensor: str) -> float | None:
        """The value of a constant of one element."""
        value = self.graph.constants.get(tensor)
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    def operand(self, node: Node) -> tuple[str, str] | None:
        """(variable, constant) of an operator with two inputs of which one is a constant."""
        if len(node.inputs) != 2:
            return None
        first, second = node.inputs
        if (first in self.graph.constants) == (second in self.graph.constants):
            return None
        return (second, first) if first in self.graph.constants else (first, second)

    def axes(self, node: Node) -> tuple[int, ...] | None:
        """The axes of a reduction, none negative; None if they are computed at run time."""
        rank = len(self.graph.shape(node.inputs[0]) or ())
        given = node.get("axes")
        if given is None and len(node.inputs) > 1 and node.inputs[1]:
            value = self.constant(node.inputs[1])
            if value is None:
                return None
            given = value.reshape(-1).tolist()
        if given is None or (not len(given) and not node.get("noop_with_empty_axes", 0)):
            return tuple(range(rank))
        return tuple(sorted(int(axis) % max(1, rank) for axis in given))

    def kernel_type(self, node: Node) -> DataType:
        """Element type of a node's first input (its output if it has none) as the kernel reads it: a Cast inside the
        same fused operator is the kernel's own."""
        name = next(name for name in (*node.inputs, *node.outputs) if name)
        writer = self._writer.get(name)
        if writer is not None and writer.op_type == "Cast" and writer.task == node.task and writer is not node:
            name = writer.inputs[0]
        return self.graph.known_type(name)

    # -- fused operators ---------------------------------------------------------------------------------

    def members(self, node: Node) -> list[Node]:
        """The nodes of a node's fused operator, in order."""
        found = self._tasks[node.task]
        return self.ordered(found) if len(found) > 1 else list(found)

    def leader(self, node: Node) -> Node:
        """The leading node of a node's fused operator."""
        return next((item for item in self._tasks[node.task] if item.name == node.task), self.members(node)[0])

    def tail(self, node: Node) -> str:
        """The tensor that the last node of a fused operator writes."""
        return self.members(node)[-1].outputs[0]

    def can_join(self, leader: Node, *others: Node) -> bool:
        """True if the others' operators may all go into ``leader``'s: they are other ones, and the operator that they
        make would not wait for itself."""
        tasks = {leader.task, *(other.task for other in others)}
        if len(tasks) <= len(others) or any(other.domain != "ai.onnx" for other in others):
            return False
        first = min(self._place[id(node)] for task in tasks for node in self._tasks[task])
        seen = set().union(*map(self._sources, tasks)) - tasks
        waiting = list(seen)
        while waiting:
            task = waiting.pop()
            if all(self._place[id(node)] < first for node in self._tasks[task]):
                continue
            sources = self._sources(task)
            if sources & tasks:
                return False
            waiting += sources - seen
            seen |= sources
        return True

    def _sources(self, task: str) -> set[str]:
        """The operators that write what an operator reads."""
        writers = (self._writer.get(name) for node in self._tasks[task] for name in node.inputs)
        return {writer.task for writer in writers if writer is not None} - {task}

    def join(self, leader: Node, other: Node, *, absorbed: bool = False) -> None:
        """Put ``other``'s operator into ``leader``'s; ``absorbed`` where no trace of its name is left."""
        for node in self._tasks.pop(other.task):
            node.task = leader.task
            node.absorbed = node.absorbed or absorbed
            self._tasks[leader.task].append(node)

    def compose(self, leader: Node, nodes: Iterable[Node], kernel: str) -> None:
        """Make one operator, of a GE type, of several nodes; it takes ``leader``'s name."""
        for node in nodes:
            if node is not leader and node.task != leader.task:
                self.join(leader, node, absorbed=True)
        for node in self._tasks[leader.task]:
            node.kernel = kernel

    # -- changing ----------------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        """A name that no node and no tensor has."""
        number = self._numbers.get(stem, 0)
        while f"{stem}_{number}" in self._taken:
            number += 1
        self._numbers[stem] = number + 1
        self._taken.add(f"{stem}_{number}")
        return f"{stem}_{number}"

    def add_constant(self, stem: str, value: NDArray[Any]) -> str:
        """Add a constant; returns its name."""
        name = self.fresh(stem)
        self.graph.constants[name] = value
        return name

    def forget(self, constant: str) -> None:
        """Drop a constant that nothing reads any more; large ones are not kept until the end."""
        if constant in self.graph.constants and not self._readers.get(constant) and constant not in self._ends:
            del self.graph.constants[constant]

    def rewire(self, node: Node, *, inputs: list[str] | None = None, outputs: list[str] | None = None) -> None:
        """Give a node other inputs or outputs."""
        self._unlink(node)
        node.inputs = node.inputs if inputs is None else inputs
        node.outputs = node.outputs if outputs is None else outputs
        self._link(node)

    def replace_tensor(self, old: str, new: str) -> None:
        """Let every reader of ``old`` read ``new``."""
        for node in list(self._readers.get(old, ())):
            self.rewire(node, inputs=[new if name == old else name for name in node.inputs])

    def remove(self, node: Node) -> None:
        """Take a node out; what it wrote has no writer then."""
        self._unlink(node)
        self._gone.add(id(node))
        members = self._tasks[node.task]
        members.remove(node)
        if not members:
            del self._tasks[node.task]

    def put(self, node: Node, anchor: Node, *, after: bool = False) -> None:
        """Put a new node right before (or after) another one."""
        self._order.insert(self._order.index(anchor) + after, node)
        self._taken.update((node.name, *node.outputs))
        self._link(node)
        self._tasks.setdefault(node.task, []).append(node)
        self._number()

    def hand_over(self, gone: Node, heir: Node) -> None:
        """Remove ``gone``; ``heir``, which writes what it read, writes its first output instead."""
        target, source = gone.outputs[0], gone.inputs[0]
        self.remove(gone)
        self.rewire(heir, outputs=[target if name == source else name for name in heir.outputs])

    def bypass(self, node: Node) -> bool:
        """Remove a node that hands its first input on; False if an output of the graph stands in the way."""
        source, target = node.inputs[0], node.outputs[0]
        if target in self._ends:
            writer = self._writer.get(source)
            if writer is None or source in self._ends or len(self._readers.get(source, ())) != 1:
                return False
            self.hand_over(node, writer)
            self.graph.types[target] = self.graph.types.pop(source)
        else:
            self.remove(node)
            self.replace_tensor(target, source)
        return True

    def commit(self) -> None:
        """Write nodes back to the graph, and drop what no output needs."""
        self.graph.nodes = self.nodes()
        self.graph.drop_dead()

    def _number(self) -> None:
        self._place = {id(node): number for number, node in enumerate(self._order)}

    def _link(self, node: Node) -> None:
        for name in node.outputs:
            if name:
                self._writer[name] = node
        for name in dict.fromkeys(node.inputs):
            if name:
                self._readers.setdefault(name, []).append(node)

    def _unlink(self, node: Node) -> None:
        for name in node.outputs:
            if self._writer.get(name) is node:
                del self._writer[name]
        for name in dict.fromkeys(node.inputs):
            if name:
                self._readers[name].remove(node)


def like(value: Any, array: NDArray[Any]) -> NDArray[Any]:
    """A number as an array of no dimensions, of another array's type."""
    return np.array(value, array.dtype)
