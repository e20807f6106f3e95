"""Kernel fusions behind a matrix product."""

from __future__ import annotations

from cannlab.atc.graph import Node
from cannlab.atc.passes import confusion_transpose, elementwise
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

ELEMENTWISE = "ATbeMatmulElemwiseFusionPass"
BATCH = "TbeBatchMatmulFusedMulAddFusionPass"
TRANSPOSE = "MatmulConfusiontransposeUbFusion"
BATCH_TRANSPOSE = "BatchMatmulConfusiontransposeUbFusion"


def is_batch(w: Wiring, matmul: Node) -> bool:
    """True for a product of two batches of matrices (what BatchMatMul computes)."""
    return len(w.graph.known_shape(matmul.inputs[1])) > 2


def _leading(w: Wiring, *, batch: bool) -> list[Node]:
    return [node for node in w.of("MatMul") if w.leader(node) is node and is_batch(w, node) is batch]


def run_elementwise(w: Wiring, report: Report) -> None:
    """ATbeMatmulElemwiseFusionPass: MatMul (+ bias) + an activation, or + Add, Mul, Sub of a tensor of its shape."""
    for matmul in _leading(w, batch=False):
        end = w.tail(matmul)
        if w.is_output(end):
            continue
        following = elementwise.next_unit(w, end)
        if following is None:
            if len(w.readers(end)) > 1 and any(elementwise.unit(w, node) for node in w.readers(end)):
                report.refuse(matmul, f"{end} has {len(w.readers(end))} readers, so it must be stored")
            continue
        if not elementwise.activation(w, following):
            shaped = following.op_type in ("Add", "Mul", "Sub") and _variables_alike(w, following)
            if not shaped:
                report.refuse(matmul, f"the operands of {following.name} are broadcast")
                continue
        if w.can_join(matmul, following):
            w.join(matmul, following)
            report.did(matmul, following)
        else:
            report.refuse(matmul, f"{following.name} also waits for something that is computed later")


def _variables_alike(w: Wiring, node: Node) -> bool:
    variables = [name for name in node.inputs if name not in w.graph.constants]
    return elementwise.same_shape(w, *variables, node.outputs[0])


def run_batch(w: Wiring, report: Report) -> None:
    """TbeBatchMatmulFusedMulAddFusionPass: a product of two batches + Mul by a number + Add (masked scores)."""
    for matmul in _leading(w, batch=True):
        taken = []
        for op_type in ("Mul", "Add"):
            node = w.only_reader(w.tail(matmul), op_type)
            if (
                node is None
                or not elementwise.unit(w, node)
                or not elementwise.same_shape(w, w.tail(matmul), node.outputs[0])
            ):
                continue
            other = next((name for name in node.inputs if name != w.tail(matmul)), "")
            if not other or (op_type == "Mul" and w.scalar(other) is None) or not w.can_join(matmul, node):
                continue
            w.join(matmul, node)
            taken.append(node)
        if taken:
            report.did(matmul, *taken)


def run_transpose(w: Wiring, report: Report) -> None:
    """MatmulConfusiontransposeUbFusion: MatMul (+ bias) + ConfusionTransposeD."""
    _transpose(w, report, batch=False)


def run_batch_transpose(w: Wiring, report: Report) -> None:
    """BatchMatmulConfusiontransposeUbFusion: a product of two batches + ConfusionTransposeD."""
    _transpose(w, report, batch=True)


def _transpose(w: Wiring, report: Report, *, batch: bool) -> None:
    for matmul in _leading(w, batch=batch):
        node = w.only_reader(w.tail(matmul))
        if node is not None and node.kernel == confusion_transpose.KERNEL and w.can_join(matmul, node):
            leader = w.leader(node)
            w.join(matmul, node)
            report.did(matmul, leader)
