"""Streams that write a number into memory, and that wait for one. Source: runtime documentation, memory of streams.

A wait that nothing ever answers is an error here (``runtime.value_never_written``); hardware waits for ever.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take_stream
from cannlab.acl.functions.memory import memory_fault
from cannlab.errors import diagnose
from cannlab.machine import Engine, Machine, TaskFault, Work
from cannlab.machine.tasks import NOTHING, Task
from cannlab.trace import TaskKind

_NUMBER = struct.Struct("<Q")
_MASK = (1 << 64) - 1
_KEY = "acl.rt.memory_values"
_TESTS: tuple[Callable[[int, int], bool], ...] = (
    lambda found, value: (found - value) & _MASK < 1 << 63,
    lambda found, value: found == value,
    lambda found, value: found & value != 0,
    lambda found, value: ~(found | value) & _MASK != 0,
)
"""By flag: at least (as signed 64 bits), equal, and, nor."""


@dataclass
class Pending:
    """The queued writes and waits of one address, in the order of queueing."""

    writes: list[tuple[Task, int]] = field(default_factory=list)
    waits: list[tuple[Task, Callable[[int], bool]]] = field(default_factory=list)


def _pending(m: Machine, address: int) -> Pending:
    known: dict[int, Pending] = m.faces.setdefault(_KEY, defaultdict(Pending))
    entry = known[address]
    entry.writes = [pair for pair in entry.writes if not pair[0].done]
    entry.waits = [pair for pair in entry.waits if not pair[0].done]
    return entry


def _check(m: Machine, address: int) -> None:
    if not m.soc.split:
        raise refuse(m, "runtime.not_supported", what=f"{m.soc.name} has no tasks that write and wait for values")
    if address == 0:
        raise memory_fault(m, "memory.null_pointer", argument="address")
    if address % _NUMBER.size:
        raise refuse(m, "runtime.invalid_parameter", argument="addr", value=hex(address % 8), allowed="a multiple of 8")
    m.memory.resolve(address, _NUMBER.size, "device", write=True)


@api("acl.rt.value_write")
def value_write(m: Machine, address: int, value: int, flag: int, stream: int) -> int:
    """value_write(address, value, 0, stream) -> ret: writes 64 bits when the stream comes to it."""
    target = take_stream(m, stream)
    _check(m, address)
    if flag:
        raise refuse(m, "runtime.invalid_parameter", argument="flag", value=flag, allowed="0")

    def run() -> Work:
        m.memory.view(address, _NUMBER.size, "device")[:] = _NUMBER.pack(value)
        return NOTHING

    entry = _pending(m, address)
    before = target.last
    code = target.submit(
        TaskKind.MEMSET, "ValueWrite", run, engine=Engine.NONE, core_type="MEM_WRITE_VALUE", bytes=_NUMBER.size
    )
    task = target.last
    if task is not None and task is not before:
        entry.writes.append((task, value))
        for wait, fits in entry.waits:
            if wait.after is None and wait.stream is not target and fits(value):
                wait.after = task
    return code


@api("acl.rt.value_wait")
def value_wait(m: Machine, address: int, value: int, flag: int, stream: int) -> int:
    """value_wait(address, value, flag, stream) -> ret: the stream goes on once the 64 bits there fit: 0 at least value,
    1 equal, 2 a common bit, 3 a bit that is 0 in both."""
    target = take_stream(m, stream)
    _check(m, address)
    if flag >= len(_TESTS):
        raise refuse(m, "runtime.invalid_parameter", argument="flag", value=flag, allowed="0, 1, 2, 3")
    where = m.here().place

    def fits(found: int) -> bool:
        return _TESTS[flag](found, value)

    def held() -> int:
        return int(_NUMBER.unpack(m.memory.view(address, _NUMBER.size, "device", write=False))[0])

    def run() -> Work:
        if not fits(held()):
            rule, found = "runtime.value_never_written", held()
            raise TaskFault(diagnose(rule, where=where, value=value, flag=flag, found=found))
        return NOTHING

    entry = _pending(m, address)
    mark = None
    if not fits(held()):
        mark = next((task for task, number in entry.writes if task.stream is not target and fits(number)), None)
    before = target.last
    code = target.submit(
        TaskKind.EVENT_WAIT, "ValueWait", run, engine=Engine.NONE, core_type="MEM_WAIT_VALUE", after=mark
    )
    task = target.last
    if task is not None and task is not before:
        entry.waits.append((task, fits))
    return code
