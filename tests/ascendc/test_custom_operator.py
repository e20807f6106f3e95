"""A kernel of the learner's becomes an operator of a model: converted, costed, run inside the om, recorded."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cannlab.acl as acl
import cannlab.ascendc as asc
from cannlab import atc, om
from cannlab import soc as socs
from cannlab.ascendc.custom_operator import custom_operator
from cannlab.machine import custom_ops, machine
from cannlab.machine.core import replay
from cannlab.machine.custom_ops import TensorType
from cannlab.profiler import OperatorTable

sys.path.append(str(Path(__file__).parent))
from add_queues import TILE, add_queues

CORES = 4


@asc.jit
def scale_kernel(x: asc.GlobalAddress, y: asc.GlobalAddress, factor: float, length: int):
    """y = factor * x, one tile per block."""
    start = asc.get_block_idx() * length
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + start, length)
    y_gm.set_global_buffer(y + start, length)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_y = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, 1, length * 4)
    pipe.init_buffer(out_y, 1, length * 4)
    tile = in_x.alloc_tensor(asc.float32)
    asc.data_copy(tile, x_gm, count=length)
    in_x.enque(tile)
    a = in_x.deque(asc.float32)
    b = out_y.alloc_tensor(asc.float32)
    asc.muls(b, a, factor, count=length)
    out_y.enque(b)
    in_x.free_tensor(a)
    c = out_y.deque(asc.float32)
    asc.data_copy(y_gm, c, count=length)
    out_y.free_tensor(c)


def launch_add(inputs, outputs, attributes):
    add_queues[CORES](*inputs, *outputs, outputs[0].size // CORES)


@pytest.fixture
def registered():
    def make(launch=launch_add, op_type="MyAdd", **options):
        return custom_operator(launch, domain="lab", op_type=op_type, **options)

    before = custom_ops.registered()
    yield make
    for op in custom_ops.registered():
        if op not in before:
            custom_ops.unregister(op.domain, op.op_type)


def save(nodes, path, constants=None, outputs=("y",), dtype=TensorProto.FLOAT, version=1):
    shape = [CORES, TILE]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info(name, dtype, shape) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("lab", version)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 8
    onnx.save(made, path)


def net(path, **options):
    save(
        [
            helper.make_node("Relu", ["x"], ["r"], "relu"),
            helper.make_node("MyAdd", ["r", "w"], ["s"], "mine", domain="lab"),
            helper.make_node("Neg", ["s"], ["y"], "neg"),
        ],
        path,
        {"w": np.linspace(-1, 1, CORES * TILE, dtype=np.float32).reshape(CORES, TILE)},
        **options,
    )


def convert(folder, *options):
    words = [f"--model={folder}/net.onnx", "--framework=5", f"--output={folder}/net", "--soc_version=Ascend910B1"]
    return atc.main([*words, "--export_compile_stat=0", *options])


def execute(path, x):
    """The whole way of a program: load, copy in, execute, copy back."""
    assert acl.init() == 0
    assert acl.rt.set_device(0) == 0
    model, code = acl.mdl.load_from_file(str(path))
    assert code == 0
    description = acl.mdl.create_desc()
    assert acl.mdl.get_desc(description, model) == 0
    datasets, buffers = [], []
    for size in (
        acl.mdl.get_input_size_by_index(description, 0),
        acl.mdl.get_output_size_by_index(description, 0),
    ):
        address, code = acl.rt.malloc(size, 2)
        assert code == 0
        dataset = acl.mdl.create_dataset()
        acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(address, size))
        datasets.append(dataset)
        buffers.append((address, size))
    data = np.ascontiguousarray(x)
    assert acl.rt.memcpy(buffers[0][0], buffers[0][1], acl.util.bytes_to_ptr(data.tobytes()), data.nbytes, 1) == 0
    code = acl.mdl.execute(model, *datasets)
    host, _ = acl.rt.malloc_host(buffers[1][1])
    acl.rt.memcpy(host, buffers[1][1], buffers[1][0], buffers[1][1], 2)
    return np.frombuffer(acl.util.ptr_to_bytes(host, buffers[1][1]), np.float32).reshape(x.shape).copy(), code


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_whole_way(registered, tmp_path):
    registered()
    net(tmp_path / "net.onnx")
    assert convert(tmp_path) == 0
    compiled = om.read(tmp_path / "net.om")
    task = next(task for task in compiled.tasks if task.nodes == ("mine",))
    assert task.op_type == "MyAdd"
    x = np.random.default_rng(0).standard_normal((CORES, TILE)).astype(np.float32)
    got, code = execute(tmp_path / "net.om", x)
    assert code == 0
    w = np.linspace(-1, 1, CORES * TILE, dtype=np.float32).reshape(CORES, TILE)
    wanted = -(np.maximum(x, 0).astype(np.float16).astype(np.float32) + w)
    np.testing.assert_allclose(got, wanted, atol=2e-3)
    record = machine().record
    rows = [row for row in record.tasks.rows() if record.strings[row["op_type"]] == "MyAdd"]
    assert len(rows) == 1
    row = rows[0]
    assert record.strings[row["name"]] == "mine"
    assert row["parent"] >= 0
    assert row["end"] - row["start"] == task.cost.fixed_ns
    trace = record.kernels[row["kernel"]]
    assert trace.meta["name"] == "add_queues"
    again = replay(trace, [np.maximum(x, 0), w, np.zeros_like(x)])
    np.testing.assert_array_equal(again.outputs[2].view(np.float32).reshape(x.shape), np.maximum(x, 0) + w)
    assert again.timing.ns == task.cost.fixed_ns
    assert [entry.name for entry in OperatorTable(record).tasks if entry.op_type == "MyAdd"] == ["mine"]


def test_time_is_the_kernels_on_the_chip(registered):
    op = registered()
    types = [TensorType(np.dtype(np.float32), (CORES, TILE))] * 2
    times = {name: op.cost(socs.get(name), types, types[:1], {}) for name in ("Ascend910B1", "Ascend910B4")}
    assert times["Ascend910B4"] > times["Ascend910B1"] > 0
    larger = [TensorType(np.dtype(np.float32), (4 * CORES, TILE))] * 2
    assert op.cost(socs.get("Ascend910B1"), larger, larger[:1], {}) > times["Ascend910B1"]


def test_several_kernels_and_attributes(registered, tmp_path):
    def launch(inputs, outputs, attributes):
        middle = np.zeros_like(outputs[0])
        scale_kernel[CORES](inputs[0], middle, attributes["factor"], TILE)
        scale_kernel[CORES](middle, outputs[0], 2.0, TILE)

    op = registered(launch, "Scaled")
    node = helper.make_node("Scaled", ["x"], ["y"], "scaled", domain="lab", factor=0.25)
    save([node], tmp_path / "net.onnx")
    assert convert(tmp_path) == 0
    x = np.random.default_rng(1).standard_normal((CORES, TILE)).astype(np.float32)
    got, code = execute(tmp_path / "net.om", x)
    assert code == 0
    np.testing.assert_array_equal(got, x * np.float32(0.25) * np.float32(2))
    types = [TensorType(np.dtype(np.float32), x.shape)]
    one = custom_operator(lambda i, o, a: scale_kernel[CORES](i[0], o[0], 1.0, TILE), domain="lab", op_type="Once")
    chip = socs.get("Ascend910B1")
    assert op.cost(chip, types, types, {"factor": 0.5}) == 2 * one.cost(chip, types, types, {})
    custom_ops.unregister("lab", "Once")


def test_shape_inference(registered, tmp_path):
    def launch(inputs, outputs, attributes):
        scale_kernel[2](inputs[0][:2], outputs[0], 3.0, TILE)

    registered(launch, "Half", infer=lambda inputs, attributes: [TensorType(inputs[0].dtype, (2, TILE))])
    nodes = [helper.make_node("Half", ["x"], ["h"], "half", domain="lab"), helper.make_node("Relu", ["h"], ["y"], "r")]
    save(nodes, tmp_path / "net.onnx")
    assert convert(tmp_path) == 0
    assert om.read(tmp_path / "net.om").outputs[0].dims == (2, TILE)


def test_another_domain_version_is_refused(registered, tmp_path, capsys):
    registered(opsets=(1,))
    net(tmp_path / "net.onnx", version=2)
    assert convert(tmp_path) == 255
    assert "lab::2::MyAdd" in capsys.readouterr().out


def test_without_registration_atc_refuses(tmp_path, capsys):
    net(tmp_path / "net.onnx")
    assert convert(tmp_path) == 255
    assert "lab::1::MyAdd" in capsys.readouterr().out


def test_wrong_element_type(registered, tmp_path, capsys):
    registered(lambda inputs, outputs, attributes: None, "Ints")
    save([helper.make_node("Ints", ["x"], ["y"], "i", domain="lab")], tmp_path / "net.onnx", dtype=TensorProto.INT32)
    assert convert(tmp_path) == 255
    out = capsys.readouterr().out
    assert "Ints is registered for float32" in out
    assert "Traceback" not in out
    assert not (tmp_path / "net.om").exists()


def test_a_kernel_that_breaks_a_rule_stops_the_conversion(registered, tmp_path, capsys):
    def launch(inputs, outputs, attributes):
        scale_kernel[CORES](inputs[0], outputs[0], 1.0, 2 * TILE)  # beyond the end of the arrays

    registered(launch, "Beyond")
    save([helper.make_node("Beyond", ["x"], ["y"], "b", domain="lab")], tmp_path / "net.onnx")
    assert convert(tmp_path) == 255
    out = capsys.readouterr().out
    assert "Traceback" not in out
    assert "Solution:" in out
    assert not (tmp_path / "net.om").exists()


def test_a_kernel_that_faults_at_run_time_gives_its_code(registered, tmp_path):
    def launch(inputs, outputs, attributes):
        length = 2 * TILE if inputs[0][0, 0] == 5 else TILE
        scale_kernel[CORES](inputs[0], outputs[0], 1.0, length)

    registered(launch, "Sometimes")
    save([helper.make_node("Sometimes", ["x"], ["y"], "b", domain="lab")], tmp_path / "net.onnx")
    assert convert(tmp_path) == 0
    _, code = execute(tmp_path / "net.om", np.full((CORES, TILE), 5, np.float32))
    assert code != 0
    assert machine().record.faults


def test_launches_outside_still_reach_the_machine(registered):
    op = registered()
    types = [TensorType(np.dtype(np.float32), (CORES, TILE))] * 2
    op.cost(socs.get("Ascend910B1"), types, types[:1], {})
    assert not list(machine().record.tasks.rows())
    x = np.ones((CORES, TILE), np.float32)
    launch_add([x, x], [np.zeros_like(x)], {})
    assert list(machine().record.tasks.rows())
