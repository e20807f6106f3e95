"""cast: all pairs and round modes against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from asc_pieces import apply, same
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc
from cannlab.machine import core
from cannlab.machine.core.conversion import PAIRS

MODES = asc.RoundMode
NAMES = [
    MODES.CAST_NONE,
    MODES.CAST_RINT,
    MODES.CAST_FLOOR,
    MODES.CAST_CEIL,
    MODES.CAST_ROUND,
    MODES.CAST_TRUNC,
    MODES.CAST_ODD,
]


def to_whole(x: Fraction, mode) -> int:
    """An exact number as an integer."""
    low = x.numerator // x.denominator
    rest = x - low
    if mode == MODES.CAST_FLOOR:
        return low
    if mode == MODES.CAST_CEIL:
        return low + (rest > 0)
    if mode == MODES.CAST_TRUNC:
        return low + (rest > 0 and x < 0)
    if mode == MODES.CAST_ROUND:
        return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and x > 0))
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


def neighbours(x: Fraction, kind) -> tuple:
    """The two values of a float type around an exact number (twice the same if it is exact)."""
    near = kind(float(x))
    if Fraction(float(near)) == x:
        return near, near
    if Fraction(float(near)) > x:
        return np.nextafter(near, kind(-np.inf)), near
    return near, np.nextafter(near, kind(np.inf))


def to_float(x: Fraction, kind, mode):
    """An exact number as a float type."""
    low, high = neighbours(x, kind)
    if low == high:
        return low
    if mode == MODES.CAST_FLOOR:
        return low
    if mode == MODES.CAST_CEIL:
        return high
    if mode == MODES.CAST_TRUNC:
        return low if x > 0 else high
    bits = "u2" if kind is np.float16 else "u4"
    if mode == MODES.CAST_ODD:
        return low if int(np.array(low).view(bits)) & 1 else high
    below, above = x - Fraction(float(low)), Fraction(float(high)) - x
    if below != above:
        return low if below < above else high
    if mode == MODES.CAST_ROUND:
        return high if x > 0 else low
    return low if int(np.array(low).view(bits)) % 2 == 0 else high


def expected(value, dst, mode):
    kind = np.dtype(dst).type
    x = Fraction(int(value)) if np.dtype(type(value)).kind in "iu" else Fraction(float(value))
    if np.dtype(dst).kind == "f":
        if np.dtype(type(value)) == np.dtype(dst):
            return kind(to_whole(x, mode))
        return to_float(x, kind, mode)
    limits = np.iinfo(dst)
    return kind(min(max(to_whole(x, mode), limits.min), limits.max))


CASES = [
    (src, dst, NAMES[mode])
    for (src, dst), modes in PAIRS.items()
    for mode in modes
    if (src, dst) != ("int32", "float16")
]


@pytest.mark.parametrize(("src", "dst", "mode"), CASES, ids=lambda v: getattr(v, "name", v))
@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=3, deadline=None)
def test_every_pair_and_mode(src, dst, mode, seed):
    rng = np.random.default_rng(seed)
    count = 128
    if np.dtype(src).kind == "f":
        x = np.concatenate(
            [
                rng.standard_normal(48) * 40,
                rng.integers(-60, 60, 48) + 0.5,
                rng.standard_normal(16) * 4000,
                rng.uniform(-1, 1, 16),
            ]
        ).astype(src)
    else:
        limits = np.iinfo(src)
        x = np.concatenate(
            [rng.integers(-100 if limits.min else 0, 100, 64), rng.integers(limits.min, limits.max, 64)]
        ).astype(src)
    got = apply("cast", np.zeros(count, dst), [x], lambda t: asc.cast(*t, mode, count=count))
    same(got, np.array([expected(value, dst, mode) for value in x], dtype=dst))


def test_saturation_and_nan():
    x = np.array([1e30, -1e30, np.nan, np.inf, -np.inf, 2147483648.0, 0.4, -0.4], dtype="float32")
    got = apply("cast", np.zeros(8, "int32"), [x], lambda t: asc.cast(*t, MODES.CAST_RINT, count=8))
    top, low = 2**31 - 1, -(2**31)
    same(got, np.array([top, low, 0, top, low, top, 0, 0], dtype="int32"))
    wide = apply("cast", np.zeros(8, "int64"), [x], lambda t: asc.cast(*t, MODES.CAST_TRUNC, count=8))
    assert wide[0] == 2**63 - 1
    assert wide[1] == -(2**63)
    assert wide[5] == 2147483648


def test_int32_to_half_multiplies_by_the_scale():
    x = np.arange(64, dtype="int32") * 100

    def call(t):
        asc.set_deq_scale(0.25)
        asc.cast(*t, MODES.CAST_NONE, count=64)

    same(apply("cast", np.zeros(64, "float16"), [x], call), (x * 0.25).astype("float16"))


def test_masked_cast_follows_the_wider_type():
    """Two repeats of 64 float32 become two half repeats of 128 bytes."""
    x = np.arange(128, dtype="float32") + 0.25
    params = asc.UnaryRepeatParams(1, 1, 4, 8)
    got = apply(
        "cast",
        np.zeros(128, "float16"),
        [x],
        lambda t: asc.cast(*t, MODES.CAST_NONE, mask=64, repeat_times=2, repeat_params=params),
    )
    same(got, x.astype("float16"))


def test_a_mode_that_the_pair_lacks():
    with pytest.raises(core.KernelFault) as caught:
        apply(
            "cast",
            np.zeros(64, "float32"),
            [np.zeros(64, "float16")],
            lambda t: asc.cast(*t, MODES.CAST_FLOOR, count=64),
        )
    assert caught.value.diagnosis.rule == "kernel.dtype"
