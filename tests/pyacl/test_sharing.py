"""Keys of memory and notifies, physical memory, links between devices, timeouts of operators, groups."""

from __future__ import annotations

import os

import pytest

import cannlab.acl as acl_package
from cannlab.machine import reset_machine


def test_memory_under_a_key(acl) -> None:
    pid, code = acl.rt.device_get_bare_tgid()
    assert (pid, code) == (os.getpid(), 0)
    pointer, _ = acl.rt.malloc(4096, 0)
    key, code = acl.rt.ipc_mem_get_export_key(pointer, 4096, 65, 0)
    assert code == 0
    assert len(key) == 64
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (0, 507022)
    assert acl.rt.ipc_mem_set_import_pid(key, [pid + 1]) == 0
    assert acl.rt.ipc_mem_import_by_key(key, 0) == (0, 507022)
    assert acl.rt.ipc_mem_set_import_pid(key, [pid]) == 0
    assert acl.rt.ipc_mem_import_by_key(key, 1) == (pointer, 0)
    assert acl.rt.ipc_mem_close(key) == 0
    assert acl.rt.ipc_mem_close(key) == 0
    assert acl.rt.ipc_mem_close(key) == 507022
    free, code = acl.rt.ipc_mem_get_export_key(pointer, 4096, 1023, 1)
    assert code == 0
    assert free != key
    assert acl.rt.ipc_mem_import_by_key(free, 0) == (pointer, 0)


def test_bad_keys(acl, rules) -> None:
    pointer, _ = acl.rt.malloc(4096, 0)
    assert acl.rt.ipc_mem_get_export_key(0, 64, 65, 0) == ("", 100000)
    assert acl.rt.ipc_mem_get_export_key(pointer, 0, 65, 0) == ("", 107000)
    assert acl.rt.ipc_mem_get_export_key(pointer, 64, 64, 0) == ("", 107000)
    assert acl.rt.ipc_mem_get_export_key(pointer, 64, 1024, 0) == ("", 100000)
    assert acl.rt.ipc_mem_get_export_key(pointer, 64, 65, 2) == ("", 107000)
    assert acl.rt.ipc_mem_get_export_key(pointer, 1 << 20, 65, 0)[1] != 0
    assert acl.rt.ipc_mem_get_export_key(acl.rt.malloc_host(64)[0], 64, 65, 0)[1] != 0
    assert acl.rt.ipc_mem_import_by_key("0" * 64, 0) == (0, 507022)
    key, _ = acl.rt.ipc_mem_get_export_key(pointer, 64, 65, 1)
    assert acl.rt.ipc_mem_import_by_key(key, 2) == (0, 107000)
    assert acl.rt.ipc_mem_set_import_pid(key, []) == 100000
    with pytest.raises(TypeError, match="args parse failed"):
        acl.rt.ipc_mem_set_import_pid(key, [1.5])
    reset_machine("Ascend310B1", 1)
    acl_package.rt.set_device(0)
    assert acl.rt.ipc_mem_get_export_key(acl.rt.malloc(64, 0)[0], 64, 65, 0) == ("", 207000)


def test_notifies_under_a_key(acl) -> None:
    notify, _ = acl.rt.create_notify(0)
    assert acl.rt.notify_set_import_pid(notify, [1]) == 107000
    key, code = acl.rt.notify_get_export_key(notify, 65, 0)
    assert code == 0
    assert acl.rt.notify_import_by_key(key, 2) == (0, 507022)
    assert acl.rt.notify_set_import_pid(notify, [os.getpid()]) == 0
    other, code = acl.rt.notify_import_by_key(key, 2)
    assert code == 0
    assert other != notify
    assert acl.rt.get_notify_id(other) == acl.rt.get_notify_id(notify)
    first, second = acl.rt.create_stream()[0], acl.rt.create_stream()[0]
    acl.rt.wait_and_reset_notify(other, first, 0)
    acl.rt.record_notify(notify, second)
    assert acl.rt.synchronize_device() == 0
    assert acl.rt.destroy_notify(notify) == 0
    assert acl.rt.destroy_notify(other) == 0
    assert acl.rt.notify_get_export_key(notify, 65, 0) == ("", 100000)


