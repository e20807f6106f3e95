"""What the conditions of the plugins' rules see of a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import ceil, prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from cannlab.atc.graph import Graph, Node
from cannlab.atc.plugins import pooling, resampling
from cannlab.om import dtypes
from cannlab.soc import Soc

LARGE_AREA, LARGE_STRIDE = 255, 63
"""Pooling windows above this area, and strides above this, take a path of their own. Source: onnx-rules 6."""
NEW_CUBE = "Ascend910_95"
"""The chips where they do not."""


class NotKnown(Exception):
    """A condition asks for a type, shape or value that is not known yet."""


class Facts(Mapping[str, Any]):
    """Names for the conditions: an attribute (its default if left out, else None), or a function of this class."""

    def __init__(self, graph: Graph, node: Node, soc: Soc) -> None:
        self.graph = graph
        self.node = node
        self.soc = soc

    def __getitem__(self, name: str) -> Any:
        if name in FUNCTIONS:
            return getattr(self, name)
        if name == "opset":
            return self.graph.opset
        if name in ("inputs", "outputs"):
            return len(getattr(self.node, name))
        if name == "attributes":
            return len(self.node.attributes) + len(self.node.branches)
        if name in BUILT_IN:
            return BUILT_IN[name]
        return self._attribute(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*FUNCTIONS, *self.node.attributes))

    def __len__(self) -> int:
        return len(FUNCTIONS) + len(self.node.attributes)

    def _attribute(self, name: str) -> Any:
        value = self.node.get(name)
        if value is None:
            value = defaults(self.node.op_type, self.graph.opset).get(name)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, list) and value and isinstance(value[0], bytes):
            return [item.decode("utf-8", "replace") for item in value]
        return value

    # -- before shapes are known ---------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """True if the node has an attribute."""
        return name in self.node.attributes

    def others(self, *names: str) -> bool:
        """True if the node has other attributes than these."""
        return bool(set(self.node.attributes) - set(names))

    def given(self, index: int) -> bool:
        """True if an input is there and has a name."""
        return len(self.node.inputs) > index and bool(self.node.inputs[index])

    def used(self, index: int) -> bool:
        """True if an output is read or is one of the graph's."""
        if len(self.node.outputs) <= index or not self.node.outputs[index]:
            return False
        name = self.node.outputs[index]
        return name in self.graph.outputs or bool(self.graph.readers(name))

    @staticmethod
    def odd(values: list[int] | None) -> bool:
        """True for an odd number of entries."""
        return values is not None and len(values) % 2 == 1

    def spatial_axes(self) -> int:
        """How many spatial axes the attributes of a convolution speak of."""
        lengths = [len(self[name] or ()) for name in ("kernel_shape", "strides", "dilations")]
        return max(*lengths, len(self["pads"] or ()) // 2)

    def large_window(self) -> bool:
        """True for a 2-D pooling window that takes the path of large windows."""
        kernel, strides = self["kernel_shape"], self["strides"] or ()
        if len(kernel) != 2 or self.soc.short == NEW_CUBE:
            return False
        return prod(kernel) > LARGE_AREA or any(step > LARGE_STRIDE for step in strides)

    def after_output_shape(self) -> bool:
        """True behind a ConvTranspose with output_shape, if none so far had auto_pad."""
        before = []
        for node in self.graph.nodes:
            if node is self.node:
                break
            if node.op_type == "ConvTranspose":
                before.append(node)
        shaped = [node for node in before if "output_shape" in node.attributes]
        return bool(shaped) and all("auto_pad" not in node.attributes for node in before if node not in shaped)

    # -- after ---------------------------------------------------------------------------------------------------

    def dtype_of(self, index: int) -> str:
        """Name of an input's element type ("float32")."""
        found = dtypes.by_onnx(self.graph.dtype(self._input(index)))
        if found is None:
            raise NotKnown
        return found.name

    def types(self) -> list[str]:
        """The different element types of the inputs."""
        return sorted({self.dtype_of(index) for index, name in enumerate(self.node.inputs) if name})

    def signed(self, index: int) -> bool:
        """True for a type with negative numbers."""
        return not self.dtype_of(index).startswith("uint")

    def dims(self, index: int) -> tuple[int, ...]:
        """Shape of an input."""
        shape = self.graph.shape(self._input(index))
        if shape is None:
            raise NotKnown
        return shape

    def rank(self, index: int) -> int:
        """How many dimensions an input has."""
        rank = self.graph.rank(self._input(index))
        if rank is None:
            raise NotKnown
        return rank

    def shapes(self) -> str:
        """The shapes of all inputs."""
        return " ".join(str(list(self.dims(index))) for index in range(len(self.node.inputs)))

    def differ_in_shape(self) -> bool:
        """True if inputs have different shapes."""
        return len({self.dims(index) for index in range(len(self.node.inputs))}) > 1

    def constant(self, index: int) -> NDArray[Any] | None:
        """The values of an input that is a constant; None if it is none."""
        return self.graph.constants.get(self.node.inputs[index]) if self.given(index) else None

    def last_axis(self, axis: int) -> bool:
        """True if nothing but axes of length 1 lies behind an axis."""
        rank = self.rank(0)
        if axis % rank == rank - 1:
            return True
        name = self._input(0)
        behind = (self.graph.shape(name) or self.graph.types[name][1] or ())[axis % rank + 1 :]
        lengths = [dim for dim in behind if dim is not None]
        if len(lengths) < len(behind) and all(dim == 1 for dim in lengths):
            raise NotKnown
        return all(dim == 1 for dim in lengths)

    def uneven_same(self) -> bool:
        """True if auto_pad=SAME needs an odd number of padding elements on some axis."""
        sizes, kernel = self.dims(0)[2:], self["kernel_shape"]
        strides, dilations = self["strides"] or [1] * len(kernel), self["dilations"] or [1] * len(kernel)
        return any(
            max(0, (ceil(size / step) - 1) * step + (window - 1) * dilation + 1 - size) % 2
            for size, window, step, dilation in zip(sizes, kernel, strides, dilations, strict=True)
        )

    def range_goes_wrong_way(self) -> bool:
        """True if limit and start of a Range disagree with the sign of delta."""
        values = [self.constant(index) for index in range(3)]
        if any(value is None for value in values):
            raise NotKnown
        start, limit, delta = (np.asarray(value).item() for value in values)
        return bool((limit - start) * delta < 0)

    def reshape_fits(self) -> bool:
        """True if the constant shape of a Reshape takes all elements of its input."""
        shape = self.constant(1)
        if shape is None:
            return True
        dims = self.dims(0)
        if any(size == 0 and index >= len(dims) for index, size in enumerate(shape)):
            return False
        sizes = [dims[index] if size == 0 else int(size) for index, size in enumerate(shape)]
        known = prod(size for size in sizes if size != -1)
        return prod(dims) % known == 0 if -1 in sizes and known else prod(dims) == known

    def window_in_padding(self) -> bool:
        """True if the last window of a pooling with ceil_mode begins in the padding behind the data."""
        return any(window.too_many for window in pooling.windows(self.node, self.dims(0)))

    def whole_scales(self) -> bool:
        """True if an Upsample is what half-pixel coordinates give too: nearest by whole factors, or no change."""
        scales = self.constant(1)
        if scales is None:
            raise NotKnown
        if bool((scales == 1).all()):
            return True
        return self["mode"] == "nearest" and bool((scales == np.round(scales)).all() and (scales >= 1).all())

    def nearest_as_deployed(self) -> bool:
        """True if the kernel of a nearest Resize chooses the elements that ONNX chooses."""
        plan = resampling.plan(self.graph, self.node)
        if plan is None:
            raise NotKnown
        return plan.same

    def _input(self, index: int) -> str:
        if not self.given(index):
            raise NotKnown
        return self.node.inputs[index]


FUNCTIONS = tuple(name for name in vars(Facts) if not name.startswith("_"))
BUILT_IN = {
    "len": len,
    "any": any,
    "all": all,
    "abs": abs,
    "max": max,
    "enumerate": enumerate,
    "True": True,
    "None": None,
}


@cache
def defaults(op_type: str, opset: int) -> dict[str, Any]:
    """The defaults of an operator's attributes in ONNX."""
    if not onnx.defs.has(op_type, opset, ""):
        return {}
    schema = onnx.defs.get_schema(op_type, opset, "")
    return {
        name: helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
