"""Dumps of operators: the folders, the file, the configurations and the order of calls."""

from __future__ import annotations

import csv
import json
import re
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import cannlab.acl as acl_package
from cannlab import atc, om
from cannlab.machine import dump_file, reset_machine
from cannlab.om import Format, OmTensor
from tests.pyacl.test_models import add_one

X = np.arange(32, dtype=np.float32).reshape(2, 16)


def fields(data: bytes) -> list[tuple[int, object]]:
    """The fields of a protobuf message: numbers and bytes."""
    found, at = [], 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7:
            size = varint()
            found.append((key >> 3, data[at : at + size]))
            at += size
        else:
            found.append((key >> 3, varint()))
    return found


def dims(shape: bytes) -> list[int]:
    """The one packed field of a shape; all test shapes are below 128."""
    packed = dict(fields(shape)).get(1, b"")
    return list(packed)


def parsed(data: bytes) -> dict[str, object]:
    """A dump file as inputs and outputs: (type, format, shape, original shape, bytes)."""
    (length,) = struct.unpack_from("<Q", data)
    message, rest = fields(data[8 : 8 + length]), data[8 + length :]
    found: dict[str, object] = {"input": [], "output": [], "name": "", "version": "", "time": 0}
    for side, number, size, original in (("input", 4, 5, 6), ("output", 3, 6, 7)):
        for field, value in message:
            if field == number:
                known = dict(fields(value))
                part, rest = rest[: known[size]], rest[known[size] :]
                found[side].append((known.get(1, 0), known.get(2, 0), dims(known[3]), dims(known[original]), part))
    assert rest == b""
    known = dict(message)
    return found | {"name": known[6].decode(), "version": known[1].decode(), "time": known[2]}


def write(folder: Path, **dump: object) -> str:
    path = folder / "dump.json"
    path.write_text(json.dumps({"dump": {"dump_path": str(folder / "out"), **dump}}))
    (folder / "out").mkdir(exist_ok=True)
    return str(path)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "out").rglob("*") if path.is_file())


@pytest.fixture
def net(tmp_path) -> str:
    om.write(add_one(), tmp_path / "net.om")
    return str(tmp_path / "net.om")


def run(acl, path: str, x: np.ndarray = X, times: int = 1) -> list[np.ndarray]:
    """Load a model with one input, run it, give its outputs."""
    number, code = acl.mdl.load_from_file(path)
    assert code == 0
    desc = acl.mdl.create_desc()
    acl.mdl.get_desc(desc, number)
    inputs, outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
    pointer, _ = acl.rt.malloc(x.nbytes, 0)
    data = x.tobytes()
    acl.rt.memcpy(pointer, x.nbytes, acl.util.bytes_to_ptr(data), x.nbytes, 1)
    acl.mdl.add_dataset_buffer(inputs, acl.create_data_buffer(pointer, x.nbytes))
    made = []
    for at in range(acl.mdl.get_num_outputs(desc)):
        size = acl.mdl.get_output_size_by_index(desc, at)
        target, _ = acl.rt.malloc(size, 0)
        acl.mdl.add_dataset_buffer(outputs, acl.create_data_buffer(target, size))
        made.append((target, size))
    for _ in range(times):
        assert acl.mdl.execute(number, inputs, outputs) == 0
    results = []
    for target, size in made:
        back, _ = acl.rt.malloc_host(size)
        acl.rt.memcpy(back, size, target, size, 2)
        results.append(np.frombuffer(acl.util.ptr_to_bytes(back, size), np.float32))
    return results


# -- the file ------------------------------------------------------------------------------------------


def test_the_file_is_described_data() -> None:
    one = dump_file.stored(OmTensor("a", 1, Format.ND, (2, 3)), np.arange(6, dtype=np.float16).reshape(2, 3))
    two = dump_file.stored(OmTensor("b", 3, Format.NCHW, ()), np.array(7, np.int32))
    found = parsed(dump_file.encode("conv", 1234567890, [one], [two]))
    assert (found["name"], found["version"], found["time"]) == ("conv", "1.0", 1234567890)
    assert found["input"] == [(2, 2, [2, 3], [2, 3], np.arange(6, dtype=np.float16).tobytes())]
    assert found["output"] == [(7, 0, [], [], b"\x07\0\0\0")]


