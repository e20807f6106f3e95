"""GeluFusionPass: small operators around an Erf or a Tanh that compute GELU become one operator.

The pattern is not matched by its form, of which there are many, but by what it computes: a region of elementwise
operators with one variable and one result whose values are GELU's at sample points. Source of the meaning: the
toolkit's documentation of the pass.
"""

from __future__ import annotations

from math import erf, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from cannlab.atc.graph import Node
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "GeluFusionPass"
KERNEL = "Gelu"
PARTS = ("Add", "Sub", "Mul", "Div", "Pow", "Erf", "Tanh")
DEPTH = 8
"""Nodes before the Erf or Tanh that may belong to it, and after it."""

Values = NDArray[np.float64]
SAMPLES: Values = np.linspace(-4.0, 4.0, 33)
ERF: Values = np.array([0.5 * x * (1 + erf(x / sqrt(2))) for x in SAMPLES.tolist()])
TANH: Values = 0.5 * SAMPLES * (1 + np.tanh(sqrt(2 / pi) * (SAMPLES + 0.044715 * SAMPLES**3)))
_vector_erf = np.vectorize(erf, otypes=[np.float64])


def run(w: Wiring, report: Report) -> None:
    """Compose every GELU."""
    for core in w.of("Erf", "Tanh"):
        wanted = ERF if core.op_type == "Erf" else TANH
        found = next(
            (region for region in _regions(w, core) if np.allclose(_value(w, *region), wanted, atol=1e-5)), None
        )
        if found is None:
            continue
        nodes = found[1]
        inside = [name for node in nodes[:-1] for name in node.outputs]
        taken = set(map(id, nodes))
        if any(w.is_output(name) or any(id(item) not in taken for item in w.readers(name)) for name in inside):
            report.refuse(core, "a value inside it has another reader")
            continue
        w.compose(nodes[-1], nodes, KERNEL)
        report.did(nodes[-1], *nodes)


def _regions(w: Wiring, core: Node) -> list[tuple[str, list[Node]]]:
    """(variable, nodes in order) for every region around a node that closes over one variable."""
    variables, edge = [], [core.inputs[0]]
    for _ in range(DEPTH):
        variables += edge
        edge = [
            name
            for tensor in edge
            for writer in [w.writer(tensor, *PARTS)]
            if writer is not None
            for name in writer.inputs
            if name not in w.graph.constants and name not in variables
        ]
    ends, end = [], core
    for _ in range(DEPTH):
        reader = w.only_reader(end.outputs[0], *PARTS)
        if reader is None:
            break
        end = reader
        ends.append(end)
    regions = [
        (variable, _closure(w, variable, end)) for end in reversed(ends) for variable in dict.fromkeys(variables)
    ]
    return [(variable, nodes) for variable, nodes in regions if nodes]


def _closure(w: Wiring, variable: str, end: Node) -> list[Node]:
    """The nodes that lead from a variable to ``end``; [] if anything else has a part in it."""
    found: dict[int, Node] = {}
    waiting = [end]
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        for name in node.inputs:
            if name == variable or w.scalar(name) is not None:
                continue
            writer = w.writer(name, *PARTS)
            if writer is None or len(found) > 2 * DEPTH:
                return []
            waiting.append(writer)
    return w.ordered(found.values())


def _value(w: Wiring, variable: str, nodes: list[Node]) -> Values:
    values: dict[str, Values] = {variable: SAMPLES}
    for node in nodes:
        given = []
        for name in node.inputs:
            scalar = w.scalar(name)
            if name not in values and scalar is None:
                return np.full_like(SAMPLES, np.nan)
            given.append(values[name] if name in values else np.full_like(SAMPLES, scalar or 0.0))
        with np.errstate(all="ignore"):
            values[node.outputs[0]] = _computed(node.op_type, given)
    return values[nodes[-1].outputs[0]]


def _computed(op_type: str, given: list[Values]) -> Values:
    match op_type:
        case "Erf":
            return np.asarray(_vector_erf(given[0]), np.float64)
        case "Tanh":
            return np.tanh(given[0])
        case "Add":
            return given[0] + given[1]
        case "Sub":
            return given[0] - given[1]
        case "Mul":
            return given[0] * given[1]
        case "Div":
            return given[0] / given[1]
    return np.asarray(given[0] ** given[1], np.float64)
