"""Checks of 10_numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.spec import (
    Attempt,
    CaseRun,
    Check,
    Fact,
    Misconception,
    Sign,
    allclose,
    call,
    catches,
    change,
    exact,
    gives,
    got,
    how_many_right,
    instructions,
    kernel,
    kernel_blocks,
    raises,
    read,
    sign,
    source,
)

Array = NDArray[Any]
HALF = np.float16

# -- 1 predict ---------------------------------------------------------------------------------------


def draw_predict(rng: Generator, size: None) -> dict[str, Any]:
    # a + b lies in the middle between two numbers of float16, and goes up.
    a = 4 * int(rng.integers(520, 1000)) + 2
    b = 2 * int(rng.integers(1, 9)) + 1
    b += 2 if (a + b) % 4 == 1 else 0
    # Neither dividing 65504 nor dividing 65535 gives the same as what rounds to a finite number.
    each = int(rng.choice([n for n in range(6, 32) if 65535 // n > 65519 // n > 65504 // n]))
    exponent = int(rng.integers(5, 10))
    value = int(rng.integers(2**exponent + 1, 2 ** (exponent + 1)))
    return {"a": a, "b": b, "piece": float(rng.choice([0.25, 0.5, 2, 4, 8])), "value": value, "each": each}


def numbers(a: int, b: int, piece: float, value: int, each: int) -> dict[str, Any]:
    return {
        "sum": int(HALF(a) + HALF(b)),
        "stuck_half": 2048 * piece,
        "stuck_brain": 256 * piece,
        "step": 2.0 ** int(np.floor(np.log2(value)) - 10),
        "fit": 65519 // each,
    }


def answer(name: str, wrong: Callable[..., Any]) -> Sign:
    """The entry of this name is what a wrong formula gives."""
    return got(lambda result, **case: isinstance(result, dict) and result.get(name) == wrong(**case))


PREDICT = Check(
    "10_numbers.predict",
    run=read("numbers"),
    draw=draw_predict,
    reference=numbers,
    compare=exact(dtype=False),
    must=(how_many_right("numbers are"),),
    misconceptions=(
        Misconception(
            "exact_sum",
            change("int(np.float16(a) + np.float16(b))", "a + b"),
            answer("sum", lambda a, b, **_: a + b),
            what="the sum is the exact one.",
            why="From 2048 to 4096 a float16 is an even number: 10 bits of mantissa leave steps of 2.",
            do="Round a + b to an even number.",
        ),
        Misconception(
            "tie_down",
            change("int(np.float16(a) + np.float16(b))", "a + b - 1"),
            answer("sum", lambda a, b, **_: a + b - 1),
            what="the sum is cut off, not rounded.",
            why="In the middle between two numbers the one with the even mantissa wins; here that is a multiple of 4.",
            do="Of the two neighbours take the one that 4 divides.",
        ),
        Misconception(
            "largest_number",
            change("2048 * piece", "65504"),
            answer("stuck_half", lambda **_: 65504),
            what="the sum grows up to the largest float16.",
            why="It stops much earlier: as soon as the piece is half a step, the sum rounds back to itself.",
            do="Find where the step of float16 is twice the piece.",
        ),
        Misconception(
            "pieces_counted",
            change("2048 * piece", "2048"),
            answer("stuck_half", lambda **_: 2048),
            what="2048 is the answer for pieces of 1.",
            why="Steps grow in proportion to the number: for another piece the place moves with it.",
            do="Multiply by the piece.",
        ),
        Misconception(
            "same_for_both",
            change("256 * piece", "2048 * piece"),
            answer("stuck_brain", lambda piece, **_: 2048 * piece),
            what="bfloat16 is treated as float16.",
            why="bfloat16 has 7 bits of mantissa, 3 fewer, so its steps are 8 times larger.",
            do="Divide the place by 8.",
        ),
        Misconception(
            "one_bit_less",
            change("256 * piece", "128 * piece"),
            answer("stuck_brain", lambda piece, **_: 128 * piece),
            what="the sum is stuck one power of two too early.",
            why="At 128 pieces the step of bfloat16 is one piece, so the next sum is still exact.",
            do="Look for the place where the step is two pieces.",
        ),
        Misconception(
            "epsilon_everywhere",
            change("2.0 ** (np.floor(np.log2(value)) - 10)", "2.0**-10"),
            answer("step", lambda **_: 2.0**-10),
            what="the step is the machine epsilon.",
            why="Epsilon is the step at 1. At twice the number the step is twice as large.",
            do="Multiply it by the largest power of two that is not above the value.",
        ),
        Misconception(
            "eleven_bits",
            change(" - 10)", " - 11)"),
            answer("step", lambda value, **_: 2.0 ** int(np.floor(np.log2(value)) - 11)),
            what="the step is half as large as it is.",
            why="float16 stores 10 bits behind the leading 1; the 1 itself is the eleventh.",
            do="Between 1024 and 2048 the step is 1: check your rule there.",
        ),
        Misconception(
            "relative_step",
            change("2.0 ** (np.floor(np.log2(value)) - 10)", "value * 2.0**-10"),
            answer("step", lambda value, **_: value * 2.0**-10),
            what="the step grows smoothly with the value.",
            why="It is the same from one power of two to the next, and doubles there.",
            do="Take the largest power of two that is not above the value, times 2 ** -10.",
        ),
        Misconception(
            "up_to_the_largest",
            change("(65520 - 1) // each", "65504 // each"),
            answer("fit", lambda each, **_: 65504 // each),
            what="one more number fits.",
            why="An exact sum between 65504 and 65520 still rounds down to 65504.",
            do="Ask for the largest multiple that is below 65520.",
        ),
        Misconception(
            "up_to_65536",
            change("(65520 - 1) // each", "65535 // each"),
            answer("fit", lambda each, **_: 65535 // each),
            what="the range is taken for that of a 16-bit integer.",
            why="A float16 ends at 65504, and what rounds beyond it is inf.",
            do="Ask for the largest multiple that is below 65520.",
        ),
    ),
)

# -- 2 brain -----------------------------------------------------------------------------------------


def draw_brain(rng: Generator, size: str) -> dict[str, Any]:
    count = 65
    bits: Array = rng.integers(0x3A000000, 0x47000000, count, dtype=np.uint32)
    upper, sign_bit = bits & 0xFFFF0000, rng.integers(0, 2, count, dtype=np.uint32) << 31
    if size == "middle":
        bits = upper | 0x8000
    elif size == "beside the middle":
        bits = upper | rng.choice(np.array([0x7FFF, 0x8001, 0x0001, 0xFFFF], np.uint32), count)
    elif size == "exact":
        bits = upper
    elif size == "largest":
        bits = np.uint32(0x7F7F0000) | rng.integers(0, 0x10000, count, dtype=np.uint32)
    elif size == "tiny":
        bits = rng.integers(0, 0x00800000, count, dtype=np.uint32)
    return {"x": (bits.astype(np.uint32) | sign_bit).view(np.float32)}


def brain(x: Array, add: Callable[[Array], Any] = lambda bits: 0x7FFF + (bits >> 16 & 1)) -> Array:
    """The nearest bfloat16 of each float32; ``add`` is what is added to the bits before they are cut off."""
    bits = x.view(np.uint32).astype(np.uint64)
    found: Array = ((bits + add(bits)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return found


BRAIN = Check(
    "10_numbers.brain",
    run=call("to_brain"),
    draw=draw_brain,
    sizes=("any", "middle", "beside the middle", "exact", "largest", "tiny"),
    reference=brain,
    misconceptions=(
        Misconception(
            "cut_off",
            change("(bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)", "bits & np.uint32(0xFFFF0000)"),
            gives(lambda x: brain(x, lambda bits: 0)),
            what="the lower bits are cut off.",
            why="Cutting gives the neighbour that is nearer to zero, not the nearest one.",
            do="Add before you cut, so that everything above the middle carries into the upper half.",
        ),
        Misconception(
            "middle_up",
            change("np.uint32(0x7FFF) + odd", "np.uint32(0x8000)"),
            gives(lambda x: brain(x, lambda bits: 0x8000)),
            what="in the middle the larger neighbour always wins.",
            why="Ties go to the neighbour whose last bit is 0: half of them go up, half go down.",
            do="Add 0x7FFF, and 1 more only if the last bit that stays is 1.",
        ),
        Misconception(
            "middle_down",
            change(" + odd)", ")"),
            gives(lambda x: brain(x, lambda bits: 0x7FFF)),
            what="in the middle the smaller neighbour always wins.",
            why="Ties go to the neighbour whose last bit is 0: half of them go up, half go down.",
            do="Add 1 more if the last bit that stays, (bits >> 16) & 1, is 1.",
        ),
        Misconception(
            "middle_to_odd",
            change("odd = (bits >> 16) & 1", "odd = 1 - ((bits >> 16) & 1)"),
            gives(lambda x: brain(x, lambda bits: 0x8000 - (bits >> 16 & 1))),
            what="in the middle the odd neighbour wins.",
            why="A last bit of 1 must be got rid of, so it is the odd ones that go up.",
            do="Add the last bit itself, not its opposite.",
        ),
        Misconception(
            "wrong_bit",
            change("(bits >> 16) & 1", "(bits >> 17) & 1"),
            gives(lambda x: brain(x, lambda bits: 0x7FFF + (bits >> 17 & 1))),
            what="the wrong bit decides what happens in the middle.",
            why="Bits 0 to 15 are cut off, so the last bit that stays is bit 16.",
            do="Shift by 16.",
        ),
        Misconception(
            "always_up",
            change("np.uint32(0x7FFF) + odd", "np.uint32(0xFFFF)"),
            gives(lambda x: brain(x, lambda bits: 0xFFFF)),
            what="every number goes away from zero.",
            why="Adding 0xFFFF carries for anything that is not exact.",
            do="Add half of the lower part only: 0x7FFF, and the last bit that stays.",
        ),
        Misconception(
            "through_float16",
            change("return rounded.view(np.float32)", "return x.astype(np.float16).astype(np.float32)"),
            source(r"float16"),
            what="the numbers go through float16.",
            why="float16 is another type: more mantissa, less exponent. Large numbers become inf there.",
            do="Work on the bits of the float32.",
        ),
        Misconception(
            "bits_returned",
            change("return rounded.view(np.float32)", "return rounded"),
            got(lambda result, x: isinstance(result, np.ndarray) and result.dtype.kind in "iu"),
            what="the result is whole numbers: the bits.",
            why="The task asks for a float32 array whose lower 16 bits are zero.",
            do="Return rounded.view(np.float32).",
        ),
        Misconception(
            "cast_for_view",
            change("rounded.view(np.float32)", "rounded.astype(np.float32)"),
            gives(lambda x: brain(x).view(np.uint32).astype(np.float32)),
            what="the bits came back as numbers.",
            why="astype converts the value; view reads the same bits as another type.",
            do="End with view(np.float32).",
        ),
        Misconception(
            "float_view_cast",
            change("bits = x.view(np.uint32)", "bits = x.astype(np.uint32)"),
            source(r"x\.astype\(np\.uint32\)|x\.astype\('uint32'\)"),
            what="x was converted to whole numbers.",
            why="astype(np.uint32) cuts 1.7 to 1; the bits of 1.7 are something else.",
            do="Use x.view(np.uint32).",
        ),
    ),
)

# -- 3 quantise --------------------------------------------------------------------------------------


def draw_quantise(rng: Generator, size: str) -> dict[str, Any]:
    """A range of 255 steps together with 0, and numbers in it and outside, never in the middle between two steps."""
    low, high = {
        "both signs": (-100, 155),
        "positive": (40, 255),
        "negative": (-255, -30),
        "mostly negative": (-237, 18),
        "nothing but zero": (0, 0),
        "one number": (255, 255),
    }[size]
    scale = float(rng.uniform(0.01, 0.4))
    places = rng.integers(low - 60, high + 60, 301) + rng.uniform(-0.4, 0.4, 301)
    if low == high == 0:
        return {"x": np.array([0.0, 0.0, 1.2, -2.6, 0.0]), "low": 0.0, "high": 0.0}
    shift = rng.uniform(0.1, 0.4) if low < 0 < high else 0  # then the zero point must be rounded
    return {"x": places * scale, "low": (low + shift) * scale, "high": (high + shift) * scale}


def quantise(x: Array, low: float, high: float, steps: int = 255) -> tuple[Array, float, int]:
    """``(q, scale, zero)``."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (high - low) / steps or 1.0
    zero = round(-128 - low / scale)
    return np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8), scale, zero


