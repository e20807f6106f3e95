"""Checks of 18_queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    slow,
    source,
    unmet,
)

Array = NDArray[Any]
Queue = tuple[int, int, list[str]]
LESSON = "18_queues"
HALF = np.float16

# -- 1 calls -----------------------------------------------------------------------------------------

_CALLS = ("alloc", "enque", "deque", "free")


def stop(
    buffers: int, depth: int, calls: Sequence[str], *, frees: str = "free", line_limit: bool = True, empty: bool = True
) -> int:
    """The number of the first call that is not possible, from 1; 0 if there is none.

    Args:
        frees: the call that makes a buffer free.
        line_limit: False if the depth were no limit.
        empty: False if deque took something from an empty line, too.
    """
    free, line = buffers, 0
    for number, each in enumerate(calls, 1):
        if each == "alloc" and free == 0:
            return number
        if each == "enque" and line_limit and line == depth:
            return number
        if each == "deque" and empty and line == 0:
            return number
        free += (each == frees) - (each == "alloc")
        line += (each == "enque") - (each == "deque")
    return 0


Rule = Callable[[int, int, Sequence[str]], int]


def _no_buffers(buffers: int, depth: int, calls: Sequence[str]) -> int:
    return stop(len(calls), depth, calls)


_WRONG: dict[str, Rule] = {
    "from_zero": lambda buffers, depth, calls: max(0, stop(buffers, depth, calls) - 1),
    "swapped": lambda buffers, depth, calls: stop(depth, buffers, calls),
    "freed_by_deque": lambda buffers, depth, calls: stop(buffers, depth, calls, frees="deque"),
    "freed_by_enque": lambda buffers, depth, calls: stop(buffers, depth, calls, frees="enque"),
    "no_depth": lambda buffers, depth, calls: stop(buffers, depth, calls, line_limit=False),
    "no_buffers": _no_buffers,
    "no_empty": lambda buffers, depth, calls: stop(buffers, depth, calls, empty=False),
}
"""What learners believe, as a rule for one queue."""


def _all(rule: Rule) -> Callable[..., list[int]]:
    return lambda queues: [rule(*queue) for queue in queues]


def _sequence(rng: Generator, buffers: int, depth: int, last: str) -> list[str]:
    """Possible calls, then (if named) one that is not possible, then some more."""
    calls: list[str] = []
    held = waiting = taken = 0
    wanted = int(rng.integers(6, 11))
    while len(calls) < 40:
        free = buffers - held - waiting - taken
        bad = {"alloc": free == 0, "enque": held > 0 and waiting == depth, "deque": waiting == 0, "": True}[last]
        if len(calls) >= wanted and bad:
            break
        possible = [
            each
            for each, ok in zip(_CALLS, (free > 0, held > 0 and waiting < depth, waiting > 0, taken > 0), strict=True)
            if ok
        ]
        if not possible:
            break
        each = str(rng.choice(possible))
        calls.append(each)
        held += (each == "alloc") - (each == "enque")
        waiting += (each == "enque") - (each == "deque")
        taken += (each == "deque") - (each == "free")
    if last:
        calls += [last, *(str(each) for each in rng.choice(("deque", "alloc"), 2))]
    return calls


def draw_calls(rng: Generator, size: None) -> dict[str, Any]:
    """Five queues, drawn again until every wrong belief gives numbers of its own."""
    while True:
        queues: list[Queue] = []
        for last in rng.permutation(["alloc", "alloc", "enque", "deque", ""]):
            buffers, depth = int(rng.integers(2, 5)), int(rng.integers(1, 4))
            queues.append((buffers, depth, _sequence(rng, buffers, depth, str(last))))
        found = [tuple(_all(rule)(queues)) for rule in (stop, *_WRONG.values())]
        if len(set(found)) == len(found) and found[0].count(0) == 1:
            return {"queues": queues}


def _believed(name: str, edit: Change, what: str, why: str, do: str) -> Misconception:
    return Misconception(name, edit, gives(_all(_WRONG[name])), what=what, why=why, do=do)


CALLS = Check(
    f"{LESSON}.calls",
    run=read("stops"),
    draw=draw_calls,
    reference=_all(stop),
    must=(how_many_right("stops are"),),
    misconceptions=(
        _believed(
            "from_zero",
            change("return number", "return number - 1"),
            "every stop is one call too early.",
            "The calls are counted from 1, and the call that cannot be done is the answer, not the last one that can.",
            "Add 1 to each stop; a kernel that comes to an end stays 0.",
        ),
        _believed(
            "swapped",
            change("def stop(buffers, depth, calls)", "def stop(depth, buffers, calls)"),
            "the depth is taken for the number of buffers.",
            "The buffers limit how many tensors are away from the queue's free ones; the depth limits how many "
            "stand in line.",
            "Let alloc look at the buffers and enque at the depth.",
        ),
        _believed(
            "freed_by_deque",
            change('free += (call == "free")', 'free += (call == "deque")'),
            "deque is taken for the call that makes a buffer free.",
            "After deque the tensor is being read; nobody may overwrite it yet.",
            "Give the buffer back at free.",
        ),
        _believed(
            "freed_by_enque",
            change('free += (call == "free")', 'free += (call == "enque")'),
            "enque is taken for the call that makes a buffer free.",
            "After enque the buffer holds data that somebody has still to read.",
            "Give the buffer back at free.",
        ),
        _believed(
            "no_depth",
            change('(("enque", depth), ("deque", 0))', '(("deque", 0),)'),
            "the depth is left out.",
            "There may be buffers enough, and still too many tensors in line.",
            "Stop at an enque when as many as the depth are in line already.",
        ),
        _believed(
            "no_buffers",
            change('(call, free) == ("alloc", 0) or ', ""),
            "alloc never waits in your answer.",
            "A queue owns its buffers and no others; alloc waits for one that is free.",
            "Count the free buffers, and stop at an alloc when there is none.",
        ),
        _believed(
            "no_empty",
            change('(("enque", depth), ("deque", 0))', '(("enque", depth),)'),
            "deque never waits in your answer.",
            "deque takes the first tensor in line; with none in line it waits for an enque that cannot come any more.",
            "Stop at a deque when no tensor is in line.",
        ),
        Misconception(
            "all_end",
            change("stops = [stop(*queue) for queue in queues]", "stops = [0] * 5"),
            got(lambda result, queues: isinstance(result, list) and set(result) == {0}),
            what="all kernels come to an end in your answer.",
            why="Four of these five stop at some call.",
            do="Count the free buffers and the tensors in line, call by call.",
        ),
    ),
)

# -- 2 clock -----------------------------------------------------------------------------------------


def finished(
    copy_in: Sequence[int],
    compute: Sequence[int],
    copy_out: Sequence[int],
    n_in: int,
    n_out: int,
    *,
    in_order: bool = True,
    freed_late: bool = False,
) -> int:
    """The end of the last copy out.

    Args:
        in_order: False if one pipe could do several tiles at the same time.
        freed_late: an input buffer came back only when its tile is copied out.
    """
    arrived, computed, left = [0], [0], [0]
    for i in range(1, len(compute) + 1):
        read_by = left if freed_late else computed
        arrived.append(max(arrived[-1] * in_order, read_by[max(0, i - n_in)]) + copy_in[i - 1])
        computed.append(max(computed[-1] * in_order, arrived[i], left[max(0, i - n_out)]) + compute[i - 1])
        left.append(max(left[-1] * in_order, computed[i]) + copy_out[i - 1])
    return left[-1]


def draw_clock(rng: Generator, size: tuple[int, int, int]) -> dict[str, Any]:
    """Tiles of which each pipe is the slowest for a while."""
    tiles, n_in, n_out = size

    def times() -> list[int]:
        return [int(number) for number in rng.integers(1, 10, tiles) * 100 + rng.integers(0, 10, tiles)]

    return {"copy_in": times(), "compute": times(), "copy_out": times(), "n_in": n_in, "n_out": n_out}


def _clock(formula: Callable[..., int]) -> Sign:
    return gives(formula)


_MANY = 10**6


def _all_alike(of: Callable[[Sequence[int]], int]) -> Callable[..., int]:
    """The formulas of lesson 08 for one and for two buffers, with one time for each pipe."""

    def formula(copy_in: Sequence[int], compute: Sequence[int], copy_out: Sequence[int], n_in: int, n_out: int) -> int:
        a, b, c = of(copy_in), of(compute), of(copy_out)
        turn = max(a, b, c) if min(n_in, n_out) > 1 else b + max(a, c)
        return a + b + c + (len(compute) - 1) * turn

    return formula


CLOCK = Check(
    f"{LESSON}.clock",
    run=call("finish"),
    draw=draw_clock,
    sizes=(
        (1, 1, 1),
        (2, 1, 1),
        (9, 1, 2),
        (9, 2, 1),
        (12, 1, 1),
        (12, 2, 2),
        (15, 3, 2),
        (15, 2, 3),
        (3, 5, 5),
        (4, 3, 1),
        (4, 1, 4),
        (5, 4, 3),
    ),
    reference=finished,
    misconceptions=(
        Misconception(
            "one_after_the_other",
            f"# exercise: {LESSON}.clock\ndef finish(copy_in, compute, copy_out, n_in, n_out):\n"
            "    return sum(copy_in) + sum(compute) + sum(copy_out)",
            _clock(lambda copy_in, compute, copy_out, n_in, n_out: sum(copy_in) + sum(compute) + sum(copy_out)),
            what="nothing overlaps in your answer.",
            why="The three pipes work at the same time; even with one buffer a copy out runs beside the next copy in.",
            do="Keep the end times of each pipe apart.",
        ),
        Misconception(
            "slowest_pipe",
            f"# exercise: {LESSON}.clock\ndef finish(copy_in, compute, copy_out, n_in, n_out):\n"
            "    return copy_in[0] + compute[0] + copy_out[0] "
            "+ max(sum(copy_in[1:]), sum(compute[1:]), sum(copy_out[1:]))",
            _clock(
                lambda copy_in, compute, copy_out, n_in, n_out: (
                    copy_in[0] + compute[0] + copy_out[0] + max(sum(copy_in[1:]), sum(compute[1:]), sum(copy_out[1:]))
                )
            ),
            what="you add up the slowest pipe.",
            why="That is the limit for many buffers and equal tiles. Here tiles differ, and buffers are few.",
            do="Compute the end of every tile on every pipe.",
        ),
        Misconception(
            "tiles_all_alike",
            f"# exercise: {LESSON}.clock\ndef finish(copy_in, compute, copy_out, n_in, n_out):\n"
            "    a, b, c = copy_in[0], compute[0], copy_out[0]\n"
            "    turn = max(a, b, c) if min(n_in, n_out) > 1 else b + max(a, c)\n"
            "    return a + b + c + (len(compute) - 1) * turn",
            _clock(_all_alike(lambda times: times[0])) | _clock(_all_alike(max)),
            what="the tiles are taken to be all alike.",
            why="The formulas of lesson 08 repeat one turn. Here each tile takes its own time on each pipe.",
            do="Compute the end of every tile on every pipe.",
        ),
        Misconception(
            "endless_buffers",
            change(", computed[max(0, i - n_in)])", ", 0)", ", left[max(0, i - n_out)])", ", 0)"),
            _clock(lambda copy_in, compute, copy_out, n_in, n_out: finished(copy_in, compute, copy_out, _MANY, _MANY)),
            what="no pipe ever waits for a free buffer.",
            why="The forward waits are there, the backward ones (n_in, n_out) are missing.",
            do="Let a copy in wait until the tile n_in before it is computed, and a computation until the tile n_out "
            "before it is copied out.",
        ),
        Misconception(
            "no_output_buffers",
            change(", left[max(0, i - n_out)])", ")"),
            _clock(lambda copy_in, compute, copy_out, n_in, n_out: finished(copy_in, compute, copy_out, n_in, _MANY)),
            what="V never waits for a free output buffer.",
            why="V fills the buffers of the output queue; with n_out tiles not yet copied out there is none.",
            do="Let the computation wait until the tile n_out before it is copied out, too.",
        ),
        Misconception(
            "no_input_buffers",
            change(", computed[max(0, i - n_in)])", ", 0)"),
            _clock(lambda copy_in, compute, copy_out, n_in, n_out: finished(copy_in, compute, copy_out, _MANY, n_out)),
            what="MTE2 never waits for a free input buffer.",
            why="Each copy in needs a buffer; with n_in tiles not yet computed there is none.",
            do="Let the copy in wait until the tile n_in before it is computed, too.",
        ),
        Misconception(
            "one_buffer_more",
            change("max(0, i - n_in)", "max(0, i - n_in - 1)", "max(0, i - n_out)", "max(0, i - n_out - 1)"),
            _clock(
                lambda copy_in, compute, copy_out, n_in, n_out: finished(
                    copy_in, compute, copy_out, n_in + 1, n_out + 1
                )
            ),
            what="each queue behaves as if it had one buffer more.",
            why="With n buffers tile i takes the buffer of tile i - n.",
            do="Look n_in and n_out tiles back, no further.",
        ),
        Misconception(
            "one_buffer_less",
            change(
                "max(0, i - n_in)", "max(0, i - max(1, n_in - 1))", "max(0, i - n_out)", "max(0, i - max(1, n_out - 1))"
            ),
            _clock(
                lambda copy_in, compute, copy_out, n_in, n_out: finished(
                    copy_in, compute, copy_out, max(1, n_in - 1), max(1, n_out - 1)
                )
            ),
            what="each queue behaves as if it had one buffer less.",
            why="With n buffers tile i takes the buffer of tile i - n.",
            do="Look n_in and n_out tiles back; the first n tiles find a free buffer.",
        ),
        Misconception(
            "counts_swapped",
            change("i - n_in", "i - n_x", "i - n_out", "i - n_in", "i - n_x", "i - n_out"),
            _clock(lambda copy_in, compute, copy_out, n_in, n_out: finished(copy_in, compute, copy_out, n_out, n_in)),
            what="n_in and n_out are swapped.",
            why="n_in limits the copies in, n_out the computations, which fill the output buffers.",
            do="Look n_in tiles back for a copy in, n_out tiles back for a computation.",
        ),
        Misconception(
            "freed_too_late",
            change("computed[max(0, i - n_in)]", "left[max(0, i - n_in)]"),
            _clock(
                lambda copy_in, compute, copy_out, n_in, n_out: finished(
                    copy_in, compute, copy_out, n_in, n_out, freed_late=True
                )
            ),
            what="an input buffer comes back only when its tile is copied out.",
            why="V has read the input when it has computed; the copy out needs the output buffer alone.",
            do="Let the copy in wait until that tile is computed, not until it is copied out.",
        ),
        Misconception(
            "no_order_in_a_pipe",
            change("arrived[-1], ", "0, ", "computed[-1], ", "", "left[-1], computed[i]", "0, computed[i]"),
            _clock(
                lambda copy_in, compute, copy_out, n_in, n_out: finished(
                    copy_in, compute, copy_out, n_in, n_out, in_order=False
                )
            ),
            what="a pipe does several tiles at the same time.",
            why="One pipe works in order: a tile begins when the tile before it is done.",
            do="Put the pipe's own last end into each max.",
        ),
    ),
)

# -- 3 to 5: kernels with queues ----------------------------------------------------------------------

GIVEN_BACK = require(
    "given_back",
    lambda case: case.kernel is not None and case.kernel.counts()["queue_alloc"] == case.kernel.counts()["queue_free"],
    holds="every tensor is given back",
    fails="a tensor is never given back",
    do="Call free_tensor once for every alloc_tensor, also for the last tensor after a loop.",
)

# -- 3 larger ----------------------------------------------------------------------------------------


def draw_larger(rng: Generator, size: int) -> dict[str, Any]:
    x, y = (rng.uniform(-8, 8, size * 2048).astype(HALF) for _ in range(2))
    return {"x": x, "y": y, "z": np.zeros(size * 2048, HALF)}


_NO_DEQUE = change("p, q = x_in.deque(asc.float16), y_in.deque(asc.float16)", "p = x_in.deque(asc.float16)")

LARGER = Check(
    f"{LESSON}.larger",
    run=kernel("launch", out="z"),
    draw=draw_larger,
    sizes=(1, 2, 3, 10),
    reference=lambda x, y, z: np.maximum(x, y),
    must=(
        kernel_blocks(1, 1),
        instructions("pipe_barrier", at_most=0, do="Remove the barrier; deque does the waiting."),
        GIVEN_BACK,
    ),
    misconceptions=(
        Misconception(
            "more_buffers",
            change(
                "        y_in.free_tensor(q)\n",
                "",
                "pipe.init_buffer(y_in, 2, 4096)",
                "pipe.init_buffer(y_in, 7, 4096)",
            ),
            fault("kernel.queue_empty") & source(r"init_buffer\(y_in, ([3-9]|\d\d)"),
            what="more buffers only move the place where it stands still.",
            why="Each tile keeps its buffer, so with seven buffers the eighth tile waits for ever.",
            do="Give q back after the max with y_in.free_tensor(q), and leave two buffers.",
        ),
        Misconception("y_never_freed", change("        y_in.free_tensor(q)\n", ""), fault="kernel.queue_empty"),
        Misconception(
            "result_not_taken",
            change("        r = z_out.deque(asc.float16)\n", ""),
            fault("kernel.race") & fault("kernel.queue_enqueued") & ~source(r"z_out\.deque"),
            what="the result is copied out without deque.",
            why="enque says that V fills the tensor; only deque makes MTE3 wait until it has.",
            do="Write r = z_out.deque(asc.float16) before the copy out.",
        ),
        Misconception(
            "y_not_taken",
            _NO_DEQUE,
            fault("kernel.queue_enqueued") & ~source(r"y_in\.deque"),
            what="y is used without deque.",
            why="q still stands in line. That x went through its queue says nothing about y.",
            do="Take q with y_in.deque(asc.float16), before the max.",
        ),
        Misconception(
            "freed_before_the_max",
            change(
                "        asc.max(r, p, q, count=2048)",
                "        x_in.free_tensor(p)\n        y_in.free_tensor(q)\n        asc.max(r, p, q, count=2048)",
                "        x_in.free_tensor(p)\n        y_in.free_tensor(q)\n        z_out",
                "        z_out",
            ),
            fault="kernel.queue_freed",
        ),
        Misconception(
            "given_to_the_other",
            change("y_in.free_tensor(q)", "x_in.free_tensor(q)"),
            fault="kernel.foreign_tensor",
        ),
        Misconception(
            "taken_twice",
            change("y_in.deque(asc.float16)", "x_in.deque(asc.float16)"),
            fault="kernel.deque_empty",
        ),
        Misconception(
            "barrier",
            change(
                "        r = z_out.deque(asc.float16)\n",
                "        r = z_out.deque(asc.float16)\n        asc.pipe_barrier(asc.PipeID.PIPE_ALL)\n",
            ),
            unmet("pipe_barrier"),
            what="there is a barrier.",
            why="It stops all pipes at every tile; the queues let each wait for exactly one other.",
            do="Remove pipe_barrier.",
        ),
    ),
)

# -- 4 bell ------------------------------------------------------------------------------------------


def draw_bell(rng: Generator, size: int) -> dict[str, Any]:
    x = rng.uniform(-2, 2.5, 4 * size * 4096).astype(HALF)
    return {"x": x, "z": np.zeros(x.size, HALF)}


def bell(x: Array, z: Array) -> Array:
    wide = x.astype(np.float64)
    found: Array = np.exp(-wide * wide).astype(HALF)
    return found


_CLOSE = allclose(rtol=1e-2, atol=1e-3)


def _without_sign(x: Array, z: Array) -> Array:
    wide = x.astype(np.float64)
    found: Array = np.exp(wide * wide).astype(HALF)
    return found


BELL = Check(
    f"{LESSON}.bell",
    run=kernel("launch", out="z"),
    draw=draw_bell,
    sizes=(5, 8),
    reference=bell,
    compare=_CLOSE,
    must=(
        kernel_blocks(4, 4),
        instructions("exp", at_least=20),
        overlapping("V", "MTE2", 0.5),
    ),
    cost=Cost(1.1),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "still_flags",
            change(
                "in_x, out_z = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)",
                "in_x, out_z = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECOUT, 1)",
                "        in_x.free_tensor(a)\n",
                "        in_x.free_tensor(a)\n"
                "        asc.set_flag(asc.HardEvent.V_MTE2, 0)\n        asc.wait_flag(asc.HardEvent.V_MTE2, 0)\n",
            ),
            unmet("V_with_MTE2") & source(r"wait_flag\(asc\.HardEvent\.V_MTE2"),
            what="a flag still makes every copy in wait for the computation.",
            why="The wait of V_MTE2 holds MTE2 until V is done, however many buffers there are.",
            do="Remove the flags; alloc_tensor waits exactly as long as it must.",
        ),
        Misconception(
            "two_numbers_swapped",
            change("pipe.init_buffer(in_x, 2, 8192)", "pipe.init_buffer(in_x, 8192, 2)"),
            fault("kernel.ub_overflow") | fault("kernel.too_many_buffers"),
            what="number and bytes are swapped.",
            why="init_buffer(queue, number of buffers, bytes of each).",
            do="Write pipe.init_buffer(in_x, 2, 8192), and the same for the output.",
        ),
        Misconception(
            "elements_for_bytes",
            change("8192", "4096"),
            fault="kernel.tensor_range",
        ),
        Misconception(
            "depth_for_buffers",
            change("TPosition.VECIN, 1)", "TPosition.VECIN, 2)", "init_buffer(in_x, 2,", "init_buffer(in_x, 1,"),
            unmet("V_with_MTE2") & source(r"VECIN, [2-9]\)") & source(r"init_buffer\(\w+, 1,"),
            what="the depth is 2, the number of buffers 1.",
            why="The depth says how many may stand in line; it gives no memory.",
            do="Give init_buffer two buffers; depth 1 is enough.",
        ),
        Misconception(
            "one_buffer",
            change("init_buffer(in_x, 2,", "init_buffer(in_x, 1,", "init_buffer(out_z, 2,", "init_buffer(out_z, 1,"),
            unmet("V_with_MTE2"),
            what="nothing is copied in while V works.",
            why="With one input buffer the next copy in waits until V has freed it.",
            do="Give the input queue two buffers: pipe.init_buffer(in_x, 2, 8192).",
        ),
        Misconception(
            "one_output_buffer",
            change("init_buffer(out_z, 2,", "init_buffer(out_z, 1,"),
            slow() & ~unmet("V_with_MTE2") & source(r"init_buffer\(\w+, 1,"),
            what="the output queue has one buffer.",
            why="V waits at each tile until MTE3 has copied the tile before it out.",
            do="Give the output queue two buffers: pipe.init_buffer(out_z, 2, 8192).",
        ),
        Misconception(
            "never_freed",
            change("        in_x.free_tensor(a)\n", ""),
            fault="kernel.queue_empty",
        ),
        Misconception(
            "no_minus",
            change("        asc.muls(c, c, -1.0, count=4096)\n", ""),
            gives(_without_sign, _CLOSE),
            what="the result is exp(x²).",
            why="The line with muls makes the square negative.",
            do="Keep all three lines of arithmetic.",
        ),
        Misconception(
            "no_block_offset",
            change("start = asc.get_block_idx() * count", "start = 0"),
            got(lambda result, x, z: bool((result[x.size // 4 :] == 0).all())),
            what="all blocks work on the first quarter.",
            why="Every block runs the same program; get_block_idx() tells them apart.",
            do="Keep start = asc.get_block_idx() * count.",
        ),
    ),
)

# -- 5 pairs -----------------------------------------------------------------------------------------


def draw_pairs(rng: Generator, size: int) -> dict[str, Any]:
    x = rng.uniform(-8, 8, (size, 4096)).astype(HALF)
    return {"x": x, "z": np.zeros((size - 1, 4096), HALF)}


def _buffers(number: int) -> Change:
    return change("pipe.init_buffer(rows_in, 4, 8192)", f"pipe.init_buffer(rows_in, {number}, 8192)")


_FREED = fault("kernel.queue_freed") | fault("kernel.free_twice")

PAIRS = Check(
    f"{LESSON}.pairs",
    run=kernel("launch", out="z"),
    draw=draw_pairs,
    sizes=(2, 3, 17, 24),
    reference=lambda x, z: x[:-1] + x[1:],
    must=(
        kernel_blocks(1, 1),
        GIVEN_BACK,
        require(
            "each_row_once",
            lambda case: case.kernel is not None and case.kernel.counts()["data_copy"] <= 2 * len(case.inputs["x"]) - 1,
            holds="each row is copied in once",
            fails="rows are copied in more than once",
            do="Keep the second tensor of a turn: it is the first one of the next turn.",
        ),
    ),
    cost=Cost(1.04),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "one_buffer",
            _buffers(1),
            fault("kernel.queue_empty") & source(r"init_buffer\(rows_in, 1,"),
            what="with one buffer the kernel stands still.",
            why="It holds row i and asks for a buffer for row i + 1.",
            do="Give rows_in more buffers.",
        ),
        Misconception(
            "never_given_back",
            change("        rows_in.free_tensor(upper)\n        sums_out", "        sums_out"),
            fault="kernel.queue_empty",
        ),
        Misconception(
            "last_kept",
            change("    rows_in.free_tensor(upper)\n\n\ndef launch", "\n\ndef launch"),
            unmet("given_back") & source(r"upper = lower"),
            what="the last tensor is never given back.",
            why="When the loop is over, the last row is still in your hands; its event would be left for what follows.",
            do="Call rows_in.free_tensor(upper) after the loop.",
        ),
        Misconception(
            "wrong_one_freed",
            change(
                "        rows_in.free_tensor(upper)\n        sums_out",
                "        rows_in.free_tensor(lower)\n        sums_out",
            ),
            _FREED & source(r"free_tensor\(lower\)"),
            what="the new row is freed in the turn that brings it.",
            why="lower is needed in the next turn; only upper has been added for the last time.",
            do="Free upper alone after the add, then upper = lower.",
        ),
        Misconception(
            "freed_after_the_change",
            change(
                "        rows_in.free_tensor(upper)\n        sums_out",
                "        upper = lower\n        rows_in.free_tensor(upper)\n        sums_out",
                "        sums_out.free_tensor(both)\n        upper = lower\n",
                "        sums_out.free_tensor(both)\n",
            ),
            _FREED & source(r"(\n +)upper = lower(\1.*)*\1rows_in\.free_tensor\(upper\)"),
            what="upper is freed after it became the new row.",
            why="After upper = lower both names mean the new row; nobody holds the old one any more.",
            do="Call rows_in.free_tensor(upper) before upper = lower.",
        ),
        Misconception(
            "lower_after_the_loop",
            change("    rows_in.free_tensor(upper)\n\n\ndef launch", "    rows_in.free_tensor(lower)\n\n\ndef launch"),
            raises("CodegenError", "lower is not defined"),
            what="lower is used after the loop.",
            why="In a kernel a name that is first assigned in a loop ends with the loop, unlike in Python.",
            do="Free upper after the loop: upper = lower has made it the last row.",
        ),
        Misconception(
            "first_not_taken",
            change("    rows_in.enque(upper)\n    upper = rows_in.deque(asc.float16)\n", "    rows_in.enque(upper)\n"),
            _FREED & ~source(r"upper(, lower)? = rows_in\.deque"),
            what="row 0 is put in line before the loop, and never taken out as upper.",
            why="deque gives the first in line: in the first turn lower is row 0 too, then always one row early.",
            do="Call upper = rows_in.deque(asc.float16) before the loop.",
        ),
        Misconception(
            "both_taken_each_turn",
            change(
                "    rows_in.enque(upper)\n    upper = rows_in.deque(asc.float16)\n",
                "    rows_in.enque(upper)\n",
                "        lower = rows_in.deque(asc.float16)\n",
                "        upper, lower = rows_in.deque(asc.float16), rows_in.deque(asc.float16)\n",
                "TPosition.VECIN, 1)",
                "TPosition.VECIN, 2)",
            ),
            fault("kernel.deque_empty") & source(r"upper, lower = \(?rows_in\.deque"),
            what="each turn takes two tensors out of the queue.",
            why="Each turn puts only one in; the other row is in your hands since the turn before.",
            do="Take upper before the loop, and in the loop only lower.",
        ),
        Misconception(
            "not_kept",
            change("        upper = lower\n", ""),
            _FREED & ~source(r"upper = lower"),
            what="a tensor is used, or freed, after it was given back.",
            why="In the second turn upper is still the tensor of the first one, which is free now.",
            do="End each turn with upper = lower.",
        ),
        Misconception(
            "first_row_again",
            change("x_gm[(i + 1) * 4096 :]", "x_gm[i * 4096 :]"),
            gives(lambda x, z: np.r_[x[:1] + x[:1], x[:-2] + x[1:-1]]),
            what="the rows are one too early.",
            why="Row 0 is in the UB before the loop begins; the first turn must bring row 1.",
            do="Copy row i + 1 in.",
        ),
        Misconception(
            "twice_and_more_buffers",
            f"# exercise: {LESSON}.pairs\n"
            + """@asc.jit
