"""Floor 1: the om file."""

from cannlab.om.container import read, to_bytes, write
from cannlab.om.dtypes import DataType, Format
from cannlab.om.errors import OmError
from cannlab.om.model import Cost, Fusion, OmModel, OmTensor, Task, Variant, branch_label

__all__ = [
    "Cost",
    "DataType",
    "Format",
    "Fusion",
    "OmError",
    "OmModel",
    "OmTensor",
    "Task",
    "Variant",
    "branch_label",
    "read",
    "to_bytes",
    "write",
]
