"""Who asks whether a stream or an event is complete sees nothing of work that still runs, and changes no times."""

from __future__ import annotations

import numpy as np
import pytest

import cannlab.acl as acl_package
from cannlab.machine import reset_machine

SIZE = 1 << 20
DATA = np.arange(SIZE, dtype=np.uint32).astype(np.uint8).tobytes()


def asked_stream(acl, stream: int, event: int) -> bool:
    return acl.rt.stream_query(stream) == (0, 0)


def asked_event(acl, stream: int, event: int) -> bool:
    return acl.rt.query_event(event) == (0, 0)


@pytest.mark.parametrize("complete", [asked_stream, asked_event])
def test_bytes_show_when_the_copy_has_ended(acl, m, complete) -> None:
    stream, _ = acl.rt.create_stream()
    event, _ = acl.rt.create_event()
    device, _ = acl.rt.malloc(SIZE, 0)
    host, _ = acl.rt.malloc_host(SIZE)
    m.memory.view(host, SIZE)[:] = DATA
    acl.rt.memcpy_async(device, SIZE, host, SIZE, 1, stream)
    acl.rt.record_event(event, stream)
    polls = 0
    while not complete(acl, stream, event):
        assert bytes(m.memory.view(device, SIZE)) != DATA
        polls += 1
        assert polls < 1000
    assert polls > 3
    assert bytes(m.memory.view(device, SIZE)) == DATA
    copy = next(row for row in m.record.tasks.rows() if row["kind"] == 1)
    assert copy["end"] <= m.thread.now


def copies(*, polling: bool) -> list[tuple[int, int, int]]:
    m, acl = reset_machine("Ascend910B1", 1), acl_package
    acl.init()
    acl.rt.set_device(0)
    streams = [acl.rt.create_stream()[0] for _ in range(2)]
    device, _ = acl.rt.malloc(SIZE, 0)
    host, _ = acl.rt.malloc_host(SIZE)
    acl.rt.memcpy_async(device, SIZE, host, SIZE, 1, streams[0])
    asked = acl.rt.stream_query if polling else acl.rt.stream_get_id
    asked(streams[0])
    acl.rt.memcpy_async(device, SIZE, host, SIZE, 1, streams[1])
    acl.rt.synchronize_stream(streams[0])
    acl.rt.synchronize_stream(streams[1])
    return sorted((row["stream"], row["start"], row["end"]) for row in m.record.tasks.rows())


def test_asking_changes_no_times() -> None:
    assert copies(polling=True) == copies(polling=False)


def test_a_started_copy_keeps_its_engine(m, acl) -> None:
    streams = [acl.rt.create_stream()[0] for _ in range(2)]
    device, _ = acl.rt.malloc(SIZE, 0)
    host, _ = acl.rt.malloc_host(SIZE)
    acl.rt.memcpy_async(device, SIZE, host, SIZE, 1, streams[0])
    assert acl.rt.stream_query(streams[0]) == (1, 0)
    acl.rt.memcpy_async(device, SIZE, host, SIZE, 1, streams[1])
    acl.rt.synchronize_stream(streams[1])
    acl.rt.synchronize_stream(streams[0])
    first, second = sorted(m.record.tasks.rows(), key=lambda row: row["start"])
    assert first["end"] <= second["start"]
    assert first["queued"] < second["queued"]


def test_a_copy_that_was_asked_about_still_finds_freed_memory(acl, m, rules) -> None:
    stream, _ = acl.rt.create_stream()
    device, _ = acl.rt.malloc(SIZE, 0)
    host, _ = acl.rt.malloc_host(SIZE)
    acl.rt.memcpy_async(device, SIZE, host, SIZE, 1, stream)
    assert acl.rt.stream_query(stream) == (1, 0)
    acl.rt.free(device)
    assert acl.rt.synchronize_stream(stream) == 507899
    assert rules()[-1] == "memory.use_after_free"