def test_physical_memory_by_number(acl) -> None:
    before = acl.rt.get_mem_info(1)[0]
    handle, _ = acl.rt.malloc_physical(2 << 20, {"location": {"id": 0, "type": 1}}, 0)
    number, code = acl.rt.mem_export_to_shareable_handle(handle, 0, 0)
    assert code == 0
    assert number
    assert acl.rt.mem_export_to_shareable_handle(handle, 2, 0) == (0, 107000)
    assert acl.rt.mem_import_from_shareable_handle(number, 0) == (0, 507022)
    assert acl.rt.mem_set_pid_to_shareable_handle(number, [os.getpid()]) == 0
    assert acl.rt.mem_import_from_shareable_handle(number, 9) == (0, 107001)
    other, code = acl.rt.mem_import_from_shareable_handle(number, 0)
    assert code == 0
    assert acl.rt.get_mem_info(1)[0] == before - (2 << 20)
    assert acl.rt.free_physical(handle) == 0
    assert acl.rt.get_mem_info(1)[0] == before - (2 << 20)
    assert acl.rt.free_physical(other) == 0
    assert acl.rt.get_mem_info(1)[0] == before
    assert acl.rt.mem_import_from_shareable_handle(number + 1, 0) == (0, 507022)


@pytest.mark.parametrize(
    ("soc", "pair", "link"),
    [
        ("Ascend910B1", (0, 7), 1),
        ("Ascend910A", (0, 3), 1),
        ("Ascend910A", (3, 4), 16),
        ("Ascend910_9392", (2, 3), 32),
        ("Ascend910_9392", (1, 2), 64),
        ("Ascend310P3", (0, 1), 2),
    ],
)
def test_links(soc, pair, link) -> None:
    reset_machine(soc, 8)
    assert acl_package.rt.get_devices_topo(*pair) == (link, 0)
    assert acl_package.rt.get_devices_topo(0, 8) == (0, 107001)


@pytest.mark.parametrize(
    ("soc", "default_s", "most_s"), [("Ascend910B1", 1091, 1091), ("Ascend910A", 545, 545), ("Ascend310P3", 69, 2182)]
)
def test_timeouts_of_operators(soc, default_s, most_s) -> None:
    rt = acl_package.rt
    reset_machine(soc, 1)
    assert rt.get_op_execute_timeout() == (0, 107002)
    rt.set_device(0)
    interval, code = rt.get_op_timeout_interval()
    assert code == 0
    assert round(rt.get_op_execute_timeout()[0] / 1000) == default_s
    assert rt.set_op_execute_timeout_v2(1) == (interval, 0)
    assert rt.set_op_execute_timeout_v2(interval + 1) == (2 * interval, 0)
    assert rt.get_op_execute_timeout() == (2 * interval // 1000, 0)
    most, _ = rt.set_op_execute_timeout_v2(0)
    assert round(most / 1e6) == most_s
    assert rt.set_op_execute_timeout_v2(1 << 60) == (most, 0)
    assert rt.set_op_execute_time_out(20) == 0
    assert 20_000 <= rt.get_op_execute_timeout()[0] < 20_000 + interval // 1000


def test_groups_exist_nowhere(acl) -> None:
    rt = acl.rt
    assert rt.create_group_info() == 0
    assert rt.get_group_count(0) == (0, 207000)
    assert rt.set_group(0) == 207000
    assert rt.get_all_group_info(0) == 100000
    assert rt.get_all_group_info(5) == 207000
    assert rt.destroy_group_info(0) == 100000
    with pytest.raises(RuntimeError, match="aclrtGetGroupInfoDetail failed"):
        rt.get_group_info_detail(0, 0, 0)


def test_nothing_to_repair(acl) -> None:
    assert acl.rt.mem_uce_repair(0, [{"addr": 0, "len": 64}]) == 0
    assert acl.rt.mem_uce_repair(0, []) == 100000
    assert acl.rt.mem_uce_repair(9, [{}]) == 107001
    with pytest.raises(TypeError, match="args parse failed"):
        acl.rt.mem_uce_repair(0, [1])
