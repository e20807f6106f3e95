"""AIPP: what a configuration may say, and the numbers against a statement of the rules pixel by pixel."""

import re

import numpy as np
import onnx
import onnx_models as models
import pytest

from cannlab import atc, om
from cannlab.atc.prototxt import Message, TextError, Word, parse

RNG = np.random.default_rng(11)
TO_RGB = {"r0c0": 298, "r0c1": 0, "r0c2": 409, "r1c0": 298, "r1c1": -100, "r1c2": -208, "r2c0": 298, "r2c1": 516}


def identity(channels, height, width, batch=1):
    """A model that gives its input back (x + 0)."""
    return models.model(
        [models.node("Add", ["x", "zero"], ["y"], "add")],
        {"x": [batch, channels, height, width]},
        {"y": [batch, channels, height, width]},
        {"zero": np.zeros((1,), np.float32)},
    )


def config(**keys):
    lines = [f"  {name} : {str(value).lower() if isinstance(value, bool) else value}" for name, value in keys.items()]
    return "aipp_op {\n" + "\n".join(lines) + "\n}\n"


def static(**keys):
    return config(aipp_mode="static", **keys)


def convert(tmp_path, made, text, *options, soc="Ascend310P3"):
    (tmp_path / "aipp.cfg").write_text(text)
    return models.convert(made, tmp_path, f"--insert_op_conf={tmp_path / 'aipp.cfg'}", *options, soc=soc)


# -- the statement -------------------------------------------------------------------------------------------


