"""What a task of a stream did: how long it took, and what it consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cannlab.trace import KernelTrace


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a model that ran.

    Attributes:
        name: the operator's name in the model.
        op_type: its GE type ("Conv2D").
        core_type: "AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "AI_CPU".
        ns: how long it took, simulated.
        blocks: on how many cores it ran.
        bytes: global memory that it read and wrote.
        kernel: the instruction trace of the kernel of the learner's that it is; None for the chip's own operators.
    """

    name: str
    op_type: str
    core_type: str
    ns: int
    blocks: int
    bytes: int
    kernel: KernelTrace | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What ``run`` of a task gives back.

    Attributes:
        ns: how long the task takes, simulated.
        operators: the operators of a model, in order.
        kernel: the instruction trace of a kernel.
        told: is given the start (ns) once it is known, if somebody wants to know.
    """

    ns: int
    operators: tuple[Operator, ...] = ()
    kernel: KernelTrace | None = None
    told: Callable[[int], None] | None = None
