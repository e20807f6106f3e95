"""What a task of a stream took: the answer of its ``run``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cannlab.trace import KernelTrace


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of a model's execution. ``ns`` simulated time, ``bytes`` moved, ``blocks`` used cores."""

    name: str
    op_type: str
    core_type: str
    ns: int
    blocks: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """How long a task takes on its engine (ns), the operators of a model, the trace of a kernel."""

    ns: int
    operators: Sequence[Operator] = ()
    kernel: KernelTrace | None = None