def stated(image, format, width, height, **keys):
    """AIPP of one image, each pixel by itself with Python's integers: list of planes."""

    def key(name, default=0):
        return keys.get(name, default)

    pixels = {}
    for y in range(height):
        for x in range(width):
            if format == "YUV420SP_U8":
                luma = image[y * width + x]
                at = width * height + (y // 2) * width + (x // 2) * 2
                u, v = image[at], image[at + 1]
                pixel = [luma, v, u] if key("rbuv_swap_switch") else [luma, u, v]
            elif format == "RGB888_U8":
                pixel = list(image[3 * (y * width + x) :][:3])
                pixel = pixel[::-1] if key("rbuv_swap_switch") else pixel
            elif format == "XRGB8888_U8":
                pixel = list(image[4 * (y * width + x) :][:4])
                pixel = pixel[1:] + pixel[:1] if key("ax_swap_switch") else pixel
                pixel = [pixel[2], pixel[1], pixel[0], pixel[3]] if key("rbuv_swap_switch") else pixel
            else:
                pixel = [image[y * width + x]]
            pixels[y, x] = [int(value) for value in pixel]
    top, left, rows, columns = 0, 0, height, width
    if key("crop"):
        top, left = key("load_start_pos_h"), key("load_start_pos_w")
        rows, columns = key("crop_size_h"), key("crop_size_w")
    out = []
    for y in range(rows):
        for x in range(columns):
            pixel = pixels[top + y, left + x]
            if key("csc_switch"):
                yuv = format == "YUV420SP_U8"
                bias_in = [key(f"input_bias_{c}") for c in range(3)] if yuv else [0, 0, 0]
                bias_out = [0, 0, 0] if yuv else [key(f"output_bias_{c}") for c in range(3)]
                made = []
                for row in range(3):
                    total = sum(key(f"matrix_r{row}c{c}") * (pixel[c] - bias_in[c]) for c in range(3))
                    made.append(min(255, max(0, (total >> 8) + bias_out[row])))
                pixel = made
            out.append(pixel)
    result = np.array(out, np.float64).reshape(rows, columns, -1)
    for channel in range(result.shape[-1]):
        minimum = np.float64(np.float16(key(f"min_chn_{channel}", 0.0)))
        factor = np.float64(np.float16(key(f"var_reci_chn_{channel}", 1.0)))
        result[..., channel] = (result[..., channel] - key(f"mean_chn_{channel}") - minimum) * factor
    if key("padding"):
        sides = [
            (key(f"{a}_padding_size"), key(f"{b}_padding_size")) for a, b in (("top", "bottom"), ("left", "right"))
        ]
        result = np.pad(result, [*sides, (0, 0)], constant_values=key("padding_value"))
    return result.transpose(2, 0, 1)


MATRIX = {f"matrix_{name}": value for name, value in {**TO_RGB, "r2c2": 0}.items()}
BIASES = {f"{side}_bias_{c}": value for side in ("input", "output") for c, value in enumerate((16, 128, 128))}
GREY = {f"matrix_r{row}c{c}": value for row in range(3) for c, value in enumerate((76, 150, 30))}
NORMAL = {
    **{f"mean_chn_{c}": value for c, value in enumerate((104, 117, 123))},
    **{f"min_chn_{c}": value for c, value in enumerate((0.25, 0.5, 1.0))},
    **{f"var_reci_chn_{c}": value for c, value in enumerate((0.0171, 0.0175, 0.0174))},
}
CROP = {"crop": True, "load_start_pos_w": 4, "load_start_pos_h": 2, "crop_size_w": 8, "crop_size_h": 6}
PAD = {"padding": True, "left_padding_size": 1, "right_padding_size": 3, "top_padding_size": 2, "padding_value": 7}

CASES = [
    ("RGB888_U8", 3, {}),
    ("RGB888_U8", 3, {"rbuv_swap_switch": True, **NORMAL}),
    ("RGB888_U8", 3, {**CROP, **PAD, **NORMAL}),
    ("RGB888_U8", 3, {"csc_switch": True, "rbuv_swap_switch": True, **GREY, **BIASES, **CROP}),
    ("RGB888_U8", 1, {"csc_switch": True, **GREY, **dict.fromkeys(BIASES, 0)}),
    ("XRGB8888_U8", 4, {}),
    ("XRGB8888_U8", 3, {"ax_swap_switch": True}),
    ("XRGB8888_U8", 3, {"rbuv_swap_switch": True, **NORMAL}),
    ("XRGB8888_U8", 4, {"ax_swap_switch": True, "rbuv_swap_switch": True, **PAD}),
    ("YUV400_U8", 1, {"mean_chn_0": 3, "var_reci_chn_0": 0.5, **CROP}),
    ("YUV420SP_U8", 3, {}),
    ("YUV420SP_U8", 3, {"csc_switch": True, **MATRIX, **BIASES, **NORMAL}),
    ("YUV420SP_U8", 3, {"csc_switch": True, "rbuv_swap_switch": True, **MATRIX, **BIASES, **CROP, **PAD}),
]
BYTES = {"RGB888_U8": 3, "XRGB8888_U8": 4, "YUV400_U8": 1, "YUV420SP_U8": 1.5}


@pytest.mark.parametrize(("format", "channels", "keys"), CASES)
def test_static_numbers(format, channels, keys, tmp_path):
    width, height, batch = 14, 10, 2
    sizes = {"src_image_size_w": width, "src_image_size_h": height}
    rows = keys.get("crop_size_h", height) + keys.get("top_padding_size", 0)
    columns = keys.get("crop_size_w", width) + keys.get("left_padding_size", 0) + keys.get("right_padding_size", 0)
    text = static(input_format=format, **sizes, **keys)
    compiled = convert(tmp_path, identity(channels, rows, columns, batch), text, "--output_type=FP16")
    (image,) = compiled.inputs
    size = int(width * height * BYTES[format])
    assert (image.type.name, image.format, image.size) == ("uint8", om.Format.NHWC, batch * size)
    assert image.dims[:3] == (batch, height, width)
    data = RNG.integers(0, 256, batch * size, np.uint8)
    (got,) = models.run(compiled, data)
    for index in range(batch):
        wanted = stated(data[index * size :][:size], format, width, height, **keys)[:channels]
        np.testing.assert_array_equal(got[index], wanted.astype(np.float16))


def test_default_coefficients(tmp_path):
    """Without coefficients YUV becomes B, G, R, and RGB becomes YUV."""
    data = RNG.integers(0, 256, 48, np.uint8)
    compiled = convert(tmp_path, identity(3, 4, 8), static(input_format="YUV420SP_U8", csc_switch=True))
    blue_first = [298, 516, 0, 298, -100, -208, 298, 0, 409]
    keys = {f"matrix_r{at // 3}c{at % 3}": value for at, value in enumerate(blue_first)}
    wanted = stated(data, "YUV420SP_U8", 8, 4, csc_switch=True, **keys, **BIASES)
    np.testing.assert_array_equal(models.run(compiled, data)[0][0], wanted)
    compiled = convert(tmp_path, identity(3, 4, 4), static(input_format="RGB888_U8", csc_switch=True))
    to_yuv = [66, 129, 25, -38, -74, 112, 112, -94, -18]
    keys = {f"matrix_r{at // 3}c{at % 3}": value for at, value in enumerate(to_yuv)}
    wanted = stated(data, "RGB888_U8", 4, 4, csc_switch=True, **keys, **BIASES)
    np.testing.assert_array_equal(models.run(compiled, data)[0][0], wanted)


def test_the_usual_normalisation(tmp_path):
    """mean 123.675 = mean_chn + min_chn and 1 / 58.395: within float16 of what torchvision's transform gives."""
    keys = {"mean_chn_0": 123, "min_chn_0": 0.675, "var_reci_chn_0": 0.017125}
    compiled = convert(tmp_path, identity(1, 4, 4), static(input_format="YUV400_U8", **keys))
    data = np.arange(0, 256, 16, np.uint8)
    (got,) = models.run(compiled, data)
    np.testing.assert_allclose(got.reshape(-1), (data / 255.0 - 0.485) / 0.229, atol=2e-3)


def test_aipp_is_an_operator_of_the_om(tmp_path):
    """It stands before the convolution, which needs no change of layout, and its time counts."""
    made = models.conv_bn_relu()
    plain = models.convert(made, tmp_path)
    compiled = convert(tmp_path, made, static(input_format="RGB888_U8", **NORMAL))
    assert [task.op_type for task in compiled.tasks] == ["Aipp", "Conv2D", "TransData", "Cast"]
    assert [task.op_type for task in plain.tasks][:2] == ["Cast", "TransData"]
    assert compiled.tasks[0].inputs[0].size == 3 * 64
    data = RNG.integers(0, 256, 3 * 64, np.uint8)
    x = stated(data, "RGB888_U8", 8, 8, **NORMAL).astype(np.float32)[None]
    np.testing.assert_allclose(models.run(compiled, data)[0], models.run(plain, x)[0], atol=2e-3)


def test_only_the_named_input(tmp_path):
    made = models.model(
        [models.node("Add", ["a", "b"], ["y"], "add")], {"a": [1, 1, 2, 4], "b": [1, 1, 2, 4]}, {"y": [1, 1, 2, 4]}
    )
    compiled = convert(tmp_path, made, static(input_format="YUV400_U8", related_input_rank=1))
    assert [tensor.type.name for tensor in compiled.inputs] == ["float32", "uint8"]
    data = RNG.integers(0, 256, 8, np.uint8)
    (got,) = models.run(compiled, np.ones((1, 1, 2, 4), np.float32), data)
    np.testing.assert_array_equal(got.reshape(-1), data.astype(np.float32) + 1)


@pytest.mark.parametrize("mode", ["force_fp32", "must_keep_origin_dtype", "allow_mix_precision"])
def test_aipp_gives_float16_in_every_mode(mode, tmp_path):
    text = static(input_format="YUV400_U8", var_reci_chn_0=0.1)
    compiled = convert(tmp_path, identity(1, 2, 4), text, f"--precision_mode={mode}", soc="Ascend910B1")
    data = RNG.integers(0, 256, 8, np.uint8)
    wanted = (data.astype(np.float64) * float(np.float16(0.1))).astype(np.float16)
    np.testing.assert_array_equal(models.run(compiled, data)[0].reshape(-1), wanted.astype(np.float32))


# -- gears ---------------------------------------------------------------------------------------------------


def test_batch_gears(tmp_path):
    made = identity(3, 4, 6, "n")
    options = ("--input_shape=x:-1,3,4,6", "--dynamic_batch_size=1,3")
    compiled = convert(tmp_path, made, static(input_format="YUV420SP_U8"), *options)
    image, chosen = compiled.inputs
    assert (image.dims, image.size) == ((-1, 4, 6, 1), 3 * 36)
    assert chosen.name == "ascend_mbatch_shape_data"
    data = RNG.integers(0, 256, 3 * 36, np.uint8)
    (got,) = models.run(compiled, data, np.array([3], np.int32))
    (one,) = models.run(compiled, data[:36], np.array([1], np.int32))
    np.testing.assert_array_equal(one, got[:1])
    np.testing.assert_array_equal(got[2], stated(data[72:], "YUV420SP_U8", 6, 4))


def test_image_gears(tmp_path):
    made = identity(3, "h", "w")
    options = ("--input_shape=x:1,3,-1,-1", "--dynamic_image_size=2,4;4,6")
    compiled = convert(tmp_path, made, static(input_format="RGB888_U8"), *options)
    assert compiled.inputs[0].dims == (1, -1, -1, 3)
    data = RNG.integers(0, 256, 24, np.uint8)
    (got,) = models.run(compiled, data, np.array([2, 4], np.int32))
    np.testing.assert_array_equal(got[0], stated(data, "RGB888_U8", 4, 2))


# -- what is refused -----------------------------------------------------------------------------------------

GOOD = {"input_format": "RGB888_U8", "src_image_size_w": 6, "src_image_size_h": 4}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "E19015"),
        ("# nothing\n", "E10052"),
        ("aipp_op {", "E19018"),
        ("aipp_op { aipp_mode static }", "E19018"),
        ("aipp_op { aipp_mode: static input_fromat: RGB888_U8 }", "E19018"),
        ("aipp_op { aipp_mode: 'static' input_format: RGB888_U8 }", "E19018"),
        ("aip_op { aipp_mode: static }", "E19018"),
        (config(input_format="RGB888_U8"), "E10052"),
        (config(aipp_mode="fixed", input_format="RGB888_U8"), "E10052"),
        (static(), "E10052"),
        (static(input_format="BGR888_U8"), "E19018"),
        (static(input_format="YUYV_U8"), "E10052"),
        (static(**GOOD) * 2, "E10052"),
        (static(**GOOD, related_input_rank=1), "E10052"),
        (static(**GOOD, related_input_name='"x"'), "E10052"),
        (static(**GOOD, resize=True), "E10052"),
        (static(**GOOD, rotation_angle=1), "E10052"),
        (static(**GOOD, single_line_mode=True), "E10052"),
        (static(**GOOD, cpadding_value=1.0), "E10052"),
        (static(**GOOD, crop=2), "E19018"),
        (static(**GOOD, mean_chn_0=1.5), "E19018"),
        (static(**GOOD, mean_chn_0=256), "E10052"),
        (static(**GOOD, min_chn_0=-1), "E10052"),
        (static(**GOOD, matrix_r0c0=40000), "E10052"),
        (static(**GOOD, padding=True, left_padding_size=33), "E10052"),
        (static(**GOOD, padding=True, left_padding_size=1), "E10052"),
        (static(input_format="RGB888_U8", src_image_size_w=1), "E10052"),
        (static(input_format="RGB888_U8", src_image_size_w=8, src_image_size_h=4), "E10052"),
        (static(input_format="RGB888_U8", crop=True), "E10052"),
        (static(**GOOD, crop=True, load_start_pos_w=1), "E10052"),
        (static(input_format="YUV400_U8"), "E10052"),
        (static(input_format="YUV400_U8", csc_switch=True), "E10052"),
        (config(aipp_mode="dynamic"), "E10052"),
    ],
)
def test_codes(text, code, tmp_path, capsys):
    onnx.save(identity(3, 4, 6), "net.onnx")
    (tmp_path / "aipp.cfg").write_text(text)
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3"]
    assert atc.main([*words, "--insert_op_conf=aipp.cfg"]) == 255
    assert re.search(r"^(\w+): \[PID", capsys.readouterr().out, re.MULTILINE).group(1) == code
    assert not (tmp_path / "net.om").exists()