def part(test: Callable[..., bool]) -> Sign:
    """Some failed case gave three things for which ``test(q, scale, zero, x, low, high)`` is true."""

    def ask(result: Any, x: Array, low: float, high: float) -> bool:
        return isinstance(result, (list, tuple)) and len(result) == 3 and bool(test(*result, x, low, high))

    return got(ask)


def scaled(wrong: Callable[[float, float], float]) -> Sign:
    """Every scale is what this formula gives (not asked where the range is empty)."""

    def same(scale: Any, low: float, high: float) -> bool:
        return isinstance(scale, (int, float)) and abs(scale - wrong(low, high)) <= 1e-6 * abs(wrong(low, high))

    def ask(attempt: Attempt) -> bool:
        shown = [case for case in attempt.cases if case.inputs["low"] != case.inputs["high"]]
        results = [(case.got, case.inputs) for case in shown if isinstance(case.got, (list, tuple))]
        return bool(results) and all(
            len(result) == 3 and same(result[1], inputs["low"], inputs["high"]) for result, inputs in results
        )

    return sign(ask)


def stored(q: Callable[[Array, float, int], Array]) -> Sign:
    """Every q is what a wrong formula of x, scale and zero gives."""

    def same(result: Any, x: Array, low: float, high: float) -> bool:
        if not isinstance(result, (list, tuple)) or len(result) != 3 or not isinstance(result[0], np.ndarray):
            return False
        _, scale, zero = quantise(x, low, high)
        return result[0].dtype == np.int8 and np.array_equal(result[0], q(x, scale, zero))

    return sign(lambda attempt: all(same(case.got, **case.inputs) for case in attempt.cases))


