"""Identity and Dropout vanish: in inference they hand their input on. Always runs."""

from __future__ import annotations

from cannlab.atc.errors import atc_error
from cannlab.atc.passes.report import Report
from cannlab.atc.wiring import Wiring

NAME = "IdentityRemovePass"


def run(w: Wiring, report: Report) -> None:
    """Remove them.

    Raises:
        AtcError: rule ``atc.dropout_mask`` if a Dropout's mask is used (GE's Dropout has one output).
    """
    for node in w.of("Identity", "Dropout"):
        if any(w.readers(mask) or w.is_output(mask) for mask in node.outputs[1:] if mask):
            raise atc_error("dropout_mask", name=node.name)
        if w.bypass(node):
            report.did(None, node)
