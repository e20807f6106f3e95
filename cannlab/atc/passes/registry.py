"""The fusion passes by their real names, in the order in which they run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from cannlab.atc.graph import Graph
from cannlab.atc.passes import (
    add_layer_norm,
    composed_batchnorm,
    confusion_transpose,
    const_to_attr,
    conv_batchnorm,
    conv_bias,
    conv_scale,
    conv_ub,
    empty_reduce,
    gelu,
    global_pool,
    layer_norm,
    matmul_graph,
    matmul_ub,
    pads,
    simplify,
    softmax,
    split_conv_concat,
    splits,
    vector_ub,
)
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

GRAPH = "GraphFusion"
UB = "UBFusion"
A2 = ("ascend910b", "ascend910_93")


@dataclass(frozen=True, slots=True)
class Pass:
    """A fusion pass.

    Attributes:
        name: its real name, as the switch file calls it.
        kind: "GraphFusion" (rewrites the graph) or "UBFusion" (merges kernels).
        run: changes the graph and reports what it did.
        families: the families of chips that have it; () for all.
    """

    name: str
    kind: str
    run: Callable[[Wiring, Report], None]
    families: tuple[str, ...] = ()


PASSES = (
    # Before the types are lowered. What composes operators comes before what takes them in.
    Pass(simplify.COMMON, GRAPH, simplify.run_common),
    Pass(simplify.CAST, GRAPH, simplify.run_cast),
    Pass(simplify.CAST_RELU, GRAPH, simplify.run_cast_relu),
    Pass(splits.SPLIT_REMOVE, GRAPH, splits.run_split_remove),
    Pass(conv_bias.NAME, GRAPH, conv_bias.run),
    Pass(split_conv_concat.NAME, GRAPH, split_conv_concat.run),
    Pass(composed_batchnorm.NAME, GRAPH, composed_batchnorm.run),
    Pass(conv_batchnorm.NAME, GRAPH, conv_batchnorm.run),
    Pass(conv_batchnorm.TRANSPOSED, GRAPH, conv_batchnorm.run_transposed),
    Pass(conv_scale.NAME, GRAPH, conv_scale.run),
    Pass("AReduceMeanFusionPass", GRAPH, empty_reduce.run_mean),
    Pass("AReduceSumFusionPass", GRAPH, empty_reduce.run_sum),
    Pass(global_pool.NAME, GRAPH, global_pool.run),
    Pass(const_to_attr.NAME, GRAPH, const_to_attr.run),
    Pass(pads.MAX_POOL, GRAPH, pads.run_max_pool),
    Pass(pads.CONV, GRAPH, pads.run_conv),
    Pass(pads.DEPTHWISE, GRAPH, pads.run_depthwise),
    Pass(layer_norm.NAME, GRAPH, layer_norm.run),
    Pass(gelu.NAME, GRAPH, gelu.run),
    Pass(softmax.NAME, GRAPH, softmax.run),
    Pass(add_layer_norm.NAME, GRAPH, add_layer_norm.run, A2),
    Pass(simplify.DIVISION, GRAPH, simplify.run_division),
    Pass(matmul_graph.TRANSPOSE, GRAPH, matmul_graph.run_transpose),
    Pass(splits.CONCAT, GRAPH, splits.run_concat),
    Pass(splits.SPLIT, GRAPH, splits.run_split),
    Pass(matmul_graph.BIAS, GRAPH, matmul_graph.run_bias),
    Pass(matmul_graph.CAST, GRAPH, matmul_graph.run_cast),
    Pass(matmul_graph.RESHAPE, GRAPH, matmul_graph.run_reshape),
    Pass(simplify.NORM, GRAPH, simplify.run_norm),
    Pass(confusion_transpose.BEFORE, GRAPH, confusion_transpose.run_before),
    Pass(confusion_transpose.AFTER, GRAPH, confusion_transpose.run_after),
    # After the types are lowered: kernels join where the types agree.
    Pass(conv_ub.POOL, UB, conv_ub.run_pool),
    Pass(conv_ub.RELU, UB, conv_ub.run_relu),
    Pass(matmul_ub.ELEMENTWISE, UB, matmul_ub.run_elementwise),
    Pass(matmul_ub.BATCH_TRANSPOSE, UB, matmul_ub.run_batch_transpose),
    Pass(matmul_ub.TRANSPOSE, UB, matmul_ub.run_transpose),
    Pass(matmul_ub.BATCH, UB, matmul_ub.run_batch),
    Pass(conv_ub.ELTWISE, UB, conv_ub.run_eltwise),
    Pass(conv_ub.DEPTHWISE, UB, conv_ub.run_depthwise),
    Pass(conv_ub.RULES, UB, conv_ub.run_rules),
    Pass(vector_ub.REDUCE, UB, vector_ub.run_reduce),
    Pass(vector_ub.ELTWISE, UB, vector_ub.run_eltwise),
    Pass(vector_ub.CAST, UB, vector_ub.run_cast),
)


@cache
def _data() -> Mapping[str, Any]:
    text = (resources.files("cannlab.atc") / "data" / "fusion_passes.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


@cache
def known() -> Mapping[str, frozenset[str]]:
    """All names of passes of the real toolkit by kind; most are not emulated. Source: pyacl-and-atc 5."""
    data = _data()
    return {kind: frozenset((*data[kind], *data["default"][kind], *data["documented"][kind])) for kind in (GRAPH, UB)}


def on_by_default(kind: str, name: str) -> bool:
    """False for the passes that the toolkit's own switch table turns off."""
    return bool(_data()["default"][kind].get(name, "on") == "on")


@cache
def kept_on() -> frozenset[str]:
    """Passes that ``ALL: off`` leaves on, because models may not work without them. Source: pyacl-and-atc 5, and the
    toolkit's list of passes that are risky to turn off."""
    return frozenset(_data()["kept_on"])


def run_all(w: Wiring, kind: str, enabled: Callable[[Pass], bool]) -> list[Report]:
    """Run the passes of a kind that are on and that the chip has; what those came to that matched anything."""
    reports = []
    for item in PASSES:
        if item.kind == kind and enabled(item) and (not item.families or w.family in item.families):
            report = Report(item.name, kind)
            item.run(w, report)
            if report.match_times:
                reports.append(report)
    return reports


def prepare(graph: Graph, runs: Mapping[str, Callable[[Wiring, Report], None]]) -> list[Report]:
    """Run steps that no switch turns off."""
    w, reports = Wiring(graph), []
    for name, run in runs.items():
        report = Report(name, "Preparation")
        run(w, report)
        if report.match_times:
            reports.append(report)
    w.commit()
    return reports