def zeros(wrong: Callable[[float, float], float]) -> Sign:
    """Every zero point is what this formula of low (0 included) and scale gives, where the range is not empty."""

    def same(result: Any, x: Array, low: float, high: float) -> bool:
        right = isinstance(result, (list, tuple)) and len(result) == 3
        return right and bool(result[2] == wrong(min(low, 0.0), quantise(x, low, high)[1]))

    return sign(
        lambda attempt: (
            bool(attempt.failed)
            and all(
                same(case.got, **case.inputs) for case in attempt.cases if case.inputs["high"] != case.inputs["low"]
            )
        )
    )


QUANTISE = Check(
    "10_numbers.quantise",
    run=call("quantise"),
    draw=draw_quantise,
    sizes=("both signs", "positive", "negative", "mostly negative", "nothing but zero", "one number"),
    reference=quantise,
    compare=allclose(rtol=1e-6),
    misconceptions=(
        Misconception(
            "no_scale_for_zeros",
            change(" or 1.0", ""),
            raises("ZeroDivisionError") | raises("ValueError", "NaN") | raises("OverflowError"),
            what="an empty range has the scale 0.",
            why="0 / 0 is no number, and nothing can be rounded from it.",
            do="Take the scale 1.0 if the range is empty: (high - low) / 255 or 1.0.",
        ),
        Misconception(
            "range_of_this_array",
            change("min(low, 0.0), max(high, 0.0)", "min(x.min(), 0.0), max(x.max(), 0.0)"),
            part(lambda q, scale, zero, x, low, high: scale == (max(x.max(), 0.0) - min(x.min(), 0.0)) / 255),
            what="the range is that of this array.",
            why="The range was measured on typical data; an outlier in this array must not make the steps larger.",
            do="Use low and high. What lies outside saturates.",
        ),
        Misconception(
            "zero_left_out",
            change("min(low, 0.0), max(high, 0.0)", "low, high"),
            scaled(lambda low, high: (high - low) / 255),
            what="the range does not reach 0.0.",
            why="0.0 must have an int8 of its own: padding and Relu make exact zeros.",
            do="Take min(low, 0.0) and max(high, 0.0).",
        ),
        Misconception(
            "numbers_for_steps",
            change("/ 255", "/ 256"),
            scaled(lambda low, high: (max(high, 0.0) - min(low, 0.0)) / 256),
            what="the range is divided by 256.",
            why="256 numbers have 255 steps between them.",
            do="Divide by 255.",
        ),
        Misconception(
            "symmetric",
            change("(high - low) / 255", "max(high, -low) / 127", "round(-128 - low / scale)", "0"),
            scaled(lambda low, high: max(abs(low), abs(high)) / 127)
            | scaled(lambda low, high: max(abs(low), abs(high)) / 128),
            what="the quantisation is symmetric around 0.",
            why="That is usual for weights; for numbers of mostly one sign it wastes up to half of the int8.",
            do="Spread the range over 255 steps, and move it with the zero point.",
        ),
        Misconception(
            "unsigned",
            change("round(-128 - low / scale)", "round(-low / scale)", "-128, 127", "0, 255", "np.int8", "np.uint8"),
            zeros(lambda low, scale: round(-low / scale)),
            what="the zero point is that of an unsigned type.",
            why="An int8 begins at -128, and low must land there.",
            do="Subtract 128: round(-128 - low / scale).",
        ),
        Misconception(
            "wraps",
            change(
                "np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8)",
                "(np.round(x / scale) + zero).astype(np.int64).astype(np.int8)",
            ),
            stored(lambda x, scale, zero: (np.round(x / scale) + zero).astype(np.int64).astype(np.int8)),
            what="a number outside the range wrapped around to the other side.",
            why="astype keeps the lower 8 bits: 128 becomes -128.",
            do="Saturate with np.clip(..., -128, 127) before astype.",
        ),
        Misconception(
            "clipped_too_early",
            change(
                "np.clip(np.round(x / scale) + zero, -128, 127)",
                "(np.clip(np.round(x / scale), -128, 127) + zero).astype(int)",
            ),
            stored(lambda x, s, z: (np.clip(np.round(x / s), -128, 127) + z).astype(np.int64).astype(np.int8)),
            what="the numbers are clipped before the zero point is added.",
            why="It is the sum that must fit into an int8.",
            do="Add zero first, then clip, then convert.",
        ),
        Misconception(
            "cut_off",
            change("np.round(x / scale)", "np.trunc(x / scale)"),
            stored(lambda x, scale, zero: np.clip(np.trunc(x / scale) + zero, -128, 127))
            | stored(lambda x, scale, zero: np.clip(np.trunc(x / scale + zero), -128, 127)),
            what="x / scale is cut off.",
            why="astype and int() go towards zero; the error is then up to a whole step.",
            do="Use np.round before you convert.",
        ),
        Misconception(
            "floor",
            change("np.round(x / scale)", "np.floor(x / scale)"),
            stored(lambda x, scale, zero: np.clip(np.floor(x / scale) + zero, -128, 127)),
            what="x / scale is rounded down.",
            why="The error is then up to a whole step instead of half a step.",
            do="Use np.round.",
        ),
        Misconception(
            "zero_point_subtracted",
            change("+ zero", "- zero"),
            stored(lambda x, scale, zero: np.clip(np.round(x / scale) - zero, -128, 127)),
            what="the zero point is subtracted.",
            why="x = 0.0 must become zero: x / scale + zero. It is subtracted on the way back.",
            do="Add it.",
        ),
        Misconception(
            "no_zero_point",
            change("np.round(x / scale) + zero", "np.round(x / scale)"),
            stored(lambda x, scale, zero: np.clip(np.round(x / scale), -128, 127)),
            what="the zero point is not used.",
            why="Without it x = 0.0 becomes 0, and everything above 127 steps is cut off.",
            do="Add zero before you clip.",
        ),
        Misconception(
            "not_int8",
            change(".astype(np.int8)", ""),
            part(lambda q, scale, zero, *case: isinstance(q, np.ndarray) and q.dtype != np.int8),
            what="q is no int8 array.",
            why="np.round gives floats, eight bytes each: nothing is saved.",
            do="End with .astype(np.int8), after np.clip.",
        ),
        Misconception(
            "zero_cut_off",
            change("round(-128 - low / scale)", "int(-128 - low / scale)"),
            zeros(lambda low, scale: int(-128 - low / scale)),
            what="the zero point is cut off.",
            why="int() goes towards zero; then 0.0 lies up to a whole step beside its number.",
            do="Use round().",
        ),
        Misconception(
            "zero_not_rounded",
            change("round(-128 - low / scale)", "-128 - low / scale"),
            part(lambda q, scale, zero, *case: isinstance(zero, float) and zero != round(zero)),
            what="the zero point is no whole number.",
            why="It is the int8 that stands for 0.0.",
            do="Round it: round(-128 - low / scale).",
        ),
    ),
)

