"""Pictures of a run in text: what was under way when, one lane for each stream, pipe or thread.

They are drawn from the record with characters, so that a shell, a notebook and a report show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.course.spec.attempt import CaseRun

Picture = Callable[["CaseRun"], str]
"""Draws a case; "" if there is nothing to draw."""

_Bar = tuple[int, int, str]
"""Start, end (ns), mark."""

COLUMNS = 64
_MOST_LANES = 12
_MARKS = {
    TaskKind.COPY_H2D: (">", "copy to the device"),
    TaskKind.COPY_D2H: ("<", "copy to the host"),
    TaskKind.COPY_D2D: ("=", "copy on the device"),
    TaskKind.COPY_H2H: ("h", "copy on the host"),
    TaskKind.MODEL: ("M", "model"),
    TaskKind.KERNEL: ("K", "kernel"),
    TaskKind.EVENT_RECORD: ("e", "event recorded"),
    TaskKind.EVENT_WAIT: ("w", "waits for an event"),
    TaskKind.MEMSET: ("0", "memory set"),
}
_OTHER = ("+", "other work")
_HOST = ("-", "in a call")
_WAITING = ("s", "in a call of synchronize")


def draw(lanes: dict[str, list[_Bar]], legend: Iterable[tuple[str, str]]) -> str:
    """Lanes of bars, the scale, and what the marks mean. A short bar takes a column; later bars cover earlier ones."""
    shown = dict(list(lanes.items())[:_MOST_LANES])
    bars = [bar for lane in shown.values() for bar in lane]
    if not bars:
        return ""
    first, last = min(bar[0] for bar in bars), max(bar[1] for bar in bars)
    width = max(1, last - first)
    wide = max(len(name) for name in shown)
    lines = []
    for name, lane in shown.items():
        cells = ["."] * COLUMNS
        for start, end, mark in lane:
            left = min(COLUMNS - 1, (start - first) * COLUMNS // width)
            right = max(left + 1, -(-(end - first) * COLUMNS // width))
            cells[left:right] = mark * (right - left)
        lines.append(f"{name:<{wide}} {''.join(cells)}")
    if len(lanes) > len(shown):
        lines.append(f"and {len(lanes) - len(shown)} more")
    used = {mark for bar in bars for mark in bar[2]}
    meanings = dict(legend)
    lines.append(
        f"{'':<{wide}} {width / 1000:.1f} us; " + ", ".join(f"{m} {meanings[m]}" for m in meanings if m in used)
    )
    return "\n".join(lines)


def streams() -> Picture:
    """Host threads and streams: which copy, kernel, model or wait ran when, from the first task queued to the last."""

    def picture(case: CaseRun) -> str:
        if case.record is None:
            return ""
        tasks = [row for row in case.record.tasks.rows() if row["parent"] < 0]
        if not tasks:
            return ""
        first, last = min(row["queued"] for row in tasks), max(row["end"] for row in tasks)
        lanes: dict[str, list[_Bar]] = {}
        for row in case.record.calls.rows():
            if row["start"] < last and row["end"] > first:
                name = "host" if not row["thread"] else f"host thread {row['thread']}"
                mark = (_WAITING if "synchronize" in case.record.strings[row["name"]] else _HOST)[0]
                lanes.setdefault(name, []).append((max(first, row["start"]), min(last, row["end"]), mark))
        for row in sorted(tasks, key=lambda row: (row["device"], row["stream"])):
            name = "in calls" if row["stream"] < 0 else f"stream {row['stream']}"
            mark = _MARKS.get(TaskKind(row["kind"]), _OTHER)[0]
            lanes.setdefault(name, []).append((row["start"], row["end"], mark))
        return draw(lanes, [_HOST, _WAITING, *_MARKS.values(), _OTHER])

    return picture


def pipes() -> Picture:
    """The pipes of a replayed kernel's first block: copies and computing side by side, or in turns."""

    def picture(case: CaseRun) -> str:
        from cannlab.machine.core.opcodes import ROWS
        from cannlab.machine.core.pipes import Pipe

        if case.kernel is None:
            return ""
        lanes: dict[str, list[_Bar]] = {}
        for entry, (start, end) in zip(case.kernel.trace, case.kernel.timing.spans.tolist(), strict=True):
            if entry.core == 0 and ROWS[entry.op].roles:
                lanes.setdefault(Pipe(entry.pipe).name, []).append((start, end, "#"))
        return draw(dict(sorted(lanes.items())), [("#", "at work (block 0)")])

    return picture
