"""Precision modes, lists and files: which type each operator gets, and the numbers that follow."""

import json
import re

import numpy as np
import onnx
import onnx_models as models
import pytest
from onnx import TensorProto, helper

from cannlab import atc, om
from cannlab.atc.precision_lists import Colour, Lists
from cannlab.machine.executor import Model
from cannlab.om import dtypes

BASE = ("--model=net.onnx", "--framework=5", "--output=net")


def chain():
    """MatMul (white), Relu (grey), Pow (black on Ascend910B), Add (grey)."""
    return models.model(
        [
            models.node("MatMul", ["x", "w"], ["m"], "mul"),
            models.node("Relu", ["m"], ["r"], "relu"),
            models.node("Pow", ["r", "two"], ["p"], "pow"),
            models.node("Add", ["p", "x"], ["y"], "add"),
        ],
        {"x": [4, 16]},
        {"y": [4, 16]},
        {"w": models.random(16, 16, seed=1, scale=0.3), "two": np.array(2, np.float32)},
    )


def types(compiled):
    """Type in which each node of the model leaves its operator."""
    return {node: task.outputs[0].type.name for task in compiled.tasks for node in task.nodes}


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("", "float16 float16 float16 float16"),
        ("--precision_mode_v2=fp16", "float16 float16 float16 float16"),
        ("--precision_mode=must_keep_origin_dtype", "float32 float32 float32 float32"),
        ("--precision_mode_v2=origin", "float32 float32 float32 float32"),
        ("--precision_mode=allow_fp32_to_fp16", "float16 float32 float32 float32"),
        ("--precision_mode=force_fp32", "float32 float32 float32 float32"),
        ("--precision_mode=allow_mix_precision", "float16 float16 float32 float32"),
        ("--precision_mode=allow_mix_precision_fp16", "float16 float16 float32 float32"),
        ("--precision_mode_v2=mixed_float16", "float16 float16 float32 float32"),
        ("--precision_mode=allow_mix_precision_bf16", "bfloat16 bfloat16 float32 float32"),
        ("--precision_mode_v2=mixed_bfloat16", "bfloat16 bfloat16 float32 float32"),
        ("--precision_mode=allow_fp32_to_bf16", "float32 float32 float32 float32"),
    ],
)
def test_modes(option, wanted, tmp_path):
    """MatMul is white, Pow is black; Relu and Add are grey and follow what they read first."""
    switches = tmp_path / "off.cfg"
    switches.write_text(json.dumps({"Switch": {"UBFusion": {"ALL": "off"}}}))
    words = [f"--fusion_switch_file={switches}", *([option] if option else [])]
    compiled = models.convert(chain(), tmp_path, *words, soc="Ascend910B1")
    assert types(compiled) == dict(zip(("mul", "relu", "pow", "add"), wanted.split(), strict=True))


def test_lists_of_the_chips():
    assert "Conv2D" in Lists.of("ascend310").white
    assert "Pow" in Lists.of("ascend910b").black
    assert "Pow" not in Lists.of("ascend310p").black
    lists = Lists.of("ascend310p")
    assert (len(lists.white), len(lists.black)) == (74, 16)
    assert (len(Lists.of("ascend910b").white), len(Lists.of("ascend910b").black)) == (316, 94)
    assert (len(Lists.of("ascend310").white), len(Lists.of("ascend310").black)) == (17, 1)


def test_grey_follows_what_it_reads_first(tmp_path):
    made = models.model(
        [
            models.node("Relu", ["x"], ["r"], "first"),
            models.node("MatMul", ["r", "w"], ["m"], "mul"),
            models.node("Add", ["m", "r"], ["s"], "after_mul"),
            models.node("Sub", ["r", "m"], ["d"], "after_first"),
            models.node("Mul", ["s", "d"], ["y"], "last"),
        ],
        {"x": [4, 4]},
        {"y": [4, 4]},
        {"w": models.random(4, 4)},
    )
    switches = tmp_path / "off.cfg"
    switches.write_text(json.dumps({"Switch": {"UBFusion": {"ALL": "off"}}}))
    words = ("--precision_mode=allow_mix_precision", f"--fusion_switch_file={switches}")
    found = types(models.convert(made, tmp_path, *words))
    assert found == {
        "first": "float32",
        "mul": "float16",
        "after_mul": "float16",
        "after_first": "float32",
        "last": "float16",
    }


