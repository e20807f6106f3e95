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


def test_a_requested_fault_reaches_the_client(path) -> None:
    reset_machine("Ascend910B1", 1, "aicore@2")
    session = open_session(path)
    feeds = [aclruntime.Tensor(A), aclruntime.Tensor(B)]
    session.run(["y"], feeds)
    with pytest.raises(RuntimeError, match="507011"):
        session.run(["y"], feeds)
    session.run(["y"], feeds)


@pytest.mark.parametrize("as_base", [True, False])
def test_outputs_become_inputs(path, as_base) -> None:
    session = open_session(path)
    with pytest.raises(RuntimeError, match="first_inner_run"):
        session.inner_run([0, -1], ["y"], True, True)
    feeds = [aclruntime.Tensor(A), aclruntime.Tensor(B)]
    if as_base:
        feeds = [aclruntime.BaseTensor(array.ctypes.data, array.nbytes) for array in (A, B)]
    session.first_inner_run(["y"], feeds)
    assert session.inner_run([0, -1], ["y"], False, True) == []
    (output,) = session.inner_run([0, -1], ["z"], True, True)
    output.to_host()
    np.testing.assert_array_equal(np.array(output), (A + 2 * B) * B)
    for relation in ([0], [2, 0]):
        with pytest.raises(RuntimeError, match="which output"):
            session.inner_run(relation, ["y"], True, True)
    assert session.summary() is session.sumary()
    del output
    session.free_resource()
    gc.collect()
    del feeds
    gc.collect()
    assert machine().devices[0].memory_used == 0


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


# -- pipelines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "ending"), [("BIN", ".bin"), ("NPY", ".npy"), ("TXT", ".txt")])
def test_a_pipeline_of_files(path, tmp_path, kind, ending) -> None:
    runs = []
    for number in range(3):
        np.save(tmp_path / f"in{number}.npy", A + number)
        (tmp_path / f"b{number}.bin").write_bytes(B.tobytes())
        runs.append([str(tmp_path / f"in{number}.npy"), str(tmp_path / f"b{number}.bin")])
    out = tmp_path / "out"
    out.mkdir()
    options = aclruntime.infer_options()
    options.output_dir, options.out_format = str(out), kind
    session = open_session(path)
    assert session.run_pipeline(runs, options, []) is None
    assert sorted(file.name for file in out.iterdir()) == sorted(
        f"in{number}_{name}{ending}" for number in range(3) for name in "yz"
    )
    read = {"BIN": lambda file: np.fromfile(file, np.float32), "NPY": np.load, "TXT": np.loadtxt}[kind]
    for number in range(3):
        found = read(out / f"in{number}_z{ending}")
        np.testing.assert_allclose(np.reshape(found, (2, 3)), (A + number) * B)
    assert len(session.sumary().exec_time_list) == 3
    session.free_resource()
    gc.collect()
    assert machine().devices[0].memory_used == 0


def test_options_one_by_one_and_made_up_data(path, tmp_path) -> None:
    session = open_session(path)
    session.run_pipeline([["pure_infer_data_zero"] * 2], str(tmp_path), False, False, "BIN", True)
    assert not np.fromfile(tmp_path / "pure_infer_data_zero_y.bin", np.float32).any()
    options = aclruntime.infer_options()
    options.pure_infer_mode = True
    session.run_pipeline([["pure_infer_data_random"] * 2] * 2, options, [open_session(path)])
    assert len(session.sumary().exec_time_list) == 3
    options.out_format = "CSV"
    with pytest.raises(RuntimeError, match="BIN, NPY or TXT"):
        session.run_pipeline([], options, [])
    with pytest.raises(RuntimeError, match="cannot be read"):
        session.run_pipeline([[str(tmp_path / "no.npy")] * 2], "", False, False)
    with pytest.raises(RuntimeError, match="2 inputs"):
        session.run_pipeline([["pure_infer_data_zero"]], "", False, False, "BIN", True)
    with pytest.raises(RuntimeError, match="cannot be written"):
        session.run_pipeline([["pure_infer_data_zero"] * 2], str(tmp_path / "no"), False, False, "BIN", True)


def test_a_pipeline_copies_while_it_computes(path) -> None:
    session = open_session(path, loop=40)
    inputs = [
        [aclruntime.BaseTensor(array.__array_interface__["data"][0], array.nbytes) for array in (A, B)]
        for _ in range(3)
    ]
    made = session.run_pipeline(["z"], inputs, [], False, False)
    for (output,) in made:
        output.to_host()
        np.testing.assert_array_equal(np.array(output), A * B)
    times = session.sumary().exec_time_list
    assert len(times) == 120
    rows = list(machine().record.tasks.rows())
    models = [row for row in rows if row["kind"] == 6]
    copies = [row for row in rows if row["kind"] in (1, 2, 3) and row["start"] >= models[0]["start"]]
    inside = [row for row in copies if row["start"] < models[39]["end"]]
    assert inside, "the second input is copied while the first run computes"


def test_a_fault_in_a_pipeline_leaves_nothing(path) -> None:
    reset_machine("Ascend910B1", 1, "aicore@2")
    session = open_session(path)
    device = machine().devices[0]
    used, streams = device.memory_used, device.streams
    with pytest.raises(RuntimeError, match="507011"):
        session.run_pipeline([["pure_infer_data_zero"] * 2] * 3, "", False, False, "BIN", True)
    gc.collect()
    assert (device.memory_used, device.streams) == (used, streams)


