"""Attributes, limits, notifies, registered and virtual memory, reductions, last errors, leaks, configuration, plog."""

from __future__ import annotations

import json

import numpy as np
import pytest

H2D, D2H, D2D = 1, 2, 3


def device_bytes(acl, data: bytes) -> int:
    pointer, ret = acl.rt.malloc(len(data), 0)
    assert ret == 0
    assert acl.rt.memcpy(pointer, len(data), acl.util.bytes_to_ptr(data), len(data), H2D) == 0
    return pointer


def host_bytes(acl, pointer: int, size: int) -> bytes:
    data = bytes(size)
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(data), size, pointer, size, D2H) == 0
    return data


# -- facts -------------------------------------------------------------------------------------------------


def test_facts_of_a_device(acl, m) -> None:
    assert acl.rt.get_device_info(0, 201) == (m.soc.vector_cores, 0)
    total = m.soc.memory_bytes & 0xFFFF_FFFF
    assert acl.rt.get_device_info(0, 301) == (total - (1 << 32) if total >> 31 else total, 0)
    assert acl.rt.get_device_info(0, 7) == (0, 107000)
    assert acl.rt.get_device_info(9, 201) == (0, 107001)
    assert acl.get_device_capability(0, 2) == (m.soc.l2_bytes, 0)
    assert acl.rt.query_device_status(1) == (0, 0)
    first, second = acl.rt.device_get_uuid(0)[0]["bytes"], acl.rt.device_get_uuid(1)[0]["bytes"]
    assert len(first) == 16
    assert first != second
    assert acl.rt.get_phy_dev_id_by_logic_dev_id(1) == (1, 0)
    assert acl.rt.get_phy_dev_id_by_logic_dev_id(2) == (0, 107001)


def test_versions(acl) -> None:
    version, ret = acl.get_cann_version(0)
    assert (version["version"], version["major_version"], ret) == ("8.1.RC1", "8", 0)
    assert acl.get_version_str("runtime") == ("8.1.RC1", 0)
    assert acl.get_version_str("nothing") == ("", 100000)
    assert acl.get_cann_attribute_list() == ([0, 1, 2], 3, 0)
    assert acl.get_cann_attribute(1) == (1, 0)
    assert acl.get_cann_attribute(5) == (0, 100000)


def test_core_limits(acl, m) -> None:
    most = m.soc.vector_cores
    assert acl.rt.get_device_res_limit(0, 1) == (most, 0)
    assert acl.rt.set_device_res_limit(0, 1, most + 1) == 107000
    assert acl.rt.set_device_res_limit(0, 1, 8) == 0
    stream, _ = acl.rt.create_stream()
    assert acl.rt.get_stream_res_limit(stream, 1) == (8, 0)
    assert acl.rt.set_stream_res_limit(stream, 1, 4) == 0
    assert acl.rt.get_res_in_current_thread(1) == (8, 0)
    assert acl.rt.use_stream_res_in_current_thread(stream) == 0
    assert acl.rt.get_res_in_current_thread(1) == (4, 0)
    assert acl.rt.unuse_stream_res_in_current_thread(stream) == 0
    assert acl.rt.reset_stream_res_limit(stream) == 0
    assert acl.rt.get_stream_res_limit(stream, 1) == (8, 0)
    assert acl.rt.reset_device_res_limit(0) == 0
    assert acl.rt.get_stream_res_limit(stream, 1) == (most, 0)
    assert acl.rt.get_device_res_limit(0, 2) == (0, 107000)


# -- streams -----------------------------------------------------------------------------------------------


def test_stream_attributes(acl) -> None:
    stream, _ = acl.rt.create_stream()
    assert acl.rt.set_stream_attribute(stream, 3, {"userCustomTag": 77}) == 0
    assert acl.rt.get_stream_attribute(stream, 3)[0]["userCustomTag"] == 77
    assert acl.rt.set_stream_attribute(stream, 2, {"overflowSwitch": 1}) == 0
    assert acl.rt.get_stream_overflow_switch(stream) == (1, 0)
    assert acl.rt.set_stream_attribute(stream, 1, {"failureMode": 2}) == 100000
    assert acl.rt.get_stream_attribute(stream, 9) == ({}, 107000)
    with pytest.raises(TypeError):
        acl.rt.set_stream_attribute(stream, 1, [1])


