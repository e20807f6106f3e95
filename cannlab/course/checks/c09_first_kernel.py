"""Checks of 09_first_kernel."""

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
    fault,
    gives,
    got,
    how_many_right,
    instructions,
    kernel,
    kernel_blocks,
    overlapping,
    pipes,
    raises,
    read,
    require,
    sign,
    slow,
    source,
    unmet,
)
from cannlab.course.spec.requirements import Requirement

Array = NDArray[Any]
LESSON = "09_first_kernel"
HALF = np.float16


def draw_vectors(cores: int = 1) -> Callable[[Generator, int], dict[str, Any]]:
    """Two vectors of halves, ``size`` elements for each core."""

    def draw(rng: Generator, size: int) -> dict[str, Any]:
        x, y = (rng.uniform(-8, 8, cores * size).astype(HALF) for _ in range(2))
        return {"x": x, "y": y, "z": np.zeros(cores * size, HALF)}

    return draw


def each_tile_once(elements: int) -> Requirement:
    """Two copies in and one out for each tile: a turn too many ends in the spare bytes behind the arrays, unseen."""
    return require(
        "each_tile_once",
        lambda case: (
            case.kernel is not None and case.kernel.counts()["data_copy"] == 3 * case.inputs["x"].size // elements
        ),
        holds="each tile was copied in and out once",
        fails="the number of copies is not three for each tile",
        do="Copy one tile of x, one of y and one of z in each turn, and take as many turns as there are tiles.",
    )


def races(*events: str) -> Sign:
    """Exactly these events are missing."""

    def ask(attempt: Any) -> bool:
        missing = {
            each["facts"].get("event")
            for case in attempt.cases
            for each in case.faults
            if each["rule"] == "kernel.race"
        }
        return missing == set(events)

    return sign(ask)


# -- 1 first -----------------------------------------------------------------------------------------


def _first_tile(x: Array, y: Array, z: Array) -> Array:
    """Every tile of a core is computed from its first one."""
    parts = (x - y).reshape(2, -1, 256)
    return np.repeat(parts[:, :1], parts.shape[1], axis=1).reshape(-1)


def _last_only(x: Array, y: Array, z: Array) -> Array:
    """Every tile of a core lands on its first one."""
    parts = (x - y).reshape(2, -1, 256)
    found = np.zeros_like(parts)
    found[:, 0] = parts[:, -1]
    return found.reshape(-1)


