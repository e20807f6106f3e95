"""DVPP by values: histograms, tables, pyramids; packed YUV; the limits of sizes by chip."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from test_dvpp import NV12, RGB, Dvpp, noise, on, smooth

from cannlab.machine import pictures

YUYV, UYVY, YVYU, VYUY, YUV444 = 7, 8, 9, 10, 11


@pytest.fixture
def dvpp(acl, m) -> Dvpp:
    return Dvpp(acl, m)


def host(dvpp: Dvpp, pointer: int, count: int, kind: int) -> np.ndarray:
    """An array on host memory that the library owns (kind is NumPy's number of the type)."""
    return dvpp.acl.util.ptr_to_numpy(pointer, (count,), kind)


@pytest.mark.parametrize(("kind", "order"), [(YUYV, "YUYV"), (UYVY, "UYVY"), (YVYU, "YVYU"), (VYUY, "VYUY")])
def test_packed_pixels_lie_in_the_order_of_their_name(dvpp, kind, order) -> None:
    whole = noise(12, 32)
    picture = dvpp.picture(kind, 32, 12, whole)
    stride = dvpp.field(picture, "width_stride")
    assert stride == 64
    raw = dvpp.get(dvpp.field(picture, "data"), stride * 12).reshape(12, 16, 4)
    pairs = whole.reshape(12, 16, 2, 3).astype(float)
    chroma = np.floor(pairs.mean(2) + 0.5)
    seen = 0
    for at, name in enumerate(order):
        if name == "Y":
            np.testing.assert_array_equal(raw[..., at], whole.reshape(12, 16, 2, 3)[:, :, seen, 0])
            seen += 1
        else:
            np.testing.assert_array_equal(raw[..., at], chroma[..., "YUV".index(name)])


@pytest.mark.parametrize("kind", [YUYV, VYUY, YUV444])
def test_packed_pictures_are_cropped_pasted_and_converted(dvpp, kind) -> None:
    source = dvpp.picture(kind, 64, 32, noise(32, 64))
    before = pictures.spread(dvpp.pixels(source), dvpp.layout(kind, 64, 32))
    target = dvpp.picture(kind, 32, 16)
    area, place = dvpp.media.dvpp_create_roi_config(10, 25, 3, 10), dvpp.media.dvpp_create_roi_config(16, 31, 8, 15)
    code = dvpp.media.dvpp_vpc_crop_and_paste_async(dvpp.channel, source, target, area, place, dvpp.stream)
    assert (code, dvpp.sync()) == (0, 0)
    made = pictures.spread(dvpp.pixels(target), dvpp.layout(kind, 32, 16))
    np.testing.assert_array_equal(made[8:16, 16:32], before[3:11, 10:26])
    assert not made[:8, :, 0].any()
    planar = dvpp.picture(NV12, 64, 32)
    assert dvpp.media.dvpp_vpc_convert_color_async(dvpp.channel, source, planar, dvpp.stream) == 0
    assert dvpp.sync() == 0
    np.testing.assert_array_equal(dvpp.pixels(planar)[0][..., 0], before[..., 0])


def test_packed_widths_are_even(dvpp) -> None:
    source, target = dvpp.picture(YUYV, 64, 32), dvpp.picture(YUYV, 32, 32)
    dvpp.media.dvpp_set_pic_desc_width(source, 63)
    area = dvpp.media.dvpp_create_roi_config(0, 31, 0, 31)
    assert dvpp.media.dvpp_vpc_crop_async(dvpp.channel, source, target, area, dvpp.stream) == 100000


def test_packed_pictures_become_jpegs_of_their_sampling(dvpp) -> None:
    yuv = np.asarray(Image.fromarray(smooth(64, 96)).convert("YCbCr"))
    source = dvpp.picture(YUYV, 96, 64, yuv)
    config = dvpp.media.dvpp_create_jpege_config()
    dvpp.media.dvpp_set_jpege_config_level(config, 95)
    room, _ = dvpp.media.dvpp_jpeg_predict_enc_size(source, config)
    number, out = np.array([room], np.uint32), dvpp.media.dvpp_malloc(room)[0]
    pointer = dvpp.acl.util.numpy_to_ptr(number)
    assert dvpp.media.dvpp_jpeg_encode_async(dvpp.channel, source, out, pointer, config, dvpp.stream) == 0
    assert dvpp.sync() == 0
    file = dvpp.get(out, int(number[0])).tobytes()
    assert dvpp.media.dvpp_jpeg_get_image_info_v2(dvpp.acl.util.bytes_to_ptr(file), len(file))[3] == 1
    back = np.asarray(Image.open(io.BytesIO(file)).convert("YCbCr")).astype(int)
    assert np.abs(back - yuv).max() < 16


# -- histograms and tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, NV12, 4, YUYV, YUV444, RGB, 13])
def test_a_histogram_counts_each_channel(dvpp, kind) -> None:
    source, entry = dvpp.picture(kind, 64, 48, noise(48, 64)), pictures.FORMATS[kind]
    found = dvpp.media.dvpp_create_hist()
    assert dvpp.media.dvpp_get_hist_dims(found) == 3
    assert dvpp.media.dvpp_vpc_calc_hist_async(dvpp.channel, source, found, 0, dvpp.stream) == 0
    pointer, count, ret = dvpp.media.dvpp_get_hist_data(found, 0)
    assert (count, ret) == (256, 0)
    assert not host(dvpp, pointer, 256, 6).any()
    assert dvpp.sync() == 0
    assert dvpp.media.dvpp_get_hist_ret_code(found) == 0
    planes = dvpp.pixels(source)
    raw = np.concatenate([plane.reshape(-1) for plane in planes])
    total = sum(host(dvpp, dvpp.media.dvpp_get_hist_data(found, at)[0], 256, 6).astype(int) for at in range(3))
    np.testing.assert_array_equal(total, np.bincount(raw, minlength=256))
    first = planes[0][..., entry.order.index("R") if entry.family == "rgb" else slice(None)]
    if kind not in (YUYV, YUV444):
        np.testing.assert_array_equal(host(dvpp, pointer, 256, 6), np.bincount(first.reshape(-1), minlength=256))
    assert dvpp.media.dvpp_clear_hist(found) == 0
    assert not host(dvpp, pointer, 256, 6).any()
    assert dvpp.media.dvpp_get_hist_data(found, 3) == (0, 0, 100000)
    assert dvpp.media.dvpp_vpc_calc_hist_async(dvpp.channel, source, found, 1, dvpp.stream) == 100000
    destroy = dvpp.media.dvpp_destroy_hist
    assert [destroy(found), destroy(found), destroy(0)] == [0, 100000, 100000]


@pytest.mark.parametrize("kind", [0, NV12, UYVY, 13])
def test_each_value_becomes_its_entry_of_the_table(dvpp, kind) -> None:
    source, target = dvpp.picture(kind, 64, 32, noise(32, 64)), dvpp.picture(kind, 64, 32)
    table = dvpp.media.dvpp_create_lut_map()
    assert dvpp.media.dvpp_get_lut_map_dims(table) == 3
    values = np.random.default_rng(1).integers(0, 256, (3, 256)).astype(np.uint8)
    for at in range(3):
        pointer, count, ret = dvpp.media.dvpp_get_lut_map_data(table, at)
        assert (count, ret) == (256, 0)
        host(dvpp, pointer, 256, 2)[:] = values[at]
    assert dvpp.media.dvpp_vpc_equalize_hist_async(dvpp.channel, source, target, table, dvpp.stream) == 0
    assert dvpp.sync() == 0
    layout = dvpp.layout(kind, 64, 32)
    before, after = (pictures.spread(dvpp.pixels(picture), layout) for picture in (source, target))
    for at in range(pictures.FORMATS[kind].channels):
        np.testing.assert_array_equal(after[..., at], values[at][before[..., at]])
    other = dvpp.picture(kind, 32, 32)
    assert dvpp.media.dvpp_vpc_equalize_hist_async(dvpp.channel, source, other, table, dvpp.stream) == 100000
    assert dvpp.media.dvpp_destroy_lut_map(table) == 0


def test_a_photograph_is_equalised_as_programs_do_it(dvpp) -> None:
    """Histogram, cumulative sum, table, mapping: afterwards the greys spread over the whole range."""
    dark = (smooth(64, 96) // 4).astype(np.uint8)
    source, target = dvpp.picture(0, 96, 64, dark), dvpp.picture(0, 96, 64)
    counts, table = dvpp.media.dvpp_create_hist(), dvpp.media.dvpp_create_lut_map()
    dvpp.media.dvpp_vpc_calc_hist_async(dvpp.channel, source, counts, 0, dvpp.stream)
    assert dvpp.sync() == 0
    total = np.cumsum(host(dvpp, dvpp.media.dvpp_get_hist_data(counts, 0)[0], 256, 6).astype(np.int64))
    host(dvpp, dvpp.media.dvpp_get_lut_map_data(table, 0)[0], 256, 2)[:] = total * 255 // total[-1]
    dvpp.media.dvpp_vpc_equalize_hist_async(dvpp.channel, source, target, table, dvpp.stream)
    assert dvpp.sync() == 0
    made = dvpp.pixels(target)[0]
    assert (dvpp.pixels(source)[0].max(), made.max()) == (dark[..., 0].max(), 255)
    assert made.mean() == pytest.approx(128, abs=8)


def test_a_pyramid_halves_with_a_binomial_filter(dvpp) -> None:
    source, target = dvpp.picture(0, 64, 48), dvpp.picture(0, 32, 24)
    point = np.zeros((48, 64, 3), np.uint8)
    point[20, 30] = 255
    source = dvpp.picture(0, 64, 48, point)
    assert dvpp.media.dvpp_vpc_pyr_down_async(dvpp.channel, source, target, 0, dvpp.stream) == 0
    assert dvpp.sync() == 0
    made = dvpp.pixels(target)[0][..., 0].astype(int)
    line = np.array([1, 6, 1]) / 16
    wanted = np.floor(np.outer(line, line) * 255 + 0.5)
    np.testing.assert_array_equal(made[9:12, 14:17], wanted)
    assert made.sum() == wanted.sum()
    flat = dvpp.picture(NV12, 64, 48, np.full((48, 64, 3), 77, np.uint8))
    half = dvpp.picture(NV12, 32, 24)
    assert dvpp.media.dvpp_vpc_pyr_down_async(dvpp.channel, flat, half, 0, dvpp.stream) == 0
    assert dvpp.sync() == 0
    assert all((plane == 77).all() for plane in dvpp.pixels(half))
    wrong, rgb = dvpp.picture(0, 31, 24), dvpp.picture(RGB, 64, 48)
    for by, to in ((source, wrong), (source, half), (rgb, dvpp.picture(RGB, 32, 24))):
        assert dvpp.media.dvpp_vpc_pyr_down_async(dvpp.channel, by, to, 0, dvpp.stream) == 100000


def test_memory_with_attributes(acl) -> None:
    pointer, ret = acl.media.dvpp_malloc_with_cfg(1000, 0, {})
    assert (pointer % 128, ret) == (0, 0)
    assert acl.media.dvpp_free(pointer) == 0
    with pytest.raises(TypeError):
        acl.media.dvpp_malloc_with_cfg(1000, 0, [])


# -- sizes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("soc", "kind", "code"),
    [("Ascend910A", NV12, 0), ("Ascend910A", 0, 100000), ("Ascend310P3", 0, 0), ("Ascend310P3", RGB, 100000)],
)
def test_8k_inputs_by_chip(soc, kind, code) -> None:
    found = on(soc)
    wide = found.picture(kind, 4112, 32)
    found.media.dvpp_set_pic_desc_size(wide, found.layout(kind, 4112, 32).size * 3 // 2)
    found.media.dvpp_set_pic_desc_data(wide, found.media.dvpp_malloc(4112 * 32 * 5)[0])
    target = found.picture(kind, 64, 32)
    found.media.dvpp_set_pic_desc_size(target, found.layout(kind, 64, 32).size * 3 // 2)
    config = found.media.dvpp_create_resize_config()
    assert found.media.dvpp_vpc_resize_async(found.channel, wide, target, config, found.stream) == code


def test_grey_pictures_of_the_first_chips_have_the_size_of_420() -> None:
    found = on("Ascend310")
    source, target = found.picture(0, 64, 32), found.picture(0, 32, 32)
    area = found.media.dvpp_create_roi_config(0, 31, 0, 31)
    crop = found.media.dvpp_vpc_crop_async
    assert crop(found.channel, source, target, area, found.stream) == 100000
    for desc, size in ((source, 64 * 32 * 3 // 2), (target, 32 * 32 * 3 // 2)):
        found.media.dvpp_set_pic_desc_size(desc, size)
    assert crop(found.channel, source, target, area, found.stream) == 0
