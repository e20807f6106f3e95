"""``--mode=1``: a model or an om as JSON.

An ONNX model is its protobuf as JSON, an om the description of its operators. The bytes of weights are left out.
"""

from __future__ import annotations

import json
from typing import Any

import onnx
from google.protobuf import json_format

from cannlab.om import Format, OmModel, OmTensor


def of_onnx(model: onnx.ModelProto) -> str:
    """The JSON of an ONNX model."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        tensor.ClearField("raw_data")
    content = json_format.MessageToDict(copy, preserving_proto_field_name=True)
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def of_om(model: OmModel) -> str:
    """The JSON of an om."""
    content = {
        "name": model.name,
        "version": 1,
        "attr": [
            _attr("atc_cmdline", model.command),
            _attr("atc_version", model.cann),
            _attr("soc_version", model.soc),
            _attr("precision_mode", model.precision_mode),
        ],
        "graph": [
            {
                "name": model.name,
                "input": [_tensor(tensor) for tensor in model.inputs],
                "output": [_tensor(tensor) for tensor in model.outputs],
                "op": [
                    {
                        "name": task.name,
                        "type": task.op_type,
                        "engine": task.core_type,
                        "input_desc": [_tensor(tensor) for tensor in task.inputs],
                        "output_desc": [_tensor(tensor) for tensor in task.outputs],
                        "attr": [_attr("_datadump_original_op_names", list(task.nodes))],
                    }
                    for task in model.tasks
                ],
            }
        ],
    }
    return json.dumps(content, indent=2) + "\n"


def _attr(key: str, value: str | list[str]) -> dict[str, Any]:
    return {"key": key, "value": {"list": {"s": value}} if isinstance(value, list) else {"s": value}}


def _tensor(tensor: OmTensor) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "dtype": tensor.type.ge,
        "layout": Format(tensor.format).name,
        "shape": {"dim": list(tensor.dims)},
    }