def test_blocked_layout_is_written_as_it_lies() -> None:
    array = np.arange(2 * 17 * 2 * 3, dtype=np.float16).reshape(2, 17, 2, 3)
    tensor = dump_file.stored(OmTensor("a", 1, Format.NC1HWC0, (2, 17, 2, 3)), array)
    assert (tensor.shape, tensor.original) == ((2, 2, 2, 3, 16), (2, 17, 2, 3))
    blocks = np.frombuffer(tensor.data, np.float16).reshape(tensor.shape)
    assert blocks[1, 0, 1, 2, 5] == array[1, 5, 1, 2]
    assert blocks[1, 1, 1, 2, 0] == array[1, 16, 1, 2]
    assert not blocks[:, 1, :, :, 1:].any()


# -- models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["output", "input", "all", None])
def test_a_model_by_the_file_of_init(m, tmp_path, net, mode) -> None:
    acl = acl_package
    settings = {} if mode is None else {"dump_mode": mode}
    assert acl.init(write(tmp_path, dump_list=[{"model_name": "net"}], **settings)) == 0
    acl.rt.set_device(1)
    results = run(acl, net, times=2)
    assert np.array_equal(results[0].reshape(2, 16), X + 1)
    assert acl.mdl.init_dump() == 100044
    found = files(tmp_path)
    names = [path.relative_to(tmp_path / "out").parts for path in found]
    assert [name[1:5] for name in names] == [("1", "net", "1", "0")] * 2 + [("1", "net", "1", "1")] * 2
    assert all(re.fullmatch(r"\d{14}", name[0]) for name in names)
    assert all(re.fullmatch(r"(Add\.add\.0|Mul\.mul\.1)\.\d+\.\d{16}", name[5]) for name in names)
    first, second = (parsed(path.read_bytes()) for path in found[:2])
    given = [(1, 2, [2, 16], [2, 16], X.tobytes())]
    assert first["input"] == second["input"] == (given if mode in ("input", "all") else [])
    wanted = mode != "input"
    assert [entry[4] for entry in first["output"]] == [(X + 1).tobytes()] * wanted
    assert [entry[4] for entry in second["output"]] == [(X * 2).tobytes()] * wanted
    assert (first["name"], second["name"]) == ("add", "mul")


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([{"model_name": "other"}], []),
        ([{"model_name": "net", "layer": ["mul"]}], ["Mul"]),
        ([{"layer": ["add"]}], ["Add"]),
        ([{"model_name": "other"}, {"model_name": "net"}], ["Add", "Mul"]),
    ],
)
def test_which_operators(m, tmp_path, net, listed, expected) -> None:
    acl_package.init(write(tmp_path, dump_list=listed))
    acl_package.rt.set_device(0)
    run(acl_package, net)
    assert [path.name.partition(".")[0] for path in files(tmp_path)] == expected


def test_the_name_of_the_file_counts_too(m, tmp_path) -> None:
    om.write(add_one(), tmp_path / "renamed.om")
    acl_package.init(write(tmp_path, dump_list=[{"model_name": "renamed", "layer": ["add"]}]))
    acl_package.rt.set_device(0)
    run(acl_package, str(tmp_path / "renamed.om"))
    assert len(files(tmp_path)) == 1


def test_statistics_instead_of_data(m, tmp_path, net) -> None:
    acl_package.init(write(tmp_path, dump_list=[{"model_name": "net", "layer": ["add"]}], dump_data="stats"))
    acl_package.rt.set_device(0)
    x = X.copy()
    x[0, 0], x[0, 1] = np.inf, np.nan
    run(acl_package, net, x)
    (path,) = files(tmp_path)
    assert path.suffix == ".csv"
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["Input/Output"], row["Index"], row["Data Type"], row["Shape"]) == ("Output", "0", "DT_FLOAT", "2x16")
    assert (row["Max Value"], row["Min Value"], row["Avg Value"]) == ("32", "3", f"{np.mean(np.arange(3, 33)):.6g}")
    assert (row["Count"], row["Nan Count"], row["Positive Inf Count"], row["Negative Inf Count"]) == (
        "32",
        "1",
        "1",
        "0",
    )


