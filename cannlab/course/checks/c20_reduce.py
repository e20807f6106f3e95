"""Checks of 20_reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.spec import (
    CaseRun,
    Change,
    Check,
    Cost,
    Misconception,
    allclose,
    change,
    fault,
    gives,
    got,
    how_many_right,
    instructions,
    kernel,
    kernel_blocks,
    pipes,
    read,
    require,
    slow,
    source,
    unmet,
)
from cannlab.course.spec.requirements import Requirement

Array = NDArray[Any]
Plan = tuple[str, int, list[str]]
LESSON = "20_reduce"
HALF, SINGLE = np.float16, np.float32


def nothing_read_back(do: str) -> Requirement:
    """No get_value at all."""
    return instructions("get_value", at_most=0, do=do)


# A number that was read back stands in the record as it was, so the replay on other values fails first.
READ_BACK = unmet("get_value") | source(r"\.get_value\(")


def reduced_once() -> Requirement:
    """Not more reductions than one number takes at the end."""

    def reductions(case: CaseRun) -> int:
        if case.kernel is None:
            return 99
        return sum(count for name, count in case.kernel.counts().items() if "reduce" in name)

    return require(
        "reduced_once",
        lambda case: reductions(case) <= 4,
        holds="the tiles are not reduced one by one",
        fails="there is a reduction for every tile",
        do="Add the tiles to each other in the loop; reduce once, after it.",
    )


# -- 1 depth -----------------------------------------------------------------------------------------


def depth(
    kind: str,
    numbers: int,
    steps: Sequence[str],
    *,
    size: int = 0,
    rest: Callable[[int], int] = lambda repeats: repeats - 1,
    last_only: bool = False,
    folds: int = 1,
    zeros: bool = False,
) -> int:
    """Through how many additions a number goes at most.

    Args:
        kind, numbers, steps: the plan.
        size: bytes of an element, if somebody takes one for all types.
        rest: the additions in reduce_sum over so many sums of repeats.
        last_only: only the last step counts.
        folds: what a fold counts.
        zeros: a repeat counts all its levels, however few numbers are in it.
    """
    size = size or np.dtype(kind).itemsize
    found = 0
    for step in steps:
        joined = {"fold": 2, "pair_reduce_sum": 2, "block_reduce_sum": 32 // size}.get(step, min(numbers, 256 // size))
        found = 0 if last_only else found
        full = 256 // size if zeros and step in ("whole_reduce_sum", "reduce_sum") else joined
        found += folds if step == "fold" else full.bit_length() - 1
        numbers //= joined
        if step == "reduce_sum":
            found += rest(numbers)
    return found


Rule = Callable[[str, int, Sequence[str]], int]


def _chain(kind: str, numbers: int, steps: Sequence[str]) -> int:
    """reduce_sum taken for one long chain."""
    per = {"fold": 2, "pair_reduce_sum": 2, "block_reduce_sum": 32 // np.dtype(kind).itemsize}
    found = 0
    for step in steps:
        if step == "reduce_sum":
            return found + numbers - 1
        joined = per.get(step, min(numbers, 256 // np.dtype(kind).itemsize))
        found += joined.bit_length() - 1
        numbers //= joined
    return found


_BELIEFS: dict[str, Rule] = {
    "repeat_of_64": lambda kind, numbers, steps: depth(kind, numbers, steps, size=4),
    "repeat_of_128": lambda kind, numbers, steps: depth(kind, numbers, steps, size=2),
    "pairs_all_the_way": lambda kind, numbers, steps: depth(
        kind, numbers, steps, rest=lambda repeats: (repeats - 1).bit_length()
    ),
    "one_long_chain": _chain,
    "one_too_many": lambda kind, numbers, steps: depth(kind, numbers, steps, rest=lambda repeats: repeats),
    "chain_from_zero": lambda kind, numbers, steps: depth(
        kind, numbers, steps, rest=lambda repeats: repeats if repeats > 1 else 0
    ),
    "zeros_counted": lambda kind, numbers, steps: depth(kind, numbers, steps, zeros=True),
    "last_step_only": lambda kind, numbers, steps: depth(kind, numbers, steps, last_only=True),
    "all_additions": lambda kind, numbers, steps: numbers - 1,
    "folds_are_free": lambda kind, numbers, steps: depth(kind, numbers, steps, folds=0),
}
"""What learners believe, as a rule for one plan."""


def _all(rule: Rule) -> Callable[..., list[int]]:
    return lambda plans: [rule(*plan) for plan in plans]


def _plan(rng: Generator, kind: str, first: str) -> Plan:
    """A plan of this step (of a fold one to three) and reduce_sum."""
    full = 256 // np.dtype(kind).itemsize
    repeats = 1 << int(rng.integers(3, 7))
    if first == "reduce_sum":
        return kind, full * (repeats // 4) * int(rng.choice([3, 4, 5, 6])), ["reduce_sum"]
    if first == "block_reduce_sum":
        repeats *= 8  # some full repeats are left
    many = int(rng.integers(1, 4)) if first == "fold" else 1
    return kind, full * repeats, [*[first] * many, "reduce_sum"]


def draw_depth(rng: Generator, size: None) -> dict[str, Any]:
    """Five plans, drawn again until every wrong belief gives numbers of its own."""
    firsts = ["reduce_sum", "fold", "whole_reduce_sum", "block_reduce_sum", "pair_reduce_sum"]
    while True:
        kinds = rng.permutation(["float16", "float16", "float32", "float32", str(rng.choice(["float16", "float32"]))])
        plans = [_plan(rng, str(kind), str(first)) for kind, first in zip(kinds, rng.permutation(firsts), strict=True)]
        found = [tuple(_all(rule)(plans)) for rule in (depth, *_BELIEFS.values())]
        if len(set(found)) == len(found):
            return {"plans": plans}


def _believed(name: str, edit: Change, what: str, why: str, do: str) -> Misconception:
    return Misconception(name, edit, gives(_all(_BELIEFS[name])), what=what, why=why, do=do)


DEPTH = Check(
    f"{LESSON}.depth",
    run=read("depths"),
    draw=draw_depth,
    reference=_all(depth),
    must=(how_many_right("depths are"),),
    misconceptions=(
        _believed(
            "repeat_of_64",
            change('size = 2 if kind == "float16" else 4', "size = 4"),
            "every repeat has 64 numbers with you.",
            "A repeat has 256 bytes and a block 32: 128 and 16 halves, 64 and 8 floats.",
            "Take the type of each plan into account.",
        ),
        _believed(
            "repeat_of_128",
            change('size = 2 if kind == "float16" else 4', "size = 2"),
            "every repeat has 128 numbers with you.",
            "A repeat has 256 bytes and a block 32: 128 and 16 halves, 64 and 8 floats.",
            "Take the type of each plan into account.",
        ),
        _believed(
            "pairs_all_the_way",
            change("found += numbers - 1", "found += (numbers - 1).bit_length()"),
            "reduce_sum is a tree of pairs all the way in your answer.",
            "It adds pairs inside each repeat; then it adds the sums of the repeats one after the other.",
            "For r repeats add r - 1, not log2(r).",
        ),
        _believed(
            "one_long_chain",
            change(
                "    for step in steps:\n",
                "    for step in steps:\n        if step == 'reduce_sum':\n            return found + numbers - 1\n",
            ),
            "reduce_sum adds one number after the other in your answer.",
            "Inside a repeat it adds pairs: 7 levels for 128 halves, 6 for 64 floats.",
            "Count the levels of one repeat, and then the chain of the repeats.",
        ),
        _believed(
            "one_too_many",
            change("found += numbers - 1", "found += numbers"),
            "the chain of the repeats has one addition too many.",
            "The first sum is where the chain begins; r sums need r - 1 additions.",
            "Add r - 1 for r repeats.",
        ),
        _believed(
            "chain_from_zero",
            change("found += numbers - 1", "found += numbers if numbers > 1 else 0"),
            "the chain of the repeats has one addition too many.",
            "The first sum is where the chain begins; r sums need r - 1 additions.",
            "Add r - 1 for r repeats.",
        ),
        _believed(
            "zeros_counted",
            change(
                "found += joined.bit_length() - 1",
                "found += (joined if step in ('fold', 'pair_reduce_sum', 'block_reduce_sum') else 256 // size)"
                ".bit_length() - 1",
            ),
            "a repeat that is not full counts all its levels in your answer.",
            "Eight numbers in a repeat are a tree of three levels; above it only zeros are added.",
            "Count log2 of the numbers that are left, where they are fewer than a repeat.",
        ),
        _believed(
            "last_step_only",
            change("        joined =", "        found = 0\n        joined ="),
            "only the last step counts in your answer.",
            "A number goes through the additions of every step, one after the other.",
            "Add the depths of all steps.",
        ),
        _believed(
            "all_additions",
            change("    found = 0\n    for", "    return numbers - 1\n    for"),
            "you count all additions.",
            "Most of them happen side by side; a number meets only those above it in the tree.",
            "Count the levels: log2(n) for a tree of pairs.",
        ),
        _believed(
            "folds_are_free",
            change("found += joined.bit_length() - 1", "found += 0 if step == 'fold' else joined.bit_length() - 1"),
            "a fold counts nothing in your answer.",
            "Its add is an addition like any other: each number goes through one.",
            "Add 1 for every fold.",
        ),
    ),
)

# -- 2 tail ------------------------------------------------------------------------------------------

TILE = 2048


def draw_tail(rng: Generator, size: int) -> dict[str, Any]:
    """Negative numbers; large ones where the length is odd, near the end of the type's range for 13 of them."""
    x = rng.uniform(-9, -1, size) * (1e36 if size == 13 else 1000 if size % 2 else 1)
    return {"x": x.astype(SINGLE), "z": np.zeros(2, SINGLE)}


