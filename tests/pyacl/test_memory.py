"""Memory: codes of pyACL, diagnoses of cannlab with both places, laziness of asynchronous copies."""

from __future__ import annotations

import ctypes
import gc
import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cannlab.acl as acl_package
from cannlab.machine import reset_machine

ROOT = Path(__file__).parents[2]


def line_before() -> int:
    """The number of the line above the one that asks."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno - 1


def places(fault: dict) -> dict[str, int]:
    return {"here": fault["where"]["line"], **{part: place["line"] for part, place in fault["others"]}}


def put(acl, pointer: int, data: bytes) -> None:
    assert acl.rt.memcpy(pointer, len(data), acl.util.bytes_to_ptr(data), len(data), 1) == 0


def get(acl, pointer: int, size: int) -> bytes:
    out = bytearray(size)
    view = np.frombuffer(out, np.uint8)
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(view), size, pointer, size, 2) == 0
    return bytes(out)


@pytest.mark.parametrize("size", [1, 31, 64, 100, 4096, 32 << 10, 1 << 20])
def test_addresses_are_64_aligned_and_bytes_come_back(acl, size) -> None:
    pointer, code = acl.rt.malloc(size, 0)
    assert code == 0
    assert pointer % 64 == 0
    data = bytes(range(256)) * (size // 256 + 1)
    put(acl, pointer, data[:size])
    assert get(acl, pointer, size) == data[:size]
    assert acl.rt.free(pointer) == 0


def test_capacity_and_rounding(acl, m, rules) -> None:
    free, total, code = acl.rt.get_mem_info(1)
    assert (free, total, code) == (m.soc.memory_bytes, m.soc.memory_bytes, 0)
    pointer, _ = acl.rt.malloc(33, 0)
    assert acl.rt.get_mem_info(1)[0] == free - (64 + 32)
    other, _ = acl.rt.malloc_align32(33, 0)
    assert acl.rt.get_mem_info(1)[0] == free - (64 + 32) - 64
    acl.rt.free(pointer)
    acl.rt.free(other)
    assert acl.rt.get_mem_info(1)[0] == free
    assert acl.rt.malloc(total, 0) == (0, 207001)
    assert rules() == ["memory.out_of_memory"]
    assert acl.rt.get_mem_info(99) == (0, 0, 107016)


def test_a_block_of_the_whole_device_is_lazy(acl, m) -> None:
    pointer, code = acl.rt.malloc(m.soc.memory_bytes - 32, 0)
    assert code == 0
    put(acl, pointer + (30 << 30), b"far away")
    assert get(acl, pointer + (30 << 30), 8) == b"far away"
    assert acl.rt.free(pointer) == 0


def test_plain_refusals(acl) -> None:
    assert acl.rt.malloc(0, 0) == (0, 100000)
    assert acl.rt.malloc_host(0) == (0, 100000)
    assert acl.rt.free(0) == 100000
    assert acl.rt.free_host(0) == 100000
    assert acl.media.dvpp_malloc(0) == (0, 100000)


def test_memcpy_checks_in_the_real_order(acl) -> None:
    device, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    assert acl.rt.memcpy(0, 0, 0, 0, 9) == 0
    assert acl.rt.memcpy(0, 64, host, 8, 9) == 100000
    assert acl.rt.memcpy(device, 64, host, 8, 6) == 100000
    assert acl.rt.memcpy(device, 64, host, 8, -1) == 100000
    assert acl.rt.memcpy(device, 0, host, 8, 1) == 107000
    assert acl.rt.memcpy(device, 8, host, 9, 1) == 107000
    assert acl.rt.memcpy(device, 64, device, 64, 3) == 0
    assert acl.rt.memcpy_async(host, 64, host + 8, 8, 0, 0) == 207000


def test_use_after_free_names_all_three_lines(acl, m) -> None:
    pointer, _ = acl.rt.malloc(64, 0)
    made = line_before()
    acl.rt.free(pointer)
    freed = line_before()
    out = np.zeros(64, np.uint8)
    address = acl.util.numpy_to_ptr(out)
    assert acl.rt.memcpy(address, 64, pointer, 64, 2) == 507899
    used = line_before()
    (fault,) = m.record.faults
    assert fault["rule"] == "memory.use_after_free"
    assert places(fault) == {"here": used, "allocated at": made, "freed at": freed}
    assert fault["where"]["file"] == "test_memory.py"
    assert not out.any()


def test_double_free(acl, m) -> None:
    pointer, _ = acl.rt.malloc(64, 0)
    made = line_before()
    acl.rt.free(pointer)
    freed = line_before()
    assert acl.rt.free(pointer) == 207002
    (fault,) = m.record.faults
    assert fault["rule"] == "memory.double_free"
    assert places(fault) | {"here": 0} == {"here": 0, "allocated at": made, "freed at": freed}


def test_the_wrong_family_and_the_middle_and_the_unknown(acl, rules) -> None:
    device, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    dvpp, _ = acl.media.dvpp_malloc(64)
    assert dvpp % 128 == 0
    assert [acl.rt.free(host), acl.rt.free_host(device), acl.rt.free(dvpp), acl.media.dvpp_free(device)] == [207002] * 4
    assert rules() == ["memory.wrong_free"] * 4
    assert acl.rt.free(device + 32) == 207002
    assert rules() == ["memory.free_inside"]
    assert acl.rt.free(0xDEAD0000) == 207002
    assert rules() == ["memory.free_unknown"]
    assert [acl.rt.free(device), acl.rt.free_host(host), acl.media.dvpp_free(dvpp)] == [0, 0, 0]


def test_out_of_range(acl, m, rules) -> None:
    small, _ = acl.rt.malloc(64, 0)
    acl.rt.malloc(64, 0)
    data = bytes(4096)
    address = acl.util.bytes_to_ptr(data)
    assert acl.rt.memcpy(small, 4096, address, 97, 1) == 507899
    assert rules() == ["memory.out_of_range"]
    assert m.record.faults[-1]["facts"]["past"] == 33
    assert acl.rt.memcpy(small, 4096, address, 96, 1) == 0
    assert rules() == ["memory.past_requested"]
    assert acl.rt.memcpy(small + 100, 4096, address, 4, 1) == 507899
    assert rules() == ["memory.out_of_range"]
    assert acl.rt.memcpy(small + 32, 32, address, 32, 1) == 0
    assert rules() == []
    big, _ = acl.rt.malloc(1 << 20, 0)
    assert acl.rt.memset(big, 2 << 20, 0, (1 << 20) + 33) == 507899
    assert acl.rt.memcpy(address, 4096, address, 5000, 0) == 107000
    short = np.zeros(16, np.uint8)
    assert acl.rt.memcpy(acl.util.numpy_to_ptr(short), 64, small, 64, 2) == 507899
    assert rules() == ["memory.out_of_range", "memory.dest_max", "memory.host_out_of_range"]


def test_directions(acl, rules) -> None:
    device, _ = acl.rt.malloc(64, 0)
    pinned, _ = acl.rt.malloc_host(64)
    array = np.arange(64, dtype=np.uint8)
    address = acl.util.numpy_to_ptr(array)
    # Ordinary host memory is unknown to the driver: nothing is corrected, nothing is copied.
    assert acl.rt.memcpy(device, 64, address, 64, 2) == 107000
    assert acl.rt.memcpy(address, 64, device, 64, 1) == 107000
    assert acl.rt.memcpy(device, 64, address, 64, 3) == 107000
    assert rules() == ["memory.wrong_direction"] * 3
    assert array.tolist() == list(range(64))
    assert acl.rt.memcpy(pinned, 64, address, 64, 0) == 0
    # Both known: the runtime corrects the direction.
    assert acl.rt.memcpy(device, 64, pinned, 64, 2) == 0
    assert rules() == ["memory.corrected_direction"]
    assert get(acl, device, 64) == bytes(range(64))
    assert acl.rt.memcpy(device, 64, address, 64, 4) == 0
    assert rules() == []


@pytest.mark.parametrize("address", [8, 0xDEAD0000, 1 << 63, (1 << 64) - 1, 0xA000_0000_0000_0010])
def test_invented_pointers_never_crash(acl, rules, address) -> None:
    device, _ = acl.rt.malloc(64, 0)
    assert acl.rt.memcpy(device, 64, address, 64, 1) == 507899
    assert acl.rt.memcpy(address, 64, device, 64, 2) == 507899
    assert acl.rt.memset(address, 64, 1, 64) == 507899
    assert acl.rt.memset_async(address, 64, 1, 64, 0) == 507899
    assert rules() == ["memory.bad_pointer"] * 4
    with pytest.raises(ValueError, match="Not a pointer"):
        acl.util.ptr_to_bytes(address, 8)
    with pytest.raises(ValueError, match="Not a pointer"):
        acl.util.ptr_to_numpy(address, (8,), 2)


def test_unknown_host_pointers_are_probed(acl, rules) -> None:
    device, _ = acl.rt.malloc(1 << 20, 0)
    array = np.arange(1 << 18, dtype=np.uint32)
    assert acl.rt.memcpy(device, 1 << 20, array.ctypes.data, 1 << 20, 1) == 0
    back = np.zeros_like(array)
    assert acl.rt.memcpy(back.ctypes.data, 1 << 20, device, 1 << 20, 2) == 0
    assert (back == array).all()
    assert rules() == []


def test_read_only_host_memory_is_not_written(acl, tmp_path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 8192)
    mapped = np.memmap(path, np.uint8, "r")
    device, _ = acl.rt.malloc(64, 0)
    assert acl.rt.memcpy(device, 64, mapped.ctypes.data, 64, 1) == 0
    assert acl.rt.memcpy(mapped.ctypes.data, 64, device, 64, 2) == 507899


def test_host_and_device_pointers_confused(acl, rules) -> None:
    array = np.zeros(64, np.uint8)
    assert acl.rt.memset_async(acl.util.numpy_to_ptr(array), 64, 1, 64, 0) == 107000
    assert rules() == ["memory.not_device"]
    device, _ = acl.rt.malloc(64, 0)
    put(acl, device, bytes(range(64)))
    assert acl.util.ptr_to_bytes(device, 4) == bytes(range(4))
    assert rules() == ["memory.device_view"]
    view = acl.util.ptr_to_numpy(device, (64,), 2)
    assert view[5] == 5
    assert rules() == ["memory.device_view"]


def test_bytes_are_changed_in_place(acl) -> None:
    device, _ = acl.rt.malloc(64, 0)
    put(acl, device, b"q" * 64)
    out = bytes(64)
    assert acl.rt.memcpy(acl.util.bytes_to_ptr(out), 64, device, 64, 2) == 0
    assert out == b"q" * 64


def test_numpy_helpers(acl) -> None:
    host, _ = acl.rt.malloc_host(48)
    view = acl.util.ptr_to_numpy(host, (3, 4), 11)
    view[:] = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert acl.util.ptr_to_bytes(host, 48) == view.tobytes()
    for wrong in ([3, 4], 12, (3, "4")):
        with pytest.raises(TypeError, match=r"acl\.util\.ptr_to_numpy args parse failed"):
            acl.util.ptr_to_numpy(host, wrong, 11)
    for function, wrong in (("numpy_to_ptr", b""), ("bytes_to_ptr", np.zeros(3)), ("bytes_to_ptr", bytearray(3))):
        with pytest.raises(ValueError, match=function):
            getattr(acl.util, function)(wrong)
    strided = np.arange(20)[::2]
    pointer, array = acl.util.numpy_contiguous_to_ptr(strided)
    assert pointer == array.ctypes.data
    assert array.flags.c_contiguous
    with pytest.warns(Warning, match="deprecated"):
        acl.util.numpy_to_ptr(array)
    with pytest.warns(Warning, match="not contiguous"):
        acl.util.numpy_to_ptr(strided)


def test_a_view_outlives_its_block_and_the_program_does_not_crash(acl, m) -> None:
    pointer, _ = acl.rt.malloc_host(1 << 20)
    view = acl.util.ptr_to_numpy(pointer, (1 << 18,), 11)
    view[:] = 3
    acl.rt.free_host(pointer)
    assert np.isnan(view).all()
    acl.finalize()
    gc.collect()
    assert np.isnan(view).all()


def test_an_array_that_is_gone(acl, rules) -> None:
    device, _ = acl.rt.malloc(64, 0)
    pointer = acl.util.numpy_to_ptr(np.ones(64, np.uint8))
    acl.rt.memcpy(device, 64, pointer, 64, 1)
    assert rules() == ["memory.host_owner_gone"]
    pointer = acl.util.bytes_to_ptr(np.full(64, 9, np.uint8).tobytes())
    assert acl.rt.memcpy(device, 64, pointer, 64, 1) == 0
    assert rules() == ["memory.host_owner_gone"]
    assert get(acl, device, 64) == b"\x09" * 64
    kept = np.ones(64, np.uint8)
    view = kept[::1].reshape(8, 8)
    pointer = acl.util.numpy_to_ptr(view)
    del view
    assert acl.rt.memcpy(device, 64, pointer, 64, 1) == 0
    assert rules() == []


def test_asynchronous_copies_with_pinned_memory_are_late(acl) -> None:
    device, _ = acl.rt.malloc(64, 0)
    back, _ = acl.rt.malloc_host(64)
    pinned, _ = acl.rt.malloc_host(64)
    acl.rt.memset(back, 64, 0, 64)
    source = acl.util.ptr_to_numpy(pinned, (64,), 2)
    source[:] = 1
    stream, _ = acl.rt.create_stream()
    assert acl.rt.memcpy_async(device, 64, pinned, 64, 1, stream) == 0
    assert acl.rt.memcpy_async(back, 64, device, 64, 2, stream) == 0
    result = acl.util.ptr_to_numpy(back, (64,), 2)
    assert not result.any()
    source[:] = 2
    assert acl.rt.synchronize_stream(stream) == 0
    assert (result == 2).all()


def test_asynchronous_copies_with_ordinary_memory_wait_for_the_stream(acl) -> None:
    device, _ = acl.rt.malloc(64, 0)
    pinned, _ = acl.rt.malloc_host(64)
    acl.rt.memset(pinned, 64, 5, 64)
    acl.rt.memcpy_async(device, 64, pinned, 64, 1, 0)
    out = np.zeros(64, np.uint8)
    assert acl.rt.memcpy_async(acl.util.numpy_to_ptr(out), 64, device, 64, 2, 0) == 0
    assert (out == 5).all()


def test_memcpy_waits_for_no_stream(acl) -> None:
    device, _ = acl.rt.malloc(64, 0)
    acl.rt.memset(device, 64, 1, 64)
    acl.rt.memset_async(device, 64, 2, 64, 0)
    assert get(acl, device, 64) == b"\x01" * 64
    acl.rt.synchronize_device()
    assert get(acl, device, 64) == b"\x02" * 64


def test_memory_freed_under_a_queued_copy_faults_at_the_synchronisation(acl, m) -> None:
    device, _ = acl.rt.malloc(64, 0)
    pinned, _ = acl.rt.malloc_host(64)
    acl.rt.memcpy_async(device, 64, pinned, 64, 1, 0)
    queued = line_before()
    assert acl.rt.free(device) == 0
    assert m.record.faults == []
    assert acl.rt.synchronize_stream(0) == 507899
    found = line_before()
    (fault,) = m.record.faults
    assert fault["rule"] == "memory.use_after_free"
    assert places(fault)["here"] == queued
    assert places(fault)["found at"] == found
    assert acl.rt.synchronize_stream(0) == 0


def test_reading_pinned_memory_early_gives_the_old_bytes_and_is_reported(acl, m, rules) -> None:
    device, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    stream, _ = acl.rt.create_stream()
    acl.rt.memset(device, 64, 7, 64)
    acl.rt.memset(host, 64, 1, 64)
    acl.rt.memcpy_async(host, 64, device, 64, 2, stream)
    queued = line_before()
    assert acl.util.ptr_to_bytes(host, 2) == bytes([1, 1])
    read = line_before()
    assert rules() == ["memory.host_in_flight"]
    assert places(m.record.faults[-1]) == {"here": read, "copy queued at": queued}
    acl.rt.synchronize_stream(stream)
    assert acl.util.ptr_to_bytes(host, 2) == bytes([7, 7])
    assert rules() == []


def test_pinned_memory_in_flight(acl, m, rules) -> None:
    device, _ = acl.rt.malloc(64, 0)
    pinned, _ = acl.rt.malloc_host(64)
    acl.rt.memcpy_async(device, 64, pinned, 32, 1, 0)
    queued = line_before()
    acl.rt.memset(pinned + 32, 32, 1, 32)
    assert rules() == []
    acl.rt.memset(pinned + 31, 32, 1, 32)
    assert rules() == ["memory.host_in_flight"]
    assert places(m.record.faults[-1])["copy queued at"] == queued
    acl.rt.memcpy(device, 64, pinned, 32, 1)
    assert rules() == []
    acl.rt.free_host(pinned)
    assert rules() == ["memory.host_in_flight"]
    acl.rt.synchronize_stream(0)
    other, _ = acl.rt.malloc_host(64)
    acl.rt.memcpy_async(device, 64, other, 64, 1, 0)
    acl.rt.synchronize_stream(0)
    rules()
    acl.rt.memset(other, 64, 1, 64)
    assert acl.rt.free_host(other) == 0
    assert rules() == []


def test_memset(acl) -> None:
    device, _ = acl.rt.malloc(64, 0)
    assert acl.rt.memset(0, 0, 0, 0) == 0
    assert acl.rt.memset(0, 64, 0, 4) == 100000
    assert acl.rt.memset(device, 8, 0, 9) == 107000
    assert acl.rt.memset_async(device, 8, 0, 9, 0) == 107000
    assert acl.rt.memset(device, 64, 0x1FF, 64) == 0
    assert get(acl, device, 64) == b"\xff" * 64


def test_memcpy2d(acl) -> None:
    device, _ = acl.rt.malloc(160, 0)
    acl.rt.memset(device, 160, 0, 160)
    source = np.arange(30, dtype=np.uint8)
    address = acl.util.numpy_to_ptr(source)
    assert acl.rt.memcpy2d(device, 16, address, 10, 11, 3, 1) == 100000
    assert acl.rt.memcpy2d(device, 16, address, 10, 10, 3, 0) == 100000
    assert acl.rt.memcpy2d(device, 16, address, 10, 0, 3, 1) == 0
    assert acl.rt.memcpy2d(device, 16, address, 10, 8, 3, 1) == 0
    rows = np.frombuffer(get(acl, device, 48), np.uint8).reshape(3, 16)
    assert (rows[:, :8] == source.reshape(3, 10)[:, :8]).all()
    assert not rows[:, 8:].any()
    assert acl.rt.memcpy2d(device, 16, address, 10, 8, 4, 1) == 507899


def test_leaks_are_reported_at_finalize_with_their_line(acl, m) -> None:
    kept = []
    for _ in range(3):
        kept.append(acl.rt.malloc(100, 0))
        made = line_before()
    acl.rt.malloc_host(50)
    acl.rt.free(acl.rt.malloc(10, 0)[0])
    assert acl.finalize() == 0
    first, second = m.record.faults
    assert (first["rule"], first["where"]["line"]) == ("memory.leak", made)
    assert (first["facts"]["count"], first["facts"]["size"]) == (3, 300)
    assert second["facts"]["size"] == 50
    assert acl.finalize() == 100037
    assert len(m.record.faults) == 3


def test_leaks_are_reported_at_exit_when_finalize_is_forgotten(tmp_path) -> None:
    program = tmp_path / "forgetful.py"
    program.write_text("import cannlab.acl as acl\nacl.rt.set_device(0)\nacl.rt.malloc(64, 0)\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CANNLAB_DIAGNOSES": ""}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    assert "forgetful.py, line 3" in done.stderr
    assert "never freed" in done.stderr


def test_it_works_under_an_address_space_limit(tmp_path) -> None:
    program = tmp_path / "limited.py"
    program.write_text(
        "import resource\n"
        "import cannlab.acl as acl\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20),) * 2)\n"
        "acl.rt.set_device(0)\n"
        "for round in range(8):\n"
        "    pointer, code = acl.rt.malloc(400 << 20, 0)\n"
        "    assert code == 0, (round, code)\n"
        "    assert acl.rt.memset(pointer, 64, 1, 64) == 0\n"
        "    assert acl.rt.free(pointer) == 0\n"
        "first, code = acl.rt.malloc(400 << 20, 0)\n"
        "assert acl.rt.malloc(400 << 20, 0) == (0, 207001)\n"
        "assert acl.rt.free(first) == 0\n"
        "assert acl.rt.free(pointer) == 207002\n"
        "print('fine')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CANNLAB_DIAGNOSES": "off", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr


def test_quarantine_is_bounded(m) -> None:
    acl_package.rt.set_device(0)
    for _ in range(400):
        pointer, code = acl_package.rt.malloc(4 << 20, 0)
        assert code == 0
        assert acl_package.rt.free(pointer) == 0
    mapped = {id(block.mapping): block.footprint for block in m.memory.blocks if block.mapping is not None}
    assert sum(mapped.values()) <= (256 + 64 + 8) << 20


def test_old_pointers_stay_known_after_much_traffic(m, rules) -> None:
    acl_package.rt.set_device(0)
    first, _ = acl_package.rt.malloc(64, 0)
    acl_package.rt.free(first)
    for _ in range(1000):
        acl_package.rt.free(acl_package.rt.malloc(64, 0)[0])
    assert acl_package.rt.free(first) == 207002
    assert rules() == ["memory.double_free"]


def test_two_devices(m, acl) -> None:
    one, _ = acl.rt.malloc(64, 0)
    acl.rt.set_device(1)
    two, _ = acl.rt.malloc(64, 0)
    assert m.devices[0].memory_used == m.devices[1].memory_used == 96
    put(acl, one, b"p" * 64)
    assert acl.rt.device_enable_peer_access(0, 0) == 0
    assert acl.rt.memcpy(two, 64, one, 64, 3) == 0
    assert get(acl, two, 64) == b"p" * 64
    kinds = [row["kind"] for row in m.record.tasks.rows()]
    assert 13 in kinds


def test_nothing_recorded_names_an_address(acl, m) -> None:
    pointer, _ = acl.rt.malloc(64, 0)
    acl.rt.free(pointer)
    acl.rt.free(pointer)
    acl.rt.memcpy(pointer, 64, 12345, 64, 1)
    tables = (m.record.calls, m.record.tasks, m.record.memory)
    numbers = {int(cell) for table in tables for cell in table.array().ravel()}
    assert pointer not in numbers
    assert str(pointer) not in str(m.record.faults)
    assert hex(pointer) not in str(m.record.faults)


def test_blocking_launches_report_at_the_call(monkeypatch) -> None:
    monkeypatch.setenv("ASCEND_LAUNCH_BLOCKING", "1")
    reset_machine("Ascend910B1", 1)
    acl_package.rt.set_device(0)
    device, _ = acl_package.rt.malloc(64, 0)
    pinned, _ = acl_package.rt.malloc_host(64)
    ctypes.memset(pinned, 4, 64)
    assert acl_package.rt.memcpy_async(device, 64, pinned, 64, 1, 0) == 0
    assert get(acl_package, device, 64) == b"\x04" * 64