FIRST = Check(
    f"{LESSON}.first",
    run=kernel("launch", out="z"),
    draw=draw_vectors(2),
    sizes=(256, 512, 1792),
    reference=lambda x, y, z: x - y,
    compare=allclose(rtol=1e-3),
    must=(kernel_blocks(2, 2), instructions("sub", at_least=2), each_tile_once(256)),
    misconceptions=(
        Misconception(
            "swapped",
            change("asc.sub(c, a, b, count=256)", "asc.sub(c, b, a, count=256)"),
            gives(lambda x, y, z: y - x, allclose(rtol=1e-3)),
            what="the result has the wrong sign.",
            why="asc.sub(result, left, right) computes left - right.",
            do="Write asc.sub(c, a, b, count=256).",
        ),
        Misconception(
            "added",
            change("asc.sub(", "asc.add("),
            gives(lambda x, y, z: x + y, allclose(rtol=1e-3)),
            what="the vectors are added.",
            why="The exercise asks for x - y.",
            do="Use asc.sub.",
        ),
        Misconception(
            "always_the_first_tile",
            change("x_gm[i * 256 :]", "x_gm", "y_gm[i * 256 :]", "y_gm"),
            gives(_first_tile, allclose(rtol=1e-3)),
            what="every tile is computed from the first one.",
            why="x_gm is the start of this block's part; the loop must move on from there.",
            do="Copy from x_gm[i * 256 :] and y_gm[i * 256 :].",
        ),
        Misconception(
            "always_to_the_start",
            change("data_copy(z_gm[i * 256 :]", "data_copy(z_gm"),
            gives(_last_only, allclose(rtol=1e-3)),
            what="every result lands on the first tile of z.",
            why="The copy out needs the offset of its tile as the copies in do.",
            do="Copy to z_gm[i * 256 :].",
        ),
        Misconception(
            "block_offset_twice",
            change("x_gm[i * 256 :]", "x_gm[start + i * 256 :]", "y_gm[i * 256 :]", "y_gm[start + i * 256 :]"),
            source(r"_gm\[\(?start \+|_gm\[[^\]]*\+ start\b"),
            what="the block's offset is added twice.",
            why="x_gm begins at the block's own part already: set_global_buffer was given x + start.",
            do="Count the tiles from 0 in each block: x_gm[i * 256 :].",
        ),
        Misconception(
            "python_operator",
            change("asc.sub(c, a, b, count=256)", "c = a - b"),
            raises("CodegenError", "unsupported operand type"),
            what="tensors are subtracted with Python's minus.",
            why="A LocalTensor is a piece of the UB, not an array; every instruction names where its result goes.",
            do="Write asc.sub(c, a, b, count=256).",
        ),
        Misconception(
            "end_of_slice",
            change("x_gm[i * 256 :], count=256", "x_gm[i * 256 : (i + 1) * 256]"),
            raises("CodegenError", "Only the start of a slice"),
            what="a slice has an end.",
            why="A GlobalTensor is a place in memory, from which on you copy; count says how much.",
            do="Write x_gm[i * 256 :], count=256.",
        ),
        Misconception(
            "index_for_offset",
            change("x_gm[i * 256 :]", "x_gm[i:]", "y_gm[i * 256 :]", "y_gm[i:]"),
            source(r"[xy]_gm\[i:\]"),
            what="tile i is taken from element i.",
            why="An offset counts elements, and a tile has 256 of them.",
            do="Write x_gm[i * 256 :].",
        ),
        Misconception(
            "bytes_for_elements",
            change("count=256", "count=512"),
            fault="kernel.tensor_range",
        ),
        Misconception(
            "one_input",
            change("        asc.data_copy(b, y_gm[i * 256 :], count=256)", "       "),
            fault("kernel.undefined"),
            what="b is enqueued without data.",
            why="A fresh buffer holds arbitrary bytes: enque says that it is filled, but nobody has filled it.",
            do="Copy the tile of y to b as well.",
        ),
        Misconception(
            "to_and_from_swapped",
            change("asc.data_copy(z_gm[i * 256 :], c, count=256)", "asc.data_copy(c, z_gm[i * 256 :], count=256)"),
            source(r"data_copy\(c, z_gm"),
            what="the last copy goes the wrong way.",
            why="data_copy(to, from): the target stands first, as in an assignment.",
            do="Write asc.data_copy(z_gm[i * 256 :], c, count=256).",
        ),
    ),
)

# -- 2 events ----------------------------------------------------------------------------------------

_WORDS = ("MTE2", "MTE3", "MTE1", "V", "S", "M", "FIX", "none", "")
_NEXT = "data_copy(a, x_gm[256:], count=256)"
_EVENTS = {
    ("data_copy(a, x_gm, count=256)", "add(c, a, b, count=256)"): "MTE2_V",
    ("add(c, a, b, count=256)", "data_copy(z_gm, c, count=256)"): "V_MTE3",
    ("add(c, a, b, count=256)", _NEXT): "V_MTE2",
    ("data_copy(z_gm, c, count=256)", "add(c, a, b, count=256)"): "MTE3_V",
    ("data_copy(a, x_gm, count=256)", "data_copy(z_gm, a, count=256)"): "MTE2_MTE3",
    ("data_copy(z_gm, a, count=256)", _NEXT): "MTE3_MTE2",
    ("data_copy(a, x_gm, count=256)", "data_copy(b, y_gm, count=256)"): "none",
    ("add(c, a, b, count=256)", "mul(d, c, b, count=256)"): "none",
    ("data_copy(a, x_gm, count=256)", "add(c, b, d, count=256)"): "none",
}


