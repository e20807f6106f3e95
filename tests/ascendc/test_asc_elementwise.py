"""Every lane-by-lane operation against its definition, in count, mask and bit-mask form."""

import numpy as np
import pytest
from asc_pieces import apply, data, same
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc
from cannlab.machine import core

FLOATS = ("float16", "float32")
NUMERIC = (*FLOATS, "int16", "int32")


def wide(x):
    """Exact enough that one rounding to the element type is the definition."""
    return x.astype(np.float64) if x.dtype == np.float32 else x.astype(np.float32) if x.dtype == np.float16 else x


def fused(a, b, c):
    """a * b + c, rounded once."""
    return (wide(a) * wide(b) + wide(c)).astype(c.dtype)


BINARY = {
    "add": (NUMERIC, lambda d, a, b: a + b),
    "sub": (NUMERIC, lambda d, a, b: a - b),
    "mul": (NUMERIC, lambda d, a, b: a * b),
    "div": (FLOATS, lambda d, a, b: a / b),
    "max": (NUMERIC, lambda d, a, b: np.where(a > b, a, b)),
    "min": (NUMERIC, lambda d, a, b: np.where(a < b, a, b)),
    "add_relu": ((*FLOATS, "int16"), lambda d, a, b: np.where(a + b > 0, a + b, 0).astype(a.dtype)),
    "sub_relu": ((*FLOATS, "int16"), lambda d, a, b: np.where(a - b > 0, a - b, 0).astype(a.dtype)),
    "fused_mul_add": (FLOATS, lambda d, a, b: fused(a, d, b)),
    "fused_mul_add_relu": (FLOATS, lambda d, a, b: np.where(fused(a, d, b) > 0, fused(a, d, b), 0).astype(a.dtype)),
    "mul_add_dst": (FLOATS, lambda d, a, b: fused(a, b, d)),
    "bitwise_and": (("int16", "uint16"), lambda d, a, b: a & b),
    "bitwise_or": (("int16", "uint16"), lambda d, a, b: a | b),
}
UNARY = {
    "abs": (FLOATS, lambda x: np.where(x < 0, -x, x)),
    "exp": (FLOATS, lambda x: np.exp(wide(x)).astype(x.dtype)),
    "ln": (FLOATS, lambda x: np.log(wide(np.abs(x) + x.dtype.type(1))).astype(x.dtype)),
    "sqrt": (FLOATS, lambda x: np.sqrt(wide(np.abs(x))).astype(x.dtype)),
    "rsqrt": (FLOATS, lambda x: (1 / np.sqrt(wide(np.abs(x) + x.dtype.type(1)))).astype(x.dtype)),
    "reciprocal": (FLOATS, lambda x: (1 / wide(np.abs(x) + x.dtype.type(1))).astype(x.dtype)),
    "relu": ((*FLOATS, "int32"), lambda x: np.where(x > 0, x, 0).astype(x.dtype)),
    "bitwise_not": (("int16", "uint16"), lambda x: x ^ np.array(-1).astype(x.dtype)),
}
POSITIVE = {"ln": 1, "sqrt": 0, "rsqrt": 1, "reciprocal": 1}
SCALAR = {
    "adds": (NUMERIC, lambda d, x, s: x + s),
    "muls": (NUMERIC, lambda d, x, s: x * s),
    "maxs": (NUMERIC, lambda d, x, s: np.where(x > s, x, s)),
    "mins": (NUMERIC, lambda d, x, s: np.where(x < s, x, s)),
    "leaky_relu": (FLOATS, lambda d, x, s: np.where(x >= 0, x, x * s)),
    "axpy": (FLOATS, lambda d, x, s: fused(x, np.full_like(x, s), d)),
}


SEED = st.integers(0, 1 << 30)
BLOCKS = st.integers(1, 40)


