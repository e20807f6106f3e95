"""DVPP: descriptions, memory rules, JPEG and PNG, VPC, batches, borders, colours, its engine."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import cannlab.acl as acl_package
from cannlab.machine import Machine, pictures, reset_machine

NV12, NV21, RGB, BGR, OWN = 1, 2, 12, 13, 10000


class Dvpp:
    """A channel, a stream and the handling of pictures."""

    def __init__(self, acl, m: Machine) -> None:
        self.acl, self.media, self.m = acl, acl.media, m
        self.channel = self.media.dvpp_create_channel_desc()
        assert self.media.dvpp_create_channel(self.channel) == 0
        self.stream = acl.rt.create_stream()[0]
        new = m.soc.short not in ("Ascend310", "Ascend910", "Ascend310P")
        self.unit = 1 if new else 16

    def sync(self) -> int:
        return self.acl.rt.synchronize_stream(self.stream)

    def put(self, data: bytes) -> int:
        pointer, ret = self.media.dvpp_malloc(len(data))
        assert ret == 0
        assert self.acl.rt.memcpy(pointer, len(data), self.acl.util.bytes_to_ptr(data), len(data), 1) == 0
        return pointer

    def get(self, pointer: int, size: int) -> np.ndarray:
        data = bytes(size)
        assert self.acl.rt.memcpy(self.acl.util.bytes_to_ptr(data), size, pointer, size, 2) == 0
        return np.frombuffer(data, np.uint8)

    def layout(self, kind: int, width: int, height: int) -> pictures.Layout:
        entry = pictures.FORMATS[kind]
        unit = self.unit * entry.pixel_bytes
        stride = -(-width * entry.pixel_bytes // unit) * unit
        return pictures.Layout(entry, width, height, stride, height + height % 2)

    def picture(self, kind: int, width: int, height: int, whole: np.ndarray | None = None, desc: int = 0) -> int:
        """A description with memory; ``whole`` is Y, U, V or R, G, B of each pixel."""
        layout = self.layout(kind, width, height)
        buffer = bytearray(layout.size)
        if whole is not None:
            family = "rgb" if layout.format.family == "rgb" else "yuv"
            made = pictures.gather(whole, family, layout.format, 0)
            for plane, values in zip(layout.planes(memoryview(buffer)), made, strict=True):
                plane[:] = values
        desc = desc or self.media.dvpp_create_pic_desc()
        fields = {"data": self.put(bytes(buffer)), "format": kind, "size": layout.size, "width": width}
        fields |= {"height": height, "width_stride": layout.width_stride, "height_stride": layout.height_stride}
        for name, value in fields.items():
            assert getattr(self.media, f"dvpp_set_pic_desc_{name}")(desc, value) == 0
        return desc

    def field(self, desc: int, name: str) -> int:
        return getattr(self.media, f"dvpp_get_pic_desc_{name}")(desc)

    def pixels(self, desc: int) -> list[np.ndarray]:
        """The planes of a picture."""
        names = ("width", "height", "width_stride", "height_stride")
        layout = pictures.Layout(
            pictures.FORMATS[self.field(desc, "format")], *(self.field(desc, name) for name in names)
        )
        data = self.get(self.field(desc, "data"), layout.size)
        return layout.planes(memoryview(bytearray(data)))


@pytest.fixture
def dvpp(acl, m) -> Dvpp:
    return Dvpp(acl, m)


def on(soc: str) -> Dvpp:
    m = reset_machine(soc, 1)
    assert acl_package.init() == 0
    assert acl_package.rt.set_device(0) == 0
    return Dvpp(acl_package, m)


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def smooth(height: int, width: int) -> np.ndarray:
    """Colours that change slowly: JPEG keeps them nearly."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], -1).astype(np.uint8)


def jpeg(rgb: np.ndarray, **options) -> bytes:
    file = io.BytesIO()
    Image.fromarray(rgb).save(file, "JPEG", **options)
    return file.getvalue()


# -- descriptions ------------------------------------------------------------------------------------------


