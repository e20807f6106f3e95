"""Data types and formats by number: what an om stores, what ONNX calls it, what numpy calls it.

Source: pyacl-and-atc 1.3 (aclDataType, aclFormat).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class Format(IntEnum):
    """aclFormat: how the elements of a tensor lie in memory."""

    NCHW = 0
    NHWC = 1
    ND = 2
    NC1HWC0 = 3
    FRACTAL_Z = 4
    HWCN = 16
    NDHWC = 27
    FRACTAL_NZ = 29
    NCDHW = 30
    NDC1HWC0 = 32
    FRACTAL_Z_3D = 33


@dataclass(frozen=True, slots=True)
class DataType:
    """One element type.

    Attributes:
        acl: aclDataType number.
        onnx: TensorProto.DataType number.
        name: the name in operator information ("float16"), which is numpy's name too.
        ge: GE's name ("DT_FLOAT16").
        option: what ``--output_type`` calls it ("FP16").
        size: bytes of one element.
    """

    acl: int
    onnx: int
    name: str
    ge: str
    option: str
    size: int

    @property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype; numpy's own types have no bfloat16, onnx brings one along."""
        import numpy as np

        if self.name == "bfloat16":
            from onnx import helper

            found: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(self.onnx)
            return found
        return np.dtype(self.name)


FLOAT = DataType(0, 1, "float32", "DT_FLOAT", "FP32", 4)
FLOAT16 = DataType(1, 10, "float16", "DT_FLOAT16", "FP16", 2)
BFLOAT16 = DataType(27, 16, "bfloat16", "DT_BF16", "BF16", 2)
INT32 = DataType(3, 6, "int32", "DT_INT32", "INT32", 4)
INT64 = DataType(9, 7, "int64", "DT_INT64", "INT64", 8)

ALL = (
    FLOAT,
    FLOAT16,
    DataType(2, 3, "int8", "DT_INT8", "INT8", 1),
    INT32,
    DataType(4, 2, "uint8", "DT_UINT8", "UINT8", 1),
    DataType(6, 5, "int16", "DT_INT16", "INT16", 2),
    DataType(7, 4, "uint16", "DT_UINT16", "UINT16", 2),
    DataType(8, 12, "uint32", "DT_UINT32", "UINT32", 4),
    INT64,
    DataType(10, 13, "uint64", "DT_UINT64", "UINT64", 8),
    DataType(11, 11, "float64", "DT_DOUBLE", "DOUBLE", 8),
    DataType(12, 9, "bool", "DT_BOOL", "BOOL", 1),
    BFLOAT16,
)

_BY_ACL = {dtype.acl: dtype for dtype in ALL}
_BY_ONNX = {dtype.onnx: dtype for dtype in ALL}
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_OPTION = {dtype.option: dtype for dtype in ALL}


def by_acl(number: int) -> DataType:
    """The type with that aclDataType number; KeyError if an om cannot hold it."""
    return _BY_ACL[number]


def by_onnx(number: int) -> DataType | None:
    """The type with that TensorProto.DataType number; None if an om cannot hold it."""
    return _BY_ONNX.get(number)


def by_numpy(dtype: np.dtype[Any]) -> DataType | None:
    """The type of a numpy array; None if an om cannot hold it."""
    return _BY_NAME.get(dtype.name)


def by_option(name: str) -> DataType | None:
    """The type that ``--output_type`` calls so ("FP16"); None if there is none."""
    return _BY_OPTION.get(name)
