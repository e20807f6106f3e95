"""The cube: fractals, loads, mmad, fixpipe, each against its definition in plain loops, and replayed."""

import numpy as np
import pytest
from asc_pieces import ordered, peek, replayed, rules, run_on_core, view
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc
from cannlab.machine import core
from cannlab.soc import soc as chips

P, E = asc.TPosition, asc.HardEvent
SEED = st.integers(0, 1 << 30)
C0 = {"int8": 32, "uint8": 32, "float16": 16, "int16": 16, "float32": 8, "int32": 8}
TYPES = st.sampled_from(["int8", "float16", "float32"])


def values(seed, dtype, shape):
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def cube(body, *arrays, **options):
    return replayed(run_on_core(body, *arrays, cores="AIC", **options), *arrays)


def up(value, unit):
    return -(-value // unit) * unit


def to_l1(tensor, address, count):
    asc.data_copy(tensor, view(address), count=count)
    ordered(E.MTE2_MTE1)


# -- into L1 ------------------------------------------------------------------------------------------


@given(
    seed=SEED,
    pick=TYPES,
    rows=st.integers(1, 40),
    columns=st.integers(1, 70),
    extra=st.integers(0, 9),
    count=st.integers(1, 3),
    spread=st.integers(1, 2),
)
@settings(max_examples=20, deadline=None)
def test_nd2nz(seed, pick, rows, columns, extra, count, spread):
    c0, dtype = C0[pick], asc.DataType(pick)
    wide, tall = columns + extra, up(rows * spread, 16)
    source = values(seed, pick, (count, rows, wide))
    each = up(columns, c0) * tall
    got = []

    def body(x):
        a1 = asc.LocalTensor(dtype, P.A1, 0, count * each)
        params = asc.Nd2NzParams(count, rows, columns, rows * wide, wide, tall, spread, each)
        asc.data_copy(a1, view(x), intri_params=params)
        got.append(peek(a1, count * each))

    assert rules(cube(body, source)) == []
    for d in range(count):
        for i in range(rows):
            for j in range(up(columns, c0)):
                at = d * each + (j // c0) * tall * c0 + i * spread * c0 + j % c0
                assert got[0][at] == (source[d, i, j] if j < columns else 0)


@given(
    seed=SEED,
    pick=TYPES,
    repeat=st.integers(1, 5),
    start=st.integers(0, 3),
    step=st.integers(0, 3),
    gap=st.integers(0, 2),
)
@settings(max_examples=20, deadline=None)
def test_load_2d(seed, pick, repeat, start, step, gap):
    dtype, per = asc.DataType(pick), 512 // np.dtype(pick).itemsize
    for backwards in (0, 1) if start >= (repeat - 1) * step else (0,):
        count = start + (repeat - 1) * step + 1
        source = values(seed, pick, count * per)
        got = []

        def body(x):
            a1 = asc.LocalTensor(dtype, P.A1, 0, count * per)  # noqa: B023
            b2 = asc.LocalTensor(dtype, P.B2, 512, repeat * (gap + 1) * per)
            to_l1(a1, x, count * per)  # noqa: B023
            asc.load_data(b2, a1, asc.LoadData2DParams(start, repeat, step, 0, gap, False, backwards))  # noqa: B023
            got.append(peek(b2, repeat * (gap + 1) * per))  # noqa: B023

        assert rules(cube(body, source)) == []
        for r in range(repeat):
            at = start + (-r if backwards else r) * step
            to = r * (gap + 1) * per
            np.testing.assert_array_equal(got[0][to : to + per], source[at * per : (at + 1) * per])


def test_load_2d_transposes_16_bit_fractals():
    source = np.arange(3 * 256, dtype=np.float16)
    got = []

    def body(x):
        a1 = asc.LocalTensor(asc.float16, P.B1, 0, 768)
        b2 = asc.LocalTensor(asc.float16, P.B2, 0, 768)
        to_l1(a1, x, 768)
        asc.load_data(b2, a1, asc.LoadData2DParams(0, 3, 1, 0, 0, True, 0))
        got.append(peek(b2, 768))

    cube(body, source)
    np.testing.assert_array_equal(got[0].reshape(3, 16, 16), source.reshape(3, 16, 16).transpose(0, 2, 1))


def test_load_2d_from_global_memory():
    source = np.arange(512, dtype=np.float32)
    got = []

    def body(x):
        a2 = asc.LocalTensor(asc.float32, P.A2, 0, 512)
        asc.load_data(a2, view(x), asc.LoadData2DParams(1, 2, 1, 0, 0, False, 0))
        got.append(peek(a2, 256))

    result = run_on_core(body, np.concatenate([source, source]), cores="AIC")
    replayed(result, np.concatenate([source, source]))
    np.testing.assert_array_equal(got[0], source[128:384])


@pytest.mark.parametrize("pick", ["int8", "float16", "float32"])
def test_load_with_transpose(pick):
    dtype, c0 = asc.DataType(pick), C0[pick]
    edge = 32 if pick == "int8" else 16
    parts = edge * edge * np.dtype(pick).itemsize // 512
    blocks, gap, inner = 3, 2 * parts - 1, 1
    source = values(7, pick, (blocks, edge * edge))
    got = []
    room = (blocks * (gap + 1) + parts * 2) * 16 * c0

    def body(x):
        a1 = asc.LocalTensor(dtype, P.A1, 0, source.size)
        a2 = asc.LocalTensor(dtype, P.A2, 0, room)
        to_l1(a1, x, source.size)
        asc.load_data_with_transpose(a2, a1, asc.LoadData2dTransposeParams(0, blocks, 1, gap, inner, 0))
        got.append(peek(a2, room))

    assert rules(cube(body, source)) == []
    for r in range(blocks):
        square = np.zeros((edge, edge), pick)
        for f in range(parts):
            for i in range(16):
                for j in range(c0):
                    row, column = (i, f * c0 + j) if pick == "float32" else (f * 16 + i, j)
                    square[row, column] = source[r, (f * 16 + i) * c0 + j]
        for f in range(parts):
            to = (r * (gap + 1) + f * (inner + 1)) * 16 * c0
            for i in range(16):
                for j in range(c0):
                    row, column = (i, f * c0 + j) if pick == "float32" else (f * 16 + i, j)
                    assert got[0][to + i * c0 + j] == square.T[row, column]


@given(
    seed=SEED,
    pick=TYPES,
    height=st.integers(2, 6),
    width=st.integers(2, 6),
    channels=st.integers(1, 2),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    right=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_image_to_columns(seed, pick, height, width, channels, kernel, stride, dilation, pads, right):
    dtype, c0 = asc.DataType(pick), C0[pick]
    right = right and pick != "int8"
    (fh, fw), (sh, sw), (dh, dw) = kernel, stride, dilation
    left, beyond, top, bottom = pads
    ho = (height + top + bottom - ((fh - 1) * dh + 1)) // sh + 1
    wo = (width + left + beyond - ((fw - 1) * dw + 1)) // sw + 1
    if ho < 1 or wo < 1:
        return
    source = values(seed, pick, (channels, height, width, c0))
    m, k = ho * wo, channels * fh * fw * c0
    first_m = 16 * ((m - 1) // 16)
    rows = m - first_m
    columns = np.full((up(rows, 16), k), 5, pick)
    for at in range(rows):
        y0, x0 = divmod(at + first_m, wo)
        for c1 in range(channels):
            for y in range(fh):
                for x in range(fw):
                    iy, ix = y0 * sh - top + y * dh, x0 * sw - left + x * dw
                    if 0 <= iy < height and 0 <= ix < width:
                        place = ((c1 * fh + y) * fw + x) * c0
                        columns[at, place : place + c0] = source[c1, iy, ix]
    got = []

    def body(x):
        a1 = asc.LocalTensor(dtype, P.A1, 0, source.size)
        to = asc.LocalTensor(dtype, P.B2 if right else P.A2, 0, up(rows, 16) * up(k, 16))
        to_l1(a1, x, source.size)
        params = asc.LoadData3DParamsV2(
            (left, beyond, top, bottom),
            height,
            width,
            channels * c0,
            k,
            rows,
            0,
            first_m,
            sw,
            sh,
            fw,
            fh,
            dw,
            dh,
            right,
            5,
        )
        asc.load_data(to, a1, params)
        got.append(peek(to, up(rows, 16) * up(k, 16)))

    assert rules(cube(body, source)) == []
    for at in range(rows):
        for j in range(k):
            if right:
                place = ((at // c0) * (up(k, 16) // 16) + j // 16) * 16 * c0 + (j % 16) * c0 + at % c0
            else:
                place = ((at // 16) * (k // c0) + j // c0) * 16 * c0 + (at % 16) * c0 + j % c0
            assert got[0][place] == columns[at, j]


def test_init_const_value():
    got = []

    def body(x):
        l1 = asc.LocalTensor(asc.float16, P.A1, 0, 256)
        a2 = asc.LocalTensor(asc.float16, P.A2, 0, 1024)
        asc.init_const_value(l1, asc.InitConstValueParams(2, 3, 1, 1.5))
        asc.init_const_value(a2, asc.InitConstValueParams(1, 2, 0, -2))
        got.extend([peek(l1, 256), peek(a2, 1024)])

    assert rules(cube(body, np.zeros(8, "f4"))) == []
    wanted = np.zeros(8 * 16, bool)
    wanted[0:48] = wanted[64:112] = True
    np.testing.assert_array_equal(got[0][:128] == 1.5, wanted)
    assert (got[1][:512] == -2).all()
    assert np.isnan(got[1][512:]).all()


# -- mmad ---------------------------------------------------------------------------------------------


def put_left(x, m, k, dtype, address=0):
    """A row-major (m, k) matrix of global memory to L0A."""
    c0, m16 = C0[dtype.name], up(m, 16)
    kc = up(k, c0)
    a1 = asc.LocalTensor(dtype, P.A1, 0, m16 * kc)
    a2 = asc.LocalTensor(dtype, P.A2, address, m16 * kc)
    asc.data_copy(a1, view(x), intri_params=asc.Nd2NzParams(1, m, k, 0, k, m16, 1, 0))
    ordered(E.MTE2_MTE1)
    for row in range(m16 // 16):
        params = asc.LoadData2DParams(row, kc // c0, m16 // 16, 0, 0, False, 0)
        asc.load_data(a2[row * kc * 16 :], a1, params)
    return a2


def put_right(yt, n, k, dtype, address=0):
    """A row-major (n, k) matrix, the transpose of B, to L0B: NZ of it is ZN of B, column block by column block."""
    c0, n16 = C0[dtype.name], up(n, 16)
    kc = up(k, c0)
    b1 = asc.LocalTensor(dtype, P.B1, 256 * 1024, n16 * kc)
    b2 = asc.LocalTensor(dtype, P.B2, address, n16 * kc)
    asc.data_copy(b1, view(yt), intri_params=asc.Nd2NzParams(1, n, k, 0, k, n16, 1, 0))
    ordered(E.MTE2_MTE1)
    asc.load_data(b2, b1, asc.LoadData2DParams(0, n16 * kc * dtype.sizeof() // 512, 1, 0, 0, False, 0))
    return b2


def fresh(m, n, k):
    return asc.MmadParams(m, n, k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True)


def more(m, n, k):
    return asc.MmadParams(m, n, k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=False)


RESULT = {"int8": "int32", "float16": "float32", "float32": "float32"}


@given(seed=SEED, pick=TYPES, m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(1, 70), again=st.booleans())
@settings(max_examples=25, deadline=None)
def test_mmad(seed, pick, m, n, k, again):
    dtype, result = asc.DataType(pick), asc.DataType(RESULT[pick])
    x, yt = values(seed, pick, (m, k)), values(seed + 1, pick, (n, k))
    z = np.zeros((m, n), RESULT[pick])

    def body(xa, ya, za):
        a2, b2 = put_left(xa, m, k, dtype), put_right(ya, n, k, dtype)
        if m == 1:
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
            a2 = asc.LocalTensor(dtype, P.A2, 32 * 1024, up(k, 512))
            line = asc.LocalTensor(dtype, P.A1, 128 * 1024, up(k, 512))
            asc.init_const_value(
                line.reinterpret_cast(asc.int16), asc.InitConstValueParams(1, up(k, 512) * dtype.sizeof() // 32, 0, 0)
            )
            asc.pipe_barrier(asc.PipeID.PIPE_ALL)
            whole = k * dtype.sizeof() // 32 * 32 // dtype.sizeof()
            if whole:
                asc.data_copy(line, view(xa), count=whole)
            ordered(E.MTE2_MTE1, 1)
            asc.load_data(a2, line, asc.LoadData2DParams(0, -(-k * dtype.sizeof() // 512), 1, 0, 0, False, 0))
        ordered(E.MTE1_M)
        c = asc.LocalTensor(result, P.CO1, 0, up(m, 16) * up(n, 16))
        asc.mmad(c, a2, b2, fresh(m, n, k))
        if again:
            asc.mmad(c, a2, b2, more(m, n, k))
        ordered(E.M_FIX)
        asc.fixpipe(view(za), c, asc.FixpipeParamsV220(n, m, up(m, 16), n))

    got = cube(body, x, yt, z)
    assert rules(got) == []
    left = x.astype(np.float64)
    if m == 1:
        left[:, k * np.dtype(pick).itemsize // 32 * 32 // np.dtype(pick).itemsize :] = 0
    wanted = left @ yt.T.astype(np.float64) * (2 if again else 1)
    np.testing.assert_array_equal(got.outputs[2].view(RESULT[pick]).reshape(m, n), wanted.astype(RESULT[pick]))


@pytest.mark.parametrize(("pick", "form"), [("float16", "operand"), ("int8", "operand"), ("float32", "table")])
def test_mmad_with_bias(pick, form):
    m, n, k = 20, 33, 48
    dtype, result = asc.DataType(pick), asc.DataType(RESULT[pick])
    x, yt = values(1, pick, (m, k)), values(2, pick, (n, k))
    bias = np.concatenate([values(3, RESULT[pick], n) * 10, np.zeros(up(n, 16) - n, RESULT[pick])])
    z = np.zeros((m, n), RESULT[pick])

    def body(xa, ya, ba, za):
        a2, b2 = put_left(xa, m, k, dtype), put_right(ya, n, k, dtype)
        c1 = asc.LocalTensor(result, P.C1, 400 * 1024, 48)
        c2 = asc.LocalTensor(result, P.C2, 0, 48)
        asc.data_copy(c1, view(ba), count=48)
        ordered(E.MTE2_MTE1, 2)
        asc.data_copy(c2, c1, count=48)
        ordered(E.MTE1_M)
        c = asc.LocalTensor(result, P.CO1, 0, up(m, 16) * up(n, 16))
        if form == "operand":
            asc.mmad(c, a2, b2, c2, fresh(m, n, k))
        else:
            asc.mmad(c, a2, b2, asc.MmadParams(m, n, k, unit_flag=0, cmatrix_source=True, cmatrix_init_val=False))
        ordered(E.M_FIX)
        asc.fixpipe(view(za), c, asc.FixpipeParamsV220(n, m, up(m, 16), n))

    got = cube(body, x, yt, bias, z)
    assert rules(got) == []
    wanted = x.astype(np.float64) @ yt.T.astype(np.float64) + bias[:n]
    np.testing.assert_array_equal(got.outputs[3].view(RESULT[pick]).reshape(m, n), wanted.astype(RESULT[pick]))


def test_int8_sums_saturate():
    from cannlab.machine.core import cube as unit
    from cannlab.machine.core.dtypes import CODES, pack
    from cannlab.machine.core.memory import Memory

    memory = Memory(chips.get("Ascend910B1"), [])
    dtype = pack(CODES["int32"], CODES["int8"], CODES["int8"])
    memory.view((-5, 0, 1024), CODES["int32"])[:] = 2**31 - 5
    memory.view((-3, 0, 512), CODES["int8"])[:] = 100
    memory.view((-4, 0, 512), CODES["int8"])[:] = 100
    unit.mmad("sum")(memory, dtype, (16, 16, 32), ((-5, 0, 1024), (-3, 0, 512), (-4, 0, 512)))
    assert (memory.view((-5, 0, 1024), CODES["int32"]) == 2**31 - 1).all()


def test_sums_are_in_float32_not_in_half():
    m = n = 16
    k = 256
    x, yt = np.full((m, k), 16.0, np.float16), np.full((n, k), 16.5, np.float16)
    z = np.zeros((m, n), np.float32)

    def body(xa, ya, za):
        a2, b2 = put_left(xa, m, k, asc.float16), put_right(ya, n, k, asc.float16)
        ordered(E.MTE1_M)
        c = asc.LocalTensor(asc.float32, P.CO1, 0, 256)
        asc.mmad(c, a2, b2, fresh(m, n, k))
        ordered(E.M_FIX)
        asc.fixpipe(view(za), c, asc.FixpipeParamsV220(n, m, 16, n))

    got = cube(body, x, yt, z).outputs[2].view(np.float32)
    assert (got == 16 * 16.5 * 256).all()  # 67584 is beyond half


@pytest.mark.parametrize("toward_zero", [False, True])
def test_hf32(toward_zero):
    x = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)
    yt = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)
    z = np.zeros((16, 16), np.float32)

    def body(xa, ya, za):
        asc.set_hf32_mode(True)
        asc.set_hf32_trans_mode(toward_zero)
        a2, b2 = put_left(xa, 16, 8, asc.float32), put_right(ya, 16, 8, asc.float32)
        ordered(E.MTE1_M)
        c = asc.LocalTensor(asc.float32, P.CO1, 0, 256)
        asc.mmad(c, a2, b2, fresh(16, 16, 8))
        ordered(E.M_FIX)
        asc.fixpipe(view(za), c, asc.FixpipeParamsV220(16, 16, 16, 16))

    def cut(value):
        mantissa, exponent = np.frexp(value.astype(np.float64))
        scaled = mantissa * 2.0**12
        return np.ldexp(np.trunc(scaled) if toward_zero else np.rint(scaled), exponent - 12)

    got = cube(body, x, yt, z).outputs[2].view(np.float32).reshape(16, 16)
    np.testing.assert_allclose(got, cut(x) @ cut(yt).T, rtol=1e-6, atol=1e-6)
    assert np.abs(got - x @ yt.T).max() > 1e-5


# -- fixpipe ------------------------------------------------------------------------------------------


def word(scale, offset=0, signed=True):
    """A quantisation word."""
    bits = int(np.float32(scale).view(np.uint32))
    return bits | (offset & 0x1FF) << 37 | int(signed) << 46


def integers_to_l0c(xa, ya, m, n, k, pick):
    """A product in L0C, ready for fixpipe."""
    dtype = asc.DataType(pick)
    a2, b2 = put_left(xa, m, k, dtype), put_right(ya, n, k, dtype)
    ordered(E.MTE1_M)
    c = asc.LocalTensor(asc.DataType(RESULT[pick]), P.CO1, 0, up(m, 16) * up(n, 16))
    asc.mmad(c, a2, b2, fresh(m, n, k))
    ordered(E.M_FIX)
    return c


QUANT = [
    ("float16", "F322F16", "float16", 0, 0),
    ("float16", "QF322B8_PRE", "int8", 0.125, 3),
    ("float16", "VQF322B8_PRE", "int8", None, -4),
    ("int8", "DEQF16", "float16", 0.25, 0),
    ("int8", "VDEQF16", "float16", None, 0),
    ("int8", "REQ8", "int8", 0.0625, -7),
    ("int8", "VREQ8", "uint8", None, 100),
    ("int8", "NoQuant", "int32", 0, 0),
]


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize(("pick", "mode", "out", "scale", "offset"), QUANT)
def test_fixpipe(pick, mode, out, scale, offset, rows, relu):
    m, n, k = 20, 40, 32
    x, yt = values(5, pick, (m, k)), values(6, pick, (n, k))
    scales = np.random.default_rng(9).choice([0.5, 0.25, 0.0625, 1.0], n) if scale is None else np.full(n, scale)
    words = np.array([word(each, offset) for each in scales], np.uint64)
    words = np.concatenate([words, np.zeros(8, np.uint64)])
    wide = 32 if np.dtype(out).itemsize == 1 else 16
    size = m * (n + 4) if rows else up(n, wide) * m
    z = np.zeros(size, out)

    def body(xa, ya, wa, za):
        c = integers_to_l0c(xa, ya, m, n, k, pick)
        layout = asc.FixpipeConfig.cfg_row_major() if rows else asc.FixpipeConfig.cfg_nz()
        stride = n + 4 if rows else m * wide * np.dtype(out).itemsize // 32
        params = asc.FixpipeParamsV220(
            n, m, up(m, 16), stride, asc.QuantModes[mode], int(words[0]) if scale else 0, relu_en=relu
        )
        if scale is None:
            c1 = asc.LocalTensor(asc.uint64, P.C1, 480 * 1024, 48)
            asc.data_copy(c1, view(wa), count=48)
            ordered(E.MTE2_FIX)
            asc.fixpipe(view(za), c, c1, params, layout)
        else:
            asc.fixpipe(view(za), c, params, layout)

    got = cube(body, x, yt, words, z)
    assert rules(got) == []
    total = x.astype(np.float64) @ yt.T.astype(np.float64)
    if mode != "NoQuant" and mode != "F322F16":
        total = total * scales + offset
    if np.dtype(out).kind == "f":
        total = total.astype(np.float16).astype(np.float64)
    else:
        limits = np.iinfo(out)
        total = np.clip(np.rint(total), limits.min, limits.max)
    if relu:
        total = np.where(total > 0, total, 0)
    wanted = np.zeros(size, out)
    for i in range(m):
        for j in range(n):
            at = i * (n + 4) + j if rows else (j // wide) * m * wide + i * wide + j % wide
            wanted[at] = total[i, j]
    np.testing.assert_array_equal(got.outputs[3].view(out), wanted)


def test_channel_split_several_matrices_and_atomic():
    m, n, k = 16, 32, 16
    x, yt = values(5, "float16", (m, k)), values(6, "float16", (n, k))
    total = (x.astype(np.float32) @ yt.T.astype(np.float32)).astype(np.float32)
    z = np.ones(m * n, np.float32)

    def split(xa, ya, za):
        c = integers_to_l0c(xa, ya, m, n, k, "float16")
        asc.set_atomic_add(asc.float32)
        params = asc.FixpipeParamsV220(n, m, 16, m, is_channel_split=True)
        asc.fixpipe(view(za), c, params, asc.FixpipeConfig.cfg_nz())

    got = cube(split, x, yt, z).outputs[2].view(np.float32)
    wanted = 1 + total.reshape(m, n // 8, 8).transpose(1, 0, 2)
    np.testing.assert_array_equal(got.reshape(n // 8, m, 8), wanted)

    def two(xa, ya, za):
        c = integers_to_l0c(xa, ya, m, n, k, "float16")
        params = asc.FixpipeParamsV220(16, m, 16, 16, nd_num=2, src_nd_stride=1, dst_nd_stride=m * 16)
        asc.fixpipe(view(za), c, params)

    got = cube(two, x, yt, z).outputs[2].view(np.float32).reshape(2, m, 16)
    np.testing.assert_array_equal(got, total.reshape(m, 2, 16).transpose(1, 0, 2))


def test_data_copy_out_of_l0c():
    m, n, k = 16, 32, 16
    x, yt = values(5, "int8", (m, k)), values(6, "int8", (n, k))
    z = np.zeros(m * n, np.int8)

    def body(xa, ya, za):
        c = integers_to_l0c(xa, ya, m, n, k, "int8")
        asc.set_fix_pipe_pre_quant_flag(word(0.0625, 2))
        params = asc.DataCopyCO12DstParams(n, m, n, m, asc.QuantModes.REQ8, 1, False, True)
        asc.data_copy(view(za), c, intri_params=params)

    got = cube(body, x, yt, z).outputs[2].view(np.int8).reshape(m, n)
    total = np.rint(x.astype(np.float64) @ yt.T.astype(np.float64) * 0.0625 + 2)
    np.testing.assert_array_equal(got, np.maximum(np.clip(total, -128, 127), 0))


@given(seed=SEED, rows=st.integers(1, 30), columns=st.integers(1, 50), extra=st.integers(0, 5), atomic=st.booleans())
@settings(max_examples=12, deadline=None)
def test_nz2nd(seed, rows, columns, extra, atomic):
    tall, wide = up(rows, 16), columns + extra
    source = values(seed, "float32", up(columns, 16) * tall)
    z = values(seed + 1, "float32", rows * wide)

    def body(x, za):
        ub = asc.LocalTensor(asc.float32, P.VECIN, 0, source.size)
        asc.data_copy(ub, view(x), count=source.size)
        ordered(E.MTE2_MTE3)
        if atomic:
            asc.set_atomic_add(asc.float32)
        asc.data_copy(view(za), ub, intri_params=asc.Nz2NdParamsFull(1, rows, columns, 0, tall, wide, 0))

    got = replayed(run_on_core(body, source, z), source, z)
    assert rules(got) == []
    wanted = z.copy()
    for i in range(rows):
        for j in range(columns):
            value = source[(j // 16) * 16 * tall + i * 16 + j % 16]
            wanted[i * wide + j] = wanted[i * wide + j] + value if atomic else value
    np.testing.assert_array_equal(got.outputs[1].view("f4"), wanted)


# -- misuse -------------------------------------------------------------------------------------------


def product(
    skip=(), dtype=asc.float16, result=asc.float32, positions=(P.A2, P.B2), address=0, barrier=False, times=1, extent=16
):
    """A 16 x 16 x 16 product; ``skip`` leaves synchronisation out."""

    def body(x, y, z):
        def flag(event):
            if event not in skip:
                ordered(event)

        a1 = asc.LocalTensor(dtype, P.A1, 0, 256)
        b1 = asc.LocalTensor(dtype, P.B1, 1024, 256)
        a2 = asc.LocalTensor(dtype, positions[0], address, 256)
        b2 = asc.LocalTensor(dtype, positions[1], 0, 256)
        c = asc.LocalTensor(result, P.CO1, 0, 256)
        for tensor, source in ((a1, x), (b1, y)):
            asc.data_copy(tensor, view(source), intri_params=asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
        flag(E.MTE2_MTE1)
        asc.load_data(a2, a1, asc.LoadData2DParams(0, 1, 1, 0, 0, False, 0))
        asc.load_data(b2, b1, asc.LoadData2DParams(0, 1, 1, 0, 0, False, 0))
        flag(E.MTE1_M)
        if "mmad" not in skip:
            asc.mmad(c, a2, b2, fresh(extent, 16, 16))
        for _ in range(times - 1):
            if barrier:
                asc.pipe_barrier(asc.PipeID.PIPE_M)
            asc.mmad(c, a2, b2, more(16, 16, 16))
        flag(E.M_FIX)
        asc.fixpipe(view(z), c, asc.FixpipeParamsV220(16, 16, 16, 16))

    return body


ARGUMENTS = [np.ones(256, np.float16), np.ones(256, np.float16), np.zeros(256, np.float32)]


def told(body, cores="AIC", soc=None, sync="auto", arguments=ARGUMENTS):
    try:
        return rules(run_on_core(body, *arguments, cores=cores, soc=soc, sync=sync))
    except core.KernelFault as fault:
        return [fault.diagnosis.rule.removeprefix("kernel.")]


def test_a_correct_product_has_no_alarm():
    for sync in ("auto", "strict"):
        assert told(product(), sync=sync) == []


@pytest.mark.parametrize(
    ("event", "text"), [(E.MTE2_MTE1, "MTE2_MTE1"), (E.MTE1_M, "MTE1_M"), (E.M_FIX, "M_FIX")], ids=lambda v: str(v)
)
def test_a_missing_flag_is_a_race(event, text):
    result = run_on_core(product(skip=(event,)), *ARGUMENTS, cores="AIC")
    assert set(rules(result)) == {"race"}
    assert text in result.diagnoses[0].text()


def test_l0c_read_before_anything_is_in_it():
    assert told(product(skip=("mmad",))) == ["undefined"]


def test_overwriting_l0c_before_fixpipe_is_done():
    def body(x, y, z):
        product()(x, y, z)
        a2, b2 = (asc.LocalTensor(asc.float16, p, 0, 256) for p in (P.A2, P.B2))
        asc.mmad(asc.LocalTensor(asc.float32, P.CO1, 0, 256), a2, b2, fresh(16, 16, 16))

    result = run_on_core(body, *ARGUMENTS, cores="AIC")
    assert rules(result) == ["race"]
    assert "FIX_M" in result.diagnoses[0].text()


def test_overwriting_l0a_before_mmad_has_read_it():
    def body(x, y, z):
        product()(x, y, z)
        a1 = asc.LocalTensor(asc.float16, P.A1, 0, 256)
        a2 = asc.LocalTensor(asc.float16, P.A2, 0, 256)
        asc.load_data(a2, a1, asc.LoadData2DParams(0, 1, 1, 0, 0, False, 0))

    result = run_on_core(body, *ARGUMENTS, cores="AIC")
    assert rules(result) == ["race"]
    assert "M_MTE1" in result.diagnoses[0].text()


def test_small_mmads_in_a_row_need_a_barrier():
    assert told(product(times=2), sync="strict") == ["race_in_pipe"]
    assert told(product(times=2, barrier=True), sync="strict") == []
    assert told(product(times=2), sync="auto") == []


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"positions": (P.B2, P.A2)}, "wrong_buffer"),
        ({"positions": (P.A1, P.B2)}, "wrong_buffer"),
        ({"address": 256}, "alignment"),
        ({"address": 64 * 1024}, "local_range"),
        ({"result": asc.int32}, "dtype"),
        ({"result": asc.float16}, "dtype"),
    ],
    ids=str,
)
def test_operands_that_the_cube_does_not_take(options, rule):
    assert told(product(**options)) == [rule]


def test_extents_of_an_mmad():
    def body(x, y, z):
        product()(x, y, z)
        a2, b2 = (asc.LocalTensor(asc.float16, p, 0, 32 * 1024) for p in (P.A2, P.B2))
        asc.mmad(asc.LocalTensor(asc.float32, P.CO1, 0, 32 * 1024), a2, b2, fresh(1, 4096, 1))

    assert told(body) in (["mmad_extent"], ["tensor_range"])


def test_a_short_block_of_parameters_does_nothing():
    def body(x, y, z):
        a2, b2 = (asc.LocalTensor(asc.float16, p, 0, 256) for p in (P.A2, P.B2))
        asc.mmad(asc.LocalTensor(asc.float32, P.CO1, 0, 256), a2, b2, asc.MmadParams(16, 16, 16))

    assert told(body) == ["mmad_empty"]


def test_which_core_has_which_buffer():
    assert told(product(), cores="AIV") == ["core_kind"]

    def vector(x, y, z):
        ub = asc.LocalTensor(asc.float16, P.VECIN, 0, 256)
        asc.data_copy(ub, view(x), count=256)

    assert told(vector, cores="AIC") == ["core_kind"]
    assert told(vector, cores="AIV") == []


def test_a_merged_chip_has_both_and_other_types():
    assert told(product(), cores="AIV", soc="Ascend310P3") == []
    assert told(product(), cores="AIV", soc="Ascend910A") == []
    single = [np.ones(256, np.float32), np.ones(256, np.float32), np.zeros(256, np.float32)]

    def body(x, y, z):
        a2, b2 = put_left(x, 16, 8, asc.float32), put_right(y, 16, 8, asc.float32)
        ordered(E.MTE1_M)
        asc.mmad(asc.LocalTensor(asc.float32, P.CO1, 0, 256), a2, b2, fresh(16, 16, 8))

    assert told(body, cores="AIV", soc="Ascend310P3", arguments=single) == ["dtype"]
    assert told(body, arguments=single) == []


def test_capacities_are_those_of_the_chip():
    def allocate(hard, pos, bytes_):
        def body(x, y, z):
            asc.LocalMemAllocator(hard).alloc(pos, asc.float16, bytes_ // 2)

        return body

    H = asc.Hardware
    sizes = [(H.L0A, P.A2, 64), (H.L0B, P.B2, 64), (H.L0C, P.CO1, 128), (H.BIAS, P.C2, 1)]
    for hard, pos, kib in sizes:
        assert told(allocate(hard, pos, kib * 1024)) == []
        assert told(allocate(hard, pos, kib * 1024 + 32)) == ["buffer_overflow"]
    assert told(allocate(H.L1, P.A1, 512 * 1024 - 256)) == []
    assert told(allocate(H.L1, P.A1, 512 * 1024)) == ["buffer_overflow"]
    assert told(allocate(H.L0C, P.CO1, 256 * 1024), soc="Ascend910A") == []
    assert told(allocate(H.L1, P.A1, 1024 * 1024), soc="Ascend910A") == []

    def queues(x, y, z):
        pipe = asc.TPipe()
        que = asc.TQue(P.A2, 2)
        pipe.init_buffer(que, 2, 48 * 1024)

    assert told(queues) == ["buffer_overflow"]


# -- time ---------------------------------------------------------------------------------------------


def test_the_cube_takes_a_cycle_for_each_16_by_16_by_16():
    from cannlab.machine.core import cost
    from cannlab.machine.core.dtypes import CODES, pack

    half = pack(CODES["float32"], CODES["float16"], CODES["float16"])
    single = pack(CODES["float32"], CODES["float32"], CODES["float32"])
    byte = pack(CODES["int32"], CODES["int8"], CODES["int8"])
    work = cost.cube_cycles(half, (128, 256, 64)) - cost.MMAD_HEAD
    assert work == 128 * 256 * 64 // 4096
    assert cost.cube_cycles(single, (128, 256, 64)) - cost.MMAD_HEAD == 4 * work
    assert cost.cube_cycles(byte, (128, 256, 64)) - cost.MMAD_HEAD == work // 2
    assert cost.cube_cycles(half, (1, 1, 1)) - cost.MMAD_HEAD == 1


def test_cube_and_loads_overlap_on_their_pipes():
    result = run_on_core(product(), *ARGUMENTS, cores="AIC")
    assert set(result.timing.busy) >= {"M", "MTE1", "MTE2", "FIXP"}
    many = run_on_core(product(), *ARGUMENTS, cores="AIC", blocks=24)
    assert many.timing.cores == 24


# -- a whole matmul -----------------------------------------------------------------------------------


@pytest.mark.parametrize("relu", [False, True])
def test_matmul_of_512_with_128_blocks(relu):
    from cube_kernels import BASE_M, BASE_N, K, M, N, matmul

    from cannlab.machine import machine

    rng = np.random.default_rng(3)
    x = rng.standard_normal((M, K)).astype(np.float16)
    yt = rng.standard_normal((N, K)).astype(np.float16)
    bias = rng.standard_normal(N).astype(np.float32)
    z = np.zeros((M, N), np.float32)
    blocks = (M // BASE_M) * (N // BASE_N)
    assert blocks == 128
    matmul[blocks](x, yt, bias, z, relu)
    wanted = x.astype(np.float64) @ yt.T.astype(np.float64) + bias
    wanted = np.maximum(wanted, 0) if relu else wanted
    np.testing.assert_allclose(z, wanted, rtol=1e-5, atol=1e-3)
    assert not machine().record.faults
    trace = machine().record.kernels[-1]
    assert trace.meta["cores"] == "AIC"
    again = core.replay(trace, [2 * x, yt, bias, np.zeros_like(z)])
    twice = 2 * x.astype(np.float64) @ yt.T.astype(np.float64) + bias
    twice = np.maximum(twice, 0) if relu else twice
    np.testing.assert_allclose(again.outputs[3].view(np.float32).reshape(M, N), twice, rtol=1e-5, atol=1e-3)
    assert again.timing.cores == 24


def test_a_cube_kernel_must_say_that_it_is_one():
    from cube_kernels import matmul

    from cannlab.ascendc.runtime.config import KernelType
    from cannlab.ascendc.runtime.launcher import KernelError

    arrays = [np.zeros((512, 512), np.float16), np.zeros((512, 512), np.float16), np.zeros(512, np.float32)]
    with pytest.raises(KernelError) as caught:
        matmul[1](*arrays, np.zeros((512, 512), np.float32), False, kernel_type=KernelType.AIV_ONLY)
    assert caught.value.diagnosis.rule == "kernel.core_kind"
    assert "AIC_ONLY" in caught.value.diagnosis.text()
