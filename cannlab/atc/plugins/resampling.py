"""Which elements a Resize reads: as ONNX says, and as the chip's kernels do. Source: onnx-rules 6 and its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab.atc.graph import Graph, Node


@dataclass(frozen=True)
class Plan:
    """A nearest Resize with shapes and factors that are known.

    Attributes:
        sizes: of the output as deployed.
        indices: for each axis, the element of the input that each element of the output takes, as deployed.
        same: True if ONNX takes the same ones.
    """

    sizes: tuple[int, ...]
    indices: tuple[NDArray[Any], ...]
    same: bool


def plan(graph: Graph, node: Node) -> Plan | None:
    """The plan of a nearest Resize; None while its factors are not constant."""
    dims = graph.shape(node.inputs[0])
    factors = _factors(graph, node)
    if dims is None or factors is None:
        return None
    scales, sizes = factors
    mode = _text(node, "coordinate_transformation_mode", "asymmetric" if graph.opset < 11 else "half_pixel")
    rounding = _text(node, "nearest_mode", "floor" if graph.opset < 11 else "round_prefer_floor")
    if sizes is None:
        assert scales is not None
        targets = tuple(int(np.float32(dim) * scale) for dim, scale in zip(dims, scales, strict=True))
    else:
        targets = tuple(int(size) for size in sizes)
        scales = np.array([target / dim for target, dim in zip(targets, dims, strict=True)], np.float32)
    assert scales is not None
    # The plugin's own default is half_pixel, at opset 10 too. Only H and W are resized.
    kernel = _text(node, "coordinate_transformation_mode", "half_pixel")
    wanted = [
        _onnx(dim, target, float(scale), mode, rounding)
        for dim, target, scale in zip(dims, targets, scales, strict=True)
    ]
    deployed = [
        np.arange(dim) if axis < 2 else _kernel(dim, target, kernel)
        for axis, (dim, target) in enumerate(zip(dims, targets, strict=True))
    ]
    same = all(np.array_equal(ours, theirs) for ours, theirs in zip(wanted, deployed, strict=True))
    return Plan(tuple(len(index) for index in deployed), tuple(deployed), same)


def _factors(graph: Graph, node: Node) -> tuple[NDArray[Any] | None, NDArray[Any] | None] | None:
    """Scales and sizes, one of them; sizes win. None while they are not constant."""
    first = 1 if graph.opset < 11 else 2
    names = node.inputs[first : first + 2]
    found: list[NDArray[Any] | None] = []
    for name in names:
        array = graph.constants.get(name)
        if name and array is None:
            return None
        found.append(array if array is not None and array.size else None)
    found += [None] * (2 - len(found))
    return None if found[0] is None and found[1] is None else (found[0], found[1])


def _text(node: Node, name: str, default: str) -> str:
    value = node.get(name)
    return default if value is None else str(value.decode())


def _kernel(size: int, target: int, mode: str) -> NDArray[Any]:
    """The elements that ResizeNearestNeighborV2 takes."""
    at = np.arange(target)
    if mode == "align_corners":
        step = (size - 1) / (target - 1) if target > 1 else 0.0
        index = np.floor(at * step + 0.5)
    elif mode in ("half_pixel", "pytorch_half_pixel"):
        index = np.floor((at + 0.5) * (size / target))
    else:
        index = np.floor(at * (size / target))
    chosen: NDArray[Any] = np.clip(index, 0, size - 1).astype(np.int64)
    return chosen


def _onnx(size: int, target: int, scale: float, mode: str, rounding: str) -> NDArray[Any]:
    """The elements that ONNX takes."""
    at: NDArray[Any] = np.arange(target)
    place: NDArray[Any]
    if mode == "align_corners":
        place = at * (size - 1) / (target - 1) if target > 1 else np.zeros(target)
    elif mode == "half_pixel" or (mode == "pytorch_half_pixel" and target > 1):
        place = (at + 0.5) / scale - 0.5
    elif mode == "pytorch_half_pixel":
        place = np.zeros(target)
    elif mode == "half_pixel_symmetric":
        place = size / 2 * (1 - target / (scale * size)) + (at + 0.5) / scale - 0.5
    elif mode == "tf_half_pixel_for_nn":
        place = (at + 0.5) / scale
    else:
        place = at / scale
    if rounding == "floor":
        index = np.floor(place)
    elif rounding == "ceil":
        index = np.ceil(place)
    elif rounding == "round_prefer_ceil":
        index = np.floor(place + 0.5)
    else:
        index = np.ceil(place - 0.5)
    chosen: NDArray[Any] = np.clip(index, 0, size - 1).astype(np.int64)
    return chosen


def half_pixel_weights(size: int, target: int, scale: float) -> NDArray[Any]:
    """The matrix (target, size) that resizes an axis linearly with half-pixel centres."""
    place = np.clip((np.arange(target) + 0.5) / scale - 0.5, 0, size - 1)
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    weights = np.zeros((target, size), np.float32)
    part = (place - low).astype(np.float32)
    np.add.at(weights, (np.arange(target), low), 1 - part)
    np.add.at(weights, (np.arange(target), high), part)
    return weights


def half_pixel_nearest(size: int, target: int, scale: float) -> NDArray[Any]:
    """The elements that a nearest Resize with GE's defaults takes."""
    return _onnx(size, target, scale, "half_pixel", "round_prefer_floor")