def draw_events(rng: Generator, size: None) -> dict[str, Any]:
    """The four events of a loop, one of the two of a pure copy, and a pair that needs none."""
    kinds = ["MTE2_V", "V_MTE3", "V_MTE2", "MTE3_V", str(rng.choice(["MTE2_MTE3", "MTE3_MTE2"])), "none"]
    pairs = []
    for kind in kinds:
        choices = [pair for pair, event in _EVENTS.items() if event == kind]
        pairs.append(list(choices[int(rng.integers(len(choices)))]))
    return {"pairs": [pairs[k] for k in rng.permutation(6)]}


def _events(pairs: list[list[str]]) -> list[str]:
    return [_EVENTS[pair[0], pair[1]] for pair in pairs]


def _answered(other: Callable[[str], str]) -> Sign:
    """Every answer is ``other(right event)``."""
    return gives(lambda pairs: [other(event) for event in _events(pairs)])


def _events_as(text: str) -> Change:
    return change("[TABLE[tuple(pair)] for pair in pairs]", text)


def _reversed(event: str) -> str:
    return "_".join(reversed(event.split("_")))


def _forward(event: str) -> str:
    return {"V_MTE2": "MTE2_V", "MTE3_V": "V_MTE3", "MTE3_MTE2": "MTE2_MTE3"}.get(event, event)


EVENTS = Check(
    f"{LESSON}.events",
    run=read("events"),
    draw=draw_events,
    reference=_events,
    must=(how_many_right("events are"),),
    misconceptions=(
        Misconception(
            "reversed",
            _events_as('["_".join(reversed(TABLE[tuple(pair)].split("_"))) for pair in pairs]'),
            _answered(_reversed),
            what="every event is the wrong way round.",
            why="The name says from_to: first the pipe that finishes, then the pipe that waits.",
            do="Turn each name round: a copy in before an add is MTE2_V.",
        ),
        Misconception(
            "forward_only",
            _events_as(
                '[{"V_MTE2": "MTE2_V", "MTE3_V": "V_MTE3", "MTE3_MTE2": "MTE2_MTE3"}'
                ".get(TABLE[tuple(pair)], TABLE[tuple(pair)]) for pair in pairs]"
            ),
            _answered(_forward),
            what="the backward events are missing.",
            why="A buffer that is filled again must have been read: there the later pipe waits for the reader.",
            do="Look which of the two lines stands first; its pipe stands first in the name.",
        ),
        Misconception(
            "reading_is_harmless",
            _events_as(
                '["none" if TABLE[tuple(pair)] in ("V_MTE2", "MTE3_V", "MTE3_MTE2") else TABLE[tuple(pair)] '
                "for pair in pairs]"
            ),
            _answered(lambda event: "none" if event in ("V_MTE2", "MTE3_V", "MTE3_MTE2") else event),
            what="you protect what is written before it is read, but not what is read before it is overwritten.",
            why="If the next copy comes too early, the add reads the wrong tile.",
            do="Name the event from the reader to the pipe that overwrites.",
        ),
        Misconception(
            "a_flag_everywhere",
            _events_as('["MTE2_V" if TABLE[tuple(pair)] == "none" else TABLE[tuple(pair)] for pair in pairs]'),
            got(
                lambda result, pairs: (
                    "none" not in result
                    and all(one == event for one, event in zip(result, _events(pairs), strict=True) if event != "none")
                )
            ),
            what="every pair gets a flag.",
            why="Lines on one pipe keep their order, and lines that share no data need none.",
            do='Find the pair on one pipe, or without a common tensor, and write "none".',
        ),
        Misconception(
            "always_through_v",
            _events_as(
                '[{"MTE2_MTE3": "MTE2_V", "MTE3_MTE2": "V_MTE2"}.get(TABLE[tuple(pair)], TABLE[tuple(pair)]) '
                "for pair in pairs]"
            ),
            _answered(lambda event: {"MTE2_MTE3": "MTE2_V", "MTE3_MTE2": "V_MTE2"}.get(event, event)),
            what="a pair of copies gets an event of V.",
            why="Nothing is computed there: a copy in and a copy out of the same tensor, MTE2 and MTE3.",
            do="Use MTE2_MTE3 or MTE3_MTE2.",
        ),
        Misconception(
            "none_at_all",
            _events_as('["none"] * 6'),
            got(lambda result, pairs: set(result) == {"none"}),
            what="no pair needs a flag, you say.",
            why="The order of the lines is only the order of sending; different pipes do not wait for each other.",
            do="Write the two pipes of each pair, and look for the common tensor.",
        ),
        Misconception(
            "names_of_calls",
            _events_as('["copy_add"] * 6'),
            got(lambda result, pairs: any(part not in _WORDS for one in result for part in str(one).split("_"))),
            what="an answer is no event.",
            why="Events are named by pipes: MTE2 (copy in), V (vector), MTE3 (copy out).",
            do='Write names such as "MTE2_V", or "none".',
        ),
    ),
)

