"""What a model or a run costs, in one table: where the time goes, and what it waits for.

The times of a model are those of the cost model for its operators; those of a run come from its record, and a kernel's
pipes from its instruction trace. All times are simulated.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cannlab.profiler.operator_table import OperatorTable
from cannlab.trace import Record, TaskKind

if TYPE_CHECKING:
    from cannlab.om import OmModel
    from cannlab.soc import Soc

_ADVICE = {
    "cube": "the matrix unit is the limit: a lower precision, or shapes that fill its 16 x 16 x 16 blocks, help.",
    "memory": "moving data is the limit: fusion, a smaller type, or tiles that stay on the chip help.",
    "vector": "the vector unit is the limit: fewer elementwise passes, or operators that fuse into others help.",
    "launch": "starting operators is the limit: fusion, a larger batch, or fewer and larger operators help.",
    "V": "the vector pipe is the limit: fewer or longer vector instructions help.",
    "M": "the matrix pipe is the limit: the cube is busy, which is what a matmul should reach.",
    "MTE1": "copies from L1 to L0 are the limit: larger base tiles reuse them more often.",
    "MTE2": "copies into the core are the limit: larger copies, reuse in L1 or the UB, and double buffering help.",
    "MTE3": "copies out of the core are the limit: larger copies and double buffering help.",
    "FIXP": "copies out of L0C are the limit: more work on each result before it leaves helps.",
    "S": "the scalar unit is the limit: fewer and larger instructions, no scalar loops over elements.",
    "operators": "`cannlab profile model.om` says what each operator of a model waits for.",
    "copies": "copies between host and device are the limit: larger ones, pinned memory, copies beside the work help.",
    "nothing": "no pipe is busy half of the time. Double buffering, or less synchronisation, helps.",
}
"""What to do about each limit."""
_BUSY = 0.5
"""A pipe that works this part of the time is taken as the limit."""


@dataclass(frozen=True, slots=True)
class KernelPipes:
    """One kernel launch: its time and that of its pipes (us), summed over the cores that ran it.

    Attributes:
        cores: how many cores ran blocks. busy: pipe -> us.
    """

    name: str
    duration_us: float
    blocks: int
    cores: int
    busy: dict[str, float]

    @property
    def ratios(self) -> dict[str, float]:
        """Pipe -> part of the time in which it worked, a mean over the cores."""
        whole = self.duration_us * max(self.cores, 1)
        return {pipe: time / whole if whole else 0.0 for pipe, time in self.busy.items()}

    @property
    def bound_by(self) -> str:
        """The pipe that is busy most of the time; "nothing" where none is busy for half of it."""
        found = max(self.ratios.items(), key=lambda item: item[1], default=("nothing", 0.0))
        return found[0] if found[1] >= _BUSY else "nothing"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        pipes = {
            pipe: {"time_us": round(self.busy[pipe], 3), "ratio": round(ratio, 4)}
            for pipe, ratio in self.ratios.items()
        }
        return {
            "name": self.name,
            "duration_us": round(self.duration_us, 3),
            "blocks": self.blocks,
            "cores": self.cores,
            "pipes": pipes,
            "bound_by": self.bound_by,
        }


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator: time in us; ``bound_by`` is "cube", "memory", "vector", "launch", or "" where nobody knows."""

    name: str
    op_type: str
    core_type: str
    duration_us: float
    blocks: int
    bytes: int
    bound_by: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """Where the time of a model or of a run goes.

    Attributes:
        soc: the chip.
        device_time_us: for a model one execution; for a run the device's work from its first task to its last, waiting
            left out (work on several engines at once counts once).
        throughput: for a model samples a second at its batch; for a run executions of models (of kernels, where there
            are none) a second of its simulated time; None where nothing ran.
        batch: samples of one execution; None for a run.
        operators: in order of execution. kernels: launches with an instruction trace.
        bounds: what is waited for -> us. elapsed_us: a run's simulated time, from its first call to its end; else None.
    """

    soc: str
    device_time_us: float
    throughput: float | None
    batch: int | None
    operators: tuple[OperatorCost, ...]
    kernels: tuple[KernelPipes, ...] = ()
    bounds: dict[str, float] = field(default_factory=dict)
    elapsed_us: float | None = None

    def sentence(self) -> str:
        """What bounds this, and what to do."""
        if not self.bounds:
            return "Nothing ran on a device."
        whole = sum(self.bounds.values())
        unit, time = max(self.bounds.items(), key=lambda item: item[1])
        share = 100 * time / whole if whole else 0.0
        said = f"{share:.0f} % of the time goes to {_NAMES.get(unit, f'work that waits for {unit}')}: {_ADVICE[unit]}"
        if self.elapsed_us:
            said += (
                f" The device works {100 * self.device_time_us / self.elapsed_us:.0f} % of the run's simulated time."
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """Plain data: what ``cannlab profile --json`` prints."""
        operators = [
            {
                "name": each.name,
                "op_type": each.op_type,
                "core_type": each.core_type,
                "duration_us": round(each.duration_us, 3),
                "blocks": each.blocks,
                "bytes": each.bytes,
                **({"bound_by": each.bound_by} if each.bound_by else {}),
            }
            for each in self.operators
        ]
        return {
            "soc": self.soc,
            "simulated": True,
            "device_time_us": round(self.device_time_us, 3),
            "throughput": None if self.throughput is None else round(self.throughput, 3),
            **({"batch": self.batch} if self.batch is not None else {}),
            **({"elapsed_us": round(self.elapsed_us, 3)} if self.elapsed_us is not None else {}),
            "operators": operators,
            **({"kernels": [each.to_json() for each in self.kernels]} if self.kernels else {}),
            "bounds_us": {
                unit: round(time, 3) for unit, time in sorted(self.bounds.items(), key=lambda item: -item[1])
            },
            "summary": self.sentence(),
        }

    def text(self, most: int = 20) -> str:
        """Tables for a person: the ``most`` expensive operators, the pipes of each kernel, and what bounds it all."""
        from rich import box
        from rich.console import Console
        from rich.table import Table

        stream = io.StringIO()
        console = Console(file=stream, width=10_000, color_system=None, legacy_windows=False, force_jupyter=False)
        head = f"{self.soc}, simulated: {self.device_time_us:,.1f} us on the device"
        if self.throughput is not None:
            unit = f"samples a second at batch {self.batch}" if self.batch is not None else "runs a second"
            head += f", {self.throughput:,.1f} {unit}"
        console.print(head)
        if self.operators:
            table = Table(box=box.SIMPLE_HEAD)
            for column in ("Operator", "Type", "Core", "Time(us)", "Share(%)", "Blocks", "Bytes", "Bound by"):
                table.add_column(column, justify="left" if column in _LEFT else "right", no_wrap=True)
            whole = sum(each.duration_us for each in self.operators) or 1.0
            first = sorted(self.operators, key=lambda each: -each.duration_us)[:most]
            for each in first:
                share = f"{100 * each.duration_us / whole:.1f}"
                numbers = (f"{each.duration_us:.3f}", share, str(each.blocks), f"{each.bytes:,}")
                table.add_row(each.name, each.op_type, each.core_type, *numbers, each.bound_by)
            console.print(table)
            if len(self.operators) > len(first):
                rest = len(self.operators) - len(first)
                console.print(f"({rest} more operators; --json shows all)")
        for kernel in self.kernels:
            console.print(
                f"{kernel.name}: {kernel.duration_us:,.3f} us, {kernel.blocks} blocks on {kernel.cores} cores"
            )
            pipes = Table(box=box.SIMPLE_HEAD)
            for column in ("Pipe", "Time(us), all cores", "Busy(%)"):
                pipes.add_column(column, justify="left" if column == "Pipe" else "right", no_wrap=True)
            for pipe, ratio in sorted(kernel.ratios.items(), key=lambda item: -item[1]):
                pipes.add_row(pipe, f"{kernel.busy[pipe]:,.3f}", f"{100 * ratio:.1f}")
            console.print(pipes)
        console.print(self.sentence())
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


_LEFT = ("Operator", "Type", "Core", "Bound by")
_NAMES = {
    "launch": "launches",
    "operators": "operators of models",
    "copies": "copies",
    "nothing": "kernels whose pipes wait for each other",
    "cube": "work that waits for the cube",
    "vector": "work that waits for the vector unit",
    "memory": "work that waits for memory",
    "M": "kernels that wait for the cube",
    "S": "kernels that wait for the scalar unit",
    "V": "kernels that wait for the vector pipe",
}


def of_model(model: OmModel, soc: Soc | None = None) -> Summary:
    """One execution of a compiled model, by the cost model; the largest gear where it has several."""
    from cannlab import soc as chips
    from cannlab.machine import cost

    chip = cost.chip(model, soc or chips.get(model.soc))
    bounds: dict[str, float] = defaultdict(float)
    operators = []
    for task, each in zip(model.tasks, cost.operators(model, chip), strict=True):
        bound = "" if task.core_type == "AI_CPU" else cost.bound_by(task, chip)
        operators.append(
            OperatorCost(each.name, each.op_type, each.core_type, each.ns / 1000, each.blocks, each.bytes, bound)
        )
        bounds[bound or "launch"] += each.ns / 1000
    time = cost.model_ns(model, chip) / 1000
    batch = model.inputs[0].dims[0] if model.inputs and model.inputs[0].dims else 1
    batch = batch if batch > 0 else 1
    return Summary(chip.name, time, batch * 1e6 / time, batch, tuple(operators), bounds=dict(bounds))


def of_record(record: Record, kernel: str = "") -> Summary:
    """A run, from its record; with ``kernel`` the launches of that name alone."""
    from cannlab.machine.core import timing

    tasks = [task for task in OperatorTable(record).tasks if not kernel or task.name == kernel]
    rows = list(record.tasks.rows())
    operators = tuple(
        OperatorCost(task.name, task.op_type, task.core_type, task.duration / 1000, task.blocks, task.bytes)
        for task in tasks
    )
    kernels = []
    bounds: dict[str, float] = defaultdict(float)
    for task in tasks:
        row = rows[task.task]
        if row["kernel"] < 0:
            bounds[_engine(row["kind"])] += task.duration / 1000
            continue
        trace = record.kernels[row["kernel"]]
        found = timing(trace)
        busy = {pipe: ns / 1000 for pipe, ns in found.busy.items()}
        kernels.append(KernelPipes(task.name, task.duration / 1000, trace.meta["blocks"], found.cores, busy))
        bounds[kernels[-1].bound_by] += task.duration / 1000
    runs = sum(row["kind"] == TaskKind.MODEL for row in rows) or sum(bool(task.blocks) for task in tasks)
    end = max((row["end"] for row in rows), default=0)
    return Summary(
        record.soc,
        _covered([(task.start, task.start + task.duration) for task in tasks]) / 1000,
        runs * 1e9 / end if runs and end else None,
        None,
        operators,
        tuple(kernels),
        dict(bounds),
        end / 1000,
    )


def _engine(kind: int) -> str:
    """What a task without an instruction trace waits for, as far as its kind tells."""
    return "operators" if kind in (TaskKind.MODEL, TaskKind.OPERATOR, TaskKind.KERNEL) else "copies"


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    """The time that spans cover together."""
    whole, until = 0, 0
    for start, end in sorted(spans):
        if end > until:
            whole += end - max(start, until)
            until = end
    return whole
