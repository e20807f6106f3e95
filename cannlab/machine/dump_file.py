"""The file of one dumped operator: its inputs and outputs with types and shapes.

Layout: the length of the description (8 bytes, little-endian), the description (a protobuf message, DumpData of
dump_data.proto), the bytes of all inputs, then of all outputs. Format NC1HWC0 is written as the chip stores it, with
the shape before as the original one. Source: runtime source, dump (dump_data.proto).
"""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cannlab.om import Format, OmTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

VERSION = "1.0"
_TYPES = {0: 1, 1: 2, 2: 3, 4: 4, 6: 5, 7: 6, 3: 7, 9: 8, 8: 9, 10: 10, 12: 11, 11: 12, 16: 16, 17: 17, 27: 27}
"""OutputDataType of dump_data.proto by aclDataType."""
STATISTICS = (
    "Input/Output",
    "Index",
    "Data Size",
    "Data Type",
    "Format",
    "Shape",
    "Max Value",
    "Min Value",
    "Avg Value",
) + ("Count", "Nan Count", "Negative Inf Count", "Positive Inf Count")
_C0, _C0_OF_BYTES = 16, 32


@dataclass(frozen=True)
class Tensor:
    """A tensor as it lies in memory: aclDataType, aclFormat, shape, the shape without the layout, its bytes."""

    dtype: int
    format: int
    shape: tuple[int, ...]
    original: tuple[int, ...]
    data: bytes


def stored(tensor: OmTensor, array: NDArray[Any]) -> Tensor:
    """How the chip stores an array that is given without a layout."""
    import numpy as np

    original = tuple(array.shape)
    if tensor.format == Format.NC1HWC0 and array.ndim == 4:
        inner = _C0_OF_BYTES if array.dtype.itemsize == 1 else _C0
        batch, channels, height, width = array.shape
        blocks = -(-channels // inner)
        padded = np.zeros((batch, blocks * inner, height, width), array.dtype)
        padded[:, :channels] = array
        array = padded.reshape(batch, blocks, inner, height, width).transpose(0, 1, 3, 4, 2)
    data = np.ascontiguousarray(array)
    return Tensor(tensor.dtype, tensor.format, tuple(array.shape), original, data.tobytes())


def encode(name: str, time_us: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bytes:
    """The whole file."""
    message = _text(1, VERSION) + _number(2, time_us)
    for tensor in outputs:
        message += _bytes(3, _described(tensor, original_shape=7, size=6))
    for tensor in inputs:
        message += _bytes(4, _described(tensor, original_shape=6, size=5))
    message += _text(6, name)
    data = b"".join(tensor.data for tensor in (*inputs, *outputs))
    return struct.pack("<Q", len(message)) + message + data


def _described(tensor: Tensor, original_shape: int, size: int) -> bytes:
    """OpInput or OpOutput; they differ in the numbers of two fields."""
    return (
        _number(1, _TYPES.get(tensor.dtype, 0))
        + _number(2, tensor.format)
        + _bytes(3, _shape(tensor.shape))
        + _number(size, len(tensor.data))
        + _bytes(original_shape, _shape(tensor.original))
    )


def _shape(dims: Sequence[int]) -> bytes:
    return _bytes(1, b"".join(map(_varint, dims))) if dims else b""


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def statistics(
    inputs: Iterable[tuple[OmTensor, NDArray[Any]]], outputs: Iterable[tuple[OmTensor, NDArray[Any]]]
) -> bytes:
    """What is written instead of the data where only statistics are wanted: a CSV table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(STATISTICS)
    for side, tensors in (("Input", inputs), ("Output", outputs)):
        for index, (tensor, array) in enumerate(tensors):
            writer.writerow(_statistic(side, index, tensor, array))
    return text.getvalue().encode()


def _statistic(side: str, index: int, tensor: OmTensor, array: NDArray[Any]) -> list[str]:
    import numpy as np

    values = array.astype(np.float64).reshape(-1)
    finite = values[np.isfinite(values)]
    numbers = [f"{f(finite):.6g}" if finite.size else "nan" for f in (np.max, np.min, np.mean)]
    counts = [values.size, int(np.isnan(values).sum()), int(np.isneginf(values).sum()), int(np.isposinf(values).sum())]
    shape = "x".join(map(str, array.shape))
    about = [side, str(index), str(array.nbytes), tensor.type.ge, Format(tensor.format).name, shape]
    return [*about, *numbers, *map(str, counts)]
