"""add_deq_relu, cast_deq, quant, bilinear interpolation, the functions of asc.adv, scalars and system calls."""

import math

import numpy as np
import pytest
from asc_pieces import apply, data, ordered, peek, replayed, rules, run_on_core, view
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc

P, E = asc.TPosition, asc.HardEvent
SEED = st.integers(0, 1 << 30)


@given(seed=SEED, blocks=st.integers(1, 20), scale=st.sampled_from([0.5, 0.0625, 2.0]), masked=st.booleans())
@settings(max_examples=10, deadline=None)
def test_add_deq_relu(seed, blocks, scale, masked):
    count = blocks * 64
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-40000, 40000, count).astype(np.int32) for _ in range(2))
    dst = data(seed, "float16", count)

    def call(t):
        asc.set_deq_scale(scale)
        if masked:
            params = asc.BinaryRepeatParams(1, 1, 1, 4, 8, 8)
            asc.add_deq_relu(*t, mask=64, repeat_times=asc.number(blocks, asc.int32), repeat_params=params)
        else:
            asc.add_deq_relu(*t, count=count)

    got = apply("add_deq_relu", dst, [a, b], call)
    with np.errstate(over="ignore"):
        wanted = ((a.astype(np.float64) + b) * scale).astype(np.float16)
    np.testing.assert_array_equal(got, np.where(wanted > 0, wanted, np.float16(0)))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_cast_deq_to_bytes(dtype, masked):
    x = np.random.default_rng(1).integers(-2000, 2000, 256).astype(np.int16)
    dst = np.full(512, 77, dtype)

    def call(t):
        asc.set_deq_scale(0.0625, -3, dtype == "int8")
        if masked:
            asc.cast_deq(*t, mask=128, repeat_times=2, repeat_params=asc.UnaryRepeatParams(1, 1, 8, 8))
        else:
            asc.cast_deq(*t, count=256)

    got = apply("cast_deq", dst, [x], call).reshape(16, 32)
    limits = np.iinfo(dtype)
    wanted = np.clip(np.rint(x * 0.0625 - 3), limits.min, limits.max).reshape(16, 16)
    np.testing.assert_array_equal(got[:, :16], wanted)
    assert (got[:, 16:] == 77).all()


def test_cast_deq_to_half():
    x = np.random.default_rng(1).integers(-60000, 60000, 128).astype(np.int32)

    def call(t):
        asc.set_deq_scale(0.25)
        asc.cast_deq(*t, count=128)

    got = apply("cast_deq", np.zeros(128, np.float16), [x], call)
    np.testing.assert_array_equal(got, (x * 0.25).astype(np.float16))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_quant(dtype):
    x = (np.random.default_rng(5).standard_normal(96) * 40).astype(dtype)
    got = apply("quant", np.zeros(96, np.int8), [x], lambda t: asc.adv.quant(*t, 2.0, 9.0, count=96))
    half = x.astype(np.float16)
    wanted = (half * np.float16(2.0) + np.float16(9.0)).astype(np.float64)
    np.testing.assert_array_equal(got, np.clip(np.rint(wanted), -128, 127))
    with pytest.raises(RuntimeError, match="No viable candidates"):
        apply("quant", np.zeros(96, np.int8), [x], lambda t: asc.adv.quant(*t, 2.0, 9.0))


