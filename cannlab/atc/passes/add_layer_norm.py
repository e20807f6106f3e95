"""AddLayerNormFusionPass: the residual Add before a LayerNorm runs in its kernel, which gives the sum as well."""

from __future__ import annotations

from cannlab.atc.passes import layer_norm
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "AddLayerNormFusionPass"
KERNEL = "AddLayerNorm"


def run(w: Wiring, report: Report) -> None:
    """Join every Add of two tensors of one shape + LayerNorm (composed, or an operator of the model)."""
    for norm in w.nodes():
        composed = norm.kernel == layer_norm.KERNEL and norm.name == norm.task
        if not composed and norm.op_type != "LayerNormalization":
            continue
        members = w.members(norm)
        written = {name for node in members for name in node.outputs}
        source = next(name for node in members for name in node.inputs if name and name not in written)
        add = w.writer(source, "Add")
        if add is None or add.kernel or any(name in w.graph.constants for name in add.inputs):
            continue
        if len({w.graph.shape(name) for name in (*add.inputs, source)}) != 1:
            report.refuse(norm, "the summands have different shapes")
        elif not w.can_join(norm, add):
            report.refuse(norm, "the sum is needed before by what the operator reads")
        else:
            w.compose(norm, [*members, add], KERNEL)
            report.did(norm, add)
