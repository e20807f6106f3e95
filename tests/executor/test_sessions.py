"""The fast way through the blocked layout rounds exactly where the plain way does."""

import numpy as np
import onnx_models as models
import pytest
from onnx import TensorProto, numpy_helper

from cannlab.machine import executor, sessions
from cannlab.machine.executor import Model
from cannlab.machine.rounding import Lowered, split


def chain(width=32):
    """Three 1x1 convolutions of whole numbers, with a pooling between: every sum is exact in float32."""
    weights = {}
    for number in (1, 2, 3):
        values = np.random.default_rng(number).integers(-1, 2, (width, width, 1, 1))
        weights[f"w{number}"] = values.astype(np.float32)
    return models.model(
        [
            models.node("Conv", ["x", "w1"], ["c1"], "conv1", kernel_shape=[1, 1]),
            models.node("Relu", ["c1"], ["r1"], "relu1"),
            models.node("MaxPool", ["r1"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
            models.node("Conv", ["p", "w2"], ["c2"], "conv2", kernel_shape=[1, 1]),
            models.node("Conv", ["c2", "w3"], ["y"], "conv3", kernel_shape=[1, 1]),
        ],
        {"x": [1, width, 8, 8]},
        {"y": [1, width, 4, 4]},
        weights,
    )


def by_hand(x, made):
    """The chain in numpy, rounded after each fused operator."""
    weights = [numpy_helper.to_array(item) for item in made.graph.initializer]

    def half(array):
        return array.astype(np.float16).astype(np.float32)

    def conv(array, weight):
        return half(np.einsum("nchw,oc->nohw", array.astype(np.float64), weight[:, :, 0, 0]).astype(np.float32))

    first = np.maximum(conv(half(x), weights[0]), 0)
    n, c, h, w = first.shape
    pooled = first.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    return conv(conv(pooled, weights[1]), weights[2])


@pytest.fixture
def whole_numbers():
    return np.random.default_rng(9).integers(-250, 251, (1, 32, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("build", [sessions.build, sessions.plain])
def test_rounds_as_by_hand(build, whole_numbers, tmp_path, monkeypatch):
    monkeypatch.setattr(executor.sessions, "build", build)
    made = chain()
    wanted = by_hand(whole_numbers, made)
    assert np.isfinite(wanted).all()
    (got,) = models.run(models.convert(made, tmp_path), whole_numbers)
    np.testing.assert_array_equal(got, wanted)
    # The rounding in between is seen in the result: without it other values come out.
    exact = models.reference(made, whole_numbers)[0].astype(np.float16).astype(np.float32)
    assert (wanted != exact).mean() > 0.2


def part_of(made, tmp_path):
    (part,) = split(Lowered(models.convert(made, tmp_path), saturates=False), lambda node: False)
    return part


def to_half(model):
    return [node for node in model.graph.node if node.op_type == "Cast" and node.attribute[0].i == TensorProto.FLOAT16]


def test_every_pair_is_found_again(tmp_path):
    part = part_of(chain(), tmp_path)
    marked = type(part.model)()
    marked.CopyFrom(part.model)
    count, saturates = sessions._mark(marked)
    assert not saturates
    # The input's Cast, and one after each convolution but the last, whose result leaves as float32 after its own.
    assert count == len(to_half(part.model)) == 4
    assert not to_half(marked)
    optimised = sessions._optimised(marked, part, 1)
    assert sessions._unmark(optimised) == count
    assert len(to_half(optimised)) == count


def test_plain_way_if_a_pair_is_lost(tmp_path, monkeypatch, whole_numbers):
    made = chain()
    compiled = models.convert(made, tmp_path)
    monkeypatch.setattr(sessions, "_unmark", lambda model, kind, saturates: 0)
    np.testing.assert_array_equal(Model(compiled).run([whole_numbers])[0][0], by_hand(whole_numbers, made))


def test_plain_way_without_a_temporary_folder(tmp_path, monkeypatch, whole_numbers):
    made = chain()
    compiled = models.convert(made, tmp_path)

    def refuse(*args, **kwargs):
        raise OSError("no room")

    monkeypatch.setattr(sessions.tempfile, "TemporaryDirectory", refuse)
    np.testing.assert_array_equal(Model(compiled).run([whole_numbers])[0][0], by_hand(whole_numbers, made))


def test_a_model_with_tanh_of_its_own(tmp_path):
    made = models.model(
        [
            models.node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[1, 1]),
            models.node("Tanh", ["c"], ["t"], "tanh"),
            models.node("Conv", ["t", "w"], ["y"], "conv2", kernel_shape=[1, 1]),
        ],
        {"x": [1, 16, 4, 4]},
        {"y": [1, 16, 4, 4]},
        {"w": models.random(16, 16, 1, 1, scale=0.3)},
    )
    x = models.random(1, 16, 4, 4)
    assert sessions._mark(part_of(made, tmp_path).model) == (0, False)
    (got,) = models.run(models.convert(made, tmp_path), x)
    np.testing.assert_allclose(got, models.reference(made, x)[0], atol=1e-2)


def overflowing():
    """Convolutions of every fusion (plain, with Relu, with Add and Relu, with Add) whose results leave float16."""
    nodes = [
        models.node("Conv", ["x", "w1"], ["c1"], "conv1", kernel_shape=[1, 1]),
        models.node("Relu", ["c1"], ["r1"], "relu1"),
        models.node("Conv", ["r1", "w2"], ["c2"], "conv2", kernel_shape=[1, 1]),
        models.node("Add", ["c2", "x"], ["a2"], "add2"),
        models.node("Relu", ["a2"], ["r2"], "relu2"),
        models.node("Conv", ["r2", "w3"], ["c3"], "conv3", kernel_shape=[1, 1]),
        models.node("Add", ["c3", "r1"], ["a3"], "add3"),
        models.node("MaxPool", ["a3"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        models.node("Conv", ["p", "w4"], ["c4"], "conv4", kernel_shape=[1, 1]),
        models.node("Mul", ["c4", "small"], ["y"], "mul"),
    ]
    weights = {f"w{n}": np.random.default_rng(n).integers(-2, 3, (32, 32, 1, 1)).astype(np.float32) for n in (1, 2, 3)}
    weights |= {"w4": np.eye(32, dtype=np.float32)[:, :, None, None], "small": np.array(0.125, np.float32)}
    return models.model(nodes, {"x": [1, 32, 8, 8]}, {"y": [1, 32, 4, 4]}, weights)


@pytest.mark.parametrize("opset", [9, 13])
def test_saturation_in_the_blocked_layout(opset, tmp_path, monkeypatch):
    """Where fp16 saturates, both ways give the same numbers, none infinite, and the Clips go into the convolutions."""
    made = overflowing()
    made.opset_import[0].version = opset
    compiled = models.convert(made, tmp_path)
    x = np.random.default_rng(9).integers(-4000, 4001, (1, 32, 8, 8)).astype(np.float32)
    kinds = []
    unmark = sessions._unmark

    def spied(model, *args, **kwargs):
        count = unmark(model, *args, **kwargs)
        kinds.extend(node.op_type for node in model.graph.node)
        return count

    monkeypatch.setattr(sessions, "_unmark", spied)
    (blocked,) = Model(compiled).run([x])[0]
    assert kinds.count("Clip") <= 2  # behind the input's Cast, and none behind a convolution
    assert "ReorderOutput" in kinds
    monkeypatch.setattr(executor.sessions, "build", sessions.plain)
    (plain,) = Model(compiled).run([x])[0]
    np.testing.assert_array_equal(blocked, plain)
    assert (np.abs(plain) == 65504 / 8).any()
    assert np.isfinite(plain).all()