# -- 3 flags -----------------------------------------------------------------------------------------


def _without(*lines: str) -> Change:
    """The solved cell without these lines (with their marks)."""
    return Change(tuple((f"        {line}\n", "") for line in lines))


def _both(event: str) -> tuple[str, str]:
    return f"asc.set_flag(asc.HardEvent.{event}, 0)", f"asc.wait_flag(asc.HardEvent.{event}, 0)"


_ALL = "asc.pipe_barrier(asc.PipeID.PIPE_ALL)"

FLAGS = Check(
    f"{LESSON}.flags",
    run=kernel("launch", out="z"),
    draw=draw_vectors(),
    sizes=(256, 512, 5120),
    reference=lambda x, y, z: x + y,
    compare=allclose(rtol=1e-3),
    must=(
        kernel_blocks(1, 1),
        each_tile_once(256),
        instructions("pipe_barrier", at_most=0, do="Use set_flag and wait_flag instead of a barrier."),
        instructions("queue_alloc", at_most=0, do="Keep the three LocalTensors; use flags instead of queues."),
    ),
    cost=Cost(1.1),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "barriers",
            change(
                "        asc.wait_flag(asc.HardEvent.MTE3_V, 0)",
                f"        asc.wait_flag(asc.HardEvent.MTE3_V, 0)\n        {_ALL}",
            ),
            unmet("pipe_barrier"),
            what="there is a barrier.",
            why="It stops every pipe until all are done. A flag stops one pipe until another one is done.",
            do="Remove pipe_barrier; the four events are enough.",
        ),
        Misconception(
            "set_without_wait",
            _without(_both("MTE3_V")[1]),
            fault("kernel.flag_set_twice") | fault("kernel.flag_leaked"),
            what="a flag is set, and nobody waits for it.",
            why="set_flag alone stops no pipe, and a flag that is left over disturbs the next kernel.",
            do="Write the wait_flag of each event, with the same number.",
        ),
        Misconception(
            "no_backward_events",
            _without(*_both("V_MTE2"), *_both("MTE3_V")),
            races("V_MTE2", "MTE3_V"),
            what="within one tile all is right, but the next turn comes too early.",
            why="MTE2 may overwrite a and b while V still reads them; V may overwrite c while MTE3 copies it.",
            do="Add V_MTE2 after the add and MTE3_V after the copy out, each with its wait before the next turn.",
        ),
        Misconception(
            "inputs_overwritten",
            _without(*_both("V_MTE2")),
            races("V_MTE2"),
            what="the next copies in may come before the add has read a and b.",
            why="MTE2 waits for nobody unless you say so.",
            do="Set V_MTE2 after the add, and wait for it before the next copies in.",
        ),
        Misconception(
            "result_overwritten",
            _without(*_both("MTE3_V")),
            races("MTE3_V"),
            what="the next add may overwrite c before it is copied out.",
            why="V has its data and goes on; MTE3 may be late.",
            do="Set MTE3_V after the copy out, and wait for it before the next add.",
        ),
        Misconception(
            "copied_out_too_early",
            _without(*_both("V_MTE3")),
            races("V_MTE3"),
            what="c may be copied out before it is computed.",
            why="The copy out is on MTE3, the add on V.",
            do="Put set_flag and wait_flag of V_MTE3 between the add and the copy out.",
        ),
        Misconception(
            "first_turn_waits",
            Change(
                (
                    (f"        {_both('V_MTE2')[1]}\n", ""),
                    ("        asc.data_copy(a,", f"        {_both('V_MTE2')[1]}\n        asc.data_copy(a,"),
                )
            ),
            fault("kernel.wait_without_set")
            & source(r"wait_flag\(asc\.HardEvent\.(V_MTE2|MTE3_V), (\d+)\)[\s\S]*set_flag\(asc\.HardEvent\.\1, \2\)"),
            what="the first turn waits for a flag that only the end of a turn sets.",
            why="In the first turn nothing was read before: nobody has set the flag, and the kernel would hang.",
            do="Wait at the end of the turn. Or set the flag once before the loop, and wait once more behind it.",
        ),
        Misconception(
            "all_wait_for_the_copy_out",
            Change(
                (
                    (f"        {_both('V_MTE2')[0]}\n", ""),
                    (f"        {_both('MTE3_V')[0]}\n", f"        {_both('MTE3_MTE2')[0]}\n"),
                    (f"        {_both('V_MTE2')[1]}\n", ""),
                    (_both("MTE3_V")[1], _both("MTE3_MTE2")[1]),
                )
            ),
            slow(),
            what="no copy in runs while a result is copied out.",
            why="MTE2 needs only a and b free again, and they are when the add has read them.",
            do="Let MTE2 wait for V (V_MTE2), and V for MTE3 (MTE3_V).",
        ),
        Misconception(
            "wait_without_set",
            _without(_both("V_MTE2")[0]),
            fault="kernel.wait_without_set",
        ),
    ),
)

