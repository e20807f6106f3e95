"""Values in memory that streams write and wait for, copies by description, circles of streams, overflow status."""

from __future__ import annotations

import numpy as np
import pytest

import cannlab.acl as acl_package
from cannlab import om
from cannlab.machine import reset_machine
from tests.pyacl.test_dumps import add, run
from tests.pyacl.test_models import add_one

AT_LEAST, EQUAL, AND, NOR = range(4)


def device(acl, data: np.ndarray) -> int:
    pointer, code = acl.rt.malloc(data.nbytes, 0)
    assert code == 0
    source = data.tobytes()
    acl.rt.memcpy(pointer, data.nbytes, acl.util.bytes_to_ptr(source), data.nbytes, 1)
    return pointer


def host(acl, pointer: int, size: int) -> bytes:
    back, _ = acl.rt.malloc_host(size)
    acl.rt.memcpy(back, size, pointer, size, 2)
    return acl.util.ptr_to_bytes(back, size)


def number(acl, pointer: int) -> int:
    return int.from_bytes(host(acl, pointer, 8), "little")


@pytest.fixture
def streams(acl) -> tuple[int, int]:
    return acl.rt.create_stream()[0], acl.rt.create_stream()[0]


# -- values --------------------------------------------------------------------------------------------


def test_a_value_is_written_when_the_stream_comes_to_it(acl, streams) -> None:
    pointer = device(acl, np.zeros(2, np.uint64))
    assert acl.rt.value_write(pointer + 8, (1 << 63) + 5, 0, streams[0]) == 0
    assert number(acl, pointer + 8) == 0
    acl.rt.synchronize_stream(streams[0])
    assert number(acl, pointer + 8) == (1 << 63) + 5
    assert number(acl, pointer) == 0


@pytest.mark.parametrize("wait_first", [True, False])
def test_a_wait_holds_its_stream(acl, m, streams, wait_first) -> None:
    flag, data = device(acl, np.zeros(1, np.uint64)), device(acl, np.zeros(1 << 18, np.uint8))
    copy, _ = acl.rt.malloc(1 << 18, 0)
    first, second = streams

    def waiting() -> None:
        assert acl.rt.value_wait(flag, 3, AT_LEAST, second) == 0
        acl.rt.memcpy_async(copy, 1 << 18, data, 1 << 18, 3, second)

    if wait_first:
        waiting()
    acl.rt.value_write(flag, 2, 0, first)
    acl.rt.memset_async(data, 1 << 18, 7, 1 << 18, first)
    acl.rt.value_write(flag, 3, 0, first)
    if not wait_first:
        waiting()
    assert acl.rt.synchronize_stream(second) == 0
    assert set(host(acl, copy, 1 << 18)) == {7}
    strings = m.record.strings
    rows = {strings[row["name"]]: row for row in m.record.tasks.rows()}
    assert rows["ValueWait"]["start"] >= rows["MemsetAsync"]["end"]


@pytest.mark.parametrize(
    ("flag", "held", "value", "fits"),
    [
        (AT_LEAST, 5, 5, True),
        (AT_LEAST, 4, 5, False),
        (AT_LEAST, 2, (1 << 64) - 1, True),
        (EQUAL, 5, 5, True),
        (EQUAL, 6, 5, False),
        (AND, 6, 2, True),
        (AND, 5, 2, False),
        (NOR, 5, 2, True),
        (NOR, (1 << 64) - 2, 1, False),
    ],
)
def test_what_a_wait_takes(acl, streams, rules, flag, held, value, fits) -> None:
    pointer = device(acl, np.array([held], np.uint64))
    assert acl.rt.value_wait(pointer, value, flag, streams[0]) == 0
    assert acl.rt.synchronize_stream(streams[0]) == (0 if fits else 507000)
    assert rules() == ([] if fits else ["runtime.value_never_written"])


def test_bad_values(acl, streams) -> None:
    pointer = device(acl, np.zeros(2, np.uint64))
    assert acl.rt.value_write(0, 1, 0, streams[0]) == 100000
    assert acl.rt.value_write(pointer + 4, 1, 0, streams[0]) == 107000
    assert acl.rt.value_write(pointer, 1, 1, streams[0]) == 107000
    assert acl.rt.value_wait(pointer, 1, 4, streams[0]) == 107000
    back, _ = acl.rt.malloc_host(8)
    assert acl.rt.value_write(back, 1, 0, streams[0]) != 0
    acl.rt.free(pointer)
    assert acl.rt.value_wait(pointer, 1, 0, streams[0]) != 0
    reset_machine("Ascend310P3", 1)
    acl_package.rt.set_device(0)
    assert acl.rt.value_write(acl.rt.malloc(8, 0)[0], 1, 0, 0) == 207000


