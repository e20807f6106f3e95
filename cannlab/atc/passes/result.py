"""``fusion_result.json``: how often each pass matched and took effect."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cannlab.atc.passes.registry import GRAPH, UB
from cannlab.atc.passes.report import Report
from cannlab.trace.whole_file import write_whole

FILE = "fusion_result.json"


def text(reports: Sequence[Report]) -> str:
    """The content of the file."""
    found: dict[str, dict[str, Any]] = {GRAPH: {}, UB: {}}
    for report in reports:
        entry = {"effect_times": str(report.effect_times), "match_times": str(report.match_times)}
        if report.kind == UB:
            entry["repository_hit_times"] = "0"
        if report.kind in found:
            found[report.kind][report.name] = entry
    content = [{"session_and_graph_id": "0_0", "graph_fusion": found[GRAPH], "ub_fusion": found[UB]}]
    return json.dumps(content, indent=4, sort_keys=True) + "\n"


def write(reports: Sequence[Report]) -> None:
    """Write the file into the working directory, or below ``ASCEND_WORK_PATH``. OSError if that fails.

    Source: pyacl-and-atc 5.
    """
    root = os.environ.get("ASCEND_WORK_PATH")
    folder = Path(root) / "FE" / str(os.getpid()) if root else Path()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / FILE, text(reports).encode())
