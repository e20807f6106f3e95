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
    count = sessions._mark(marked)
    # The input's Cast, and one after each convolution but the last, whose result leaves as float32 after its own.
    assert count == len(to_half(part.model)) == 4
    assert not to_half(marked)
    optimised = sessions._optimised(marked, part, 1)
    assert sessions._unmark(optimised) == count
    assert len(to_half(optimised)) == count


def test_plain_way_if_a_pair_is_lost(tmp_path, monkeypatch, whole_numbers):
    made = chain()
    compiled = models.convert(made, tmp_path)
    monkeypatch.setattr(sessions, "_unmark", lambda model, kind: 0)
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
    assert sessions._mark(part_of(made, tmp_path).model) == 0
    (got,) = models.run(models.convert(made, tmp_path), x)
    np.testing.assert_allclose(got, models.reference(made, x)[0], atol=1e-2)