def test_a_circle_of_streams_ends(acl, streams, rules) -> None:
    first, second = streams
    x, y = device(acl, np.zeros(1, np.uint64)), device(acl, np.zeros(1, np.uint64))
    acl.rt.value_wait(x, 1, EQUAL, first)
    acl.rt.value_write(y, 1, 0, first)
    acl.rt.value_wait(y, 1, EQUAL, second)
    acl.rt.value_write(x, 1, 0, second)
    codes = {acl.rt.synchronize_stream(first), acl.rt.synchronize_stream(second)}
    assert 507000 in codes
    assert "runtime.stream_circle" in rules()


def test_a_circle_of_notifies_ends(acl, streams, rules) -> None:
    first, second = streams
    one, two = acl.rt.create_notify(0)[0], acl.rt.create_notify(0)[0]
    acl.rt.wait_and_reset_notify(one, first, 0)
    acl.rt.record_notify(two, first)
    acl.rt.wait_and_reset_notify(two, second, 0)
    acl.rt.record_notify(one, second)
    assert acl.rt.synchronize_device() == 507000
    assert "runtime.stream_circle" in rules()


# -- copies by description -----------------------------------------------------------------------------


def test_a_copy_reads_its_description_late(acl, streams) -> None:
    size, code = acl.rt.get_memcpy_desc_size(6)
    assert code == 0
    desc, _ = acl.rt.malloc(size, 0)
    one, two = device(acl, np.full(32, 1, np.uint8)), device(acl, np.full(32, 2, np.uint8))
    target, _ = acl.rt.malloc(32, 0)
    assert acl.rt.set_memcpy_desc(desc, 6, one, target, 32, 0) == (desc, 0)
    assert acl.rt.memcpy_async_with_desc(desc, 6, streams[0]) == 0
    assert acl.rt.set_memcpy_desc(desc, 6, two, target, 16, 0) == (desc, 0)
    assert acl.rt.synchronize_stream(streams[0]) == 0
    assert host(acl, target, 16) == b"\2" * 16


def test_bad_descriptions(acl, streams) -> None:
    size, _ = acl.rt.get_memcpy_desc_size(6)
    desc, _ = acl.rt.malloc(size, 0)
    data = device(acl, np.zeros(32, np.uint8))
    assert acl.rt.get_memcpy_desc_size(3) == (0, 100000)
    assert acl.rt.set_memcpy_desc(desc, 6, 0, data, 32, 0)[1] == 100000
    assert acl.rt.set_memcpy_desc(desc, 6, data, data, 32, 1)[1] == 107000
    assert acl.rt.set_memcpy_desc(desc, 6, data, data, 1 << 20, 0)[1] != 0
    assert acl.rt.memcpy_async_with_desc(0, 6, streams[0]) == 100000
    acl.rt.set_memcpy_desc(desc, 6, data, data + 16, 16, 0)
    acl.rt.memcpy_async_with_desc(desc, 6, streams[0])
    acl.rt.free(data)
    assert acl.rt.synchronize_stream(streams[0]) != 0
    reset_machine("Ascend910A", 1)
    acl_package.rt.set_device(0)
    assert acl.rt.get_memcpy_desc_size(6) == (0, 207000)


# -- overflow ------------------------------------------------------------------------------------------


def status(acl, stream: int = 0) -> bool:
    pointer = device(acl, np.full(64, 9, np.uint8))
    assert acl.rt.get_overflow_status(pointer, 64, stream) == 0
    acl.rt.synchronize_stream(stream)
    data = host(acl, pointer, 64)
    assert set(data[4:]) == {0}
    return any(data)


def test_overflow_of_models(acl, tmp_path) -> None:
    om.write(add_one(), tmp_path / "net.om")
    small, large = np.ones((2, 16), np.float32), np.full((2, 16), 3e38, np.float32)
    run(acl, str(tmp_path / "net.om"), large)
    assert not status(acl)
    assert acl.rt.reset_overflow_status(0) == 0
    run(acl, str(tmp_path / "net.om"), small)
    assert not status(acl)
    run(acl, str(tmp_path / "net.om"), large)
    assert status(acl)
    run(acl, str(tmp_path / "net.om"), small)
    assert status(acl)
    acl.rt.reset_overflow_status(0)
    assert not status(acl)


def test_overflow_of_operators(acl) -> None:
    stream, _ = acl.rt.create_stream()
    acl.rt.set_stream_overflow_switch(stream, 1)
    assert add(acl, stream) == 0
    assert not status(acl)
    desc = acl.create_tensor_desc(0, [4], 2)
    large = device(acl, np.full(4, 3e38, np.float32))
    buffer = acl.create_data_buffer(large, 16)
    assert acl.op.execute_v2("Add", [desc, desc], [buffer, buffer], [desc], [buffer], 0, stream) == 0
    acl.rt.synchronize_stream(stream)
    assert status(acl)


def test_bad_overflow_calls(acl) -> None:
    pointer, _ = acl.rt.malloc(64, 0)
    assert acl.rt.get_overflow_status(0, 64, 0) == 100000
    assert acl.rt.get_overflow_status(pointer, 32, 0) == 100000
    assert acl.rt.get_overflow_status(acl.rt.malloc_host(64)[0], 64, 0) != 0