# -- 4 add_long --------------------------------------------------------------------------------------


def draw_add_long(rng: Generator, tiles: int) -> dict[str, Any]:
    """One large tile, then small ones: in float16 the small ones vanish."""
    x = rng.uniform(0.1, 0.2, (tiles, 128))
    x[0] = rng.uniform(600, 1000, 128)
    return {"x": x.astype(HALF).reshape(-1), "z": np.zeros(128, HALF)}


def added(x: Array, z: Array) -> Array:
    sums: Array = x.reshape(-1, 128).astype(np.float64).sum(axis=0).astype(HALF)
    return sums


def added_short(x: Array, z: Array) -> Array:
    total = np.zeros(128, HALF)
    for tile in x.reshape(-1, 128):
        total = total + tile
    return total


_SHORT_SUM = (
    "sums.get(asc.float32), casts.get(asc.float32)",
    "sums.get(asc.float16), casts.get(asc.float32)",
    "        asc.cast(wide, tile, asc.RoundMode.CAST_NONE, 128)\n",
    "",
    "asc.add(total, total, wide, count=128)",
    "asc.add(total, total, tile, count=128)",
    "    asc.cast(result, total, asc.RoundMode.CAST_RINT, 128)",
    "    asc.adds(result, total, 0.0, count=128)",
)

