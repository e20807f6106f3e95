"""When each instruction of a kernel ran, by core and pipe."""

from __future__ import annotations

from dataclasses import dataclass

from cannlab.trace import KernelTrace

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIXP")
"""The pipes of an AI core, in the order in which they are drawn."""


@dataclass(frozen=True, slots=True)
class KernelSpan:
    """One instruction on its pipe.

    Attributes:
        core: the core that ran it.
        pipe: name of the pipe (one of ``PIPES``).
        name: the operation.
        start, end: ns since the launch began.
        line: line of the kernel's source (0 if unknown).
    """

    core: int
    pipe: str
    name: str
    start: int
    end: int
    line: int = 0


def kernel_spans(trace: KernelTrace) -> list[KernelSpan]:
    """The spans of a launch, from its instruction trace and the machine's time model.

    The trace is replayed on zeros: times depend on the instructions alone. Waiting (flags, barriers, other cores) is
    no work and gives no span.

    Raises:
        KernelFault: the launch stopped at a broken rule, so it has no times.
        ValueError: the trace was made with another table of operations.
    """
    import numpy as np

    from cannlab.machine.core import replay
    from cannlab.machine.core.opcodes import ROWS, Kind

    arguments = trace.meta["arguments"]
    inputs = [np.zeros(argument["shape"], dtype=argument["dtype"]) for argument in arguments]
    timing = replay(trace, inputs).timing
    spans = []
    for number, (op, block, pipe, _, _, line, _, _) in enumerate(trace):
        if op not in ROWS:
            raise ValueError(f"operation {op} is not in the table: run the program again with this version")
        row = ROWS[op]
        if row.kind in (Kind.FLAG, Kind.BARRIER, Kind.BLOCK, Kind.CROSS):
            continue
        start, end = (int(time) for time in timing.spans[number])
        where = "S" if row.kind in (Kind.QUEUE, Kind.SCALAR) else PIPES[pipe]
        spans.append(KernelSpan(timing.blocks[block][0], where, row.name, start, end, line))
    return spans