def test_a_higher_priority_goes_first(acl, m) -> None:
    streams = [acl.rt.create_stream_with_config(priority, 0)[0] for priority in (7, 0)]
    source, target = (acl.rt.malloc_host(1 << 20)[0], acl.rt.malloc(1 << 20, 0)[0])
    for stream in streams:
        acl.rt.memcpy_async(target, 1 << 20, source, 1 << 20, H2D, stream)
    # Both are queued before either can start: the device is busy with a long copy that both wait for.
    first = acl.rt.create_stream()[0]
    event = acl.rt.create_event()[0]
    acl.rt.memcpy_async(target, 1 << 20, source, 1 << 20, H2D, first)
    acl.rt.record_event(event, first)
    for stream in streams:
        acl.rt.stream_wait_event(stream, event)
        acl.rt.memcpy_async(target, 1 << 20, source, 1 << 20, H2D, stream)
    assert acl.rt.synchronize_device() == 0
    last = [row for row in m.record.tasks.rows() if row["bytes"] == 1 << 20][-2:]
    numbers = [acl.rt.stream_get_id(stream)[0] for stream in streams]
    assert [row["stream"] for row in sorted(last, key=lambda row: row["start"])] == [numbers[1], numbers[0]]


def test_abort_drops_the_tasks_and_says_so(acl) -> None:
    stream, _ = acl.rt.create_stream()
    pointer = device_bytes(acl, bytes(64))
    assert acl.rt.stream_abort(stream) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    acl.rt.memset_async(pointer, 64, 1, 64, stream)
    assert acl.rt.stream_abort(stream) == 0
    assert acl.rt.synchronize_stream(stream) == 107023
    assert acl.rt.synchronize_stream(stream) == 0
    assert host_bytes(acl, pointer, 64) == bytes(64)
    acl.rt.memset_async(pointer, 64, 1, 64, stream)
    assert acl.rt.device_task_abort(0, 100) == 0
    assert acl.rt.synchronize_device() == 107022


# -- notifies ----------------------------------------------------------------------------------------------


def test_a_notify_orders_two_streams(acl) -> None:
    one, two = acl.rt.create_stream()[0], acl.rt.create_stream()[0]
    notify, ret = acl.rt.create_notify(0)
    assert ret == 0
    assert acl.rt.get_notify_id(notify) == (0, 0)
    pointer = device_bytes(acl, bytes(64))
    # The wait is queued before the record, and the waiting stream is synchronised first.
    assert acl.rt.wait_and_reset_notify(notify, two, 0) == 0
    acl.rt.memset_async(pointer, 64, 2, 64, two)
    acl.rt.memset_async(pointer, 64, 1, 64, one)
    assert acl.rt.record_notify(notify, one) == 0
    assert acl.rt.synchronize_stream(two) == 0
    assert host_bytes(acl, pointer, 64) == b"\2" * 64
    # Each record serves one wait.
    assert acl.rt.wait_and_reset_notify(notify, two, 0) == 0
    assert acl.rt.synchronize_stream(two) == 507000
    assert acl.rt.record_notify(notify, one) == 0
    assert acl.rt.wait_and_reset_notify(notify, two, 0) == 0
    assert acl.rt.synchronize_stream(two) == 0
    assert acl.rt.notify_batch_reset([]) == 100000
    assert acl.rt.notify_batch_reset([notify]) == 0
    assert acl.rt.destroy_notify(notify) == 0
    assert acl.rt.destroy_notify(notify) == 100000
    assert acl.rt.create_notify(1) == (0, 107000)


# -- memory ------------------------------------------------------------------------------------------------


def test_registered_memory_is_copied_asynchronously(acl, m) -> None:
    array = np.arange(256, dtype=np.uint8)
    address = array.ctypes.data
    stream, _ = acl.rt.create_stream()
    pointer = device_bytes(acl, bytes(256))
    assert acl.rt.host_get_device_pointer(address, 0) == (0, 507911)
    assert acl.rt.host_register(address, 256, 0) == (address, 0)
    assert acl.rt.host_get_device_pointer(address, 0) == (address, 0)
    assert acl.rt.pointer_get_attributes(address)[0]["location"] == {"id": 0, "type": 0}
    assert acl.rt.memcpy_async(pointer, 256, address, 256, H2D, stream) == 0
    array[:] = 9
    assert acl.rt.synchronize_stream(stream) == 0
    assert host_bytes(acl, pointer, 256) == b"\x09" * 256
    assert acl.rt.host_unregister(address) == 0
    assert acl.rt.host_unregister(address) == 507911
    # Ordinary again: the copy is done when the call returns.
    array[:] = 4
    assert acl.rt.memcpy_async(pointer, 256, address, 256, H2D, stream) == 0
    array[:] = 5
    assert acl.rt.synchronize_stream(stream) == 0
    assert host_bytes(acl, pointer, 256) == b"\x04" * 256
    assert acl.rt.pointer_get_attributes(pointer)[0]["location"] == {"id": 0, "type": 1}
    assert acl.rt.pointer_get_attributes(address)[0]["location"]["type"] == 2


