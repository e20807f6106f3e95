"""aclruntime: what the benchmark client does with it."""

from __future__ import annotations

import gc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cannlab import aclruntime, om
from cannlab.machine import machine, reset_machine
from cannlab.om import Cost, Format, OmModel, OmTensor, Task


@pytest.fixture(autouse=True)
def fresh(monkeypatch) -> None:
    monkeypatch.setenv("CANNLAB_DIAGNOSES", "off")
    reset_machine("Ascend910B1", 2)


@pytest.fixture
def path(tmp_path) -> str:
    """y = a + b, z = a * b, on 2 x 3 floats."""
    names = ("a", "b", "y", "z")
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in names}
    nodes = [helper.make_node("Add", ["a", "b"], ["y"], "add"), helper.make_node("Mul", ["a", "b"], ["z"], "mul")]
    graph = helper.make_graph(nodes, "net", [infos["a"], infos["b"]], [infos["y"], infos["z"]])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(proto)
    a, b, y, z = (OmTensor(name, 0, Format.ND, (2, 3)) for name in names)
    cost = Cost(bytes_in=48, bytes_out=24, vector_elements=6, element_bytes=4)
    tasks = (
        Task("add", "Add", "AI_VECTOR_CORE", ("add",), ("add",), (a, b), (y,), cost),
        Task("mul", "Mul", "AI_VECTOR_CORE", ("mul",), ("mul",), (a, b), (z,), cost),
    )
    model = OmModel("net", "Ascend910B1", "8.1", "0.1.0", (a, b), (y, z), tasks, proto.SerializeToString(), b"", 4096)
    om.write(model, tmp_path / "net.om")
    return str(tmp_path / "net.om")


A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.full((2, 3), 2, np.float32)


def open_session(path: str, loop: int = 1) -> aclruntime.InferenceSession:
    options = aclruntime.session_options()
    options.loop = loop
    return aclruntime.InferenceSession(path, 0, options)


def test_what_a_model_is(path) -> None:
    session = open_session(path)
    first = session.get_inputs()[0]
    assert (first.name, first.shape, first.datatype, first.size, first.realsize) == ("a", [2, 3], 0, 24, 24)
    assert first.datatype is aclruntime.dtype.float32
    assert [desc.name for desc in session.get_outputs()] == ["y", "z"]
    assert session.get_dym_aipp_input_exist() == 0
    assert session.get_max_dym_batchsize() == 0


@pytest.mark.parametrize("feed", ["tensors", "mapping", "base tensors"])
def test_a_run_as_the_client_makes_it(path, feed) -> None:
    session = open_session(path)
    if feed == "base tensors":
        feeds = [aclruntime.BaseTensor(array.__array_interface__["data"][0], array.nbytes) for array in (A, B)]
    else:
        tensors = [aclruntime.Tensor(array) for array in (A, B)]
        for tensor in tensors:
            tensor.to_device(0)
        feeds = dict(zip("ab", tensors, strict=True)) if feed == "mapping" else tensors
    outputs = session.run(["z", "y"], feeds)
    assert [output.shape for output in outputs] == [[2, 3], [2, 3]]
    with pytest.raises(RuntimeError, match="to_host"):
        np.array(outputs[0])
    for output in outputs:
        output.to_host()
    np.testing.assert_array_equal(np.array(outputs[0]), A * B)
    np.testing.assert_array_equal(np.array(outputs[1]), A + B)


def test_times_are_simulated_and_serve_both_releases_of_the_client(path) -> None:
    session = open_session(path, loop=3)
    session.run(["y"], [aclruntime.Tensor(A), aclruntime.Tensor(B)])
    times = session.sumary().exec_time_list
    assert len(times) == 3
    spans = [end - start for start, end in times]
    assert spans == [float(time) for time in times]
    assert spans[0] > 0.04
    assert spans[1] == pytest.approx(spans[0])
    rows = [row for row in machine().record.tasks.rows() if row["kind"] == 6]
    assert [row["end"] - row["start"] for row in rows] == [round(span * 1e6) for span in spans]
    session.options().loop = 1
    session.reset_sumaryinfo()
    session.run(["y"], [aclruntime.Tensor(A), aclruntime.Tensor(B)])
    assert len(session.sumary().exec_time_list) == 1


def test_memory_goes_with_the_objects(path) -> None:
    device = machine().devices[0]
    session = open_session(path)
    loaded = device.memory_used
    outputs = session.run(["y", "z"], [aclruntime.Tensor(A), aclruntime.Tensor(B)])
    assert device.memory_used > loaded
    del outputs
    gc.collect()
    assert device.memory_used == loaded
    session.free_resource()
    assert device.memory_used == 0
    with pytest.raises(RuntimeError, match="freed"):
        session.get_inputs()
    assert machine().record.leaks == []