def test_fields_of_descriptions(acl) -> None:
    media = acl.media
    for name, fields in (
        ("pic_desc", ("data", "format", "size", "width", "height", "width_stride", "height_stride", "ret_code")),
        ("stream_desc", ("data", "format", "size", "timestamp", "ret_code", "eos")),
        ("resize_config", ("interpolation",)),
        ("border_config", ("border_type", "top", "bottom", "left", "right")),
        ("jpege_config", ("level",)),
    ):
        desc = getattr(media, f"dvpp_create_{name}")()
        for value, field in enumerate(fields, 1):
            assert getattr(media, f"dvpp_set_{name}_{field}")(desc, value) == 0
        assert [getattr(media, f"dvpp_get_{name}_{field}")(desc) for field in fields] == [*range(1, len(fields) + 1)]
        assert [getattr(media, f"dvpp_get_{name}_{field}")(0) for field in fields] == [0] * len(fields)
        destroy = getattr(media, f"dvpp_destroy_{name}")
        assert [destroy(desc), destroy(desc), destroy(0)] == [0, 100000, 100000]


def test_channels(acl, rules) -> None:
    media = acl.media
    desc = media.dvpp_create_channel_desc()
    assert media.dvpp_destroy_channel(desc) == 100000
    assert media.dvpp_create_channel(desc) == 0
    assert media.dvpp_create_channel(desc) == 100000
    assert media.dvpp_destroy_channel_desc(desc) == 100000
    assert media.dvpp_destroy_channel(desc) == 0
    assert media.dvpp_destroy_channel_desc(desc) == 0
    assert rules() == ["media.channel_state"] * 3
    other = media.dvpp_create_channel_desc()
    assert media.dvpp_set_channel_desc_mode(other, 0) == 100000
    matrix = (3).to_bytes(4, "little")
    assert media.dvpp_set_channel_desc_param(other, 0, acl.util.bytes_to_ptr(matrix)) == (other, 0)
    assert media.dvpp_get_channel_desc_param(other, 0) == (4, 3, 0)
    assert media.dvpp_get_channel_desc_param(other, 1) == (4, 15, 0)


def test_batches_of_descriptions(acl) -> None:
    media = acl.media
    assert media.dvpp_create_batch_pic_desc(0) == media.dvpp_create_batch_pic_desc(257) == 0
    batch = media.dvpp_create_batch_pic_desc(2)
    first = media.dvpp_get_pic_desc(batch, 0)
    assert media.dvpp_get_pic_desc(batch, 2) == 0
    assert media.dvpp_set_pic_desc_width(first, 5) == 0
    assert media.dvpp_get_pic_desc_width(media.dvpp_get_pic_desc(batch, 0)) == 5
    assert media.dvpp_destroy_pic_desc(first) == 100000
    assert media.dvpp_destroy_batch_pic_desc(batch) == 0
    assert media.dvpp_set_pic_desc_width(first, 5) == 100000


