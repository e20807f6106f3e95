"""The parts of the machine on their own: engines, interval map, probing, clocks, spots, host ranges."""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cannlab.activation
from cannlab.machine import Machine, MemoryFault, MemoryKind, reset_machine
from cannlab.machine.api_costs import COPY_LATENCY, DEVICE_COPY_LATENCY, call_ns, device_copy_ns, transfer_ns
from cannlab.machine.block_map import BlockMap
from cannlab.machine.blocks import Block
from cannlab.machine.engines import Timeline
from cannlab.machine.handles import Handles
from cannlab.machine.host_memory import KEPT, REMEMBERED, HostMemory
from cannlab.machine.pages import PAGE, Mapping, poison
from cannlab.machine.probe import accessible
from cannlab.machine.spots import NOWHERE, Spots
from cannlab.trace import Record


@pytest.fixture
def m() -> Machine:
    return reset_machine("Ascend910B1", 1)


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 20)), max_size=60))
def test_an_engine_gives_the_earliest_free_gap(requests) -> None:
    timeline = Timeline()
    busy = [False] * 3000
    for ready, ns in requests:
        expected = ready
        while any(busy[expected : expected + ns]):
            expected += 1
        assert timeline.grant(ready, ns) == expected
        busy[expected : expected + ns] = [True] * ns


def test_an_engine_keeps_a_short_list() -> None:
    timeline = Timeline()
    for _ in range(1000):
        timeline.grant(0, 7)
    assert timeline.grant(0, 1) == 7000
    assert len(timeline._intervals) == 1


class Range:
    """Enough of a mapping for the interval map."""

    def __init__(self, address: int, size: int) -> None:
        self.address, self.size = address, size


def block(address: int, size: int) -> Block:
    mapping: Mapping = Range(address, size)  # type: ignore[assignment]
    return Block(mapping, 0, size, size, size, MemoryKind.DEVICE, 0, 1, NOWHERE)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=40))
def test_the_interval_map_knows_the_newest_owner(ranges) -> None:
    known, owners = BlockMap(), {}
    for start, size in ranges:
        entry = block(start, size)
        known.clear(start, start + size)
        known.add(entry)
        overlapped = {id(owner) for at, owner in owners.items() if start <= at < start + size}
        owners = {at: owner for at, owner in owners.items() if id(owner) not in overlapped}
        owners |= dict.fromkeys(range(start, start + size), entry)
        for at in range(75):
            assert known.find(at) is owners.get(at)


@pytest.mark.skipif(sys.platform == "win32", reason="probing is for POSIX systems")
@pytest.mark.parametrize("pages", [1, 3, 200])
def test_probing(pages) -> None:
    size = pages * PAGE
    writable = np.zeros(size, np.uint8)
    assert accessible(writable.ctypes.data, size, write=True)
    with mmap.mmap(-1, size, prot=mmap.PROT_READ) as memory:
        address = np.frombuffer(memory, np.uint8).ctypes.data
        assert accessible(address, size, write=False)
        assert not accessible(address, size, write=True)
    assert not accessible(8, size, write=False)
    assert not accessible(0, 1, write=False)
    assert not accessible(1 << 63, size, write=False)


@pytest.mark.skipif(sys.platform == "win32", reason="probing is for POSIX systems")
def test_probing_sees_a_hole_at_the_end() -> None:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    for pages in (2, 100):
        address = libc.mmap(None, (pages + 1) * PAGE, 3, 0x22 if sys.platform == "linux" else 0x1002, -1, 0)
        libc.munmap(address + pages * PAGE, PAGE)
        assert accessible(address, pages * PAGE, write=True)
        assert not accessible(address, pages * PAGE + 1, write=False)
        libc.munmap(address, pages * PAGE)


def test_poison_is_nan_and_large_blocks_cost_nothing() -> None:
    small = Mapping(4096)
    poison(small, 0, 4096)
    assert np.isnan(np.frombuffer(small.view[:4096], np.float16)).all()
    large = Mapping(1 << 33)
    poison(large, 0, 1 << 33)
    assert large.view[0] == 0xFF
    assert large.view[(1 << 33) - 1] == 0


