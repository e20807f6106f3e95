"""The operator table: where the time on the devices went, by operator type and task by task.

Source of the columns: profiles 4 (op_statistic and op_summary of msprof).
"""

from __future__ import annotations

import csv
import html
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cannlab.trace import Record, TaskKind
from cannlab.trace.whole_file import write_whole

_NO_WORK = (TaskKind.EVENT_RECORD, TaskKind.EVENT_WAIT, TaskKind.EVENT_RESET, TaskKind.CALLBACK)
"""Kinds that take no engine of the device: they are not in the table."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """All tasks of one operator type on one device. Times in ns."""

    device: int
    op_type: str
    core_type: str
    count: int
    total: int
    shortest: int
    longest: int
    share: float
    """Part of the device's listed time, percent."""

    @property
    def average(self) -> float:
        """Mean duration, ns."""
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task. Times in ns; ``wait`` is the time between queueing and start."""

    device: int
    task: int
    stream: int
    name: str
    op_type: str
    core_type: str
    start: int
    duration: int
    wait: int
    blocks: int
    bytes: int


TYPE_COLUMNS = (
    "Device_id",
    "OP Type",
    "Core Type",
    "Count",
    "Total Time(us)",
    "Min Time(us)",
    "Avg Time(us)",
    "Max Time(us)",
    "Ratio(%)",
)
TASK_COLUMNS = (
    "Device_id",
    "Task ID",
    "Stream ID",
    "Op Name",
    "OP Type",
    "Task Type",
    "Task Start Time(us)",
    "Task Duration(us)",
    "Task Wait Time(us)",
    "Block Dim",
    "Bytes",
)


def _us(ns: float) -> str:
    return f"{ns / 1000:.3f}"


class OperatorTable:
    """The work of a record's devices. A model counts by its operators; if it has none, as one task.

    Attributes:
        tasks: one row for each task, in the record's order.
        types: one row for each operator type and core type of a device, the most expensive first.
    """

    def __init__(self, record: Record) -> None:
        rows = list(record.tasks.rows())
        parents = {row["parent"] for row in rows}
        self.tasks: tuple[TaskRow, ...] = tuple(
            TaskRow(
                device=row["device"],
                task=number,
                stream=row["stream"],
                name=record.strings[row["name"]],
                op_type=record.strings[row["op_type"]] or TaskKind(row["kind"]).name,
                core_type=record.strings[row["core_type"]],
                start=row["start"],
                duration=row["end"] - row["start"],
                wait=row["start"] - row["queued"],
                blocks=row["blocks"],
                bytes=row["bytes"],
            )
            for number, row in enumerate(rows)
            if number not in parents and row["kind"] not in _NO_WORK
        )
        self.types: tuple[TypeRow, ...] = tuple(_by_type(self.tasks))

    # -- as rows -------------------------------------------------------------------------------------

    def type_cells(self) -> list[tuple[str, ...]]:
        """The rows of ``types`` as text under ``TYPE_COLUMNS``."""
        return [
            (
                str(row.device),
                row.op_type,
                row.core_type,
                str(row.count),
                _us(row.total),
                _us(row.shortest),
                _us(row.average),
                _us(row.longest),
                f"{row.share:.3f}",
            )
            for row in self.types
        ]

    def task_cells(self) -> list[tuple[str, ...]]:
        """The rows of ``tasks`` as text under ``TASK_COLUMNS``."""
        return [
            (
                str(row.device),
                str(row.task),
                str(row.stream),
                row.name,
                row.op_type,
                row.core_type,
                _us(row.start),
                _us(row.duration),
                _us(row.wait),
                str(row.blocks),
                str(row.bytes),
            )
            for row in self.tasks
        ]

    # -- as files, text and HTML ---------------------------------------------------------------------

    def write_csv(self, path: Path, *, tasks: bool = False) -> None:
        """Write the types (or, with ``tasks``, the single tasks) as CSV, whole or not at all."""
        columns, cells = (TASK_COLUMNS, self.task_cells()) if tasks else (TYPE_COLUMNS, self.type_cells())
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(cells)
        write_whole(path, text.getvalue().encode())

    def text(self, *, tasks: bool = False, width: int | None = None) -> str:
        """The table as text without colours, as wide as its cells, or folded into ``width`` characters."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        columns, cells = (TASK_COLUMNS, self.task_cells()) if tasks else (TYPE_COLUMNS, self.type_cells())
        table = Table(box=box.SIMPLE_HEAD)
        for column in columns:
            side = "left" if column in _TEXT_COLUMNS else "right"
            table.add_column(Text(column), justify=side, overflow="fold", no_wrap=width is None)  # type: ignore[arg-type]
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        stream = io.StringIO()
        console = Console(
            file=stream, width=width or 10_000, color_system=None, legacy_windows=False, force_jupyter=False
        )
        console.print(table)
        return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """The types as a table for a notebook."""
        return html_table(TYPE_COLUMNS, self.type_cells())


_TEXT_COLUMNS = ("OP Type", "Core Type", "Op Name", "Task Type")


def _by_type(tasks: Iterable[TaskRow]) -> Sequence[TypeRow]:
    groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
    whole: dict[int, int] = defaultdict(int)
    for task in tasks:
        groups[task.device, task.op_type, task.core_type].append(task.duration)
        whole[task.device] += task.duration
    rows = [
        TypeRow(
            device=device,
            op_type=op_type,
            core_type=core_type,
            count=len(times),
            total=sum(times),
            shortest=min(times),
            longest=max(times),
            share=100 * sum(times) / whole[device] if whole[device] else 0.0,
        )
        for (device, op_type, core_type), times in groups.items()
    ]
    return sorted(rows, key=lambda row: (row.device, -row.total, row.op_type, row.core_type))


def html_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Rows of text as an HTML table; numbers are set flush right."""

    def cell(tag: str, text: str, column: str) -> str:
        side = "left" if column in _TEXT_COLUMNS else "right"
        return f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>'

    head = "".join(cell("th", column, column) for column in columns)
    body = "".join(
        "<tr>" + "".join(cell("td", text, column) for text, column in zip(row, columns, strict=True)) + "</tr>"
        for row in cells
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
