"""The executor rounds to float16 where a fused operator ends, and nowhere else."""

import numpy as np
import onnx_models as models
import pytest
from onnx import TensorProto

from cannlab.machine.executor import Model
from cannlab.machine.rounding import Lowered, Part, split
from cannlab.om import OmError


def half(array):
    return np.asarray(array, np.float32).astype(np.float16).astype(np.float32)


SATURATES, INFINITIES = "Ascend310P3", "Ascend910B1"


def on(soc, made, folder, *inputs, mode="force_fp16"):
    return Model(models.convert(made, folder, f"--precision_mode={mode}", soc=soc)).run(list(inputs))[0]


@pytest.mark.parametrize(("soc", "large"), [(INFINITIES, np.inf), (SATURATES, 65504 / 4)])
def test_overflow_between_operators(soc, large, tmp_path):
    x = np.array([60000, 1, -60000, 0], np.float32)
    (got,) = on(soc, models.sum_then_quarter(), tmp_path, x)
    np.testing.assert_array_equal(got, [large, 0.5, -large, 0])


@pytest.mark.parametrize(
    ("op", "x", "kept", "lost"),
    [("Exp", 12, np.inf, 65504), ("Sqrt", -1, np.nan, 0), ("Log", 0, -np.inf, -65504), ("Log", -1, np.nan, 0)]
    + [("Relu", 70000, np.inf, 65504), ("Neg", 70000, -np.inf, -65504), ("Reciprocal", 0, np.inf, 65504)],
)
def test_results_outside_float16(op, x, kept, lost, tmp_path):
    made = models.model([models.node(op, ["x"], ["a"]), models.node("Identity", ["a"], ["y"])], {"x": [3]}, {"y": [3]})
    x = np.array([x, 1, x], np.float32)
    assert on(INFINITIES, made, tmp_path, x)[0][0] == pytest.approx(kept, nan_ok=True)
    assert on(SATURATES, made, tmp_path, x)[0][2] == lost
    assert on(SATURATES, made, tmp_path, x)[0][1] == on(INFINITIES, made, tmp_path, x)[0][1]
    assert on(SATURATES, made, tmp_path, x, mode="must_keep_origin_dtype")[0][0] == pytest.approx(
        on(INFINITIES, made, tmp_path, x, mode="must_keep_origin_dtype")[0][0], nan_ok=True
    )


@pytest.mark.parametrize("mode", ["force_fp32", "must_keep_origin_dtype", "allow_fp32_to_fp16"])
def test_no_overflow_in_float32(mode, tmp_path):
    x = np.array([60000, 1, -60000, 0], np.float32)
    compiled = models.convert(models.sum_then_quarter(), tmp_path, f"--precision_mode={mode}")
    (got,) = models.run(compiled, x)
    np.testing.assert_array_equal(got, [30000, 0.5, -30000, 0])


def test_a_chain_is_rounded_at_every_step(tmp_path):
    """sqrt, divide (by the reciprocal), square, add: each result is the rounded one, bit for bit, in one kernel."""
    made = models.model(
        [
            models.node("Sqrt", ["x"], ["a"]),
            models.node("Div", ["a", "three"], ["b"]),
            models.node("Mul", ["b", "b"], ["c"]),
            models.node("Add", ["c", "x"], ["y"]),
        ],
        {"x": [1000]},
        {"y": [1000]},
        {"three": np.array(3, np.float32)},
    )
    x = np.abs(models.random(1000, scale=100))
    compiled = models.convert(made, tmp_path)
    assert len([task for task in compiled.tasks if task.op_type != "Cast"]) == 1
    (got,) = models.run(compiled, x)
    h = half(x)
    c = half(half(half(np.sqrt(h)) * half(np.float32(1 / 3))) ** 2)
    np.testing.assert_array_equal(got, half(c + h))
    unrounded = (np.sqrt(h) / 3) ** 2 + h
    assert (got != half(unrounded)).sum() > 20


def test_inside_a_fused_operator_nothing_is_rounded(tmp_path):
    """Conv + Add: the product 1e4 * 8 overflows float16 alone, not in the sum that leaves the operator."""
    made = models.model(
        [
            models.node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[1, 1]),
            models.node("Add", ["c", "z"], ["y"], "add"),
        ],
        {"x": [1, 1, 2, 2], "z": [1, 1, 2, 2]},
        {"y": [1, 1, 2, 2]},
        {"w": np.full((1, 1, 1, 1), 8, np.float32)},
    )
    x, z = np.full((1, 1, 2, 2), 10000, np.float32), np.full((1, 1, 2, 2), -49152, np.float32)
    fused = models.convert(made, tmp_path)
    np.testing.assert_array_equal(models.run(fused, x, z)[0], half(np.full((1, 1, 2, 2), 30848)))
    (tmp_path / "off.cfg").write_text("TbeConv2DEltwisePass:off")
    plain = models.convert(made, tmp_path, f"--fusion_switch_file={tmp_path / 'off.cfg'}")
    np.testing.assert_array_equal(models.run(plain, x, z)[0], half(np.full((1, 1, 2, 2), 65504 - 49152)))