def _sum_and_max(x: Array, z: Array) -> Array:
    return np.array([x.sum(dtype=np.float64), x.max()], SINGLE)


_CLOSE = allclose(rtol=1e-5, atol=1e-5)
_ALIKE = allclose(rtol=1e-5, atol=1e-5, dtype=False)
"""The same, whatever type a wrong formula computes in."""


def _filler(x: Array, z: Array) -> Array:
    """The last tile up to whole blocks: the filler repeats the tile's first number."""
    first = (x.size - 1) // TILE * TILE
    rest = -x.size % 8
    return np.array([x.sum(dtype=np.float64) + rest * float(x[first]), x.max()], SINGLE)


def _whole_tiles(x: Array, z: Array) -> Array:
    whole = x[: x.size // TILE * TILE]
    return np.array([whole.sum(dtype=np.float64), max(whole, default=-3.4e38)], SINGLE)


TAIL = Check(
    f"{LESSON}.tail",
    run=kernel("launch", out="z"),
    draw=draw_tail,
    sizes=(1, 8, 13, 2048, 2049, 5000, 6143),
    reference=_sum_and_max,
    compare=_CLOSE,
    must=(kernel_blocks(1, 1),),
    misconceptions=(
        Misconception(
            "max_from_zero",
            change("-3.4e38", "0.0"),
            got(lambda result, x, z: result[1] == 0 and np.isclose(result[0], x.sum(dtype=np.float64), rtol=1e-5))
            & ~fault("kernel.undefined"),
            what="the maximum is 0, though all numbers are negative.",
            why="0 takes part like any other number, and it is the largest one here.",
            do="Fill largest with the smallest number there is: -3.4e38.",
        ),
        Misconception(
            "not_small_enough",
            change("-3.4e38", "-100.0"),
            got(lambda result, x, z: x.max() < result[1] < 0 and bool((result[1] != x).all())),
            what="the maximum is a number that x does not have.",
            why="largest begins with a number that is not below all numbers of x.",
            do="Begin with the smallest float32, -3.4e38.",
        ),
        Misconception(
            "whole_blocks",
            change("count=here", "count=(here + 7) // 8 * 8"),
            gives(_filler, _ALIKE) & ~fault("kernel.undefined"),
            what="the sum takes the filler of the last block along.",
            why="data_copy_pad fills the block up with copies of its first element; they are in the sum too.",
            do="Count exactly: count=here.",
        ),
        Misconception(
            "tail_skipped",
            change("asc.range(0, length, 2048)", "asc.range(0, length // 2048 * 2048, 2048)"),
            gives(_whole_tiles, _ALIKE),
            what="the last, shorter tile is left out.",
            why="Its numbers belong to the sum and to the maximum.",
            do="Let the loop go to length, and give add and max count=here.",
        ),
        Misconception(
            "length_at_the_end",
            change("work, count=2048)", "work, count=length)"),
            fault("kernel.tensor_range"),
            what="the last reduction runs over length numbers.",
            why="After the loop there are 2048 running sums, however long x is.",
            do="Reduce count=2048 at the end.",
        ),
        Misconception(
            "never_cleared",
            change("    asc.duplicate(total, 0.0, count=2048)\n", ""),
            fault("kernel.undefined") & ~source(r"duplicate\(total"),
            what="the running sums begin with whatever was in the UB.",
            why="A TBuf is not cleared.",
            do="Fill total with 0 before the loop.",
        ),
        Misconception(
            "whole_tile",
            change("count=here)", "count=2048)"),
            fault("kernel.undefined") & source(r"asc\.add\(total, (total, a|a, total), count=2048"),
            what="the sum takes more than the last tile brought.",
            why="Behind the last element of a short tile there is whatever was in the buffer before.",
            do="Write count=here in add and max.",
        ),
        Misconception(
            "whole_tile_for_max",
            change("asc.max(largest, largest, a, count=here)", "asc.max(largest, largest, a, count=2048)"),
            fault("kernel.undefined") & source(r"asc\.max\(largest, (largest, a|a, largest), count=2048"),
            what="the maximum takes more than the last tile brought.",
            why="Behind the last element of a short tile there is whatever was in the buffer before.",
            do="Write count=here in max as well.",
        ),
    ),
)

# -- 3 norm ------------------------------------------------------------------------------------------


def draw_norm(rng: Generator, size: int) -> dict[str, Any]:
    return {"x": rng.uniform(-200, 400, size * TILE).astype(HALF), "z": np.zeros(1, SINGLE)}


def _squares(x: Array) -> Array:
    found: Array = x.astype(np.float64) ** 2
    return found


def _one(value: Any) -> Array:
    return np.array([value], SINGLE)


NORM = Check(
    f"{LESSON}.norm",
    run=kernel("launch", out="z"),
    draw=draw_norm,
    sizes=(1, 2, 9, 48),
    reference=lambda x, z: _one(_squares(x).sum()),
    compare=_CLOSE,
    must=(
        kernel_blocks(1, 1),
        nothing_read_back("Keep the sums in a tensor: add tiles to tiles, and reduce once, at the end."),
        reduced_once(),
    ),
    cost=Cost(1.3),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "squared_in_halves",
            change(
                "        asc.cast(wide, a,",
                "        asc.mul(a, a, a, count=2048)\n        asc.cast(wide, a,",
                "        asc.mul(wide, wide, wide, count=2048)\n",
                "",
            ),
            got(lambda result, x, z: not np.isfinite(result).all()),
            what="the sum is inf.",
            why="The largest half is 65504; 300 * 300 is more.",
            do="Cast to float32 first, then multiply.",
        ),
        Misconception(
            "read_back",
            change(
                "    asc.duplicate(running, 0.0, count=2048)\n",
                "    total = asc.number(0.0, asc.float32)\n    asc.duplicate(running, 0.0, count=8)\n",
                "        asc.add(running, running, wide, count=2048)",
                "        asc.reduce_sum(running, wide, scratch.get(asc.float32), count=2048)\n"
                "        total = total + running.get_value(0)",
                "    asc.reduce_sum(c, running, scratch.get(asc.float32), count=2048)\n",
                "    asc.duplicate(c, total, count=8)\n",
            ),
            READ_BACK,
            what="a number is read back for every tile.",
            why="S waits for V each time, and sends no copies meanwhile.",
            do="Add tiles to tiles in the UB; reduce once, after the loop.",
        ),
        Misconception(
            "reduced_every_time",
            change(
                "asc.add(running, running, wide, count=2048)",
                "asc.reduce_sum(scratch.get(asc.float32), wide, scratch.get(asc.float32), count=2048)\n"
                "        asc.add(running, running, scratch.get(asc.float32), count=1)",
            ),
            unmet("reduced_once"),
            what="every tile is reduced to one number.",
            why="A reduction costs several times what an add costs.",
            do="Add the tiles to each other, and reduce once, after the loop.",
        ),
        Misconception(
            "never_cleared",
            change("    asc.duplicate(running, 0.0, count=2048)\n", ""),
            fault("kernel.undefined") & ~source(r"duplicate\("),
            what="the running sums begin with whatever was in the UB.",
            why="A TBuf is not cleared.",
            do="Fill the running tile with 0 before the loop.",
        ),
        Misconception(
            "last_tile_only",
            change(
                "        asc.add(running, running, wide, count=2048)",
                "        asc.adds(running, wide, 0.0, count=2048)",
            ),
            gives(lambda x, z: _one(_squares(x[-TILE:]).sum()), _ALIKE),
            what="only the last tile is in the sum.",
            why="Each tile overwrites the one before.",
            do="Add each tile to the running one: asc.add(running, running, wide, count=2048).",
        ),
        Misconception(
            "not_squared",
            change("        asc.mul(wide, wide, wide, count=2048)\n", ""),
            gives(lambda x, z: _one(x.sum(dtype=np.float64)), allclose(rtol=1e-4, atol=1e-2)),
            what="the numbers are added, not their squares.",
            why="The task asks for the sum of the squares.",
            do="Multiply each tile by itself before you add it.",
        ),
        Misconception(
            "squared_at_the_end",
            change(
                "        asc.mul(wide, wide, wide, count=2048)\n",
                "",
                "    out_z.enque(c)",
                "    asc.mul(c, c, c, count=1)\n    out_z.enque(c)",
            ),
            gives(lambda x, z: _one(x.sum(dtype=np.float64) ** 2), allclose(rtol=1e-4, atol=1e-2)),
            what="the sum is squared, not the numbers.",
            why="(a + b)² is not a² + b².",
            do="Multiply each tile by itself before you add it.",
        ),
        Misconception(
            "lanes_squared_at_the_end",
            change(
                "        asc.mul(wide, wide, wide, count=2048)\n",
                "",
                "    c = out_z.alloc",
                "    asc.mul(running, running, running, count=2048)\n    c = out_z.alloc",
            ),
            gives(lambda x, z: _one((x.reshape(-1, TILE).sum(axis=0, dtype=np.float64) ** 2).sum()), _ALIKE),
            what="the running sums are squared, not the numbers.",
            why="(a + b)² is not a² + b². With one tile it makes no difference, with more it does.",
            do="Multiply each tile by itself before you add it.",
        ),
        Misconception(
            "rooted",
            change("    out_z.enque(c)", "    asc.sqrt(c, c, count=1)\n    out_z.enque(c)"),
            gives(lambda x, z: _one(np.sqrt(_squares(x).sum())), _ALIKE),
            what="you took the root.",
            why="The task asks for the sum of the squares itself.",
            do="Leave sqrt out.",
        ),
        Misconception(
            "half_of_the_tile",
            change("scratch.get(asc.float32), count=2048)", "scratch.get(asc.float32), count=1024)"),
            gives(lambda x, z: _one(_squares(x.reshape(-1, TILE)[:, :1024]).sum()), _ALIKE),
            what="only half of the running sums are reduced.",
            why="The running tile has 2048 float32, as many as a tile of x has halves.",
            do="Reduce count=2048.",
        ),
        Misconception(
            "one_buffer",
            change("pipe.init_buffer(in_x, 2, 4096)", "pipe.init_buffer(in_x, 1, 4096)"),
            slow() & source(r"init_buffer\(in_x, 1,"),
            what="the input queue has one buffer.",
            why="The next tile is copied in only after V has read this one.",
            do="Keep two buffers for in_x.",
        ),
    ),
)