def test_reduce(acl) -> None:
    stream, _ = acl.rt.create_stream()
    first, second = np.array([1.5, -2, 3], np.float16), np.array([0.5, 5, -4], np.float16)
    for kind, wanted in ((10, first + second), (11, np.maximum(first, second)), (12, np.minimum(first, second))):
        to, by = device_bytes(acl, first.tobytes()), device_bytes(acl, second.tobytes())
        assert acl.rt.reduce_async(to, by, 6, kind, 1, stream, 0) == 0
        assert host_bytes(acl, to, 6) == first.tobytes()
        assert acl.rt.synchronize_stream(stream) == 0
        assert host_bytes(acl, to, 6) == wanted.tobytes()
    assert acl.rt.reduce_async(to, by, 6, 13, 1, stream, 0) == 107000
    assert acl.rt.reduce_async(to, by, 5, 10, 1, stream, 0) == 107000
    assert acl.rt.reduce_async(to, 0, 6, 10, 1, stream, 0) == 100000
    assert acl.rt.cmo_async(to, 6, 0, stream) == 0
    assert acl.rt.cmo_async(to, 6, 2, stream) == 207000


def test_virtual_memory(acl, m) -> None:
    size = 2 << 20
    assert acl.rt.mem_get_allocation_granularity({"location": {"id": 0, "type": 1}}, 0) == (size, 0)
    assert acl.rt.reserve_mem_address(size + 1, 0, 0, 0) == (0, 107000)
    address, ret = acl.rt.reserve_mem_address(2 * size, 0, 0, 0)
    assert ret == 0
    data = bytes(range(256))
    # Without memory the range cannot be used.
    assert acl.rt.memset(address, 256, 1, 256) != 0
    free = m.devices[0].memory_free
    handle, ret = acl.rt.malloc_physical(size, {"location": {"id": 0, "type": 1}}, 0)
    assert ret == 0
    assert m.devices[0].memory_free == free - size
    assert acl.rt.map_mem(address, size, 0, handle, 0) == 0
    assert acl.rt.memcpy(address, 256, acl.util.bytes_to_ptr(data), 256, H2D) == 0
    assert host_bytes(acl, address, 256) == data
    assert acl.rt.free_physical(handle) == 107000
    assert acl.rt.release_mem_address(address) == 107000
    assert acl.rt.unmap_mem(address) == 0
    assert acl.rt.memset(address, 256, 1, 256) != 0
    assert acl.rt.free_physical(handle) == 0
    assert acl.rt.release_mem_address(address) == 0
    assert m.devices[0].memory_free == free
    assert acl.rt.malloc_physical(1 << 40, {}, 0) == (0, 207001)


def test_copies_between_devices_need_access(acl, m) -> None:
    first = device_bytes(acl, b"a" * 64)
    assert acl.rt.set_device(1) == 0
    second = device_bytes(acl, b"b" * 64)
    assert acl.rt.memcpy(second, 64, first, 64, D2D) == 507899
    assert acl.rt.device_peer_access_status(1, 0) == (0, 0)
    assert acl.rt.device_enable_peer_access(0, 0) == 0
    assert acl.rt.device_peer_access_status(1, 0) == (1, 0)
    assert acl.rt.memcpy(second, 64, first, 64, D2D) == 0
    assert host_bytes(acl, second, 64) == b"a" * 64
    assert acl.rt.device_disable_peer_access(0) == 0
    assert acl.rt.memcpy(second, 64, first, 64, D2D) == 507899


# -- errors, options -----------------------------------------------------------------------------------------


def test_last_errors(acl) -> None:
    assert acl.rt.get_last_error(0) == 0
    assert acl.rt.malloc(0, 0) == (0, 100000)
    assert acl.rt.synchronize_stream(0) == 0
    assert acl.rt.peek_at_last_error(0) == 100000
    assert acl.rt.get_last_error(0) == 100000
    assert acl.rt.get_last_error(0) == 0
    assert acl.rt.get_last_error(1) == 107000
    assert acl.rt.get_thread_last_task_id() == (0, 0)
    pointer = device_bytes(acl, bytes(64))
    acl.rt.memset_async(pointer, 64, 0, 64, 0)
    first = acl.rt.get_thread_last_task_id()[0]
    acl.rt.memset_async(pointer, 64, 0, 64, 0)
    assert acl.rt.get_thread_last_task_id() == (first + 1, 0)