def test_modified_lists(tmp_path):
    path = tmp_path / "mix.json"
    words = ("--precision_mode=allow_mix_precision", f"--modify_mixlist={path}")

    def relu_and_pow(content):
        path.write_text(json.dumps(content))
        found = types(models.convert(chain(), tmp_path, *words, soc="Ascend910B1"))
        return found["relu"], found["pow"]

    assert relu_and_pow({"black-list": {"to-remove": ["Pow"]}})[1] == "float16"
    assert relu_and_pow({"white-list": {"to-add": ["Pow"]}})[1] == "float16"
    assert relu_and_pow({"black-list": {"to-add": ["MatMulV2", "Relu"]}})[0] == "float32"
    lists = Lists(frozenset("AB"), frozenset("C"))
    changed = {"black-list": {"to-add": ["A"]}, "white-list": {"to-remove": ["A", "D"], "to-add": ["C"]}}
    path.write_text(json.dumps(changed))
    made = lists.modified(str(path))
    assert (made.white, made.black, made.missing) == (frozenset("BC"), frozenset("A"), ("D",))


def code_of(capsys, *words):
    assert atc.main([*BASE, "--soc_version=Ascend910B1", *words]) == 255
    return re.search(r"^(\w+): \[PID", capsys.readouterr().out, re.MULTILINE).group(1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "E10032"),
        ("[]", "E10032"),
        ('{"grey-list": {}}', "E10032"),
        ('{"black-list": {"add": []}}', "E10032"),
        ('{"black-list": {"to-add": "Pow"}}', "E10032"),
        ('{"black-list": {"to-add": ["A"]}, "white-list": {"to-add": ["A"]}}', "E10032"),
    ],
)
def test_bad_lists(text, code, tmp_path, capsys):
    onnx.save(chain(), "net.onnx")
    (tmp_path / "mix.json").write_text(text)
    assert code_of(capsys, "--precision_mode=allow_mix_precision", "--modify_mixlist=mix.json") == code


def test_lists_need_a_mixed_mode(tmp_path, capsys):
    onnx.save(chain(), "net.onnx")
    (tmp_path / "mix.json").write_text("{}")
    assert code_of(capsys, "--modify_mixlist=mix.json") == "E10001"


@pytest.mark.parametrize("mode", ["allow_mix_precision_bf16", "allow_fp32_to_bf16"])
def test_bfloat16_by_chip(mode, tmp_path, capsys):
    onnx.save(chain(), "net.onnx")
    for soc, works in (("Ascend310P3", False), ("Ascend310B1", True), ("Ascend910B1", True)):
        assert (atc.main([*BASE, f"--soc_version={soc}", f"--precision_mode={mode}"]) == 0) is works


# -- single operators ----------------------------------------------------------------------------------------


def overflow():
    """(x + x) * 0.25 with x = 60000 is 30000 in float32, inf in float16."""
    return models.sum_then_quarter()


X = np.array([60000, 1, -60000, 0], np.float32)


@pytest.mark.parametrize("entry", ["add", "OpType::Add"])
def test_keep_dtype(entry, tmp_path):
    (tmp_path / "keep.cfg").write_text(f"# note\n{entry}\n")
    compiled = models.convert(overflow(), tmp_path, f"--keep_dtype={tmp_path / 'keep.cfg'}")
    assert types(compiled) == {"add": "float32", "mul": "float16"}
    # The sum is right; the Mul in float16 takes 120000 as 65504, which only keeping both avoids.
    np.testing.assert_array_equal(models.run(compiled, X)[0], [65504 / 4, 0.5, -65504 / 4, 0])
    (tmp_path / "keep.cfg").write_text("OpType::Add\nOpType::Mul\n")
    compiled = models.convert(overflow(), tmp_path, f"--keep_dtype={tmp_path / 'keep.cfg'}")
    np.testing.assert_array_equal(models.run(compiled, X)[0], [30000, 0.5, -30000, 0])


