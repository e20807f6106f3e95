"""From an asc kernel to an operator of a model: atc accepts it in an ONNX graph, the machine runs it inside the om."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cannlab import soc as chips
from cannlab.ascendc.runtime.launcher import Detached, KernelError, detached
from cannlab.errors import CannlabError, diagnose
from cannlab.machine import TaskFault, custom_ops
from cannlab.machine.custom_ops import Attributes, CustomOp, Ran, TensorType
from cannlab.soc import Soc

Arrays = list[NDArray[Any]]
LaunchFunction = Callable[[Arrays, Arrays, Attributes], None]
Infer = Callable[[Sequence[TensorType], Attributes], Sequence[TensorType]]


def _like_first(inputs: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
    return inputs[:1]


def custom_operator(
    launch: LaunchFunction,
    *,
    domain: str,
    op_type: str,
    opsets: tuple[int, ...] = (),
    infer: Infer = _like_first,
    dtypes: tuple[str, ...] = ("float32",),
) -> CustomOp:
    """Register a kernel as an operator.

    Args:
        launch: ``launch(inputs, outputs, attributes)``: the host's part, as it stands in a program: it launches
            kernels, ``kernel[cores](*inputs, *outputs, ...)``, which write the arrays ``outputs`` (zeros before).
        domain: ONNX domain of the nodes; "" or "ai.onnx" is the default one.
        op_type: ONNX type of the nodes; letters count.
        opsets: versions of the domain that it is made for; () for every one.
        infer: ``infer(inputs, attributes)``: types and shapes of the outputs; those of the first input by default.
        dtypes: element types (names of numpy's) that the kernel takes. Where "float16" is among them atc lowers the
            operator to float16; else it puts Casts around it.

    Returns:
        The registered operator. atc asks for its time at the conversion: the simulated time of the launches on ones of
        the shapes at hand.

    Raises:
        CannlabError: at the conversion, rule ``kernel.operator_type`` for another element type, or the rule that the
            kernel breaks.
    """

    def started(soc: Soc, inputs: Arrays, attributes: Attributes) -> tuple[Arrays, Detached]:
        types = infer([TensorType(array.dtype, array.shape) for array in inputs], attributes)
        outputs = [np.zeros(each.dims, each.dtype) for each in types]
        with detached(soc) as launches:
            launch([np.array(array) for array in inputs], outputs, attributes)
        return outputs, launches

    def run(inputs: Arrays, attributes: Attributes) -> Ran:
        try:
            outputs, launches = started(chips.current(), inputs, attributes)
        except KernelError as problem:
            raise TaskFault(problem.diagnosis) from problem
        return Ran(outputs, tuple(result.trace for result in launches.results))

    def cost(soc: Soc, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Attributes) -> int:
        try:
            _, launches = started(soc, [np.ones(each.dims, each.dtype) for each in inputs], attributes)
        except KernelError as problem:
            raise CannlabError(problem.diagnosis) from problem
        return sum(result.timing.ns for result in launches.results)

    def checked(inputs: Sequence[TensorType], attributes: Attributes) -> Sequence[TensorType]:
        for each in inputs:
            allowed = (*dtypes, "float32") if "float16" in dtypes else dtypes
            if np.dtype(each.dtype).name not in allowed:
                facts: dict[str, Any] = {
                    "op_type": op_type,
                    "dtype": np.dtype(each.dtype).name,
                    "known": ", ".join(dtypes),
                }
                raise CannlabError(diagnose("kernel.operator_type", **facts))
        return infer(inputs, attributes)

    return custom_ops.register(
        CustomOp(
            domain=domain or "ai.onnx",
            op_type=op_type,
            run=run,
            opsets=opsets,
            infer=checked,
            cost=cost,
            float16="float16" in dtypes,
        )
    )
