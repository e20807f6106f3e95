"""Models with gears and with ranges, from atc to acl: shapes, sizes, numbers, codes, cost."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannlab import atc, om

sys.path.append(str(Path(__file__).parent))

SOC = "Ascend910B1"


def conv_net() -> onnx.ModelProto:
    """Conv, Relu, mean over H and W, MatMul: any batch, any image size."""
    rng = np.random.default_rng(3)
    weights = {
        "w": (rng.standard_normal((8, 3, 3, 3)) * 0.3).astype(np.float32),
        "v": (rng.standard_normal((8, 5)) * 0.3).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "v"], ["y"], "fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def sequence_net() -> onnx.ModelProto:
    """Two inputs (b, t): softmax(a b') b, with a Shape -> Reshape chain that must not be folded."""
    nodes = [
        helper.make_node("Transpose", ["b"], ["bt"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "bt"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=2),
        helper.make_node("MatMul", ["p", "b"], ["o"], "mix"),
        helper.make_node("Shape", ["o"], ["dims"], "dims"),
        helper.make_node("Gather", ["dims", "zero"], ["batch"], "batch", axis=0),
        helper.make_node("Concat", ["batch", "rest"], ["target"], "target", axis=0),
        helper.make_node("Reshape", ["o", "target"], ["y"], "flat"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "t", 4]) for name in ("a", "b")],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "k"])],
        [
            numpy_helper.from_array(np.array([0], np.int64), "zero"),
            numpy_helper.from_array(np.array([-1], np.int64), "rest"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture
def convert(tmp_path, monkeypatch):
    """Compile a model with options; the path of the om."""
    monkeypatch.chdir(tmp_path)

    def run(model: onnx.ModelProto, *options: str) -> str:
        onnx.save(model, "net.onnx")
        base = ("--model=net.onnx", "--framework=5", "--output=net", f"--soc_version={SOC}")
        assert atc.main([*base, *options]) == 0
        return "net.om"

    return run


def reference(model: onnx.ModelProto, *inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([item.name for item in session.get_inputs()], inputs, strict=True)))[0]


class Program:
    """Loads a model and gives every input and output a buffer of the size that the description says."""

    def __init__(self, acl, path: str) -> None:
        self.acl = acl
        self.model, code = acl.mdl.load_from_file(path)
        assert code == 0
        self.desc = acl.mdl.create_desc()
        assert acl.mdl.get_desc(self.desc, self.model) == 0
        self.inputs, self.in_pointers = self.dataset("input")
        self.outputs, self.out_pointers = self.dataset("output")

    def dataset(self, side: str) -> tuple[int, list[int]]:
        mdl = self.acl.mdl
        made, pointers = mdl.create_dataset(), []
        for index in range(getattr(mdl, f"get_num_{side}s")(self.desc)):
            size = getattr(mdl, f"get_{side}_size_by_index")(self.desc, index)
            pointer = self.acl.rt.malloc(size, 0)[0] if size else 0
            pointers.append(pointer)
            assert mdl.add_dataset_buffer(made, self.acl.create_data_buffer(pointer, size))[1] == 0
        return made, pointers

    def feed(self, index: int, array: np.ndarray) -> None:
        data = np.ascontiguousarray(array)
        if not self.in_pointers[index]:
            self.in_pointers[index], _ = self.acl.rt.malloc(data.nbytes, 0)
            buffer = self.acl.mdl.get_dataset_buffer(self.inputs, index)
            assert self.acl.update_data_buffer(buffer, self.in_pointers[index], data.nbytes) == 0
        pointer = self.in_pointers[index]
        assert self.acl.rt.memcpy(pointer, data.nbytes, data.ctypes.data, data.nbytes, 1) == 0

    def execute(self) -> int:
        return self.acl.mdl.execute(self.model, self.inputs, self.outputs)

    def fetch(self, shape: tuple[int, ...]) -> np.ndarray:
        out = np.zeros(shape, np.float32)
        buffer = self.acl.mdl.get_dataset_buffer(self.outputs, 0)
        pointer = self.acl.get_data_buffer_addr(buffer)
        assert self.acl.rt.memcpy(out.ctypes.data, out.nbytes, pointer, out.nbytes, 2) == 0
        return out

    @property
    def gear_index(self) -> int:
        index, code = self.acl.mdl.get_input_index_by_name(self.desc, "ascend_mbatch_shape_data")
        assert code == 0
        return index


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


# -- gears ---------------------------------------------------------------------------------------------------


def test_batch_gears(acl, m, convert, rules) -> None:
    model = conv_net()
    path = convert(model, "--input_shape=x:-1,3,8,12", "--dynamic_batch_size=1,2,8")
    program, mdl = Program(acl, path), acl.mdl
    desc, gear = program.desc, program.gear_index
    assert mdl.get_num_inputs(desc) == 2
    assert mdl.get_input_dims(desc, 0)[0]["dims"] == [-1, 3, 8, 12]
    assert mdl.get_input_size_by_index(desc, 0) == 8 * 3 * 8 * 12 * 4
    assert mdl.get_input_size_by_index(desc, gear) == 4
    assert mdl.get_output_size_by_index(desc, 0) == 8 * 5 * 4
    assert mdl.get_dynamic_batch(desc) == ({"batchCount": 3, "batch": [1, 2, 8]}, 0)
    assert mdl.get_dynamic_hw(desc, -1) == ({"hwCount": 0, "hw": []}, 0)
    assert mdl.get_input_dynamic_gear_count(desc, -1) == (0, 0)
    assert mdl.get_cur_output_dims(desc, 0)[0]["dims"] == [8, 5]
    times = {}
    for batch in (2, 8, 1):
        x = images(batch, 3, 8, 12)
        program.feed(0, x)
        assert mdl.set_dynamic_batch_size(program.model, program.inputs, gear, batch) == 0
        assert mdl.get_cur_output_dims(desc, 0)[0]["dims"] == [batch, 5]
        before = m.thread.now
        assert program.execute() == 0
        times[batch] = m.thread.now - before
        np.testing.assert_allclose(program.fetch((batch, 5)), reference(model, x), rtol=5e-3, atol=5e-3)
    assert times[1] < times[2] < times[8]
    assert rules() == []


def test_a_smaller_gear_leaves_the_rest_alone(acl, convert) -> None:
    program = Program(acl, convert(conv_net(), "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,4"))
    program.feed(0, images(4, 3, 8, 8))
    filled = np.full((4, 5), 7, np.float32)
    acl.rt.memcpy(program.out_pointers[0], filled.nbytes, filled.ctypes.data, filled.nbytes, 1)
    acl.mdl.set_dynamic_batch_size(program.model, program.inputs, program.gear_index, 1)
    assert program.execute() == 0
    out = program.fetch((4, 5))
    assert (out[1:] == 7).all()
    assert (out[0] != 7).all()


def test_without_a_gear_the_largest_runs(acl, convert) -> None:
    model = conv_net()
    program = Program(acl, convert(model, "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=4,2"))
    x = images(4, 3, 8, 8)
    program.feed(0, x)
    assert program.execute() == 0
    np.testing.assert_allclose(program.fetch((4, 5)), reference(model, x), rtol=5e-3, atol=5e-3)


def test_codes_of_batch_gears(acl, convert, rules) -> None:
    program = Program(acl, convert(conv_net(), "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,4"))
    choose, model, gear = acl.mdl.set_dynamic_batch_size, program.model, program.gear_index
    assert choose(model, program.inputs, gear, 0) == 100000
    assert choose(model, program.inputs, gear, 3) == 145013
    assert choose(model, program.inputs, 0, 4) == 100000
    assert acl.mdl.set_dynamic_hw_size(model, program.inputs, gear, 8, 8) == 145013
    buffer = acl.mdl.get_dataset_buffer(program.inputs, gear)
    acl.update_data_buffer(buffer, program.in_pointers[gear], 3)
    assert choose(model, program.inputs, gear, 4) == 145012
    acl.update_data_buffer(buffer, 0, 4)
    assert choose(model, program.inputs, gear, 4) == 145011
    assert rules()[1:] == [
        "model.no_gear",
        "model.gear_index",
        "model.not_dynamic",
        "model.gear_length",
        "model.gear_address",
    ]


def test_a_wide_buffer_takes_wide_numbers(acl, convert) -> None:
    program = Program(acl, convert(conv_net(), "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,4"))
    gear = program.gear_index
    wide, _ = acl.rt.malloc(8, 0)
    acl.update_data_buffer(acl.mdl.get_dataset_buffer(program.inputs, gear), wide, 8)
    assert acl.mdl.set_dynamic_batch_size(program.model, program.inputs, gear, 4) == 0
    out = np.zeros(1, np.uint64)
    acl.rt.memcpy(out.ctypes.data, 8, wide, 8, 2)
    assert out[0] == 4


def test_image_gears(acl, convert) -> None:
    model = conv_net()
    path = convert(model, "--input_shape=x:2,3,-1,-1", "--dynamic_image_size=8,8;16,24")
    program, mdl = Program(acl, path), acl.mdl
    assert mdl.get_dynamic_hw(program.desc, -1) == ({"hwCount": 2, "hw": [[8, 8], [16, 24]]}, 0)
    assert mdl.get_input_dims(program.desc, 0)[0]["dims"] == [2, 3, -1, -1]
    assert mdl.get_input_size_by_index(program.desc, 0) == 2 * 3 * 16 * 24 * 4
    for height, width in ((8, 8), (16, 24)):
        x = images(2, 3, height, width)
        program.feed(0, x)
        assert mdl.set_dynamic_hw_size(program.model, program.inputs, program.gear_index, height, width) == 0
        assert program.execute() == 0
        np.testing.assert_allclose(program.fetch((2, 5)), reference(model, x), rtol=5e-3, atol=5e-3)
    assert mdl.set_dynamic_hw_size(program.model, program.inputs, program.gear_index, 24, 16) == 145013


def test_dims_gears(acl, convert) -> None:
    model = sequence_net()
    options = ("--input_shape=a:-1,-1,4;b:-1,-1,4", "--dynamic_dims=1,3,1,3;2,5,2,5", "--input_format=ND")
    program, mdl = Program(acl, convert(model, *options)), acl.mdl
    assert mdl.get_input_dynamic_gear_count(program.desc, -1) == (2, 0)
    dims, code = mdl.get_input_dynamic_dims(program.desc, -1, 2)
    assert code == 0
    assert [entry["dims"] for entry in dims] == [[1, 3, 4, 1, 3, 4], [2, 5, 4, 2, 5, 4]]
    assert mdl.get_input_dynamic_dims(program.desc, -1, 1)[1] == 100000
    index = program.gear_index
    for entry in dims:
        batch, steps = entry["dims"][:2]
        a, b = images(batch, steps, 4), images(batch, steps, 4) - 0.5
        program.feed(0, a)
        program.feed(1, b)
        assert mdl.set_input_dynamic_dims(program.model, program.inputs, index, entry) == 0
        assert program.execute() == 0
        assert mdl.get_cur_output_dims(program.desc, 0)[0]["dims"] == [batch, steps * 4]
        np.testing.assert_allclose(program.fetch((batch, steps * 4)), reference(model, a, b), rtol=5e-3, atol=5e-3)
    choose = mdl.set_input_dynamic_dims
    assert choose(program.model, program.inputs, index, {"dimCount": 0, "dims": []}) == 100000
    assert choose(program.model, program.inputs, index, {"dimCount": 4, "dims": [1, 3, 1, 3]}) == 145012
    assert choose(program.model, program.inputs, index, {"dimCount": 6, "dims": [1, 3, 5, 1, 3, 4]}) == 145012
    assert choose(program.model, program.inputs, index, {"dimCount": 6, "dims": [1, 5, 4, 1, 5, 4]}) == 145013
    with pytest.raises(TypeError):
        choose(program.model, program.inputs, index, [1, 3])


def test_gears_share_their_weights(convert) -> None:
    path = convert(conv_net(), "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,2,4,8")
    many = om.read(path)
    single = om.read(convert(conv_net(), "--input_shape=x:1,3,8,8"))
    assert many.weight_size == single.weight_size > 0
    assert [variant.values for variant in many.variants] == [(1,), (2,), (4,), (8,)]
    assert om.to_bytes(many) == om.to_bytes(om.read(om.to_bytes(many)))


# -- ranges --------------------------------------------------------------------------------------------------


def shaped(acl, program: Program, *shapes: tuple[int, ...]) -> None:
    """Set the descriptions of the inputs."""
    for index, shape in enumerate(shapes):
        desc = acl.create_tensor_desc(0, list(shape), 2)
        assert acl.mdl.set_dataset_tensor_desc(program.inputs, desc, index) == (program.inputs, 0)


def output_dims(acl, program: Program) -> list[int]:
    desc = acl.mdl.get_dataset_tensor_desc(program.outputs, 0)
    return [acl.get_tensor_desc_dim_v2(desc, at)[0] for at in range(acl.get_tensor_desc_num_dims(desc))]


def test_ranges(acl, m, convert, rules) -> None:
    model = conv_net()
    program = Program(acl, convert(model, "--input_shape=x:1~4,3,8~32,8~32"))
    assert acl.mdl.get_num_inputs(program.desc) == 1
    assert acl.mdl.get_input_dims(program.desc, 0)[0]["dims"] == [-1, 3, -1, -1]
    assert acl.mdl.get_input_size_by_index(program.desc, 0) == 4 * 3 * 32 * 32 * 4
    assert acl.mdl.get_output_size_by_index(program.desc, 0) == 0
    assert acl.mdl.get_cur_output_dims(program.desc, 0) == ({}, 200001)
    times = []
    for shape in ((1, 3, 8, 8), (3, 3, 20, 9), (4, 3, 32, 32)):
        x = images(*shape)
        program.feed(0, x)
        shaped(acl, program, shape)
        before = m.thread.now
        assert program.execute() == 0
        times.append(m.thread.now - before)
        assert output_dims(acl, program) == [shape[0], 5]
        np.testing.assert_allclose(program.fetch((shape[0], 5)), reference(model, x), rtol=5e-3, atol=5e-3)
        # What the library provided fits this run: the next one gets memory of its own.
        assert acl.update_data_buffer(acl.mdl.get_dataset_buffer(program.outputs, 0), 0, 0) == 0
    assert times == sorted(times)
    assert times[0] < times[2]
    rules()
    shaped(acl, program, (5, 3, 8, 8))
    assert program.execute() != 0
    shaped(acl, program, (1, 3, 7, 8))
    assert program.execute() == 100000
    assert rules()[-1] == "om.input_range"


def test_unlimited_dimensions(acl, convert, rules) -> None:
    model = sequence_net()
    program = Program(acl, convert(model, "--input_shape=a:-1,-1,4;b:-1,-1,4"))
    assert acl.mdl.get_input_size_by_index(program.desc, 0) == 0
    a, b = images(2, 7, 4), images(2, 7, 4) - 0.3
    for index, array in enumerate((a, b)):
        program.feed(index, array)
    assert program.execute() == 100000
    assert rules() == ["model.no_input_shape"]
    shaped(acl, program, a.shape, b.shape)
    assert program.execute() == 0
    assert output_dims(acl, program) == [2, 28]
    np.testing.assert_allclose(program.fetch((2, 28)), reference(model, a, b), rtol=5e-3, atol=5e-3)
    pointer = acl.get_data_buffer_addr(acl.mdl.get_dataset_buffer(program.outputs, 0))
    assert acl.rt.free(pointer) == 0


def test_an_output_buffer_of_the_programs_own(acl, convert, rules) -> None:
    program = Program(acl, convert(conv_net(), "--input_shape=x:1~4,3,8,8"))
    x = images(2, 3, 8, 8)
    program.feed(0, x)
    shaped(acl, program, x.shape)
    pointer, _ = acl.rt.malloc(4096, 0)
    buffer = acl.mdl.get_dataset_buffer(program.outputs, 0)
    acl.update_data_buffer(buffer, pointer, 4096)
    assert program.execute() == 0
    assert acl.get_data_buffer_addr(buffer) == pointer
    np.testing.assert_allclose(program.fetch((2, 5)), reference(conv_net(), x), rtol=5e-3, atol=5e-3)
    acl.update_data_buffer(buffer, pointer, 8)
    assert program.execute() == 500002
    assert rules() == ["model.small_buffer"]


def test_ranges_later(acl, convert, rules) -> None:
    model = conv_net()
    program = Program(acl, convert(model, "--input_shape=x:1~4,3,8,8"))
    stream, _ = acl.rt.create_stream()
    x = images(3, 3, 8, 8)
    program.feed(0, x)
    shaped(acl, program, x.shape)
    assert acl.mdl.execute_async(program.model, program.inputs, program.outputs, stream) == 0
    assert acl.mdl.get_dataset_tensor_desc(program.outputs, 0) == 0
    assert acl.rt.synchronize_stream(stream) == 0
    assert output_dims(acl, program) == [3, 5]
    np.testing.assert_allclose(program.fetch((3, 5)), reference(model, x), rtol=5e-3, atol=5e-3)
    shaped(acl, program, (2, 3, 8, 9))
    assert acl.mdl.execute_async(program.model, program.inputs, program.outputs, stream) == 0
    assert acl.rt.synchronize_stream(stream) == 100000
    assert rules() == ["om.input_range"]


def test_a_shape_that_depends_on_the_data(acl, convert) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"], "where"),
        helper.make_node("Cast", ["n"], ["y"], "cast", to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, "k"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    program = Program(acl, convert(model))
    assert acl.mdl.get_output_dims(program.desc, 0)[0]["dims"] == [2, -1]
    for count in (5, 0, 12):
        x = np.zeros(12, np.float32)
        x[:count] = 1
        program.feed(0, x.reshape(3, 4))
        assert program.execute() == 0
        assert output_dims(acl, program) == [2, count]
        if count:
            np.testing.assert_array_equal(program.fetch((2, count)), reference(model, x.reshape(3, 4)))
        acl.update_data_buffer(acl.mdl.get_dataset_buffer(program.outputs, 0), 0, 0)
