"""The report of the check before parsing (``--mode=3``, ``--check_report``): each operator, and why one is refused.

Layout: the published check of the parser; its numbers for causes are not published, cannlab's are its own.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import onnx

from cannlab.atc import support

SUPPORTED, TYPE_UNSUPPORTED, NAME_REPEATED = 0, 1, 2

_MESSAGES = {
    TYPE_UNSUPPORTED: "The type is not supported.",
    NAME_REPEATED: "The name is repeated in the graph.",
}


def make(model: onnx.ModelProto) -> dict[str, Any]:
    """The report on a model: result and counts, and an entry for each node of the main graph."""
    opsets = {item.domain or "ai.onnx": item.version for item in model.opset_import}
    nodes = list(model.graph.node)
    unnamed = iter(range(len(nodes)))
    names = [node.name or f"{node.op_type}_{next(unnamed)}" for node in nodes]
    counts = Counter(names)
    ops = []
    for name, node in zip(names, nodes, strict=True):
        domain = node.domain or "ai.onnx"
        causes = [NAME_REPEATED] if counts[name] > 1 else []
        if domain not in opsets or not support.has_parser(domain, node.op_type, opsets[domain]):
            causes.append(TYPE_UNSUPPORTED)
        entry: dict[str, Any] = {"name": name, "type": f"{domain}::{opsets.get(domain, 0)}::{node.op_type}"}
        entry["result"] = "failed" if causes else "success"
        if causes:
            entry["cause"] = [{"code": cause, "message": _MESSAGES[cause]} for cause in causes]
        ops.append(entry)
    failed = sum(entry["result"] == "failed" for entry in ops)
    return {
        "name": model.graph.name,
        "result": "failed" if failed else "success",
        "total": len(ops),
        "pass": len(ops) - failed,
        "fail": failed,
        "op": ops,
    }


def text(report: dict[str, Any]) -> str:
    """The file's text."""
    return json.dumps(report, indent=4) + "\n"
