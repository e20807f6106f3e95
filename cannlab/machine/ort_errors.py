"""What ONNX Runtime raises when a graph cannot be built or run; its exceptions have no base class of their own."""

from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

ORT_ERRORS: tuple[type[Exception], ...] = (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeException)