# -- 4 log_softmax -----------------------------------------------------------------------------------


def draw_scores(rng: Generator, size: int) -> dict[str, Any]:
    """Rows of scores around a number of their own; a third of them reaches far, another one has a peak."""
    rows = 8 * size
    reach = np.where(np.arange(rows) % 3 == 1, 90, 5)[:, None]
    x = rng.uniform(-1, 1, (rows, 64)) * reach + rng.permutation(np.linspace(-150, 150, rows))[:, None]
    x[2::3, int(rng.integers(33, 64))] += 100  # the maximum stands late in the row
    x[5, 63] += 200
    return {"x": x.astype(SINGLE), "z": np.zeros((rows, 64), SINGLE)}


def _rows(x: Array) -> tuple[Array, Array, Array]:
    """The scores, the largest of each row, the sum of the row's exponentials."""
    wide = x.astype(np.float64)
    top = wide.max(axis=1, keepdims=True)
    return wide, top, np.exp(wide - top).sum(axis=1, keepdims=True)


def _log_softmax(x: Array, z: Array) -> Array:
    wide, top, total = _rows(x)
    found: Array = (wide - top - np.log(total)).astype(SINGLE)
    return found


def _unshifted_sum(result: Array, x: Array, z: Array) -> bool:
    """x - m - ln(Σ exp(x)), where exp(x) stays in the range of the type."""
    wide, top, total = _rows(x)
    small = np.abs(top[:, 0]) < 80
    wrong = wide - 2 * top - np.log(total)
    return bool(small.any()) and bool(np.isclose(result[small], wrong[small], rtol=1e-4, atol=1e-3).all())