# -- 4 split -----------------------------------------------------------------------------------------


def parts_of(length: int, cores: int) -> list[tuple[int, int]]:
    blocks = length // 16
    used = min(blocks, cores)
    counts = [(blocks // used + (core < blocks % used)) * 16 for core in range(used)]
    return [(sum(counts[:core]), counts[core]) for core in range(used)]


def draw_split(rng: Generator, size: tuple[int, int]) -> dict[str, Any]:
    blocks, cores = size
    return {"length": 16 * blocks, "cores": cores}


def _counts(test: Callable[[list[tuple[int, int]], int, int], bool]) -> Sign:
    """Some failed result, as a list of parts, satisfies the test."""
    return got(lambda result, length, cores: test([tuple(part) for part in result], length, cores))


SPLIT = Check(
    f"{LESSON}.split",
    run=call("split"),
    draw=draw_split,
    sizes=((64, 8), (1, 8), (7, 8), (9, 8), (188, 8), (1000, 48), (5, 1)),
    reference=parts_of,
    misconceptions=(
        Misconception(
            "rest_lost",
            f"# exercise: {LESSON}.split\ndef split(length, cores):\n"
            "    count = length // cores // 16 * 16\n    return [(core * count, count) for core in range(cores)]",
            _counts(lambda parts, length, cores: sum(count for _, count in parts) < length),
            what="the parts do not cover the vector.",
            why="The divisions drop a rest, as in article A's kernel.",
            do="Give the first cores one block of 16 more each.",
        ),
        Misconception(
            "ends_for_counts",
            change("parts.append((start, count))", "parts.append((start, start + count))"),
            _counts(lambda parts, length, cores: len(parts) > 1 and parts[-1][1] == length),
            what="the second number is the end of the part.",
            why="A kernel needs the count for data_copy and add.",
            do="Append (start, count).",
        ),
        Misconception(
            "not_aligned",
            f"# exercise: {LESSON}.split\ndef split(length, cores):\n"
            "    used = min(length // 16, cores)\n    each, more = divmod(length, used)\n"
            "    parts, start = [], 0\n    for core in range(used):\n        count = each + (core < more)\n"
            "        parts.append((start, count))\n        start += count\n    return parts",
            _counts(lambda parts, length, cores: any(count % 16 for _, count in parts)),
            what="a part is no multiple of 16 elements.",
            why="data_copy moves whole blocks of 32 bytes: the tail of such a part would not be copied.",
            do="Divide length // 16 blocks, not elements.",
        ),
        Misconception(
            "empty_cores",
            change("min(blocks, cores)  # mutate: skip either order is the same", "cores"),
            _counts(lambda parts, length, cores: any(count == 0 for _, count in parts)),
            what="some cores get nothing to do.",
            why="A launch costs more with each block, also with one that does nothing.",
            do="Use min(length // 16, cores) cores.",
        ),
        Misconception(
            "all_to_the_last",
            change("count = (each + (core < more)) * 16", "count = (each + more * (core == used - 1)) * 16"),
            _counts(lambda parts, length, cores: parts[-1][1] > parts[0][1] + 16),
            what="the last core gets the whole rest.",
            why="All wait for the slowest core: with 7 blocks more it takes twice as long.",
            do="Give one block more to as many cores as blocks are left.",
        ),
        Misconception(
            "rounded_up",
            change(
                "range(used)",
                "range(-(-blocks // -(-blocks // used)))",
                "(each + (core < more)) * 16",
                "min(-(-blocks // used), blocks - start // 16) * 16",
            ),
            _counts(
                lambda parts, length, cores: parts[0][1] > parts[-1][1] + 16 or len(parts) < min(length // 16, cores)
            ),
            what="the first cores get too much, the last too little or nothing.",
            why="Rounding up for everybody uses up the vector too early.",
            do="Only the first length // 16 % used cores get one block more.",
        ),
        Misconception(
            "longer_parts_last",
            change("core < more", "core >= used - more"),
            _counts(lambda parts, length, cores: parts[0][1] < parts[-1][1]),
            what="the longer parts come last.",
            why="That is as fast; but the exercise, and usual tiling, puts them first.",
            do="Give the additional block to the cores with core < more.",
        ),
    ),
)

# -- 5 article ---------------------------------------------------------------------------------------

_SIZES = (16, 2048, 3008, 65536 + 48)


def _rest_missing(result: Array, x: Array, y: Array, z: Array) -> bool:
    """Right up to some place, and zero behind it."""
    right = x + y
    wrong = np.flatnonzero(result != right)
    return bool(wrong.size and (result[wrong] == 0).all())


_PROCESS = "process(x_gm, y_gm, z_gm, x_local, y_local, z_local, "

ARTICLE = Check(
    f"{LESSON}.article",
    run=kernel("launch", out="z"),
    draw=draw_vectors(),
    sizes=_SIZES,
    reference=lambda x, y, z: x + y,
    compare=allclose(rtol=1e-3),
    must=(kernel_blocks(8, 8),),
    cost=Cost(1.5),
    misconceptions=(
        Misconception(
            "still_init_buffer",
            change("pipe.init_buffer(x_local, 2, TILE * 2)", "pipe.init_buffer(x_local, TILE * 2)"),
            raises("CodegenError", "dispatch init_buffer()"),
            what="init_buffer of a queue lacks the number of buffers.",
            why="init_buffer(queue, number, bytes): only a TBuf has no number.",
            do="Write pipe.init_buffer(x_local, 2, bytes of a tile), and so for all three.",
        ),
        Misconception(
            "still_get",
            change(
                "x_local.alloc_tensor(asc.float16), y_local.alloc_tensor(asc.float16)",
                "x_local.get(asc.float16), y_local.get(asc.float16)",
            ),
            raises("CodegenError", "no attribute 'get'"),
            what="a queue is asked with get.",
            why="Only a TBuf has get. A queue hands out free tensors with alloc_tensor and filled ones with deque.",
            do="Use alloc_tensor before you fill a tensor, enque after it, deque before you use it.",
        ),
        Misconception(
            "python_min",
            change("    rest = size % TILE", "    rest = min(size % TILE, TILE)"),
            raises("CodegenError", "min is not defined") | raises("CodegenError", "dispatch min()"),
            what="a kernel has no min of two numbers.",
            why="Python's min is not compiled, and asc.min takes the smaller elements of two tensors.",
            do="Give the work on a tile to a function, and call it once with TILE and once with the rest.",
        ),
        Misconception(
            "constant_for_a_number",
            change(
                "        if rest > 0:  # mutate: skip copies of nothing do nothing",
                "        if rest > TILE:\n            rest = TILE\n        if rest > 0:",
            ),
            raises("UnsupportedSyntaxError", "re-assigned"),
            what="an if puts a constant where a number of the run stood.",
            why="In a branch that is decided when the kernel runs, a name must keep its kind.",
            do="Give the work on a tile to a function, and call it once with TILE and once with the rest.",
        ),
        Misconception(
            "no_queue_protocol",
            change(
                "    x_local.enque(a)\n    y_local.enque(b)\n"
                "    a, b = x_local.deque(asc.float16), y_local.deque(asc.float16)\n",
                "",
            ),
            fault("kernel.race") | fault("kernel.queue_bypassed"),
            what="the tensors are used without enque and deque.",
            why="Without them nothing tells V that the copies have arrived.",
            do="After the copies enque, before the add deque; the same for the result.",
        ),
        Misconception(
            "whole_vector",
            change("TILE * 2)", "size * 2)"),
            fault="kernel.ub_overflow",
        ),
        Misconception(
            "elements_for_bytes",
            change("TILE * 2)", "TILE)"),
            fault="kernel.tensor_range",
        ),
        Misconception(
            "never_freed",
            change("    x_local.free_tensor(a)\n    y_local.free_tensor(b)\n", ""),
            fault="kernel.queue_empty",
        ),
        Misconception(
            "rest_lost",
            change("if rest > 0:  # mutate: skip copies of nothing do nothing", "if rest < 0:"),
            got(_rest_missing),
            what="the rest of the vector is not added.",
            why="Each // counts whole parts only. What is left over needs a turn of its own, with its own count.",
            do="After the loop let one block do size % TILE elements from size - size % TILE on.",
        ),
        Misconception(
            "tiny_tiles",
            change("TILE = 2048", "TILE = 32"),
            slow() & source(r"TILE = \d{2,3}\b|count=32\b|\* 32\b"),
            what="the tiles are too small.",
            why="Each copy of 64 bytes pays the same latency as one of 4096.",
            do="Use tiles of about 2048 halves.",
        ),
        Misconception(
            "everybody_does_all",
            change(
                "asc.range(asc.get_block_idx(), size // TILE, asc.get_block_num())",
                "asc.range(size // TILE)",
            ),
            slow() & ~source(r"get_block_idx\(\).*get_block_num\(\)"),
            what="every block adds the whole vector.",
            why="The result is right, because all write the same; but eight cores are no faster than one.",
            do="Let block b take the tiles b, b + 8, b + 16, and so on.",
        ),
    ),
)

# -- 6 step ------------------------------------------------------------------------------------------


def draw_step(rng: Generator, size: int) -> dict[str, Any]:
    x, y = (rng.standard_normal(4 * size).astype(np.float32) for _ in range(2))
    return {"x": x, "y": y, "z": np.zeros(4 * size, np.float32), "rate": float(rng.choice([0.25, 0.5, 1.5, 2.5]))}


def stepped(x: Array, y: Array, z: Array, rate: float) -> Array:
    found: Array = np.maximum(x - np.float32(rate) * y, np.float32(0))
    return found


def _close(formula: Callable[..., Array]) -> Sign:
    return gives(formula, allclose(rtol=1e-4, atol=1e-5))


_THREE = "        asc.muls(r, q, rate, count=1024)\n        asc.sub(r, p, r, count=1024)\n"

STEP = Check(
    f"{LESSON}.step",
    run=kernel("launch", out="z"),
    draw=draw_step,
    sizes=(4096, 16384),
    reference=stepped,
    compare=allclose(rtol=1e-4, atol=1e-5),
    must=(kernel_blocks(4, 4), each_tile_once(1024), overlapping("V", "MTE2", 0.5)),
    cost=Cost(1.25),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "on_the_host",
            f"# exercise: {LESSON}.step\ndef launch(x, y, z, rate):\n    z[:] = np.maximum(x - rate * y, 0)",
            fault="course.no_launch",
        ),
        Misconception(
            "no_relu",
            change("        asc.relu(r, r, count=1024)\n", ""),
            _close(lambda x, y, z, rate: x - np.float32(rate) * y),
            what="negative results are left.",
            why="max(..., 0) is missing: the third operation.",
            do="Apply asc.relu to the difference.",
        ),
        Misconception(
            "rate_on_x",
            change(_THREE, "        asc.muls(r, p, rate, count=1024)\n        asc.sub(r, r, q, count=1024)\n"),
            _close(lambda x, y, z, rate: np.maximum(np.float32(rate) * x - y, 0)),
            what="rate multiplies x.",
            why="The formula is x - rate * y.",
            do="Multiply the tile of y by rate, then subtract it from the tile of x.",
        ),
        Misconception(
            "wrong_way_round",
            change("asc.sub(r, p, r, count=1024)", "asc.sub(r, r, p, count=1024)"),
            _close(lambda x, y, z, rate: np.maximum(np.float32(rate) * y - x, 0)),
            what="the difference has the wrong sign.",
            why="asc.sub(result, left, right) computes left - right.",
            do="Give asc.sub the tile of x as left, the product as right.",
        ),
        Misconception(
            "still_halves",
            change("asc.float32", "asc.float16", "2, 4096)", "2, 2048)"),
            raises("CodegenError", "must be the same type"),
            what="the tensors of the queues are halves, the vectors are float32.",
            why="data_copy moves bytes and converts nothing: both sides have one type.",
            do="Use asc.float32 in alloc_tensor and deque, and 4 bytes for each element in init_buffer.",
        ),
        Misconception(
            "half_tiles",
            change("1024", "512", "2, 4096)", "2, 2048)"),
            unmet("each_tile_once"),
            what="the tiles are not 1024 floats.",
            why="Each copy pays the same latency; smaller tiles pay it more often.",
            do="Copy 1024 elements of x, of y and of z in each turn.",
        ),
        Misconception(
            "two_bytes",
            change("2, 4096)", "2, 2048)"),
            fault="kernel.tensor_range",
        ),
        Misconception(
            "one_buffer",
            change("2, 4096)", "1, 4096)"),
            unmet("V_with_MTE2"),
            what="nothing is copied in while V works.",
            why="With one buffer the next copy in waits until the computation has freed it.",
            do="Give each queue two buffers: init_buffer(queue, 2, 4096).",
        ),
        Misconception(
            "no_block_offset",
            change("first = asc.get_block_idx() * count", "first = 0"),
            got(lambda result, x, y, z, rate: bool((result[x.size // 4 :] == 0).all())),
            what="all blocks work on the first quarter.",
            why="Every block runs the same program; only get_block_idx() tells them apart.",
            do="Start at asc.get_block_idx() * count.",
        ),
    ),
)

CHECKS = [FIRST, EVENTS, FLAGS, SPLIT, ARTICLE, STEP]