def test_host_ranges_are_bounded() -> None:
    host = HostMemory()
    arrays = [np.zeros(16, np.uint8) for _ in range(1000)]
    for array in arrays:
        host.add(array.ctypes.data, 16, array)
    assert all(host.find(array.ctypes.data + 15) is not None for array in arrays)
    del array, arrays
    host.find(1)
    assert len(host._ranges) <= REMEMBERED
    for number in range(200):
        host.add(1000 * (number + 1), 10, number.to_bytes(10, "little"))
    assert len(host._kept) == KEPT


def test_handles_are_never_used_twice_and_never_addresses() -> None:
    handles = Handles()
    first = handles.open("a")
    assert first > 1 << 47
    handles.close(first, NOWHERE)
    assert handles.open("b") != first
    assert handles.get(first, str) is None
    assert handles.closed(first) == (str, NOWHERE)


def test_spots_find_the_innermost_learner_line() -> None:
    record = Record("Ascend910B1", 1, "8.1")
    spots = Spots(record)

    def inner():
        return spots.caller(1)

    one, two = inner(), inner()
    assert record.strings[one.file] == "test_parts.py"
    assert one == two
    assert one.place is not None
    assert one.place.function == "inner"


def test_a_call_takes_its_cost_and_a_row(m) -> None:
    with m.call("acl.rt.malloc") as call:
        call.code = 5
    (row,) = m.record.calls.rows()
    assert (row["start"], row["end"], row["code"]) == (0, call_ns("acl.rt.malloc"), 5)
    assert m.record.strings[row["file"]] == "test_parts.py"


def test_a_call_that_raises_is_recorded_and_gives_the_lock_back(m) -> None:
    with pytest.raises(ZeroDivisionError), m.call("acl.rt.malloc"):
        raise ZeroDivisionError
    assert len(m.record.calls) == 1
    done = threading.Thread(target=m.host_cost, args=(1,))
    done.start()
    done.join(5)
    assert not done.is_alive()


def test_declared_host_work(m) -> None:
    m.host_cost(us=2.5)
    assert m.thread.now == 2500
    with pytest.raises(ValueError, match="at least 0"):
        m.host_cost(us=-1)
    cannlab.host_cost(us=1)
    assert m.thread.now == 3500
    with pytest.raises(ValueError, match="at least 0"):
        cannlab.host_cost(us=-1)


def test_declared_host_work_is_nothing_on_real_devices(m, monkeypatch) -> None:
    monkeypatch.setattr(cannlab.activation, "_answered", "real")
    cannlab.host_cost(us=1)
    assert m.thread.now == 0


def test_copy_times(m) -> None:
    assert transfer_ns(25_000_000, pinned=True) == COPY_LATENCY + 1_000_000
    assert transfer_ns(25_000_000, pinned=False) == COPY_LATENCY + 2_000_000
    assert device_copy_ns(10**9, m.soc) == DEVICE_COPY_LATENCY + int(2e9 / m.soc.ddr_gbps)


def test_memory_of_the_machine_without_a_face(m) -> None:
    device = m.devices[0]
    entry = m.memory.allocate(100, MemoryKind.DEVICE, device)
    view = m.memory.view(entry.start, 100, "device")
    view[:] = bytes(100)
    assert m.memory.resolve(entry.start + 99, 1).block is entry
    with pytest.raises(MemoryFault) as caught:
        m.memory.resolve(entry.start, 100, "host")
    assert (caught.value.diagnosis.rule, caught.value.code) == ("memory.not_host", 107000)
    m.memory.free(entry.start, MemoryKind.DEVICE)
    assert bytes(view) == b"\xff" * 100
    assert device.memory_used == 0


def test_the_record_of_memory(m) -> None:
    device = m.devices[0]
    with m.call("acl.rt.malloc"):
        entry = m.memory.allocate(100, MemoryKind.DEVICE, device)
    with m.call("acl.rt.free"):
        m.memory.free(entry.start, MemoryKind.DEVICE)
    rows = list(m.record.memory.rows())
    assert [(row["device"], row["allocation"], row["bytes"]) for row in rows] == [(0, 1, 100), (0, 1, -100)]
    assert m.record.strings[rows[0]["kind"]] == "DEVICE"
    assert rows[0]["time"] < rows[1]["time"]


def test_a_new_machine_forgets(m) -> None:
    entry = m.memory.allocate(100, MemoryKind.DEVICE, m.devices[0])
    fresh = reset_machine("Ascend310P3", 3)
    assert len(fresh.devices) == 3
    assert fresh.memory.blocks.find(entry.start) is None
    assert fresh.thread.now == 0
    assert len(fresh.record.calls) == 0