_SCORES = allclose(rtol=1e-5, atol=2e-5)
_SCORES_ALIKE = allclose(rtol=1e-5, atol=2e-5, dtype=False)
_FINITE = "Subtract the largest score of the row before exp: then every exponential lies between 0 and 1."

LOG_SOFTMAX = Check(
    f"{LESSON}.log_softmax",
    run=kernel("launch", out="z"),
    draw=draw_scores,
    sizes=(1, 2, 9),
    reference=_log_softmax,
    compare=_SCORES,
    must=(kernel_blocks(1, 1), nothing_read_back("Spread the eight numbers with brcb; nothing has to be read back.")),
    cost=Cost(1.1),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "value_and_index",
            change(", asc.ReduceOrder.ORDER_ONLY_VALUE", ""),
            fault("kernel.tensor_range") & ~source("ORDER_ONLY_VALUE"),
            what="whole_reduce_max writes a value and an index for each row.",
            why="Without an order it writes both, so eight rows take 16 numbers, and every second one is an index.",
            do="Give it asc.ReduceOrder.ORDER_ONLY_VALUE.",
        ),
        Misconception(
            "read_back",
            change(
                "        asc.sub(c, a, each, 64, 8, row_by_block)\n",
                "        asc.muls(one, one, -1.0, count=8)\n        for r in asc.range(8):\n"
                "            asc.adds(c[r * 64 :], a[r * 64 :], one.get_value(r), count=64)\n",
            ),
            READ_BACK,
            what="the maxima are read back, one by one.",
            why="S waits for V, and V gets one row for each instruction.",
            do="Spread them with brcb, and subtract with block stride 0.",
        ),
        Misconception(
            "maximum_lost",
            change(
                "        asc.sub(c, c, each, 64, 8, row_by_block)",
                "        asc.sub(c, a, each, 64, 8, row_by_block)",
                "        in_x.free_tensor(a)\n        asc.exp",
                "        asc.exp",
                "        out_z.enque(c)\n",
                "        in_x.free_tensor(a)\n        out_z.enque(c)\n",
            ),
            gives(lambda x, z: _rows(x)[0] - np.log(_rows(x)[2]), _SCORES_ALIKE),
            what="the maximum is missing in the result.",
            why="ln(Σ exp(x - m)) belongs to the shifted scores x - m, not to x.",
            do="Subtract the logarithm from c, which holds x - m.",
        ),
        Misconception(
            "spread_once",
            change(
                "        asc.ln(one, one, count=8)\n"
                "        asc.brcb(each, one, 1, asc.BrcbRepeatParams(1, 8))  # mutate: skip there is one repeat only\n",
                "        asc.ln(one, one, count=8)\n",
            ),
            gives(lambda x, z: _rows(x)[0] - 2 * _rows(x)[1], _SCORES_ALIKE),
            what="the maximum is subtracted twice, the logarithm never.",
            why="The blocks of each still hold the maxima: brcb copies, it does not follow later changes of one.",
            do="Call brcb again after ln.",
        ),
        Misconception(
            "unshifted_sum",
            change(
                "        in_x.free_tensor(a)\n        asc.exp(b, c, count=512)\n",
                "        asc.exp(b, a, count=512)\n        in_x.free_tensor(a)\n",
            ),
            got(_unshifted_sum),
            what="the sum is that of exp(x), not of exp(x - m).",
            why="The shifted scores are in c; a still holds x, and exp(x) overflows for large scores.",
            do="Take exp of c.",
        ),
        Misconception(
            "no_logarithm",
            change("        asc.ln(one, one, count=8)\n", ""),
            gives(lambda x, z: _rows(x)[0] - _rows(x)[1] - _rows(x)[2], _SCORES_ALIKE),
            what="the sum itself is subtracted.",
            why="The logarithm of a quotient is the difference of the logarithms.",
            do="Take ln of the eight sums before you spread them.",
        ),
        Misconception(
            "logarithm_of_all",
            change(
                "        asc.whole_reduce_sum(one, b, 64, 8, 1, 1, 8)\n        asc.ln(one, one, count=8)\n",
                "        asc.whole_reduce_sum(one, b, 64, 8, 1, 1, 8)\n",
                "        asc.sub(c, c, each, 64, 8, row_by_block)",
                "        asc.div(c, b, each, 64, 8, row_by_block)\n        asc.ln(c, c, count=512)",
            ),
            got(
                lambda result, x, z: (
                    bool(np.isneginf(result).any())
                    and not np.isnan(result).any()
                    and bool((_log_softmax(x, z)[np.isneginf(result)] < -85).all())
                )
            ),
            what="small probabilities become -inf.",
            why="exp(x - m) is 0 for scores far below the largest one, and the logarithm of 0 is -inf.",
            do="Do not divide and take the logarithm; subtract the logarithm of the sum from x - m.",
        ),
        Misconception(
            "one_maximum_for_the_tile",
            change(
                "asc.whole_reduce_max(one, a, 64, 8, 1, 1, 8, asc.ReduceOrder.ORDER_ONLY_VALUE)",
                "asc.reduce_max(one, a, b, count=512)",
                "        asc.sub(c, a, each, 64, 8, row_by_block)",
                "        asc.sub(c, a, each, 64, 8, asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0))",
            ),
            source(r"asc\.reduce_max\("),
            what="the tile has one maximum with you.",
            why="A row far below it becomes all zeros, and the logarithm of their sum is -inf.",
            do="Take the maximum of each row: whole_reduce_max, 64 numbers in a repeat, 8 repeats.",
        ),
        Misconception(
            "first_row_for_all",
            change(
                "row_by_block = asc.BinaryRepeatParams(1, 1, 0, 8, 8, 1)",
                "row_by_block = asc.BinaryRepeatParams(1, 1, 0, 8, 8, 0)",
            ),
            source(r"BinaryRepeatParams\(1, 1, 0, 8, 8, 0\)"),
            what="all rows of a tile get the number of the first row.",
            why="With repeat stride 0 every repeat reads the same block.",
            do="Go on one block in each repeat: BinaryRepeatParams(1, 1, 0, 8, 8, 1).",
        ),
        Misconception(
            "columns_for_rows",
            change(
                "row_by_block = asc.BinaryRepeatParams(1, 1, 0, 8, 8, 1)",
                "row_by_block = asc.BinaryRepeatParams(1, 1, 1, 8, 8, 0)",
            ),
            source(r"BinaryRepeatParams\(1, 1, 1, 8, 8, [08]\)"),
            what="the eight numbers go along the columns.",
            why="With block stride 1 the eight blocks of one row read the numbers of eight rows.",
            do="Stay in one block for the whole row: block stride 0, repeat stride 1.",
        ),
        Misconception(
            "smallest_of_the_row",
            change("whole_reduce_max", "whole_reduce_min"),
            got(lambda result, x, z: not np.isfinite(result).all()) & source("whole_reduce_min"),
            what="you subtract the smallest score.",
            why="Then all exponents are positive, and exp overflows.",
            do="Use whole_reduce_max.",
        ),
        Misconception(
            "no_maximum",
            change(
                "asc.whole_reduce_max(one, a, 64, 8, 1, 1, 8, asc.ReduceOrder.ORDER_ONLY_VALUE)",
                "asc.duplicate(one, 0.0, count=8)",
            ),
            got(lambda result, x, z: not np.isfinite(result).all()) & ~source("reduce_max"),
            what="there are numbers that are not finite.",
            why="exp(89) is more than the largest float32, and exp(-104) is 0.",
            do=_FINITE,
        ),
    ),
)

