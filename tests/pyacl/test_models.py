"""Models: loading, describing, executing; the codes of every mistake."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import cannlab.acl as acl_package
from cannlab import om
from cannlab.om import Cost, Format, OmModel, OmTensor, Task


def add_one(soc: str = "Ascend910B1", long_name: bool = False) -> OmModel:
    """y = x + 1 on 4 floats, as the compiler would lower it; z = 2 * x."""
    x, y, z = "x" * (200 if long_name else 1), "y", "z"
    graph = helper.make_graph(
        [helper.make_node("Add", [x, "one"], [y], name="add"), helper.make_node("Mul", [x, "two"], [z], name="mul")],
        "net",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [2, 16])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 16]) for name in (y, z)],
        [
            helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
            helper.make_tensor("two", TensorProto.FLOAT, [1], [2.0]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    onnx.checker.check_model(model)
    tensor = OmTensor(x, 0, Format.ND, (2, 16))
    outputs = (OmTensor("add:0:y", 0, Format.ND, (2, 16)), OmTensor("mul:0:z", 0, Format.ND, (2, 16)))
    cost = Cost(bytes_in=128, bytes_out=128, vector_elements=32, element_bytes=4)
    tasks = (
        Task("add", "Add", "AI_VECTOR_CORE", ("add",), ("add",), (tensor,), outputs[:1], cost),
        Task("mul", "Mul", "AI_VECTOR_CORE", ("mul",), ("mul",), (tensor,), outputs[1:], cost),
    )
    return OmModel(
        name="net",
        soc=soc,
        cann="8.1",
        cannlab="0.1.0",
        inputs=(tensor,),
        outputs=outputs,
        tasks=tasks,
        graph_bytes=model.SerializeToString(),
        weight_bytes=b"",
        work_size=4096,
    )


@pytest.fixture
def path(tmp_path) -> str:
    om.write(add_one(), tmp_path / "net.om")
    return str(tmp_path / "net.om")


class Program:
    """What a program holds around one model."""

    def __init__(self, acl, path: str) -> None:
        self.acl = acl
        self.model, code = acl.mdl.load_from_file(path)
        assert code == 0
        self.desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc(self.desc, self.model) == 0
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        self.pointers = []
        for dataset, count in ((self.inputs, 1), (self.outputs, 2)):
            for _ in range(count):
                pointer, _ = acl.rt.malloc(128, 0)
                self.pointers.append(pointer)
                assert acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(pointer, 128)) == (dataset, 0)

    def set(self, values: np.ndarray) -> None:
        self.acl.rt.memcpy(self.pointers[0], 128, values.ctypes.data, 128, 1)

    def get(self, index: int) -> np.ndarray:
        out = np.zeros((2, 16), np.float32)
        assert self.acl.rt.memcpy(out.ctypes.data, 128, self.pointers[1 + index], 128, 2) == 0
        return out


VALUES = np.linspace(-3, 5, 32, dtype=np.float32).reshape(2, 16)


def test_execute(acl, m, path) -> None:
    program = Program(acl, path)
    program.set(VALUES)
    before = m.thread.now
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 0
    assert np.allclose(program.get(0), VALUES + 1, atol=2e-3)
    assert np.allclose(program.get(1), VALUES * 2, atol=2e-3)
    rows = list(m.record.tasks.rows())
    (model,) = [row for row in rows if row["kind"] == 6]
    number = rows.index(model)
    operators = [row for row in rows if row["kind"] == 7]
    assert [m.record.strings[row["name"]] for row in operators] == ["add", "mul"]
    assert all(row["parent"] == number for row in operators)
    assert operators[0]["start"] == model["start"] > before
    assert operators[0]["end"] == operators[1]["start"]
    assert operators[1]["end"] <= model["end"]


def test_execute_async_is_late(acl, path) -> None:
    program = Program(acl, path)
    stream, _ = acl.rt.create_stream()
    program.set(VALUES)
    assert acl.mdl.execute_async(program.model, program.inputs, program.outputs, stream) == 0
    assert not program.get(0).any()
    program.set(VALUES * 0)
    assert acl.rt.synchronize_stream(stream) == 0
    assert (program.get(0) == 1).all()


def test_description(acl, path, rules) -> None:
    desc = Program(acl, path).desc
    assert (acl.mdl.get_num_inputs(desc), acl.mdl.get_num_outputs(desc)) == (1, 2)
    assert acl.mdl.get_input_size_by_index(desc, 0) == acl.mdl.get_output_size_by_index(desc, 1) == 128
    assert acl.mdl.get_input_dims(desc, 0) == ({"name": "x", "dimCount": 2, "dims": [2, 16]}, 0)
    assert acl.mdl.get_output_dims(desc, 0) == ({"name": "add:0:y", "dimCount": 2, "dims": [2, 16]}, 0)
    assert acl.mdl.get_cur_output_dims(desc, 1)[0]["name"] == "mul:0:z"
    assert acl.mdl.get_output_name_by_index(desc, 1) == "mul:0:z"
    assert acl.mdl.get_input_index_by_name(desc, "x") == (0, 0)
    assert acl.mdl.get_output_index_by_name(desc, "mul:0:z") == (1, 0)
    assert (acl.mdl.get_input_format(desc, 0), acl.mdl.get_input_data_type(desc, 0)) == (2, 0)
    assert acl.mdl.get_dynamic_batch(desc) == ({"batchCount": 0, "batch": []}, 0)
    assert acl.mdl.get_dynamic_hw(desc, 77) == ({"hwCount": 0, "hw": []}, 0)
    assert acl.mdl.get_input_dynamic_gear_count(desc, -1) == (0, 0)
    assert acl.mdl.get_input_dynamic_gear_count(desc, 0) == (0, 100000)
    assert acl.mdl.get_input_dynamic_dims(desc, -1, 5000) == (None, 100000)
    rules()
    # What a bad index gives.
    assert acl.mdl.get_input_dims(desc, 1) == ({}, 100000)
    assert acl.mdl.get_cur_output_dims(desc, 2) == ({}, 100000)
    assert acl.mdl.get_output_size_by_index(desc, 2) == 0
    assert acl.mdl.get_input_name_by_index(desc, 1) == ""
    assert (acl.mdl.get_output_format(desc, 2), acl.mdl.get_output_data_type(desc, 2)) == (-1, -1)
    assert acl.mdl.get_input_index_by_name(desc, "nothing") == (0, 100000)
    assert rules() == ["model.bad_index", "model.bad_index", "model.unknown_name"]
    # What no description gives.
    assert (acl.mdl.get_num_inputs(0), acl.mdl.get_input_size_by_index(0, 0)) == (0, 0)
    assert acl.mdl.get_input_name_by_index(0, 0) == ""
    empty = acl.mdl.create_desc()
    assert acl.mdl.get_num_outputs(empty) == 0
    assert acl.mdl.get_desc(empty, 99) == 145003
    assert [acl.mdl.destroy_desc(desc), acl.mdl.destroy_desc(desc), acl.mdl.destroy_desc(0)] == [0, 100000, 100000]


def test_long_names_are_converted_and_found_again(acl, tmp_path) -> None:
    om.write(add_one(long_name=True), tmp_path / "long.om")
    desc = Program(acl, str(tmp_path / "long.om")).desc
    name = acl.mdl.get_input_dims(desc, 0)[0]["name"]
    assert len(name) < 128
    assert acl.mdl.get_tensor_real_name(desc, name) == "x" * 200
    assert acl.mdl.get_tensor_real_name(desc, "add:0:y") == "add:0:y"
    assert acl.mdl.get_tensor_real_name(desc, "nothing") is None


def test_datasets(acl) -> None:
    dataset, buffer = acl.mdl.create_dataset(), acl.create_data_buffer(0, 0)
    assert acl.mdl.add_dataset_buffer(dataset, buffer) == (dataset, 0)
    assert acl.mdl.add_dataset_buffer(dataset, 0) == (dataset, 100000)
    assert acl.mdl.add_dataset_buffer(0, buffer) == (0, 100000)
    assert acl.mdl.get_dataset_num_buffers(dataset) == 1
    assert acl.mdl.get_dataset_num_buffers(0) == 0
    assert [acl.mdl.get_dataset_buffer(dataset, index) for index in (0, 1)] == [buffer, 0]
    desc = acl.create_tensor_desc(0, [2], 2)
    assert acl.mdl.set_dataset_tensor_desc(dataset, desc, 0) == (dataset, 0)
    assert acl.mdl.set_dataset_tensor_desc(dataset, desc, 1) == (dataset, 100000)
    copy = acl.mdl.get_dataset_tensor_desc(dataset, 0)
    assert copy not in (0, desc)
    assert acl.get_tensor_desc_dim(copy, 0) == 2
    assert acl.mdl.destroy_dataset(dataset) == 0
    assert acl.mdl.destroy_dataset(dataset) == 100000
    assert acl.get_data_buffer_size(buffer) == 0
    assert acl.destroy_data_buffer(buffer) == 0
    assert acl.destroy_tensor_desc(desc) is None


def test_codes_of_loading(m, path, tmp_path, rules) -> None:
    acl = acl_package
    assert acl.mdl.load_from_file(path) == (0, 145001)
    acl.init()
    assert acl.mdl.load_from_file(path) == (0, 107002)
    acl.rt.set_device(0)
    assert acl.mdl.load_from_file(str(tmp_path / "missing.om")) == (0, 145002)
    assert acl.mdl.load_from_file(str(tmp_path)) == (0, 145002)
    data = (tmp_path / "net.om").read_bytes()
    (tmp_path / "cut.om").write_bytes(data[:-10])
    assert acl.mdl.load_from_file(str(tmp_path / "cut.om")) == (0, 145006)
    assert acl.mdl.query_size(str(tmp_path / "cut.om")) == (0, 0, 145006)
    assert acl.mdl.query_size(path) == (4096, 0, 0)
    om.write(add_one("Ascend310P3"), tmp_path / "other.om")
    assert acl.mdl.load_from_file(str(tmp_path / "other.om"))[1] != 0
    assert rules()[-1] == "om.other_soc"
    assert acl.mdl.load_from_mem(0, 10) == (0, 100000)
    pointer = acl.util.bytes_to_ptr(data)
    assert acl.mdl.load_from_mem(pointer, 0) == (0, 100000)
    assert acl.mdl.load_from_mem(pointer, len(data) - 1) == (0, 145006)
    model, code = acl.mdl.load_from_mem(pointer, len(data))
    assert code == 0
    assert acl.mdl.unload(model) == 0
    assert acl.mdl.unload(model) == 145003
    acl.finalize()
    assert acl.mdl.load_from_file(path) == (0, 145001)


def test_a_model_takes_device_memory_and_gives_it_back(acl, m, path) -> None:
    free = m.devices[0].memory_free
    model, _ = acl.mdl.load_from_file(path)
    assert free - m.devices[0].memory_free == 4096 + 32
    acl.mdl.unload(model)
    assert m.devices[0].memory_free == free
    work, _ = acl.rt.malloc(4096, 0)
    assert acl.mdl.load_from_file_with_mem(path, work, 4000, 0, 0) == (0, 145000)
    model, code = acl.mdl.load_from_file_with_mem(path, work, 4096, 0, 0)
    assert code == 0
    assert free - m.devices[0].memory_free == 4096 + 32


def test_codes_of_execute(acl, path, rules) -> None:
    program = Program(acl, path)
    run = acl.mdl.execute
    assert run(99, program.inputs, program.outputs) == 145003
    assert run(program.model, 0, program.outputs) == 100000
    assert run(program.model, program.outputs, program.outputs) == 145000
    assert run(program.model, program.inputs, program.inputs) == 145000
    assert rules() == ["model.unknown_id", "model.null_dataset", "model.wrong_count", "model.wrong_count"]
    buffer = acl.mdl.get_dataset_buffer(program.inputs, 0)
    acl.update_data_buffer(buffer, program.pointers[0], 63)
    assert run(program.model, program.inputs, program.outputs) == 500002
    assert rules() == ["model.small_buffer"]
    acl.update_data_buffer(buffer, program.pointers[0], 64)
    assert run(program.model, program.inputs, program.outputs) == 0
    array = np.zeros(32, np.float32)
    acl.update_data_buffer(buffer, array.ctypes.data, 128)
    assert run(program.model, program.inputs, program.outputs) == 507899
    assert rules() == ["model.host_buffer"]
    acl.update_data_buffer(buffer, program.pointers[0], 128)
    acl.rt.free(program.pointers[0])
    assert run(program.model, program.inputs, program.outputs) == 507899
    assert rules() == ["memory.use_after_free"]
    acl.destroy_data_buffer(buffer)
    assert run(program.model, program.inputs, program.outputs) == 100000
    assert rules() == ["runtime.stale_handle"]


def test_the_model_belongs_to_its_context(acl, path, rules) -> None:
    program = Program(acl, path)
    default, _ = acl.rt.get_context()
    acl.rt.create_context(0)
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 107004
    assert acl.mdl.unload(program.model) == 107004
    assert rules() == ["model.other_context"] * 2
    acl.rt.set_context(default)
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 0


def test_an_output_without_memory_gets_some(acl, path) -> None:
    program = Program(acl, path)
    program.set(VALUES)
    buffer = acl.mdl.get_dataset_buffer(program.outputs, 0)
    acl.update_data_buffer(buffer, 0, 0)
    assert acl.mdl.execute(program.model, program.inputs, program.outputs) == 0
    pointer = acl.get_data_buffer_addr(buffer)
    assert acl.get_data_buffer_size_v2(buffer) == 128
    program.pointers[1] = pointer
    assert np.allclose(program.get(0), VALUES + 1, atol=2e-3)
    assert acl.rt.free(pointer) == 0


def test_a_freed_input_faults_at_the_synchronisation(acl, path, rules) -> None:
    program = Program(acl, path)
    assert acl.mdl.execute_async(program.model, program.inputs, program.outputs, 0) == 0
    acl.rt.free(program.pointers[0])
    assert rules() == []
    assert acl.rt.synchronize_stream(0) == 507899
    assert rules() == ["memory.use_after_free"]


def test_a_model_without_gears_or_aipp(acl, path) -> None:
    program = Program(acl, path)
    assert acl.mdl.set_dynamic_batch_size(program.model, program.inputs, 0, 0) == 100000
    assert acl.mdl.set_dynamic_batch_size(program.model, program.inputs, 0, 4) == 145013
    assert acl.mdl.set_dynamic_hw_size(program.model, program.inputs, 0, 4, 4) == 145013
    assert acl.mdl.get_first_aipp_info(program.model, 0) == (None, 145015)


def test_finalize_names_models_that_stay(acl, path, rules) -> None:
    acl.mdl.load_from_file(path)
    acl.finalize()
    assert rules() == ["model.not_unloaded"]


def test_two_threads_execute_one_after_the_other(acl, m, path) -> None:
    program = Program(acl, path)
    context, _ = acl.rt.get_context()
    codes = []

    def other() -> None:
        acl.rt.set_context(context)
        codes.extend(acl.mdl.execute(program.model, program.inputs, program.outputs) for _ in range(5))

    threads = [threading.Thread(target=other) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0] * 10
    spans = sorted((row["start"], row["end"]) for row in m.record.tasks.rows() if row["kind"] == 6)
    assert len(spans) == 10
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
