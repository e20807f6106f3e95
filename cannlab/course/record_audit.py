"""Can this record be that of any run at all? The emulator runs in the answer's process, so it is not believed.

A record that no program could have made (a call that took less than calls of its kind take, a copy faster than its
link, memory that was allocated and never entered) is refused. One that some legal program makes is left to the
requirements.
"""

from __future__ import annotations

from collections import Counter

from cannlab.machine import api_costs
from cannlab.soc import soc as chips
from cannlab.trace import Record, TaskKind

_LINK = (TaskKind.COPY_H2D, TaskKind.COPY_D2H)
_COPIES = (*_LINK, TaskKind.COPY_D2D, TaskKind.COPY_H2H, TaskKind.COPY_P2P)
_MALLOC = frozenset(f"acl.rt.{name}" for name in ("malloc", "malloc_align32", "malloc_cached", "malloc_with_cfg"))


def doubt(record: Record) -> str:
    """What no run can give, in words; "" if there is nothing of the kind. ValueError or KeyError for broken tables."""
    return _calls(record) or _tasks(record) or _counts(record)


def _calls(record: Record) -> str:
    """Each call costs at least what calls of its name cost, what happens inside it comes on top."""
    open_calls: dict[int, list[list[int]]] = {}
    rows = sorted(record.calls.rows(), key=lambda row: (row["thread"], row["start"], -row["end"]))
    for row in rows:
        name = record.strings[row["name"]]
        start, end = row["start"], row["end"]
        if start < 0 or end - start < api_costs.call_ns(name):
            return f"a call of {name} that took {end - start} ns"
        above = open_calls.setdefault(row["thread"], [])
        while above and above[-1][0] <= start:
            above.pop()
        if above:
            # [end, time that is not spent inside other calls]
            above[-1][1] -= end - start
            if end > above[-1][0] or above[-1][1] < 0:
                return f"two calls of one thread at once ({name})"
        above.append([end, end - start - api_costs.call_ns(name)])
    return ""


def _least(kind: int, count: int, soc: chips.Soc) -> int:
    if kind in _LINK:
        return api_costs.transfer_ns(count, pinned=True)
    if kind == TaskKind.COPY_D2D:
        return api_costs.device_copy_ns(count, soc)
    if kind == TaskKind.COPY_H2H:
        return api_costs.host_copy_ns(count)
    return 0


def _tasks(record: Record) -> str:
    soc = chips.get(record.soc)
    for row in record.tasks.rows():
        name = record.strings[row["name"]]
        spent = row["end"] - row["start"]
        if row["bytes"] < 0 or not 0 <= row["queued"] <= row["start"] <= row["end"]:
            return f"a task {name} that ends before it begins"
        if spent < _least(TaskKind(row["kind"]), row["bytes"], soc):
            return f"{row['bytes']} bytes copied in {spent} ns"
        if row["kernel"] >= len(record.kernels):
            return f"a kernel {name} without instructions"
        if row["kernel"] >= 0 and record.kernels[row["kernel"]].meta["blocks"] != row["blocks"]:
            return f"a kernel {name} with two numbers of blocks"
    return ""


def _counts(record: Record) -> str:
    """What calls did is in the other tables too."""
    done = Counter(record.strings[row["name"]] for row in record.calls.rows() if not row["code"])
    copied = sum(row["kind"] in _COPIES for row in record.tasks.rows())
    if copied < done["acl.rt.memcpy"]:
        return f"{done['acl.rt.memcpy']} calls of acl.rt.memcpy and {copied} copies"
    sizes = [row["bytes"] for row in record.memory.rows()]
    made, freed = sum(size > 0 for size in sizes), sum(size < 0 for size in sizes)
    allocated = sum(done[name] for name in _MALLOC)
    if made < allocated:
        return f"{allocated} allocations and {made} entries of them"
    if freed < done["acl.rt.free"]:
        return f"{done['acl.rt.free']} calls of acl.rt.free and {freed} entries of them"
    return ""
