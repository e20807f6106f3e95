"""Weights that lie in files beside the model. They are mapped, not read: a model of some GB needs the memory of its om
only.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from cannlab.om import dtypes


class NotThere(Exception):
    """The data of a tensor cannot be had; the text says why."""


def _places(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def locate(tensor: onnx.TensorProto, folder: Path) -> None:
    """Check where an external tensor's data lies, and write the whole path into the tensor.

    Raises:
        NotThere: if the file is missing, outside of the folder, or too short.
    """
    places = _places(tensor)
    location = places.get("location", "")
    file = folder / location
    if not location or Path(location).is_absolute() or ".." in Path(location).parts:
        raise NotThere(f"{tensor.name} lies in {location!r}, which is not a path below the model's folder")
    if not file.is_file():
        raise NotThere(f"there is no file {location!r} beside the model, where {tensor.name} lies")
    try:
        offset, length = int(places.get("offset", 0)), int(places.get("length", _bytes(tensor)))
    except ValueError as problem:
        raise NotThere(f"the place of {tensor.name} in {location!r} is not a number") from problem
    if offset < 0 or length < 0 or offset + length > file.stat().st_size:
        raise NotThere(f"{location!r} ends before the data of {tensor.name}: it is cut off")
    del tensor.external_data[:]
    for key, value in (("location", str(file)), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def _bytes(tensor: onnx.TensorProto) -> int:
    dtype = dtypes.by_onnx(tensor.data_type)
    return int(prod(tensor.dims)) * (dtype.size if dtype is not None else 0)


def array(tensor: onnx.TensorProto) -> NDArray[Any]:
    """The values of a tensor that :func:`locate` was called for, mapped.

    Raises:
        ValueError: if their number is not that of the shape.
    """
    places = _places(tensor)
    dtype = dtypes.by_onnx(tensor.data_type)
    assert dtype is not None
    dims = tuple(tensor.dims)
    if int(places["length"]) != _bytes(tensor):
        raise ValueError(f"{places['length']} bytes do not fit the shape {list(dims)} of {dtype.name}")
    if prod(dims) == 0:
        return np.zeros(dims, dtype.numpy)
    return np.memmap(places["location"], dtype.numpy.newbyteorder("<"), "r", int(places["offset"]), dims)
