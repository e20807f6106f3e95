"""What ONNX Runtime raises when a graph cannot be built or run; its exceptions have no base class of their own."""

from onnxruntime.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

ORT_ERRORS: tuple[type[Exception], ...] = (Fail, InvalidArgument, InvalidGraph, NotImplemented, RuntimeException)


def first_line(problem: Exception) -> str:
    """What ONNX Runtime says went wrong, without its own places."""
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)