def test_files_become_tensors(path, tmp_path) -> None:
    session = open_session(path)
    halves = [tmp_path / "one.bin", tmp_path / "two.bin"]
    for file, row in zip(halves, A, strict=True):
        file.write_bytes(row.tobytes())
    tensor = session.create_tensor_from_fileslist(session.get_inputs()[0], [str(file) for file in halves])
    tensor.to_host()
    np.testing.assert_array_equal(np.array(tensor), A)
    with pytest.raises(RuntimeError, match="12 bytes"):
        session.create_tensor_from_fileslist(session.get_inputs()[0], [str(halves[0])])
    with pytest.raises(RuntimeError, match="cannot be read"):
        session.create_tensor_from_fileslist(session.get_inputs()[0], [str(tmp_path / "no")])


def test_what_does_not_fit_raises(path, tmp_path) -> None:
    session = open_session(path)
    good = [aclruntime.Tensor(A), aclruntime.Tensor(B)]
    for names, feeds, text in (
        (["y"], good[:1], "2 inputs"),
        (["x"], good, "no output x"),
        (["y"], [good[0], aclruntime.Tensor(B[:1])], "12 bytes"),
        (["y"], {"a": good[0]}, "feeds"),
        (["y"], [A, B], "BaseTensor"),
    ):
        with pytest.raises(RuntimeError, match=text):
            session.run(names, feeds)
    for call in (
        lambda: session.set_dynamic_batchsize(4),
        lambda: session.set_dynamic_hw(224, 224),
        lambda: session.set_dynamic_dims("a:2,3;b:2,3"),
        lambda: session.set_dynamic_shape("a:2,3;b:2,3"),
        lambda: session.set_dynamic_dims("a:2,x"),
        lambda: aclruntime.InferenceSession(path, 7, None),
        lambda: aclruntime.InferenceSession(str(tmp_path / "no.om"), 0, None),
        lambda: aclruntime.Tensor(np.array(["x"])),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(NotImplementedError, match="run_pipeline"):
        session.run_pipeline([], None, [])


def test_a_requested_fault_reaches_the_client(path) -> None:
    reset_machine("Ascend910B1", 1, "aicore@2")
    session = open_session(path)
    feeds = [aclruntime.Tensor(A), aclruntime.Tensor(B)]
    session.run(["y"], feeds)
    with pytest.raises(RuntimeError, match="507011"):
        session.run(["y"], feeds)
    session.run(["y"], feeds)


# -- gears and ranges --------------------------------------------------------------------------------------


@pytest.fixture
def convert(tmp_path, monkeypatch):
    """y = relu(x) + 1 of any batch and size, compiled with options."""
    from cannlab import atc

    monkeypatch.chdir(tmp_path)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1, "h", "w"]) for name in "xy"]
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    nodes = [helper.make_node("Relu", ["x"], ["r"], "relu"), helper.make_node("Add", ["r", "one"], ["y"], "add")]
    graph = helper.make_graph(nodes, "net", info[:1], info[1:], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "net.onnx")

    def run(*options: str) -> str:
        base = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend910B1")
        assert atc.main([*base, *options]) == 0
        return "net.om"

    return run


def relu_one(session: aclruntime.InferenceSession, *shape: int) -> None:
    x = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
    (output,) = session.run([session.get_outputs()[0].name], [aclruntime.Tensor(x)])
    output.to_host()
    np.testing.assert_array_equal(np.array(output), np.maximum(x, 0) + 1)


def test_gears_of_the_batch(convert) -> None:
    session = open_session(convert("--input_shape=x:-1,1,4,4", "--dynamic_batch_size=1,2,4"))
    (desc,) = session.get_inputs()
    assert desc.shape == [-1, 1, 4, 4]
    assert session.get_max_dym_batchsize() == 4
    for batch in (2, 1, 4):
        session.set_dynamic_batchsize(batch)
        relu_one(session, batch, 1, 4, 4)
    session.set_staticbatch()
    relu_one(session, 4, 1, 4, 4)
    with pytest.raises(RuntimeError, match="3 is no gear"):
        session.set_dynamic_batchsize(3)


def test_gears_of_the_image_and_of_dims(convert) -> None:
    session = open_session(convert("--input_shape=x:1,1,-1,-1", "--dynamic_image_size=4,8;6,2"))
    session.set_dynamic_hw(6, 2)
    relu_one(session, 1, 1, 6, 2)
    session = open_session(convert("--input_shape=x:-1,1,4,-1", "--input_format=ND", "--dynamic_dims=1,8;2,4"))
    session.set_dynamic_dims("x:2,1,4,4")
    relu_one(session, 2, 1, 4, 4)


def test_ranges(convert) -> None:
    session = open_session(convert("--input_shape=x:1~8,1,4,4"))
    for batch in (3, 8):
        session.set_dynamic_shape(f"x:{batch},1,4,4")
        session.set_custom_outsize([100000])
        relu_one(session, batch, 1, 4, 4)
    with pytest.raises(RuntimeError, match="all inputs"):
        session.set_dynamic_shape("other:1,1,4,4")