def test_customized_types(tmp_path):
    path = tmp_path / "types.cfg"
    path.write_text(
        "OpType::Add:InputDtype:float16,float16,OutputDtype:float32\nmul::InputDtype:float,OutputDtype:float16"
    )
    compiled = models.convert(overflow(), tmp_path, f"--customize_dtypes={path}")
    assert types(compiled) == {"add": "float32", "mul": "float16"}
    x = np.array([60000.25, 1.0001, 3, 0], np.float32)
    wanted = (x.astype(np.float16).astype(np.float32) * 2 / 4).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(models.run(compiled, x)[0], wanted)
    # A name counts more than a type, and both more than --keep_dtype.
    path.write_text("OpType::Add:InputDtype:float16,OutputDtype:float16\nadd::InputDtype:float,OutputDtype:float")
    (tmp_path / "keep.cfg").write_text("mul\n")
    words = (f"--customize_dtypes={path}", f"--keep_dtype={tmp_path / 'keep.cfg'}")
    compiled = models.convert(overflow(), tmp_path, *words)
    np.testing.assert_array_equal(models.run(compiled, X)[0], [30000, 0.5, -30000, 0])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("add", "E10001"),
        ("add::InputDtype:int8,OutputDtype:float16", "E10001"),
        ("add::InputDtype:float16,float,OutputDtype:float16", "E10001"),
        ("add::OutputDtype:float16", "E10001"),
        ("add::InputDtype:bfloat16,OutputDtype:bfloat16", "EZ3002"),
    ],
)
def test_bad_customized_types(text, code, tmp_path, capsys):
    onnx.save(overflow(), "net.onnx")
    (tmp_path / "types.cfg").write_text(text)
    assert code_of(capsys, "--soc_version=Ascend310P3", "--customize_dtypes=types.cfg") == code


def test_names_that_the_model_does_not_have_are_logged(tmp_path, capsys):
    (tmp_path / "keep.cfg").write_text("nothing\nadd\n")
    models.convert(overflow(), tmp_path, f"--keep_dtype={tmp_path / 'keep.cfg'}", "--log=warning")
    out = capsys.readouterr().out
    assert "nothing, named in" in out
    assert "add, named in" not in out


# -- bfloat16 ------------------------------------------------------------------------------------------------


def to_bf16(array):
    return array.astype(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)).astype(np.float32)


def test_numbers_in_bfloat16(tmp_path):
    """A product's operands and result have 8 bits; sums inside have more; nothing overflows at 65504."""
    w = models.random(16, 8, seed=1, scale=0.3)
    made = models.model([models.node("MatMul", ["x", "w"], ["y"], "mul")], {"x": [4, 16]}, {"y": [4, 8]}, {"w": w})
    compiled = models.convert(made, tmp_path, "--precision_mode_v2=mixed_bfloat16", soc="Ascend910B1")
    x = models.random(4, 16, scale=1e6)
    (got,) = models.run(compiled, x)
    exact = to_bf16(x).astype(np.float64) @ to_bf16(w)
    np.testing.assert_allclose(got, exact, rtol=2**-8)
    np.testing.assert_array_equal(got, to_bf16(got))
    assert np.isfinite(got).all()
    assert not np.isfinite(models.run(models.convert(made, tmp_path, soc="Ascend910B1"), x)[0]).any()


def test_a_model_in_bfloat16(tmp_path):
    made = models.model(
        [models.node("Add", ["x", "x"], ["s"], "add"), models.node("Relu", ["s"], ["y"], "relu")],
        {"x": [4]},
        {"y": [4]},
        dtype=TensorProto.BFLOAT16,
    )
    kind = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)
    x = np.array([1.5, -2, 3e38, 60000], np.float32).astype(kind)
    compiled = models.convert(made, tmp_path, "--precision_mode=must_keep_origin_dtype", soc="Ascend910B1")
    assert compiled.inputs[0].dtype == 27
    (got,) = models.run(compiled, x)
    assert got.dtype == kind
    np.testing.assert_array_equal(got.astype(np.float32), [3, 0, np.inf, np.float32(x[3]) * 2])
    (half,) = models.run(models.convert(made, tmp_path, soc="Ascend910B1"), x)
    np.testing.assert_array_equal(half.astype(np.float32), [3, 0, np.inf, np.inf])


# -- quantisation --------------------------------------------------------------------------------------------


