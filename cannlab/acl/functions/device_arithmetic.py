"""Small work on device memory that needs no operator: reductions by the copy engine, cache hints, copies on condition.

Source: acl_rt.h (aclrtReduceAsync, aclrtCmoAsync, aclrtMemcpyAsyncWithCondition).
"""

from __future__ import annotations

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take_stream
from cannlab.acl.functions.memory import memcpy_async, memory_fault
from cannlab.machine import Engine, Machine, Work
from cannlab.machine.api_costs import DEVICE_COPY_LATENCY, device_copy_ns
from cannlab.trace import TaskKind

SUM, MAX, MIN = 10, 11, 12
_TYPES = {0: "float32", 1: "float16", 2: "int8", 3: "int32", 6: "int16"}
PREFETCH = 0


@api("acl.rt.reduce_async")
def reduce_async(
    m: Machine, destination: int, source: int, count: int, kind: int, data_type: int, stream: int, reserve: int
) -> int:
    """reduce_async(dst, src, bytes, kind, data_type, stream, 0) -> ret: dst = dst op src; kind 10 sum, 11 max, 12 min.

    Types: float32, float16, int8, int16, int32. Integer sums wrap around.
    """
    import numpy as np

    target = take_stream(m, stream)
    if destination == 0 or source == 0 or count == 0:
        raise memory_fault(m, "memory.null_pointer", argument="destination, source or count")
    operation = {SUM: np.add, MAX: np.maximum, MIN: np.minimum}.get(kind)
    if operation is None:
        raise refuse(m, "runtime.invalid_parameter", argument="kind", value=kind, allowed="10, 11, 12")
    name = _TYPES.get(data_type)
    if name is None or count % np.dtype(name).itemsize:
        raise refuse(m, "runtime.invalid_parameter", argument="data_type", value=data_type, allowed="0, 1, 2, 3, 6")
    to = m.memory.resolve(destination, count, "device", write=True)
    by = m.memory.resolve(source, count, "device")

    def run() -> Work:
        changed = np.frombuffer(m.memory.view(destination, count, "device"), name)
        operation(changed, np.frombuffer(m.memory.view(source, count, "device", write=False), name), out=changed)
        return Work(device_copy_ns(count, m.soc))

    return target.submit(
        TaskKind.COPY_D2D,
        "ReduceAsync",
        run,
        engine=Engine.NONE,
        core_type="MEMCPY_ASYNC",
        bytes=count,
        keep=(to.owner, by.owner),
    )


@api("acl.rt.cmo_async")
def cmo_async(m: Machine, source: int, size: int, kind: int, stream: int) -> int:
    """cmo_async(src, bytes, 0, stream) -> ret: a hint to fetch memory into L2; costs a start, changes nothing."""
    target = take_stream(m, stream)
    if source == 0 or size == 0:
        raise memory_fault(m, "memory.null_pointer", argument="source or size")
    if kind != PREFETCH:
        raise refuse(m, "runtime.not_supported", what=f"the cache operation {kind} is not, only 0 (prefetch)")
    view = m.memory.resolve(source, size, "device")

    def run() -> Work:
        m.memory.resolve(source, size, "device")
        return Work(DEVICE_COPY_LATENCY)

    return target.submit(
        TaskKind.MEMSET, "CmoAsync", run, engine=Engine.NONE, core_type="CMO", keep=(view.owner,)
    )  # fmt: skip


@api("acl.rt.memcpy_async_with_condition")
def memcpy_async_with_condition(
    m: Machine, destination: int, limit: int, source: int, count: int, kind: int, stream: int
) -> int:
    """memcpy_async_with_condition(dst, dest_max, src, count, kind, stream) -> ret: as memcpy_async."""
    return memcpy_async(m, destination, limit, source, count, kind, stream)
