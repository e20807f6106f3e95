"""--op_precision_mode, --op_select_implmode, --optypelist_for_implmode, --allow_hf32: the numbers that they change."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pass_models
import pytest

from cannlab import atc, om
from cannlab.machine.builtin_ops import to_hf32
from cannlab.machine.executor import Model

HALF = np.float16


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def results(made, values, *options, soc="Ascend910B1"):
    """The om's results for one input."""
    onnx.save(made, "net.onnx")
    words = ["--model=net.onnx", "--framework=5", "--output=net", f"--soc_version={soc}"]
    assert atc.main([*words, *options]) == 0
    return Model(om.read("net.om", soc=soc)).run([values])[0][0]


def fails(made, capsys, *options):
    onnx.save(made, "net.onnx")
    assert atc.main(["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend910B1", *options]) == 255
    return re.search(r"^(\w+): \[PID", capsys.readouterr().out, re.MULTILINE).group(1)


def sigmoids():
    nodes = [models.node("Sigmoid", ["x"], ["a"], "one"), models.node("Sigmoid", ["a"], ["y"], "two")]
    return models.model(nodes, {"x": [8, 16]}, {"y": [8, 16]})


def sigmoid():
    return models.model([models.node("Sigmoid", ["x"], ["y"], "one")], {"x": [8, 16]}, {"y": [8, 16]})


X = np.linspace(-8, 8, 128, dtype=np.float32).reshape(8, 16)


def fast(x):
    """Each step stored in float16."""
    x = x.astype(HALF)
    return (HALF(1) / (np.exp(-x.astype(np.float32)).astype(HALF) + HALF(1))).astype(np.float32)


def exact(x):
    """One rounding."""
    return (1 / (1 + np.exp(-x.astype(HALF).astype(np.float64)))).astype(HALF).astype(np.float32)


def test_modes_of_sigmoid():
    usual = results(sigmoid(), X)
    quick = results(sigmoid(), X, "--op_select_implmode=high_performance_for_all")
    np.testing.assert_array_equal(quick, fast(X))
    np.testing.assert_allclose(usual, exact(X), rtol=1e-3)
    assert abs(quick - exact(X)).max() > 1.5 * abs(usual - exact(X)).max()
    for option in ("high_precision", "high_precision_for_all", "high_performance"):
        np.testing.assert_array_equal(results(sigmoid(), X, f"--op_select_implmode={option}"), usual)


def test_polynomial_of_sigmoid():
    x = X.astype(HALF)
    square = x * x
    a, b, c = HALF(0.229270815), HALF(-0.0102459298), HALF(0.000207697530)
    wanted = np.clip(x * (square * (square * c + b) + a) + HALF(0.5), HALF(0), HALF(1))
    words = ("--op_select_implmode=high_performance", "--optypelist_for_implmode=Sigmoid")
    quick = results(sigmoid(), X, *words, soc="Ascend310P3")
    np.testing.assert_allclose(quick, wanted.astype(np.float32), atol=1e-6)
    assert 0.005 < abs(quick - exact(X)).max() < 0.02


def test_list_of_types():
    words = ("--op_select_implmode=high_performance", "--optypelist_for_implmode=SoftmaxV2, Sigmoid")
    np.testing.assert_array_equal(results(sigmoid(), X, *words), fast(X))
    others = ("--op_select_implmode=high_performance", "--optypelist_for_implmode=Gelu")
    np.testing.assert_array_equal(results(sigmoid(), X, *others), results(sigmoid(), X))


def test_node_comes_before_type():
    Path("modes.ini").write_text("Sigmoid=high_performance\n[ByNodeName]\ntwo=high_precision\n")
    got = results(sigmoids(), X, "--op_precision_mode=modes.ini")
    first = results(sigmoid(), X, "--op_select_implmode=high_performance_for_all")
    np.testing.assert_array_equal(got, results(sigmoid(), first))
    Path("modes.ini").write_text("[ByNodeName]\none=high_performance\n")
    np.testing.assert_array_equal(results(sigmoids(), X, "--op_precision_mode=modes.ini"), got)


def test_file_comes_before_the_other_options():
    Path("modes.ini").write_text("# nothing of Sigmoid\n[ByOpType]\nGelu = high_precision\n")
    words = ("--op_precision_mode=modes.ini", "--op_select_implmode=high_performance_for_all")
    np.testing.assert_array_equal(results(sigmoid(), X, *words), results(sigmoid(), X))


def test_lines_that_say_nothing(capsys):
    Path("modes.ini").write_text("[ByOpType]\nSigmoid=fastest\nplain words\n[ByNodeName]\nnobody=high_precision\n")
    results(sigmoid(), X, "--op_precision_mode=modes.ini", "--log=warning")
    out = capsys.readouterr().out
    assert "Sigmoid=fastest" in out
    assert "nobody" in out


def test_a_mode_that_a_kernel_does_not_have(capsys):
    Path("modes.ini").write_text("Sigmoid=keep_fp16\n")
    assert fails(sigmoid(), capsys, "--op_precision_mode=modes.ini") == "E20001"
    Path("modes.ini").write_bytes(b"\xff\xfe\x00")
    assert fails(sigmoid(), capsys, "--op_precision_mode=modes.ini") == "E20003"
    assert fails(sigmoid(), capsys, "--op_precision_mode=none.ini") == "E19000"
    assert fails(sigmoid(), capsys, "--optypelist_for_implmode=Sigmoid") == "E10001"
    assert fails(sigmoid(), capsys, "--op_select_implmode=fast") == "E10001"


