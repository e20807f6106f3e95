"""Random programs: whatever is called in whatever order, the interpreter lives, memory stays whole, nothing hangs."""

from __future__ import annotations

import contextlib
import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cannlab.acl as acl
from cannlab.acl.binding import NotEmulatedError
from cannlab.acl.signatures import signatures
from cannlab.machine import reset_machine

SIZES = [0, 1, 31, 64, 97, 4096, 5000, 40_000, 1 << 20, 1 << 40, (1 << 64) - 1]
JUNK = [0, 1, 7, 64, 0xA000_0000_0000_0010, 1 << 62, (1 << 64) - 1]

step = st.tuples(
    st.sampled_from(
        ["malloc", "malloc_host", "dvpp_malloc", "free", "memcpy", "memcpy", "memcpy_async", "memcpy_async", "memset"]
        + ["memset_async", "create_stream", "destroy", "create_event", "record", "wait", "query", "sync", "sync_event"]
        + ["reset", "elapsed", "set_device", "reset_device", "context", "set_context", "buffer", "dataset", "launch"]
        + ["process", "mem_info", "finalize", "init", "desc"]
    ),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.sampled_from(SIZES),
    st.integers(-1, 7),
)


class Program:
    """Keeps whatever handles and pointers it ever saw, stale ones included, and uses them at random."""

    def __init__(self) -> None:
        self.pointers: list[int] = list(JUNK)
        self.handles: list[int] = list(JUNK)
        # Room for the largest copy at the largest offset: what lies behind an array is the program's own heap.
        self.array = np.zeros(1 << 15, np.uint8)
        self.pointers.append(self.array.ctypes.data)

    def pointer(self, choice: int) -> int:
        base = self.pointers[choice % len(self.pointers)]
        return base if choice % 5 else base + choice % 4096

    def handle(self, choice: int) -> int:
        return self.handles[choice % len(self.handles)]

    def keep(self, results: tuple[int, int], into: list[int]) -> None:
        value, code = results
        assert isinstance(code, int)
        assert (value != 0) == (code == 0)
        if code == 0:
            into.append(value)

    def do(self, name: str, a: int, b: int, c: int, size: int, kind: int) -> Any:
        rt, p, h = acl.rt, self.pointer, self.handle
        if name in ("malloc", "malloc_host", "dvpp_malloc"):
            size = min(size, 1 << 41)
            made = {
                "malloc": lambda: rt.malloc(size, 0),
                "malloc_host": lambda: rt.malloc_host(min(size, 1 << 20)),
                "dvpp_malloc": lambda: acl.media.dvpp_malloc(size),
            }[name]()
            return self.keep(made, self.pointers)
        simple = {
            "free": lambda: [rt.free, rt.free_host, acl.media.dvpp_free][b % 3](p(a)),
            "memcpy": lambda: rt.memcpy(p(a), size, p(b), c % 9000, kind),
            "memcpy_async": lambda: rt.memcpy_async(p(a), size, p(b), c % 9000, kind, h(c)),
            "memset": lambda: rt.memset(p(a), size, b % 256, c % 9000),
            "memset_async": lambda: rt.memset_async(p(a), size, b % 256, c % 9000, h(c)),
            "destroy": lambda: [rt.destroy_stream, rt.destroy_event, rt.destroy_context, rt.destroy_stream_force][
                b % 4
            ](h(a)),
            "record": lambda: rt.record_event(h(a), h(b)),
            "wait": lambda: rt.stream_wait_event(h(a), h(b)),
            "query": lambda: [rt.query_event, rt.stream_query, rt.query_event_status][b % 3](h(a))[1],
            "sync": lambda: [rt.synchronize_stream(h(a)), rt.synchronize_device()][b % 2],
            "sync_event": lambda: rt.synchronize_event_with_timeout(h(a), kind),
            "reset": lambda: rt.reset_event(h(a), h(b)),
            "elapsed": lambda: rt.event_elapsed_time(h(a), h(b))[1],
            "set_device": lambda: rt.set_device(kind),
            "reset_device": lambda: [rt.reset_device, rt.reset_device_force][b % 2](kind),
            "set_context": lambda: rt.set_context(h(a)),
            "dataset": lambda: acl.mdl.add_dataset_buffer(h(a), h(b))[1],
            "desc": lambda: acl.mdl.get_desc(h(a), b % 4),
            "launch": lambda: rt.launch_callback(lambda _: None, None, b % 2, h(a)),
            "process": lambda: rt.process_report(kind),
            "mem_info": lambda: rt.get_mem_info(kind)[2],
            "finalize": lambda: acl.finalize() if b % 4 == 0 else 0,
            "init": acl.init,
        }
        if name in simple:
            code = simple[name]()
            assert isinstance(code, int)
            return None
        if name == "create_stream":
            return self.keep(rt.create_stream(), self.handles)
        if name == "create_event":
            return self.keep(rt.create_event(), self.handles)
        if name == "context":
            return self.keep(rt.create_context(kind), self.handles)
        assert name == "buffer"
        self.handles += [acl.create_data_buffer(p(a), size), acl.mdl.create_dataset(), acl.mdl.create_desc()]
        return None


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(step, min_size=5, max_size=60))
def test_random_programs(steps) -> None:
    m = reset_machine("Ascend910B1", 2)
    acl.init()
    acl.rt.set_device(0)
    sentinel, _ = acl.rt.malloc(5000, 0)
    pattern = np.arange(5000, dtype=np.uint16).astype(np.uint8)
    acl.rt.memcpy(sentinel, 5000, pattern.ctypes.data, 5000, 1)
    block = m.memory.blocks.find(sentinel)
    assert block is not None
    program = Program()
    acl.rt.subscribe_report(threading.get_ident(), 0)
    for arguments in steps:
        program.do(*arguments)
    view = m.memory.view(sentinel, 5000)
    assert bytes(view) == pattern.tobytes()
    for device in m.devices:
        live = [block for block in m.memory.blocks if block.live and block.device == device.index]
        assert device.memory_used == sum(block.capacity for block in live)
        assert 0 <= device.memory_free <= device.memory_total
    spans = sorted((block.start, block.start + block.footprint) for block in m.memory.blocks)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    assert all(row["start"] <= row["end"] for row in m.record.calls.rows())
    assert all(row["queued"] <= row["start"] <= row["end"] for row in m.record.tasks.rows())