_THERE_AND_BACK = change(
    "        in_x.free_tensor(tile)\n",
    "        asc.cast(tile, total, asc.RoundMode.CAST_RINT, 128)\n"
    "        asc.cast(total, tile, asc.RoundMode.CAST_NONE, 128)\n"
    "        in_x.free_tensor(tile)\n",
)

_CUT = change("asc.RoundMode.CAST_RINT", "asc.RoundMode.CAST_TRUNC")


def added_and_cut(x: Array, z: Array) -> Array:
    sums = x.reshape(-1, 128).astype(np.float64).sum(axis=0)
    near = sums.astype(HALF)
    found: Array = np.where(near.astype(np.float64) > sums, np.nextafter(near, HALF(0)), near)
    return found


def without(sums: Callable[[Array], Array]) -> Sign:
    """Every result is a sum over some of the tiles only."""
    return gives(
        lambda x, z: sums(x.reshape(-1, 128).astype(np.float64)).astype(HALF), allclose(rtol=5e-4, dtype=False)
    )


casts_twice = sign(
    lambda attempt: all(
        case.kernel is not None and case.kernel.counts()["cast"] > case.size + 1 for case in attempt.cases
    )
)
"""More casts than one for each tile and one for the result."""

ADD_LONG = Check(
    "10_numbers.add_long",
    run=kernel("launch", out="z"),
    draw=draw_add_long,
    sizes=(1, 2, 33, 200),
    reference=added,
    compare=allclose(rtol=1e-4),
    must=(
        kernel_blocks(1, 1),
        instructions(
            "cast", at_least=2, do="Cast each tile to float32 before you add it, and the sum back at the end."
        ),
    ),
    misconceptions=(
        Misconception(
            "rounded_in_the_loop",
            _THERE_AND_BACK,
            gives(added_short) & casts_twice,
            what="the sum goes back to float16 in every step.",
            why="Each trip through float16 rounds to steps of 0.5 near 1000, as adding in float16 does.",
            do="Keep total in float32 through the whole loop; cast once, behind it.",
        ),
        Misconception(
            "still_short",
            change(*_SHORT_SUM),
            gives(added_short),
            what="the tiles are still added in float16.",
            why="Where the sum is near 1000 its step is 0.5, so tiles of 0.2 vanish one by one.",
            do="Make total a float32 tensor, and cast each tile to float32 before the add.",
        ),
        Misconception(
            "cut_off",
            _CUT,
            gives(added_and_cut),
            what="the last cast cuts off.",
            why="CAST_TRUNC goes towards zero and CAST_FLOOR down: all sums come out too small.",
            do="Use CAST_RINT: the nearest, ties to even.",
        ),
        Misconception(
            "sum_not_cleared",
            change("    asc.duplicate(total, 0.0, 128)\n", ""),
            fault="kernel.undefined",
        ),
        Misconception(
            "last_tile_only",
            change("asc.add(total, total, wide, count=128)", "asc.adds(total, wide, 0.0, count=128)"),
            without(lambda tiles: tiles[-1]),
            what="only the last tile is in the result.",
            why="The tensor that collects must be among the inputs of the add.",
            do="Write asc.add(total, total, wide, count=128).",
        ),
        Misconception(
            "first_tile_again",
            change("x_gm[i * 128 :]", "x_gm"),
            without(lambda tiles: tiles[0] * len(tiles)),
            what="the first tile is added again and again.",
            why="Each turn of the loop must copy its own 128 numbers.",
            do="Copy from x_gm[i * 128 :].",
        ),
        Misconception(
            "one_tile_short",
            change("asc.range(tiles)", "asc.range(tiles - 1)"),
            without(lambda tiles: tiles[:-1].sum(axis=0)),
            what="the last tile is missing.",
            why="asc.range(n) counts from 0 to n - 1, as Python's range does.",
            do="Go over asc.range(tiles).",
        ),
        Misconception(
            "half_the_lanes",
            change("asc.add(total, total, wide, count=128)", "asc.add(total, total, wide, count=64)"),
            gives(
                lambda x, z: np.r_[added(x, z)[:64], np.zeros(64, HALF)],
                allclose(rtol=5e-4, dtype=False),
            ),
            what="only the first 64 numbers are added.",
            why="64 floats are one repeat of the Vector unit, but count says how many elements in all.",
            do="Write count=128.",
        ),
    ),
)

