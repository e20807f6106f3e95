"""The problems that people meet with pyACL, by their number in the collection: each is made to happen here."""

from __future__ import annotations

import gc
import inspect
import sys
import threading

import numpy as np
import pytest
from test_model_aipp import Program as AippProgram
from test_model_aipp import identity
from test_model_gears import conv_net
from test_models import VALUES, Program, add_one

import cannlab.acl as acl_package
from cannlab import atc, om
from cannlab.machine import reset_machine

COLLECTED = {1, 2, 3, 5, 6, 8, 9, 10, 12, 16, 17, 18, 20}


@pytest.fixture
def path(tmp_path) -> str:
    om.write(add_one(), tmp_path / "net.om")
    return str(tmp_path / "net.om")


def test_acl_01_no_context_in_this_thread(m, rules) -> None:
    acl = acl_package
    acl.init()
    assert acl.rt.malloc(64, 0) == (0, 107002)
    context, _ = acl.rt.create_context(0)
    codes = []

    def worker() -> None:
        codes.append(acl.rt.malloc(64, 0)[1])
        acl.rt.set_context(context)
        codes.append(acl.rt.malloc(64, 0)[1])

    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()
    assert codes == [107002, 0]
    assert rules() == ["runtime.no_context"] * 2


def test_acl_02_the_gear_input_is_forgotten(acl, tmp_path, monkeypatch, rules) -> None:
    import onnx

    monkeypatch.chdir(tmp_path)
    onnx.save(conv_net(), "net.onnx")
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend910B1"]
    assert atc.main([*words, "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,4"]) == 0
    model, _ = acl.mdl.load_from_file("net.om")
    desc = acl.mdl.create_desc()
    acl.mdl.get_desc(desc, model)
    assert acl.mdl.get_num_inputs(desc) == 2
    sides = []
    for size in (acl.mdl.get_input_size_by_index(desc, 0), acl.mdl.get_output_size_by_index(desc, 0)):
        dataset = acl.mdl.create_dataset()
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(acl.rt.malloc(size, 0)[0], size))
        sides.append(dataset)
    assert acl.mdl.execute(model, *sides) == 145000
    assert rules() == ["model.wrong_count"]
    index, _ = acl.mdl.get_input_index_by_name(desc, "ascend_mbatch_shape_data")
    size = acl.mdl.get_input_size_by_index(desc, index)
    acl.mdl.add_dataset_buffer(sides[0], acl.create_data_buffer(acl.rt.malloc(size, 0)[0], size))
    assert acl.mdl.set_dynamic_batch_size(model, sides[0], index, 4) == 0
    assert acl.mdl.execute(model, *sides) == 0


def test_acl_03_bytes_of_another_type_are_reinterpreted(acl, path) -> None:
    program = Program(acl, path)
    assert acl.mdl.get_input_data_type(program.desc, 0) == 0
    given = np.linspace(0.5, 1, 32)
    program.set(given)
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 0
    seen = given.view(np.float32)[:32].reshape(2, 16)
    assert np.allclose(program.get(0), seen + 1, rtol=2e-3, atol=2e-3)
    assert not np.allclose(program.get(0), given.reshape(2, 16) + 1, atol=0.1)


def test_acl_05_a_fault_inside_a_model(path, monkeypatch) -> None:
    m, acl = reset_machine("Ascend910B1", 1, faults="aicore@1"), acl_package
    acl.init()
    acl.rt.set_device(0)
    program = Program(acl, path)
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 507011
    assert m.record.faults[-1]["rule"] == "runtime.model_exception"
    assert "net" in acl.get_recent_err_msg()


def test_acl_06_initialised_twice(acl) -> None:
    assert acl.init() == 100002
    assert acl.finalize() == 0
    assert acl.finalize() == 100037


def test_acl_08_read_without_waiting(acl, path) -> None:
    program = Program(acl, path)
    stream, _ = acl.rt.create_stream()
    program.set(VALUES)
    acl.mdl.execute_async(program.model, program.inputs, program.outputs, stream)
    assert not program.get(0).any()
    acl.rt.synchronize_stream(stream)
    assert np.allclose(program.get(0), VALUES + 1, atol=2e-3)


