"""``--topo_sorting_mode``: in which order the operators run. Every order keeps writers before readers."""

from __future__ import annotations

from collections import deque

from cannlab.atc.graph import Graph, Node

BREADTH, DEPTH, REVERSED, STABLE = "0", "1", "2", "3"


def sort(graph: Graph, mode: str) -> None:
    """Order the nodes of a graph: breadth first, depth first, or depth first from the outputs; else as they are."""
    if mode in ("", STABLE):
        return
    graph.nodes = _from_outputs(graph) if mode == REVERSED else _from_inputs(graph, breadth=mode == BREADTH)


def _from_inputs(graph: Graph, *, breadth: bool) -> list[Node]:
    """Kahn's algorithm; what becomes ready waits behind the others, or comes next."""
    writer = {name: node for node in graph.nodes for name in node.outputs}
    missing = {id(node): len({id(writer[name]) for name in node.inputs if name in writer}) for node in graph.nodes}
    readers: dict[int, list[Node]] = {id(node): [] for node in graph.nodes}
    for node in graph.nodes:
        for source in {id(writer[name]) for name in node.inputs if name in writer}:
            readers[source].append(node)
    ready = deque(node for node in graph.nodes if not missing[id(node)])
    ordered: list[Node] = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        found = []
        for reader in readers[id(node)]:
            missing[id(reader)] -= 1
            if not missing[id(reader)]:
                found.append(reader)
        if breadth:
            ready.extend(found)
        else:
            ready.extendleft(reversed(found))
    return ordered


def _from_outputs(graph: Graph) -> list[Node]:
    """Each output's inputs as late as possible: depth first from the outputs."""
    writer = {name: node for node in graph.nodes for name in node.outputs}
    ordered: list[Node] = []
    done: set[int] = set()
    for output in [*graph.outputs, *writer]:
        stack = [(writer[output], False)] if output in writer else []
        while stack:
            node, entered = stack.pop()
            if entered:
                ordered.append(node)
            elif id(node) not in done:
                done.add(id(node))
                stack.append((node, True))
                stack += [(writer[name], False) for name in reversed(node.inputs) if name in writer]
    return ordered
