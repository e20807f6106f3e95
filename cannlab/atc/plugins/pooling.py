"""The windows of a pooling with ceil_mode. Source: onnx-rules 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from cannlab.atc.graph import Node


@dataclass(frozen=True)
class Windows:
    """The windows along one axis.

    Attributes:
        count: how many begin before the padding behind the data.
        too_many: True if rounding up gives one more.
        end: padding behind the data with which rounding down gives ``count``.
    """

    count: int
    too_many: bool
    end: int


def windows(node: Node, dims: Sequence[int]) -> list[Windows]:
    """The windows along each spatial axis."""
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    pads = node.get("pads", [0] * (2 * rank))
    found: list[Windows] = []
    for axis, size in enumerate(dims[2:]):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        before, behind, step = pads[axis], pads[axis + rank], strides[axis]
        count = ceil((size + before + behind - reach) / step) + 1
        too_many = (count - 1) * step >= size + before
        count -= too_many
        found.append(Windows(count, too_many, max(0, (count - 1) * step + reach - size - before)))
    return found