def test_pipelines_of_shapes(convert, tmp_path) -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.integers(-4, 5, (batch, 1, 4, 4)).astype(np.float32) for batch in (2, 5, 3)]
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"x{number}.npy", array)
    files = [[str(tmp_path / f"x{number}.npy")] for number in range(3)]
    session = open_session(convert("--input_shape=x:1~8,1,4,4"))
    session.run_pipeline(files, str(tmp_path), True, False, "NPY")
    name = session.get_outputs()[0].name.replace("/", "")
    for number, array in enumerate(arrays):
        np.testing.assert_array_equal(np.load(tmp_path / f"x{number}_{name}.npy"), np.maximum(array, 0) + 1)
    session = open_session(convert("--input_shape=x:-1,1,4,-1", "--input_format=ND", "--dynamic_dims=2,4;3,4"))
    bases = [[aclruntime.BaseTensor(array.ctypes.data, array.nbytes)] for array in (arrays[0], arrays[2])]
    outputs = [session.get_outputs()[0].name]
    made = session.run_pipeline(outputs, bases, [[arrays[0].shape], [arrays[2].shape]], False, True)
    for (output,), array in zip(made, (arrays[0], arrays[2]), strict=True):
        output.to_host()
        np.testing.assert_array_equal(np.array(output), np.maximum(array, 0) + 1)


# -- dynamic AIPP --------------------------------------------------------------------------------------------


@pytest.fixture
def with_aipp(tmp_path, monkeypatch):
    """y = relu(x) of two RGB images of 4 x 6 pixels, whose preparation is chosen at run time."""
    from cannlab import atc

    monkeypatch.chdir(tmp_path)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4, 6]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "net", infos[:1], infos[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "net.onnx")
    with open("aipp.cfg", "w") as file:
        file.write("aipp_op { aipp_mode: dynamic max_src_image_size: 1000 }")
    words = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend910B1", "--input_format=NCHW")
    assert atc.main([*words, "--insert_op_conf=aipp.cfg"]) == 0
    return open_session("net.om")


def prepare(session: aclruntime.InferenceSession, batch: int = 2) -> None:
    """What the client does with its configuration file, in its order."""
    session.aipp_set_input_format("RGB888_U8")
    session.aipp_set_src_image_size([8, 6])
    session.aipp_set_max_batch_size(batch)
    session.aipp_set_rbuv_swap_switch(1)
    session.aipp_set_ax_swap_switch(0)
    session.aipp_set_csc_params([0] * 16)
    session.aipp_set_crop_params([1, 1, 2, 6, 4])
    session.aipp_set_padding_params([0] * 5)
    session.aipp_set_dtc_pixel_mean([10, 20, 30, 0])
    session.aipp_set_dtc_pixel_min([0, 0, 0, 0])
    session.aipp_set_pixel_var_reci([0.5, 1, 2, 1])


def test_dynamic_aipp(with_aipp) -> None:
    session = with_aipp
    (desc,) = session.get_inputs()
    assert (desc.name, desc.realsize) == ("x", 1000)
    assert session.get_dym_aipp_input_exist() == 1
    image = np.random.default_rng(3).integers(0, 256, (2, 6, 8, 3)).astype(np.uint8)
    with pytest.raises(RuntimeError, match="no parameters"):
        session.run([session.get_outputs()[0].name], [aclruntime.Tensor(image)])
    with pytest.raises(RuntimeError, match="no parameters"):
        session.check_dym_aipp_input_exist()
    prepare(session)
    assert session.set_dym_aipp_info_set() == 0
    assert session.check_dym_aipp_input_exist() == 0
    (output,) = session.run([session.get_outputs()[0].name], [aclruntime.Tensor(image)])
    output.to_host()
    part = image[:, 2:6, 1:7, ::-1].astype(np.float32)
    wanted = np.maximum((part - [10, 20, 30]) * [0.5, 1, 2], 0).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(np.array(output), wanted, atol=0.5)


def test_parameters_of_aipp_that_do_not_fit(with_aipp, path) -> None:
    session = with_aipp
    prepare(session, 1)
    with pytest.raises(RuntimeError, match="batch of 2"):
        session.set_dym_aipp_info_set()
    prepare(session)
    session.aipp_set_crop_params([1, 0, 0, 5, 4])
    with pytest.raises(RuntimeError, match=r"the model reads \(4, 6\)"):
        session.set_dym_aipp_info_set()
    for call in (
        lambda: session.aipp_set_input_format("RGB"),
        lambda: session.aipp_set_src_image_size([1, 4]),
        lambda: session.aipp_set_src_image_size([4]),
        lambda: session.aipp_set_max_batch_size(0),
        lambda: session.aipp_set_csc_params([1] * 15),
        lambda: session.aipp_set_pixel_var_reci([1.0] * 3),
    ):
        with pytest.raises(RuntimeError):
            call()
    plain = open_session(path)
    assert plain.get_dym_aipp_input_exist() == 0
    assert plain.check_dym_aipp_input_exist() == 0
    with pytest.raises(RuntimeError, match="0 dynamic ones"):
        plain.set_dym_aipp_info_set()