# -- 5 rms -------------------------------------------------------------------------------------------

_OPERATORS: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Sqrt": np.sqrt,
    "Mul": np.multiply,
    "Div": np.divide,
    "Add": np.add,
    "ReduceMax": np.max,
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
}


def _rms_input(rng: Generator, kind: str) -> Array:
    count, size = {"usual": (50, 1.0), "large": (50, 60000.0), "small": (50, 2e-4), "many": (200_000, 30.0)}.get(
        kind, (1, 250.0)
    )
    x = rng.uniform(0.3, 1, count) * rng.choice([-1, 1], count) * size
    if kind in ("large", "small"):
        x[x > 0] *= 0.002  # the largest number is not the one with the largest absolute value
    found: Array = x.astype(HALF)
    return found


RMS_KINDS = ("usual", "large", "small", "many", "one number")


def draw_rms(rng: Generator, size: None) -> dict[str, Any]:
    return {kind.replace(" ", "_"): _rms_input(rng, kind) for kind in RMS_KINDS}


def run_graph(nodes: Any, x: Array) -> Any:
    """y of a graph in which every tensor is rounded to float16. Any error if the graph is none."""
    tensors: dict[str, Any] = {"x": x, "n": HALF(min(x.size, 65504))}
    with np.errstate(all="ignore"):
        for result, operator, *inputs in nodes:
            wide = [tensors[name].astype(np.float32) for name in inputs]
            tensors[result] = _OPERATORS[operator](*wide).astype(HALF)
    return tensors["y"]


def rms(x: Array) -> float:
    return float(np.sqrt(np.mean(x.astype(np.float64) ** 2)))


def outcome(nodes: Any, x: Array) -> float:
    """y as a number; an error where the graph gives none."""
    y = run_graph(nodes, x)
    if np.ndim(y):
        raise ValueError
    return float(y)


def is_rms(nodes: Any, x: Array) -> bool:
    return abs(outcome(nodes, x) - rms(x)) <= 2e-3 * rms(x)


def right_for(kind: str) -> Callable[[CaseRun], Fact]:
    """The graph is right for the input of this kind."""

    def ask(case: CaseRun) -> Fact:
        x = case.inputs[kind.replace(" ", "_")]
        do = "Look which tensor of run(nodes, x) leaves the range of float16, or has lost its digits."
        try:
            y = outcome(case.got, x)
        except Exception:
            # The graph is the learner's: anything may be wrong with it.
            do = "Write steps (result, operator, input, ...) that use earlier results, and call the last one y."
            return Fact(kind, False, f"{kind}: the graph cannot be computed, or gives no single number y", do)
        wanted = rms(x)
        text = f"{kind} ({x.size} x about {np.abs(x).max():.3g}): y = {y:.4g}, exact {wanted:.4g}"
        return Fact(kind, is_rms(case.got, x), text, do)

    return ask


def rms_outcome(kind: str, test: Callable[[float, Array], bool]) -> Sign:
    """What the graph gives for the input of this kind satisfies ``test(y, x)``."""

    def ask(attempt: Attempt) -> bool:
        x = attempt.cases[0].inputs[kind.replace(" ", "_")]
        try:
            return test(outcome(attempt.cases[0].got, x), x)
        except Exception:
            # A graph that cannot be computed shows no sign.
            return False

    return sign(ask)


def wrong_for(*kinds: str) -> Sign:
    """The graph is wrong for exactly these kinds of input."""

    def ask(attempt: Attempt) -> bool:
        facts = attempt.cases[0].facts
        return {fact.name for fact in facts if not fact.ok} == set(kinds)

    return sign(ask)


def close(y: float, wanted: float) -> bool:
    return abs(y - wanted) <= 5e-3 * abs(wanted)


def operators(nodes: Any) -> list[str]:
    return [str(step[1]) for step in nodes if isinstance(step, (list, tuple)) and len(step) > 1]


def uses(*names: str) -> Sign:
    """The graph has these operators."""
    return sign(
        lambda attempt: (
            isinstance(attempt.cases[0].got, (list, tuple)) and set(names) <= set(operators(attempt.cases[0].got))
        )
    )


_RMS_SUM = ('("mean", "ReduceMean", "square")', '("sum", "ReduceSum", "square"),\n    ("mean", "Div", "sum", "n")')