@pytest.mark.parametrize(
    ("options", "keys", "code"),
    [
        (["--input_fp16_nodes=x"], {}, "E10034"),
        (["--input_shape=x:1,3,-1,6", "--dynamic_dims=4;8", "--input_format=ND"], {}, "E10001"),
        (["--input_shape=x:1,3,-1,-1", "--dynamic_image_size=4,6;8,6"], {"crop": True}, "E10052"),
        (["--input_shape=x:1,3,-1,-1", "--dynamic_image_size=4,6;8,6"], {}, "E10052"),
        (["--input_shape=x:1~4,3,4,6"], {}, "E10052"),
    ],
)
def test_codes_with_other_options(options, keys, code, tmp_path, capsys):
    onnx.save(identity(3, "h", "w", "n"), "net.onnx")
    (tmp_path / "aipp.cfg").write_text(static(**GOOD, **keys))
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3"]
    shape = [] if any("input_shape" in word for word in options) else ["--input_shape=x:1,3,4,6"]
    assert atc.main([*words, "--insert_op_conf=aipp.cfg", *shape, *options]) == 255
    assert re.search(r"^(\w+): \[PID", capsys.readouterr().out, re.MULTILINE).group(1) == code


def test_odd_sizes_of_yuv(tmp_path):
    onnx.save(identity(3, 5, 6), "net.onnx")
    (tmp_path / "aipp.cfg").write_text(static(input_format="YUV420SP_U8"))
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--soc_version=Ascend310P3"]
    assert atc.main([*words, "--insert_op_conf=aipp.cfg"]) == 255


