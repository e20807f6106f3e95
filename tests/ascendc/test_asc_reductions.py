"""Reductions, compare and select against their definitions."""

import numpy as np
import pytest
from asc_pieces import apply, data, same
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc

FLOATS = ["float16", "float32"]
SEED = st.integers(0, 1 << 30)
ORDER = asc.ReduceOrder


def tree(values):
    """(e0 + e1) + (e2 + e3) ..., each node in the element type."""
    level = list(values)
    while len(level) > 1:
        level = [level[k] + level[k + 1] if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
    return level[0]


def repeat_of(x, r, blk, rep, per, lanes):
    """(lane, value) of the active lanes of a repeat."""
    block = 32 // x.dtype.itemsize
    return [(lane, x[(r * rep + lane // block * blk) * block + lane % block]) for lane in lanes]


def padded(x, r, blk, rep, lanes):
    per = 256 // x.dtype.itemsize
    row = np.zeros(per, dtype=x.dtype)
    for lane, value in repeat_of(x, r, blk, rep, per, lanes):
        row[lane] = value
    return row


GEOMETRY = {
    "seed": SEED,
    "repeats": st.integers(1, 5),
    "mask": st.integers(1, 128),
    "blk": st.integers(0, 2),
    "rep": st.integers(0, 16),
    "dst": st.integers(1, 4),
}


@pytest.mark.parametrize("dtype", FLOATS)
@given(**GEOMETRY)
@settings(max_examples=10, deadline=None)
def test_whole_reduce_sum(dtype, seed, repeats, mask, blk, rep, dst):
    per = 256 // np.dtype(dtype).itemsize
    mask = (mask - 1) % per + 1
    x, d = data(seed, dtype, per * 16), data(seed + 1, dtype, 64)
    got = apply("s", d.copy(), [x], lambda t: asc.whole_reduce_sum(t[0], t[1], mask, repeats, dst, blk, rep))
    wanted = d.copy()
    for r in range(repeats):
        wanted[r * dst] = tree(padded(x, r, blk, rep, range(mask)))
    same(got, wanted)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("order", list(ORDER))
@pytest.mark.parametrize("dtype", FLOATS)
@given(**GEOMETRY)
@settings(max_examples=4, deadline=None)
def test_whole_reduce_extremes(name, order, dtype, seed, repeats, mask, blk, rep, dst):
    size = np.dtype(dtype).itemsize
    per = 256 // size
    mask = (mask - 1) % per + 1
    x, d = np.round(data(seed, dtype, per * 16)), data(seed + 1, dtype, 64)
    got = apply(
        "s",
        d.copy(),
        [x],
        lambda t: getattr(asc, f"whole_reduce_{name}")(t[0], t[1], mask, repeats, dst, blk, rep, order),
    )
    wanted = d.copy()
    for r in range(repeats):
        lanes = repeat_of(x, r, blk, rep, per, range(mask))
        best = (max if name == "max" else min)(value for _, value in lanes)
        index = next(lane for lane, value in lanes if value == best)
        bits = np.array([index], dtype=f"u{size}").view(dtype)[0]
        if order is ORDER.ORDER_ONLY_VALUE:
            wanted[r * dst] = best
        elif order is ORDER.ORDER_ONLY_INDEX:
            wanted.view("uint32")[r * dst] = index
        else:
            pair = (best, bits) if order is ORDER.ORDER_VALUE_INDEX else (bits, best)
            wanted[2 * r * dst], wanted[2 * r * dst + 1] = pair
    np.testing.assert_array_equal(got.view("u1"), wanted.view("u1"))


@pytest.mark.parametrize("name", ["sum", "max", "min"])
@pytest.mark.parametrize("dtype", FLOATS)
@given(**GEOMETRY)
@settings(max_examples=6, deadline=None)
def test_block_reduce(name, dtype, seed, repeats, mask, blk, rep, dst):
    block = 32 // np.dtype(dtype).itemsize
    per = block * 8
    mask = (mask - 1) % per + 1
    x, d = data(seed, dtype, per * 16), data(seed + 1, dtype, 8 * 5 * 4)
    got = apply(
        "s", d.copy(), [x], lambda t: getattr(asc, f"block_reduce_{name}")(t[0], t[1], repeats, mask, dst, blk, rep)
    )
    wanted = d.copy()
    for r in range(repeats):
        row = padded(x, r, blk, rep, range(mask))
        for b in range(8):
            active = row[b * block : min((b + 1) * block, mask)] if b * block < mask else row[:0]
            if not len(active):
                continue
            full = row[b * block : (b + 1) * block]
            wanted[r * dst * 8 + b] = tree(full) if name == "sum" else getattr(active, name)()
    same(got, wanted)


@pytest.mark.parametrize("dtype", FLOATS)
@given(**GEOMETRY)
@settings(max_examples=10, deadline=None)
def test_pair_reduce_sum(dtype, seed, repeats, mask, blk, rep, dst):
    per = 256 // np.dtype(dtype).itemsize
    mask = (mask - 1) % per + 1
    x, d = data(seed, dtype, per * 16), data(seed + 1, dtype, per // 2 * 5 * 4)
    got = apply("s", d.copy(), [x], lambda t: asc.pair_reduce_sum(t[0], t[1], repeats, mask, dst, blk, rep))
    wanted = d.copy()
    for r in range(repeats):
        row = padded(x, r, blk, rep, range(mask))
        for pair in range((mask + 1) // 2):
            wanted[r * dst * (per // 2) + pair] = row[2 * pair] + row[2 * pair + 1]
    same(got, wanted)


@pytest.mark.parametrize("dtype", FLOATS)
@given(seed=SEED, count=st.integers(1, 1000))
@settings(max_examples=10, deadline=None)
def test_reduce_over_a_count(dtype, seed, count):
    per = 256 // np.dtype(dtype).itemsize
    x = np.round(data(seed, dtype, 1024), 1)
    tmp = np.zeros(1024, dtype=dtype)
    got = apply("s", np.zeros(16, dtype), [x, tmp], lambda t: asc.reduce_sum(t[0], t[1], t[2], count=count))
    total = None
    for start in range(0, count, per):
        row = np.zeros(per, dtype=dtype)
        row[: min(per, count - start)] = x[start : min(start + per, count)]
        total = tree(row) if total is None else total + tree(row)
    assert got[0] == total
    for name in ("max", "min"):
        got = apply(
            "s",
            np.zeros(16, dtype),
            [x, tmp],
            lambda t, name=name: getattr(asc, f"reduce_{name}")(*t, count=count, cal_index=True),
        )
        best = getattr(x[:count], name)()
        assert got[0] == best
        assert got.view(f"u{np.dtype(dtype).itemsize}")[1] == int(np.flatnonzero(x[:count] == best)[0])


def test_masked_sum_is_a_tree_of_trees():
    x = data(3, "float32", 64 * 5)
    got = apply("s", np.zeros(8, "float32"), [x, x.copy()], lambda t: asc.reduce_sum(t[0], t[1], t[2], 64, 5, 8))
    assert got[0] == tree([tree(x[r * 64 : r * 64 + 64]) for r in range(5)])


OPERATORS = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}


@pytest.mark.parametrize("mode", OPERATORS)
@pytest.mark.parametrize("dtype", FLOATS)
@given(seed=SEED, repeats=st.integers(1, 4))
@settings(max_examples=3, deadline=None)
def test_compare(mode, dtype, seed, repeats):
    count = repeats * 256 // np.dtype(dtype).itemsize
    a, b = np.round(data(seed, dtype, count)), np.round(data(seed + 1, dtype, count))
    out = np.zeros(-(-count // 8 // 32) * 32, dtype="uint8")
    cmp = asc.CMPMODE[mode]
    packed = np.zeros_like(out)
    packed[: count // 8] = np.packbits(OPERATORS[mode](a, b), bitorder="little")
    same(apply("c", out, [a, b], lambda t: asc.compare(*t, cmp, count=count)), packed)
    mask, params = 256 // np.dtype(dtype).itemsize, asc.BinaryRepeatParams()
    same(apply("c", out, [a, b], lambda t: asc.compare(*t, cmp, mask, repeats, params)), packed)
    packed[: count // 8] = np.packbits(OPERATORS[mode](a, a.dtype.type(1)), bitorder="little")
    same(apply("c", out, [a], lambda t: asc.compare_scalar(*t, 1.0, cmp, count=count)), packed)


@pytest.mark.parametrize("dtype", FLOATS)
@given(seed=SEED, count=st.integers(1, 256))
@settings(max_examples=10, deadline=None)
def test_select(dtype, seed, count):
    size = np.dtype(dtype).itemsize
    count = -(-count * size // 32) * 32 // size
    a, b = data(seed, dtype, count), data(seed + 1, dtype, count)
    bits = np.random.default_rng(seed).integers(0, 256, 64, dtype="uint8")
    take = np.unpackbits(bits, bitorder="little").astype(bool)
    out = np.zeros(count, dtype)
    mode = asc.SelMode
    got = apply("s", out, [bits, a, b], lambda t: asc.select(*t, mode.VSEL_TENSOR_TENSOR_MODE, count=count))
    same(got, np.where(take[:count], a, b))
    got = apply("s", out, [bits, a], lambda t: asc.select(*t, 1.5, mode.VSEL_TENSOR_SCALAR_MODE, count=count))
    same(got, np.where(take[:count], a, np.dtype(dtype).type(1.5)))
    got = apply("s", out, [bits, a, b], lambda t: asc.select(*t, mode.VSEL_CMPMASK_SPR, count=count))
    same(got, np.where(take[np.arange(count) % (256 // size)], a, b))


def test_compare_into_the_register_and_select():
    a, b = data(1, "float32", 64), data(2, "float32", 64)

    def call(t):
        asc.compare(t[1], t[2], asc.CMPMODE.LT, 64, asc.BinaryRepeatParams())
        asc.select(
            t[0],
            t[1],
            t[2],
            repeat_times=1,
            repeat_params=asc.BinaryRepeatParams(),
            sel_mode=asc.SelMode.VSEL_CMPMASK_SPR,
        )

    same(apply("s", np.zeros(64, "float32"), [a, b], call), np.where(a < b, a, b))
