"""Devices, contexts, streams, events: codes and reference counts."""

from __future__ import annotations

import threading

import pytest

import cannlab.acl as acl
from cannlab.machine import reset_machine

DEAD = 0xA000_FFFF_0000_0010


def test_device_reference_counts(m) -> None:
    assert acl.rt.get_device_count() == (2, 0)
    assert acl.rt.get_device() == (0, 107002)
    assert [acl.rt.set_device(number) for number in (2, -1)] == [107001, 107001]
    assert [acl.rt.set_device(1), acl.rt.set_device(1)] == [0, 0]
    assert acl.rt.get_device() == (1, 0)
    assert acl.rt.reset_device(1) == 0
    assert acl.rt.get_device() == (1, 0)
    assert acl.rt.reset_device(1) == 0
    assert acl.rt.get_device() == (0, 107002)
    assert acl.rt.reset_device(1) == 507007
    assert acl.rt.reset_device(5) == 107001
    acl.rt.set_device(0)
    acl.rt.set_device(0)
    assert [acl.rt.reset_device_force(0), acl.rt.reset_device_force(0)] == [0, 507007]


def test_contexts(acl) -> None:
    default, code = acl.rt.get_context()
    assert code == 0
    assert acl.rt.destroy_context(default) == 107002
    one, code = acl.rt.create_context(1)
    assert code == 0
    assert acl.rt.get_context() == (one, 0)
    assert acl.rt.get_device() == (1, 0)
    assert acl.rt.set_context(default) == 0
    assert acl.rt.get_device() == (0, 0)
    assert acl.rt.set_context(0) == 100000
    assert acl.rt.destroy_context(0) == 100000
    assert acl.rt.destroy_context(one) == 0
    assert acl.rt.destroy_context(one) == 107002
    assert acl.rt.set_context(one) == 107000
    assert acl.rt.set_context(DEAD) == 100000
    assert acl.rt.create_context(9) == (0, 107001)
    two, _ = acl.rt.create_context(0)
    assert acl.rt.destroy_context(two) == 0
    assert acl.rt.get_context() == (0, 107002)


def test_threads_that_set_a_device_share_its_context(acl) -> None:
    seen: list[object] = []

    def other() -> None:
        seen.append(acl.rt.get_context())
        acl.rt.set_device(0)
        seen.append(acl.rt.get_context())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [(0, 107002), acl.rt.get_context()]


def test_calls_that_need_a_context(m, rules) -> None:
    assert acl.rt.create_stream() == (0, 107002)
    assert acl.rt.create_event() == (0, 107002)
    assert acl.rt.malloc(64, 0) == (0, 107002)
    assert acl.rt.synchronize_stream(0) == 107002
    assert acl.rt.synchronize_device() == 107002
    assert acl.rt.memcpy_async(1, 1, 1, 1, 1, 0) == 107002
    assert set(rules()) == {"runtime.no_context"}
    assert acl.rt.get_run_mode() == (1, 0)


def test_streams(acl) -> None:
    stream, code = acl.rt.create_stream()
    assert code == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert acl.rt.synchronize_stream(0) == 0
    assert acl.rt.stream_query(stream) == (0, 0)
    assert acl.rt.destroy_stream(0) == 100000
    assert acl.rt.destroy_stream(stream) == 0
    assert acl.rt.destroy_stream(stream) == 100000
    assert acl.rt.synchronize_stream(stream) == 100000
    assert acl.rt.create_stream_with_config(99, 3)[1] == 0
    assert acl.rt.create_stream_with_config(0, 8) == (0, 207000)
    stream, _ = acl.rt.create_stream()
    acl.rt.create_context(0)
    assert acl.rt.synchronize_stream(stream) == 107003
    assert acl.rt.destroy_stream(stream) == 107003


@pytest.mark.parametrize("timeout", [0, -2])
def test_bad_timeouts(acl, timeout) -> None:
    event, _ = acl.rt.create_event()
    assert acl.rt.synchronize_stream_with_timeout(0, timeout) == 107000
    assert acl.rt.synchronize_event_with_timeout(event, timeout) == 107000
    assert acl.rt.process_report(timeout) == 100000


