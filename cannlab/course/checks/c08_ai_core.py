"""Checks of 08_ai_core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.spec import (
    Change,
    Check,
    Cost,
    Misconception,
    Sign,
    allclose,
    call,
    change,
    gives,
    got,
    how_many_right,
    instructions,
    kernel,
    kernel_blocks,
    read,
    require,
    slow,
    source,
    unmet,
)

Array = NDArray[Any]
LESSON = "08_ai_core"

# -- 1 route -----------------------------------------------------------------------------------------

_PIPES = {
    "a tile of x: global memory to UB": "MTE2",
    "a block of a matrix: global memory to L1": "MTE2",
    "a result: UB to global memory": "MTE3",
    "a block of a matrix: L1 to L0A": "MTE1",
    "a block of a matrix: L1 to L0B": "MTE1",
    "a finished product: L0C to global memory": "FIXP",
    "convert a product to float16 on its way out of L0C": "FIXP",
    "multiply L0A by L0B, add into L0C": "M",
    "exp of a tile in the UB": "V",
    "the sum of a tile in the UB": "V",
    "cast a tile in the UB to float32": "V",
    "compute where the next tile begins": "S",
    "decide whether this is the last tile": "S",
}


def draw_route(rng: Generator, size: None) -> dict[str, Any]:
    """One step of each kind in any order: into the core, out of the UB, L1 to L0, out of L0C, V, S."""
    steps = []
    for pipe in ("MTE2", "MTE3", "MTE1", "FIXP", "V", "S"):
        steps.append(str(rng.choice([step for step, doer in _PIPES.items() if doer == pipe])))
    # The Cube's only step may stand for the one out of the UB.
    if rng.integers(2):
        steps[1] = "multiply L0A by L0B, add into L0C"
    return {"steps": [steps[k] for k in rng.permutation(6)]}


def _in_order(steps: list[str]) -> list[str]:
    return [_PIPES[step] for step in steps]


def _took(right: str, *wrong: str) -> Sign:
    """A step of the pipe ``right`` has one of the pipes ``wrong`` in the answer."""
    return got(
        lambda result, steps: any(
            _PIPES[step] == right and one in wrong for step, one in zip(steps, result, strict=False)
        )
    )


def _instead(text: str) -> Change:
    return change("[TABLE[step] for step in steps]", text)


ROUTE = Check(
    f"{LESSON}.route",
    run=read("pipes"),
    draw=draw_route,
    reference=_in_order,
    must=(how_many_right("pipes are"),),
    misconceptions=(
        Misconception(
            "one_for_all",
            _instead('["MTE2"] * 6'),
            got(lambda result, steps: len(set(result)) == 1),
            what="all steps have the same pipe.",
            why="Each pipe does one kind of work; the six steps are of different kinds.",
            do="Look at each step: where from and where to, or what is computed.",
        ),
        Misconception(
            "units_for_pipes",
            _instead(
                '[{"S": "Scalar", "V": "Vector", "M": "Cube"}.get(TABLE[step], TABLE[step]) for step in steps]',
            ),
            got(lambda result, steps: any(str(one).lower() in ("scalar", "vector", "cube", "core") for one in result)),
            what="you name units, not pipes.",
            why="The pipes are S, V, M, MTE1, MTE2, MTE3 and FIXP: the names that a timeline and a flag use.",
            do="Write S for the scalar unit, V for Vector, M for the Cube.",
        ),
        Misconception(
            "in_and_out_swapped",
            _instead('[{"MTE2": "MTE3", "MTE3": "MTE2"}.get(TABLE[step], TABLE[step]) for step in steps]'),
            _took("MTE2", "MTE3") | _took("MTE3", "MTE2"),
            what="a way in has the name of a way out, or the other way round.",
            why="MTE2 copies from global memory into the core, MTE3 from the UB to global memory.",
            do="Ask where each copy begins: in global memory or in the UB.",
        ),
        Misconception(
            "first_is_mte1",
            _instead('[{"MTE2": "MTE1", "MTE1": "MTE2"}.get(TABLE[step], TABLE[step]) for step in steps]'),
            _took("MTE2", "MTE1") | _took("MTE1", "MTE2"),
            what="MTE1 and MTE2 are mixed up.",
            why="The first copy of a kernel is not MTE1: MTE1 stands inside the cube core, between L1 and L0.",
            do="Use MTE2 for what comes from global memory, MTE1 for L1 to L0A and L0B.",
        ),
        Misconception(
            "cube_out_by_mte3",
            _instead('[{"FIXP": "MTE3"}.get(TABLE[step], TABLE[step]) for step in steps]'),
            _took("FIXP", "MTE3"),
            what="a product leaves L0C by MTE3.",
            why="MTE3 starts at the UB, and a cube core of the 910B has none. FIXP leads out of L0C and can convert.",
            do="Write FIXP for what leaves L0C.",
        ),
        Misconception(
            "cube_out_by_m",
            _instead('[{"FIXP": "M"}.get(TABLE[step], TABLE[step]) for step in steps]'),
            _took("FIXP", "M"),
            what="what leaves L0C is given to M.",
            why="M ends at L0C: it adds its products there. Another pipe carries the sum out and converts it.",
            do="Follow the arrow in the picture that leads from L0C to global memory.",
        ),
        Misconception(
            "scalar_by_vector",
            _instead('[{"S": "V"}.get(TABLE[step], TABLE[step]) for step in steps]'),
            _took("S", "V"),
            what="an address or a decision is given to V.",
            why="V works on tiles in the UB. A number, a condition, the place of a tile are work of the scalar unit.",
            do="Write S for them.",
        ),
        Misconception(
            "all_computing_by_m",
            _instead('[{"V": "M"}.get(TABLE[step], TABLE[step]) for step in steps]'),
            _took("V", "M"),
            what="work on a tile in the UB is given to M.",
            why="M is the Cube: it multiplies matrices in L0A and L0B, and cannot reach the UB.",
            do="Write V for exp, sums and casts.",
        ),
    ),
)

# -- 2 fits ------------------------------------------------------------------------------------------


def draw_fits(rng: Generator, size: tuple[int, int, int]) -> dict[str, Any]:
    tensors, buffers, itemsize = size
    space = 32 * int(rng.integers(200, 900)) + 32 - int(rng.integers(1, 16))
    return {"ub": space * tensors * buffers, "tensors": tensors, "buffers": buffers, "itemsize": itemsize}


def largest(ub: int, tensors: int, buffers: int, itemsize: int) -> int:
    return ub // (tensors * buffers) // 32 * 32 // itemsize


def _fits(text: str) -> str:
    return f"# exercise: {LESSON}.fits\ndef largest_tile(ub, tensors, buffers, itemsize):\n    return {text}"


FITS = Check(
    f"{LESSON}.fits",
    run=call("largest_tile"),
    draw=draw_fits,
    sizes=((3, 1, 2), (3, 2, 2), (5, 2, 4), (7, 1, 1), (2, 2, 4), (1, 1, 2)),
    reference=largest,
    must=(
        require(
            "whole",
            lambda case: isinstance(case.got, int | np.integer),
            holds="the number of elements is an int",
            fails="the number of elements is no int",
            do="Divide by //: a kernel takes 4096 elements, not 4096.0.",
        ),
    ),
    misconceptions=(
        Misconception(
            "bytes",
            change("space // 32 * 32 // itemsize", "space // 32 * 32"),
            gives(lambda ub, tensors, buffers, itemsize: ub // (tensors * buffers) // 32 * 32),
            what="this is the number of bytes.",
            why="A tile is counted in elements, the UB in bytes.",
            do="Divide by itemsize at the end.",
        ),
        Misconception(
            "buffers_forgotten",
            change("tensors * buffers", "tensors"),
            gives(lambda ub, tensors, buffers, itemsize: ub // tensors // 32 * 32 // itemsize),
            what="the buffers are forgotten.",
            why="A queue with two buffers takes twice its tile.",
            do="Divide by tensors * buffers.",
        ),
        Misconception(
            "tensors_forgotten",
            change("tensors * buffers", "buffers"),
            gives(lambda ub, tensors, buffers, itemsize: ub // buffers // 32 * 32 // itemsize),
            what="the UB is given to a single queue.",
            why="All queues share it: x, y and z each need their buffers.",
            do="Divide by tensors * buffers.",
        ),
        Misconception(
            "not_aligned",
            change("space // 32 * 32 // itemsize", "space // itemsize"),
            gives(lambda ub, tensors, buffers, itemsize: ub // (tensors * buffers) // itemsize),
            what="the tile is no multiple of 32 bytes.",
            why="Every address in the UB is a multiple of 32 bytes, so the second buffer would begin at none.",
            do="Round the bytes of one buffer down to a multiple of 32.",
        ),
        Misconception(
            "elements_aligned",
            change("space // 32 * 32 // itemsize", "space // itemsize // 32 * 32"),
            gives(lambda ub, tensors, buffers, itemsize: ub // (tensors * buffers) // itemsize // 32 * 32),
            what="you rounded to 32 elements.",
            why="The rule is 32 bytes: 16 halves, 8 floats. Rounding to 32 elements gives space away.",
            do="Round before you divide by itemsize.",
        ),
        Misconception(
            "rounded_too_early",
            _fits("ub // 32 * 32 // (tensors * buffers) // itemsize"),
            gives(lambda ub, tensors, buffers, itemsize: ub // 32 * 32 // (tensors * buffers) // itemsize),
            what="the whole UB was rounded, not the tile.",
            why="A multiple of 32 divided by 6 need not be one.",
            do="Divide first, then round the bytes of one buffer.",
        ),
        Misconception(
            "queue_rounded",
            _fits("ub // tensors // 32 * 32 // buffers // itemsize"),
            gives(lambda ub, tensors, buffers, itemsize: ub // tensors // 32 * 32 // buffers // itemsize),
            what="the bytes of a queue were rounded, not those of a buffer.",
            why="Half of a multiple of 32 need not be one, so the second buffer would begin at no legal address.",
            do="Divide by tensors and by buffers first, then round.",
        ),
        Misconception(
            "a_float",
            change("space // 32 * 32 // itemsize", "space // 32 * 32 / itemsize"),
            unmet("whole") & got(lambda result, **inputs: result == largest(**inputs)),
            what="the right number, as a float.",
            why="In Python a / b is a float, even if nothing is left over; a slice or a buffer takes none.",
            do="Write // itemsize.",
        ),
        Misconception(
            "rounded_up",
            change("space // 32 * 32 // itemsize", "-(-space // 32) * 32 // itemsize"),
            gives(lambda ub, tensors, buffers, itemsize: -(-(ub // (tensors * buffers)) // 32) * 32 // itemsize),
            what="the tile does not fit: you rounded up.",
            why="A few bytes too many in each buffer are together more than the UB has.",
            do="Round down: space // 32 * 32.",
        ),
    ),
)

# -- 3 times -----------------------------------------------------------------------------------------


def draw_times(rng: Generator, size: None) -> dict[str, Any]:
    """The computation is the slowest, its half is not; copy in and copy out differ."""
    b = 40 * int(rng.integers(15, 25))
    a, c = (20 * int(n) for n in rng.permutation(np.arange(b // 40 + 2, b // 20 - 1))[:2])
    return {"a": a, "b": b, "c": c, "k": int(rng.integers(6, 20))}


def predicted(a: int, b: int, c: int, k: int) -> dict[str, int]:
    first = a + b + c
    return {
        "first": first,
        "one": first + (k - 1) * (b + max(a, c)),
        "two": first + (k - 1) * max(a, b, c),
        "faster": first - b // 2 + (k - 1) * max(a, b // 2, c),
    }


def _number(key: str, formula: Callable[[int, int, int, int], float]) -> Sign:
    """The entry ``key`` is what this formula gives."""
    return got(lambda result, a, b, c, k: result.get(key) == formula(a, b, c, k))


TIMES = Check(
    f"{LESSON}.times",
    run=read("times"),
    draw=draw_times,
    reference=predicted,
    must=(how_many_right("times are"),),
    misconceptions=(
        Misconception(
            "first_is_copy_in",
            change("first = a + b + c", "first = a"),
            _number("first", lambda a, b, c, k: a),
            what="your first tile is only in the UB.",
            why="It is back in global memory after copy in, computation and copy out.",
            do='Set "first" to a + b + c; the other three begin with it.',
        ),
        Misconception(
            "all_in_a_row",
            change("first + (k - 1) * (b + max(a, c))", "k * first"),
            _number("one", lambda a, b, c, k: k * (a + b + c)),
            what="with one buffer you let nothing overlap.",
            why="The queue of the result has a buffer of its own: a copy out and the next copy in run side by side.",
            do="Let each further tile cost b + max(a, c).",
        ),
        Misconception(
            "one_without_turns",
            change("(k - 1) * (b + max(a, c))", "(k - 1) * (a + b)"),
            got(lambda result, a, b, c, k: c > a and result.get("one") == a + b + c + (k - 1) * (a + b))
            | got(lambda result, a, b, c, k: a > c and result.get("one") == a + b + c + (k - 1) * (b + c)),
            what="one of the two copies is missing in the period of one buffer.",
            why="The computation waits for both: its own copy in, and the copy out that frees the result's buffer.",
            do="Take the longer of a and c, and add b.",
        ),
        Misconception(
            "two_is_half",
            change("first + (k - 1) * max(a, b, c)", "(first + (k - 1) * (b + max(a, c))) // 2"),
            _number("two", lambda a, b, c, k: (a + b + c + (k - 1) * (b + max(a, c))) // 2),
            what="two buffers are taken for twice as fast.",
            why="They gain what can hide, and no more: the slowest pipe still needs its time for every tile.",
            do="Let each further tile cost the largest of a, b and c.",
        ),
        Misconception(
            "no_start_no_end",
            change("first + (k - 1) * max(a, b, c)", "k * max(a, b, c)"),
            _number("two", lambda a, b, c, k: k * max(a, b, c))
            | _number("one", lambda a, b, c, k: k * (b + max(a, c)))
            | _number("faster", lambda a, b, c, k: k * max(a, b // 2, c)),
            what="the first copy in and the last copy out are missing.",
            why="Nothing runs beside them: V has no data before the first one, and only the last one is left after V.",
            do="Add (k - 1) periods to the time of the first tile.",
        ),
        Misconception(
            "one_period_too_many",
            change("first + (k - 1) * max(a, b, c)", "first + k * max(a, b, c)"),
            _number("two", lambda a, b, c, k: a + b + c + k * max(a, b, c))
            | _number("one", lambda a, b, c, k: a + b + c + k * (b + max(a, c)))
            | _number("faster", lambda a, b, c, k: a + b // 2 + c + k * max(a, b // 2, c)),
            what="there is one period too many.",
            why="The first tile is in a + b + c already; k - 1 tiles follow it.",
            do="Multiply the period by k - 1.",
        ),
        Misconception(
            "still_limited_by_v",
            change("(k - 1) * max(a, b // 2, c)", "(k - 1) * (b // 2)"),
            _number("faster", lambda a, b, c, k: a + b // 2 + c + (k - 1) * (b // 2)),
            what="the kernel follows the faster computation all the way.",
            why="With half of b the computation is no longer the slowest: now a copy is the limit.",
            do="Take the largest of a, b / 2 and c.",
        ),
        Misconception(
            "first_not_halved",
            change("first - b // 2 + (k - 1) * max(a, b // 2, c)", "first + (k - 1) * max(a, b // 2, c)"),
            _number("faster", lambda a, b, c, k: a + b + c + (k - 1) * max(a, b // 2, c)),
            what="the first tile is still computed at the old speed.",
            why="The faster computation works on every tile, the first one too.",
            do="Begin with a + b / 2 + c.",
        ),
        Misconception(
            "nothing_gained",
            change("first - b // 2 + (k - 1) * max(a, b // 2, c)", "first + (k - 1) * max(a, b, c)"),
            _number("faster", lambda a, b, c, k: a + b + c + (k - 1) * b),
            what="the faster computation gains nothing.",
            why="Here the computation was the slowest pipe, so a faster one helps, until a copy is slower.",
            do="Put b / 2 for b, in the first tile and in the period.",
        ),
    ),
)

# -- 4 read ------------------------------------------------------------------------------------------


def draw_read(rng: Generator, size: None) -> dict[str, Any]:
    """The five kinds, in any order: (tile, buffers, rounds, scalars)."""
    large = (4096, 6144, 8192)
    kinds = [
        (int(rng.choice(large)), 2, int(rng.integers(1, 3)), 0),
        (int(rng.choice(large)), 2, int(rng.integers(12, 18)), 0),
        (int(rng.choice(large)), 2, 1, int(rng.integers(120, 180))),
        (int(rng.choice(large)), 1, int(rng.integers(5, 8)), 0),
        (int(rng.choice((128, 192, 256))), 2, 1, 0),
    ]
    return {"runs": [kinds[k] for k in rng.permutation(5)]}


def limit(tile: int, buffers: int, rounds: int, scalars: int) -> str:
    if scalars:
        return "scalar"
    if tile < 1000:
        return "latency"
    if buffers == 1:
        return "buffers"
    return "arithmetic" if rounds > 8 else "memory"


def _limits(runs: list[tuple[int, int, int, int]]) -> list[str]:
    return [limit(*settings) for settings in runs]


def _took_for(right: str, wrong: str) -> Sign:
    """The run that ``right`` limits has the word ``wrong``."""
    return got(
        lambda result, runs: any(
            word == right and one == wrong for word, one in zip(_limits(runs), result, strict=False)
        )
    )


def _word(**instead: str) -> Change:
    return change("[limit(*settings) for settings in runs]", f"[{instead}.get(limit(*s), limit(*s)) for s in runs]")


READ = Check(
    f"{LESSON}.read",
    run=read("limits"),
    draw=draw_read,
    reference=_limits,
    must=(how_many_right("limits are"),),
    misconceptions=(
        Misconception(
            "always_memory",
            change("[limit(*settings) for settings in runs]", '["memory"] * 5'),
            got(lambda result, runs: len(set(result)) == 1),
            what="all five runs have the same limit.",
            why="Each run has one of its own; most kernels wait for memory, but not these five.",
            do="Look for the lane without gaps, run by run.",
        ),
        Misconception(
            "pipes_for_limits",
            _word(memory="MTE2", arithmetic="V", scalar="S", latency="MTE2"),
            got(lambda result, runs: any(str(one).upper() in ("S", "V", "MTE2", "MTE3") for one in result)),
            what="you give the name of a pipe.",
            why="A full MTE2 lane can mean two things: much is copied, or much is waited for.",
            do='Write "memory", "arithmetic", "scalar", "buffers" or "latency".',
        ),
        Misconception(
            "buffers_and_latency_swapped",
            _word(latency="buffers", buffers="latency"),
            _took_for("latency", "buffers") | _took_for("buffers", "latency"),
            what="latency and buffers are mixed up.",
            why="Very many thin bars mean small tiles: latency. Long bars that alternate mean one buffer.",
            do="Count the bars: few long ones that take turns are a matter of buffers.",
        ),
        Misconception(
            "latency_is_memory",
            _word(latency="memory"),
            _took_for("latency", "memory"),
            what="a run with tiny tiles is taken for limited by memory.",
            why="Its MTE2 lane is full, but of latencies: fewer than 20 bytes arrive per ns, where 60 could.",
            do="Compare the bytes per ns of the runs.",
        ),
        Misconception(
            "turns_are_memory",
            _word(buffers="memory"),
            _took_for("buffers", "memory"),
            what="a run whose pipes take turns is taken for limited by memory.",
            why="MTE2 has gaps there: it waits for V to free the buffer.",
            do="A pipe that limits has no gaps.",
        ),
        Misconception(
            "turns_are_arithmetic",
            _word(buffers="arithmetic"),
            _took_for("buffers", "arithmetic"),
            what="a run whose pipes take turns is taken for limited by arithmetic.",
            why="V has gaps there: it waits for the next copy, which waits for the only buffer.",
            do="A pipe that limits has no gaps.",
        ),
        Misconception(
            "scalar_is_arithmetic",
            _word(scalar="arithmetic", arithmetic="scalar"),
            _took_for("scalar", "arithmetic") | _took_for("arithmetic", "scalar"),
            what="scalar and arithmetic are mixed up.",
            why="Arithmetic is the work of V, on whole tiles. Single elements are handled by S.",
            do="Look which of the lanes S and V is full.",
        ),
        Misconception(
            "scalar_is_buffers",
            _word(scalar="buffers"),
            _took_for("scalar", "buffers"),
            what="a run that waits for the scalar unit is taken for one with a single buffer.",
            why="S works there most of the time, element after element, and all other lanes wait for it.",
            do="Look at the lane S as well.",
        ),
        Misconception(
            "memory_is_latency",
            _word(memory="latency"),
            _took_for("memory", "latency"),
            what="a run with large tiles is taken for limited by latency.",
            why="A start of 135 ns counts little beside a long bar: no other run copies so many bytes per ns.",
            do="Compare the bytes per ns of the runs.",
        ),
    ),
)

# -- 5 tune ------------------------------------------------------------------------------------------


def draw_tune(rng: Generator, size: int) -> dict[str, Any]:
    x, y = (rng.standard_normal(4 * size).astype(np.float16) for _ in range(2))
    return {"x": x, "y": y, "z": np.zeros(4 * size, np.float16)}


def _choose(tile: int, buffers: int) -> Change:
    """The solved cell with other numbers."""
    return change("TILE = 4096", f"TILE = {tile}", "BUFFERS = 2 ", f"BUFFERS = {buffers} ")


def _undone(result: Array, x: Array, y: Array, z: Array) -> bool:
    """The end of a core's part is still zero."""
    return bool((result[: x.size // 4][-16:] == 0).all())


TUNE = Check(
    f"{LESSON}.tune",
    run=kernel("launch", out="z"),
    draw=draw_tune,
    sizes=(24576, 36864),
    reference=lambda x, y, z: x + y,
    compare=allclose(rtol=1e-3),
    must=(kernel_blocks(4, 4), instructions("add", at_least=4)),
    cost=Cost(1.04),
    misconceptions=(
        Misconception(
            "too_large",
            _choose(24576, 2),
            fault="kernel.ub_overflow",
        ),
        Misconception(
            "another_split",
            change("add_tiles[4](x, y, z, x.size // 4,", "add_tiles[8](x, y, z, x.size // 8,"),
            unmet("kernel_blocks"),
            what="the work is split over another number of cores.",
            why="More cores are a lever too, but here the four cores are given.",
            do="Keep add_tiles[4] and x.size // 4, and change TILE and BUFFERS.",
        ),
        Misconception(
            "does_not_divide",
            _choose(8192, 2),
            got(_undone),
            what="the last elements of each core are not added.",
            why="The kernel does count // tile whole tiles. What is left over is no tile, so nobody adds it.",
            do="Choose a tile that divides 12,288.",
        ),
        Misconception(
            "one_buffer",
            _choose(4096, 1),
            slow() & source(r"BUFFERS = 1\b"),
            what="with one buffer the pipes take turns.",
            why="The next copy in waits until the add has freed the buffer.",
            do="Give each queue two buffers.",
        ),
        Misconception(
            "more_buffers",
            _choose(256, 4),
            slow() & source(r"BUFFERS = ([3-9]|\d\d)"),
            what="more buffers do not make tiny tiles fast.",
            why="Each copy still pays its start, and each tile the calls of its queues.",
            do="Use two buffers and a larger tile.",
        ),
        Misconception(
            "small_tiles",
            _choose(1024, 2),
            slow() & source(r"TILE = (\d{2,3}|1\d{3}|2\d{3})\b"),
            what="the tiles are too small.",
            why="Every copy costs a start and every tile some calls, however few bytes there are.",
            do="Take larger tiles, but keep several of them for each core.",
        ),
        Misconception(
            "as_large_as_fits",
            _choose(12288, 2),
            slow() & source(r"TILE = \d{5}\b"),
            what="the tiles are too large.",
            why="The first copy in and the last copy out hide behind nothing; with two or four tiles they count.",
            do="Take smaller tiles, so that each core has several.",
        ),
    ),
)

CHECKS = [ROUTE, FITS, TIMES, READ, TUNE]
