"""Whole architectures through atc: each exported, converted, run and compared with ONNX Runtime on the original."""

import architectures
import numpy as np
import onnx
import onnxruntime
import pytest
from architectures import ARCHITECTURES

from cannlab import atc, om
from cannlab.machine.executor import Model

EXACT = 1e-5
"""Largest error without a change of types, in units of the largest value of the result."""
HALF = 0.02
"""Relative error (length of the difference over length of the result) that float16 between operators may leave."""


def cases(opset):
    """All architectures; those marked as slow that take more than some seconds, and all at other opsets than 17."""
    found = []
    for architecture in ARCHITECTURES:
        slow = architecture.slow or opset != 17
        marks = [pytest.mark.slow, pytest.mark.timeout(900)] if slow else []
        found.append(pytest.param(architecture, id=architecture.name, marks=marks))
    return found


def original(path, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {item.name: inputs[item.name] for item in session.get_inputs()})


def converted(soc, mode):
    words = ["--model=net.onnx", "--framework=5", "--output=net", f"--soc_version={soc}", f"--precision_mode={mode}"]
    return atc.main(words) == 0


def by_om(inputs, soc, mode):
    assert converted(soc, mode)
    model = om.read("net.om", soc=soc)
    return Model(model).run([inputs[tensor.name] for tensor in model.inputs])[0]


def same(results, wanted):
    for result, right in zip(results, wanted, strict=True):
        scale = max(float(np.abs(right).max()), 1e-3)
        np.testing.assert_allclose(result, right, rtol=0, atol=EXACT * scale)


def near(results, wanted):
    for result, right in zip(results, wanted, strict=True):
        assert np.linalg.norm(result.astype(np.float64) - right) <= HALF * np.linalg.norm(right)


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("architecture", cases(17))
def test_architecture(architecture, tmp_path, capsys):
    inputs = architectures.export(architecture, 17, tmp_path / "net.onnx")
    wanted = original(tmp_path / "net.onnx", inputs)
    same(by_om(inputs, "Ascend910B1", "must_keep_origin_dtype"), wanted)
    for soc in ("Ascend910B1", "Ascend310P3"):
        near(by_om(inputs, soc, "force_fp16"), wanted)
    capsys.readouterr()
    if any(node.op_type == "Conv" for node in onnx.load(tmp_path / "net.onnx").graph.node):
        assert not converted("Ascend310P3", "must_keep_origin_dtype")  # its cube takes no float32
        assert "\nEZ3002: " in capsys.readouterr().out
    else:  # products of matrices have a kernel on its AI CPU
        same(by_om(inputs, "Ascend310P3", "must_keep_origin_dtype"), wanted)
        assert "\nW11001: " in capsys.readouterr().out


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("architecture", cases(11))
def test_older_opset(opset, architecture, tmp_path):
    inputs = architectures.export(architecture, opset, tmp_path / "net.onnx")
    same(by_om(inputs, "Ascend910B1", "must_keep_origin_dtype"), original(tmp_path / "net.onnx", inputs))


NO_GRAPH = {"swin": "torch.export cannot follow its windows"}


@pytest.mark.parametrize("architecture", cases(18))
def test_export_of_today(architecture, tmp_path):
    """What ``torch.onnx.export`` gives by default: other nodes, always at opset 18."""
    architectures.load()
    pytest.importorskip("onnxscript", reason="pip install onnxscript==0.7.2, or set CANNLAB_TEST_MODELS")
    if architecture.name in NO_GRAPH:
        pytest.skip(NO_GRAPH[architecture.name])
    inputs = architectures.export(architecture, 18, tmp_path / "net.onnx", dynamo=True)
    assert {item.domain: item.version for item in onnx.load(tmp_path / "net.onnx").opset_import}[""] == 18
    wanted = original(tmp_path / "net.onnx", inputs)
    same(by_om(inputs, "Ascend910B1", "must_keep_origin_dtype"), wanted)
    near(by_om(inputs, "Ascend310P3", "force_fp16"), wanted)