def test_exact_results_are_not_rounded_again(tmp_path):
    made = models.model(
        [
            models.node("Sigmoid", ["x"], ["s"]),
            models.node("Transpose", ["s"], ["t"], perm=[1, 0]),
            models.node("Relu", ["t"], ["r"]),
            models.node("Concat", ["r", "r"], ["y"], axis=0),
        ],
        {"x": [4, 6]},
        {"y": [12, 4]},
    )
    lowered = Lowered(models.convert(made, tmp_path), saturates=False)
    (part,) = split(lowered, lambda node: False)
    assert isinstance(part, Part)
    to_half = [node for node in part.model.graph.node if node.op_type == "Cast" and node.attribute[0].i == 10]
    # One for the input, one for the sigmoid; the output is declared float32 and needs none.
    assert len(to_half) == 2


def test_float16_input_and_output(tmp_path):
    compiled = models.convert(models.residual(), tmp_path, "--input_fp16_nodes=x", "--output_type=FP16")
    assert compiled.inputs[0].type.name == "float16"
    assert compiled.outputs[0].type.name == "float16"
    assert [task.op_type for task in compiled.tasks].count("Cast") == 0
    x = models.random(1, 4, 6, 6)
    (got,) = models.run(compiled, x.astype(np.float16))
    assert got.dtype == np.float16
    (wide,) = models.run(models.convert(models.residual(), tmp_path), x)
    np.testing.assert_array_equal(got.astype(np.float32), wide)


def test_model_of_float16(tmp_path):
    made = models.model(
        [models.node("Add", ["x", "x"], ["s"]), models.node("Mul", ["s", "q"], ["y"])],
        {"x": [2]},
        {"y": [2]},
        {"q": np.array(0.25, np.float16)},
        dtype=TensorProto.FLOAT16,
    )
    for mode in ("force_fp16", "must_keep_origin_dtype"):
        compiled = models.convert(made, tmp_path, f"--precision_mode={mode}")
        (got,) = models.run(compiled, np.array([60000, 2], np.float16))
        np.testing.assert_array_equal(got, np.array([65504 / 4, 1], np.float16))
    compiled = models.convert(made, tmp_path, "--precision_mode=force_fp32")
    np.testing.assert_array_equal(models.run(compiled, np.array([60000, 2], np.float16))[0], [30000, 1])


def test_cube_takes_float16_and_gives_float32(tmp_path):
    made = models.model(
        [models.node("MatMul", ["x", "w"], ["y"])],
        {"x": [1, 64]},
        {"y": [1, 8]},
        {"w": models.random(64, 8, seed=1)},
    )
    x = models.random(1, 64, scale=100)
    (got,) = models.run(models.convert(made, tmp_path, "--precision_mode=force_fp32"), x)
    w = half(models.random(64, 8, seed=1))
    np.testing.assert_allclose(got, half(x).astype(np.float64) @ w, rtol=1e-4, atol=1e-2)
    assert (got != half(got)).any()


def test_weights_are_clipped_to_float16(tmp_path):
    made = models.model(
        [models.node("Mul", ["x", "w"], ["y"])],
        {"x": [2]},
        {"y": [2]},
        {"w": np.array([1e6, -1e6], np.float32)},
    )
    x = np.array([1, 1], np.float32)
    np.testing.assert_array_equal(models.run(models.convert(made, tmp_path), x)[0], [65504, -65504])
    compiled = models.convert(made, tmp_path, "--is_weight_clip=0", soc=INFINITIES)
    np.testing.assert_array_equal(models.run(compiled, x)[0], [np.inf, -np.inf])


def test_wrong_inputs_are_refused(tmp_path):
    model = Model(models.convert(models.residual(), tmp_path))
    good = models.random(1, 4, 6, 6)
    for inputs in ([], [good, good], [good[0]], [good.astype(np.float64)], [good.transpose(0, 2, 3, 1)]):
        with pytest.raises(OmError) as caught:
            model.run(inputs)
        assert caught.value.code == 145000


def test_views_are_taken_as_they_are(tmp_path):
    """An input that is not contiguous gives the same as its copy."""
    model = Model(models.convert(models.residual(), tmp_path))
    wide = models.random(1, 4, 6, 12)
    (got,), _ = model.run([wide[..., ::2]])
    (wanted,), _ = model.run([np.ascontiguousarray(wide[..., ::2])])
    np.testing.assert_array_equal(got, wanted)


def test_two_runs_give_the_same_bytes_and_times(tmp_path):
    compiled = models.convert(models.residual(), tmp_path)
    x = models.random(1, 4, 6, 6)
    (first, work), (second, again) = Model(compiled).run([x]), Model(compiled).run([x])
    assert first[0].tobytes() == second[0].tobytes()
    assert work == again


def test_lowered_graph_is_float16_onnx(tmp_path):
    """The om's graph is a valid model of its own; ONNX Runtime runs it, only without the rounding."""
    compiled = models.convert(models.residual(), tmp_path)
    graph = compiled.graph(weights=True)
    types = {item.data_type for item in graph.graph.initializer}
    assert types == {TensorProto.FLOAT16}
    x = models.random(1, 4, 6, 6)
    np.testing.assert_allclose(models.run(compiled, x)[0], models.reference(graph, x)[0], atol=2e-2)
