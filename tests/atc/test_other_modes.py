"""Single operators, the check report, graphs as JSON and text, and options that write or order."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pytest

from cannlab import atc, om
from cannlab.atc.passes import registry
from cannlab.machine import custom_ops
from cannlab.machine.custom_ops import CustomOp

BASE = ("--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3")


def code_of(capsys, *words):
    assert atc.main(list(words)) == 255
    return re.search(r"^(\w+): \[PID", capsys.readouterr().out, re.MULTILINE).group(1)


# -- single operators ----------------------------------------------------------------------------------------


def desc(*shape, type="float16", format="ND", **more):
    return {"type": type, "format": format, "shape": list(shape), **more}


def describe(*ops):
    Path("ops.json").write_text(json.dumps(ops))


SINGLE = ("--singleop=ops.json", "--output=out", "--soc_version=Ascend310P3")


def test_names_of_single_operators():
    three = desc(3, 3, type="int32")
    describe(
        {"op": "Add", "input_desc": [three, three], "output_desc": [three]},
        {"op": "Relu", "name": "mine", "input_desc": [desc(4)], "output_desc": [desc(4)]},
    )
    assert atc.main(list(SINGLE)) == 0
    assert sorted(item.name for item in Path("out").iterdir()) == ["0_Add_3_2_3_3_3_2_3_3_3_2_3_3.om", "mine.om"]
    made = om.read("out/0_Add_3_2_3_3_3_2_3_3_3_2_3_3.om", soc="Ascend310P3")
    assert [tensor.type.name for tensor in (*made.inputs, *made.outputs)] == ["int32"] * 3
    (got,) = models.run(made, np.full((3, 3), 2, np.int32), np.arange(9, dtype=np.int32).reshape(3, 3))
    np.testing.assert_array_equal(got, np.arange(9).reshape(3, 3) + 2)


def attribute(name, type, value):
    return {"name": name, "type": type, "value": value}


def test_single_operators_with_attributes():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((4, 16), (8, 4)))
    describe(
        {
            "op": "MatMulV2",
            "name": "product",
            "input_desc": [desc(4, 16), desc(8, 4), {"type": "UNDEFINED", "format": "RESERVED", "shape": []}],
            "output_desc": [desc(16, 8)],
            "attr": [attribute("transpose_x1", "bool", True), attribute("transpose_x2", "bool", True)],
        },
        {
            "op": "Conv2D",
            "name": "conv",
            "input_desc": [desc(1, 3, 8, 8, format="NCHW"), desc(4, 3, 3, 3, format="NCHW")],
            "output_desc": [desc(1, 4, 4, 4, format="NCHW")],
            "attr": [attribute("strides", "list_int", [1, 1, 2, 2]), attribute("pads", "list_int", [1, 1, 1, 1])],
        },
        {
            "op": "Cast",
            "name": "cast",
            "input_desc": [desc(4)],
            "output_desc": [desc(4, type="int32")],
            "attr": [attribute("dst_type", "int", 3)],
        },
        {
            "op": "SoftmaxV2",
            "name": "softmax",
            "input_desc": [desc(2, 5, type="float")],
            "output_desc": [desc(2, 5, type="float")],
            "attr": [attribute("axes", "list_int", [0])],
        },
    )
    assert atc.main(list(SINGLE)) == 0
    (got,) = models.run(om.read("out/product.om"), a, b)
    np.testing.assert_allclose(got, (a.T.astype(np.float32) @ b.T.astype(np.float32)), atol=2e-2)
    assert om.read("out/conv.om").outputs[0].dims == (1, 4, 4, 4)
    (got,) = models.run(om.read("out/cast.om"), np.array([1.5, -2, 3, 0], np.float16))
    np.testing.assert_array_equal(got, np.array([1, -2, 3, 0], np.int32))
    x = rng.standard_normal((2, 5)).astype(np.float32)
    (got,) = models.run(om.read("out/softmax.om"), x)
    np.testing.assert_allclose(got, np.exp(x) / np.exp(x).sum(0), rtol=1e-5)


def test_single_operators_with_open_shapes_and_constants():
    describe(
        {
            "op": "Add",
            "name": "open",
            "input_desc": [desc(-1, 16, shape_range=[[1, 32]]), desc(16, is_const=True, const_value=list(range(16)))],
            "output_desc": [desc(-1, 16, shape_range=[[1, 32]])],
        }
    )
    assert atc.main(list(SINGLE)) == 0
    made = om.read("out/open.om")
    assert (len(made.inputs), made.inputs[0].ranges) == (1, ((1, 32), (16, 16)))
    (got,) = models.run(made, np.ones((5, 16), np.float16))
    np.testing.assert_array_equal(got, np.tile(np.arange(16) + 1, (5, 1)))


RELU = {"op": "Relu", "input_desc": [desc(4)], "output_desc": [desc(4)]}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "E10025"),
        ("[]", "E10025"),
        ("{}", "E10025"),
        (json.dumps([{**RELU, "op": ""}]), "E10026"),
        (json.dumps([{**RELU, "input_desc": [desc(4, type="half16")]}]), "E10027"),
        (json.dumps([{**RELU, "input_desc": [desc(4, format="NWHC")]}]), "E10027"),
        (json.dumps([{**RELU, "input_desc": [desc(-2)]}]), "E10027"),
        (json.dumps([{**RELU, "input_desc": [desc(-1, shape_range=[[1, 2], [1, 2]])]}]), "E10027"),
        (json.dumps([{**RELU, "input_desc": [desc(4, is_const=True, const_value=[1])]}]), "E10027"),
        (json.dumps([{**RELU, "attr": [{"type": "int", "value": 1}]}]), "E10029"),
        (json.dumps([{**RELU, "attr": [attribute("a", "integer", 1)]}]), "E10030"),
        (json.dumps([{**RELU, "attr": [attribute("a", "list_int", 1)]}]), "E10030"),
        (json.dumps([{**RELU, "op": "ReLU"}]), "E10501"),
        (json.dumps([{**RELU, "op": "GridSampler2D"}]), "E10055"),
        (json.dumps([{**RELU, "output_desc": [desc(5)]}]), "E14001"),
        (json.dumps([{**RELU, "op": "Conv2D"}]), "E14001"),
        (json.dumps([RELU, {**RELU, "op": "ReLU"}]), "E10501"),
    ],
)
def test_codes_of_single_operators(text, code, capsys):
    Path("ops.json").write_text(text)
    assert code_of(capsys, *SINGLE) == code
    assert not Path("out").exists()


def test_what_single_operators_need(capsys):
    describe(RELU)
    assert code_of(capsys, "--singleop=ops.json", "--soc_version=Ascend310P3") == "E10004"
    assert code_of(capsys, "--singleop=ops.json", "--output=out") == "E10054"
    assert code_of(capsys, "--singleop=none.json", "--output=out", "--soc_version=Ascend310P3") == "E19000"
    Path("out").write_text("a file")
    assert code_of(capsys, *SINGLE) == "E19000"


# -- the check report ----------------------------------------------------------------------------------------


def test_check_only():
    onnx.save(models.residual(), "net.onnx")
    assert atc.main(["--mode=3", "--model=net.onnx", "--framework=5", "--soc_version=Ascend310P3"]) == 0
    report = json.loads(Path("check_result.json").read_text())
    assert {key: report[key] for key in ("name", "result", "total", "pass", "fail")} == {
        "name": "net",
        "result": "success",
        "total": 5,
        "pass": 5,
        "fail": 0,
    }
    assert report["op"][0] == {"name": "conv1", "type": "ai.onnx::13::Conv", "result": "success"}
    assert not Path("net.om").exists()


def test_what_the_check_finds(capsys, monkeypatch, tmp_path):
    made = models.model(
        [
            models.node("Relu", ["x"], ["a"], "same"),
            models.node("Relu", ["a"], ["b"], "same"),
            models.node("Nothing", ["b"], ["y"], "odd"),
        ],
        {"x": [4]},
        {"y": [4]},
    )
    onnx.save(made, "net.onnx")
    words = ["--mode=3", "--model=net.onnx", "--framework=5", "--check_report=report.json"]
    assert atc.main(words) == 255
    report = json.loads(Path("report.json").read_text())
    assert (report["result"], report["total"], report["pass"], report["fail"]) == ("failed", 3, 0, 3)
    assert [entry["cause"][0]["message"] for entry in report["op"]] == [
        "The name is repeated in the graph.",
        "The name is repeated in the graph.",
        "The type is not supported.",
    ]
    # A conversion that the check refuses leaves the report too, in ASCEND_WORK_PATH if that is set.
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
    assert atc.main(list(BASE)) == 255
    assert json.loads((tmp_path / "work" / "check_result.json").read_text()) == report


# -- JSON and text -------------------------------------------------------------------------------------------


def test_shapes_in_the_json_of_a_model():
    onnx.save(models.residual(), "net.onnx")
    words = ["--mode=1", "--om=net.onnx", "--framework=5", "--json=net.json"]
    assert atc.main(words) == 0
    assert "value_info" not in json.loads(Path("net.json").read_text())["graph"]
    assert atc.main([*words, "--dump_mode=1"]) == 0
    infos = json.loads(Path("net.json").read_text())["graph"]["value_info"]
    assert {info["name"] for info in infos} == {"c1", "r1", "c2", "a"}


def test_a_dumped_graph_as_json(monkeypatch, capsys):
    onnx.save(models.residual(), "net.onnx")
    assert atc.main(list(BASE)) == 0
    assert not list(Path().glob("ge_proto*"))
    monkeypatch.setenv("DUMP_GE_GRAPH", "1")
    assert atc.main(list(BASE)) == 0
    (dump,) = Path().glob("ge_proto_*.txt")
    assert atc.main(["--mode=5", f"--om={dump}", "--json=dump.json"]) == 0
    assert atc.main(["--mode=1", "--om=net.om", "--json=om.json"]) == 0
    dumped, direct = (json.loads(Path(name).read_text()) for name in ("dump.json", "om.json"))
    # An empty list has no form in the text, so the Casts that atc put in have no names of origin there.
    for operators in (dumped["graph"][0]["op"], direct["graph"][0]["op"]):
        for operator in operators:
            operator["attr"] = [entry for entry in operator["attr"] if entry["value"]["list"].get("s")]
    assert dumped["graph"][0]["op"] == direct["graph"][0]["op"]
    Path("bad.txt").write_text("graph {")
    assert code_of(capsys, "--mode=5", "--om=bad.txt", "--json=bad.json") == "E19018"
    assert code_of(capsys, "--mode=5", "--om=net.om", "--json=bad.json") == "E19018"
    assert code_of(capsys, "--mode=5", f"--om={dump}") == "E10004"
    assert not Path("bad.json").exists()


def test_gears_and_aipp_in_the_json():
    made = models.model([models.node("Relu", ["x"], ["y"])], {"x": ["n", 3, 4, 4]}, {"y": ["n", 3, 4, 4]})
    onnx.save(made, "net.onnx")
    Path("aipp.cfg").write_text("aipp_op { aipp_mode: static input_format: RGB888_U8 }")
    words = (*BASE, "--input_shape=x:-1,3,4,4", "--dynamic_batch_size=1,2", "--insert_op_conf=aipp.cfg")
    assert atc.main(list(words)) == 0
    assert atc.main(["--mode=1", "--om=net.om", "--json=om.json"]) == 0
    entries = {entry["key"]: entry["value"] for entry in json.loads(Path("om.json").read_text())["attr"]}
    assert entries["_gears"] == {"list": {"s": ["1", "2"]}}
    assert json.loads(entries["aipp_x"]["s"])["parameters"]["format"] == "RGB888_U8"


# -- options -------------------------------------------------------------------------------------------------


def test_level_one_runs_no_fusion():
    onnx.save(models.conv_bn_relu(), "net.onnx")
    assert atc.main(list(BASE)) == 0
    fused = om.read("net.om").tasks
    assert atc.main([*BASE, "--oo_level=O1"]) == 0
    assert len(om.read("net.om").tasks) == len(fused) + 2
    ran = json.loads(Path("fusion_result.json").read_text())[0]
    assert {*ran["graph_fusion"], *ran["ub_fusion"]} <= registry.kept_on()


def test_switches_on_the_command_line(monkeypatch, capsys):
    monkeypatch.setenv("CANNLAB_CANN", "current")
    onnx.save(models.residual(), "net.onnx")
    names = ("TbeConv2DReluv2Pass", "TbeConv2DEltwisePass")
    for words, present in (((), True), ((f"--optimization_switch={names[0]}:off;{names[1]}:off",), False)):
        assert atc.main([*BASE, *words]) == 0
        assert all((name in Path("fusion_result.json").read_text()) is present for name in names)
    assert atc.main([*BASE, "--optimization_switch=NoSuchPass:off"]) == 255
    assert "(E10001)" in capsys.readouterr().out


def test_memory_without_reuse():
    onnx.save(models.perceptron(), "net.onnx")
    sizes = []
    for value in "01":
        assert atc.main([*BASE, f"--disable_reuse_memory={value}"]) == 0
        made = om.read("net.om")
        sizes.append(made.work_size)
    assert sizes[1] == sum(-(-tensor.size // 512) * 512 for task in made.tasks for tensor in task.outputs)
    assert sizes[0] < sizes[1]


def test_small_channels_spare_padding():
    onnx.save(models.conv_bn_relu(), "net.onnx")
    Path("aipp.cfg").write_text("aipp_op { aipp_mode: static input_format: RGB888_U8 }")
    depth = []
    for value in "01":
        words = [*BASE, "--insert_op_conf=aipp.cfg", f"--enable_small_channel={value}"]
        assert atc.main(words) == 0
        depth.append(next(task.cost.cube[2] for task in om.read("net.om").tasks if task.op_type == "Conv2D"))
    assert depth == [16 * 9, 4 * 9]


def test_order_of_the_operators():
    made = models.model(
        [
            models.node("Relu", ["x"], ["a"], "a"),
            models.node("Sigmoid", ["x"], ["b"], "b"),
            models.node("Exp", ["a"], ["c"], "c"),
            models.node("Tanh", ["b"], ["d"], "d"),
            models.node("Add", ["c", "d"], ["y"], "y"),
        ],
        {"x": [4]},
        {"y": [4]},
    )
    onnx.save(made, "net.onnx")
    Path("switch.cfg").write_text("TbeEltwiseFusionPass:off")
    found = {}
    x = models.random(4)
    for mode in ("", "0", "1", "2", "3"):
        words = ["--fusion_switch_file=switch.cfg", *([f"--topo_sorting_mode={mode}"] if mode else [])]
        assert atc.main([*BASE, *words]) == 0
        compiled = om.read("net.om")
        found[mode] = "".join(task.name for task in compiled.tasks if task.nodes)
        np.testing.assert_allclose(models.run(compiled, x)[0], models.reference(made, x)[0], atol=5e-3)
    assert found == {"": "abcdy", "0": "abcdy", "1": "acbdy", "2": "acbdy", "3": "abcdy"}


def test_descriptions_of_kernels():
    onnx.save(models.perceptron(), "net.onnx")
    assert atc.main(list(BASE)) == 0
    assert not Path("kernel_meta").exists()
    assert atc.main([*BASE, "--op_debug_level=1", "--debug_dir=debug"]) == 0
    files = sorted(Path("debug/kernel_meta").iterdir())
    compiled = om.read("net.om")
    assert [json.loads(file.read_text())["name"] for file in files] == [task.name for task in compiled.tasks]


def test_an_om_with_code_for_the_host_is_named_for_it():
    op = custom_ops.register(CustomOp("lab", "Twice", lambda inputs, attributes: [inputs[0] * 2]))
    try:
        made = models.model(
            [models.node("Twice", ["x"], ["y"], domain="lab")], {"x": [4]}, {"y": [4]}, domains=[("lab", 1)]
        )
        onnx.save(made, "net.onnx")
        assert atc.main([*BASE, "--host_env_os=linux", "--host_env_cpu=aarch64"]) == 0
        assert Path("net_linux_aarch64.om").exists()
        assert not Path("net.om").exists()
        onnx.save(models.residual(), "net.onnx")
        assert atc.main([*BASE, "--host_env_os=linux", "--host_env_cpu=aarch64"]) == 0
        assert Path("net.om").exists()
    finally:
        custom_ops.unregister(op.domain, op.op_type)