def test_the_number_of_streams_is_limited(m) -> None:
    node = reset_machine("Ascend310P3", 1)
    acl.rt.set_device(0)
    left, _ = acl.rt.get_stream_available_num()
    assert left == node.soc.max_streams - 1
    streams = [acl.rt.create_stream()[0] for _ in range(left)]
    assert acl.rt.create_stream() == (0, 207008)
    acl.rt.destroy_stream(streams[0])
    assert acl.rt.create_stream()[1] == 0


def test_events(acl) -> None:
    stream, _ = acl.rt.create_stream()
    start, _ = acl.rt.create_event()
    end, _ = acl.rt.create_event()
    assert acl.rt.query_event(start) == (0, 0)
    assert acl.rt.query_event_status(start) == (0, 0)
    assert acl.rt.synchronize_event(start) == 0
    assert acl.rt.event_elapsed_time(start, end) == (0.0, 507000)
    device, _ = acl.rt.malloc(1 << 20, 0)
    host, _ = acl.rt.malloc_host(1 << 20)
    acl.rt.record_event(start, stream)
    acl.rt.memcpy_async(device, 1 << 20, host, 1 << 20, 1, stream)
    acl.rt.record_event(end, stream)
    assert acl.rt.query_event(end) == (1, 0)
    assert acl.rt.query_event_status(end) == (0, 0)
    assert acl.rt.event_elapsed_time(start, end) == (0.0, 107006)
    assert acl.rt.synchronize_event(end) == 0
    assert acl.rt.query_event(end) == (0, 0)
    assert acl.rt.query_event_status(end) == (1, 0)
    milliseconds, code = acl.rt.event_elapsed_time(start, end)
    assert code == 0
    # 4 us latency and 1 MiB at 25 GB/s, from the moment the copy was queued 2 us after the event.
    assert milliseconds == pytest.approx(0.002 + 0.004 + (1 << 20) / 25e6, rel=1e-4)
    assert acl.rt.event_elapsed_time(end, start) == (0.0, 107007)
    assert acl.rt.event_get_timestamp(end)[1] == 0
    assert acl.rt.destroy_event(end) == 0
    assert acl.rt.destroy_event(end) == 100000
    assert acl.rt.record_event(0, stream) == 100000
    assert acl.rt.stream_wait_event(stream, 0) == 100000


@pytest.mark.parametrize(("code", "flags"), [(0, [1, 8, 9, 16, 32]), (107000, [0, 4, 17, 40, 1 << 20])])
def test_event_flags(acl, flags, code) -> None:
    assert [acl.rt.create_event_with_flag(flag)[1] for flag in flags] == [code] * len(flags)


def test_what_events_cannot_do(acl) -> None:
    timing, _ = acl.rt.create_event_with_flag(8)
    assert acl.rt.stream_wait_event(0, timing) == 207000
    assert acl.rt.reset_event(timing, 0) == 207000
    sync, _ = acl.rt.create_event_with_flag(1)
    acl.rt.record_event(sync, 0)
    acl.rt.synchronize_stream(0)
    assert acl.rt.event_elapsed_time(sync, sync)[1] == 207000
    extended, _ = acl.rt.create_event_ex_with_flag(9)
    assert acl.rt.query_event(extended) == (0, 207000)
    assert acl.rt.query_event_status(extended) == (1, 0)
    external, _ = acl.rt.create_event_with_flag(32)
    assert acl.rt.synchronize_event(external) == 207000


def test_reset_event(acl) -> None:
    event, _ = acl.rt.create_event()
    acl.rt.record_event(event, 0)
    acl.rt.synchronize_stream(0)
    assert acl.rt.reset_event(event, 0) == 0
    assert acl.rt.query_event_status(event) == (1, 0)
    acl.rt.synchronize_stream(0)
    assert acl.rt.event_get_timestamp(event)[1] == 507000


