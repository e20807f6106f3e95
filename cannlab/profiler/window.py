"""A part of a record: what happened between two times, on some of the devices."""

from __future__ import annotations

from collections.abc import Collection

from cannlab.trace import Record


def window(record: Record, start: int, end: int, devices: Collection[int]) -> Record:
    """The calls, the tasks of those devices and the memory changes with start <= time < end.

    The part shares the strings and the kernel traces of the whole; times stay as they are. A call or task that began
    before ``start`` is not in it, one that began before ``end`` is. Times in ns.
    """
    part = Record(record.soc, record.devices, record.cann)
    part.strings, part.kernels = record.strings, record.kernels
    for row in record.calls.rows():
        if start <= row["start"] < end:
            part.calls.append(*row.values())
    kept: dict[int, int] = {}
    for number, row in enumerate(record.tasks.rows()):
        if row["device"] in devices and start <= row["start"] < end:
            row["parent"] = kept.get(row["parent"], -1)
            kept[number] = part.tasks.append(*row.values())
    for row in record.memory.rows():
        if row["device"] in devices and start <= row["time"] < end:
            part.memory.append(*row.values())
    return part
