"""``fusion_result.json``: how often each pass matched and took effect."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cannlab.atc.passes.registry import PASSES, UB

FILE = "fusion_result.json"


def text(effects: dict[str, int]) -> str:
    """The content of the file."""
    graph_fusion: dict[str, Any] = {}
    ub_fusion: dict[str, Any] = {}
    for item in PASSES:
        if item.name not in effects:
            continue
        times = str(effects[item.name])
        entry = {"effect_times": times, "match_times": times}
        if item.kind == UB:
            ub_fusion[item.name] = {**entry, "repository_hit_times": "0"}
        else:
            graph_fusion[item.name] = entry
    content = [{"session_and_graph_id": "0_0", "graph_fusion": graph_fusion, "ub_fusion": ub_fusion}]
    return json.dumps(content, indent=4, sort_keys=True) + "\n"


def write(effects: dict[str, int]) -> None:
    """Write the file into the working directory, or below ``ASCEND_WORK_PATH``. OSError if that fails.

    Source: pyacl-and-atc 5.
    """
    root = os.environ.get("ASCEND_WORK_PATH")
    folder = Path(root) / "FE" / str(os.getpid()) if root else Path()
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{FILE}.part"
    try:
        part.write_text(text(effects), encoding="utf-8")
        part.replace(folder / FILE)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
