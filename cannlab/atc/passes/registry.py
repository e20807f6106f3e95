"""The fusion passes by their real names, in the order in which they run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cannlab.atc.graph import Graph
from cannlab.atc.passes import conv_batchnorm, conv_eltwise, conv_relu, depthwise_elemwise, matmul_bias, matmul_elemwise

GRAPH = "GraphFusion"
UB = "UBFusion"


@dataclass(frozen=True, slots=True)
class Pass:
    """A fusion pass.

    Attributes:
        name: its real name, as the switch file calls it.
        kind: "GraphFusion" (rewrites the graph) or "UBFusion" (merges kernels).
        run: changes the graph, returns how often it took effect.
    """

    name: str
    kind: str
    run: Callable[[Graph], int]


PASSES = (
    Pass(conv_batchnorm.NAME, GRAPH, conv_batchnorm.run),
    Pass(matmul_bias.NAME, GRAPH, matmul_bias.run),
    Pass(conv_relu.NAME, UB, conv_relu.run),
    Pass(matmul_elemwise.NAME, UB, matmul_elemwise.run),
    Pass(conv_eltwise.NAME, UB, conv_eltwise.run),
    Pass(depthwise_elemwise.NAME, UB, depthwise_elemwise.run),
)


@cache
def known() -> Mapping[str, frozenset[str]]:
    """All names of passes of the real toolkit by kind; most are not emulated. Source: pyacl-and-atc 5."""
    text = (resources.files("cannlab.atc") / "data" / "fusion_passes.json").read_text(encoding="utf-8")
    entries = json.loads(text)
    return {kind: frozenset(entries[kind]) | frozenset(entries["default"][kind]) for kind in (GRAPH, UB)}


def run_all(graph: Graph, enabled: Callable[[Pass], bool]) -> dict[str, int]:
    """Run the passes that are on; how often each took effect, by name (those that did nothing left out)."""
    effects: dict[str, int] = {}
    for item in PASSES:
        if enabled(item):
            count = item.run(graph)
            if count:
                effects[item.name] = count
    return effects
