"""ONNX's shape inference, without what it costs on long vectors.

Where it follows values (``data_prop``) it keeps an entry of about 140 bytes for every element of every tensor of rank
1, of any type: two million elements take 4 s, and a vector of a program's own size takes all memory. Values decide
shapes only where they are few, so they are followed only in models without long vectors.
"""

from __future__ import annotations

import onnx

LONGEST = 1 << 14
"""Elements of the longest vector whose values are followed."""


def infer_shapes(model: onnx.ModelProto, *, strict_mode: bool = False, check_type: bool = False) -> onnx.ModelProto:
    """The model with the types and shapes of its tensors.

    Raises:
        onnx.shape_inference.InferenceError, ValueError, RuntimeError: as ONNX does.
    """
    options = {"strict_mode": strict_mode, "check_type": check_type}
    inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(model, **options)
    graph = inferred.graph
    if any(map(_long, (*graph.input, *graph.value_info, *graph.output))):
        return inferred
    return onnx.shape_inference.infer_shapes(model, data_prop=True, **options)


def _long(info: onnx.ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > LONGEST
