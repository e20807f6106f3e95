"""JPEG decoding, resizing and encoding on photographs that packages carry: all baseline, of odd and even sizes."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from test_dvpp import NV12, OWN, RGB, Dvpp, on

from cannlab.machine import pictures

PHOTOGRAPHS = {
    "china": ("sklearn", "datasets/images/china.jpg", 0),
    "flower": ("sklearn", "datasets/images/flower.jpg", 0),
    "grace_hopper": ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg", 2),
    "rocket": ("skimage", "data/rocket.jpg", 0),
    "hubble_deep_field": ("skimage", "data/hubble_deep_field.jpg", 0),
    "retina": ("skimage", "data/retina.jpg", 2),
}
"""Package, path, sampling (0 4:4:4, 2 4:2:0)."""


def photograph(name: str) -> tuple[bytes, int]:
    package, path, sampling = PHOTOGRAPHS[name]
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed, which carries the photograph {name}")
    return (Path(spec.submodule_search_locations[0]) / path).read_bytes(), sampling


def decode(dvpp: Dvpp, file: bytes, kind: int) -> int:
    """The description of the decoded picture."""
    media = dvpp.media
    size, ret = media.dvpp_jpeg_predict_dec_size(dvpp.acl.util.bytes_to_ptr(file), len(file), kind)
    assert ret == 0
    out = media.dvpp_create_pic_desc()
    media.dvpp_set_pic_desc_data(out, media.dvpp_malloc(size)[0])
    media.dvpp_set_pic_desc_size(out, size)
    media.dvpp_set_pic_desc_format(out, kind)
    assert media.dvpp_jpeg_decode_async(dvpp.channel, dvpp.put(file), len(file), out, dvpp.stream) == 0
    assert dvpp.sync() == 0
    assert dvpp.field(out, "ret_code") == 0
    return out


def layout(dvpp: Dvpp, desc: int) -> pictures.Layout:
    names = ("width", "height", "width_stride", "height_stride")
    return pictures.Layout(pictures.FORMATS[dvpp.field(desc, "format")], *(dvpp.field(desc, name) for name in names))


@pytest.mark.parametrize("soc", ["Ascend910A", "Ascend310P3"])
@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_photographs(soc: str, name: str) -> None:
    file, sampling = photograph(name)
    dvpp = on(soc)
    host = dvpp.acl.util.bytes_to_ptr(file)
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
    info = dvpp.media.dvpp_jpeg_get_image_info_v2(host, len(file))
    assert info == (image.width, image.height, 3, sampling, 0)
    decoded = decode(dvpp, file, NV12)
    made = layout(dvpp, decoded)
    assert (made.width - image.width, made.height - image.height) == (image.width % 2, image.height % 2)
    assert (made.width_stride % (128 if soc == "Ascend910A" else 64), made.height_stride % 16) == (0, 0)
    yuv = np.asarray(image.convert("YCbCr")).astype(int)
    luma, chroma = dvpp.pixels(decoded)
    assert np.abs(luma[: image.height, : image.width, 0].astype(int) - yuv[..., 0]).mean() < 0.6
    even = yuv[: image.height // 2 * 2, : image.width // 2 * 2, 1:]
    blocks = even.reshape(even.shape[0] // 2, 2, even.shape[1] // 2, 2, 2).mean((1, 3))
    assert np.abs(chroma[: blocks.shape[0], : blocks.shape[1]].astype(float) - blocks).mean() < 1
    # To the size of a model and to RGB, as a program prepares it.
    small, colours = dvpp.picture(NV12, 224, 224), dvpp.picture(RGB, 224, 224)
    config = dvpp.media.dvpp_create_resize_config()
    assert dvpp.media.dvpp_vpc_resize_async(dvpp.channel, decoded, small, config, dvpp.stream) == 0
    assert dvpp.media.dvpp_vpc_convert_color_async(dvpp.channel, small, colours, dvpp.stream) == 0
    assert dvpp.sync() == 0
    wanted = np.asarray(image.convert("RGB").resize((224, 224), Image.Resampling.BOX)).astype(int)
    assert np.abs(dvpp.pixels(colours)[0].astype(int) - wanted).mean() < 14
    # And back to a JPEG.
    quality = dvpp.media.dvpp_create_jpege_config()
    dvpp.media.dvpp_set_jpege_config_level(quality, 95)
    room, _ = dvpp.media.dvpp_jpeg_predict_enc_size(decoded, quality)
    number, out = np.array([room], np.uint32), dvpp.media.dvpp_malloc(room)[0]
    pointer = dvpp.acl.util.numpy_to_ptr(number)
    assert dvpp.media.dvpp_jpeg_encode_async(dvpp.channel, decoded, out, pointer, quality, dvpp.stream) == 0
    assert dvpp.sync() == 0
    back = Image.open(io.BytesIO(dvpp.get(out, int(number[0])).tobytes()))
    assert back.size == (made.width, made.height)
    found = np.asarray(back.convert("L")).astype(int)[: image.height, : image.width]
    assert np.abs(found - yuv[..., 0]).mean() < 3


@pytest.mark.parametrize("name", ["china", "retina"])
def test_the_format_of_the_file_keeps_its_chroma(name: str) -> None:
    file, sampling = photograph(name)
    dvpp = on("Ascend310P3")
    decoded = decode(dvpp, file, OWN)
    assert dvpp.field(decoded, "format") == {0: 6, 2: 2}[sampling]
    image = Image.open(io.BytesIO(file))
    red = np.asarray(image.convert("YCbCr")).astype(int)[..., 2]
    found = dvpp.pixels(decoded)[1][..., 0].astype(int)  # V stands before U
    step = 2 if sampling else 1
    red = red[: image.height // step * step : step, : image.width // step * step : step]
    assert np.abs(found[: red.shape[0], : red.shape[1]] - red).mean() < 1.5


@pytest.mark.parametrize(("options", "sampling"), [({"subsampling": 1}, 1), ({"subsampling": 2, "optimize": True}, 2)])
def test_photographs_saved_anew(options: dict[str, object], sampling: int) -> None:
    dvpp = on("Ascend310P3")
    original = Image.open(io.BytesIO(photograph("grace_hopper")[0]))
    buffer = io.BytesIO()
    original.save(buffer, "JPEG", quality=95, **options)
    file = buffer.getvalue()
    assert dvpp.media.dvpp_jpeg_get_image_info_v2(dvpp.acl.util.bytes_to_ptr(file), len(file))[3:] == (sampling, 0)
    luma = dvpp.pixels(decode(dvpp, file, NV12))[0][..., 0].astype(int)
    assert np.abs(luma - np.asarray(original.convert("L"))).mean() < 2
    for image, keywords in ((original, {"progressive": True}), (original.convert("CMYK"), {})):
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", **keywords)
        file = buffer.getvalue()
        info = dvpp.media.dvpp_jpeg_get_image_info(dvpp.acl.util.bytes_to_ptr(file), len(file))
        assert info == (0, 0, 0, 148052)
    buffer = io.BytesIO()
    original.convert("L").save(buffer, "JPEG")
    file = buffer.getvalue()
    info = dvpp.media.dvpp_jpeg_get_image_info_v2(dvpp.acl.util.bytes_to_ptr(file), len(file))
    assert info == (512, 600, 1, 3, 0)


@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea"])
def test_png_photographs(name: str) -> None:
    spec = importlib.util.find_spec("skimage")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"skimage is not installed, which carries the photograph {name}")
    file = (Path(spec.submodule_search_locations[0]) / "data" / f"{name}.png").read_bytes()
    dvpp = on("Ascend310P3")
    size, ret = dvpp.media.dvpp_png_predict_dec_size(dvpp.acl.util.bytes_to_ptr(file), len(file), RGB)
    assert ret == 0
    out = dvpp.media.dvpp_create_pic_desc()
    dvpp.media.dvpp_set_pic_desc_data(out, dvpp.media.dvpp_malloc(size)[0])
    dvpp.media.dvpp_set_pic_desc_size(out, size)
    dvpp.media.dvpp_set_pic_desc_format(out, RGB)
    assert dvpp.media.dvpp_png_decode_async(dvpp.channel, dvpp.put(file), len(file), out, dvpp.stream) == 0
    assert dvpp.sync() == 0
    np.testing.assert_array_equal(dvpp.pixels(out)[0], np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))
