"""Each fusion pass leaves the result as it was, honours the switch file, and is counted."""

import json
from pathlib import Path

import numpy as np
import onnx_models as models
import pytest

from cannlab import atc
from cannlab.atc.passes import registry

CASES = {
    "ConvBatchnormFusionPass": (models.conv_bn_relu, (1, 3, 8, 8)),
    "TbeConv2DReluv2Pass": (models.conv_bn_relu, (1, 3, 8, 8)),
    "TbeConv2DEltwisePass": (models.residual, (1, 4, 6, 6)),
    "TbeDepthwiseConvElemwiseFusionPass": (models.depthwise, (1, 4, 6, 6)),
    "MatMulBiasAddFusionPass": (models.perceptron, (2, 12)),
    "ATbeMatmulElemwiseFusionPass": (models.perceptron, (2, 12)),
}


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)


def counted():
    """Effect times by pass name from fusion_result.json."""
    (entry,) = json.loads(Path("fusion_result.json").read_text())
    found = {}
    for kind in ("graph_fusion", "ub_fusion"):
        for name, times in entry[kind].items():
            assert times["effect_times"] == times["match_times"]
            assert ("repository_hit_times" in times) == (kind == "ub_fusion")
            found[name] = int(times["effect_times"])
    return found


def test_there_is_a_case_for_every_pass():
    assert {item.name for item in registry.PASSES} == set(CASES)


def test_names_are_real():
    for item in registry.PASSES:
        assert item.name in registry.known()[item.kind]


@pytest.mark.parametrize("name", CASES)
def test_result_is_the_same_with_and_without(name, tmp_path):
    build, shape = CASES[name]
    x = models.random(*shape, seed=11)
    fused = models.convert(build(), tmp_path, "--precision_mode=must_keep_origin_dtype", soc="Ascend910B1")
    assert counted()[name] >= 1
    (tmp_path / "switch.cfg").write_text(f"{name}:off\n")
    options = ("--precision_mode=must_keep_origin_dtype", "--fusion_switch_file=switch.cfg")
    plain = models.convert(build(), tmp_path, *options, soc="Ascend910B1")
    assert name not in counted()
    assert len(plain.tasks) > len(fused.tasks)
    wanted = models.reference(build(), x)[0]
    for compiled in (fused, plain):
        np.testing.assert_allclose(models.run(compiled, x)[0], wanted, rtol=2e-5, atol=2e-5)


def test_all_off_by_json(tmp_path):
    switch = {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off", "TbeConv2DReluv2Pass": "on"}}}
    (tmp_path / "switch.json").write_text(json.dumps(switch))
    models.convert(models.residual(), tmp_path, "--fusion_switch_file=switch.json")
    assert counted() == {"TbeConv2DReluv2Pass": 1}


def test_names_of_fused_operators(tmp_path):
    tasks = models.convert(models.conv_bn_relu(), tmp_path).tasks
    conv = next(task for task in tasks if task.op_type == "Conv2D")
    assert conv.name == "convrelu"
    assert conv.nodes == ("conv", "bn", "relu")
    assert [task.op_type for task in tasks] == ["Cast", "TransData", "Conv2D", "TransData", "Cast"]


def test_nothing_is_fused_across_a_second_reader(tmp_path):
    made = models.model(
        [
            models.node("Conv", ["x", "w"], ["c"], "conv", kernel_shape=[1, 1]),
            models.node("Relu", ["c"], ["r"], "relu"),
            models.node("Sigmoid", ["c"], ["s"], "sigmoid"),
        ],
        {"x": [1, 2, 4, 4]},
        {"r": [1, 2, 4, 4], "s": [1, 2, 4, 4]},
        {"w": models.random(2, 2, 1, 1)},
    )
    tasks = models.convert(made, tmp_path).tasks
    assert {"Conv2D", "Relu", "Sigmoid"} <= {task.op_type for task in tasks}
    assert counted() == {}


def test_add_before_its_other_operand_is_ready_is_not_fused_early(tmp_path):
    made = models.model(
        [
            models.node("Conv", ["x", "w"], ["c1"], "first", kernel_shape=[1, 1]),
            models.node("Conv", ["x", "w"], ["c2"], "second", kernel_shape=[1, 1]),
            models.node("Add", ["c1", "c2"], ["y"], "add"),
        ],
        {"x": [1, 2, 4, 4]},
        {"y": [1, 2, 4, 4]},
        {"w": models.random(2, 2, 1, 1)},
    )
    compiled = models.convert(made, tmp_path)
    assert [task.name for task in compiled.tasks if task.op_type == "Conv2D"] == ["first", "secondadd"]
    x = models.random(1, 2, 4, 4)
    np.testing.assert_allclose(models.run(compiled, x)[0], models.reference(made, x)[0], atol=1e-2)


def test_report_can_be_left_out_and_moved(tmp_path, monkeypatch):
    models.convert(models.residual(), tmp_path, "--export_compile_stat=0")
    assert not (tmp_path / "fusion_result.json").exists()
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
    models.convert(models.residual(), tmp_path)
    assert not (tmp_path / "fusion_result.json").exists()
    assert len(list((tmp_path / "work" / "FE").glob("*/fusion_result.json"))) == 1


@pytest.mark.parametrize(
    "text",
    ["NoSuchPass:off", "TbeConv2DReluv2Pass:false", '{"Switch": 3}', "{", "TbeConv2DReluv2Pass"],
)
def test_bad_switch_file(text, tmp_path, capsys):
    (tmp_path / "bad.cfg").write_text(text)
    words = ["--model=a.onnx", "--framework=5", "--output=a", "--soc_version=Ascend310P3"]
    assert atc.main([*words, "--fusion_switch_file=bad.cfg"]) == 255
    assert "E10032:" in capsys.readouterr().out
