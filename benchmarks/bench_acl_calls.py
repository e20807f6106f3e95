"""What acl calls cost in real time: pytest benchmarks/bench_acl_calls.py --benchmark-only -s -p no:xdist."""

from __future__ import annotations

import time

import pytest

import cannlab.acl as acl
from cannlab.machine import reset_machine

ROUND = 500
# Processor time: what other programs of the machine take does not count (their share of the caches does).
pytestmark = pytest.mark.benchmark(timer=time.thread_time)


@pytest.fixture
def handles() -> tuple[int, int, int]:
    """A stream, an event and pinned host memory on a fresh machine."""
    reset_machine("Ascend910B1", 1)
    acl.init()
    acl.rt.set_device(0)
    return acl.rt.create_stream()[0], acl.rt.create_event()[0], acl.rt.malloc_host(4096)[0]


def test_mix_of_four_calls(benchmark, handles) -> None:
    """500 times malloc, memcpy of 4 KiB, record_event, free: 2,000 calls."""
    stream, event, host = handles

    def mix() -> None:
        for _ in range(ROUND):
            device, _ = acl.rt.malloc(4096, 0)
            acl.rt.memcpy(device, 4096, host, 4096, 1)
            acl.rt.record_event(event, stream)
            acl.rt.free(device)
        acl.rt.synchronize_stream(stream)

    benchmark(mix)
    _per_call(benchmark, 4 * ROUND)


def _per_call(benchmark, calls: int) -> None:
    """Print what one call costs: the least and the middle of all rounds. The aim is under 5 us on a quiet machine."""
    stats = benchmark.stats.stats
    least, middle = stats.min / calls * 1e6, stats.median / calls * 1e6
    benchmark.extra_info["us_per_call"] = {"least": round(least, 2), "middle": round(middle, 2)}
    print(f"\n{least:.2f} us a call at the best, {middle:.2f} us in the middle, processor time")


def test_ten_thousand_small_allocations(benchmark, handles) -> None:
    """10,000 times malloc and free of 64 bytes."""

    def allocate() -> None:
        for _ in range(10_000):
            acl.rt.free(acl.rt.malloc(64, 0)[0])

    benchmark(allocate)
    # The aim of the project: 10,000 allocations and frees under half a second.
    assert benchmark.stats.stats.min < 0.5


def test_one_getter(benchmark, handles) -> None:
    """The least that a call can cost."""
    benchmark(acl.data_type_size, 1)


def test_polling(benchmark, handles) -> None:
    """Polling an event until a copy of 1 MiB is done."""
    stream, event, _ = handles
    device, _ = acl.rt.malloc(1 << 20, 0)
    host, _ = acl.rt.malloc_host(1 << 20)

    def poll() -> None:
        acl.rt.memcpy_async(device, 1 << 20, host, 1 << 20, 1, stream)
        acl.rt.record_event(event, stream)
        while acl.rt.query_event(event)[0]:
            pass

    benchmark(poll)
