"""The tables of msprof, made from a record: names of the files and columns as the real exporter writes them.

Times are simulated; an absolute one is text with three decimals and a tab behind it, as in the real files. A cell that
the emulation has no value for says N/A. Source: profiles 4.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cannlab import soc as socs
from cannlab.profiler.operands import SINGLE_OPERATOR, Described, Place
from cannlab.profiler.operator_table import TYPE_COLUMNS, OperatorTable, TaskRow
from cannlab.trace import KernelTrace, Record

OP_SUMMARY = (
    "Device_id",
    "Model ID",
    "Task ID",
    "Stream ID",
    "Op Name",
    "OP Type",
    "OP State",
    "Task Type",
    "Task Start Time(us)",
    "Task Duration(us)",
    "Task Wait Time(us)",
    "Block Dim",
    "Mix Block Dim",
    "HF32 Eligible",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
    "Context ID",
)
API_STATISTIC = ("Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance")
TASK_TIME = (
    "Device_id",
    "kernel_name",
    "kernel_type",
    "stream_id",
    "task_id",
    "task_time(us)",
    "task_start(us)",
    "task_stop(us)",
)
MEMORY_RECORD = ("Component", "Timestamp(us)", "Total Allocated(KB)", "Total Reserved(KB)", "Device")
MSPROF_TX = (
    "pid",
    "tid",
    "category",
    "event_type",
    "payload_type",
    "payload_value",
    "Start_time(us)",
    "End_time(us)",
    "message_type",
    "message",
)
STEP_TRACE = (
    "Device_id",
    "Iteration ID",
    "FP Start(us)",
    "BP End(us)",
    "Iteration End(us)",
    "Iteration Time(us)",
    "FP to BP Time(us)",
    "Iteration Refresh(us)",
    "Data Aug Bound(us)",
    "Model ID",
)
NOTHING = "N/A"
PIPE_UTILIZATION = 1
"""The group of AI Core metrics (aclprofAicoreMetrics) whose columns are known and in part filled."""
_PIPES = (
    ("aicore_time(us)", "aic_total_cycles")
    + tuple(f"aic_{p}_{what}" for p in ("mac", "scalar", "mte1", "mte2", "fixpipe") for what in ("time(us)", "ratio"))
    + ("aic_icache_miss_rate", "aiv_time(us)", "aiv_total_cycles")
    + tuple(f"aiv_{pipe}_{what}" for pipe in ("vec", "scalar", "mte2", "mte3") for what in ("time(us)", "ratio"))
    + ("aiv_icache_miss_rate", "cube_utilization(%)")
)
_VECTOR = ("AI_VECTOR_CORE", "MIX_AIV", "AIV")


@dataclass(frozen=True, slots=True)
class TxEvent:
    """A mark or a range that a program set itself. Times in ns; ``kind`` is what the table calls the event type."""

    process: int
    thread: int
    kind: str
    start: int
    end: int
    message: str


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration that a program marked on a stream. Times in ns; 0 for a mark that was not set."""

    device: int
    number: int
    start: int
    end: int


def _us(ns: float) -> str:
    return f"{ns / 1000:.3f}"


def _at(ns: int) -> str:
    """An absolute time: the tab keeps spreadsheets from rounding it."""
    return f"{_us(ns)}\t"


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A table as the bytes of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