# -- 5 columns ---------------------------------------------------------------------------------------


def draw_columns(rng: Generator, size: int) -> dict[str, Any]:
    x = rng.uniform(0.5, 2, (size, 64)) * np.arange(1, 65)
    return {"x": x.astype(SINGLE), "z": np.zeros(64, SINGLE)}


def _columns(x: Array, z: Array) -> Array:
    """z is zero in the task; what is there takes part in every atomic addition."""
    found: Array = (z + x.sum(axis=0, dtype=np.float64)).astype(SINGLE)
    return found


def _parts(x: Array) -> Array:
    """The sums of the eight parts."""
    each = -(-len(x) // 8)
    return np.stack([x[k * each : (k + 1) * each].sum(axis=0, dtype=np.float64) for k in range(8)])


def _elements_for_rows(x: Array, z: Array) -> Array:
    """The tiles begin at element ``row`` instead of row ``row``."""
    flat, each = x.reshape(-1).astype(np.float64), -(-len(x) // 8)
    total = z.astype(np.float64)
    for first in range(0, len(x), each):
        last = min(first + each, len(x))
        for row in range(first, last, 32):
            here = min(32, last - row)
            total = total + flat[row : row + here * 64].reshape(-1, 64).sum(axis=0)
    return total.astype(SINGLE)


_SPLIT = (
    "    first = asc.get_block_idx() * each\n    last = first + each\n"
    "    if last > rows:  # mutate: skip the same when equal\n        last = rows\n"
)

COLUMNS = Check(
    f"{LESSON}.columns",
    run=kernel("launch", out="z"),
    draw=draw_columns,
    sizes=(8, 9, 64, 257, 1003),
    reference=_columns,
    compare=_CLOSE,
    must=(kernel_blocks(8, 8),),
    cost=Cost(1.15),
    misconceptions=(
        Misconception(
            "no_atomic",
            change("    asc.set_atomic_add(asc.float32)\n", "", "asc.set_atomic_none()", "pass"),
            fault("kernel.race_blocks") & ~source("set_atomic"),
            what="eight cores overwrite the same 64 numbers.",
            why="A copy out replaces what is there; the sum of one core would stay, by chance.",
            do="Call asc.set_atomic_add(asc.float32) before the copy, and asc.set_atomic_none() after it.",
        ),
        Misconception(
            "switched_off_too_early",
            change("asc.set_atomic_add(asc.float32)\n", "asc.set_atomic_add(asc.float32)\n    asc.set_atomic_none()\n"),
            fault("kernel.race_blocks") & source("set_atomic_none"),
            what="the copy does not add.",
            why="set_atomic_none stands before the copy, so the copy overwrites again.",
            do="Order: set_atomic_add, data_copy, set_atomic_none.",
        ),
        Misconception(
            "not_split",
            change(_SPLIT, "    first = asc.get_block_idx() * 0\n    last = rows\n"),
            gives(lambda x, z: z + 8 * x.sum(axis=0, dtype=np.float64), _ALIKE),
            what="the sums are eight times too large.",
            why="Every core adds up all rows.",
            do="Let core k begin at row k * each, and end each rows later.",
        ),
        Misconception(
            "rest_dropped",
            change("-(-x.shape[0] // 8)", "x.shape[0] // 8"),
            gives(lambda x, z: z + x[: len(x) // 8 * 8].sum(axis=0, dtype=np.float64), _ALIKE),
            what="the last rows are in no sum.",
            why="rows // 8 rounds down; up to seven rows are left over.",
            do="Round up, and cut the last parts to rows.",
        ),
        Misconception(
            "largest_part",
            change("set_atomic_add", "set_atomic_max"),
            gives(lambda x, z: np.maximum(z, _parts(x).max(axis=0)), _ALIKE),
            what="the result is the largest of the eight parts.",
            why="set_atomic_max keeps the larger number.",
            do="Use set_atomic_add.",
        ),
        Misconception(
            "elements_for_rows",
            change("x_gm[row * 64 :]", "x_gm[row:]"),
            gives(_elements_for_rows, _ALIKE),
            what="each tile begins at element row, not at row row.",
            why="A row has 64 elements.",
            do="Copy from x_gm[row * 64 :].",
        ),
        Misconception(
            "not_cut",
            change("    if last > rows:  # mutate: skip the same when equal\n        last = rows\n", ""),
            fault("kernel.gm_range") | fault("kernel.gm_spare") | ~source(r"last = rows|> rows|rows -"),
            what="a core works behind the end of x.",
            why="The parts are rounded up, so the last ones reach beyond the last row.",
            do="In the kernel: if last > rows: last = rows.",
        ),
        Misconception(
            "one_core",
            change("columns[8](x, z, x.shape[0], -(-x.shape[0] // 8))", "columns[1](x, z, x.shape[0], x.shape[0])"),
            unmet("kernel_blocks") & source(r"columns\[1\]"),
            what="one core does everything.",
            why="The launch asks for one block.",
            do="Launch columns[8], and give each core its part of the rows.",
        ),
        Misconception(
            "one_row_at_a_time",
            change(
                "asc.range(first, last, 32)",
                "asc.range(first, last)",
                "here > 32:",
                "here > 1:",
                "asc.number(32,",
                "asc.number(1,",
            ),
            slow() & source(r"range\(first, last\)|last, [1248]\)"),
            what="the tiles are too small.",
            why="Each copy and each add pays its fixed price for a few rows.",
            do="Take 32 rows a tile.",
        ),
    ),
)

# -- 6 layer_norm ------------------------------------------------------------------------------------


def draw_rows(rng: Generator, size: int) -> dict[str, Any]:
    """Rows around numbers far from 0 and near it, one whose variance is below 1e-5, and two of equal numbers."""
    rows = 8 * size
    order = rng.permutation(rows - 1)
    centre, width = rng.permutation(np.linspace(-3000, 3000, rows)), rng.uniform(0.5, 3, rows)
    centre[order[2 : 2 + rows // 4]] = 0.5
    centre[order[1]], width[order[1]] = 0, 1e-3
    x = rng.standard_normal((rows, 256)) * width[:, None] + centre[:, None]
    x[[order[0], -1]] = 7
    return {
        "x": x.astype(SINGLE),
        "gamma": rng.uniform(0.5, 2, 256).astype(SINGLE),
        "beta": rng.uniform(-1, 1, 256).astype(SINGLE),
        "z": np.zeros((rows, 256), SINGLE),
    }


def layer_norm(
    x: Array,
    gamma: Array,
    beta: Array,
    *,
    centred: bool = True,
    epsilon: float = 1e-5,
    root: bool = True,
    count: int = 256,
    parts: int = 256,
    of_x: bool = False,
) -> Array:
    """Layer norm of each row, or what comes of a mistake in it.

    Args:
        centred: False if the mean is not subtracted.
        root: False if it is divided by the variance.
        count: what the sum of the squares is divided by.
        parts: what the sum of the row is divided by.
        of_x: True if the squares are those of x, not of what is left without the mean.
    """
    wide = x.astype(np.float64)
    middle = wide - wide.sum(axis=1, keepdims=True) / parts * centred
    scale = ((wide if of_x else middle) ** 2).sum(axis=1, keepdims=True) / count + epsilon
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = (middle / (np.sqrt(scale) if root else scale) * gamma + beta).astype(SINGLE)
    return found


def _constant(x: Array) -> Array:
    return np.asarray(np.ptp(x, axis=1) == 0)


def _cancelled(result: Array, x: Array, gamma: Array, beta: Array, z: Array) -> bool:
    """Rows near 0 are right; of those far from it some are off by far, or no numbers."""
    right = layer_norm(x, gamma, beta)
    varied = np.asarray(~_constant(x))
    near = np.asarray(np.abs(x.mean(axis=1)) < 10) & varied
    far = varied & ~near
    close = bool(np.isclose(result[near], right[near], rtol=1e-2, atol=1e-2).all())
    return close and bool(near.any()) and not bool((np.abs(result[far] - right[far]) < 0.3).all())


_NORMED = allclose(rtol=5e-4, atol=1e-3)
_NORMED_ALIKE = allclose(rtol=5e-4, atol=1e-3, dtype=False)


def _normed(**wrong: Any) -> Any:
    return gives(lambda x, gamma, beta, z: layer_norm(x, gamma, beta, **wrong), _NORMED_ALIKE)


_ONE_PASS = (
    "        row_sums(eight, work, a)\n        asc.muls(eight, eight, 1 / 256, count=8)\n",
    "        asc.mul(s, a, a, count=2048)\n        row_sums(eight, work, a)\n"
    "        asc.muls(eight, eight, 1 / 256, count=8)\n"
    "        asc.mul(squared, eight, eight, count=8)\n",
    "        asc.mul(s, c, c, count=2048)\n",
    "",
    "        asc.adds(eight, eight, 1e-5, count=8)\n",
    "        asc.sub(eight, eight, squared, count=8)\n        asc.adds(eight, eight, 1e-5, count=8)\n",
    "    eight, each = singles.get(asc.float32), blocks.get(asc.float32)\n",
    "    eight, each = singles.get(asc.float32), blocks.get(asc.float32)\n"
    "    more = asc.TBuf(asc.TPosition.VECCALC)\n    pipe.init_buffer(more, 32)\n    squared = more.get(asc.float32)\n",
)

LAYER_NORM = Check(
    f"{LESSON}.layer_norm",
    run=kernel("launch", out="z"),
    draw=draw_rows,
    sizes=(1, 2, 6),
    reference=lambda x, gamma, beta, z: layer_norm(x, gamma, beta),
    compare=_NORMED,
    must=(kernel_blocks(1, 1), nothing_read_back("Spread the eight numbers with brcb; nothing has to be read back.")),
    cost=Cost(1.2),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "one_pass",
            change(*_ONE_PASS),
            got(_cancelled),
            what="rows far from 0 are wrong, the others are right.",
            why="The mean of the squares minus the square of the mean: two large numbers cancel.",
            do="Subtract the mean first; then square what is left, add it up and divide by 256.",
        ),
        Misconception(
            "one_pass_row_by_row",
            change(
                "        row_sums(eight, work, a)\n",
                "        row_sums(eight, work, a)\n        asc.adds(s, a, eight.get_value(0), count=8)\n",
            ),
            READ_BACK,
            what="numbers are read back.",
            why="S waits for V, and sends nothing meanwhile.",
            do="Leave the eight means in eight, spread them with brcb, and subtract a quarter of all rows at once.",
        ),
        Misconception(
            "no_epsilon",
            change("        asc.adds(eight, eight, 1e-5, count=8)\n", ""),
            got(
                lambda result, x, gamma, beta, z: (
                    bool(np.isnan(result).any()) and bool(np.isfinite(result[~_constant(x)]).all())
                )
            ),
            what="a row of equal numbers becomes nan.",
            why="Its variance is 0, and 0 / 0 is nan.",
            do="Add 1e-5 to the variance before the root.",
        ),
        Misconception(
            "epsilon_behind_the_root",
            change(
                "        asc.adds(eight, eight, 1e-5, count=8)\n        asc.sqrt(eight, eight, count=8)\n",
                "        asc.sqrt(eight, eight, count=8)\n        asc.adds(eight, eight, 1e-5, count=8)\n",
            ),
            source(r"asc\.sqrt\(eight[\s\S]*asc\.adds\(eight"),
            what="something is added to the root, not to the variance.",
            why="The 1e-5 stands under the root.",
            do="First adds, then sqrt.",
        ),
        Misconception(
            "not_centred",
            change("asc.sub(c[q * 64 :], a[q * 64 :], each, 64, 8, per_row)", "asc.adds(c, a, 0.0, count=2048)"),
            _normed(centred=False),
            what="the mean is not subtracted.",
            why="Without it this is an RMS norm.",
            do="Subtract the mean of each row, and square what is left.",
        ),
        Misconception(
            "no_root",
            change("        asc.sqrt(eight, eight, count=8)\n", ""),
            _normed(root=False),
            what="the rows are divided by the variance.",
            why="The divisor is the variance's root.",
            do="Call sqrt before brcb.",
        ),
        Misconception(
            "sum_for_mean",
            change(
                "        row_sums(eight, work, s)\n        asc.muls(eight, eight, 1 / 256, count=8)\n",
                "        row_sums(eight, work, s)\n",
            ),
            _normed(count=1),
            what="the sum of the squares is taken for their mean.",
            why="The variance is the mean.",
            do="Multiply the second sums by 1 / 256, too.",
        ),
        Misconception(
            "sum_for_first_mean",
            change(
                "        row_sums(eight, work, a)\n        asc.muls(eight, eight, 1 / 256, count=8)\n",
                "        row_sums(eight, work, a)\n",
            ),
            _normed(parts=1),
            what="the sum of the row is subtracted, not its mean.",
            why="row_sums gives sums; the mean is the 256th part.",
            do="Multiply the first sums by 1 / 256, before brcb.",
        ),
        Misconception(
            "unbiased",
            change(
                "row_sums(eight, work, s)\n        asc.muls(eight, eight, 1 / 256",
                "row_sums(eight, work, s)\n        asc.muls(eight, eight, 1 / 255",
            ),
            _normed(count=255),
            what="the squares are divided by 255.",
            why="torch.var does that unless told otherwise; layer norm takes the mean of the squares.",
            do="Multiply by 1 / 256.",
        ),
        Misconception(
            "squares_of_x",
            change(
                "        in_x.free_tensor(a)\n        asc.mul(s, c, c, count=2048)\n",
                "        asc.mul(s, a, a, count=2048)\n        in_x.free_tensor(a)\n",
            ),
            _normed(of_x=True),
            what="the squares are those of x, not of x - mean.",
            why="The mean of x² is the variance only if the mean is 0.",
            do="Square c, after the mean was subtracted.",
        ),
        Misconception(
            "first_row_for_all",
            change("asc.BinaryRepeatParams(1, 1, 0, 32, 32, 1)", "asc.BinaryRepeatParams(1, 1, 0, 32, 32, 0)"),
            source(r"BinaryRepeatParams\(1, 1, 0, 32, 32, 0\)"),
            what="all rows of a tile get the number of the first row.",
            why="With repeat stride 0 every repeat reads the same block.",
            do="Go on one block in each repeat: BinaryRepeatParams(1, 1, 0, 32, 32, 1).",
        ),
        Misconception(
            "gamma_along_the_rows",
            change("asc.BinaryRepeatParams(1, 1, 1, 32, 32, 0)", "asc.BinaryRepeatParams(1, 1, 1, 32, 32, 32)"),
            fault("kernel.tensor_range") & source(r"BinaryRepeatParams\(1, 1, 1, 32, 32, [1-9]\d*\)"),
            what="gamma and beta are read beyond their end.",
            why="There is one row of them, and every row of x needs the same one.",
            do="Give them repeat stride 0.",
        ),
        Misconception(
            "first_quarter_of_gamma",
            change("c[at:], g[at:]", "c[at:], g"),
            gives(lambda x, gamma, beta, z: layer_norm(x, np.tile(gamma[:64], 4), beta), _NORMED_ALIKE),
            what="every quarter gets the first quarter of gamma.",
            why="g stays at its beginning while c goes on.",
            do="Write g[at:].",
        ),
        Misconception(
            "first_quarter_of_both",
            change("c[at:], g[at:]", "c[at:], g", "c[at:], b[at:]", "c[at:], b"),
            gives(
                lambda x, gamma, beta, z: layer_norm(x, np.tile(gamma[:64], 4), np.tile(beta[:64], 4)), _NORMED_ALIKE
            ),
            what="every quarter gets the first quarter of gamma and beta.",
            why="g and b stay at their beginning while c goes on.",
            do="Write g[at:] and b[at:].",
        ),
        Misconception(
            "beta_before_gamma",
            change(
                "asc.mul(c[at:], c[at:], g[at:]",
                "asc.NOW(c[at:], c[at:], b[at:]",
                "asc.add(c[at:], c[at:], b[at:]",
                "asc.mul(c[at:], c[at:], g[at:]",
                "asc.NOW",
                "asc.add",
            ),
            gives(
                lambda x, gamma, beta, z: layer_norm(x, np.ones_like(gamma), beta) * gamma,
                _NORMED_ALIKE,
            ),
            what="beta is multiplied by gamma.",
            why="First times gamma, then plus beta.",
            do="Put the mul before the add.",
        ),
    ),
)

CHECKS = [DEPTH, TAIL, NORM, LOG_SOFTMAX, COLUMNS, LAYER_NORM]