def pairs(x: asc.GlobalAddress, z: asc.GlobalAddress, rows: int):
    x_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    rows_in, sums_out = asc.TQue(asc.TPosition.VECIN, 2), asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(rows_in, 6, 8192)
    pipe.init_buffer(sums_out, 2, 8192)
    for i in asc.range(rows - 1):
        upper, lower = rows_in.alloc_tensor(asc.float16), rows_in.alloc_tensor(asc.float16)
        asc.data_copy(upper, x_gm[i * 4096 :], count=4096)
        asc.data_copy(lower, x_gm[(i + 1) * 4096 :], count=4096)
        rows_in.enque(upper)
        rows_in.enque(lower)
        upper, lower = rows_in.deque(asc.float16), rows_in.deque(asc.float16)
        both = sums_out.alloc_tensor(asc.float16)
        asc.add(both, upper, lower, count=4096)
        rows_in.free_tensor(upper)
        rows_in.free_tensor(lower)
        sums_out.enque(both)
        both = sums_out.deque(asc.float16)
        asc.data_copy(z_gm[i * 4096 :], both, count=4096)
        sums_out.free_tensor(both)


def launch(x, z):
    pairs[1](x, z, x.shape[0])""",
            unmet("each_row_once"),
            what="nearly every row is copied in twice.",
            why="More buffers hide the latency, but MTE2 still moves twice the bytes.",
            do="Keep the second tensor of a turn as the first one of the next.",
        ),
        Misconception(
            "two_buffers",
            _buffers(2),
            slow() & source(r"init_buffer\(rows_in, 2,"),
            what="two buffers are not double buffering here.",
            why="One is held all the time, so only one is left for the next row: MTE2 and V take turns.",
            do="Count the tensor that is held, and give rows_in more buffers.",
        ),
        Misconception(
            "three_buffers",
            _buffers(3),
            slow() & source(r"init_buffer\(rows_in, 3,"),
            what="three buffers are not quite enough.",
            why="One is held and one is being added; with one copy under way at a time its latency is not hidden.",
            do="Try one buffer more.",
        ),
        Misconception(
            "one_output_buffer",
            change("init_buffer(sums_out, 2,", "init_buffer(sums_out, 1,"),
            slow() & source(r"init_buffer\(sums_out, 1,"),
            what="the output queue has one buffer.",
            why="V waits at each row until MTE3 has copied the row before it out.",
            do="Keep two output buffers.",
        ),
    ),
)

CHECKS = [CALLS, CLOCK, LARGER, BELL, PAIRS]