VALUES = [0, 1, -1, 2**31, 2**63, 2**64, 1.5, "", "x", b"x", None, (), [], [1], {}, np.zeros(2), np.int32(1), print]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    st.sampled_from([name for name in signatures() if name not in ("acl.util.start_thread",)]),
    st.lists(st.sampled_from(VALUES), max_size=8),
    st.booleans(),
)
def test_any_function_with_any_arguments(name, arguments, right_count) -> None:
    reset_machine("Ascend310P3", 1)
    acl.init()
    acl.rt.set_device(0)
    if right_count:
        count = len(signatures()[name].formats)
        arguments = (arguments + [0] * count)[:count]
    target: Any = acl
    for part in name.split(".")[1:]:
        target = getattr(target, part)
    with contextlib.suppress(TypeError, ValueError, NotEmulatedError):
        target(*arguments)


def program() -> str:
    m = reset_machine("Ascend910B1", 1)
    acl.init()
    acl.rt.set_device(0)
    stream, _ = acl.rt.create_stream()
    events = [acl.rt.create_event()[0] for _ in range(2)]
    device, _ = acl.rt.malloc(1 << 16, 0)
    host, _ = acl.rt.malloc_host(1 << 16)
    acl.rt.record_event(events[0], stream)
    acl.rt.memcpy_async(device, 1 << 16, host, 1 << 16, 1, stream)
    acl.rt.record_event(events[1], stream)
    while acl.rt.query_event(events[1])[0]:
        pass
    acl.rt.event_elapsed_time(*events)
    acl.rt.free(device)
    acl.rt.free(device)
    acl.finalize()
    return m.record.digest()


def test_two_runs_give_the_same_record() -> None:
    garbage = [bytearray(1 << 20) for _ in range(5)]
    first = program()
    del garbage
    assert program() == first


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=5, max_size=120))
def test_many_random_programs(steps) -> None:
    test_random_programs.hypothesis.inner_test(steps)
