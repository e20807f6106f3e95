"""Operators of a model whose shapes are known only when it ran: what they cost then.

The om holds each operator's cost at a reference shape; bytes follow from the real shapes exactly, a product's rows and
the vector work in proportion. Source: choice of cannlab.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from cannlab.om import Cost, OmModel, OmTensor, Task

Shapes = Mapping[str, tuple[int, ...]]


def at(om: OmModel, shapes: Shapes) -> tuple[Task, ...]:
    """The operators of a model at the shapes that its tensors had. A shape that is missing stays the reference."""
    return tuple(_task(task, shapes) for task in om.tasks)


def _task(task: Task, shapes: Shapes) -> Task:
    inputs = tuple(_tensor(tensor, shapes) for tensor in task.inputs)
    outputs = tuple(_tensor(tensor, shapes) for tensor in task.outputs)
    return replace(task, inputs=inputs, outputs=outputs, cost=_cost(task, inputs, outputs))


def _tensor(tensor: OmTensor, shapes: Shapes) -> OmTensor:
    dims = shapes.get(tensor.name)
    return tensor if dims is None else replace(tensor, dims=dims)


def _ratio(now: int, then: int) -> float:
    return now / then if then else 1.0


def _cost(task: Task, inputs: tuple[OmTensor, ...], outputs: tuple[OmTensor, ...]) -> Cost:
    cost = task.cost
    made = _ratio(prod(outputs[0].dims), prod(task.outputs[0].dims)) if outputs else 1.0
    largest = max((prod(tensor.dims) for tensor in (*inputs, *outputs)), default=0)
    largest_then = max((prod(tensor.dims) for tensor in (*task.inputs, *task.outputs)), default=0)
    cube = cost.cube
    if cube:
        batch, rows, depth, columns = cube
        if len(inputs) == 2 and inputs[0].dims and inputs[1].dims:
            # A product of two activations: its depth is a dimension of theirs.
            depth = -(-inputs[0].dims[-1] // 16) * 16
        cube = (batch, max(1, round(rows * made)), depth, columns)
    return replace(
        cost,
        bytes_in=sum(tensor.size for tensor in inputs),
        bytes_out=sum(tensor.size for tensor in outputs),
        cube=cube,
        vector_elements=round(cost.vector_elements * _ratio(largest, largest_then)),
    )
