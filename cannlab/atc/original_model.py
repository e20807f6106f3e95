"""``--save_original_model=true``: the model as it came, in an om of its own that nothing runs."""

from __future__ import annotations

import onnx

from cannlab import __version__
from cannlab.errors import tables
from cannlab.om import Format, OmModel, OmTensor, dtypes


def make(model: onnx.ModelProto, soc: str, command: str) -> OmModel:
    """An om that holds an ONNX model.

    Raises:
        ValueError: the model is too large for one message (2 GB), or a type of its inputs has no counterpart.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    return OmModel(
        name=model.graph.name,
        soc=soc,
        cann=tables.cann_version(),
        cannlab=__version__,
        inputs=tuple(_tensor(info) for info in model.graph.input if info.name not in constants),
        outputs=tuple(_tensor(info) for info in model.graph.output),
        tasks=(),
        graph_bytes=model.SerializeToString(deterministic=True),
        weight_bytes=b"",
        work_size=0,
        command=command,
        original=True,
    )


def _tensor(info: onnx.ValueInfoProto) -> OmTensor:
    dtype = dtypes.by_onnx(info.type.tensor_type.elem_type)
    if dtype is None:
        raise ValueError(f"{info.name} has a type that no om has")
    dims = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in info.type.tensor_type.shape.dim)
    return OmTensor(info.name, dtype.acl, Format.NCHW if len(dims) == 4 else Format.ND, dims)
