"""What op_summary says of an operator's tensors: their shapes, types and formats. Source: profiles 4.

Weights are no tensors of an om's operators here, so they are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cannlab.om import Format, OmTensor

SINGLE_OPERATOR = "4294967295"
"""The model id of what ran outside a model."""
_C0, _C0_OF_BYTES = 16, 32
_KEEPS_PREFIX = ("DT_BF16",)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator of a model ran: the device, when it began (ns), its name."""

    device: int
    start: int
    name: str


@dataclass(frozen=True, slots=True)
class Described:
    """Cells of op_summary for one run of an operator: its model, and six of its tensors (none: not known)."""

    model: int
    tensors: tuple[str, ...] = ()


def tensor_cells(inputs: Sequence[OmTensor], outputs: Sequence[OmTensor]) -> tuple[str, ...]:
    """The six cells of shapes, types and formats, of the inputs and then of the outputs; none with an open shape."""
    if not all(tensor.fixed for tensor in (*inputs, *outputs)):
        return ()
    return (*_cells(inputs), *_cells(outputs))


def _cells(tensors: Sequence[OmTensor]) -> tuple[str, str, str]:
    return (
        _joined(",".join(map(str, _stored(tensor))) for tensor in tensors),
        _joined(_type(tensor.type.ge) for tensor in tensors),
        _joined(Format(tensor.format).name for tensor in tensors),
    )


def _joined(parts: Iterable[str]) -> str:
    return ";".join(parts)


def _type(name: str) -> str:
    return name if name in _KEEPS_PREFIX else name.removeprefix("DT_")


def _stored(tensor: OmTensor) -> tuple[int, ...]:
    if tensor.format != Format.NC1HWC0 or len(tensor.dims) != 4:
        return tensor.dims
    inner = _C0_OF_BYTES if tensor.type.size == 1 else _C0
    batch, channels, height, width = tensor.dims
    return batch, -(-channels // inner), height, width, inner