def test_fast_gelu():
    made = pass_models.gelu()
    (info,) = made.graph.input
    dims = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    values = np.linspace(-4, 4, int(np.prod(dims)), dtype=np.float32).reshape(dims)
    x = values.astype(HALF)
    short = np.minimum(np.abs(x * HALF(0.7071)), HALF(1.769)) + HALF(-1.769)
    half = short * short * HALF(-0.1444) + HALF(0.5)
    moved = x + HALF(1e-7)
    sign = moved * np.minimum(HALF(1) / np.abs(moved), HALF(65504))
    wanted = (x * (half * sign + HALF(0.5))).astype(np.float32)
    Path("modes.ini").write_text("Gelu=high_performance\n")
    quick = results(made, values, "--op_precision_mode=modes.ini")
    np.testing.assert_allclose(quick, wanted, atol=2e-3)
    usual = results(made, values)
    right = models.reference(made, values)[0]
    assert abs(usual - right).max() < 2e-3
    assert 0.004 < abs(quick - right).max() < 0.03
    np.testing.assert_allclose(quick, right, atol=0.03)
    tasks = om.read("net.om").tasks
    assert [task.op_type for task in tasks if task.nodes] == ["Gelu"]
    names = {name for task in tasks for name in task.nodes}
    assert {node.name for node in made.graph.node} >= names > set()


def norms():
    """The ONNX operator, and what a pass composes."""
    scale, offset = np.full(16, 2, np.float32), np.full(16, 1, np.float32)
    node = models.node("LayerNormalization", ["x", "g", "b"], ["y"], "norm", epsilon=1e-5)
    shape = {"x": [2, 5, 16]}
    yield models.model([node], shape, {"y": [2, 5, 16]}, {"g": scale, "b": offset}, opset=17)
    for affine in (True, False):
        yield pass_models.layer_norm_model(affine=affine)


@pytest.mark.parametrize("number", range(3))
def test_norm_in_half(number):
    made = list(norms())[number]
    Path("modes.ini").write_text("LayerNorm=keep_fp16\n")
    small = models.random(2, 5, 16, seed=3)
    right = models.reference(made, small)[0]
    usual, short = results(made, small), results(made, small, "--op_precision_mode=modes.ini")
    np.testing.assert_allclose(usual, right, atol=5e-3)
    np.testing.assert_allclose(short, right, atol=0.04)
    assert (short != usual).any()
    # Squares above 65504: infinite in float16, so that nothing is left of the input.
    large = (small * 400).astype(np.float32)
    right = models.reference(made, large)[0]
    np.testing.assert_allclose(results(made, large), right, atol=1e-2)
    lost = results(made, large, "--op_precision_mode=modes.ini")
    assert np.ptp(lost.reshape(-1, 16), axis=0).max() < 1e-3 < np.ptp(right.reshape(-1, 16), axis=0).max()


def test_steps_are_one_operator():
    made = next(norms())
    Path("modes.ini").write_text("LayerNorm=keep_fp16\n")
    results(made, models.random(2, 5, 16), "--op_precision_mode=modes.ini")
    assert [task.op_type for task in om.read("net.om").tasks if task.nodes] == ["LayerNorm"]


# -- HF32 ------------------------------------------------------------------------------------------------


def product():
    weight = models.random(32, 8, seed=7)
    node = models.node("MatMul", ["x", "w"], ["y"], "product")
    return models.model([node], {"x": [4, 32]}, {"y": [4, 8]}, {"w": weight}), weight


def test_rounding_to_hf32():
    values = np.array(
        [1.0, 1 + 2**-11, 1 + 2**-12, 1 + 2**-13, -1 - 2**-12, np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32
    )
    wanted = np.array([1.0, 1 + 2**-11, 1 + 2**-11, 1.0, -1 - 2**-11, np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(to_hf32(values), wanted)


def test_products_of_hf32(capsys):
    made, weight = product()
    x = models.random(4, 32, seed=5)
    origin = "--precision_mode=must_keep_origin_dtype"
    full = results(made, x, origin)
    np.testing.assert_allclose(full, x @ weight, rtol=1e-5, atol=1e-5)
    short = results(made, x, origin, "--allow_hf32=true")
    np.testing.assert_allclose(short, to_hf32(x) @ to_hf32(weight), rtol=1e-5, atol=1e-5)
    assert 1e-5 < abs(short - full).max() < 1e-2
    np.testing.assert_array_equal(results(made, x, origin, "--allow_hf32=false"), full)
    # Nothing is float32 here that could be read otherwise.
    np.testing.assert_array_equal(results(made, x, "--allow_hf32=true"), results(made, x))
    Path("modes.ini").write_text("MatMulV2=enable_float_32_execution\n")
    np.testing.assert_array_equal(results(made, x, origin, "--allow_hf32=true", "--op_precision_mode=modes.ini"), short)
    Path("modes.ini").write_text("[ByNodeName]\nproduct=enable_float_32_execution\n")
    np.testing.assert_array_equal(results(made, x, origin, "--allow_hf32=true", "--op_precision_mode=modes.ini"), full)
    assert fails(made, capsys, "--allow_hf32=1") == "E10005"
    onnx.save(made, "net.onnx")
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3", "--allow_hf32=true"]
    assert atc.main(words) == 255
    assert "E10055: " in capsys.readouterr().out


def test_convolutions_for_all():
    made = models.residual()
    x = models.random(1, 4, 6, 6)
    origin = "--precision_mode=must_keep_origin_dtype"
    short = results(made, x, origin, "--op_select_implmode=high_performance_for_all")
    full = results(made, x, origin, "--op_select_implmode=high_precision_for_all")
    assert 0 < abs(short - full).max() < 1e-2