def test_a_wait_is_queried(acl) -> None:
    one, _ = acl.rt.create_stream()
    two, _ = acl.rt.create_stream()
    event, _ = acl.rt.create_event()
    device, _ = acl.rt.malloc(1 << 24, 0)
    acl.rt.memset_async(device, 1 << 24, 1, 1 << 24, one)
    acl.rt.record_event(event, one)
    acl.rt.stream_wait_event(two, event)
    assert acl.rt.query_event_wait_status(event) == (1, 0)
    acl.rt.synchronize_stream(two)
    assert acl.rt.query_event_wait_status(event) == (0, 0)


def test_stream_timeouts(acl, rules) -> None:
    stream, _ = acl.rt.create_stream()
    device, _ = acl.rt.malloc(1 << 27, 0)
    host, _ = acl.rt.malloc_host(1 << 27)
    acl.rt.memcpy_async(device, 1 << 27, host, 1 << 27, 1, stream)
    assert acl.rt.synchronize_stream_with_timeout(stream, 1) == 507046
    assert rules() == ["runtime.stream_timeout"]
    assert acl.rt.synchronize_stream_with_timeout(stream, 100) == 0
    event, _ = acl.rt.create_event()
    acl.rt.memcpy_async(device, 1 << 27, host, 1 << 27, 1, stream)
    acl.rt.record_event(event, stream)
    assert acl.rt.synchronize_event_with_timeout(event, 1) == 507047
    assert acl.rt.synchronize_event_with_timeout(event, -1) == 0


def test_reset_device_waits_for_tasks(acl) -> None:
    device, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    stream, _ = acl.rt.create_stream()
    acl.rt.memset(host, 64, 7, 64)
    acl.rt.memcpy_async(device, 64, host, 64, 1, stream)
    assert acl.rt.reset_device(0) == 0
    acl.rt.set_device(0)
    out = bytes(64)
    acl.rt.memcpy(acl.util.bytes_to_ptr(out), 64, device, 64, 2)
    assert out == b"\x07" * 64


def test_the_callback_for_failed_tasks(acl, capsys) -> None:
    seen = []

    def failed(info: int) -> None:
        rt = acl.rt
        seen.append((rt.get_error_code_from_exception_info(info), rt.get_stream_id_from_exception_info(info)))
        seen.append(rt.get_device_id_from_exception_info(info))
        raise ValueError("in the listener")

    assert acl.rt.set_exception_info_callback(failed) == 0
    with pytest.raises(TypeError, match="callable"):
        acl.rt.set_exception_info_callback(5)
    stream, _ = acl.rt.create_stream()
    for _ in range(2):
        device, _ = acl.rt.malloc(64, 0)
        acl.rt.memset_async(device, 64, 1, 64, stream)
        acl.rt.free(device)
        assert acl.rt.synchronize_stream(stream) == 507899
        assert seen == [(507899, acl.rt.stream_get_id(stream)[0]), 0]
        acl.rt.set_exception_info_callback()
    assert "in the listener" in capsys.readouterr().err
    assert acl.rt.get_task_id_from_exception_info(0) == 0xFFFFFFFF


def test_stopping_on_a_failure_stops_the_context(acl) -> None:
    one, _ = acl.rt.create_stream()
    two, _ = acl.rt.create_stream()
    for stream in (one, two):
        assert acl.rt.set_stream_failure_mode(stream, 1) == 0
    assert acl.rt.set_stream_failure_mode(one, 2) == 100000
    device, _ = acl.rt.malloc(64, 0)
    gone, _ = acl.rt.malloc(64, 0)
    acl.rt.memset(device, 64, 0, 64)
    acl.rt.memset_async(gone, 64, 1, 64, one)
    acl.rt.memset_async(device, 64, 1, 64, one)
    acl.rt.memset_async(device, 64, 1, 64, two)
    acl.rt.free(gone)
    assert acl.rt.synchronize_device() == 507899
    out = bytes(64)
    acl.rt.memcpy(acl.util.bytes_to_ptr(out), 64, device, 64, 2)
    assert out == bytes(64)