def test_quantised_onnx_is_refused_with_what_is_used_instead(tmp_path, capsys):
    made = models.model(
        [
            models.node("QuantizeLinear", ["x", "s", "z"], ["q"], "quant"),
            models.node("DequantizeLinear", ["q", "s", "z"], ["y"], "dequant"),
        ],
        {"x": [4]},
        {"y": [4]},
        {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8)},
    )
    onnx.save(made, "net.onnx")
    assert atc.main([*BASE, "--soc_version=Ascend310P3"]) == 255
    out = capsys.readouterr().out
    assert re.search(r"^E19010: \[PID", out, re.MULTILINE)
    assert "AscendQuant" in out
    assert "AMCT" in out


def test_ascend_quantisation(tmp_path):
    """What the compression tool puts in: int8 from a float, and back from int32 with a scale for each channel."""
    scales = np.array([0.5, 0.25, 2.0], np.float32)
    made = models.model(
        [
            models.node("AscendQuant", ["x"], ["q"], "quant", scale=10.0, offset=3.0),
            models.node("Cast", ["q"], ["i"], "cast", to=TensorProto.INT32),
            models.node("AscendDequant", ["i", "deq"], ["y"], "dequant"),
        ],
        {"x": [1, 3, 1, 4]},
        {"y": [1, 3, 1, 4]},
        {"deq": scales.view(np.uint32).astype(np.uint64)},
    )
    compiled = models.convert(made, tmp_path)
    assert [task.op_type for task in compiled.tasks if task.nodes] == ["AscendQuant", "Cast", "AscendDequant"]
    x = np.array([0.04, 0.06, -0.25, 100, -100, 1, 2, 3, 0.5, -0.5, 0, 7], np.float32).reshape(1, 3, 1, 4)
    integers = np.clip(np.rint(x.astype(np.float16).astype(np.float32) * 10 + 3), -128, 127)
    (got,) = models.run(compiled, x)
    np.testing.assert_array_equal(got, integers * scales.reshape(1, 3, 1, 1))