def test_system_options(acl) -> None:
    assert acl.rt.get_sys_param_opt(0) == (0, 107021)
    assert acl.rt.set_sys_param_opt(0, 1) == 0
    assert acl.rt.get_sys_param_opt(0) == (1, 0)
    assert acl.rt.ctx_get_sys_param_opt(0) == (0, 107021)
    assert acl.rt.ctx_set_sys_param_opt(0, 0) == 0
    assert acl.rt.ctx_get_sys_param_opt(0) == (0, 0)
    assert acl.rt.set_sys_param_opt(2, 1) == 100000
    assert acl.rt.get_device_sat_mode() == (1, 0)
    assert acl.rt.set_device_sat_mode(0) == 207000


def test_allocators(acl) -> None:
    desc = acl.rt.allocator_create_desc()
    stream, _ = acl.rt.create_stream()
    assert acl.rt.allocator_register(stream, desc) == 100000
    assert acl.rt.allocator_set_obj_to_desc(desc, 1) == 0
    for part in ("alloc", "free", "get_addr_from_block"):
        assert getattr(acl.rt, f"allocator_set_{part}_func_to_desc")(desc, print) == 0
    with pytest.raises(TypeError):
        acl.rt.allocator_set_free_func_to_desc(desc, 5)
    assert acl.rt.allocator_register(stream, desc) == 0
    assert acl.rt.allocator_unregister(stream) == 0
    assert acl.rt.allocator_unregister(stream) == 100000
    assert acl.rt.allocator_destroy_desc(desc) == 0


# -- leaks -------------------------------------------------------------------------------------------------


def test_every_kind_of_leak_is_named_with_its_line(acl, m) -> None:
    lines = {}

    def made(kind: str, line: int) -> None:
        lines[kind] = line

    here = test_every_kind_of_leak_is_named_with_its_line.__code__.co_firstlineno
    acl.rt.create_stream(), made("stream", here + 7)
    acl.rt.create_event(), made("event", here + 8)
    acl.mdl.create_dataset(), made("dataset", here + 9)
    acl.mdl.create_desc(), made("model description", here + 10)
    acl.create_data_buffer(1, 2), made("data buffer", here + 11)
    acl.create_tensor_desc(0, [1], 2), made("tensor description", here + 12)
    for _ in range(3):
        acl.rt.create_context(0)
    made("context", here + 14)
    acl.rt.malloc(64, 0)
    acl.rt.malloc_host(64)
    kept = acl.rt.create_event()[0]
    assert acl.rt.destroy_event(kept) == 0
    assert acl.finalize() == 0
    found = {leak["facts"]["kind"]: leak for leak in m.record.leaks}
    assert {kind: found[kind]["where"]["line"] for kind in lines} == lines
    assert found["context"]["facts"]["count"] == 3
    assert found["event"]["facts"]["count"] == 1
    assert {"device memory", "pinned host memory"} < set(found)
    assert "acl.rt.destroy_stream" in found["stream"]["remedy"]
    # Each is told once.
    count = len(m.record.leaks)
    acl.init()
    assert acl.finalize() == 0
    assert len(m.record.leaks) == count


def test_a_clean_program_leaves_nothing(acl, m) -> None:
    stream, event = acl.rt.create_stream()[0], acl.rt.create_event()[0]
    context, _ = acl.rt.create_context(0)
    assert acl.rt.ctx_get_current_default_stream()[1] == 0
    assert acl.rt.destroy_context(context) == 0
    acl.rt.set_device(0)
    assert acl.rt.destroy_stream(stream) == acl.rt.destroy_event(event) == 0
    assert acl.rt.get_context()[1] == 0
    acl.finalize()
    assert m.record.leaks == []