@pytest.mark.parametrize("name", BINARY)
@given(seed=SEED, blocks=BLOCKS, pick=st.integers(0, 3), tail=st.integers(0, 15))
@settings(max_examples=8, deadline=None)
def test_binary_count(name, seed, blocks, pick, tail):
    dtypes, define = BINARY[name]
    dtype = dtypes[pick % len(dtypes)]
    size = blocks * 32 // np.dtype(dtype).itemsize
    count = max(size - tail, 1)
    d, a, b = (data(seed + k, dtype, size) for k in range(3))
    b = np.where(b == 0, 1, b).astype(dtype)
    got = apply(name, d, [a, b], lambda t: getattr(asc, name)(*t, count=count))
    with np.errstate(all="ignore"):
        wanted = d.copy()
        wanted[:count] = define(d, a, b).astype(dtype)[:count]
    same(got, wanted)


@pytest.mark.parametrize("name", UNARY)
@given(seed=SEED, blocks=BLOCKS, pick=st.integers(0, 2))
@settings(max_examples=8, deadline=None)
def test_unary_count(name, seed, blocks, pick):
    dtypes, define = UNARY[name]
    dtype = dtypes[pick % len(dtypes)]
    size = blocks * 32 // np.dtype(dtype).itemsize
    d, x = data(seed, dtype, size), data(seed + 1, dtype, size)
    source = (np.abs(x) + np.dtype(dtype).type(POSITIVE[name])).astype(dtype) if name in POSITIVE else x
    got = apply(name, d, [source], lambda t: getattr(asc, name)(*t, count=size))
    same(got, define(x).astype(dtype))


@pytest.mark.parametrize("name", SCALAR)
@given(seed=SEED, blocks=BLOCKS, pick=st.integers(0, 3), scalar=st.floats(-5, 5, width=32))
@settings(max_examples=8, deadline=None)
def test_scalar_count(name, seed, blocks, pick, scalar):
    dtypes, define = SCALAR[name]
    dtype = dtypes[pick % len(dtypes)]
    size = blocks * 32 // np.dtype(dtype).itemsize
    d, x = data(seed, dtype, size), data(seed + 1, dtype, size)
    got = apply(name, d, [x], lambda t: getattr(asc, name)(t[0], t[1], scalar, count=size))
    converted = np.dtype(dtype).type(int(scalar) if np.dtype(dtype).kind == "i" else scalar)
    same(got, define(d, x, converted).astype(dtype))


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("by", [0, 1, 7, 15])
def test_shifts(dtype, by):
    x = data(3, dtype, 64)
    bits = np.dtype(dtype).itemsize * 8
    left = np.array([(int(v) << by) % (1 << bits) for v in x], dtype=f"uint{bits}").view(dtype)
    same(apply("shift_left", x.copy(), [x], lambda t: asc.shift_left(*t, by, count=64)), left)
    right = np.array([int(v) >> by for v in x]).astype(dtype)
    same(apply("shift_right", x.copy(), [x], lambda t: asc.shift_right(*t, by, count=64)), right)


def test_mixed_axpy_takes_half_into_float():
    x, d = data(1, "float16", 64), data(2, "float32", 64)
    got = apply("axpy", d, [x], lambda t: asc.axpy(*t, 0.1, count=64))
    factor = float(np.float16(0.1))
    same(got, (x.astype("f8") * factor + d.astype("f8")).astype("f4"))