@pytest.mark.parametrize("biased", [False, True])
def test_products_of_bytes(biased, tmp_path):
    """Quantise, convolve in integers, scale back: what a model of the compression tool does."""
    rng = np.random.default_rng(5)
    w = rng.integers(-127, 128, (2, 160, 3, 3)).astype(np.int8)
    bias = np.array([1000, -70000], np.int32)
    scale = np.array([3e-4], np.float32)
    names = ["q", "w", "b"] if biased else ["q", "w"]
    made = models.model(
        [
            models.node("AscendQuant", ["x"], ["q"], "quant", scale=40.0, offset=0.0),
            models.node("Conv", names, ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            models.node("AscendDequant", ["c", "deq"], ["y"], "dequant"),
        ],
        {"x": [1, 160, 4, 4]},
        {"y": [1, 2, 4, 4]},
        {"w": w, "deq": scale.view(np.uint32).astype(np.uint64), **({"b": bias} if biased else {})},
    )
    compiled = models.convert(made, tmp_path)
    product = next(task for task in compiled.tasks if task.op_type == "Conv2D")
    assert (product.inputs[0].type.name, product.outputs[0].type.name) == ("int8", "int32")
    assert product.cost.element_bytes == 1
    x = rng.standard_normal((1, 160, 4, 4)).astype(np.float32) * 2
    q = np.clip(np.rint(x.astype(np.float16).astype(np.float32) * 40), -128, 127).astype(np.int64)
    padded = np.pad(q, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded[0], (3, 3), axis=(1, 2))
    exact = np.einsum("chwij,ocij->ohw", windows, w.astype(np.int64))
    exact = exact + (bias.reshape(2, 1, 1) if biased else 0)
    wanted = (exact.astype(np.float32) * scale[0]).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(models.run(compiled, x)[0][0], wanted)


def test_colours_have_names():
    assert [colour.value for colour in Colour] == ["white", "grey", "black"]


def test_chip_share_in_the_om(tmp_path):
    """--aicore_num and --buffer_optimize change the time and nothing else."""
    made = models.model(
        [models.node("MatMul", ["x", "w"], ["y"], "mul")],
        {"x": [4096, 512]},
        {"y": [4096, 2048]},
        {"w": models.random(512, 2048)},
    )
    plain = models.convert(made, tmp_path)
    few = models.convert(made, tmp_path, "--aicore_num=2")
    off = models.convert(made, tmp_path, "--buffer_optimize=off_optimize")
    assert few.tasks == off.tasks == plain.tasks
    works = [Model(om.read(om.to_bytes(one))).work for one in (plain, few, off)]
    product = [next(op.ns for op in work.operators if op.name == "mul") for work in works]
    assert product[1] > 3 * product[0]
    assert works[2].ns > works[0].ns


def test_a_composed_operator_keeps_its_epsilon(tmp_path):
    """1e-12 is 0 in fp16: nodes one by one divide by zero where LayerNorm, in float32 inside, gives its offset."""
    made = models.model(
        [
            models.node("ReduceMean", ["x"], ["m"], axes=[-1]),
            models.node("Sub", ["x", "m"], ["d"]),
            models.node("Pow", ["d", "two"], ["q"]),
            models.node("ReduceMean", ["q"], ["v"], axes=[-1]),
            models.node("Add", ["v", "epsilon"], ["e"]),
            models.node("Sqrt", ["e"], ["r"]),
            models.node("Div", ["d", "r"], ["n"]),
            models.node("Mul", ["n", "gamma"], ["s"]),
            models.node("Add", ["s", "beta"], ["y"]),
        ],
        {"x": [2, 8]},
        {"y": [2, 8]},
        {
            "two": np.float32(2),
            "epsilon": np.float32(1e-12),
            "gamma": np.linspace(0.5, 2, 8, dtype=np.float32),
            "beta": np.linspace(-1, 1, 8, dtype=np.float32),
        },
        opset=13,
    )
    x = np.stack([np.full(8, 3), np.arange(8)]).astype(np.float32)
    composed = models.convert(made, tmp_path, soc="Ascend910B1")
    assert [task.op_type for task in composed.tasks if task.op_type != "Cast"] == ["LayerNorm"]
    np.testing.assert_allclose(models.run(composed, x)[0], models.reference(made, x)[0], atol=2e-3)
    (tmp_path / "off.cfg").write_text("LayerNormONNXFusionPass:off")
    plain = models.convert(made, tmp_path, f"--fusion_switch_file={tmp_path / 'off.cfg'}", soc="Ascend910B1")
    assert np.isnan(models.run(plain, x)[0][0]).all()


def test_constants_of_bfloat16_are_folded(tmp_path):
    """ONNX Runtime hands out no array of bfloat16; the folded constant is there all the same."""
    made = models.model(
        [
            models.node("Cast", ["k"], ["h"], "short", to=TensorProto.BFLOAT16),
            models.node("Cast", ["h"], ["f"], "back", to=TensorProto.FLOAT),
            models.node("Cast", ["x"], ["xs"], "xs", to=TensorProto.BFLOAT16),
            models.node("Add", ["xs", "h"], ["s"], "add"),
            models.node("Cast", ["s"], ["w"], "wide", to=TensorProto.FLOAT),
            models.node("Mul", ["w", "f"], ["y"], "mul"),
        ],
        {"x": [4]},
        {"y": [4]},
        {"k": np.array([1.0, 2.5, -3.25, 0.1], np.float32)},
    )
    compiled = models.convert(made, tmp_path, "--precision_mode=must_keep_origin_dtype", soc="Ascend910B1")
    x = models.random(4)
    k = np.array([1.0, 2.5, -3.25, 0.1], np.float32).astype(dtypes.BFLOAT16.numpy).astype(np.float32)
    assert "short" not in {node for task in compiled.tasks for node in task.nodes}
    np.testing.assert_allclose(models.run(compiled, x)[0], (x + k) * k, rtol=0.03, atol=0.03)


def test_a_fused_operator_is_kept_whole_by_the_name_of_any_part(tmp_path):
    """The bias and the activation are in the product's operator: what keeps one of them keeps it."""
    names = [node.name for node in models.perceptron().graph.node]
    for name in names:
        (tmp_path / "keep.cfg").write_text(name)
        compiled = models.convert(
            models.perceptron(), tmp_path, f"--keep_dtype={tmp_path / 'keep.cfg'}", soc="Ascend910B1"
        )
        found = types(compiled)
        if name in found:
            assert found[name] == "float32", name