def test_acl_09_aipp_changes_size_and_type_of_the_input(acl, tmp_path, rules) -> None:
    text = "aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_w: 6 src_image_size_h: 4 }"
    program = AippProgram(acl, tmp_path, identity(1), text)
    assert acl.mdl.get_input_size_by_index(program.desc, 0) == 4 * 6 * 3
    assert acl.mdl.get_input_data_type(program.desc, 0) == 4
    assert acl.mdl.get_input_format(program.desc, 0) == 1
    small, _ = acl.rt.malloc(4, 0)
    dataset = acl.mdl.create_dataset()
    acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(small, 4))
    assert acl.mdl.execute(program.model, dataset, program.outputs) == 500002
    assert rules() == ["model.small_buffer"]


def test_acl_10_a_stream_of_another_device(acl, rules) -> None:
    stream, _ = acl.rt.create_stream()
    acl.rt.set_device(1)
    device, _ = acl.rt.malloc(64, 0)
    host, _ = acl.rt.malloc_host(64)
    assert acl.rt.memcpy_async(device, 64, host, 64, 1, stream) == 107003
    assert rules() == ["runtime.stream_context"]
    acl.rt.set_device(0)
    assert acl.rt.memcpy_async(device, 64, host, 64, 1, stream) == 0


def test_acl_12_out_of_memory_and_no_size(acl, m, rules) -> None:
    made, line = [], 0
    while True:
        pointer, code = acl.rt.malloc(16 << 30, 0)
        if code:
            break
        made.append(pointer)
        line = inspect.currentframe().f_lineno - 4
    assert code == 207001
    assert len(made) == m.devices[0].memory_total // ((16 << 30) + 32)
    assert acl.rt.malloc(0, 0)[1] == 100000
    assert rules() == ["memory.out_of_memory", "memory.zero_size"]
    acl.finalize()
    (leak,) = [fault for fault in m.record.faults if fault["rule"] == "memory.leak"]
    assert leak["where"]["line"] == line
    assert leak["facts"]["count"] == len(made)


def test_acl_16_the_array_behind_a_pointer_is_gone(acl, rules) -> None:
    device, _ = acl.rt.malloc(1 << 20, 0)
    pointer = acl.util.bytes_to_ptr(bytes(bytearray(1 << 20)))
    gc.collect()
    acl.rt.memcpy(device, 1 << 20, pointer, 1 << 20, 1)
    assert rules() == ["memory.host_owner_gone"]
    kept = np.arange(64, dtype=np.int32)
    data = np.ascontiguousarray(kept[::2]).tobytes()
    assert acl.rt.memcpy(device, 128, acl.util.bytes_to_ptr(data), 128, 1) == 0
    assert rules() == []


def test_acl_17_the_wrong_direction(acl, m, rules) -> None:
    device, _ = acl.rt.malloc(64, 0)
    host = np.arange(64, dtype=np.uint8)
    assert acl.rt.memcpy(device, 64, host.ctypes.data, 64, 2) == 107000
    assert rules() == ["memory.wrong_direction"]
    assert acl.rt.memcpy(device, 64, host.ctypes.data, 64, 1) == 0


def test_acl_18_executed_after_the_unload(acl, path, rules) -> None:
    program = Program(acl, path)
    assert acl.mdl.unload(program.model) == 0
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 145003
    assert acl.mdl.execute(77, program.inputs, program.outputs) == 145003
    assert rules() == ["model.unknown_id"] * 2


def test_acl_20_the_first_use_takes_long(m, path) -> None:
    acl = acl_package
    acl.init()
    start = m.thread.now
    acl.rt.set_device(0)
    opened = m.thread.now
    program = Program(acl, path)
    prepared = m.thread.now
    acl.mdl.execute(program.model, program.inputs, program.outputs)
    assert opened - start > 100 * (m.thread.now - prepared)
    assert prepared - opened > 100 * (m.thread.now - prepared)


def test_every_problem_is_here() -> None:
    shown = {int(name.split("_")[2]) for name in vars(sys.modules[__name__]) if name.startswith("test_acl_")}
    assert shown == COLLECTED
