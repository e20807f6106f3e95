"""The problems that people meet with atc, by their number in the collection: each is made to happen here.

What atc refuses stands in ``REFUSALS`` with the code and words that the message must hold; what it converts to
something else than one expects, or what comes out wrong because of how it was called, has a test of its own below.
"""

import inspect
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_models as models
import pytest
from onnx import TensorProto, helper

from cannlab import atc, om
from cannlab.machine.executor import Model

COLLECTED = {*range(1, 11), 12, 13, 14, 15, 16, 20, 23, 26, 28, 31, 37, 39, 40, 43, 44, 45, 47, 50}
NO_SYMPTOM = {18, 21, 33, 34, 46}
"""Numbers that the collection only calls uncertain: there is nothing to reproduce."""

ELSEWHERE = {
    31: "the host's system is read from no environment here: --host_env_os=linux is always known; "
    "what a shell without set_env.sh lacks is shown by check-env",
}
"""What belongs to no command of atc here."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CANNLAB_CANN", raising=False)
    return tmp_path


def one(op_type, inputs, constants=None, outputs=("y",), opset=13, name="n", **attributes):
    """A model of one node whose outputs have no stated shape."""
    infos = [helper.make_tensor_value_info(key, *value) for key, value in inputs.items()]
    tensors = [onnx.numpy_helper.from_array(np.asarray(array), key) for key, array in (constants or {}).items()]
    node = helper.make_node(op_type, [*inputs, *(constants or {})], outputs, name, **attributes)
    ends = [onnx.ValueInfoProto(name=key) for key in outputs]
    graph = helper.make_graph([node], "net", infos, ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


F, I64, F64 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE
IMAGE = {"x": (F, [1, 3, 8, 8])}
KERNEL = {"w": models.random(4, 3, 3, 3)}


def convolution(opset=13, dims=(1, 3, 8, 8), dtype=F):
    weights = {"w": KERNEL["w"].astype(np.float64 if dtype == F64 else np.float32)}
    return one("Conv", {"x": (dtype, list(dims))}, weights, opset=opset, kernel_shape=[3, 3])


def indices():
    """TopK, whose int32 indices meet an int64 Mul in an Add."""
    made = models.model(
        [
            models.node("TopK", ["x", "k"], ["v", "i"], "topk"),
            models.node("Mul", ["j", "two"], ["m"], "mul"),
            models.node("Add", ["i", "m"], ["y"], "Add_718"),
        ],
        {"x": [1, 8], "j": (I64, [1, 3])},
        {"y": (I64, [1, 3])},
        {"k": np.array([3]), "two": np.array([2])},
        opset=11,
    )
    return made


def unequal_concat():
    pair = {"a": (F, [1, 3, 80, 80, 2]), "b": (F, [1, 3, 40, 40, 81])}
    return one("Concat", pair, name="Concat_243", axis=4)


def twins():
    """Two nodes of one name."""
    nodes = [models.node("Relu", ["x"], ["a"], "same"), models.node("Relu", ["a"], ["y"], "same")]
    return models.model(nodes, {"x": [4]}, {"y": [4]})


def quantised():
    scale = {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8)}
    return one("QuantizeLinear", {"x": (F, [4])}, scale)


OPEN = convolution(dims=("n", 3, "h", "w"))

REFUSALS = {
    "01 opset 22": (convolution(22), (), "E19010", r"(?i)no parser is registered .*ai\.onnx::22::Conv"),
    "02 name of the input": (convolution(), ("--input_shape=images:1,3,8,8",), "E10016", r"\[images\]"),
    "02 a comma between inputs": (
        convolution(),
        ("--input_shape=x:1,3,8,8,y:1",),
        "E10016",
        "; for several|, instead of ;",
    ),
    "03 no chip": (convolution(), ("--soc_version=",), "E10054", "soc_version"),
    "03 a chip without its number": (convolution(), ("--soc_version=Ascend310P",), "E10001", "Ascend310P3"),
    "03 a chip without Ascend": (convolution(), ("--soc_version=310B4",), "E10001", "Ascend310B4"),
    "04 open input without a shape": (OPEN, (), "E10011", r"\bx\b"),
    "06 operator of nobody": (one("grid_sampler", IMAGE, opset=11), (), "E19010", "ai.onnx::11::grid_sampler"),
    "06 operator of a framework": (
        one("MMCVModulatedDeformConv2d", IMAGE, opset=11),
        (),
        "E19010",
        "ai.onnx::11::MMCVModulatedDeformConv2d",
    ),
    "07 indices of TopK": (indices(), (), "E89999", r"Add_718[\s\S]*(?i:int32)"),
    "08 no kernel for the type": (
        convolution(dtype=F64),
        ("--precision_mode=must_keep_origin_dtype",),
        "EZ3002",
        "Conv2D",
    ),
    "10 gears without -1": (
        convolution(),
        ("--input_shape=x:1,3,8,8", "--dynamic_batch_size=1,2,4"),
        "E10031",
        "dynamic_batch_size",
    ),
    "12 shapes of Concat": (unequal_concat(), (), "E89999", "Concat_243"),
    "15 no name": (convolution(), ("--input_shape=1,3,8,8",), "E10002", "name"),
    "15 a fraction": (convolution(), ("--input_shape=x:1.0,3,8,8",), "E10002", r"1\.0"),
    "15 brackets": (convolution(), ("--input_shape=x[1,3,8,8]",), "E10002", "x.1,3,8,8"),
    "16 two kinds of gears": (
        OPEN,
        ("--input_shape=x:-1,3,-1,-1", "--dynamic_batch_size=1,2", "--dynamic_image_size=8,8;16,16"),
        "E10009",
        "dynamic_image_size",
    ),
    "23 two nodes of one name": (twins(), (), "E19009", "same"),
    "26 ONNX said to be TensorFlow": (convolution(), ("--framework=3",), "E10041", ""),
    "28 rank": (convolution(), ("--input_shape=x:3,8,8",), "E10049", "3"),
    "37 no pads": (one("Pad", {"x": (F, [4])}, opset=9, mode="reflect"), (), "E19014", "pads"),
    "37 odd pads": (one("Pad", {"x": (F, [2, 2])}, opset=9, pads=[1, 1, 1]), (), "E19999", "pads has an odd number"),
    "40 node without an index": (convolution(), ("--out_nodes=n",), "E11017", "n:0"),
    "40 tensor inside": (models.residual(), ("--out_nodes=c1",), "E19999", "c1"),
    "43 LayerNormalization at 16": (
        one(
            "LayerNormalization",
            {"x": (F, [2, 8])},
            {"w": np.ones(8, np.float32), "b": np.ones(8, np.float32)},
            opset=16,
        ),
        (),
        "E19010",
        "ai.onnx::16::LayerNormalization",
    ),
    "43 Gelu": (one("Gelu", {"x": (F, [2, 8])}, opset=20), (), "E19010", "ai.onnx::20::Gelu"),
    "45 quantised": (quantised(), (), "E19010", "QuantizeLinear[\\s\\S]*AMCT"),
    "47 open shape on Ascend310": (
        OPEN,
        ("--input_shape=x:-1,3,-1,-1", "--soc_version=Ascend310"),
        "EZ3002",
        "dynamic shape is not supported on this chip",
    ),
    "50 last of the equal ones": (
        one("ArgMax", {"x": (F, [4])}, select_last_index=1),
        (),
        "E19999",
        "Only support select_last_index=0",
    ),
}


def refuse(model, options):
    """What atc prints when it refuses."""
    onnx.save(model, "net.onnx")
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3", *options]
    assert atc.main(words) == 255
    assert not Path("net.om").exists()


@pytest.mark.parametrize("key", REFUSALS)
def test_refused(key, capsys):
    model, options, code, words = REFUSALS[key]
    refuse(model, options)
    text = capsys.readouterr().out
    found = re.findall(r"^(\w+): ", text, re.MULTILINE)
    assert re.fullmatch(code, found[0])
    assert re.search(words, text)
    assert "Solution: " in text


# -- it converts -----------------------------------------------------------------------------------------------------


def converted(model, *options, soc="Ascend310P3"):
    """The om, ready to run."""
    onnx.save(model, "net.onnx")
    assert atc.main(["--model=net.onnx", "--framework=5", "--output=net", f"--soc_version={soc}", *options]) == 0
    return Model(om.read("net.om", soc=soc))


def image(*, size=8, seed=5):
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), np.uint8)


def with_aipp(keys):
    """A network that hands its image on, behind AIPP with some keys; its input is uint8 NHWC."""
    Path("aipp.cfg").write_text(
        "aipp_op { aipp_mode: static input_format: RGB888_U8 src_image_size_w: 8 src_image_size_h: 8 "
        f"related_input_rank: 0 {keys} }}"
    )
    same = models.model([models.node("Identity", ["x"], ["y"])], {"x": [1, 3, 8, 8]}, {"y": [1, 3, 8, 8]})
    return converted(same, "--insert_op_conf=aipp.cfg")


@pytest.mark.parametrize("opset", [11, 13, 17])
def test_01_older_opsets_are_known(opset):
    x = models.random(1, 3, 8, 8)
    made = convolution(opset)
    (result,) = converted(made).run([x])[0]
    np.testing.assert_allclose(result, models.reference(made, x)[0], atol=0.02)


def test_03_an_om_for_another_chip():
    converted(convolution(), soc="Ascend310B4")
    with pytest.raises(om.OmError) as refused:
        om.read("net.om", soc="Ascend310P3")
    assert refused.value.code == 500002
    assert "--soc_version=Ascend310P3" in str(refused.value)


def test_04_open_shapes_by_chip(capsys):
    for shape in ("x:-1,3,-1,-1", "x:1~2,3,8~16,8~16"):
        running = converted(OPEN, f"--input_shape={shape}")
        assert running.om.inputs[0].dims == (-1, 3, -1, -1)
        assert running.run([models.random(2, 3, 9, 16)])[0][0].shape == (2, 4, 7, 14)
        refuse_open = ["--model=net.onnx", "--framework=5", "--output=other", "--soc_version=Ascend310B1"]
        assert atc.main([*refuse_open, f"--input_shape={shape}"]) == 255
        assert re.search(r"^E\w+: ", capsys.readouterr().out, re.MULTILINE)


def test_05_the_default_is_float16():
    """A sum of squares beyond 65504: infinite where the chip keeps infinities, 65504 where it saturates."""
    made = models.model(
        [
            models.node("Mul", ["x", "x"], ["s"], "square"),
            models.node("ReduceSum", ["s", "axes"], ["t"], "sum", keepdims=1),
            models.node("Sqrt", ["t"], ["y"], "root"),
        ],
        {"x": [1, 1000]},
        {"y": [1, 1]},
        {"axes": np.array([1])},
    )
    x = np.full((1, 1000), 100, np.float32)
    for soc, lost in (("Ascend910B1", np.inf), ("Ascend310P3", np.sqrt(65504))):
        assert converted(made, soc=soc).run([x])[0][0] == pytest.approx(lost, rel=1e-3)
        for mode in ("must_keep_origin_dtype", "force_fp32"):
            (kept,) = converted(made, f"--precision_mode={mode}", soc=soc).run([x])[0]
            assert kept == pytest.approx(np.sqrt(1e7), rel=1e-5)


@pytest.mark.parametrize("node", [("", "m"), ("i", "")])
def test_07_a_cast_mends_the_indices(node):
    """On either side: to int32 in front of Add for the other operand, or to int64 for the indices."""
    made = indices()
    cast, other = ("m", TensorProto.INT32) if node[1] else ("i", TensorProto.INT64)
    add = next(item for item in made.graph.node if item.name == "Add_718")
    add.input[[*add.input].index(cast)] = "cast"
    made.graph.node.insert(2, helper.make_node("Cast", [cast], ["cast"], "mend", to=other))
    if other == TensorProto.INT32:
        made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    x = models.random(1, 8)
    (result,) = converted(made).run([x, np.array([[1, 2, 3]])])[0]
    np.testing.assert_array_equal(result, np.argsort(-x)[:, :3] + np.array([[2, 4, 6]]))


@pytest.mark.parametrize("opset", [11, 13])
def test_09_resize_is_known_in_this_release(opset):
    scales = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    made = one(
        "Resize",
        {"x": (F, [1, 1, 4, 4])},
        scales,
        opset=opset,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    (result,) = converted(made).run([x])[0]
    np.testing.assert_array_equal(result, x.repeat(2, axis=2).repeat(2, axis=3))


def test_13_the_reciprocal_and_not_the_deviation():
    pixels = image()
    means = "mean_chn_0: 123 min_chn_0: 0.675 mean_chn_1: 123 min_chn_1: 0.675 mean_chn_2: 123 min_chn_2: 0.675"
    wanted = (pixels / 255 - 0.485) / 0.229
    for value, factor in ((0.017125, 1.0), (0.229, 0.229 / 0.017125)):
        scale = " ".join(f"var_reci_chn_{channel}: {value}" for channel in range(3))
        (result,) = with_aipp(f"{means} {scale}").run([pixels[None]])[0]
        np.testing.assert_allclose(result[0].transpose(1, 2, 0), factor * wanted, rtol=2e-3, atol=factor * 3e-3)


def test_14_red_and_blue():
    """An image in the order B, G, R, as OpenCV reads it, needs the swap."""
    pixels = image()
    wanted = pixels.transpose(2, 0, 1).astype(np.float32)
    for swap, same in (("false", False), ("true", True)):
        (result,) = with_aipp(f"rbuv_swap_switch: {swap}").run([pixels[None, ..., ::-1].copy()])[0]
        assert np.array_equal(result[0], wanted) is same


def test_20_half_pixels_are_right_in_this_release():
    scales = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
    x = models.random(1, 2, 5, 6)
    results = []
    for mode in ("half_pixel", "pytorch_half_pixel", "asymmetric"):
        made = one("Resize", {"x": (F, [1, 2, 5, 6])}, scales, mode="linear", coordinate_transformation_mode=mode)
        (result,) = converted(made, "--precision_mode=must_keep_origin_dtype").run([x])[0]
        np.testing.assert_allclose(result, models.reference(made, x)[0], atol=1e-5)
        results.append(result)
    assert np.abs(results[0] - results[2]).max() > 0.1


def test_26_files_that_are_no_model(capsys):
    """The pointer that git-lfs leaves, and a model whose weights are not beside it."""
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "0" + "\nsize 102400000\n"
    Path("net.onnx").write_text(pointer)
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3"]
    assert atc.main(words) == 255
    assert re.search(r"^E100(39|41): [\s\S]*lfs", capsys.readouterr().out, re.MULTILINE)
    onnx.save(convolution(), "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    assert atc.main(words) == 0
    Path("net.data").unlink()
    capsys.readouterr()
    assert atc.main(words) == 255
    assert re.search(r"^E\w+: [\s\S]*net\.data", capsys.readouterr().out, re.MULTILINE)


def test_39_aipp_takes_no_float16(capsys):
    with_aipp("")
    words = ["--model=net.onnx", "--framework=5", "--output=other", "--soc_version=Ascend310P3"]
    assert atc.main([*words, "--insert_op_conf=aipp.cfg", "--input_fp16_nodes=x"]) == 255
    assert re.search(r"^E10034: ", capsys.readouterr().out, re.MULTILINE)


def test_40_a_node_with_its_index():
    (result,) = converted(models.residual(), "--out_nodes=conv1:0").run([models.random(1, 4, 6, 6)])[0]
    assert result.shape == (1, 4, 6, 6)


def test_43_layer_normalization_is_known_from_17():
    made = one(
        "LayerNormalization",
        {"x": (F, [2, 8])},
        {"w": models.random(8, seed=1), "b": models.random(8, seed=2)},
        opset=17,
    )
    x = models.random(2, 8)
    np.testing.assert_allclose(converted(made).run([x])[0][0], models.reference(made, x)[0], atol=5e-3)


def test_44_a_fixed_width_cuts_long_lines():
    """An om for 48 x 320 takes nothing wider; gears of widths do, and the next larger one padded gives the same."""
    made = one("Conv", {"x": (F, [1, 3, 48, "w"])}, {"w": models.random(2, 3, 48, 3)}, kernel_shape=[48, 3])
    line = models.random(1, 3, 48, 900, scale=0.1)
    with pytest.raises(om.OmError):
        converted(made, "--input_shape=x:1,3,48,320").run([line])
    running = converted(made, "--input_shape=x:1,3,48,-1", "--dynamic_dims=320;640;960", "--input_format=ND")
    padded = np.pad(line, ((0, 0), (0, 0), (0, 0), (0, 60)))
    (result,) = running.run([padded], gear=2)[0]
    np.testing.assert_allclose(result[..., :898], models.reference(made, line)[0], atol=0.02)


def test_every_problem_is_here():
    """All numbers of the collection, in one of the places."""
    tests = [name for name, _ in inspect.getmembers(sys.modules[__name__], inspect.isfunction)]
    shown = {int(key[:2]) for key in REFUSALS} | {int(name[5:7]) for name in tests if re.match(r"test_\d\d_", name)}
    assert shown | {*ELSEWHERE} == COLLECTED
    assert not COLLECTED & NO_SYMPTOM