@given(
    seed=SEED,
    h=st.integers(1, 4),
    v=st.integers(1, 3),
    each=st.booleans(),
    mask=st.integers(1, 128),
    blk=st.integers(1, 2),
)
@settings(max_examples=12, deadline=None)
def test_bilinear_interpolation(seed, h, v, each, mask, blk):
    rng = np.random.default_rng(seed)
    src = rng.standard_normal(512).astype(np.float16)
    offsets = (rng.integers(0, 32, h * v * 8) * 32 // 32 * 32).astype(np.uint32)
    weights = rng.standard_normal(-(-h * v * 8 // 16) * 16).astype(np.float16)
    step = 16 * 8 * blk
    dst = data(seed, "float16", step * v)

    def body(da, sa, oa, wa):
        d, s = asc.LocalTensor(asc.float16, P.VECIN, 0, dst.size), asc.LocalTensor(asc.float16, P.VECIN, 8192, 512)
        o = asc.LocalTensor(asc.uint32, P.VECIN, 16384, offsets.size)
        w = asc.LocalTensor(asc.float16, P.VECIN, 20480, weights.size)
        tmp = asc.LocalTensor(asc.uint8, P.VECIN, 32768, 4096)
        for tensor, address in ((d, da), (s, sa), (o, oa), (w, wa)):
            asc.data_copy(tensor, view(address), count=tensor.size)
        ordered(E.MTE2_V)
        asc.bilinear_interpolation(d, s, o, w, mask, h, each, blk, step, v, tmp)
        ordered(E.V_MTE3)
        asc.data_copy(view(da), d, count=dst.size)

    arrays = (dst, src, offsets, weights)
    result = replayed(run_on_core(body, *arrays), *arrays)
    assert rules(result) == []
    wanted = dst.copy()
    for row in range(v):
        total = [np.float16(0)] * 128
        for column in range(h):
            at = row * h + column
            for block in range(8):
                factor = weights[at * 8 + block] if each else weights[at]
                for k in range(16):
                    value = src[offsets[at * 8 + block] // 2 + k]
                    total[block * 16 + k] = np.float16(total[block * 16 + k] + np.float16(value * factor))
        for lane in range(mask):
            wanted[row * step + lane // 16 * blk * 16 + lane % 16] = total[lane]
    np.testing.assert_array_equal(result.outputs[0].view(np.float16), wanted)


# -- asc.adv ------------------------------------------------------------------------------------------

STANDARD = {
    **{name: getattr(math, name) for name in ("acosh", "asinh", "atan", "cos", "cosh", "erf", "erfc", "sin", "sinh")},
    **{name: getattr(math, name) for name in ("tan", "tanh", "ceil", "floor", "trunc", "lgamma", "log", "exp")},
    "acos": math.acos,
    "asin": math.asin,
    "atanh": math.atanh,
    "frac": lambda x: math.modf(x)[0],
    "round": lambda x: float(round(x)),
    "sign": lambda x: (x > 0) - (x < 0),
    "digamma": lambda x: (math.lgamma(x + 1e-5) - math.lgamma(x - 1e-5)) / 2e-5,
}
RANGES = {
    **dict.fromkeys(("acos", "asin", "atanh"), (-0.95, 0.95)),
    **dict.fromkeys(("log", "lgamma", "digamma"), (0.2, 9)),
    "acosh": (1, 9),
}


@pytest.mark.parametrize("name", STANDARD)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_functions(name, dtype):
    rng = np.random.default_rng(7)
    low, high = RANGES.get(name, (-4, 4))
    x = rng.uniform(low, high, 96).astype(dtype)
    dst = data(1, dtype, 96)
    words = {"count": 80} if name != "exp" else {"count": 80, "taylor_expand_level": 10}
    got = apply(name, dst, [x], lambda t: getattr(asc.adv, name)(*t, **words))
    wanted = np.array([STANDARD[name](float(value)) for value in x])
    tolerance = 2e-3 if dtype == "float16" else 1e-5 if name == "digamma" else 3e-7
    np.testing.assert_allclose(got[:80].astype(np.float64), wanted[:80], rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(got[80:], dst[80:])


def test_digamma_at_known_points():
    from cannlab.machine.core.adv_math import digamma

    euler = 0.5772156649015329
    assert digamma(1.0) == pytest.approx(-euler, abs=1e-12)
    assert digamma(0.5) == pytest.approx(-euler - 2 * math.log(2), abs=1e-12)
    assert digamma(-0.5) == pytest.approx(digamma(0.5) + 2, abs=1e-11)
    assert math.isnan(digamma(0.0))


def test_functions_of_the_whole_tensor_and_of_two():
    x, y = data(1, "float32", 64), np.abs(data(2, "float32", 64)) % 3
    got = apply("sin", np.zeros(64, "f4"), [x], lambda t: asc.adv.sin(*t))
    np.testing.assert_allclose(got, np.sin(x.astype(np.float64)), rtol=1e-6)
    got = apply("power", np.zeros(64, "f4"), [np.abs(x), y], lambda t: asc.adv.power(*t))
    np.testing.assert_allclose(got, [abs(float(a)) ** float(b) for a, b in zip(x, y, strict=True)], rtol=1e-6)
    a, b = data(3, "int32", 64) % 50, np.arange(64, dtype=np.int32) % 7 - 1
    got = apply("power", np.zeros(64, "i4"), [a, b], lambda t: asc.adv.power(*t, count=64))
    for base, exponent, value in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        exact = base**exponent if exponent >= 0 else (base if abs(base) == 1 else 0)
        assert value == (exact + 2**31) % 2**32 - 2**31
    u, w = (data(k, "int16", 64).view(np.uint16) for k in (5, 6))
    got = apply("xor", np.zeros(64, np.uint16), [u, w], lambda t: asc.adv.xor(*t))
    np.testing.assert_array_equal(got, u ^ w)
    d = data(8, "float32", 64)
    got = apply("axpy", d, [x], lambda t: asc.adv.axpy(*t, 1.5, 64))
    np.testing.assert_array_equal(got, (x.astype(np.float64) * 1.5 + d).astype(np.float32))


# -- scalars and system -------------------------------------------------------------------------------


def on_core(call):
    got = []
    run_on_core(lambda x: got.append(call()), np.zeros(8, "f4"))
    return got[0]


@given(value=st.integers(0, 2**64 - 1), bit=st.integers(0, 1))
@settings(max_examples=40, deadline=None)
def test_bit_counting(value, bit):
    bits = [value >> k & 1 for k in range(64)]

    def call():
        return [
            f.value
            for f in (
                asc.scalar_get_sff_value(value, bit),
                asc.scalar_get_count_of_value(value, bit),
                asc.scalar_count_leading_zero(value),
                asc.count_bits_cnt_same_as_sign_bit(value - 2**64 if bits[63] else value),
            )
        ]

    first, count, zeros, same = on_core(call)
    assert first == (bits.index(bit) if bit in bits else -1)
    assert count == bits.count(bit)
    assert zeros == (64 if 1 not in bits else bits[::-1].index(1))
    run = 0
    while run < 63 and bits[62 - run] == bits[63]:
        run += 1
    assert same == (-1 if run == 63 else run)


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("CAST_RINT", [2, -2, 3]), ("CAST_FLOOR", [2, -3, 2]), ("CAST_CEIL", [3, -2, 3]), ("CAST_ROUND", [3, -3, 3])],
)
def test_scalar_cast(mode, wanted):
    got = on_core(lambda: [asc.scalar_cast(x, asc.int32, asc.RoundMode[mode]).value for x in (2.5, -2.5, 2.75)])
    assert got == wanted
    odd = on_core(lambda: asc.scalar_cast(1.0 + 2**-12, asc.float16, asc.RoundMode.CAST_ODD).value)
    assert odd == 1.0 + 2**-10


def test_system_calls():
    def call():
        asc.set_atomic_type(asc.float32)
        asc.set_store_atomic_config(asc.AtomicDtype.ATOMIC_F32, asc.AtomicOp.ATOMIC_SUM)
        config = [value.value for value in asc.get_store_atomic_config()]
        before = asc.get_system_cycle().value
        tensor = asc.LocalTensor(asc.float32, P.VECIN, 0, 64)
        asc.duplicate(tensor, 1.0, count=64)
        for k in range(200):
            tensor.set_value(k % 64, 2.0)
        return config, asc.get_system_cycle().value - before, asc.get_icache_preload_status().value

    config, ticks, status = on_core(call)
    assert config == [1, 0]
    assert ticks > 0
    assert status == 0


def test_atomic_config_adds():
    z = np.ones(8, np.float32)

    def body(za):
        tensor = asc.LocalTensor(asc.float32, P.VECIN, 0, 8)
        asc.duplicate(tensor, 2.0, count=8)
        ordered(E.V_MTE3)
        asc.set_store_atomic_config(asc.AtomicDtype.ATOMIC_F32, asc.AtomicOp.ATOMIC_SUM)
        asc.data_copy(view(za), tensor, count=8)
        assert peek(tensor, 8).tolist() == [2.0] * 8

    result = replayed(run_on_core(body, z), z)
    assert result.outputs[0].view("f4").tolist() == [3.0] * 8


def test_bare_handles_cannot_be_used():
    for call in (lambda: asc.get_sort_len(64), lambda: asc.get_sort_offset(1), asc.get_gather_mask_remain_count):
        with pytest.raises(TypeError):
            on_core(lambda call=call: call() + 1)