def compiled(folder: Path, scale: float) -> str:
    """A convolution with activation, and a product, compiled for the default chip."""
    rng = np.random.default_rng(3)
    weights = numpy_helper.from_array((rng.standard_normal((8, 3, 3, 3)) * scale).astype(np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("Mul", ["r", "r"], ["y"], "square"),
        ],
        "conv_net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 4, 4])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "conv.onnx")
    words = ["--framework=5", f"--model={folder / 'conv.onnx'}", f"--output={folder / 'conv'}"]
    assert atc.main([*words, "--soc_version=Ascend910B1"]) == 0
    return str(folder / "conv.om")


def test_a_compiled_model_gives_what_lies_between_its_operators(m, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    path = compiled(tmp_path, 1.0)
    acl_package.init(write(tmp_path, dump_list=[{"model_name": "conv"}], dump_mode="all"))
    acl_package.rt.set_device(0)
    x = np.random.default_rng(5).standard_normal((1, 3, 4, 4)).astype(np.float32)
    (result,) = run(acl_package, path, x)
    found = {parsed(path.read_bytes())["name"]: parsed(path.read_bytes()) for path in files(tmp_path)}
    plain = run_without_dump(path, x)
    assert np.array_equal(result, plain)
    (name,) = [name for name in found if "conv" in name]
    kind, layout, shape, original, data = found[name]["output"][0]
    assert (kind, layout, shape, original) == (2, 3, [1, 1, 4, 4, 16], [1, 8, 4, 4])
    blocks = np.frombuffer(data, np.float16).reshape(1, 1, 4, 4, 16)
    between = blocks[0, 0].transpose(2, 0, 1)[:8].astype(np.float32)
    assert between.min() == 0
    squared = (between * between).astype(np.float16).astype(np.float32)
    assert np.array_equal(squared.reshape(-1), result)
    assert not blocks[..., 8:].any()


def run_without_dump(path: str, x: np.ndarray) -> np.ndarray:
    reset_machine("Ascend910B1", 2)
    acl_package.init()
    acl_package.rt.set_device(0)
    return run(acl_package, path, x)[0]


def test_only_operators_that_overflow(m, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    path = compiled(tmp_path, 100.0)
    acl_package.init(write(tmp_path, dump_debug="on"))
    acl_package.rt.set_device(0)
    (result,) = run(acl_package, path, np.full((1, 3, 4, 4), 2, np.float32))
    assert np.isinf(result).any()
    names = [path.name.split(".")[0] for path in files(tmp_path)]
    assert names == ["Mul"]
    found = parsed(files(tmp_path)[0].read_bytes())
    assert found["input"]
    assert found["output"]


# -- set_dump ------------------------------------------------------------------------------------------


def test_order_of_set_dump(m, tmp_path, net) -> None:
    acl = acl_package
    path = write(tmp_path, dump_list=[{"model_name": "net"}])
    assert acl.mdl.init_dump() == 100001
    assert acl.mdl.set_dump(path) == 100001
    assert acl.mdl.finalize_dump() == 100001
    acl.init()
    acl.rt.set_device(0)
    assert acl.mdl.set_dump(path) == 100045
    assert acl.mdl.finalize_dump() == 100045
    assert acl.mdl.init_dump() == 0
    assert acl.mdl.init_dump() == 100002
    assert acl.mdl.set_dump() == 100000
    assert acl.mdl.set_dump(str(tmp_path / "none.json")) == 100003
    (tmp_path / "bad.json").write_text('{"dump": {"dump_list": []}}')
    assert acl.mdl.set_dump(str(tmp_path / "bad.json")) == 100009
    run(acl, net)
    assert files(tmp_path) == []
    assert acl.mdl.set_dump(path) == 0
    run(acl, net)
    assert len(files(tmp_path)) == 2
    assert acl.mdl.finalize_dump() == 0
    run(acl, net)
    assert len(files(tmp_path)) == 2


def test_a_callback_gets_the_files(m, tmp_path, net) -> None:
    acl = acl_package
    acl.init()
    acl.rt.set_device(0)
    got = []

    def take(chunk) -> None:
        assert (chunk["is_last_chunk"], chunk["offset"]) == (1, 0)
        got.append((chunk["file_name"], acl.util.ptr_to_bytes(chunk["data_buf"], chunk["buf_len"])))

    with pytest.raises(TypeError, match="callable"):
        acl.mdl.dump_reg_callback(3, 0)
    assert acl.mdl.dump_reg_callback(take, 0) == 0
    run(acl, net)
    assert got == []
    assert acl.mdl.init_dump() == 0
    run(acl, net)
    assert [name.rpartition("/")[2].partition(".")[0] for name, _ in got] == ["Add", "Mul"]
    assert parsed(got[0][1])["output"][0][4] == (X + 1).tobytes()
    assert acl.mdl.dump_unreg_callback() is None
    acl.mdl.finalize_dump()
    run(acl, net)
    assert len(got) == 2


# -- single operators and failures ---------------------------------------------------------------------


def add(acl, stream: int = 0) -> int:
    """Add of two vectors, the output on top of the first input."""
    desc = acl.create_tensor_desc(0, [4], 2)
    buffers = []
    for _ in range(2):
        pointer, _ = acl.rt.malloc(16, 0)
        source = np.full(4, 3, np.float32).tobytes()
        acl.rt.memcpy(pointer, 16, acl.util.bytes_to_ptr(source), 16, 1)
        buffers.append(acl.create_data_buffer(pointer, 16))
    code = acl.op.execute_v2("Add", [desc, desc], buffers, [desc], buffers[:1], 0, stream)
    return code or acl.rt.synchronize_stream(stream)


def test_single_operators(m, tmp_path) -> None:
    acl_package.init(write(tmp_path, dump_list=[{}], dump_op_switch="on", dump_mode="all"))
    acl_package.rt.set_device(0)
    assert add(acl_package) == 0
    (path,) = files(tmp_path)
    assert re.fullmatch(r"\d{14}/0/Add\.Add\.0\.\d+\.\d{16}", str(path.relative_to(tmp_path / "out")))
    found = parsed(path.read_bytes())
    three, six = np.full(4, 3, np.float32).tobytes(), np.full(4, 6, np.float32).tobytes()
    assert [entry[4] for entry in found["input"]] == [three, three]
    assert [entry[4] for entry in found["output"]] == [six]


@pytest.mark.parametrize(("scene", "kind"), [("aic_err_norm_dump", 1), ("lite_exception", 0)])
def test_failed_operators(tmp_path, scene, kind) -> None:
    reset_machine("Ascend910B1", 2, faults="aicore@2")
    acl_package.init(write(tmp_path, dump_scene=scene))
    acl_package.rt.set_device(0)
    assert add(acl_package) == 0
    assert files(tmp_path) == []
    assert add(acl_package) in (507015, 507035)
    (path,) = files(tmp_path)
    assert path.relative_to(tmp_path / "out").parts[:3] == ("extra-info", "data-dump", "0")
    found = parsed(path.read_bytes())
    three = np.full(4, 3, np.float32).tobytes()
    assert [(entry[0], entry[4]) for entry in found["input"]] == [(kind, three)] * 2


def test_descriptions_of_operators(acl, tmp_path) -> None:
    folder = tmp_path / "args"
    assert acl.op.start_dump_args(1, str(folder)) == 100000
    folder.mkdir()
    assert acl.op.start_dump_args(2, str(folder)) == 100000
    for odd in ("ü" * 300, "x" * 5000):
        assert acl.op.start_dump_args(1, odd) == 100000
    assert acl.op.start_dump_args(1, str(folder)) == 0
    add(acl)
    add(acl)
    assert acl.op.stop_dump_args(1) == 0
    assert acl.op.stop_dump_args(0) == 100000
    (path,) = folder.iterdir()
    (described,) = json.loads(path.read_text())
    assert described["op"] == "Add"
    assert described["input_desc"] == [{"format": "ND", "shape": [4], "type": "float32"}] * 2