RMS = Check(
    "10_numbers.rms",
    run=read("nodes"),
    draw=draw_rms,
    must=tuple(right_for(kind) for kind in RMS_KINDS),
    misconceptions=(
        Misconception(
            "no_abs",
            change('    ("size", "Abs", "x"),\n', "", '("m", "ReduceMax", "size")', '("m", "ReduceMax", "x")'),
            uses("ReduceMax") & ~uses("Abs"),
            what="the largest number is taken, not the largest absolute value.",
            why="-400 is large too; after the division by a small number its square overflows again.",
            do="Take Abs before ReduceMax.",
        ),
        Misconception(
            "only_the_mean",
            """# exercise: 10_numbers.rms
nodes = [
    ("square", "Mul", "x", "x"),
    ("mean", "ReduceMean", "square"),
    ("y", "Sqrt", "mean"),
]
""",
            wrong_for("large", "small") & ~uses("ReduceMax"),
            what="the sum no longer overflows, the squares still do.",
            why="The square of 300 is 90,000, and the square of 0.0001 is 0.00000001: float16 holds neither.",
            do="Divide x by its largest absolute value before you square it.",
        ),
        Misconception(
            "sum_still_there",
            change(*_RMS_SUM),
            wrong_for("many") & uses("ReduceMax"),
            what="the numbers are scaled, the sum is still a tensor.",
            why="Rounded to float16, a long sum loses digits, and n itself may not be a float16.",
            do="Use ReduceMean: it never shows its sum.",
        ),
        Misconception(
            "not_scaled_back",
            change('    ("root", "Sqrt", "mean"),\n    ("y", "Mul", "root", "m"),\n', '    ("y", "Sqrt", "mean"),\n'),
            rms_outcome("large", lambda y, x: close(y, rms(x) / float(np.abs(x).max()))),
            what="the result is that of the scaled numbers.",
            why="You divided by m, so the root mean square became m times smaller.",
            do="Multiply by m at the end.",
        ),
        Misconception(
            "squares_scaled",
            change(
                '    ("small", "Div", "x", "m"),\n    ("square", "Mul", "small", "small"),\n',
                '    ("first", "Mul", "x", "x"),\n    ("second", "Div", "first", "m"),\n'
                '    ("square", "Div", "second", "m"),\n',
            ),
            wrong_for("large", "small") & source(r"'Mul', ?'x', ?'x'"),
            what="the squares are divided, not the numbers.",
            why="A square that has become inf stays inf, whatever it is divided by.",
            do="Divide x first, then square.",
        ),
        Misconception(
            "scaled_back_too_early",
            change(
                '    ("root", "Sqrt", "mean"),\n    ("y", "Mul", "root", "m"),\n',
                '    ("back", "Mul", "mean", "m"),\n    ("again", "Mul", "back", "m"),\n    ("y", "Sqrt", "again"),\n',
            ),
            wrong_for("large", "small") & uses("ReduceMax"),
            what="the scale comes back before the root.",
            why="The mean of the squares times m twice is as large as the squares were: it overflows.",
            do="Take the root first, then multiply by m once.",
        ),
        Misconception(
            "mean_of_sizes",
            """# exercise: 10_numbers.rms
nodes = [
    ("size", "Abs", "x"),
    ("y", "ReduceMean", "size"),
]
""",
            rms_outcome("usual", lambda y, x: close(y, float(np.abs(x.astype(np.float64)).mean()))),
            what="this is the mean of the absolute values.",
            why="The root mean square counts large numbers more; the two are equal only if all sizes are.",
            do="Square, take the mean, take the root.",
        ),
        Misconception(
            "no_root",
            change(
                '    ("root", "Sqrt", "mean"),\n    ("y", "Mul", "root", "m"),\n', '    ("y", "Mul", "mean", "m"),\n'
            ),
            rms_outcome("usual", lambda y, x: close(y, rms(x) ** 2 / float(np.abs(x).max()))),
            what="the root is missing.",
            why="A mean of squares is no size of x yet.",
            do="Put Sqrt between the mean and the last Mul.",
        ),
    ),
)

# -- 6 tolerance -------------------------------------------------------------------------------------

_TREE = """
def row_sum(x):
    parts = x.copy()
    while parts.shape[1] > 1:
        if parts.shape[1] % 2:
            parts = np.concatenate([parts, np.zeros((len(parts), 1), parts.dtype)], axis=1)
        parts = parts[:, 0::2] + parts[:, 1::2]
    return parts[:, 0]
"""

_ONE_BY_ONE = """
def row_sum(x):
    total = np.zeros(len(x), np.float16)
    for column in x.T:
        total = total + column
    return total
"""

WIDE = "x.astype(np.float32).sum(axis=1)"
RIGHT = {
    "sums in float32": f"def row_sum(x):\n    return {WIDE}.astype(np.float16)",
    "sums in float64, from right to left": "def row_sum(x):\n"
    "    return x[:, ::-1].astype(np.float64).sum(axis=1).astype(np.float16)",
    "a tree in float16": _TREE,
}
WRONG = {
    "one by one in float16": _ONE_BY_ONE,
    "whole repeats of 128 only": f"def row_sum(x):\n"
    f"    x = x[:, : x.shape[1] // 128 * 128] if x.shape[1] > 128 else x\n    return {WIDE}.astype(np.float16)",
    "1 % too large": f"def row_sum(x):\n    return ({WIDE} * 1.01).astype(np.float16)",
    "small numbers become 0": "def row_sum(x):\n"
    "    x = np.where(np.abs(x) < 6e-5, np.float16(0), x)\n"
    f"    return {WIDE}.astype(np.float16)",
    "a float32 result": f"def row_sum(x):\n    return {WIDE}",
    "sums of the columns": "def row_sum(x):\n    return x.astype(np.float32).sum(axis=0).astype(np.float16)",
}