# -- JPEG --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("soc", "strides"), [("Ascend910A", (128, 16)), ("Ascend310P3", (64, 16)), ("Ascend910B1", (64, 16))]
)
def test_decoding_into_the_strides_of_the_chip(soc, strides) -> None:
    dvpp = on(soc)
    rgb = smooth(90, 200)
    file = jpeg(rgb, subsampling=2, quality=95)
    host = dvpp.acl.util.bytes_to_ptr(file)
    assert dvpp.media.dvpp_jpeg_get_image_info(host, len(file)) == (200, 90, 3, 0)
    assert dvpp.media.dvpp_jpeg_get_image_info_v2(host, len(file)) == (200, 90, 3, 2, 0)
    across, down = (-(-200 // strides[0]) * strides[0], -(-90 // strides[1]) * strides[1])
    size, ret = dvpp.media.dvpp_jpeg_predict_dec_size(host, len(file), NV12)
    assert (size, ret) == (across * down * 3 // 2, 0)
    out = dvpp.media.dvpp_create_pic_desc()
    dvpp.media.dvpp_set_pic_desc_data(out, dvpp.media.dvpp_malloc(size)[0])
    dvpp.media.dvpp_set_pic_desc_size(out, size)
    dvpp.media.dvpp_set_pic_desc_format(out, NV12)
    data = dvpp.put(file)
    assert dvpp.media.dvpp_jpeg_decode_async(dvpp.channel, data, len(file), out, dvpp.stream) == 0
    assert dvpp.sync() == 0
    assert dvpp.field(out, "ret_code") == 0
    names = ("width", "height", "width_stride", "height_stride")
    assert [dvpp.field(out, name) for name in names] == [200, 90, across, down]
    luma, chroma = dvpp.pixels(out)
    wanted = np.asarray(Image.fromarray(rgb).convert("YCbCr"))
    assert np.abs(luma[..., 0].astype(int) - wanted[..., 0]).max() < 8
    assert np.abs(chroma[..., 1].astype(int) - wanted[::2, ::2, 2]).max() < 10


def test_sampling_and_order_of_the_file(dvpp) -> None:
    for sampling, (kind, number, factor) in {0: (6, 0, 3), 1: (4, 1, 2), 2: (NV21, 2, 1.5)}.items():
        file = jpeg(smooth(64, 64), subsampling=sampling)
        host = dvpp.acl.util.bytes_to_ptr(file)
        assert dvpp.media.dvpp_jpeg_get_image_info_v2(host, len(file))[3:] == (number, 0)
        assert dvpp.media.dvpp_jpeg_predict_dec_size(host, len(file), OWN) == (int(64 * 64 * factor), 0)
        out = dvpp.picture(kind, 64, 64)
        dvpp.media.dvpp_set_pic_desc_format(out, OWN)
        assert dvpp.media.dvpp_jpeg_decode_async(dvpp.channel, dvpp.put(file), len(file), out, dvpp.stream) == 0
        assert dvpp.sync() == 0
        assert dvpp.field(out, "format") == kind
        yuv = np.asarray(Image.open(io.BytesIO(file)).convert("YCbCr")).astype(int)
        # V stands before U: the first chroma channel is Cr.
        assert np.abs(dvpp.pixels(out)[1][0, 0, 0] - yuv[:2, :2, 2].mean()) < 3
    assert dvpp.media.dvpp_jpeg_predict_dec_size(host, len(file), 5) == (0, 100000)


def test_odd_sizes_become_even(dvpp) -> None:
    file = jpeg(smooth(427, 641), subsampling=0)
    out = dvpp.media.dvpp_create_pic_desc()
    size, _ = dvpp.media.dvpp_jpeg_predict_dec_size(dvpp.acl.util.bytes_to_ptr(file), len(file), NV12)
    assert size == 704 * 432 * 3 // 2
    dvpp.media.dvpp_set_pic_desc_data(out, dvpp.media.dvpp_malloc(size)[0])
    dvpp.media.dvpp_set_pic_desc_size(out, size)
    dvpp.media.dvpp_set_pic_desc_format(out, NV12)
    assert dvpp.media.dvpp_jpeg_decode_async(dvpp.channel, dvpp.put(file), len(file), out, dvpp.stream) == 0
    assert dvpp.sync() == 0
    assert (dvpp.field(out, "width"), dvpp.field(out, "height")) == (642, 428)


@pytest.mark.parametrize(
    "file",
    [
        jpeg(smooth(64, 64), progressive=True),
        b"no picture at all",
        jpeg(smooth(64, 64))[:30],
        b"",
        Image.new("CMYK", (8, 8)).tobytes(),
    ],
)
def test_files_that_the_decoder_does_not_take(dvpp, file) -> None:
    data = file or b"x"
    host = dvpp.acl.util.bytes_to_ptr(data)
    assert dvpp.media.dvpp_jpeg_get_image_info(host, len(data)) == (0, 0, 0, 148052)
    out = dvpp.picture(NV12, 64, 64)
    assert dvpp.media.dvpp_jpeg_decode_async(dvpp.channel, dvpp.put(data), len(data), out, dvpp.stream) == 148052


def test_a_file_that_breaks_off_fails_at_the_synchronisation(dvpp, rules) -> None:
    file = jpeg(noise(64, 64))
    out = dvpp.picture(NV12, 64, 64)
    assert dvpp.media.dvpp_jpeg_decode_async(dvpp.channel, dvpp.put(file[:700]), 700, out, dvpp.stream) == 0
    assert dvpp.sync() == 507018
    assert dvpp.field(out, "ret_code") == 1
    assert rules()[-1] == "media.damaged"


def test_exif_orientation_is_applied(dvpp) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    file = jpeg(smooth(64, 128), exif=exif)
    host = dvpp.acl.util.bytes_to_ptr(file)
    assert dvpp.media.dvpp_jpeg_get_image_info(host, len(file)) == (64, 128, 3, 0)
    out = dvpp.picture(NV12, 64, 128)
    assert dvpp.media.dvpp_jpeg_decode_async(dvpp.channel, dvpp.put(file), len(file), out, dvpp.stream) == 0
    assert dvpp.sync() == 0
    wanted = np.rot90(np.asarray(Image.fromarray(smooth(64, 128)).convert("L")), -1).astype(int)
    assert np.abs(dvpp.pixels(out)[0][..., 0] - wanted).max() < 12


@pytest.mark.parametrize("kind", [NV12, NV21])
def test_encoding(dvpp, kind) -> None:
    yuv = np.asarray(Image.fromarray(smooth(96, 128)).convert("YCbCr"))
    source = dvpp.picture(kind, 128, 96, yuv)
    config = dvpp.media.dvpp_create_jpege_config()
    dvpp.media.dvpp_set_jpege_config_level(config, 90)
    room, ret = dvpp.media.dvpp_jpeg_predict_enc_size(source, config)
    assert ret == 0
    number = np.array([room], np.uint32)
    out = dvpp.media.dvpp_malloc(room)[0]
    pointer = dvpp.acl.util.numpy_to_ptr(number)
    assert dvpp.media.dvpp_jpeg_encode_async(dvpp.channel, source, out, pointer, config, dvpp.stream) == 0
    assert number[0] == room
    assert dvpp.sync() == 0
    assert 0 < number[0] < room
    back = np.asarray(Image.open(io.BytesIO(dvpp.get(out, int(number[0])).tobytes())).convert("YCbCr")).astype(int)
    assert np.abs(back - yuv).max() < 16
    number[0] = 10
    assert dvpp.media.dvpp_jpeg_encode_async(dvpp.channel, source, out, pointer, config, dvpp.stream) == 0
    assert dvpp.sync() == 507018
    assert dvpp.media.dvpp_set_jpege_config_level(config, 101) == 100000
    rgb = dvpp.picture(RGB, 64, 64)
    assert dvpp.media.dvpp_jpeg_predict_enc_size(rgb, config) == (0, 100000)


def test_png(dvpp) -> None:
    rgba = np.concatenate([noise(33, 70), noise(33, 70, 1)[..., :1]], -1)
    file = io.BytesIO()
    Image.fromarray(rgba).save(file, "PNG")
    data = file.getvalue()
    host = dvpp.acl.util.bytes_to_ptr(data)
    assert dvpp.media.dvpp_png_get_image_info(host, len(data)) == (70, 33, 4, 0)
    assert dvpp.media.dvpp_png_get_image_info(host, 20) == (0, 0, 0, 100000)
    size, ret = dvpp.media.dvpp_png_predict_dec_size(host, len(data), RGB)
    assert (size, ret) == (256 * 48, 0)
    for kind, order in ((RGB, [0, 1, 2]), (16, [0, 1, 2, 3])):
        size = dvpp.media.dvpp_png_predict_dec_size(host, len(data), kind)[0]
        out = dvpp.media.dvpp_create_pic_desc()
        dvpp.media.dvpp_set_pic_desc_data(out, dvpp.media.dvpp_malloc(size)[0])
        dvpp.media.dvpp_set_pic_desc_size(out, size)
        dvpp.media.dvpp_set_pic_desc_format(out, kind)
        assert dvpp.media.dvpp_png_decode_async(dvpp.channel, dvpp.put(data), len(data), out, dvpp.stream) == 0
        assert dvpp.sync() == 0
        np.testing.assert_array_equal(dvpp.pixels(out)[0], rgba[..., order])


# -- VPC ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, NV12, NV21, 3, 5, RGB, BGR, 16])
def test_cropping_keeps_the_pixels(dvpp, kind) -> None:
    whole = noise(64, 96)
    source, target = dvpp.picture(kind, 96, 64, whole), dvpp.picture(kind, 32, 16)
    area = dvpp.media.dvpp_create_roi_config(10, 41, 20, 35)
    assert dvpp.media.dvpp_vpc_crop_async(dvpp.channel, source, target, area, dvpp.stream) == 0
    assert not dvpp.pixels(target)[0].any()
    assert dvpp.sync() == 0
    entry = pictures.FORMATS[kind]
    for at, (big, small) in enumerate(zip(dvpp.pixels(source), dvpp.pixels(target), strict=True)):
        across, down = (entry.across, entry.down) if at else (1, 1)
        np.testing.assert_array_equal(small, big[20 // down : 36 // down, 10 // across : 42 // across])


def test_resizing_is_bilinear_with_pixel_centres_at_halves(dvpp) -> None:
    ramp = np.repeat(np.arange(64, dtype=np.uint8)[None, :, None] * 4, 64, 0).repeat(3, 2)
    source, target = dvpp.picture(RGB, 64, 64, ramp), dvpp.picture(RGB, 32, 32)
    config = dvpp.media.dvpp_create_resize_config()
    assert dvpp.media.dvpp_vpc_resize_async(dvpp.channel, source, target, config, dvpp.stream) == 0
    assert dvpp.sync() == 0
    # Halving puts each new pixel between two old ones: 2, 10, 18, ...
    np.testing.assert_array_equal(dvpp.pixels(target)[0][5, :, 1], np.arange(32) * 8 + 2)
    dvpp.media.dvpp_set_resize_config_interpolation(config, 2)
    assert dvpp.media.dvpp_vpc_resize_async(dvpp.channel, source, target, config, dvpp.stream) == 0
    assert dvpp.sync() == 0
    np.testing.assert_array_equal(dvpp.pixels(target)[0][5, :, 1], np.arange(32) * 8)
    dvpp.media.dvpp_set_resize_config_interpolation(config, 9)
    assert dvpp.media.dvpp_vpc_resize_async(dvpp.channel, source, target, config, dvpp.stream) == 100000


def test_pasting_leaves_the_rest(dvpp) -> None:
    source, target = dvpp.picture(NV12, 64, 64, noise(64, 64)), dvpp.picture(NV12, 96, 96, noise(96, 96, 1))
    before = [plane.copy() for plane in dvpp.pixels(target)]
    crop = dvpp.media.dvpp_create_roi_config(0, 31, 0, 31)
    paste = dvpp.media.dvpp_create_roi_config(16, 47, 32, 63)
    assert dvpp.media.dvpp_vpc_crop_and_paste_async(dvpp.channel, source, target, crop, paste, dvpp.stream) == 0
    assert dvpp.sync() == 0
    given, after = dvpp.pixels(source), dvpp.pixels(target)
    before[0][32:64, 16:48] = given[0][:32, :32]
    before[1][16:32, 8:24] = given[1][:16, :16]
    for plane, wanted in zip(after, before, strict=True):
        np.testing.assert_array_equal(plane, wanted)


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910A"])
def test_a_paste_left_edge_is_aligned_on_some_chips(soc) -> None:
    dvpp = on(soc)
    source, target = dvpp.picture(NV12, 64, 64), dvpp.picture(NV12, 96, 96)
    crop, paste = (dvpp.media.dvpp_create_roi_config(left, left + 31, 0, 31) for left in (0, 10))
    ret = dvpp.media.dvpp_vpc_crop_and_paste_async(dvpp.channel, source, target, crop, paste, dvpp.stream)
    assert ret == (100000 if soc == "Ascend910A" else 0)


@pytest.mark.parametrize("matrix", [0, 1, 2, 3])
def test_colours_are_converted_and_back(dvpp, matrix) -> None:
    number = matrix.to_bytes(4, "little")
    dvpp.media.dvpp_set_channel_desc_param(dvpp.channel, 0, dvpp.acl.util.bytes_to_ptr(number))
    rgb = smooth(32, 64)
    source, middle, back = dvpp.picture(RGB, 64, 32, rgb), dvpp.picture(5, 64, 32), dvpp.picture(BGR, 64, 32)
    assert dvpp.media.dvpp_vpc_convert_color_async(dvpp.channel, source, middle, dvpp.stream) == 0
    assert dvpp.media.dvpp_vpc_convert_color_async(dvpp.channel, middle, back, dvpp.stream) == 0
    assert dvpp.sync() == 0
    assert np.abs(dvpp.pixels(back)[0][..., ::-1].astype(int) - rgb).max() <= 4
    if matrix == 0:
        luma, chroma = dvpp.pixels(middle)
        wanted = np.asarray(Image.fromarray(rgb).convert("YCbCr")).astype(int)
        assert np.abs(np.concatenate([luma, chroma], -1) - wanted).max() <= 1
    small = dvpp.picture(RGB, 32, 32)
    assert dvpp.media.dvpp_vpc_convert_color_async(dvpp.channel, source, small, dvpp.stream) == 100000


def test_white_and_black_of_narrow_range(dvpp) -> None:
    number = (1).to_bytes(4, "little")
    dvpp.media.dvpp_set_channel_desc_param(dvpp.channel, 0, dvpp.acl.util.bytes_to_ptr(number))
    rgb = np.zeros((16, 32, 3), np.uint8)
    rgb[:, 16:] = 255
    source, target = dvpp.picture(RGB, 32, 16, rgb), dvpp.picture(NV12, 32, 16)
    assert dvpp.media.dvpp_vpc_convert_color_async(dvpp.channel, source, target, dvpp.stream) == 0
    assert dvpp.sync() == 0
    luma, chroma = dvpp.pixels(target)
    assert (set(luma[:, :16].ravel()), set(luma[:, 16:].ravel()), set(chroma.ravel())) == ({16}, {235}, {128})


def test_a_batch_cuts_several_areas_out_of_several_pictures(dvpp) -> None:
    media = dvpp.media
    sources, targets = media.dvpp_create_batch_pic_desc(2), media.dvpp_create_batch_pic_desc(3)
    for at in range(2):
        dvpp.picture(RGB, 64, 64, noise(64, 64, at), media.dvpp_get_pic_desc(sources, at))
    for at in range(3):
        dvpp.picture(RGB, 16, 16, None, media.dvpp_get_pic_desc(targets, at))
    corners = [(0, 0), (32, 16), (8, 40)]
    areas = [media.dvpp_create_roi_config(left, left + 15, top, top + 15) for left, top in corners]
    assert media.dvpp_vpc_batch_crop_async(dvpp.channel, sources, [2, 1], targets, areas, dvpp.stream) == (targets, 0)
    assert dvpp.sync() == 0
    for at, ((left, top), source) in enumerate(zip(corners, (0, 0, 1), strict=True)):
        (got,) = dvpp.pixels(media.dvpp_get_pic_desc(targets, at))
        np.testing.assert_array_equal(got, noise(64, 64, source)[top : top + 16, left : left + 16])
    assert media.dvpp_vpc_batch_crop_async(dvpp.channel, sources, [2], targets, areas, dvpp.stream)[1] == 100000
    assert media.dvpp_vpc_batch_crop_async(dvpp.channel, sources, [1, 1], targets, areas, dvpp.stream)[1] == 100000
    with pytest.raises(ValueError, match="1 to 256"):
        media.dvpp_vpc_batch_crop_async(dvpp.channel, sources, [], targets, areas, dvpp.stream)
    with pytest.raises(TypeError):
        media.dvpp_vpc_batch_crop_async(dvpp.channel, sources, (2, 1), targets, areas, dvpp.stream)
    config = media.dvpp_create_resize_config()
    pastes = [media.dvpp_create_roi_config(0, 15, 0, 7) for _ in areas]
    run = media.dvpp_vpc_batch_crop_resize_paste_async
    assert run(dvpp.channel, sources, [2, 1], targets, areas, pastes, config, dvpp.stream) == 0
    borders = [media.dvpp_create_border_config() for _ in areas]
    for border in borders:
        for side in ("top", "bottom", "left", "right"):
            getattr(media, f"dvpp_set_border_config_{side}")(border, 2)
        media.dvpp_set_border_config_value(border, 0, 77)
    run = media.dvpp_vpc_batch_crop_resize_make_border_async
    assert run(dvpp.channel, sources, [2, 1], targets, areas, borders, config, dvpp.stream) == 0
    assert dvpp.sync() == 0
    (got,) = dvpp.pixels(media.dvpp_get_pic_desc(targets, 2))
    assert got[0, 5].tolist() == [77, 0, 0]


@pytest.mark.parametrize(("kind", "mode"), list(enumerate(["constant", "edge", "symmetric", "reflect"])))
def test_borders(dvpp, kind, mode) -> None:
    rgb = noise(16, 32)
    source, target = dvpp.picture(RGB, 32, 16, rgb), dvpp.picture(RGB, 37, 22)
    config = dvpp.media.dvpp_create_border_config()
    dvpp.media.dvpp_set_border_config_border_type(config, kind)
    for side, width in (("top", 2), ("bottom", 4), ("left", 3), ("right", 2)):
        getattr(dvpp.media, f"dvpp_set_border_config_{side}")(config, width)
    assert dvpp.media.dvpp_vpc_make_border_async(dvpp.channel, source, target, config, dvpp.stream) == 0
    assert dvpp.sync() == 0
    np.testing.assert_array_equal(dvpp.pixels(target)[0], np.pad(rgb, ((2, 4), (3, 2), (0, 0)), mode=mode))
    assert dvpp.media.dvpp_set_border_config_value(config, 4, 1.0) == 100000
    assert dvpp.media.dvpp_vpc_make_border_async(dvpp.channel, source, source, config, dvpp.stream) == 100000


# -- rules -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("soc", "field", "value", "rule"),
    [
        ("Ascend310P3", "width_stride", 100, "media.picture"),
        ("Ascend310P3", "width_stride", 80, "media.picture"),
        ("Ascend910B1", "width_stride", 94, "media.picture"),
        ("Ascend910B1", "height_stride", 65, "media.picture"),
        ("Ascend910B1", "width", 95, "media.picture"),
        ("Ascend910B1", "height", 4, "media.picture"),
        ("Ascend910B1", "size", 96 * 64 * 3 // 2 - 1, "media.picture"),
        ("Ascend910B1", "format", 18, "media.format"),
    ],
)
def test_pictures_that_do_not_fit(soc, field, value, rule) -> None:
    dvpp = on(soc)
    source, target = dvpp.picture(NV12, 96, 64), dvpp.picture(NV12, 32, 32)
    config = dvpp.media.dvpp_create_resize_config()
    run = dvpp.media.dvpp_vpc_resize_async
    assert run(dvpp.channel, source, target, config, dvpp.stream) == 0
    getattr(dvpp.media, f"dvpp_set_pic_desc_{field}")(source, value)
    assert run(dvpp.channel, source, target, config, dvpp.stream) == 100000
    assert dvpp.m.record.faults[-1]["rule"] == rule


def test_a_stride_without_alignment_is_right_on_newer_chips() -> None:
    dvpp = on("Ascend910B1")
    dvpp.unit = 2
    source, target = dvpp.picture(NV12, 98, 64), dvpp.picture(NV12, 34, 32)
    config = dvpp.media.dvpp_create_resize_config()
    assert dvpp.media.dvpp_vpc_resize_async(dvpp.channel, source, target, config, dvpp.stream) == 0


def test_memory_and_channel_rules(dvpp, acl, rules) -> None:
    source, target = dvpp.picture(NV12, 64, 64), dvpp.picture(NV12, 32, 32)
    config = dvpp.media.dvpp_create_resize_config()

    def run(channel: int = dvpp.channel) -> int:
        rules()
        return dvpp.media.dvpp_vpc_resize_async(channel, source, target, config, dvpp.stream)

    place = dvpp.field(source, "data")
    dvpp.media.dvpp_set_pic_desc_data(source, acl.rt.malloc(64 * 64 * 2, 0)[0])
    assert (run(), rules()) == (100000, ["media.not_dvpp"])
    dvpp.media.dvpp_set_pic_desc_data(source, dvpp.media.dvpp_malloc(64 * 64 * 2)[0] + 8)
    assert (run(), rules()) == (100000, ["media.unaligned"])
    dvpp.media.dvpp_set_pic_desc_data(source, place)
    assert run() == 0
    assert dvpp.media.dvpp_free(place) == 0
    assert dvpp.sync() != 0
    assert dvpp.field(target, "ret_code") == 1
    other = dvpp.media.dvpp_create_channel_desc()
    assert (run(other), rules()) == (100000, ["media.channel_state"])
    dvpp.media.dvpp_set_channel_desc_mode(other, 2)
    dvpp.media.dvpp_create_channel(other)
    assert (run(other), rules()) == (100000, ["media.channel_mode"])
    assert run(0) == 100000


@pytest.mark.parametrize(
    ("soc", "field", "value", "words"),
    [
        ("Ascend310", "width_stride", 60, "is 60; for rows of 96 bytes it must be 96 or a larger multiple of 16."),
        ("Ascend310", "height_stride", 63, "is 63; for 64 rows it must be 64 or a larger multiple of 2."),
        ("Ascend910B1", "width_stride", 60, "is 60; for rows of 96 bytes it must be 96 or more."),
    ],
)
def test_the_message_names_the_strides_that_fit(soc, field, value, words) -> None:
    dvpp = on(soc)
    source, target = dvpp.picture(NV12, 96, 64), dvpp.picture(NV12, 32, 32)
    config = dvpp.media.dvpp_create_resize_config()
    getattr(dvpp.media, f"dvpp_set_pic_desc_{field}")(source, value)
    assert dvpp.media.dvpp_vpc_resize_async(dvpp.channel, source, target, config, dvpp.stream) == 100000
    assert words in dvpp.m.record.faults[-1]["what"]


@pytest.mark.parametrize("area", [(10, 5, 0, 31), (0, 64, 0, 31), (0, 31, 40, 64)])
def test_areas_that_do_not_fit(dvpp, area) -> None:
    source, target = dvpp.picture(RGB, 64, 64), dvpp.picture(RGB, 32, 32)
    roi = dvpp.media.dvpp_create_roi_config(*area)
    assert dvpp.media.dvpp_vpc_crop_async(dvpp.channel, source, target, roi, dvpp.stream) == 100000


def test_dvpp_has_an_engine_of_its_own(dvpp, acl, m) -> None:
    source, target = dvpp.picture(NV12, 1920, 1080), dvpp.picture(NV12, 640, 640)
    config = dvpp.media.dvpp_create_resize_config()
    other = acl.rt.create_stream()[0]
    for stream in (dvpp.stream, other):
        assert dvpp.media.dvpp_vpc_resize_async(dvpp.channel, source, target, config, stream) == 0
    acl.rt.memset_async(acl.rt.malloc(64, 0)[0], 64, 0, 64, 0)
    assert acl.rt.synchronize_device() == 0
    rows = [row for row in m.record.tasks.rows() if m.record.strings[row["core_type"]] == "DVPP"]
    assert [m.record.strings[row["name"]] for row in rows] == ["VpcResize"] * 2
    first, second = sorted(rows, key=lambda row: row["start"])
    assert second["start"] >= first["end"]
    assert first["end"] - first["start"] == 30_000 + 1920 * 1080 * 400 // 1000
