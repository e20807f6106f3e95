"""The PROF_... directory that profiling leaves: its tree, its descriptions, its exported tables.

The tree and the names are msprof's (profiles 4). The raw data of the real collectors is a binary format that no public
source describes, so ``data`` holds the record of the emulated machine instead (``record.npz``, read by
``cannlab.trace.Record.load``), and what ``msprof --export=on`` makes of raw data stands in
``mindstudio_profiler_output`` at once.
"""

from __future__ import annotations

import json
import os
import secrets
import string
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cannlab import soc as socs
from cannlab.profiler import msprof_tables as tables
from cannlab.profiler.chrome_trace import chrome_trace
from cannlab.profiler.operands import Described, Place
from cannlab.profiler.operator_table import OperatorTable
from cannlab.trace import Record
from cannlab.trace.whole_file import write_whole

_LETTERS = 16
OUTPUT = "mindstudio_profiler_output"
"""The folder of exported tables."""
_README = """\
Written by the emulation of cannlab; times are simulated.
data/record.npz: the record of the machine (cannlab.trace.Record.load); the raw data of real collectors is not emulated.
mindstudio_profiler_output: what msprof --export=on makes of raw data.
"""


@dataclass(frozen=True)
class Wanted:
    """What to collect.

    Attributes:
        api: host calls. tasks: times of tasks. operators: names and types of operators, too.
        metrics: the group of AI Core metrics (aclprofAicoreMetrics), None for none.
        memory: device memory in use. marks: the program's own marks. steps: iterations.
        settings: everything that was asked for, in the words of whoever asked (for sample.json).
    """

    api: bool = True
    tasks: bool = True
    operators: bool = True
    metrics: int | None = None
    memory: bool = False
    marks: bool = True
    steps: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


class ProfDirectory:
    """One PROF_... directory.

    Args:
        parent: where it is made.
        number: counts the directories of a process.
        devices: the devices that are profiled.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self, parent: Path, number: int, record: Record, devices: Collection[int], wanted: Wanted) -> None:
        now = time.time_ns()
        seconds = time.strftime("%Y%m%d%H%M%S", time.localtime(now // 10**9))
        letters = "".join(secrets.choice(string.ascii_uppercase) for _ in range(_LETTERS))
        self._stamp = seconds
        self.path = parent / f"PROF_{number:06d}_{seconds}{now // 10**6 % 1000:03d}_{letters}"
        self.devices = sorted(devices)
        self.wanted = wanted
        self.path.mkdir(parents=True)
        chip = socs.get(record.soc)
        described = {
            "ai_core_num": chip.cube_cores or chip.ai_cores,
            "aiv_num": chip.vector_cores,
            "aic_frequency": chip.cube_mhz,
            "aiv_frequency": chip.vector_mhz,
        }
        about: dict[str, Any] = {"soc": record.soc, "cann": f"{record.cann} (emulated)", "pid": os.getpid()}
        self._begin("host", "", {**about, "DeviceInfo": [{"id": number, **described} for number in self.devices]})
        for device in self.devices:
            self._begin(f"device_{device}", f".{device}", {**about, "DeviceInfo": [{"id": device, **described}]})

    def _begin(self, folder: str, suffix: str, info: dict[str, Any]) -> None:
        place = self.path / folder
        (place / "data").mkdir(parents=True)
        _json(place / f"info.json{suffix}", info)
        _json(place / "sample.json", self.wanted.settings)

    def finish(
        self,
        part: Record,
        start: int,
        end: int,
        marks: Sequence[tables.TxEvent],
        steps: Sequence[tables.Step],
        described: Mapping[Place, Described],
    ) -> None:
        """Write what was collected between two times (ns). OSError if that cannot be written."""
        places = [("host", "")] + [(f"device_{device}", f".{device}") for device in self.devices]
        for folder, suffix in places:
            _json(self.path / folder / f"start_info{suffix}", {"collectionTimeBegin": start})
            _json(self.path / folder / f"end_info{suffix}", {"collectionTimeEnd": end})
        part.save(self.path / "host" / "data" / "record.npz")
        _write_tables(self.path, self._stamp, part, _tables(self.wanted, part, marks, steps, described))


def export(path: Path, record: Record) -> None:
    """Make the tables of a directory anew, from the record in it: without what only the run knew (marks, steps, the
    shapes of models' operators). OSError if they cannot be written."""
    stamp = path.name.split("_")[2][:14] if path.name.count("_") >= 2 else "0"
    _write_tables(path, stamp, record, _tables(Wanted(metrics=tables.PIPE_UTILIZATION), record, (), (), {}))


def _write_tables(path: Path, stamp: str, part: Record, found: Mapping[str, bytes]) -> None:
    output = path / OUTPUT
    output.mkdir()
    for name, data in found.items():
        write_whole(output / f"{name}_{stamp}.csv", data)
    trace = chrome_trace(part)["traceEvents"]
    write_whole(output / f"msprof_{stamp}.json", json.dumps(trace, separators=(",", ":")).encode())
    write_whole(output / "README.txt", _README.encode())


def _tables(
    wanted: Wanted,
    part: Record,
    marks: Sequence[tables.TxEvent],
    steps: Sequence[tables.Step],
    described: Mapping[Place, Described],
) -> dict[str, bytes]:
    found = {}
    whole = OperatorTable(part)
    if wanted.operators:
        found["op_summary"] = tables.op_summary(part, whole.tasks, wanted.metrics, described)
        found["op_statistic"] = tables.op_statistic(whole)
    if wanted.tasks:
        found["task_time"] = tables.task_time(part, whole.tasks)
    if wanted.api:
        found["api_statistic"] = tables.api_statistic(part)
    if wanted.memory:
        found["memory_record"] = tables.memory_record(part)
    if wanted.marks and marks:
        found["msprof_tx"] = tables.msprof_tx(marks)
    if wanted.steps and steps:
        found["step_trace"] = tables.step_trace(steps)
    return found


def _json(path: Path, content: dict[str, Any]) -> None:
    write_whole(path, json.dumps(content, indent=2, sort_keys=True).encode() + b"\n")
