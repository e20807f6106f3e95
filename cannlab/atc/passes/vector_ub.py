"""Kernel fusions of vector operators: chains of elementwise ones, with a reduction before them, with a Cast after them.

The vector unit stores every step in its own type, so each is rounded as if it stood alone.
"""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes import elementwise
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

REDUCE = "TbeReduceElemwiseFusionPass"
ELTWISE = "TbeEltwiseFusionPass"
CAST = "TbeEltwiseCastFusionPass"
MOST = 6
"""Elementwise operators in one kernel. Source: the toolkit's documentation of TbeEltwiseFusionPass."""
REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")


def _take(w: Wiring, leader: Node, other: Node) -> None:
    w.members(leader)[-1].rounds = True
    w.join(leader, other)


def run_reduce(w: Wiring, report: Report) -> None:
    """TbeReduceElemwiseFusionPass: a reduction + an elementwise operator of its result."""
    for reduction in w.of(*REDUCTIONS):
        if len(w.members(reduction)) > 1:
            continue
        node = elementwise.next_unit(w, reduction.outputs[0])
        if node is None or not elementwise.same_shape(w, reduction.outputs[0], w.tail(node)):
            continue
        if w.can_join(reduction, node):
            _take(w, reduction, node)
            report.did(reduction, node)


def run_eltwise(w: Wiring, report: Report) -> None:
    """TbeEltwiseFusionPass: up to six elementwise operators in a row, of results of one shape."""
    for first in w.nodes():
        if not elementwise.unit(w, first) or w.leader(first) is not first:
            continue
        taken: list[Node] = []
        while len(taken) < MOST - 1:
            end = w.tail(first)
            node = elementwise.next_unit(w, end)
            if node is None or not elementwise.same_shape(w, end, w.tail(node)) or not w.can_join(first, node):
                break
            _take(w, first, node)
            taken.append(node)
        if taken:
            report.did(first, *taken)


def run_cast(w: Wiring, report: Report) -> None:
    """TbeEltwiseCastFusionPass: an elementwise operator + a Cast of the model's."""
    for cast in w.of("Cast"):
        writer = w.writer(cast.inputs[0])
        if not cast.sources or len(w.members(cast)) > 1 or writer is None:
            continue
        leader = w.leader(writer)
        vector = leader.op_type in elementwise.UNARY | elementwise.BINARY
        if vector and w.only_reader(cast.inputs[0]) is cast and w.can_join(leader, cast):
            _take(w, leader, cast)
            report.did(leader, cast)