def verdict(attempt: Attempt, title: str) -> str:
    """What the test said of a specimen: "passes", "fails" or ""."""
    for case in attempt.cases:
        if case.size == title and isinstance(case.got, list):
            return str(case.got[0])
    return ""


def accepted(title: str) -> Sign:
    return sign(lambda attempt: verdict(attempt, title) == "passes")


def refused(title: str) -> Sign:
    return sign(lambda attempt: verdict(attempt, title) == "fails")


_COMPARE = "assert np.allclose(got.astype(np.float64), exact, rtol=0.005, atol=1e-7)"

TOLERANCE = Check(
    "10_numbers.tolerance",
    run=catches("test", "row_sum", right=RIGHT, wrong=WRONG),
    misconceptions=(
        Misconception(
            "accepts_everything",
            "# exercise: 10_numbers.tolerance\ndef test(row_sum):\n    row_sum(np.ones((2, 100), np.float16))",
            sign(lambda attempt: all(verdict(attempt, title) == "passes" for title in (*RIGHT, *WRONG))),
            what="the test accepts every program.",
            why="Only an AssertionError, or another error, tells that a program is wrong.",
            do="Compare the result with a reference, in an assert.",
        ),
        Misconception(
            "reference_in_float16",
            change(
                "x.astype(np.float64).sum(axis=1)",
                "_one_by_one(x)",
                "def test",
                _ONE_BY_ONE.replace("row_sum", "_one_by_one") + "\n\ndef test",
            ),
            refused("sums in float32") & accepted("one by one in float16"),
            what="the reference has the very mistake that it should find.",
            why="A reference in float16 loses what the program under test loses.",
            do="Convert x to float64 before you add.",
        ),
        Misconception(
            "default_tolerance",
            change(", rtol=0.005, atol=1e-7", ""),
            refused("sums in float32") & refused("a tree in float16") & source(r"(all|is)close"),
            what="the test refuses even sums in float32.",
            why="The result is float16: rounding it once is an error of up to 0.05 %. The default rtol is 0.001 %.",
            do="Choose rtol from the type of the result, and allow what a right program needs.",
        ),
        Misconception(
            "refuses_everything",
            "# exercise: 10_numbers.tolerance\n"
            "def test(row_sum):\n    assert row_sum(np.ones((2, 3), np.float16)) == 3",
            sign(lambda attempt: all(verdict(attempt, title) == "fails" for title in (*RIGHT, *WRONG))),
            what="the test refuses every program, the right ones too.",
            why="Who refuses everything finds every mistake, and helps nobody.",
            do="Run it on a right program of your own first.",
        ),
        Misconception(
            "plus_and_minus",
            change("random.random((3, n))", "random.standard_normal((300, n))"),
            refused("a tree in float16") & ~refused("sums in float32"),
            what="the tree in float16 is refused.",
            why="Where plus and minus cancel, the sum is small and the error is not: no rtol fits. "
            "For positive numbers a tree needs up to 0.5 %.",
            do="Use positive numbers and rtol=0.005.",
        ),
        Misconception(
            "generous",
            change("rtol=0.005", "rtol=0.1"),
            accepted("1 % too large") & ~accepted("sums of the columns"),
            what="a program whose sums are 1 % off passes.",
            why="The tolerance must lie below the errors that are mistakes.",
            do="Use rtol=0.005: what right programs need, and no more.",
        ),
        Misconception(
            "large_atol",
            change("atol=1e-7", "atol=0.1"),
            accepted("small numbers become 0") & source(r"atol ?= ?(1e-[1-3]|0\.\d|1\b)"),
            what="a program that loses small numbers passes: atol is larger than they are.",
            why="atol counts however small the wanted value is; for sums near 1e-5 an atol of 1e-3 accepts 0.",
            do="Take an atol near the smallest step of float16, 6e-8.",
        ),
        Misconception(
            "no_small_numbers",
            change("(1e-5, 1)", "(1,)"),
            accepted("small numbers become 0"),
            what="a program that loses small numbers passes.",
            why="Numbers below 6e-5 are special in float16 (subnormal), and your inputs have none, or too few.",
            do="Try a second size of numbers, such as 1e-5.",
        ),
        Misconception(
            "short_rows",
            change("5000", "200"),
            accepted("one by one in float16"),
            what="adding one by one in float16 passes.",
            why="Its error grows with the length; a short row does not show it. Ones are exact up to 2048.",
            do="Use a row of several thousand numbers, not only ones.",
        ),
        Misconception(
            "even_lengths",
            change("(1, 127, 129, 5000)", "(1, 128, 5120)"),
            accepted("whole repeats of 128 only"),
            what="a program that loses the tail passes.",
            why="All your lengths are multiples of 128, or shorter.",
            do="Try 129 and other odd lengths.",
        ),
        Misconception(
            "type_not_asked",
            change("got.dtype == np.float16 and ", ""),
            accepted("a float32 result"),
            what="a program that returns float32 passes.",
            why="The task asks for float16; who reads the bytes as float16 would get garbage.",
            do="Assert got.dtype as well.",
        ),
    ),
)

CHECKS = [PREDICT, BRAIN, QUANTISE, ADD_LONG, RMS, TOLERANCE]
