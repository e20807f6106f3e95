"""Each fusion pass leaves the result as it was, alone and with all others, honours the switch file, is counted."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pass_models
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannlab import atc, om
from cannlab import soc as socs
from cannlab.atc import compiler
from cannlab.atc.passes import registry
from cannlab.atc.passes.switches import Switches
from cannlab.machine.executor import Model

NAMES = [item.name for item in registry.PASSES]
NONE = Switches(dict.fromkeys(NAMES, False))


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)


def compiled(made, switches, mode="must_keep_origin_dtype", soc="Ascend910B1"):
    """(om as it is read back, effect times by pass)."""
    request = compiler.Request(soc=socs.get(soc), precision_mode=mode, switches=switches)
    result = compiler.compile_model(made, request, lambda level, text: None)
    effects = {report.name: report.effect_times for report in result.reports if report.effect_times}
    return om.read(om.to_bytes(result.om)), effects


def operators(model_om):
    """GE types of the operators that do work."""
    return [task.op_type for task in model_om.tasks if task.op_type not in ("TransData", "Cast") or task.nodes]


def counted():
    """Effect times by pass name from fusion_result.json."""
    (entry,) = json.loads(Path("fusion_result.json").read_text())
    assert entry["session_and_graph_id"] == "0_0"
    found = {}
    for kind in ("graph_fusion", "ub_fusion"):
        for name, times in entry[kind].items():
            assert int(times["match_times"]) >= int(times["effect_times"])
            assert ("repository_hit_times" in times) == (kind == "ub_fusion")
            found[name] = int(times["effect_times"])
    return {name: times for name, times in found.items() if times}


def test_there_is_a_case_for_every_pass():
    assert set(NAMES) == set(pass_models.CASES)
    assert len(NAMES) == len(set(NAMES))


def test_names_are_real():
    for item in registry.PASSES:
        assert item.name in registry.known()[item.kind]


def test_all_names_of_the_toolkit_are_known():
    data = json.loads((Path(registry.__file__).parents[1] / "data" / "fusion_passes.json").read_text())
    assert (len(data["GraphFusion"]), len(data["UBFusion"])) == (173, 79)
    for kind in (registry.GRAPH, registry.UB):
        assert set(data[kind]) <= registry.known()[kind]


@pytest.mark.parametrize("name", NAMES)
def test_alone_with_all_and_without(name):
    """In float32, alone and with every other pass, the numbers stay; without it it has no effect."""
    case = pass_models.CASES[name]
    made = case.build()
    inputs = case.inputs(made)
    wanted = models.reference(made, *inputs)
    alone, effects = compiled(made, Switches({**NONE.named, **dict.fromkeys((name, *case.needs), True)}))
    assert effects[name] == case.times
    together, _ = compiled(made, Switches(dict.fromkeys(NAMES, True)))
    without, effects = compiled(made, Switches({**dict.fromkeys(NAMES, True), name: False}))
    assert name not in effects
    plain, effects = compiled(made, NONE)
    assert not {name for name in effects if name in NAMES}
    for candidate in (alone, together, without, plain):
        for got, value in zip(Model(candidate).run(inputs)[0], wanted, strict=True):
            close = 4e-3 if any(x.dtype == np.float16 for x in inputs) else 5e-5
            np.testing.assert_allclose(got, value, rtol=close, atol=close)
    before, _ = compiled(made, Switches({**NONE.named, **dict.fromkeys(case.needs, True)}))
    assert operators(before) == case.before
    assert operators(alone) == case.after


@pytest.mark.parametrize("name", NAMES)
def test_in_float16(name):
    """All passes on, everything in float16: near the float32 reference."""
    case = pass_models.CASES[name]
    made = case.build()
    inputs = case.inputs(made)
    fused, _ = compiled(made, Switches(), "force_fp16", "Ascend310P3")
    for got, value in zip(Model(fused).run(inputs)[0], models.reference(made, *inputs), strict=True):
        np.testing.assert_allclose(got, value, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("mode", ["force_fp32", "allow_fp32_to_fp16"])
@pytest.mark.parametrize("name", NAMES)
def test_in_mixed_types(name, mode):
    """Casts may come to stand anywhere; nothing waits for itself."""
    case = pass_models.CASES[name]
    made = case.build()
    inputs = case.inputs(made)
    fused, _ = compiled(made, Switches(), mode)
    for got, value in zip(Model(fused).run(inputs)[0], models.reference(made, *inputs), strict=True):
        np.testing.assert_allclose(got, value, rtol=2e-2, atol=2e-2)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_random_graphs(seed):
    """Random networks of everything that passes look for: the same numbers with all passes and with none."""
    made = pass_models.random_network(seed)
    onnx.checker.check_model(made)
    (x,) = pass_models.Case(lambda: made, [], []).inputs(made, seed)
    wanted = models.reference(made, x)
    for switches in (Switches(), NONE):
        model_om, _ = compiled(made, switches)
        for got, value in zip(Model(model_om).run([x])[0], wanted, strict=True):
            np.testing.assert_allclose(got, value, rtol=2e-3, atol=2e-3 * max(1.0, np.abs(value).max()))
        names = [node for task in model_om.tasks for node in task.lowered]
        assert len(names) == len(set(names))
        written = {tensor.name for tensor in model_om.inputs}
        for task in model_om.tasks:
            assert {tensor.name for tensor in task.inputs if ":" not in tensor.name} <= written | _free(model_om)
            written |= {tensor.name for tensor in task.outputs}


def _free(model_om):
    """Tensors that nodes without a kernel write."""
    tasks = {node for task in model_om.tasks for node in task.lowered}
    return {name for node in model_om.graph().graph.node if node.name not in tasks for name in node.output}


@pytest.mark.parametrize(("name", "reason"), pass_models.REFUSALS)
def test_patterns_that_must_stay(name, reason):
    """What looks like the pattern and is not is left alone, with the reason."""
    made = pass_models.REFUSED[name, reason]()
    request = compiler.Request(soc=socs.get("Ascend910B1"), precision_mode="must_keep_origin_dtype", switches=NONE)
    needs = pass_models.CASES[name].needs
    switches = Switches({**NONE.named, **dict.fromkeys((name, *needs), True)})
    result = compiler.compile_model(
        made, compiler.Request(**{**vars(request), "switches": switches}), lambda level, text: None
    )
    (report,) = [report for report in result.reports if report.name == name]
    assert report.effect_times == 0
    assert reason in report.refused[0][1]
    inputs = pass_models.Case(lambda: made, [], []).inputs(made)
    for got, value in zip(Model(result.om).run(inputs)[0], models.reference(made, *inputs), strict=True):
        np.testing.assert_allclose(got, value, rtol=5e-5, atol=5e-5)


def test_all_off_leaves_what_models_need(tmp_path):
    """``ALL: off`` turns off the safe ones only; a pass that is named counts by its name."""
    switch = {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off", "TbeConv2DReluv2Pass": "on"}}}
    (tmp_path / "switch.json").write_text(json.dumps(switch))
    models.convert(models.residual(), tmp_path, "--fusion_switch_file=switch.json")
    assert counted() == {"TbeConv2DReluv2Pass": 1}
    models.convert(pass_models.CASES["AABiasaddConvFusion"].build(), tmp_path, "--fusion_switch_file=switch.json")
    assert counted() == {"AABiasaddConvFusion": 1}
    models.convert(models.conv_bn_relu(), tmp_path, "--fusion_switch_file=switch.json")
    assert counted() == {"BatchNormBnInferFusionPass": 1}


def test_what_is_off_by_default_can_be_turned_on(tmp_path):
    build = pass_models.CASES["SoftmaxSmallOpFusionPass"].build
    models.convert(build(), tmp_path)
    assert "SoftmaxSmallOpFusionPass" not in counted()
    (tmp_path / "one.cfg").write_text("SoftmaxSmallOpFusionPass:on\n")
    models.convert(build(), tmp_path, "--fusion_switch_file=one.cfg")
    assert counted()["SoftmaxSmallOpFusionPass"] == 1
    (tmp_path / "all.json").write_text(json.dumps({"Switch": {"GraphFusion": {"ALL": "on"}}}))
    models.convert(build(), tmp_path, "--fusion_switch_file=all.json")
    assert counted()["SoftmaxSmallOpFusionPass"] == 1


def test_every_known_name_is_accepted(tmp_path):
    switch = {kind: dict.fromkeys(sorted(names), "off") for kind, names in registry.known().items()}
    (tmp_path / "switch.json").write_text(json.dumps({"Switch": switch}))
    models.convert(models.residual(), tmp_path, "--fusion_switch_file=switch.json")
    assert counted() == {}


def test_a_pass_in_the_section_of_the_other_kind(tmp_path, capsys):
    case = pass_models.CASES["TbeConv2DReluv2Pass"]
    (tmp_path / "switch.json").write_text(json.dumps({"Switch": {"GraphFusion": {"TbeConv2DReluv2Pass": "off"}}}))
    models.convert(case.build(), tmp_path, "--fusion_switch_file=switch.json", "--log=warning")
    assert counted()["TbeConv2DReluv2Pass"] == 1
    assert "TbeConv2DReluv2Pass stands under GraphFusion" in capsys.readouterr().out


def test_names_of_fused_operators(tmp_path):
    tasks = models.convert(models.conv_bn_relu(), tmp_path).tasks
    conv = next(task for task in tasks if task.op_type == "Conv2D")
    assert conv.name == "convrelu"
    assert conv.nodes == ("conv", "bn", "relu")
    assert [task.op_type for task in tasks] == ["Cast", "TransData", "Conv2D", "TransData", "Cast"]


def test_the_om_tells_what_each_pass_did(tmp_path):
    made = models.convert(models.conv_bn_relu(), tmp_path)
    assert [(item.name, item.nodes, item.into) for item in made.fusions] == [
        ("ConvBatchnormFusionPass", ("conv", "bn"), "conv"),
        ("TbeConv2DReluv2Pass", ("conv", "bn", "relu"), "conv"),
    ]


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
            models.node("Conv", ["x", "v"], ["c2"], "second", kernel_shape=[1, 1]),
            models.node("Add", ["c1", "c2"], ["y"], "add"),
        ],
        {"x": [1, 2, 4, 4]},
        {"y": [1, 2, 4, 4]},
        {"w": models.random(2, 2, 1, 1), "v": models.random(2, 2, 1, 1, seed=1)},
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
