"""``--mode=6`` and ``--display_model_info=1``: what an om says of itself. Layout: pyacl-and-atc 3.2."""

from __future__ import annotations

import json

from cannlab.om import OmModel

START = "============ Display Model Info start ============"
END = "============ Display Model Info end   ============"


def text(model: OmModel) -> str:
    """The lines that are printed."""
    tasks = len(json.dumps([task.to_json() for task in model.tasks], separators=(",", ":")))
    return "\n".join(
        [
            START,
            "Original Atc command line:",
            model.command,
            f"system   info: atc_version[{model.cann}], soc_version[{model.soc}], framework_type[{model.framework}].",
            f"resource info: memory_size[{model.work_size} B], weight_size[{model.weight_size} B], "
            "stream_num[1], event_num[0].",
            f"om       info: modeldef_size[{len(model.graph_bytes)} B], weight_data_size[{model.weight_size} B], "
            f"tbe_kernels_size[0 B], cust_aicpu_kernel_store_size[0 B], task_info_size[{tasks} B], so_store_size[0 B].",
            END,
        ]
    )
