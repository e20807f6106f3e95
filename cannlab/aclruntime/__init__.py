"""aclruntime: the extension module below the benchmark client in wide use, on the emulated devices."""

from cannlab.aclruntime.descriptions import BaseTensor, dtype, infer_options, session_options, sumary, tensor_desc
from cannlab.aclruntime.session import InferenceSession, model
from cannlab.aclruntime.tensor import Tensor

__all__ = [
    "BaseTensor",
    "InferenceSession",
    "Tensor",
    "dtype",
    "infer_options",
    "model",
    "session_options",
    "sumary",
    "tensor_desc",
]
