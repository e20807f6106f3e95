"""What the graph passes do to matrix products."""

from __future__ import annotations

import numpy as np

from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

TRANSPOSE = "BatchMatMulFusionPass"
BIAS = "MatMulBiasAddFusionPass"
RESHAPE = "BatchMatMulV2ReshapeFusionPass"
CAST = "MatmulCastFusionPass"
FLAT_KERNEL = "MatMulV2"


def run_transpose(w: Wiring, report: Report) -> None:
    """BatchMatMulFusionPass: a Transpose of the last two axes before a MatMul becomes an attribute of it.

    Source: the toolkit's documentation of the pass.
    """
    for matmul in w.of("MatMul"):
        for name in dict.fromkeys(matmul.inputs):
            transpose = w.writer(name, "Transpose")
            if transpose is None:
                continue
            rank = len(w.graph.known_shape(name))
            swapped = [*range(rank - 2), rank - 1, rank - 2]
            if list(transpose.get("perm", range(rank)[::-1])) != swapped:
                report.refuse(matmul, "the Transpose moves other axes than the last two")
            elif w.only_reader(name) is not matmul:
                report.refuse(matmul, "the transposed tensor has another reader")
            elif w.can_join(matmul, transpose):
                w.join(matmul, transpose, absorbed=True)
                report.did(matmul, transpose)


def run_bias(w: Wiring, report: Report) -> None:
    """MatMulBiasAddFusionPass: the Add of a constant vector over the last axis becomes the MatMul's bias."""
    for matmul in w.of("MatMul"):
        add = w.only_reader(matmul.outputs[0], "Add")
        pair = w.operand(add) if add is not None else None
        if add is None or pair is None:
            continue
        bias, shape = w.graph.constants[pair[1]], w.graph.shape(matmul.outputs[0])
        if shape and bias.ndim >= 1 and bias.size == bias.shape[-1] == shape[-1] and w.can_join(matmul, add):
            w.join(matmul, add, absorbed=True)
            report.did(matmul, add)
        else:
            report.refuse(matmul, "the summand is not a vector over the last axis")


def run_reshape(w: Wiring, report: Report) -> None:
    """BatchMatMulV2ReshapeFusionPass: where all of a batch meet one matrix, the rows of the batch are one product."""
    for matmul in w.of("MatMul"):
        left, right = (len(w.graph.known_shape(name)) for name in matmul.inputs[:2])
        if left > 2 and right == 2 and not matmul.kernel:
            matmul.kernel = FLAT_KERNEL
            report.did(matmul)


def run_cast(w: Wiring, report: Report) -> None:
    """MatmulCastFusionPass: a Cast of a float16 product to float32 goes: the product leaves the cube in float32."""
    for matmul in w.of("MatMul"):
        cast = w.only_reader(w.tail(matmul), "Cast")
        if cast is None or cast.absorbed or w.graph.known_type(w.tail(matmul)).numpy != np.float16:
            continue
        if w.graph.known_type(cast.outputs[0]).numpy == np.float32 and w.can_join(matmul, cast):
            w.join(matmul, cast, absorbed=True)
            report.did(matmul, cast)
