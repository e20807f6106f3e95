"""What a kernel's launch shows: read from the replayed record, never from what the answer's process says of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cannlab.course.spec.requirements import Fact, Requirement
from cannlab.machine.core.opcodes import ROWS
from cannlab.machine.core.pipes import Pipe
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.course.spec.attempt import CaseRun
    from cannlab.machine.core import Timing
    from cannlab.trace import KernelTrace

_NONE = "no kernel was replayed"
_LAUNCH = "Launch the kernel as the exercise says."


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The replayed launch and its simulated time."""

    trace: KernelTrace
    timing: Timing

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return int(self.trace.meta["blocks"])

    @property
    def sync(self) -> str:
        """Which synchronisation was assumed: "auto" or "strict"."""
        return str(self.trace.meta["sync"])

    def counts(self) -> Counter[str]:
        """How often each operation was issued, over all blocks."""
        return Counter(ROWS[entry.op].name for entry in self.trace)

    def overlap(self, first: str, second: str) -> float:
        """The share of pipe ``first``'s busy time in which pipe ``second`` of the same core was at work too."""
        one, other = int(Pipe[first]), int(Pipe[second])
        both = whole = 0
        spans: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        for entry, (start, end) in zip(self.trace, self.timing.spans.tolist(), strict=True):
            if entry.pipe in (one, other) and ROWS[entry.op].roles:
                spans.setdefault(entry.core, ([], []))[entry.pipe == other].append((start, end))
        for mine, others in spans.values():
            busy, there = _merged(mine), _merged(others)
            whole += sum(end - start for start, end in busy)
            both += _common(busy, there)
        return both / whole if whole else 0.0


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """Time in both lists of separate spans in order."""
    total = i = j = 0
    while i < len(one) and j < len(other):
        start, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        total += max(end - start, 0)
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total


def kernel_blocks(at_least: int, at_most: int | None = None) -> Requirement:
    """A kernel launch has so many blocks. Name: "kernel_blocks".

    The replayed one of a kernel exercise; where programs are judged by their record, the record's largest.
    """

    def ask(case: CaseRun) -> Fact:
        if case.kernel is not None:
            blocks = case.kernel.blocks
        else:
            rows = [] if case.record is None else case.record.tasks.rows()
            blocks = max((row["blocks"] for row in rows if row["kind"] == TaskKind.KERNEL), default=0)
        ok = at_least <= blocks and (at_most is None or blocks <= at_most)
        most = "" if at_most == at_least else f" to {at_most}"
        wanted = f"at least {at_least}" if at_most is None else f"{at_least}{most}"
        text = f"{blocks} block{'s' if blocks != 1 else ''} used" + ("" if ok else f" where {wanted} should be")
        return Fact("kernel_blocks", ok, text, f"Split the work over {wanted} blocks.")

    return ask


def instructions(operation: str, *, at_least: int = 0, at_most: int | None = None, do: str = "") -> Requirement:
    """The replayed launch issues an operation so often over all its blocks. Name: the operation's ("add").

    Args:
        operation: its name in pyasc: add, data_copy, set_value, pipe_barrier, queue_alloc, ...
        at_least, at_most: bounds of the number of instructions.
        do: what to do if it is not so.
    """
    if operation not in {row.name for row in ROWS.values()}:
        raise ValueError(f"there is no operation {operation!r}")

    def ask(case: CaseRun) -> Fact:
        if case.kernel is None:
            return Fact(operation, False, _NONE, _LAUNCH)
        count = case.kernel.counts()[operation]
        ok = at_least <= count and (at_most is None or count <= at_most)
        remedy = do or (f"Use {operation} less often." if count >= at_least else f"Use {operation}.")
        return Fact(operation, ok, f"{operation} issued {count} time{'s' if count != 1 else ''}", remedy)

    return ask


def overlapping(first: str, second: str, at_least: float, *, do: str = "") -> Requirement:
    """Pipe ``second`` works during this share of pipe ``first``'s busy time. Name: "FIRST_with_SECOND".

    Double buffering is ``overlapping("V", "MTE2", 0.5)``: the next tile is copied in while this one is computed.
    """
    for pipe in (first, second):
        Pipe[pipe]
    name = f"{first}_with_{second}"

    def ask(case: CaseRun) -> Fact:
        if case.kernel is None:
            return Fact(name, False, _NONE, _LAUNCH)
        share = case.kernel.overlap(first, second)
        ok = share >= at_least
        text = f"{second} works during {100 * share:.0f} % of the time of {first}"
        if not ok:
            text += f", where {100 * at_least:.0f} % should be"
        return Fact(name, ok, text, do or "Give each queue two buffers, so that one is filled while the other is used.")

    return ask
