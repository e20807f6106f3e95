"""``--mode=1``: a model or an om as JSON.

An ONNX model is its protobuf as JSON, an om the description of its operators. The bytes of weights are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import onnx
from google.protobuf import json_format

from cannlab.atc.errors import atc_error
from cannlab.machine.shape_inference import infer_shapes
from cannlab.om import Format, OmModel, OmTensor, Task


def of_onnx(model: onnx.ModelProto, *, shapes: bool = False) -> str:
    """The JSON of an ONNX model; with ``shapes`` (``--dump_mode=1``) the inferred shape of every tensor is in it."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if shapes:
        try:
            copy = infer_shapes(copy)
        except (onnx.shape_inference.InferenceError, ValueError, RuntimeError) as problem:
            lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
            raise atc_error("infer_shape", reason=lines[-1] if lines else type(problem).__name__) from problem
    for tensor in copy.graph.initializer:
        tensor.ClearField("raw_data")
    content = json_format.MessageToDict(copy, preserving_proto_field_name=True)
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def of_om(model: OmModel) -> str:
    """The JSON of an om."""
    return json.dumps(om_content(model), indent=2) + "\n"


def om_content(model: OmModel) -> dict[str, Any]:
    """What the JSON of an om holds. With gears it shows the largest one, and the values of all."""
    settings = [
        _attr("atc_cmdline", model.command),
        _attr("atc_version", model.cann),
        _attr("soc_version", model.soc),
        _attr("precision_mode", model.precision_mode),
    ]
    if model.variants:
        settings.append(_attr("_dynamic_type", str(model.gears["kind"])))
        settings.append(_attr("_gears", [",".join(map(str, variant.values)) for variant in model.variants]))
    for name, info in model.aipp.items():
        settings.append(_attr(f"aipp_{name}", json.dumps(info, sort_keys=True)))
    return {
        "name": model.name,
        "version": 1,
        "attr": settings,
        "graph": [
            {
                "name": model.name,
                "input": [_tensor(tensor) for tensor in model.inputs],
                "output": [_tensor(tensor) for tensor in model.outputs],
                "op": _originals(model) if model.original else [_op(task) for task in model.tasks],
            }
        ],
    }


def _originals(model: OmModel) -> list[dict[str, Any]]:
    """The nodes of a model that is not compiled."""
    return [
        {"name": node.name, "type": node.op_type, "input": list(node.input), "output": list(node.output)}
        for node in model.graph().graph.node
    ]


def _op(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "type": task.op_type,
        "engine": task.core_type,
        "input_desc": [_tensor(tensor) for tensor in task.inputs],
        "output_desc": [_tensor(tensor) for tensor in task.outputs],
        "attr": [_attr("_datadump_original_op_names", list(task.nodes))],
    }


def kernel(task: Task, number: int, settings: Mapping[str, list[str]]) -> tuple[str, str]:
    """File name and text of the description of a kernel: there is no machine code behind it.

    Args:
        number: its position in the task list. settings: what it was compiled with.
    """
    name = re.sub(r"[^\w.-]+", "_", task.name)[:100]
    cost = {key: value for key, value in task.to_json()["cost"].items() if value}
    described = _op(task)
    described["attr"] += [_attr(key, value) for key, value in settings.items()]
    return f"{number:04d}_{name}.json", json.dumps({**described, "cost": cost}, indent=2) + "\n"


def _attr(key: str, value: str | list[str]) -> dict[str, Any]:
    return {"key": key, "value": {"list": {"s": value}} if isinstance(value, list) else {"s": value}}


def _tensor(tensor: OmTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.type.ge,
        "layout": Format(tensor.format).name,
        "shape": {"dim": list(tensor.dims)},
    }
