"""Sparse products, loads of images, repeats and transposes of loads as columns, watches: against plain loops."""

import numpy as np
import pytest
from asc_pieces import ordered, peek, replayed, rules, run_on_core, view
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc
from cannlab.machine import core

P, E = asc.TPosition, asc.HardEvent
SEED = st.integers(0, 1 << 30)


def cube(body, *arrays, **options):
    return replayed(run_on_core(body, *arrays, cores="AIC", **options), *arrays)


def up(value, unit):
    return -(-value // unit) * unit


# -- sparse -------------------------------------------------------------------------------------------


def thin(rng, k, n):
    """A matrix with at most two numbers in four rows, what is kept of it, and the index: a number for each kept row."""
    whole = np.zeros((k, n), np.int8)
    dense, index = np.zeros((k // 2, n), np.int8), np.zeros((k // 2, n), int)
    for j in range(n):
        for group in range(k // 4):
            places = sorted(rng.choice(4, rng.integers(0, 3), replace=False))
            for place in places:
                whole[4 * group + place, j] = rng.integers(1, 100) * rng.choice([-1, 1])
            found = whole[4 * group : 4 * group + 4, j]
            row = 2 * group
            if len(places) == 2:
                dense[row : row + 2, j] = found[places]
                index[row : row + 2, j] = places[0], places[1] - 1
            elif len(places) == 1 and places[0] == 3:
                dense[row + 1, j], index[row + 1, j] = found[3], 2
            elif len(places) == 1:
                dense[row, j], index[row, j] = found[places[0]], places[0]
    return whole, dense, index


def fractals_of(dense, index):
    """Both as they lie in L1: 16 columns x 32 kept rows, one column after another; the index four numbers to a byte."""
    rows, columns = up(dense.shape[0], 32), up(dense.shape[1], 16)
    b, packed = [], []
    for r in range(0, rows, 32):
        for c in range(0, columns, 16):
            for j in range(c, c + 16):
                for i in range(r, r + 32):
                    there = i < dense.shape[0] and j < dense.shape[1]
                    b.append(dense[i, j] if there else 0)
                for i in range(r, r + 32, 4):
                    byte = 0
                    for q in range(4):
                        if i + q < dense.shape[0] and j < dense.shape[1]:
                            byte |= int(index[i + q, j]) << (2 * q)
                    packed.append(byte)
    return np.array(b, np.int8), np.array(packed, np.uint8)


def left_fractals(x):
    m, k = x.shape
    out = []
    for r in range(0, up(m, 16), 16):
        for c in range(0, up(k, 32), 32):
            for i in range(r, r + 16):
                out += [x[i, j] if i < m and j < k else 0 for j in range(c, c + 32)]
    return np.array(out, np.int8)


def sparse_kernel(m, n, k, params, start=0, before=None):
    fractals = up(k // 2, 32) // 32 * (up(n, 16) // 16)

    def body(x, b, i, z, *more):
        a1 = asc.LocalTensor(asc.int8, P.A1, 0, up(m, 16) * up(k, 32))
        a2 = asc.LocalTensor(asc.int8, P.A2, 0, up(m, 16) * up(k, 32))
        b1 = asc.LocalTensor(asc.int8, P.B1, 128 * 1024, (start + fractals) * 512)
        b2 = asc.LocalTensor(asc.int8, P.B2, 1024, fractals * 512)
        index = asc.LocalTensor(asc.uint8, P.B1, 256 * 1024, (start + fractals) * 128)
        c = asc.LocalTensor(asc.int32, P.CO1, 0, up(m, 16) * up(n, 16))
        asc.data_copy(a1, view(x), count=up(m, 16) * up(k, 32))
        asc.data_copy(b1, view(b), count=(start + fractals) * 512)
        asc.data_copy(index, view(i), count=(start + fractals) * 128)
        ordered(E.MTE2_MTE1)
        asc.load_data(a2, a1, asc.LoadData2DParams(0, up(m, 16) * up(k, 32) // 512, 1, 0, 0, False, 0))
        asc.load_data_with_sparse(b2, b1, index, asc.LoadData2DParams(start, fractals, 0, 0, 0, False, 0))
        if before is not None:
            before(*more)
        ordered(E.MTE1_M)
        for each in params:
            asc.mmad_with_sparse(c, a2, b2, each)
        ordered(E.M_FIX)
        asc.fixpipe(view(z), c, asc.FixpipeParamsV220(n, m, up(m, 16), n))

    return body


def params(m, n, k, fresh=True, table=False):
    return asc.MmadParams(m, n, k, unit_flag=0, cmatrix_source=table, cmatrix_init_val=fresh)


@given(
    seed=SEED,
    m=st.integers(1, 20),
    n=st.integers(1, 20),
    groups=st.integers(1, 35),
    again=st.booleans(),
    start=st.integers(0, 2),
)
@settings(max_examples=12, deadline=None)
def test_a_sparse_product_is_that_of_the_whole_matrix(seed, m, n, groups, again, start):
    rng = np.random.default_rng(seed)
    k = 4 * groups
    x = rng.integers(-128, 128, (m, k)).astype(np.int8)
    whole, dense, index = thin(rng, k, n)
    b, packed = fractals_of(dense, index)
    b, packed = (
        np.concatenate([np.full(start * 512, 9, np.int8), b]),
        np.concatenate([np.full(start * 128, 255, np.uint8), packed]),
    )
    calls = [params(m, n, k)] + ([params(m, n, k, fresh=False)] if again else [])
    got = cube(sparse_kernel(m, n, k, calls, start), left_fractals(x), b, packed, np.zeros((m, n), np.int32))
    assert rules(got) == []
    wanted = x.astype(np.int64) @ whole.astype(np.int64) * (2 if again else 1)
    np.testing.assert_array_equal(got.outputs[3].view(np.int32).reshape(m, n), wanted)


def test_a_sparse_product_starts_from_the_bias_table():
    rng = np.random.default_rng(5)
    m, n, k = 16, 16, 64
    x = rng.integers(-9, 9, (m, k)).astype(np.int8)
    whole, dense, index = thin(rng, k, n)
    bias = rng.integers(-1000, 1000, 16).astype(np.int32)

    def table(given):
        c1, c2 = asc.LocalTensor(asc.int32, P.C1, 400 * 1024, 16), asc.LocalTensor(asc.int32, P.C2, 0, 16)
        asc.data_copy(c1, view(given), count=16)
        ordered(E.MTE2_MTE1, 1)
        asc.data_copy(c2, c1, count=16)

    body = sparse_kernel(m, n, k, [params(m, n, k, fresh=False, table=True)], before=table)
    got = cube(body, left_fractals(x), *fractals_of(dense, index), np.zeros((m, n), np.int32), bias)
    assert rules(got) == []
    np.testing.assert_array_equal(got.outputs[3].view(np.int32).reshape(m, n), x.astype(int) @ whole.astype(int) + bias)


@pytest.mark.parametrize(
    ("pair", "places"),
    [((0, 0), (0, 1)), ((0, 1), (0, 2)), ((0, 2), (0, 3)), ((1, 1), (1, 2)), ((1, 2), (1, 3)), ((2, 2), (2, 3))]
    + [((1, 0), (1, 1)), ((2, 0), (2, 2))],
)
def test_every_pair_of_the_table_takes_its_places(pair, places):
    from cannlab.machine.core import cube as unit

    dense = np.array([[3], [5]], np.int8)
    whole = unit._whole(dense, np.array([[pair[0]], [pair[1]]]), 4)
    wanted = np.zeros(4)
    wanted[places[0]] += 3
    wanted[places[1]] += 5
    np.testing.assert_array_equal(whole[:, 0], wanted)


def test_the_index_is_read_where_the_matrix_lies():
    """A plain load brings a matrix, but no index: the product reads one that nobody wrote."""

    def body(x):
        b1 = asc.LocalTensor(asc.int8, P.B1, 0, 512)
        a2, b2 = asc.LocalTensor(asc.int8, P.A2, 0, 1024), asc.LocalTensor(asc.int8, P.B2, 0, 512)
        c = asc.LocalTensor(asc.int32, P.CO1, 0, 256)
        asc.data_copy(b1, view(x), count=512)
        ordered(E.MTE2_MTE1)
        asc.load_data(b2, b1, asc.LoadData2DParams(0, 1, 1, 0, 0, False, 0))
        asc.load_data(a2, b1, asc.LoadData2DParams(0, 1, 0, 0, 0, False, 0))
        asc.load_data(a2[512:], b1, asc.LoadData2DParams(0, 1, 0, 0, 0, False, 0))
        ordered(E.MTE1_M)
        asc.mmad_with_sparse(c, a2, b2, params(16, 16, 64))

    assert rules(cube(body, np.ones(512, np.int8))) == ["undefined"]


def test_sparse_products_take_half_the_time():
    from cannlab.machine.core import cost
    from cannlab.machine.core.dtypes import CODES, pack

    names = ("int32", "int8", "int8")
    dense = pack(*[CODES[name] for name in names])
    sparse = pack(*[CODES[name] for name in (*names, "uint8")])
    full = cost.cube_cycles(dense, (128, 256, 64)) - cost.MMAD_HEAD
    assert cost.cube_cycles(sparse, (128, 256, 64)) - cost.MMAD_HEAD == full // 2


def test_sparse_operations_are_not_everywhere_and_take_int8_only():
    def body(x):
        b1, b2 = asc.LocalTensor(asc.int8, P.B1, 0, 512), asc.LocalTensor(asc.int8, P.B2, 0, 512)
        index = asc.LocalTensor(asc.uint8, P.B1, 1024, 128)
        asc.load_data_with_sparse(b2, b1, index, asc.LoadData2DParams(0, 1))

    with pytest.raises(core.KernelFault) as fault:
        run_on_core(body, np.zeros(8, np.int8), soc="Ascend310P3")
    assert fault.value.diagnosis.rule == "kernel.not_on_chip"
    assert "load_data_with_sparse" in fault.value.diagnosis.text()

    def product(x):
        a2, b2 = asc.LocalTensor(asc.int8, P.A2, 0, 1024), asc.LocalTensor(asc.int8, P.B2, 0, 512)
        asc.mmad_with_sparse(asc.LocalTensor(asc.int32, P.CO1, 0, 256), a2, b2, params(16, 16, 64))

    with pytest.raises(core.KernelFault) as fault:
        run_on_core(product, np.zeros(8, np.int8), soc="Ascend910A")
    assert fault.value.diagnosis.rule == "kernel.not_on_chip"

    def halves(x):
        b1, b2 = asc.LocalTensor(asc.float16, P.B1, 0, 256), asc.LocalTensor(asc.float16, P.B2, 0, 256)
        index = asc.LocalTensor(asc.uint8, P.B1, 1024, 128)
        asc.load_data_with_sparse(b2, b1, index, asc.LoadData2DParams(0, 1))

    with pytest.raises(core.KernelFault) as fault:
        run_on_core(halves, np.zeros(8, np.int8), cores="AIC")
    assert fault.value.diagnosis.rule == "kernel.dtype"


def test_parameters_that_reach_nobody_are_told_for_the_sparse_product_too():
    got = run_on_core(
        sparse_kernel(16, 16, 64, [asc.MmadParams(16, 16, 64)]),
        *(np.zeros(1024, np.int8), np.zeros(512, np.int8), np.zeros(128, np.uint8), np.zeros((16, 16), np.int32)),
        cores="AIC",
    )
    assert rules(got)[0] == "mmad_empty"


# -- images -------------------------------------------------------------------------------------------

FORMATS = {"RGB888_U8": 3, "XRGB8888_U8": 4, "YUV400_U8": 1}


def image_kernel(kind, dtype, size, start, width, pads, got, planes=1):
    columns, rows = size
    count = rows * (columns + sum(pads)) * 32 // dtype.sizeof()

    def body(*sources):
        a1 = asc.LocalTensor(dtype, P.A1, 64, count)
        formats = getattr(asc.AippInputFormat, kind)
        asc.set_aipp_functions(*(view(each) for each in sources[:planes]), formats, asc.AippParams(dtype))
        asc.load_image_to_local(a1, asc.LoadImageToLocalParams(columns, rows, *start, width, 0, 0, *pads))
        got.append(peek(a1, count))

    return body


@given(
    seed=SEED,
    kind=st.sampled_from(sorted(FORMATS)),
    half=st.booleans(),
    size=st.tuples(st.integers(2, 9), st.integers(2, 7)),
    start=st.tuples(st.integers(0, 2).map(lambda n: 2 * n), st.integers(0, 3)),
    extra=st.integers(0, 3),
    pads=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
@settings(max_examples=15, deadline=None)
def test_a_part_of_an_image(seed, kind, half, size, start, extra, pads):
    dtype, channels = (asc.float16 if half else asc.int8), FORMATS[kind]
    columns, rows = size
    width, height = start[0] + columns + extra, start[1] + rows
    image = np.random.default_rng(seed).integers(0, 256, (height, width, channels)).astype(np.uint8)
    got = []
    assert rules(cube(image_kernel(kind, dtype, size, start, width, pads, got), image)) == []
    c0 = 32 // dtype.sizeof()
    made = got[0].reshape(rows, sum(pads) + columns, c0)
    for y in range(rows):
        for x in range(sum(pads) + columns):
            inside = 0 <= x - pads[0] < columns
            for c in range(c0):
                value = 0
                if inside and c < min(channels, 3):
                    value = int(image[start[1] + y, start[0] + x - pads[0], c])
                assert made[y, x, c] == (value if half else min(value, 127))


def test_an_image_of_two_planes():
    rng = np.random.default_rng(2)
    width, height = 8, 6
    luma = rng.integers(0, 256, (height, width)).astype(np.uint8)
    chroma = rng.integers(0, 256, (height // 2, width // 2, 2)).astype(np.uint8)
    got = []
    body = image_kernel("YUV420SP_U8", asc.float16, (5, 3), (2, 2), width, (0, 0), got, planes=2)
    assert rules(cube(body, luma, chroma)) == []
    made = got[0].reshape(3, 5, 16)
    for y in range(3):
        for x in range(5):
            wanted = [luma[2 + y, 2 + x], *chroma[(2 + y) // 2, (2 + x) // 2]]
            assert made[y, x, :3].tolist() == wanted
            assert not made[y, x, 3:].any()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"size": (1, 4)}, "sizes are 2 to 4095"),
        ({"start": (1, 0)}, "even"),
        ({"start": (6, 0)}, "inside the rows"),
        ({"pads": (33, 0)}, "0 to 32"),
        ({"dtype": asc.float16, "config": asc.int8}, "AippParams are for int8"),
        ({"none": True}, "set_aipp_functions was not called"),
        ({"top": 1}, "left and on the right only"),
    ],
)
def test_images_that_cannot_be_loaded(change, part):
    def body(x):
        dtype = change.get("dtype", asc.int8)
        a1 = asc.LocalTensor(dtype, P.A1, 0, 8192)
        if "none" not in change:
            config = asc.AippParams(change.get("config", dtype))
            asc.set_aipp_functions(view(x), asc.AippInputFormat.RGB888_U8, config)
        columns, rows = change.get("size", (4, 4))
        start, pads = change.get("start", (0, 0)), change.get("pads", (0, 0))
        asc.load_image_to_local(
            a1, asc.LoadImageToLocalParams(columns, rows, *start, 8, change.get("top", 0), 0, *pads)
        )

    with pytest.raises(core.KernelFault) as fault:
        run_on_core(body, np.zeros(8 * 8 * 3, np.uint8), cores="AIC")
    assert fault.value.diagnosis.rule == "kernel.image"
    assert part in fault.value.diagnosis.text()


def test_settings_that_the_front_end_loses_are_told():
    def body(x):
        a1 = asc.LocalTensor(asc.int8, P.A1, 0, 1024)
        config = asc.AippParams(asc.int8, swap_params=asc.AippSwapParams(is_swap_rb=True))
        asc.set_aipp_functions(view(x), asc.AippInputFormat.RGB888_U8, config)
        asc.load_image_to_local(a1, asc.LoadImageToLocalParams(2, 2, 0, 0, 2))

    got = run_on_core(body, np.zeros(12, np.uint8), cores="AIC")
    assert rules(got) == ["aipp_empty"]
    assert "is_swap_rb" in got.diagnoses[0].text()
    with pytest.raises(TypeError, match=r"int8 or asc\.float16"):
        run_on_core(lambda x: asc.AippParams(asc.uint8), np.zeros(8, np.uint8), cores="AIC")


# -- loads of images as columns -----------------------------------------------------------------------


def columns_of(image, kernel):
    """Rows: places of the window; columns: (c1, y, x, c0)."""
    _, height, width, _ = image.shape
    rows = []
    for y in range(height - kernel + 1):
        for x in range(width - kernel + 1):
            window = image[:, y : y + kernel, x : x + kernel]
            rows.append(window.reshape(-1))
    return np.array(rows)


def zz(matrix, c0):
    """A matrix as L0A holds it, filled up with NaN."""
    rows, columns = matrix.shape
    out = np.full((up(rows, 16) // 16, up(columns, c0) // c0, 16, c0), np.nan)
    for i in range(rows):
        for j in range(columns):
            out[i // 16, j // c0, i % 16, j % c0] = matrix[i, j]
    return out


def load_columns(image, params, count, dtype, got, *, before=None, after=None):
    def body(x):
        a1 = asc.LocalTensor(dtype, P.A1, 0, image.size)
        a2 = asc.LocalTensor(dtype, P.A2, 0, count)
        asc.data_copy(a1, view(x), count=image.size)
        ordered(E.MTE2_MTE1)
        if before is not None:
            before()
        asc.load_data(a2, a1, params)
        if after is not None:
            after(a2, a1)
        got.append(peek(a2, count))

    return body


@pytest.mark.parametrize("pick", ["float16", "float32"])
def test_columns_are_transposed_on_their_way_to_the_left_side(pick):
    c0 = 32 // np.dtype(pick).itemsize
    image = np.random.default_rng(1).integers(-99, 99, (2, 6, 6, c0)).astype(pick)
    matrix = columns_of(image, 2)[:16]
    k = matrix.shape[1]
    got = []
    asked = asc.LoadData3DParamsV2((0, 0, 0, 0), 6, 6, 2 * c0, k, 16, 0, 0, 1, 1, 2, 2, 1, 1, True, 0)
    body = load_columns(image, asked, 16 * up(k, 16), asc.DataType(pick), got)
    assert rules(cube(body, image)) == []
    np.testing.assert_array_equal(got[0], zz(matrix.T, c0).reshape(-1))


def test_8_bit_columns_cannot_be_transposed():
    image = np.zeros((1, 4, 4, 32), np.int8)
    asked = asc.LoadData3DParamsV2((0, 0, 0, 0), 4, 4, 32, 32, 16, en_transpose=True)
    with pytest.raises(core.KernelFault) as fault:
        run_on_core(load_columns(image, asked, 1024, asc.int8, []), image, cores="AIC")
    assert fault.value.diagnosis.rule == "kernel.dtype"


def test_channels_have_8_bits_in_the_front_end():
    assert asc.LoadData3DParamsV2(channel_size=255).channel_size == 255
    with pytest.raises(TypeError, match="channel_size=256 of LoadData3DParamsV2 does not fit uint8"):
        asc.LoadData3DParamsV2([0, 0, 0, 0], 1, 64, 256)


@pytest.mark.parametrize("mode", [0, 1])
def test_repeats_go_on_along_rows_or_columns(mode):
    image = np.arange(4 * 8 * 8 * 16).reshape(4, 8, 8, 16).astype(np.float16) % 97
    matrix = columns_of(image, 1)
    assert matrix.shape == (64, 64)
    got = []
    # repeat_time arrives as the stride, repeat_stride as the number of repeats.
    told = asc.LoadDataRepeatParam(repeat_time=1, repeat_stride=3, repeat_mode=mode)
    asked = asc.LoadData3DParamsV2((0, 0, 0, 0), 8, 8, 64, 16, 16, 0, 0)
    body = load_columns(image, asked, 3 * 256, asc.float16, got, before=lambda: asc.set_load_data_repeat(told))
    result = cube(body, image)
    assert rules(result) == []
    assert [each.rule for each in result.warnings] == ["kernel.load_repeat_order"]
    parts = [matrix[16 * i : 16 * i + 16, :16] if mode == 0 else matrix[:16, 16 * i : 16 * i + 16] for i in range(3)]
    np.testing.assert_array_equal(got[0], np.concatenate([zz(part, 16).reshape(-1) for part in parts]))


def test_the_default_repeat_parameters_let_loads_do_nothing():
    image = np.ones((1, 4, 4, 16), np.float16)
    got = []
    asked = asc.LoadData3DParamsV2((0, 0, 0, 0), 4, 4, 16, 16, 16)
    body = load_columns(
        image, asked, 256, asc.float16, got, before=lambda: asc.set_load_data_repeat(asc.LoadDataRepeatParam())
    )
    result = run_on_core(body, image, cores="AIC")
    assert np.isnan(got[0]).all()
    assert "0 repeats" in result.warnings[0].text()


def test_the_packed_form_works_with_what_the_last_load_left():
    image = np.random.default_rng(4).integers(1, 99, (1, 4, 4, 16)).astype(np.float16)
    got = []
    plain = asc.LoadData3DParamsV2((1, 1, 1, 1), 4, 4, 16, 16, 16, 0, 0, 1, 1, 3, 3, 1, 1, False, 100)
    packed = asc.LoadData3DParamsV2Pro(
        channel_size=16, ext_config=16 << 16 | 16, filter_config=1 << 40 | 1 << 32 | 3 << 24 | 3 << 16 | 1 << 8 | 1
    )

    def again(a2, a1):
        got.append(peek(a2, 256))
        asc.load_data(a2, a1, packed)
        got.append(peek(a2, 256))
        asc.set_load_data_padding_value(101)
        asc.load_data(a2, a1, packed)

    assert rules(cube(load_columns(image, plain, 256, asc.float16, got, after=again), image)) == []
    first, same, other = got[:3]
    np.testing.assert_array_equal(first, same)
    np.testing.assert_array_equal(other, np.where(first == 100, 101, first))
    assert (first == 100).sum() >= 16

    def alone(x):
        a1, a2 = asc.LocalTensor(asc.float16, P.A1, 0, 256), asc.LocalTensor(asc.float16, P.A2, 0, 256)
        asc.load_data(a2, a1, packed)

    with pytest.raises(NotImplementedError, match="LoadData3DParamsV2 first"):
        run_on_core(alone, image, cores="AIC")


# -- what is left of the small ones -------------------------------------------------------------------


def watched(kinds, enable=True, block=0):
    def body(x):
        a, b = (asc.LocalTensor(asc.float32, P.VECIN, start, 64) for start in (0, 256))
        flags = {f"is_{kind}": True for kind in kinds}
        asc.data_copy(a, view(x), count=64)
        ordered(E.MTE2_V)
        asc.check_local_memory_ia(asc.CheckLocalMemoryIAParam(block, 7, 15, is_enable=True, **flags))
        if not enable:
            asc.check_local_memory_ia(asc.CheckLocalMemoryIAParam(block, 7, 15, **flags))
        asc.adds(b, a, 1.0, count=64)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(view(x), b, count=64)

    return body


@pytest.mark.parametrize(
    ("kinds", "how"),
    [(["vector_write"], "writes (vector)"), (["mte_read"], "reads (MTE)"), (["vector_read", "mte_write"], "")],
)
def test_a_watch_stops_the_access_that_it_looks_for(kinds, how):
    x = np.ones(64, np.float32)
    if not how:
        assert rules(run_on_core(watched(kinds), x)) == []
        return
    with pytest.raises(core.KernelFault) as fault:
        run_on_core(watched(kinds), x)
    assert fault.value.diagnosis.rule == "kernel.watched"
    assert how in fault.value.diagnosis.text()
    assert "256 to 512" in fault.value.diagnosis.text()


def test_a_watch_ends_and_belongs_to_one_block():
    x = np.ones(64, np.float32)
    assert rules(run_on_core(watched(["vector_write"], enable=False), x)) == []

    def second(address):
        if asc.get_block_idx() == 0:
            asc.check_local_memory_ia(asc.CheckLocalMemoryIAParam(0, 0, 99, is_vector_write=True, is_enable=True))
        else:
            asc.duplicate(asc.LocalTensor(asc.float32, P.VECIN, 256, 64), 1.0, count=64)

    assert rules(run_on_core(second, x, blocks=2)) == []
    with pytest.raises(ValueError, match="registers 0 to 3"):
        run_on_core(watched(["vector_write"], block=4), x)


def test_the_program_counter_follows_the_program():
    seen = []

    def body(x):
        for _ in range(2):
            seen.append(int(asc.get_program_counter().value))
            seen.append(int(asc.get_program_counter().value))

    run_on_core(lambda x: body(x), np.zeros(8, np.float32))
    assert seen[0] < seen[1]
    assert seen[:2] == seen[2:4]


def test_pop_stack_buffer_gives_what_is_left_of_the_ub():
    from cannlab.ascendc.language.basic.common import pop_stack_buffer
    from cannlab.soc import soc as chips

    found = []

    def body(x):
        pipe = asc.TPipe()
        pipe.init_buffer(asc.TQue(P.VECIN, 1), 2, 1000)
        rest = pop_stack_buffer(asc.float32)
        found.append((rest.offset, rest.size))
        asc.duplicate(rest, 1.0, count=64)

    assert rules(run_on_core(body, np.zeros(8, np.float32))) == []
    assert found[0] == (2048, (chips.get("Ascend910B1").ub_usable_bytes - 2048) // 4)


# -- as programs launch them --------------------------------------------------------------------------


def test_kernels_of_all_these():
    import sparse_kernels as kernels

    from cannlab.machine import machine

    rng = np.random.default_rng(8)
    x = rng.integers(-99, 99, (16, 64)).astype(np.int8)
    whole, dense, index = thin(rng, 64, 16)
    z = np.zeros((16, 16), np.int32)
    kernels.sparse_product[1](left_fractals(x), *fractals_of(dense, index), z)
    np.testing.assert_array_equal(z, x.astype(int) @ whole.astype(int))
    kernels.two_images[1](np.zeros(8 * 8 * 3, np.uint8), np.zeros(64, np.uint8))
    kernels.columns[1](np.zeros(256, np.float16), 1.5)
    place = np.zeros(8, np.int64)
    kernels.places[1](place)
    assert place[0] > 0
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernels.in_place[1](a, b)
    np.testing.assert_array_equal(b, a + 1)
    assert not machine().record.faults


def test_a_queue_bind_is_refused_before_the_kernel_runs():
    import sparse_kernels as kernels

    from cannlab.ascendc.codegen.errors import CodegenError

    with pytest.raises(CodegenError, match="No viable candidates were found to dispatch"):
        kernels.bound_queue[1](np.zeros(8, np.float32))


def test_a_watch_sees_every_turn_of_a_loop():
    import sparse_kernels as kernels

    from cannlab.ascendc.runtime.launcher import KernelError

    with pytest.raises(KernelError) as caught:
        kernels.walking[1](np.zeros(64, np.float32))
    assert caught.value.diagnosis.rule == "kernel.watched"
    assert "2048" in caught.value.diagnosis.text()