def op_summary(
    record: Record, tasks: Sequence[TaskRow], metrics: int | None, described: Mapping[Place, Described]
) -> bytes:
    """op_summary: one row for each task of the AI cores and AI CPUs, in order of start.

    Args:
        metrics: the group of AI Core metrics (aclprofAicoreMetrics) whose columns follow; None for none.
        described: what is known of operators of models.
    """
    measures = () if metrics is None else _PIPES if metrics == PIPE_UTILIZATION else _PIPES[:1]
    chip = socs.get(record.soc)
    kernels = [row["kernel"] for row in record.tasks.rows()] if measures else []
    rows = []
    for task in sorted(tasks, key=lambda task: (task.start, task.task)):
        if not task.blocks:
            continue
        about = described.get(Place(task.device, task.start, task.name))
        model = SINGLE_OPERATOR if about is None else str(about.model)
        row = [str(task.device), model, str(task.task), str(task.stream), task.name, task.op_type, "static"]
        row += [task.core_type, _at(task.start), _us(task.duration), _us(task.wait), str(task.blocks), "0", "NO"]
        row += about.tensors if about is not None else ()
        row += [NOTHING] * (len(OP_SUMMARY) - len(row))
        side, mhz = ("aiv", chip.vector_mhz) if task.core_type in _VECTOR else ("aic", chip.cube_mhz)
        measured = {
            "aicore_time(us)" if side == "aic" else "aiv_time(us)": _us(task.duration),
            f"{side}_total_cycles": str(task.duration * mhz // 1000),
        }
        if len(measures) > 1 and kernels[task.task] >= 0:
            measured |= _pipe_times(record.kernels[kernels[task.task]], side)
        row += [measured.get(name, NOTHING) for name in measures]
        rows.append(row)
    return csv_bytes((*OP_SUMMARY, *measures), rows)


_COLUMNS = {
    "V": "vec",
    "M": "mac",
    "S": "scalar",
    "MTE1": "mte1",
    "MTE2": "mte2",
    "MTE3": "mte3",
    "FIXP": "fixpipe",
}
"""Pipe of a core -> what the table calls it."""


def _pipe_times(trace: KernelTrace, side: str) -> dict[str, str]:
    """How long each pipe of a core worked, a mean over the cores that ran the launch, and its part of the core's time.

    Empty for a mixed launch: its cores are of two kinds, and the record does not keep their pipes apart.
    """
    from cannlab.machine.core import timing

    if trace.meta.get("cores", "").startswith("MIX"):
        return {}
    found = timing(trace)
    core = sum(end - start for _, start, end in found.blocks) / max(found.cores, 1)
    cells = {}
    for pipe, ns in found.busy.items():
        time = ns / max(found.cores, 1)
        cells[f"{side}_{_COLUMNS[pipe]}_time(us)"] = _us(time)
        cells[f"{side}_{_COLUMNS[pipe]}_ratio"] = f"{time / core if core else 0:.3f}"
    if side == "aiv":
        return {"aiv_time(us)": _us(core), **cells}
    mac = found.busy.get("M", 0) / max(found.cores, 1)
    return {"aicore_time(us)": _us(core), "cube_utilization(%)": f"{100 * mac / core if core else 0:.3f}", **cells}


def op_statistic(table: OperatorTable) -> bytes:
    """op_statistic: the time of each operator type."""
    return csv_bytes(TYPE_COLUMNS, table.type_cells())


def task_time(record: Record, tasks: Sequence[TaskRow]) -> bytes:
    """task_time: every task of every stream."""
    rows = [
        (str(task.device), task.name, task.core_type or NOTHING, str(task.stream), str(task.task))
        + (_us(task.duration), _at(task.start), _at(task.start + task.duration))
        for task in sorted(tasks, key=lambda task: (task.start, task.task))
    ]
    return csv_bytes(TASK_TIME, rows)


def api_statistic(record: Record) -> bytes:
    """api_statistic: the host calls by name, the most expensive first."""
    times: dict[str, list[int]] = defaultdict(list)
    for row in record.calls.rows():
        times[record.strings[row["name"]]].append(row["end"] - row["start"])
    rows = []
    for name, spans in sorted(times.items(), key=lambda item: (-sum(item[1]), item[0])):
        mean = sum(spans) / len(spans)
        variance = sum((span - mean) ** 2 for span in spans) / len(spans) / 1e6
        rows.append(
            ("host", "acl", name, _us(sum(spans)), str(len(spans)), _us(mean), _us(min(spans)), _us(max(spans)))
            + (f"{variance:.3f}",)
        )
    return csv_bytes(API_STATISTIC, rows)


def memory_record(record: Record) -> bytes:
    """memory_record: device memory in use after every change, counted from the beginning of the part."""
    used: dict[int, int] = defaultdict(int)
    rows = []
    for row in record.memory.rows():
        used[row["device"]] += row["bytes"]
        size = f"{used[row['device']] / 1024:.3f}"
        rows.append(("APP", _at(row["time"]), size, size, f"NPU:{row['device']}"))
    return csv_bytes(MEMORY_RECORD, rows)


def msprof_tx(events: Iterable[TxEvent]) -> bytes:
    """msprof_tx: the program's own marks and ranges."""
    return csv_bytes(MSPROF_TX, _tx_rows(events))


def _tx_rows(events: Iterable[TxEvent]) -> Iterator[tuple[str, ...]]:
    for event in events:
        times = (_at(event.start), _at(event.end))
        head = (str(event.process), str(event.thread), "0", event.kind, "0", "0")
        yield (*head, *times, "0", event.message)


def step_trace(steps: Iterable[Step]) -> bytes:
    """step_trace: the iterations that the program marked."""
    rows = []
    for step in steps:
        whole = step.start and step.end
        rows.append(
            (str(step.device), str(step.number), NOTHING, NOTHING, _at(step.end) if step.end else NOTHING)
            + (_us(step.end - step.start) if whole else NOTHING,)
            + (NOTHING,) * (len(STEP_TRACE) - 6)
        )
    return csv_bytes(STEP_TRACE, rows)
