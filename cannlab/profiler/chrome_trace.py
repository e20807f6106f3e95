"""Record -> Chrome-trace JSON, as Perfetto (ui.perfetto.dev) and chrome://tracing open it.

Processes are the host and each device that did something; threads are host threads, streams, and the pipes of AI
cores. A model's operators lie inside its own bar. An arrow leads from the host call that queued a task to
the task. A counter shows the device memory in use. Times are microseconds, exact to the nanosecond.

Source of the names of processes and tracks: profiles 3 (the timeline that the real profiler writes).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cannlab.profiler.kernel_spans import PIPES, KernelSpan
from cannlab.trace import Record, TaskKind
from cannlab.trace.whole_file import write_whole

Event = dict[str, Any]

_HOST = 1
_DEVICE = 100
"""The process id of device 0; device n follows as 100 + n."""
_CORES = 10_000
"""The process id of the AI cores of device 0."""


def _us(ns: int) -> float:
    # The nearest double to a whole number of ns prints as that number with three decimals at most.
    return ns / 1000


def _named(what: str, process: int, thread: int, **arguments: Any) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": arguments}


def _process(process: int, name: str, label: str, order: int) -> Iterator[Event]:
    yield _named("process_name", process, 0, name=name)
    yield _named("process_labels", process, 0, labels=label)
    yield _named("process_sort_index", process, 0, sort_index=order)


def _thread(process: int, thread: int, name: str, order: int) -> Iterator[Event]:
    yield _named("thread_name", process, thread, name=name)
    yield _named("thread_sort_index", process, thread, sort_index=order)


def _bar(name: str, category: str, process: int, thread: int, start: int, end: int, arguments: Event) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": _us(start),
        "dur": _us(end - start),
        "args": arguments,
    }


def _place(record: Record, row: Mapping[str, int]) -> str:
    return f"{record.strings[row['file']]}:{row['line']}" if row["line"] else ""


def _host_events(record: Record) -> Iterator[Event]:
    rows = list(record.calls.rows())
    if not rows:
        return
    yield from _process(_HOST, "CANN", "CPU", 0)
    for thread in sorted({row["thread"] for row in rows}):
        yield from _thread(_HOST, thread, f"Thread {thread}", thread)
    for row in rows:
        arguments: Event = {"code": row["code"]}
        place = _place(record, row)
        if place:
            arguments["source"] = place
        name = f"AscendCL@{record.strings[row['name']]}"
        yield _bar(name, "acl", _HOST, row["thread"], row["start"], row["end"], arguments)


def _task_name(record: Record, row: Mapping[str, int]) -> str:
    return record.strings[row["name"]] or TaskKind(row["kind"]).name


def _device_events(record: Record) -> Iterator[Event]:
    rows = list(enumerate(record.tasks.rows()))
    for device in sorted({row["device"] for _, row in rows}):
        yield from _process(_DEVICE + device, "Ascend Hardware", f"NPU {device}", 10 + device)
        for stream in sorted({row["stream"] for _, row in rows if row["device"] == device}):
            yield from _thread(_DEVICE + device, stream, f"Stream {stream}", stream)
    # A bar that holds others comes before them: by start, then the longer one, then the record's order.
    for number, row in sorted(rows, key=lambda item: (item[1]["start"], -item[1]["end"], item[0])):
        arguments: Event = {"Task Id": number, "Task Type": record.strings[row["core_type"]]}
        for key, column in (("OP Type", "op_type"),):
            if record.strings[row[column]]:
                arguments[key] = record.strings[row[column]]
        if row["blocks"]:
            arguments["Block Dim"] = row["blocks"]
        if row["bytes"]:
            arguments["bytes"] = row["bytes"]
        place = _place(record, row)
        if place:
            arguments["source"] = place
        arguments["wait_us"] = _us(row["start"] - row["queued"])
        category = TaskKind(row["kind"]).name.lower()
        process = _DEVICE + row["device"]
        yield _bar(_task_name(record, row), category, process, row["stream"], row["start"], row["end"], arguments)


def _arrows(record: Record) -> Iterator[Event]:
    """From the host call that queued a task to the task: the call of the same line that was running then."""
    calls: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for row in record.calls.rows():
        calls[row["file"], row["line"]].append((row["start"], row["end"], row["thread"]))
    for found in calls.values():
        found.sort()
    for number, row in enumerate(record.tasks.rows()):
        if row["parent"] >= 0 or not row["line"]:
            continue
        candidates = calls.get((row["file"], row["line"]), [])
        at = bisect_right(candidates, (row["queued"], 1 << 62, 1 << 62)) - 1
        if at < 0 or candidates[at][1] < row["queued"]:
            continue
        common = {"name": "HostToDevice", "cat": "HostToDevice", "id": number}
        yield {**common, "ph": "s", "pid": _HOST, "tid": candidates[at][2], "ts": _us(candidates[at][0])}
        process = _DEVICE + row["device"]
        yield {**common, "ph": "f", "bp": "e", "pid": process, "tid": row["stream"], "ts": _us(row["start"])}


def _memory_events(record: Record) -> Iterator[Event]:
    used: dict[int, int] = defaultdict(int)
    for row in record.memory.rows():
        if row["device"] < 0:
            continue
        used[row["device"]] += row["bytes"]
        yield {
            "ph": "C",
            "name": "Device memory",
            "pid": _DEVICE + row["device"],
            "tid": 0,
            "ts": _us(row["time"]),
            "args": {"bytes": used[row["device"]]},
        }


def _kernel_events(record: Record, spans: Mapping[int, Sequence[KernelSpan]]) -> Iterator[Event]:
    tracks: set[tuple[int, int, int]] = set()
    bars = []
    for row in record.tasks.rows():
        for span in spans.get(row["kernel"], ()) if row["kernel"] >= 0 else ():
            pipe = PIPES.index(span.pipe)
            tracks.add((row["device"], span.core, pipe))
            thread = span.core * len(PIPES) + pipe
            arguments = {"kernel": _task_name(record, row), "line": span.line}
            start, end = row["start"] + span.start, row["start"] + span.end
            bars.append(_bar(span.name, "instruction", _CORES + row["device"], thread, start, end, arguments))
    for device in sorted({device for device, _, _ in tracks}):
        yield from _process(_CORES + device, "AI Cores", f"NPU {device}", 50 + device)
    for device, core, pipe in sorted(tracks):
        thread = core * len(PIPES) + pipe
        yield from _thread(_CORES + device, thread, f"Core {core} {PIPES[pipe]}", thread)
    yield from bars


def chrome_trace(record: Record, kernels: Mapping[int, Sequence[KernelSpan]] | None = None) -> dict[str, Any]:
    """The trace as JSON-ready data.

    Args:
        record: what the machine did.
        kernels: index of a kernel trace in ``record.kernels`` -> its spans (see ``kernel_spans``), for the
            tracks of the core pipes; without it these tracks are left out.

    Returns:
        ``{"traceEvents": [...], "displayTimeUnit": "ns", "otherData": {...}}``; equal records give equal data.
    """
    events = [
        *_host_events(record),
        *_device_events(record),
        *_memory_events(record),
        *_kernel_events(record, kernels or {}),
        *_arrows(record),
    ]
    about = {"soc": record.soc, "cann": f"{record.cann} (emulated)", "time": "simulated", "devices": record.devices}
    return {"traceEvents": events, "displayTimeUnit": "ns", "otherData": about}


def write_chrome_trace(record: Record, path: Path, kernels: Mapping[int, Sequence[KernelSpan]] | None = None) -> None:
    """Write :func:`chrome_trace` to a file, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    text = json.dumps(chrome_trace(record, kernels), separators=(",", ":"), ensure_ascii=False)
    write_whole(path, text.encode())