# -- configuration and log -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "ret"),
    [
        ({"dump": {"dump_list": [{"model_name": "a"}], "dump_path": "/tmp"}}, 0),
        ({"dump": {"dump_list": [{"model_name": "a"}]}}, 100009),
        ({"dump": {"dump_list": [{"model_name": "a"}], "dump_path": "/no/such/folder"}}, 100009),
        ({"dump": {"dump_list": [{"model_name": "a", "layer": []}], "dump_path": "/tmp"}}, 100009),
        ({"dump": {"dump_list": [{}], "dump_path": "/tmp"}}, 100009),
        ({"dump": {"dump_list": [{}], "dump_path": "/tmp", "dump_op_switch": "on"}}, 0),
        ({"dump": {"dump_list": {}, "dump_path": "/tmp"}}, 100009),
        ({"dump": []}, 100009),
        ({"dump": {}}, 0),
        ({"dump": {"dump_mode": "some"}}, 100009),
        ({"dump": {"dump_debug": "on", "dump_path": "/tmp", "dump_list": [{"model_name": "a"}]}}, 100009),
        ({"dump": {"dump_debug": "on", "dump_path": "/tmp"}}, 0),
        ({"dump": {"dump_scene": "lite_exception", "dump_path": "/tmp", "dump_op_switch": "on"}}, 100009),
        ({"dump": {"dump_scene": "lite_exception"}}, 0),
        ({"dump": {"dump_scene": "watcher", "dump_op_switch": "on"}}, 100009),
        ({"dump": {"dump_kernel_data": "printf,assert"}}, 0),
        ({"dump": {"dump_kernel_data": "print"}}, 100009),
        ({"profiler": {"switch": "on", "aicpu": "on"}}, 0),
        ({"profiler": {"switch": "on", "unknown": "on"}}, 100000),
        ({"profiler": {"switch": "on", "sys_cpu_freq": "51"}}, 100000),
        ({"profiler": {"switch": "off", "unknown": "on"}}, 0),
        ({"StackSize": {"aicore_stack_size": 40000}}, 100000),
        ({"max_opqueue_num": "0"}, 100000),
        ({"defaultDevice": {"default_device": "9"}}, 100000),
    ],
)
def test_configurations(m, tmp_path, config, ret) -> None:
    import cannlab.acl as acl

    path = tmp_path / "acl.json"
    path.write_text(json.dumps(config))
    assert acl.init(str(path)) == ret
    ignored = [fault["facts"]["part"] for fault in m.record.faults if fault["rule"] == "runtime.config_ignored"]
    assert ignored == (["dump"] if ret == 0 and "kernel" in str(config) else [])


def test_a_default_device_serves_threads_that_set_none(m, tmp_path) -> None:
    import cannlab.acl as acl

    assert acl.rt.get_device() == (0, 107002)
    path = tmp_path / "acl.json"
    path.write_text('{"defaultDevice": {"default_device": "1"}}')
    assert acl.init(str(path)) == 0
    assert acl.rt.get_device() == (1, 0)
    assert acl.rt.malloc(64, 0)[1] == 0


def test_refused_calls_stand_in_the_process_log(acl, m, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path))
    acl.rt.malloc(0, 0)
    (file,) = (tmp_path / "debug" / "plog").iterdir()
    line = file.read_text()
    assert line.startswith("[ERROR] RUNTIME(")
    assert "[100000]" in line
    assert "test_runtime_rest.py:" in line
    monkeypatch.setenv("ASCEND_MODULE_LOG_LEVEL", "RUNTIME=4")
    acl.rt.malloc(0, 0)
    assert file.read_text() == line
    acl.finalize()
    (events,) = (tmp_path / "run" / "plog").iterdir()
    assert events.read_text().startswith("[EVENT] ASCENDCL(")


def test_full_log_files_are_rotated(acl, tmp_path, monkeypatch) -> None:
    from cannlab.acl import plog

    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_HOST_LOG_FILE_NUM", "2")
    monkeypatch.setattr(plog, "_FILE_BYTES", 1)
    for number in range(4):
        clock = (1_700_000_000 + number) * 10**9
        monkeypatch.setattr(plog.time, "time_ns", lambda clock=clock: clock)
        acl.app_log(3, f"line {number}")
    files = sorted((tmp_path / "debug" / "plog").iterdir())
    assert ["line 2" in files[0].read_text(), "line 3" in files[1].read_text(), len(files)] == [True, True, 2]


# -- models by configuration ---------------------------------------------------------------------------------


def test_config_handles_check_their_values(acl) -> None:
    handle = acl.mdl.create_config_handle()
    assert acl.mdl.load_with_config(handle) == (0, 100000)
    assert acl.mdl.set_config_opt(handle, 1, 1) == 0
    assert acl.mdl.load_with_config(handle) == (0, 100000)
    assert acl.mdl.set_config_opt(handle, 2, "no/such.om") == 0
    assert acl.mdl.load_with_config(handle) == (0, 145002)
    assert acl.mdl.set_config_opt(handle, 99, 1) == 100000
    with pytest.raises(TypeError):
        acl.mdl.set_config_opt(handle, 2, 5)
    assert acl.mdl.destroy_config_handle(handle) == 0
    run = acl.mdl.create_exec_config_handle()
    assert acl.mdl.set_exec_config_opt(run, 0, 0) == 100000
    assert acl.mdl.set_exec_config_opt(run, 0, 0xFFFF_FFFF) == 0
    assert acl.mdl.destroy_exec_config_handle(run) == 0