def test_padded_width_by_chip(tmp_path):
    """1080 pixels on Ascend310P, more on Ascend910B."""
    text = static(
        input_format="YUV400_U8", src_image_size_w=1080, src_image_size_h=2, padding=True, left_padding_size=2
    )
    (tmp_path / "aipp.cfg").write_text(text)
    onnx.save(identity(1, 2, 1082), "net.onnx")
    words = ["--model=net.onnx", "--framework=5", "--output=net", "--insert_op_conf=aipp.cfg"]
    assert atc.main([*words, "--soc_version=Ascend310P3"]) == 255
    assert atc.main([*words, "--soc_version=Ascend910B1"]) == 0


# -- the text ------------------------------------------------------------------------------------------------


def test_text_form():
    made = parse('a: 1 b { c: -2.5e1, d: true; } # note\ne: "x\\n\\101" "y" f: [1, 2] g < h: word >')
    values = [(name, value) for name, value, _ in made]
    assert values[0] == ("a", 1)
    inner = values[1][1]
    assert isinstance(inner, Message)
    assert [(name, value) for name, value, _ in inner] == [("c", -25.0), ("d", Word("true"))]
    assert values[2:5] == [("e", "x\nAy"), ("f", 1), ("f", 2)]
    assert made.fields[2][2] == 2


@pytest.mark.parametrize("text", ["a:", "a: {", "a 1", "a: }", "1: a", 'a: "open', "a: [1", "}", "a: $"])
def test_text_that_is_no_message(text):
    with pytest.raises(TextError):
        parse(text)
