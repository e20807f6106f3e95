"""Checks of 19_tiling."""

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
    Cost,
    Misconception,
    Sign,
    call,
    change,
    exact,
    fault,
    gives,
    got,
    how_many_right,
    kernel,
    kernel_blocks,
    raises,
    read,
    require,
    sign,
    slow,
    source,
    unmet,
)
from cannlab.course.spec.requirements import Requirement
from cannlab.machine.core.opcodes import ROWS
from cannlab.machine.core.pipes import Pipe

Array = NDArray[Any]
LESSON = "19_tiling"
HALF = np.float16


def up(number: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``number``."""
    return -(-number // step) * step


# -- 1 predict ---------------------------------------------------------------------------------------


def _shares(shape: dict[str, int], each: int) -> dict[str, int]:
    """The five numbers, if core 0 gets ``each``."""
    used = -(-shape["length"] // each)
    return {
        "each": each,
        "used": used,
        "last": shape["length"] - (used - 1) * each,
        "tiles": -(-each // shape["tile"]),
        "lost": shape["length"] % 16,
    }


def _shared(shape: dict[str, int]) -> dict[str, int]:
    return _shares(shape, up(-(-shape["length"] // shape["cores"]), 16))


def _drawn(rng: Generator, kind: str) -> dict[str, int]:
    cores, tile = int(rng.choice([20, 24, 40, 48])), int(rng.choice([32, 64]))
    if kind == "even":
        length = cores * 16 * int(rng.choice([5, 7, 9, 11]))
    elif kind == "short":
        length = int(rng.integers(3, 12)) * 16 + int(rng.integers(1, 16))
    else:
        length = int(rng.integers(700, 4000))
    return {"length": length, "cores": cores, "tile": tile}


def draw_predict(rng: Generator, kind: str) -> dict[str, Any]:
    """Uneven: every shortcut gives other numbers. Even: nothing is left over. Short: less than a block for a core."""
    while True:
        shape = _drawn(rng, kind)
        right = _shared(shape)
        if kind != "uneven" or (
            right["used"] < shape["cores"]
            and right["each"] % 32
            and right["each"] > shape["tile"]
            and shape["length"] % 32 > 16
            and 32 < right["last"] < right["each"]
            and shape["length"] % shape["cores"]
            and -(-shape["length"] // shape["cores"]) % 16
            and right["last"] % shape["tile"] > 16
        ):
            return {"shape": shape}


def _numbers(attempt: Attempt) -> list[tuple[dict[str, int], dict[str, Any]]]:
    """The shape and the answers of every case that left a dictionary."""
    return [(case.inputs["shape"], case.got) for case in attempt.cases if isinstance(case.got, dict)]


def _number(name: str, wrong: Callable[[dict[str, int]], int]) -> Sign:
    """This number is what the wrong formula gives for every vector, whatever the others are."""

    def ask(attempt: Attempt) -> bool:
        found = [(shape, got.get(name)) for shape, got in _numbers(attempt)]
        return (
            bool(found)
            and all(number == wrong(shape) for shape, number in found)
            and any(number != _shared(shape)[name] for shape, number in found)
        )

    return sign(ask)


def _fixed(attempt: Attempt) -> bool:
    """The same numbers for every vector."""
    found = [got for _, got in _numbers(attempt)]
    return len(found) > 1 and all(got == found[0] for got in found)


PREDICT = Check(
    f"{LESSON}.predict",
    run=read("answers"),
    draw=draw_predict,
    sizes=("uneven", "even", "short", "uneven"),
    reference=_shared,
    must=(how_many_right("numbers are"),),
    misconceptions=(
        Misconception(
            "numbers_of_one_vector",
            'answers = {"each": 80, "used": 43, "last": 54, "tiles": 2, "lost": 6}',
            sign(_fixed),
            what="the same five numbers come out for every vector.",
            why="A plan is a rule: the host must make it for each length anew.",
            do="Write the way to your numbers as expressions of length, cores and tile.",
        ),
        Misconception(
            "no_blocks",
            change("-(-length // cores // 16) * 16", "-(-length // cores)"),
            _number("each", lambda shape: -(-shape["length"] // shape["cores"])),
            what="the parts are no whole blocks.",
            why="Every part but the last is rounded up to 32 bytes, which are 16 halves.",
            do="Round each up to the next multiple of 16, then compute the rest anew.",
        ),
        Misconception(
            "elements_for_bytes",
            change("// 16) * 16", "// 32) * 32", "length % 16", "length % 32"),
            _number("each", lambda shape: up(-(-shape["length"] // shape["cores"]), 32)),
            what="a block has 32 elements with you.",
            why="A block has 32 bytes, and a half has two.",
            do="Compute with blocks of 16 halves.",
        ),
        Misconception(
            "rounded_down",
            change(
                "-(-length // cores // 16) * 16",
                "length // cores // 16 * 16",
                "used = -(-length // each)",
                "used = cores",
            ),
            _number("each", lambda shape: shape["length"] // shape["cores"] // 16 * 16) | raises("ZeroDivisionError"),
            what="the parts are rounded down.",
            why="Then the last core has more than all others; of a short vector it has everything.",
            do="Round up: the last core gets less, and some cores nothing.",
        ),
        Misconception(
            "everybody_works",
            change(
                "used = -(-length // each)",
                "used = cores",
                "length - (used - 1) * each",
                "max(length - (used - 1) * each, 0)",
            ),
            _number("used", lambda shape: shape["cores"]),
            what="all cores have work, you say.",
            why="Because each part is rounded up, the vector is used up before the last cores' turn.",
            do="Divide the length by each, rounded up.",
        ),
        Misconception(
            "whole_tiles_only",
            change("-(-each // tile)", "each // tile"),
            _number("tiles", lambda shape: _shared(shape)["each"] // shape["tile"]),
            what="the last, shorter tile of core 0 is not counted.",
            why="What is left after the whole tiles is a tile too.",
            do="Round each / tile up.",
        ),
        Misconception(
            "whole_tail_lost",
            change('"lost": length % 16', '"lost": (length - (used - 1) * each) % tile'),
            _number("lost", lambda shape: _shared(shape)["last"] % shape["tile"]),
            what="you lose the whole last tile.",
            why="data_copy moves all its whole blocks of 32 bytes; only what is behind them stays.",
            do="Take what is left of a division by 16.",
        ),
        Misconception(
            "rest_in_elements",
            change("length % 16", "length % 32"),
            _number("lost", lambda shape: shape["length"] % 32),
            what="data_copy moves 32 elements at a time with you.",
            why="It moves blocks of 32 bytes, and a half has two.",
            do="Take what is left of a division by 16.",
        ),
        Misconception(
            "last_like_the_others",
            change('"last": length - (used - 1) * each', '"last": each'),
            _number("last", lambda shape: _shared(shape)["each"]),
            what="the last core gets as much as the others, you say.",
            why="Together they would have more than the vector.",
            do="Subtract what the cores before it have from the length.",
        ),
        Misconception(
            "rest_of_a_division",
            change('"last": length - (used - 1) * each', '"last": length % each'),
            _number("last", lambda shape: shape["length"] % _shared(shape)["each"]),
            what="the last core has nothing if the vector can be divided evenly.",
            why="Then nothing is left over, and the last core has a whole part.",
            do="Subtract what the cores before it have from the length.",
        ),
    ),
)

# -- facts about kernels -----------------------------------------------------------------------------


def _warnings(case: CaseRun) -> set[str]:
    """The rules that the machine warned of."""
    return set() if case.record is None else {str(fault["rule"]) for fault in case.record.faults}


def warned(rule: str) -> Sign:
    """The machine gave this warning in some case."""
    return sign(lambda attempt: any(rule in _warnings(case) for case in attempt.cases))


def own_bytes_only() -> Requirement:
    """No copy reaches into the spare bytes behind an array."""
    return require(
        "own_bytes_only",
        lambda case: case.kernel is not None and "kernel.gm_spare" not in _warnings(case),
        holds="no byte behind the arrays was touched",
        fails="a copy reaches behind the end of an array",
        do="Let no count and no part go beyond the length; copy the tail with data_copy_pad.",
    )


def _moved(case: CaseRun, pipe: Pipe) -> list[int]:
    """Bytes that each block's copies on this pipe move, least first."""
    assert case.kernel is not None
    found = [0] * case.kernel.blocks
    for entry in case.kernel.trace:
        if ROWS[entry.op].name in ("data_copy", "data_copy_pad") and entry.pipe == pipe:
            found[entry.core] += entry.immediates[0] * entry.immediates[1]
    return sorted(found)


# -- 2 tail ------------------------------------------------------------------------------------------


def draw_tail(rng: Generator, size: int) -> dict[str, Any]:
    return {"x": rng.standard_normal(size).astype(np.float32) - np.float32(0.25), "z": np.zeros(size, np.float32)}


def two_copies_a_tile() -> Requirement:
    """A copy in and a copy out for every 256 elements, the last ones too."""

    def holds(case: CaseRun) -> bool:
        assert case.kernel is not None
        counts = case.kernel.counts()
        return bool(counts["data_copy_pad"] + counts["data_copy"] == 2 * -(-case.inputs["x"].size // 256))

    return require(
        "two_copies_a_tile",
        holds,
        holds="a copy in and a copy out for every tile of 256",
        fails="the number of copies is not two for every tile of 256",
        do="Leave tile, start and the step of the loop as they were; let size follow count.",
    )


_IN = "asc.data_copy_pad(a, x_gm[start:], size, asc.DataCopyPadExtParams(asc.float32))"
_OUT = "asc.data_copy_pad(z_gm[start:], c, size)"
_PLAIN_IN = "asc.data_copy(a, x_gm[start:], count=count)"
_PLAIN_OUT = "asc.data_copy(z_gm[start:], c, count=count)"

TAIL = Check(
    f"{LESSON}.tail",
    run=kernel("launch", out="z"),
    draw=draw_tail,
    sizes=(1, 7, 8, 256, 257, 1001),
    reference=lambda x, z: np.abs(x),
    compare=exact(),
    must=(kernel_blocks(1, 1), own_bytes_only(), two_copies_a_tile()),
    misconceptions=(
        Misconception(
            "elements_for_bytes",
            change("DataCopyExtParams(1, count * 4,", "DataCopyExtParams(1, count,"),
            source(r"DataCopyExtParams\(1, count,"),
            what="a quarter of each tile is copied.",
            why="The length of a block in DataCopyExtParams is counted in bytes, and a float32 has four.",
            do="Write asc.DataCopyExtParams(1, count * 4, 0, 0).",
        ),
        Misconception(
            "bytes_of_halves",
            change("DataCopyExtParams(1, count * 4,", "DataCopyExtParams(1, count * 2,"),
            source(r"DataCopyExtParams\(1, count \* 2,"),
            what="half of each tile is copied.",
            why="A half has two bytes; these are float32, with four.",
            do="Write asc.DataCopyExtParams(1, count * 4, 0, 0).",
        ),
        Misconception(
            "an_element_a_block",
            change("DataCopyExtParams(1, count * 4,", "DataCopyExtParams(count, 4,"),
            source(r"DataCopyExtParams\(count,"),
            what="each element is a block of its own.",
            why="The first number counts blocks, and each block begins at 32 bytes in the UB: the tile falls apart.",
            do="Copy one block of count * 4 bytes.",
        ),
        Misconception(
            "only_in",
            change(_OUT, _PLAIN_OUT),
            warned("kernel.tail_lost") & source(r"data_copy_pad\(a"),
            what="the tail comes in, but does not go out.",
            why="The copy out is rounded down to 32 bytes as well.",
            do="Copy out with asc.data_copy_pad(z_gm[start:], c, size).",
        ),
        Misconception(
            "only_out",
            change(_IN, _PLAIN_IN),
            warned("kernel.tail_lost") & source(r"data_copy_pad\(z"),
            what="the tail goes out, but never came in.",
            why="The copy in is rounded down: abs then reads bytes that nobody wrote.",
            do="Copy in with data_copy_pad and the same size.",
        ),
        Misconception(
            "unchanged",
            change(_IN, _PLAIN_IN, _OUT, _PLAIN_OUT),
            warned("kernel.tail_lost"),
            what="the tail stays behind.",
            why="data_copy rounds the length down to 32 bytes, 8 floats.",
            do="Use data_copy_pad for both copies, with the length in bytes.",
        ),
        Misconception(
            "rounded_up",
            change(
                _IN,
                "asc.data_copy(a, x_gm[start:], count=(count + 7) // 8 * 8)",
                _OUT,
                "asc.data_copy(z_gm[start:], c, count=(count + 7) // 8 * 8)",
                "asc.abs(c, a, count=count)",
                "asc.abs(c, a, count=(count + 7) // 8 * 8)",
            ),
            warned("kernel.gm_spare") & ~source(r"data_copy_pad"),
            what="the copies reach behind the end of x and z.",
            why="Rounded up, the last copy moves bytes that are not yours; they may be another tensor.",
            do="Move the exact bytes with data_copy_pad.",
        ),
        Misconception(
            "always_a_whole_tile",
            change("DataCopyExtParams(1, count * 4,", "DataCopyExtParams(1, tile * 4,"),
            (warned("kernel.gm_spare") | fault("kernel.gm_range")) & source(r"data_copy_pad"),
            what="the last tile is copied as if it were whole.",
            why="The last tile has only count elements; behind them x and z end.",
            do="Compute the size from count, inside the loop.",
        ),
        Misconception(
            "tiles_overlap",
            change("asc.range(0, length, tile)", "asc.range(0, length, tile - 1)"),
            unmet("two_copies_a_tile") & ~source(r"absolute\[1\]\(x, z, x\.size, (?!256\))"),
            what="all is right, with more or other copies than tiles.",
            why="The next tile begins where this one ends, a whole tile further; the tail is the last, shorter tile.",
            do="Let the loop run from 0 to length in steps of tile, with one copy in and one copy out.",
        ),
    ),
)

# -- 3 plan ------------------------------------------------------------------------------------------

UB = 188416


def _plan(length: int, cores: int, queues: int, itemsize: int) -> tuple[int, int, int]:
    block = 32 // itemsize
    each = up(-(-length // cores), block)
    largest = UB // (queues * 2 * itemsize) // block * block
    return -(-length // each), each, min(largest, max(2048 // itemsize, up(-(-each // 4), block)))


def draw_plan(rng: Generator, size: tuple[int, int, int, int]) -> dict[str, Any]:
    return dict(zip(("length", "cores", "queues", "itemsize"), size, strict=True))


def _tile(test: Any) -> Sign:
    """Cores and parts are right in every case; some wrong tile satisfies the test."""
    return got(
        lambda result, **inputs: (
            len(result) == 3
            and tuple(result[:2]) == _plan(**inputs)[:2]
            and test(result[2], _plan(**inputs)[2], inputs)
        )
    )


def _parts(test: Any) -> Sign:
    """Some wrong (cores, part) satisfies the test."""
    return got(
        lambda result, **inputs: (
            len(result) == 3
            and tuple(result[:2]) != _plan(**inputs)[:2]
            and test(result[0], result[1], _plan(**inputs), inputs)
        )
    )


def whole_numbers() -> Requirement:
    """All three numbers are integers."""
    return require(
        "whole_numbers",
        lambda case: all(isinstance(number, (int, np.integer)) for number in case.got),
        holds="the three numbers are integers",
        fails="one of the three numbers is no integer",
        do="Divide with //: a kernel takes whole numbers of cores and elements.",
    )


def _floats(attempt: Attempt) -> bool:
    """Right but for the type of a number."""
    return all(isinstance(case.got, (tuple, list)) and case.difference is None for case in attempt.cases)


PLAN = Check(
    f"{LESSON}.plan",
    run=call("plan"),
    draw=draw_plan,
    sizes=(
        (1, 8, 2, 2),
        (9, 8, 2, 1),
        (1000, 48, 3, 2),
        (20000, 8, 2, 2),
        (20001, 8, 3, 4),
        (300_000, 7, 5, 1),
        (9_000_000, 48, 3, 4),
        (1_000_003, 8, 2, 2),
        (777_777, 1, 7, 2),
    ),
    reference=_plan,
    must=(whole_numbers(),),
    misconceptions=(
        Misconception(
            "true_division",
            change("188416 // (queues", "188416 / (queues"),
            unmet("whole_numbers") & sign(_floats),
            what="a number is right, but a float.",
            why="/ gives a float even if nothing is left over, and // passes it on; a kernel takes whole numbers.",
            do="Divide with // everywhere.",
        ),
        Misconception(
            "block_of_16",
            change("block = 32 // itemsize", "block = 16"),
            _parts(
                lambda used, each, right, inputs: (
                    each != right[1] and each == up(-(-inputs["length"] // inputs["cores"]), 16)
                )
            ),
            what="a block always has 16 elements with you.",
            why="32 bytes are 16 halves, but 8 float32 and 32 int8.",
            do="Compute block = 32 // itemsize, and use it everywhere.",
        ),
        Misconception(
            "block_of_32",
            change("block = 32 // itemsize", "block = 32"),
            _parts(
                lambda used, each, right, inputs: (
                    each != right[1] and each == up(-(-inputs["length"] // inputs["cores"]), 32)
                )
            ),
            what="a block has 32 elements with you.",
            why="A block has 32 bytes.",
            do="Divide 32 by itemsize.",
        ),
        Misconception(
            "rounded_down",
            change(
                "each = -(-length // (cores * block)) * block",
                "each = max(block, length // (cores * block) * block)",
            ),
            _parts(lambda used, each, right, inputs: each < right[1]) | raises("ZeroDivisionError"),
            what="each is rounded down.",
            why="Then the cores together have less than the vector, or one more core than there is would be needed.",
            do="Round up: -(-length // (cores * block)) * block.",
        ),
        Misconception(
            "all_cores",
            change("return -(-length // each), each", "return cores, each"),
            _parts(lambda used, each, right, inputs: each == right[1] and used == inputs["cores"]),
            what="all cores are launched, also those without work.",
            why="Rounding up may use up the vector before the last core's turn.",
            do="Return length / each, rounded up.",
        ),
        Misconception(
            "one_buffer",
            change("queues * 2 * itemsize", "queues * itemsize"),
            _tile(lambda tile, right, inputs: tile * inputs["itemsize"] * inputs["queues"] * 2 > UB),
            what="the tile does not fit into the UB.",
            why="Each queue has two buffers, so a tile takes queues * 2 * itemsize bytes an element.",
            do="Divide 188416 by queues * 2 * itemsize, and round down to whole blocks.",
        ),
        Misconception(
            "tile_not_aligned",
            change("(queues * 2 * itemsize) // block * block", "(queues * 2 * itemsize)"),
            _tile(lambda tile, right, inputs: tile * inputs["itemsize"] % 32 != 0 and tile > right),
            what="the tile is no multiple of 32 bytes.",
            why="Then the second tile begins at an odd place, and all copies but the first have a tail.",
            do="Round the largest tile down: // block * block.",
        ),
        Misconception(
            "no_lower_limit",
            change("max(2048 // itemsize, quarter)", "quarter"),
            _tile(lambda tile, right, inputs: tile < right and tile * inputs["itemsize"] < 2048),
            what="short vectors get tiny tiles.",
            why="A copy of a few bytes pays the same latency as one of 2048.",
            do="Take at least 2048 bytes: max(2048 // itemsize, quarter).",
        ),
        Misconception(
            "lower_limit_in_elements",
            change("2048 // itemsize", "2048"),
            _tile(lambda tile, right, inputs: tile == 2048 != right),
            what="the smallest tile has 2048 elements.",
            why="The limit is 2048 bytes.",
            do="Divide 2048 by itemsize.",
        ),
        Misconception(
            "as_large_as_fits",
            change("min(largest, max(2048 // itemsize, quarter))", "largest"),
            _tile(lambda tile, right, inputs: tile > right),
            what="the tile is larger than asked for.",
            why="If a core has fewer than about four tiles, its pipes hardly overlap.",
            do="Take the larger of a quarter of each and 2048 bytes, but no more than fits.",
        ),
    ),
)

# -- 4 any_length ------------------------------------------------------------------------------------


def draw_halves(rng: Generator, size: int) -> dict[str, Any]:
    return {"x": rng.uniform(-8, 8, size).astype(HALF), "z": np.zeros(size, HALF)}


def cores_with_work(most: int) -> Requirement:
    """As many blocks as the even split in whole 32-byte blocks has parts."""

    def parts(case: CaseRun) -> int:
        return int(_plan(case.inputs["x"].size, most, 2, 2)[0])

    return require(
        "cores_with_work",
        lambda case: case.kernel is not None and case.kernel.blocks == parts(case),
        holds="as many cores as have work",
        fails="the number of cores is not that of the even split",
        do="Round the part of a core up to 16 halves; launch length / part cores, rounded up.",
    )


def even_parts(most: int) -> Requirement:
    """Every core copies in and out its own part, each element once."""

    def holds(case: CaseRun) -> bool:
        size = case.inputs["x"].size
        used, each, _ = _plan(size, most, 2, 2)
        parts = sorted([each * 2] * (used - 1) + [(size - (used - 1) * each) * 2])
        return _moved(case, Pipe.MTE2) == _moved(case, Pipe.MTE3) == parts

    return require(
        "even_parts",
        holds,
        holds="every core copies its part once",
        fails="the cores do not copy just their even parts",
        do="Let each be length / 8, rounded up to 16 halves, and the tiles of a core lie one behind the other.",
    )


def _rest_zero(result: Array, x: Array, z: Array) -> bool:
    """Right up to some place, and zero behind it."""
    right = np.maximum(x, 0)
    wrong = np.flatnonzero(result != right)
    return bool(wrong.size and (result[wrong[0] :] == 0).all())


def _all_right(attempt: Attempt) -> bool:
    return all(case.difference is None for case in attempt.cases)


def _eighths(attempt: Attempt) -> bool:
    """As many cores as an eighth, not rounded up to blocks, asks for."""
    sizes = [case.inputs["x"].size for case in attempt.cases]
    wanted = [-(-size // -(-size // 8)) for size in sizes]
    return wanted == [case.kernel.blocks if case.kernel else 0 for case in attempt.cases]


ANY_LENGTH = Check(
    f"{LESSON}.any_length",
    run=kernel("launch", out="z"),
    draw=draw_halves,
    sizes=(1, 16, 257, 16384, 190_003),
    reference=lambda x, z: np.maximum(x, 0),
    compare=exact(),
    must=(cores_with_work(8), even_parts(8), own_bytes_only()),
    cost=Cost(1.3),
    misconceptions=(
        Misconception(
            "bytes_of_elements",
            change("DataCopyExtParams(1, here * 2,", "DataCopyExtParams(1, here,"),
            source(r"DataCopyExtParams\(1, \w+, 0"),
            what="half of each tile is copied.",
            why="The length in DataCopyExtParams is counted in bytes.",
            do="Write here * 2.",
        ),
        Misconception(
            "data_copy_for_all",
            change(
                "asc.data_copy_pad(a, xs[start:], size, asc.DataCopyPadExtParams(asc.float16))",
                "asc.data_copy(a, xs[start:], count=here)",
                "asc.data_copy_pad(zs[start:], c, size)",
                "asc.data_copy(zs[start:], c, count=here)",
            ),
            warned("kernel.tail_lost"),
            what="the tail stays behind.",
            why="data_copy rounds the length down to 32 bytes.",
            do="Use data_copy_pad with here * 2 bytes for both copies.",
        ),
        Misconception(
            "parts_not_aligned",
            change("each = -(-x.size // 128) * 16", "each = -(-x.size // 8)"),
            unmet("cores_with_work") & sign(_eighths),
            what="the parts are not whole blocks of 32 bytes.",
            why="All results are right, but every core has a tail, and short vectors are cut into crumbs.",
            do="Round the part up to 16 halves: -(-x.size // 128) * 16.",
        ),
        Misconception(
            "last_core_too_far",
            change(
                "    if end > length:  # mutate: skip the same when equal\n        end = length\n",
                "",
            ),
            warned("kernel.gm_spare") | fault("kernel.gm_range"),
            what="a core works behind the end of the vector.",
            why="The last core has less than each: the parts are rounded up.",
            do="In the kernel: if end > length: end = length.",
        ),
        Misconception(
            "tile_not_cut",
            change(
                "        if here > tile:  # mutate: skip the same when equal\n            here = tile\n",
                "",
            ),
            fault("kernel.tensor_range") | fault("kernel.buffer_overflow"),
            what="a tile is larger than its buffer.",
            why="here is everything that is left; a buffer holds tile elements.",
            do="Cut it: if here > tile: here = tile.",
        ),
        Misconception(
            "rest_dropped",
            change(
                "each = -(-x.size // 128) * 16",
                "each = max(16, x.size // 128 * 16)",
                "-(-x.size // each)",
                "min(8, -(-x.size // each))",
            ),
            got(_rest_zero),
            what="the end of the vector is never computed.",
            why="A division that rounds down drops the rest: nobody works on it.",
            do="Round up, on the host and in the kernel, and cut what is too long.",
        ),
        Misconception(
            "one_tile_a_core",
            change("each, 2048)", "each, each)"),
            fault="kernel.ub_overflow",
        ),
        Misconception(
            "tiles_overlap",
            change("asc.range(begin, end, tile)", "asc.range(begin, end, tile - 1)"),
            unmet("even_parts") & ~unmet("cores_with_work") & sign(_all_right),
            what="some elements are copied more than once.",
            why="The next tile begins where this one ends, a whole tile further; the next part where this one ends.",
            do="Let the loop go from begin to end in steps of tile, and each be length / 8, rounded up to 16 halves.",
        ),
        Misconception(
            "tiny_tiles",
            change("each, 2048)", "each, 64)"),
            slow() & source(r", (16|32|48|64|96|128|256)\)"),
            what="the tiles are too small.",
            why="Each copy pays its latency for a few bytes.",
            do="Use tiles of some KiB, such as 2048 halves.",
        ),
        Misconception(
            "one_core",
            change("each = -(-x.size // 128) * 16", "each = -(-x.size // 16) * 16"),
            unmet("cores_with_work") & slow(),
            what="one core does everything.",
            why="Seven cores are idle.",
            do="Give every core an eighth, rounded up to 16 halves.",
        ),
    ),
)

# -- 5 crop ------------------------------------------------------------------------------------------


def draw_crop(rng: Generator, size: tuple[int, int, int, int]) -> dict[str, Any]:
    """A matrix with a window of rows x columns, somewhere inside of it."""
    rows, columns, above, beside = size
    top, left = int(rng.integers(above // 2, above + 1)), int(rng.integers(beside // 2, beside + 1))
    x = rng.standard_normal((rows + above, columns + beside)).astype(np.float32)
    return {"x": x, "z": np.zeros((rows, columns), np.float32), "top": top, "left": left}


def _window(x: Array, z: Array, top: int, left: int) -> Array:
    rows, columns = z.shape
    found: Array = 2 * x[top : top + rows, left : left + columns]
    return found


def sixteen_rows_a_copy() -> Requirement:
    """One copy in and one out for 16 rows."""
    return require(
        "sixteen_rows_a_copy",
        lambda case: (
            case.kernel is not None
            and case.kernel.counts()["data_copy_pad"] + case.kernel.counts()["data_copy"]
            == 2 * -(-case.inputs["z"].shape[0] // 16)
        ),
        holds="16 rows were copied by one instruction",
        fails="the number of copies is not two for 16 rows",
        do="Let blocks be the number of rows, at most 16, and go on 16 rows in each turn.",
    )


def _crop_gives(formula: Any) -> Sign:
    return gives(formula, exact())


def _from(x: Array, z: Array, first: int, step: int) -> Array:
    """What is found if the window began at ``first`` and its rows lay ``step`` elements apart."""
    flat = np.append(x.reshape(-1), np.zeros(x.size + z.size * 4, np.float32))
    rows, columns = z.shape
    return np.stack([2 * flat[first + row * step :][:columns] for row in range(rows)])


def _without_gaps(x: Array, z: Array, top: int, left: int) -> Array:
    """The rows of each 16 taken one behind the other."""
    first, width, columns = top * x.shape[1] + left, x.shape[1], z.shape[1]
    groups = [_from(x, z[row : row + 16], first + row * width, columns) for row in range(0, z.shape[0], 16)]
    return np.concatenate(groups)


CROP = Check(
    f"{LESSON}.crop",
    run=kernel("launch", out="z"),
    draw=draw_crop,
    sizes=((3, 8, 2, 8), (16, 5, 1, 9), (17, 13, 4, 6), (40, 100, 3, 28), (1, 1, 3, 4)),
    reference=_window,
    compare=exact(),
    must=(kernel_blocks(1, 1), sixteen_rows_a_copy()),
    cost=Cost(1.2),
    misconceptions=(
        Misconception(
            "gap_in_elements",
            change("(width - columns) * 4", "(width - columns)"),
            source(r"columns \* 4, width - columns,|columns \* 4, \(width - columns\),"),
            what="the gap is counted in elements.",
            why="On the side of global memory a gap is counted in bytes.",
            do="Write (width - columns) * 4.",
        ),
        Misconception(
            "stride_for_gap",
            change("(width - columns) * 4", "width * 4"),
            source(r"columns \* 4, width \* 4,"),
            what="the gap is a whole row.",
            why="A gap reaches from the end of a block to the beginning of the next, not from beginning to beginning.",
            do="Subtract the columns of the window: (width - columns) * 4.",
        ),
        Misconception(
            "no_gap",
            change("(width - columns) * 4", "0"),
            _crop_gives(_without_gaps),
            what="the rows of the window are read without a gap.",
            why="In the matrix, a row of the window is followed by the rest of the matrix's row.",
            do="Give the copy in a source gap of (width - columns) * 4 bytes.",
        ),
        Misconception(
            "gap_on_the_way_out",
            change(
                "z_gm[row * columns :], c, asc.DataCopyExtParams(here, columns * 4, 0, 0)",
                "z_gm[row * columns :], c, asc.DataCopyExtParams(here, columns * 4, (padded - columns) // 8, "
                "(padded - columns) * 4)",
            ),
            source(r"DataCopyExtParams\(\w+, columns \* 4, .*, \(padded - columns\) \* 4\)"),
            what="there are gaps between the rows of z.",
            why="The filler stands in the UB only; in z the rows lie one behind the other.",
            do="Copy out with both gaps 0: in the UB each block begins at 32 bytes by itself.",
        ),
        Misconception(
            "filler_as_gap",
            change(
                "z_gm[row * columns :], c, asc.DataCopyExtParams(here, columns * 4, 0, 0)",
                "z_gm[row * columns :], c, asc.DataCopyExtParams(here, columns * 4, (padded - columns) * 4, 0)",
            ),
            source(r"DataCopyExtParams\(\w+, columns \* 4, .*padded - columns"),
            what="the filler is given as a gap.",
            why="In the UB a gap counts whole blocks of 32 bytes behind the filler; the filler is skipped by itself.",
            do="Let both gaps of the copy out be 0.",
        ),
        Misconception(
            "same_gaps_both_ways",
            change(
                "z_gm[row * columns :], c, asc.DataCopyExtParams(here, columns * 4, 0, 0)",
                "z_gm[row * columns :], c, part",
            ),
            source(r"data_copy_pad\(a, .*, (\w+), asc\.DataCopyPad[\s\S]*data_copy_pad\(z_gm.*, \1\)")
            & fault("kernel.tensor_range"),
            what="the copy out has the gap of the copy in.",
            why="A source gap is in x on the way in, in bytes; on the way out it is in the UB, in 32-byte blocks.",
            do="Give the copy out a structure of its own, with both gaps 0.",
        ),
        Misconception(
            "one_row_computed",
            change("count=here * padded", "count=padded"),
            source(r"count=padded\)") & fault("kernel.undefined"),
            what="only the first row of each tile is computed.",
            why="A tile now has up to 16 rows of padded elements.",
            do="Compute padded elements for each row that was copied.",
        ),
        Misconception(
            "always_sixteen_rows",
            change(
                "if here > 16:  # mutate: skip the same when equal\n            here = asc.number(16, asc.int32)",
                "here = 16",
            ),
            fault("kernel.gm_range") | warned("kernel.gm_spare"),
            what="the last copy takes 16 rows, also if fewer are left.",
            why="Behind the last row x and z end.",
            do="Take rows - row, and cut it to 16.",
        ),
        Misconception(
            "count_without_filler",
            change("count=here * padded", "count=here * columns"),
            source(r"count=\w+ \* columns"),
            what="the last rows are not all computed.",
            why="In the UB a row takes padded elements; rows times columns ends too early.",
            do="Compute padded elements for each row that was copied.",
        ),
        Misconception(
            "buffer_too_small",
            change("2, padded * 64)", "2, padded * 16)"),
            fault="kernel.tensor_range",
        ),
        Misconception(
            "left_forgotten",
            change("top * width + left, width", "top * width, width"),
            _crop_gives(lambda x, z, top, left: _from(x, z, top * x.shape[1], x.shape[1])),
            what="the window begins at the left edge of the matrix.",
            why="Its first element is left columns further.",
            do="Begin at top * width + left.",
        ),
        Misconception(
            "not_doubled",
            change("asc.muls(c, a, 2.0,", "asc.muls(c, a, 1.0,"),
            _crop_gives(lambda x, z, top, left: _window(x, z, top, left) / 2),
            what="the window is right, but not doubled.",
            why="The task asks for twice the window.",
            do="Multiply by 2.0.",
        ),
        Misconception(
            "row_by_row",
            change("0, rows, 16)", "0, rows)", "if here > 16:", "if here > 1:", "asc.number(16,", "asc.number(1,"),
            unmet("sixteen_rows_a_copy"),
            what="each row is copied by an instruction of its own.",
            why="That is right, and pays the latency for each row.",
            do="Copy here rows at once: DataCopyExtParams(here, ...).",
        ),
        Misconception(
            "int_in_if",
            change("here = asc.number(16, asc.int32)", "here = 16"),
            raises("UnsupportedSyntaxError", "re-assigned"),
            what="a number of the compiler is assigned to a number of the kernel.",
            why="The rows that are left are computed while the kernel runs; 16 is known before. No name can be both.",
            do="Pass 16 to the kernel as an argument, as tile was in exercise 2, or write asc.number(16, asc.int32).",
        ),
    ),
)

CHECKS = [PREDICT, TAIL, PLAN, ANY_LENGTH, CROP]
