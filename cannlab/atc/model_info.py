"""``--mode=6`` and ``--display_model_info=1``: what an om says of itself. Layout: pyacl-and-atc 3.2."""

from __future__ import annotations

import json

from cannlab.om import OmModel

START = "============ Display Model Info start ============"
END = "============ Display Model Info end   ============"

FRAMEWORKS = {0: "Caffe", 1: "MindSpore", 3: "TensorFlow", 5: "Onnx"}


def text(model: OmModel) -> str:
    """The lines that are printed."""
    # A model with gears holds a graph and a task list for each.
    every = model.variants or (model,)
    graphs = sum(len(one.graph_bytes) for one in every)
    inside = 0 if model.external else model.weight_size
    tasks = sum(len(json.dumps([task.to_json() for task in one.tasks], separators=(",", ":"))) for one in every)
    return "\n".join(
        [
            START,
            f"Original Atc command line: {model.command}",
            f"system   info: atc_version[{model.cann}], soc_version[{model.soc}], "
            f"framework_type[{FRAMEWORKS[model.framework]}].",
            f"resource info: memory_size[{model.work_size} B], weight_size[{model.weight_size} B], "
            "stream_num[1], event_num[0].",
            f"om       info: modeldef_size[{graphs} B], weight_data_size[{inside} B], "
            f"tbe_kernels_size[0 B], cust_aicpu_kernel_store_size[0 B], task_info_size[{tasks} B], so_store_size[0 B].",
            END,
        ]
    )
