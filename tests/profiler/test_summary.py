"""``cannlab profile``: where the time of a model, of a program and of its kernels goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cannlab import atc, om
from cannlab import soc as chips
from cannlab.cli.app import call
from cannlab.machine import cost
from cannlab.profiler import summary

KERNEL = """
import numpy as np
import asc

@asc.jit
def double(x: asc.GlobalAddress, z: asc.GlobalAddress, tiles: int):
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + asc.get_block_idx() * tiles * 1024)
    z_gm.set_global_buffer(z + asc.get_block_idx() * tiles * 1024)
    pipe = asc.TPipe()
    into = asc.TQue(asc.TPosition.VECIN, 1)
    out = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(into, 2, 4096)
    pipe.init_buffer(out, 2, 4096)
    for i in range(tiles):
        a = into.alloc_tensor(asc.float32)
        asc.data_copy(a, x_gm[i * 1024 :], count=1024)
        into.enque(a)
        a = into.deque(asc.float32)
        b = out.alloc_tensor(asc.float32)
        asc.add(b, a, a, count=1024)
        out.enque(b)
        into.free_tensor(a)
        b = out.deque(asc.float32)
        asc.data_copy(z_gm[i * 1024 :], b, count=1024)
        out.free_tensor(b)

x = np.arange(16384, dtype=np.float32)
z = np.zeros_like(x)
double[2](x, z, 8)
print("sum", z.sum())
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A convolution and a product, batch 4, compiled."""
    folder = tmp_path_factory.mktemp("profiled")
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((64, 32, 3, 3), dtype=np.float32),
        "v": rng.standard_normal((64, 10), dtype=np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32, 28, 28])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8), path)
    words = ["--framework=5", f"--model={path}", f"--output={folder / 'small'}", "--soc_version=Ascend310P3"]
    assert atc.main(words) == 0
    return folder / "small.om"


def test_a_model_takes_the_sum_of_its_operators(model) -> None:
    compiled = om.read(model)
    found = summary.of_model(compiled)
    chip = chips.get("Ascend310P3")
    assert found.soc == "Ascend310P3"
    assert found.device_time_us == cost.model_ns(compiled, chip) / 1000
    assert found.device_time_us == pytest.approx(sum(each.duration_us for each in found.operators) + 41)
    assert found.batch == 4
    assert found.throughput == pytest.approx(4e6 / found.device_time_us)
    assert sum(found.bounds.values()) == pytest.approx(sum(each.duration_us for each in found.operators))
    assert {each.bound_by for each in found.operators} <= {"cube", "memory", "vector", "launch"}
    other = summary.of_model(compiled, chips.get("Ascend310"))
    assert other.soc == "Ascend310"
    assert other.device_time_us > found.device_time_us


def test_json_of_a_model(model, capsys) -> None:
    assert call(["profile", "--json", str(model)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["simulated"] is True
    assert found["device_time_us"] == pytest.approx(summary.of_model(om.read(model)).device_time_us, abs=1e-3)
    assert found["throughput"] == pytest.approx(4e6 / found["device_time_us"], rel=1e-3)
    assert [each["name"] for each in found["operators"]] == [task.name for task in om.read(model).tasks]
    assert found["summary"].startswith(
        f"{100 * max(found['bounds_us'].values()) / sum(found['bounds_us'].values()):.0f} %"
    )


def test_text_of_a_model(model, capsys) -> None:
    assert call(["profile", "--most", "1", str(model)]) == 0
    out = capsys.readouterr().out
    count = len(om.read(model).tasks)
    assert f"({count - 1} more operators; --json shows all)" in out
    assert "samples a second at batch 4" in out


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("program") / "double.py"
    path.write_text(KERNEL)
    return path


def profiled(program: Path, *options: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CANNLAB_BACKEND": "emulated"}
    command = [sys.executable, "-m", "cannlab", "profile", *options, str(program)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_a_program_and_its_kernel(program) -> None:
    done = profiled(program, "--json")
    assert done.returncode == 0, done.stderr
    assert "sum " in done.stderr
    found = json.loads(done.stdout)
    assert [each["name"] for each in found["operators"]].count("double") == 1
    (kernel,) = found["kernels"]
    assert (kernel["name"], kernel["blocks"], kernel["cores"]) == ("double", 2, 2)
    for pipe in kernel["pipes"].values():
        assert pipe["ratio"] == pytest.approx(pipe["time_us"] / 2 / kernel["duration_us"], abs=1e-3)
    busiest = max(kernel["pipes"].items(), key=lambda item: item[1]["ratio"])
    assert kernel["bound_by"] == (busiest[0] if busiest[1]["ratio"] >= 0.5 else "nothing")
    tasks = sum(each["duration_us"] for each in found["operators"])
    assert found["device_time_us"] <= tasks + 1e-3
    assert found["elapsed_us"] > found["device_time_us"]
    alone = json.loads(profiled(program, "--json", "--kernel", "double").stdout)
    assert alone["device_time_us"] == pytest.approx(kernel["duration_us"], abs=1e-3)


def test_an_unknown_kernel_is_named(program) -> None:
    done = profiled(program, "--kernel", "triple")
    assert done.returncode == 1
    assert "No kernel named 'triple'" in done.stderr
    assert "double" in done.stderr


def test_a_failing_program_keeps_its_status(tmp_path) -> None:
    path = tmp_path / "fails.py"
    path.write_text("raise SystemExit(3)\n")
    done = profiled(path)
    assert done.returncode == 3
    assert "Nothing ran on a device." in done.stdout


@pytest.mark.parametrize(
    ("words", "status"), [([], 2), (["--most"], 2), (["missing.om"], 1), (["a.om", "b"], 2), (["missing.py"], 2)]
)
def test_bad_words(words, status, tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    assert call(["profile", *words]) == status
    assert capfd.readouterr().err