def lane_bytes(size, wide, repeat, lane, blk, rep):
    """Byte of a lane of a repeat, as the documentation gives it."""
    per_block = 32 // size
    return 32 * (repeat * rep + (lane // per_block) * blk) + (lane % per_block) * size


@pytest.mark.parametrize("name", ["add", "mul", "fused_mul_add", "bitwise_or"])
@given(
    seed=SEED,
    repeats=st.integers(1, 5),
    dst=st.tuples(st.integers(1, 3), st.integers(8, 26)),
    src0=st.tuples(st.integers(0, 3), st.integers(0, 26)),
    src1=st.tuples(st.integers(0, 3), st.integers(0, 26)),
    mask=st.integers(1, 128),
    bits=st.integers(1, (1 << 128) - 1),
    as_list=st.booleans(),
    pick=st.integers(0, 3),
)
@settings(max_examples=15, deadline=None)
def test_binary_masked(name, seed, repeats, dst, src0, src1, mask, bits, as_list, pick):
    dtypes, define = BINARY[name]
    dtype = dtypes[pick % len(dtypes)]
    size = np.dtype(dtype).itemsize
    per = 256 // size
    if dst[1] < 7 * dst[0] + 1:  # repeats of the result stay apart
        dst = (dst[0], 7 * dst[0] + 1)
    low, high = bits & (1 << 64) - 1, bits >> 64 if size == 2 else 0
    if not low and not high:
        low = 1
    mask = (mask - 1) % per + 1
    active = [lane for lane in range(per) if (low | high << 64) >> lane & 1] if as_list else list(range(mask))
    count = 5 * 26 * 32 // size + 32
    d, a, b = (data(seed + k, dtype, count) for k in range(3))
    params = asc.BinaryRepeatParams(dst[0], src0[0], src1[0], dst[1], src0[1], src1[1])

    def call(t):
        getattr(asc, name)(*t, mask=[low, high] if as_list else mask, repeat_times=repeats, repeat_params=params)

    got = apply(name, d.copy(), [a, b], call)
    wanted = d.copy()
    with np.errstate(all="ignore"):
        for r in range(repeats):
            for lane in active:
                at = [lane_bytes(size, size, r, lane, *s) // size for s in (dst, src0, src1)]
                one = define(wanted[at[0] : at[0] + 1], a[at[1] : at[1] + 1], b[at[2] : at[2] + 1])
                wanted[at[0]] = one.astype(dtype)[0]
    same(got, wanted)


def test_accumulating_over_repeats_with_stride_zero():
    """dst == src1 with repeat stride 0: every repeat adds to the same 256 bytes."""
    acc, x = data(1, "float32", 64), data(2, "float32", 64 * 4)
    params = asc.BinaryRepeatParams(1, 1, 1, 0, 8, 0)
    got = apply("add", acc, [x], lambda t: asc.add(t[0], t[1], t[0], mask=64, repeat_times=4, repeat_params=params))
    wanted = acc.copy()
    for r in range(4):
        wanted = x[r * 64 : r * 64 + 64] + wanted
    same(got, wanted)


def test_counter_mode_counts_all_elements():
    d, a, b = (data(k, "float32", 256) for k in range(3))

    def call(t):
        asc.set_mask_count()
        asc.add(*t, mask=150, repeat_times=1, repeat_params=asc.BinaryRepeatParams())
        asc.set_mask_norm()

    wanted = d.copy()
    wanted[:150] = (a + b)[:150]
    same(apply("add", d, [a, b], call), wanted)


@given(seed=SEED, repeats=st.integers(1, 6), mask=st.integers(1, 64), blk=st.integers(1, 2), rep=st.integers(16, 20))
@settings(max_examples=15, deadline=None)
def test_duplicate_masked(seed, repeats, mask, blk, rep):
    d = data(seed, "float32", 2048)
    got = apply("duplicate", d.copy(), [], lambda t: asc.duplicate(t[0], 2.5, mask, repeats, blk, rep))
    wanted = d.copy()
    for r in range(repeats):
        for lane in range(mask):
            wanted[lane_bytes(4, 4, r, lane, blk, rep) // 4] = 2.5
    same(got, wanted)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "float16", "int32", "uint32", "float32"])
def test_duplicate_count(dtype):
    d = data(1, dtype, 96)
    got = apply("duplicate", d.copy(), [], lambda t: asc.duplicate(t[0], 7.9, count=90))
    wanted = d.copy()
    wanted[:90] = np.dtype(dtype).type(7.9 if dtype.startswith("f") else 7)
    same(got, wanted)


def test_half_overflow_is_inf():
    x = np.full(128, 60000, dtype="float16")
    got = apply("add", x.copy(), [x, x], lambda t: asc.add(*t, count=128))
    assert np.isinf(got).all()


def test_integers_wrap():
    x = np.full(64, 2**31 - 1, dtype="int32")
    got = apply("adds", x.copy(), [x], lambda t: asc.adds(*t, 1, count=64))
    assert (got == -(2**31)).all()


def test_brcb_copy_and_gather():
    x = data(1, "float32", 64)
    out = np.zeros(64 * 8, dtype="float32")
    params = asc.BrcbRepeatParams(1, 8)
    same(apply("brcb", out, [x], lambda t: asc.brcb(t[0], t[1], 8, params)), np.repeat(x, 8))
    wanted = np.zeros(128, dtype="float32")
    wanted[:40], wanted[64:104] = x[:40], x[:40]
    got = apply(
        "copy", np.zeros(128, "float32"), [x], lambda t: asc.copy(t[0], t[1], 40, 2, asc.CopyRepeatParams(1, 1, 8, 0))
    )
    same(got, wanted)
    order = np.random.default_rng(2).permutation(64).astype("uint32") * 4
    same(
        apply("gather", np.zeros(64, "float32"), [x, order], lambda t: asc.gather(*t, 0, count=64)),
        x[order // 4],
    )
    blocks = np.array([96, 0, 32, 64, 128, 160, 192, 224], dtype="uint32")
    u = data(3, "uint32", 64)
    same(
        apply("gatherb", u.copy(), [u, blocks], lambda t: asc.gatherb(*t, 1, asc.GatherRepeatParams())),
        np.concatenate([u[o // 4 : o // 4 + 8] for o in blocks]),
    )


@pytest.mark.parametrize(
    ("pattern", "keep"), [(1, slice(0, None, 2)), (2, slice(1, None, 2)), (5, slice(2, None, 4)), (7, slice(None))]
)
def test_gather_mask_patterns(pattern, keep):
    x = data(4, "float32", 128)
    kept = []

    def call(t):
        params = asc.GatherMaskParams(1, 2, 8, 0)
        kept.append(asc.gather_mask(t[0], t[1], pattern, False, 0, params).value)

    got = apply("gather_mask", np.zeros(128, "float32"), [x], call)
    wanted = x[keep]
    assert set(kept) == {len(wanted)}
    same(got[: len(wanted)], wanted)
    assert not got[len(wanted) :].any()


def test_gather_mask_by_tensor():
    x = data(5, "float16", 128)
    bits = np.random.default_rng(1).integers(0, 1 << 16, 16, dtype="uint16")
    chosen = np.unpackbits(bits[:8].view("uint8"), bitorder="little").astype(bool)
    got = apply(
        "gather_mask",
        np.zeros(128, "float16"),
        [x, bits],
        lambda t: asc.gather_mask(t[0], t[1], t[2], True, 128, asc.GatherMaskParams(1, 1, 8, 0)),
    )
    same(got[: chosen.sum()], x[chosen])


def test_convert_and_add_forms():
    a, b = data(1, "float32", 64), data(2, "float32", 64)
    got = apply("add_relu_cast", np.zeros(64, "float16"), [a, b], lambda t: asc.add_relu_cast(*t, count=64))
    same(got, np.maximum(a + b, 0).astype("float16"))


def test_an_illegal_type_is_a_fault():
    with pytest.raises(core.KernelFault) as caught:
        apply("adds", np.zeros(64, "uint16"), [np.zeros(64, "uint16")], lambda t: asc.adds(*t, 1, count=64))
    assert caught.value.diagnosis.rule == "kernel.dtype"
    assert "uint16" in caught.value.diagnosis.what
    with pytest.raises(TypeError, match="Src0 and src1 must be same type"):
        apply(
            "add",
            np.zeros(64, "float32"),
            [np.zeros(64, "float32"), np.zeros(64, "int32")],
            lambda t: asc.add(*t, count=64),
        )
