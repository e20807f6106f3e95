"""Custom operators: accepted by atc, run by the executor between the parts of the graph."""

import numpy as np
import onnx_models as models
import pytest

from cannlab import atc
from cannlab.machine import custom_ops
from cannlab.machine.custom_ops import CustomOp, TensorType
from cannlab.machine.executor import Model
from cannlab.om import OmError


@pytest.fixture
def seen():
    """The arrays that the operator was given."""
    return []


@pytest.fixture
def registered(seen):
    made = []

    def register(**changes):
        def run(inputs, attributes):
            seen.extend(inputs)
            return [inputs[0] * attributes["factor"] + inputs[1]]

        op = custom_ops.register(CustomOp(**{"domain": "lab", "op_type": "ScaleAdd", "run": run, **changes}))
        made.append(op)
        return op

    yield register
    for op in made:
        if op in custom_ops.registered():
            custom_ops.unregister(op.domain, op.op_type)


def net(domain="lab"):
    return models.model(
        [
            models.node("Relu", ["x"], ["r"], "relu"),
            models.node("ScaleAdd", ["r", "w"], ["s"], "mine", domain=domain, factor=3.0),
            models.node("Add", ["s", "x"], ["y"], "add"),
        ],
        {"x": [2, 8]},
        {"y": [2, 8]},
        {"w": models.random(2, 8, seed=3)},
        domains=[("lab", 1)],
    )


def test_runs_in_float16_between_segments(registered, seen, tmp_path):
    registered(cost=lambda soc, inputs, outputs, attributes: 1000 * inputs[0].dims[0], ge_type="ScaleAddGe")
    compiled = models.convert(net(), tmp_path)
    x = models.random(2, 8)
    model = Model(compiled)
    (got,), work = model.run([x])
    assert {array.dtype for array in seen} == {np.dtype(np.float16)}
    wanted = np.maximum(x, 0) * 3 + models.random(2, 8, seed=3) + x
    np.testing.assert_allclose(got, wanted, atol=2e-2)
    task = next(item for item in work.operators if item.name == "mine")
    assert (task.op_type, task.ns) == ("ScaleAddGe", 2000)


def test_keeps_float32_if_it_must(registered, seen, tmp_path):
    registered(float16=False)
    x = models.random(2, 8)
    models.run(models.convert(net(), tmp_path), x)
    assert {array.dtype for array in seen} == {np.dtype(np.float32)}


def test_in_the_default_domain(registered, tmp_path):
    registered(domain="ai.onnx")
    x = models.random(2, 8)
    (got,) = models.run(models.convert(net(""), tmp_path), x)
    np.testing.assert_allclose(got, np.maximum(x, 0) * 3 + models.random(2, 8, seed=3) + x, atol=2e-2)


def test_infers_another_shape_and_type(registered, tmp_path):
    registered(
        op_type="CountPositive",
        run=lambda inputs, attributes: [(inputs[0] > 0).sum(axis=1)],
        infer=lambda inputs, attributes: [TensorType(np.dtype(np.int32), inputs[0].dims[:1])],
    )
    made = models.model(
        [
            models.node("CountPositive", ["x"], ["n"], "count", domain="lab"),
            models.node("Cast", ["n"], ["f"], "cast", to=1),
            models.node("Neg", ["f"], ["y"], "neg"),
        ],
        {"x": [3, 5]},
        {"y": [3]},
        domains=[("lab", 1)],
    )
    x = models.random(3, 5)
    (got,) = models.run(models.convert(made, tmp_path), x)
    np.testing.assert_array_equal(got, -(x > 0).sum(axis=1).astype(np.float32))


def test_not_registered_at_compile_time(tmp_path, capsys):
    with pytest.raises(AssertionError):
        models.convert(net(), tmp_path)
    assert "E19010:" in capsys.readouterr().out
    assert not (tmp_path / "net.om").exists()


def test_registered_for_another_opset(registered, tmp_path, capsys):
    registered(opsets=(2,))
    with pytest.raises(AssertionError):
        models.convert(net(), tmp_path)
    assert "lab::1::ScaleAdd" in capsys.readouterr().out


def test_not_registered_at_load_time(registered, tmp_path):
    op = registered()
    compiled = models.convert(net(), tmp_path)
    custom_ops.unregister(op.domain, op.op_type)
    with pytest.raises(OmError) as caught:
        Model(compiled)
    assert caught.value.diagnosis.rule == "om.custom_missing"
    custom_ops.register(op)
    assert atc.main(["--mode=6", f"--om={tmp_path / 'net.om'}"]) == 0
