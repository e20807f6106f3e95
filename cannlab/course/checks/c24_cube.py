"""Checks of 24_cube."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from cannlab.course.spec import (
    Attempt,
    CaseRun,
    Change,
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
    instructions,
    kernel,
    kernel_blocks,
    pipes,
    read,
    require,
    sign,
    slow,
    source,
    unmet,
)
from cannlab.machine.core.opcodes import ROWS

Array = NDArray[Any]
Place = tuple[int, int]
LESSON = "24_cube"
HALF, SINGLE = np.float16, np.float32


def draw_product(rng: Generator, size: tuple[int, int, int]) -> dict[str, Any]:
    """A (m x k), B (k x n) of small whole numbers, so that every order of adding gives the same sums."""
    m, k, n = size
    a, b = rng.integers(-4, 5, (m, k)).astype(HALF), rng.integers(-4, 5, (k, n)).astype(HALF)
    return {"a": a, "b": b, "c": np.zeros((m, n), SINGLE)}


def product(a: Array, b: Array, c: Array) -> Array:
    found: Array = a.astype(SINGLE) @ b.astype(SINGLE)
    return found


# -- 1 where -----------------------------------------------------------------------------------------


def _inside(place: Place) -> int:
    return place[0] % 16 * 16 + place[1] % 16


def _turned(place: Place) -> int:
    return place[1] % 16 * 16 + place[0] % 16


def _down(place: Place, rows: int, columns: int) -> int:
    """The fractal's number, counted down the columns of fractals."""
    return place[1] // 16 * (rows // 16) + place[0] // 16


def _along(place: Place, rows: int, columns: int) -> int:
    """The fractal's number, counted along the rows of fractals."""
    return place[0] // 16 * (columns // 16) + place[1] // 16


Counting = Callable[[Place, int, int], int]


def _places(
    m: int,
    k: int,
    n: int,
    in_a: Place,
    in_b: Place,
    in_c: Place,
    *,
    level_1: Counting = _down,
    level_0: Counting = _along,
    b_order: Counting | None = None,
    b_inside: Callable[[Place], int] = _turned,
    fractal: int = 256,
) -> dict[str, int]:
    """Element offsets in each buffer.

    Args:
        level_1, level_0: how fractals are counted in L1 and L0C, and in L0A and L0B.
        b_order: the same in L0B, if it is another.
        b_inside: the place inside a fractal of L0B.
        fractal: elements that a fractal is counted for.
    """
    return {
        "A in L1": level_1(in_a, m, k) * fractal + _inside(in_a),
        "A in L0A": level_0(in_a, m, k) * fractal + _inside(in_a),
        "B in L1": level_1(in_b, k, n) * fractal + _inside(in_b),
        "B in L0B": (b_order or level_0)(in_b, k, n) * fractal + b_inside(in_b),
        "C in L0C": level_1(in_c, m, n) * fractal + _inside(in_c),
    }


def _row_major(m: int, k: int, n: int, in_a: Place, in_b: Place, in_c: Place) -> dict[str, int]:
    a, b, c = (place[0] * columns + place[1] for place, columns in ((in_a, k), (in_b, n), (in_c, n)))
    return {"A in L1": a, "A in L0A": a, "B in L1": b, "B in L0B": b, "C in L0C": c}


def _wrong_height(place: Place, rows: int, columns: int) -> int:
    return place[1] // 16 * (columns // 16) + place[0] // 16


def _wrong_width(place: Place, rows: int, columns: int) -> int:
    return place[0] // 16 * (rows // 16) + place[1] // 16


def _in_bytes(places: dict[str, int]) -> dict[str, int]:
    return {name: place * (4 if name == "C in L0C" else 2) for name, place in places.items()}


_BELIEFS: dict[str, Callable[..., dict[str, int]]] = {
    "rows": _row_major,
    "one_order": lambda **case: _places(**case, level_0=_down),
    "zz_everywhere": lambda **case: _places(**case, level_1=_along),
    "not_transposed": lambda **case: _places(**case, b_inside=_inside),
    "all_transposed": lambda **case: _places(**case, b_order=_down),
    "fractals": lambda **case: _places(**case, fractal=1),
    "bytes": lambda **case: _in_bytes(_places(**case)),
    "c_in_rows": lambda **case: _places(**case) | {"C in L0C": _row_major(**case)["C in L0C"]},
    "wrong_side": lambda **case: _places(**case, level_1=_wrong_height, level_0=_wrong_width),
}
"""What learners believe, as a rule for all five numbers."""


def draw_where(rng: Generator, size: None) -> dict[str, Any]:
    """Three sizes and a place in each matrix, drawn again until every wrong belief gives numbers of its own."""
    while True:
        m, k, n = (int(side) * 16 for side in rng.permutation([2, 3, 4, 5])[:3])
        places = [
            (int(rng.integers(16, rows)), int(rng.integers(16, columns))) for rows, columns in ((m, k), (k, n), (m, n))
        ]
        case: dict[str, Any] = {"m": m, "k": k, "n": n, "in_a": places[0], "in_b": places[1], "in_c": places[2]}
        found = [tuple(rule(**case).values()) for rule in (_places, *_BELIEFS.values())]
        if len(set(found)) == len(found) and len(set(found[0])) == 5:
            return case


def _believed(name: str, edit: Change | str, what: str, why: str, do: str) -> Misconception:
    return Misconception(name, edit, gives(_BELIEFS[name]), what=what, why=why, do=do)


_NZ = "(c // 16 * (rows // 16) + r // 16) * 256"
_ZZ = "(r // 16 * (columns // 16) + c // 16) * 256"

WHERE = Check(
    f"{LESSON}.where",
    run=read("places"),
    draw=draw_where,
    reference=_places,
    must=(how_many_right("places are"),),
    misconceptions=(
        _believed(
            "rows",
            f"# exercise: {LESSON}.where\n"
            "a = in_a[0] * k + in_a[1]\n"
            "b = in_b[0] * n + in_b[1]\n"
            "c = in_c[0] * n + in_c[1]\n"
            'places = {"A in L1": a, "A in L0A": a, "B in L1": b, "B in L0B": b, "C in L0C": c}',
            "all places are those of global memory.",
            "Row after row is the order before Nd2Nz and after fixpipe. Between them it goes fractal by fractal.",
            "Find the fractal first: its number times 256, then the place inside.",
        ),
        _believed(
            "one_order",
            change(
                "def along(place, columns):",
                "def along(place, rows):",
                _ZZ,
                _NZ,
                "along(in_a, k)",
                "along(in_a, m)",
                "along(in_b, n)",
                "along(in_b, k)",
            ),
            "the fractals stand in L0 in the order of L1.",
            "In L1 they follow each other down the columns (NZ), in L0A and L0B along the rows (ZZ, ZN).",
            "In L0 count the fractals along a row: row of fractals times fractals in a row, plus column.",
        ),
        _believed(
            "zz_everywhere",
            change(
                "def nz(place, rows):",
                "def nz(place, columns):",
                _NZ,
                _ZZ,
                "nz(in_a, m)",
                "nz(in_a, k)",
                "nz(in_b, k)",
                "nz(in_b, n)",
                "nz(in_c, m)",
                "nz(in_c, n)",
            ),
            "in L1 and L0C the fractals are counted along the rows.",
            "Both are NZ: one column of fractals after the other.",
            "Count column of fractals times fractals in a column, plus row of fractals.",
        ),
        _believed(
            "not_transposed",
            change("b_column % 16 * 16 + b_row % 16", "b_row % 16 * 16 + b_column % 16"),
            "inside the fractals of L0B you count along the rows.",
            "L0B is ZN: the second letter says that a fractal is stored column after column.",
            "Inside, take column % 16 * 16 + row % 16.",
        ),
        _believed(
            "all_transposed",
            change("along(in_b, n)", "(b_column // 16 * (k // 16) + b_row // 16) * 256"),
            "in L0B the fractals are counted down the columns.",
            "Only the inside of each fractal is transposed; ZN counts the fractals themselves along the rows.",
            "Count row of fractals times fractals in a row, plus column of fractals.",
        ),
        _believed(
            "fractals",
            change(f"return {_NZ} +", f"return {_NZ[:-6]} +", f"return {_ZZ}", f"return {_ZZ[:-6]}"),
            "the number of the fractal is not multiplied by its size.",
            "Each fractal before this one takes 256 elements.",
            "Multiply the fractal's number by 256.",
        ),
        _believed(
            "bytes",
            change(
                '"A in L1": nz(in_a, m)',
                '"A in L1": 2 * nz(in_a, m)',
                "along(in_a, k) + a_row % 16 * 16 + a_column % 16",
                "2 * (along(in_a, k) + a_row % 16 * 16 + a_column % 16)",
                '"B in L1": nz(in_b, k)',
                '"B in L1": 2 * nz(in_b, k)',
                "along(in_b, n) + b_column % 16 * 16 + b_row % 16",
                "2 * (along(in_b, n) + b_column % 16 * 16 + b_row % 16)",
                '"C in L0C": nz(in_c, m)',
                '"C in L0C": 4 * nz(in_c, m)',
            ),
            "these are bytes.",
            "The orders are right. The task asks for elements, as the offset in a2[...] does.",
            "Do not multiply by the size of a half or a float32.",
        ),
        _believed(
            "c_in_rows",
            change('"C in L0C": nz(in_c, m)', '"C in L0C": in_c[0] * n + in_c[1]'),
            "C is taken to lie row after row in L0C.",
            "mmad writes fractals, NZ. Only fixpipe makes rows of them, on the way out.",
            "Count C in L0C as A in L1, with m rows.",
        ),
        _believed(
            "wrong_side",
            change(
                "nz(in_a, m)",
                "nz(in_a, k)",
                "nz(in_b, k)",
                "nz(in_b, n)",
                "nz(in_c, m)",
                "nz(in_c, n)",
                "along(in_a, k)",
                "along(in_a, m)",
                "along(in_b, n)",
                "along(in_b, k)",
            ),
            "the fractals in a row and in a column are mixed up.",
            "A column of fractals has rows / 16 of them, a row of fractals has columns / 16.",
            "With N multiply by rows // 16, with Z by columns // 16.",
        ),
    ),
)

# -- 2 first -----------------------------------------------------------------------------------------


def _fractals(x: Array) -> Array:
    """Rows of fractals, columns of fractals, 16, 16."""
    rows, columns = x.shape
    found: Array = x.reshape(rows // 16, 16, columns // 16, 16).swapaxes(1, 2)
    return found


def _matrix(fractals: Array) -> Array:
    rows, columns = fractals.shape[:2]
    found: Array = fractals.swapaxes(1, 2).reshape(rows * 16, columns * 16)
    return found


def _in_one(x: Array) -> Array:
    """The matrix that the Cube sees if fractals in the order of L1 are taken for those of L0."""
    parts = _fractals(x)
    return _matrix(parts.swapaxes(0, 1).reshape(parts.shape))


def _each_turned(x: Array) -> Array:
    return _matrix(_fractals(x).swapaxes(2, 3))


_LOOP_A = (
    "    for i in asc.static_range(m // 16):\n"
    "        asc.load_data(a2[i * 16 * k :], a1, asc.LoadData2DParams(i, k // 16, m // 16, 0, 0, False, 0))"
)
_LOOP_B = (
    "    for i in asc.static_range(k // 16):\n"
    "        asc.load_data(b2[i * 16 * n :], b1, asc.LoadData2DParams(i, n // 16, k // 16, 0, 0, True, 0))"
)
_M_FIX = "    asc.set_flag(asc.HardEvent.M_FIX, 0)\n    asc.wait_flag(asc.HardEvent.M_FIX, 0)\n"


def _seen(a_as: Callable[[Array], Array], b_as: Callable[[Array], Array]) -> Sign:
    return gives(lambda a, b, c: product(a_as(a), b_as(b), c))


def _same(x: Array) -> Array:
    return x


FIRST = Check(
    f"{LESSON}.first",
    run=kernel("launch", out="c"),
    draw=draw_product,
    sizes=((16, 16, 16), (32, 48, 64), (48, 32, 240), (16, 240, 32), (240, 16, 48), (64, 80, 96)),
    reference=product,
    compare=exact(),
    must=(
        kernel_blocks(1, 1),
        instructions("pipe_barrier", at_most=0, do="Remove the barrier; a flag makes one pipe wait for one other."),
    ),
    misconceptions=(
        Misconception("no_flag", change(_M_FIX, ""), fault="kernel.race"),
        Misconception(
            "barrier",
            change(_M_FIX, "    asc.pipe_barrier(asc.PipeID.PIPE_ALL)\n"),
            unmet("pipe_barrier"),
            what="there is a barrier.",
            why="It is right, and stops all pipes, where FIX has to wait for M only.",
            do="Use set_flag and wait_flag of asc.HardEvent.M_FIX.",
        ),
        Misconception(
            "a_in_one",
            change(
                _LOOP_A,
                "    asc.load_data(a2, a1, asc.LoadData2DParams(0, m * k // 256, 1, 0, 0, False, 0))",
            ),
            _seen(_in_one, _same),
            what="the fractals of A stand in the wrong order in L0A.",
            why="One load_data keeps the order of L1, NZ. L0A is read as ZZ. With one row or one column of fractals "
            "both are the same.",
            do="Load A row of fractals by row of fractals: k // 16 of them, m // 16 apart.",
        ),
        Misconception(
            "b_in_one",
            change(
                _LOOP_B,
                "    asc.load_data(b2, b1, asc.LoadData2DParams(0, k * n // 256, 1, 0, 0, True, 0))",
            ),
            _seen(_same, _in_one),
            what="the fractals of B stand in the wrong order in L0B.",
            why="One load_data keeps the order of L1, NZ. L0B is read along rows of fractals, ZN.",
            do="Load B row of fractals by row of fractals, as it was.",
        ),
        Misconception(
            "b_not_turned",
            change("k // 16, 0, 0, True, 0)", "k // 16, 0, 0, False, 0)"),
            _seen(_same, _each_turned),
            what="each fractal of B is transposed.",
            why="L0B wants ZN: inside a fractal column after column. In L1 it stands row after row.",
            do="Let load_data transpose: the sixth number of LoadData2DParams is True for B.",
        ),
        Misconception(
            "a_turned",
            change("m // 16, 0, 0, False, 0)", "m // 16, 0, 0, True, 0)"),
            _seen(_each_turned, _same),
            what="each fractal of A is transposed.",
            why="L0A wants ZZ: inside a fractal row after row, as in L1.",
            do="Transpose the fractals of B only.",
        ),
        Misconception(
            "swapped_turning",
            change(
                "m // 16, 0, 0, False, 0)",
                "m // 16, 0, 0, True, 0)",
                "k // 16, 0, 0, True, 0)",
                "k // 16, 0, 0, False, 0)",
            ),
            _seen(_each_turned, _each_turned),
            what="A is transposed in place of B.",
            why="In L0A k runs along a row of a fractal, in L0B down a column of B.",
            do="False for A, True for B.",
        ),
        Misconception(
            "two_loads_left",
            change(
                _LOOP_A,
                "    asc.load_data(a2, a1, asc.LoadData2DParams(0, m * k // 256, 1, 0, 0, False, 0))",
                "k // 16, 0, 0, True, 0)",
                "k // 16, 0, 0, False, 0)",
            ),
            _seen(_in_one, _each_turned),
            what="the flag is there, and both orders are still wrong.",
            why="A's fractals follow each other as in L1, and each fractal of B is stored row after row.",
            do="Compare with the picture of the orders: ZZ in L0A, ZN in L0B.",
        ),
        Misconception(
            "vector_core",
            change("@asc.jit(kernel_type=config.KernelType.AIC_ONLY)", "@asc.jit"),
            fault="kernel.core_kind",
        ),
    ),
)

# -- 3 block -----------------------------------------------------------------------------------------


def _read(m: int, n: int, bm: int, bn: int) -> float:
    return m * -(-n // bn) + n * -(-m // bm)


def _best(
    m: int,
    n: int,
    k: int,
    bk: int,
    l0a: int,
    l0b: int,
    l0c: int,
    *,
    buffers: int = 2,
    c_bytes: int = 4,
    reads: Callable[[int, int, int, int], float] = _read,
    by: Callable[[float, int, int], tuple[float, ...]] = lambda read, bm, bn: (read, bm * bn, bm),
) -> tuple[int, int]:
    """The base block; ``reads`` counts elements, ``by`` orders the candidates."""
    fitting = [
        (bm, bn)
        for bm in range(16, l0a // (2 * buffers * bk) + 1, 16)
        for bn in range(16, l0b // (2 * buffers * bk) + 1, 16)
        if bm * bn * c_bytes <= l0c
    ]
    return min(fitting, key=lambda base: (*by(reads(m, n, *base), *base), *base))


_BLOCKS: dict[str, Callable[..., tuple[int, int]]] = {
    "one_buffer": lambda *case: _best(*case, buffers=1),
    "halves_in_l0c": lambda *case: _best(*case, c_bytes=2),
    "two_in_l0c": lambda *case: _best(*case, c_bytes=8),
    "repeated_wrongly": lambda *case: _best(*case, reads=lambda m, n, bm, bn: m * -(-m // bm) + n * -(-n // bn)),
    "not_rounded": lambda *case: _best(*case, reads=lambda m, n, bm, bn: m * n / bn + n * m / bm),
    "rounded_down": lambda *case: _best(*case, reads=lambda m, n, bm, bn: m * (n // bn) + n * (m // bm)),
    "whole_at_the_edge": lambda *case: _best(*case, reads=lambda m, n, bm, bn: -(-m // bm) * -(-n // bn) * (bm + bn)),
    "largest": lambda *case: _best(*case, by=lambda read, bm, bn: (-bm * bn,)),
    "largest_of_equals": lambda *case: _best(*case, by=lambda read, bm, bn: (read, -bm * bn, bm)),
    "swapped": lambda *case: _best(*case)[::-1],
}

_CHIP = (65536, 65536, 131072)


def draw_block(rng: Generator, size: tuple[int, int, int, tuple[int, int, int]]) -> dict[str, Any]:
    m, n, bk, (l0a, l0b, l0c) = size
    if m < 256 and n < 256:  # whole fractals: here a number of blocks that is rounded down is 0
        m, n = m + 16 * int(rng.integers(0, 5)), n + 16 * int(rng.integers(0, 5))
    else:
        m, n = m + int(rng.integers(0, 16)), n + int(rng.integers(0, 16))
    return {"m": m, "n": n, "k": int(rng.integers(1, 9)) * bk, "bk": bk, "l0a": l0a, "l0b": l0b, "l0c": l0c}


def _blocks(name: str, edit: Change | str, what: str, why: str, do: str) -> Misconception:
    rule = _BLOCKS[name]
    return Misconception(
        name,
        edit,
        gives(lambda **case: rule(*case.values())),
        what=what,
        why=why,
        do=do,
    )


BLOCK = Check(
    f"{LESSON}.block",
    run=call("best"),
    draw=draw_block,
    sizes=(
        (16, 16, 64, _CHIP),
        (96, 32, 64, _CHIP),
        (1000, 1000, 64, _CHIP),
        (2000, 250, 64, _CHIP),
        (250, 2000, 128, _CHIP),
        (40, 3000, 64, _CHIP),
        (500, 700, 32, (32768, 65536, 65536)),
        (700, 300, 64, (65536, 16384, 131072)),
        (900, 1300, 16, _CHIP),
        (1500, 360, 64, _CHIP),
        (300, 700, 64, (4 * 64 * 79, 4 * 64 * 47, 65536)),  # a whole fractal more does not fit
    ),
    reference=_best,
    compare=exact(dtype=False),
    misconceptions=(
        _blocks(
            "one_buffer",
            change("l0a // (4 * bk)", "l0a // (2 * bk)", "l0b // (4 * bk)", "l0b // (2 * bk)"),
            "one buffer fits into L0A or L0B, but not two.",
            "Ping-pong needs two tiles of bm * bk halves in L0A, and two of bk * bn in L0B.",
            "Ask for 2 * bm * bk * 2 <= l0a, and the same for B.",
        ),
        _blocks(
            "halves_in_l0c",
            change("bm * bn * 4 <= l0c", "bm * bn * 2 <= l0c"),
            "the block of C does not fit into L0C.",
            "The sums are float32, four bytes, although A and B are halves.",
            "Ask for bm * bn * 4 <= l0c.",
        ),
        _blocks(
            "two_in_l0c",
            change("bm * bn * 4 <= l0c", "bm * bn * 8 <= l0c"),
            "half of L0C stays empty.",
            "L0C has one buffer in this task.",
            "Ask for bm * bn * 4 <= l0c.",
        ),
        _blocks(
            "repeated_wrongly",
            change("m * -(-n // bn) + n * -(-m // bm)", "m * -(-m // bm) + n * -(-n // bn)"),
            "A is counted once for each row of blocks.",
            "A row of blocks reads only its own rows of A, once for each block in it: there are n / bn of these.",
            "Multiply m by the number of columns of blocks, and n by the number of rows of blocks.",
        ),
        _blocks(
            "not_rounded",
            change("m * -(-n // bn) + n * -(-m // bm)", "m * n / bn + n * m / bm"),
            "the numbers of blocks are not whole (the block with the highest intensity is the same answer).",
            "A column of blocks that is cut at the edge reads A whole, as the others do.",
            "Count what this m x n reads: A once for each column of blocks, n / bn rounded up, and B likewise.",
        ),
        _blocks(
            "whole_at_the_edge",
            change("m * -(-n // bn) + n * -(-m // bm)", "-(-m // bm) * -(-n // bn) * (bm + bn)"),
            "the blocks at the edges are counted as whole ones.",
            "They are smaller, and read only the rows of A and the columns of B that exist.",
            "Count m rows of A for each column of blocks, and n columns of B for each row of blocks.",
        ),
        _blocks(
            "rounded_down",
            change("m * -(-n // bn) + n * -(-m // bm)", "m * (n // bn) + n * (m // bm)"),
            "the numbers of blocks are rounded down.",
            "The blocks at the edges are smaller, but they exist, and they read.",
            "Round up: -(-n // bn).",
        ),
        _blocks(
            "largest",
            change("found.append((read, bm * bn, bm, bn))", "found.append((-bm * bn, 0, bm, bn))"),
            "you take the block with the largest area.",
            "The area says how much is computed at a time. What is read depends on both sides, and on the matrix.",
            "Take the smallest number of bytes; the area decides only between equals.",
        ),
        _blocks(
            "largest_of_equals",
            change("found.append((read, bm * bn, bm, bn))", "found.append((read, -bm * bn, bm, bn))"),
            "between equals you take the largest area.",
            "A block that is wider than needed takes room in L0C and reads no less.",
            "Compare (bytes, bm * bn, bm): the smallest area of those that read the fewest bytes.",
        ),
        _blocks(
            "swapped",
            change("min(found)[2:]", "min(found)[:1:-1]"),
            "bm and bn are swapped.",
            "bm counts rows of C, and of A; bn counts columns of C, and of B.",
            "Return (bm, bn).",
        ),
    ),
)

# -- 4 steps -----------------------------------------------------------------------------------------


def _in_steps(
    a_part: Callable[..., Array], b_part: Callable[..., Array], *, last: bool = False, each: int = 64
) -> Sign:
    """What is found if step s multiplies these parts; ``last``: only the last step remains.

    ``each``: how far one step is from the next.
    """

    def found(a: Array, b: Array, c: Array) -> Array:
        parts = [product(a_part(a, s), b_part(b, s), c) for s in range(0, a.shape[1] // 64 * each, each)]
        total: Array = parts[-1] if last else sum(parts, np.zeros_like(c))
        return total

    return gives(found)


def _a(a: Array, s: int) -> Array:
    return a[:, s : s + 64]


def _b(b: Array, s: int) -> Array:
    return b[s : s + 64]


def _tall_rows(a: Array, s: int) -> Array:
    """What comes from A if its rows are thought to have 64 elements."""
    return np.append(a.reshape(-1)[s:], np.zeros(a.size, a.dtype))[: a.shape[0] * 64].reshape(-1, 64)


def _b_by_elements(b: Array, s: int) -> Array:
    """64 rows from element s on."""
    return b.reshape(-1)[s : s + 64 * b.shape[1]].reshape(64, -1)


def _once_a_step(case: CaseRun) -> bool:
    counts = case.kernel.counts() if case.kernel is not None else {}
    products = sum(counts.get(name, 0) for name in ("mmad", "mmad_accumulate", "mmad_bias"))
    return bool(products == case.inputs["a"].shape[1] // 64)


_FIX = (
    "    out_c.enque(c1)\n    c1 = out_c.deque(asc.float32)\n"
    "    asc.fixpipe(c_gm, c1, asc.FixpipeParamsV220(n, m, m, n))\n    out_c.free_tensor(c1)\n"
)

STEPS = Check(
    f"{LESSON}.steps",
    run=kernel("launch", out="c"),
    draw=draw_product,
    sizes=((32, 64, 48), (48, 192, 32), (16, 320, 64), (96, 128, 16)),
    reference=product,
    compare=exact(),
    must=(
        kernel_blocks(1, 1),
        require(
            "once_a_step",
            _once_a_step,
            holds="one mmad a step",
            fails="the number of mmads is not k / 64",
            do="Let the loop go over k in steps of 64, with one mmad in it.",
        ),
        instructions("fixpipe", at_most=1, do="Keep the sums in L0C, and take them out once, after the loop."),
    ),
    misconceptions=(
        Misconception(
            "out_in_each_step",
            change(
                "    c1 = out_c.alloc_tensor(asc.float32)\n    for start in asc.range(0, k, 64):\n",
                "    for start in asc.range(0, k, 64):\n        c1 = out_c.alloc_tensor(asc.float32)\n",
                _FIX,
                _FIX.replace("    ", "        "),
                "cmatrix_init_val=start == 0",
                "cmatrix_init_val=True",
            ),
            unmet("fixpipe"),
            what="C goes out in each step.",
            why="Each fixpipe overwrites the one before it, and writes all of C to global memory.",
            do="Put fixpipe after the loop; mmad adds in L0C.",
        ),
        Misconception(
            "always_from_zero",
            change("cmatrix_init_val=start == 0", "cmatrix_init_val=True"),
            _in_steps(_a, _b, last=True),
            what="only the product of the last step remains.",
            why="cmatrix_init_val=True begins with zero, in each step anew.",
            do="Write cmatrix_init_val=start == 0, where start is what your loop counts.",
        ),
        Misconception(
            "never_from_zero",
            change("cmatrix_init_val=start == 0", "cmatrix_init_val=False"),
            fault("kernel.undefined") & source(r"cmatrix_init_val=False"),
            what="the first step adds to what stands in L0C.",
            why="Nobody has written there; on the chip it is what an earlier kernel left.",
            do="Write cmatrix_init_val=start == 0, where start is what your loop counts.",
        ),
        Misconception(
            "first_step_only",
            change("asc.range(0, k, 64)", "asc.range(0, 64, 64)"),
            gives(lambda a, b, c: product(_a(a, 0), _b(b, 0), c)),
            what="only the first 64 of k are used.",
            why="The kernel has still one step.",
            do="Put the copies, the loads and the mmad into a loop: for start in asc.range(0, k, 64).",
        ),
        Misconception(
            "same_part_of_a",
            change("a_gm[start:]", "a_gm"),
            _in_steps(lambda a, s: _a(a, 0), _b),
            what="each step takes the first 64 columns of A.",
            why="The copy of A does not depend on the step.",
            do="Copy from a_gm[start:], where start is what your loop counts.",
        ),
        Misconception(
            "same_part_of_b",
            change("b_gm[start * n :]", "b_gm"),
            _in_steps(_a, lambda b, s: _b(b, 0)),
            what="each step takes the first 64 rows of B.",
            why="The copy of B does not depend on the step.",
            do="Copy from b_gm[start * n :], where start is what your loop counts.",
        ),
        Misconception(
            "b_by_elements",
            change("b_gm[start * n :]", "b_gm[start:]"),
            _in_steps(_a, _b_by_elements),
            what="B is moved on by 64 elements in place of 64 rows.",
            why="In A a step goes along the rows, in B down the rows, and a row of B has n elements.",
            do="Copy from b_gm[start * n :], where start is what your loop counts.",
        ),
        Misconception(
            "steps_of_one",
            change("asc.range(0, k, 64)", "asc.range(k // 64)"),
            _in_steps(_a, _b, each=1),
            what="the steps begin one column after the other, not 64.",
            why="The loop counts 0, 1, 2 ..., and the offsets use the count as it is.",
            do="Let the loop go in steps of 64: for start in asc.range(0, k, 64).",
        ),
        Misconception(
            "row_of_64",
            change("asc.Nd2NzParams(1, m, 64, 0, k, m, 1, 0)", "asc.Nd2NzParams(1, m, 64, 0, 64, m, 1, 0)"),
            _in_steps(_tall_rows, _b),
            what="the rows of A are thought to have 64 elements.",
            why="64 columns are copied of each row, but the next row begins k elements further.",
            do="Leave k as the length of a row: Nd2NzParams(1, m, 64, 0, k, m, 1, 0).",
        ),
        Misconception(
            "never_freed",
            change("        in_b2.free_tensor(b2)\n", ""),
            fault("kernel.queue_empty"),
            what="a tensor of L0 or L1 is not given back in each step.",
            why="Two buffers are enough for two steps; the third waits for ever.",
            do="Free all four tensors within the loop.",
        ),
    ),
)

# -- 5 keep ------------------------------------------------------------------------------------------


def _copied_in(case: CaseRun) -> int:
    """Bytes that came from global memory into L1."""
    if case.kernel is None:
        return 0
    copies = (each.immediates for each in case.kernel.trace if ROWS[each.op].name == "data_copy_nd2nz")
    return sum(2 * imm[0] * imm[1] * imm[2] for imm in copies)


def _b_once(case: CaseRun) -> bool:
    a, b = case.inputs["a"], case.inputs["b"]
    return bool(_copied_in(case) == a.nbytes * (b.shape[1] // 256) + b.nbytes)


_PANEL = (
    "        b1 = in_b1.alloc_tensor(asc.float16)\n"
    "        asc.data_copy(b1, b_gm[column:], intri_params=asc.Nd2NzParams(1, k, 256, 0, n, k, 1, 0))\n"
    "        in_b1.enque(b1)\n"
    "        b1 = in_b1.deque(asc.float16)\n"
)
_TILE = (
    "                b1 = in_b1.alloc_tensor(asc.float16)\n"
    "                asc.data_copy(b1, b_gm[step * n + column :], "
    "intri_params=asc.Nd2NzParams(1, 64, 256, 0, n, 64, 1, 0))\n"
    "                in_b1.enque(b1)\n"
    "                b1 = in_b1.deque(asc.float16)\n"
)
_ROWS = "        for row in asc.range(0, m, 128):\n"
_FREE_B = "        in_b1.free_tensor(b1)\n"

KEEP = Check(
    f"{LESSON}.keep",
    run=kernel("launch", out="c"),
    draw=draw_product,
    sizes=((128, 192, 256), (256, 128, 512), (256, 512, 256)),
    reference=product,
    compare=exact(),
    must=(
        kernel_blocks(1, 1),
        require(
            "b_once",
            _b_once,
            holds="B came into L1 once, A once for each panel",
            fails="more, or fewer, bytes came into L1 than B once and A once for each panel",
            do="Copy k x 256 of B before the loop over rows, and keep it until the loop is over.",
        ),
    ),
    cost=Cost(1.08),
    picture=pipes(),
    misconceptions=(
        Misconception(
            "step_in_rows",
            change("b1[step * 16 :]", "b1[step * 256 :]"),
            source(r"b1\[step \* 256:\]"),
            what="a step goes too far in the panel.",
            why="In L1 the order is NZ: a column of fractals is 16 elements wide, so step rows are step * 16 elements.",
            do="Load from b1[step * 16 :].",
        ),
        Misconception(
            "panel_for_each_row",
            change(
                _PANEL + _ROWS,
                _ROWS + _PANEL.replace("        ", "            "),
                _FREE_B,
                _FREE_B.replace("        ", "            "),
            ),
            unmet("b_once") & source(r"Nd2NzParams\(1, k, 256"),
            what="the panel of B is copied for each row of blocks.",
            why="It stands in L1, but within the loop over rows, so it comes in anew each time.",
            do="Move its alloc, copy, enque and deque before the loop over rows, and its free behind it.",
        ),
        Misconception(
            "distance_of_a_tile",
            change(
                "asc.LoadData2DParams(j, 16, k // 16, 0, 0, True, 0)", "asc.LoadData2DParams(j, 16, 4, 0, 0, True, 0)"
            ),
            source(r"LoadData2DParams\(.*16, 4, 0, 0, True, 0\)") & source(r"Nd2NzParams\(1, k, 256"),
            what="the columns of fractals of B are taken 4 fractals apart.",
            why="That was right for a tile with 64 rows. The panel in L1 has k rows, so a column has k // 16 fractals.",
            do="Write LoadData2DParams(j, 16, k // 16, 0, 0, True, 0).",
        ),
        Misconception(
            "still_streaming",
            change(
                _PANEL,
                "",
                _FREE_B + "\n",
                "\n",
                "                a1 = in_a1.alloc_tensor(asc.float16)\n",
                _TILE + "                a1 = in_a1.alloc_tensor(asc.float16)\n",
                "                in_a1.free_tensor(a1)\n",
                "                in_a1.free_tensor(a1)\n                in_b1.free_tensor(b1)\n",
                "16, k // 16, 0, 0, True, 0)",
                "16, 4, 0, 0, True, 0)",
                "b1[step * 16 :]",
                "b1",
            ),
            unmet("b_once"),
            what="B is still read for each block.",
            why="A panel of k x 256 halves is at most 256 KB, and L1 has 512 KB.",
            do="Copy the panel once before the loop over rows, with Nd2NzParams(1, k, 256, 0, n, k, 1, 0).",
        ),
        Misconception(
            "one_buffer_in_l0",
            change("init_buffer(in_a2, 2,", "init_buffer(in_a2, 1,", "init_buffer(in_b2, 2,", "init_buffer(in_b2, 1,"),
            slow() & source(r"init_buffer\(in_[ab]2, 1,"),
            what="M and MTE1 take turns.",
            why="With one buffer in L0A or L0B the next load waits until mmad has read it. Now that MTE2 has little to "
            "do, this is what takes the time.",
            do="Give in_a2 and in_b2 two buffers each.",
        ),
        Misconception(
            "one_buffer_for_a",
            change("init_buffer(in_a1, 3,", "init_buffer(in_a1, 1,"),
            slow() & source(r"init_buffer\(in_a1, 1,"),
            what="MTE2 waits for MTE1 in each step.",
            why="A streams through one buffer of L1, so the next copy begins when the tile has been loaded.",
            do="Give in_a1 two or three buffers.",
        ),
        Misconception(
            "two_panels",
            change("init_buffer(in_b1, 1,", "init_buffer(in_b1, 2,"),
            fault("kernel.buffer_overflow"),
            what="two panels of B do not fit into L1.",
            why="With k = 512 a panel has 256 KB, and A needs room as well.",
            do="Give in_b1 one buffer.",
        ),
        Misconception(
            "panel_too_small",
            change("init_buffer(in_b1, 1, k * 256 * 2)", "init_buffer(in_b1, 1, k * 256)"),
            fault("kernel.tensor_range"),
            what="the panel is larger than its buffer.",
            why="init_buffer counts bytes, and a half has two.",
            do="Write pipe.init_buffer(in_b1, 1, k * 256 * 2).",
        ),
        Misconception(
            "same_part_of_the_panel",
            change("b1[step * 16 :]", "b1"),
            _in_steps(_a, lambda b, s: _b(b, 0)),
            what="each step takes the first 64 rows of the panel.",
            why="The load of B does not depend on the step.",
            do="Load from b1[step * 16 :].",
        ),
        Misconception(
            "never_freed",
            change(_FREE_B, ""),
            fault("kernel.queue_empty"),
            what="the panel is never given back.",
            why="The next panel waits for its buffer for ever.",
            do="Call in_b1.free_tensor(b1) after the loop over rows.",
        ),
        Misconception(
            "freed_too_early",
            change(
                "                in_a1.free_tensor(a1)\n",
                "                in_a1.free_tensor(a1)\n                in_b1.free_tensor(b1)\n",
                _FREE_B + "\n",
                "\n",
            ),
            fault("kernel.queue_freed") | fault("kernel.free_twice"),
            what="the panel is given back in the first step.",
            why="All steps and all rows of blocks read it.",
            do="Free it once, after the loop over rows.",
        ),
    ),
)

# -- 6 cores -----------------------------------------------------------------------------------------


def _untouched(result: Array, a: Array, b: Array, c: Array) -> bool:
    """Right where it was computed; whole rows or columns at the end were not."""
    wrong = np.argwhere(result != product(a, b, c))
    if not wrong.size:
        return False
    row, column = wrong.min(axis=0)
    below, beside = result[row:], result[:, column:]
    return bool((below == 0).all() or (beside == 0).all() or not result.any())


def _base(case: CaseRun) -> tuple[int, int]:
    """Rows and columns of the largest mmad."""
    assert case.kernel is not None
    sizes = [each.immediates for each in case.kernel.trace if ROWS[each.op].name.startswith("mmad")]
    return max(size[0] for size in sizes), max(size[1] for size in sizes)


def _fixed_base(attempt: Attempt) -> tuple[int, int] | None:
    """The base block that all cases were cut with, if it is one and the same."""
    bases = [_base(case) for case in attempt.cases]
    rows, columns = max(base[0] for base in bases), max(base[1] for base in bases)
    sizes = [case.inputs["c"].shape for case in attempt.cases]
    same = bases == [(min(rows, size[0]), min(columns, size[1])) for size in sizes]
    return (rows, columns) if same else None


def _small_base(attempt: Attempt) -> bool:
    base = _fixed_base(attempt)
    return base is not None and base[0] * base[1] <= 64 * 64


def _one_core(attempt: Attempt) -> bool:
    return all(case.kernel is not None and case.kernel.blocks == 1 for case in attempt.cases)


_LOOP = "asc.range(asc.get_block_idx(), (m + bm - 1) // bm * across, asc.get_block_num())"

CORES = Check(
    f"{LESSON}.cores",
    run=kernel("launch", out="c"),
    draw=draw_product,
    sizes=((640, 192, 960), (400, 192, 336), (16, 64, 1504), (1008, 128, 48)),
    reference=product,
    compare=exact(),
    must=(kernel_blocks(8, 24),),
    cost=Cost(1.15),
    misconceptions=(
        Misconception(
            "length_of_a_row",
            change("FixpipeParamsV220(columns, rows, rows, n)", "FixpipeParamsV220(columns, rows, rows, columns)"),
            source(r"FixpipeParamsV220\(columns, rows, rows, columns\)"),
            what="the rows of a block are written one behind the other.",
            why="In C the next row begins n elements further, however wide the block is.",
            do="Leave n as the last number of FixpipeParamsV220.",
        ),
        Misconception(
            "whole_blocks_only",
            change(
                "across = (n + bn - 1) // bn", "across = n // bn", "(m + bm - 1) // bm * across", "m // bm * across"
            ),
            got(_untouched),
            what="the last rows or columns of C are not computed.",
            why="A division that rounds down drops the blocks at the edges.",
            do="Round up: (n + bn - 1) // bn columns and (m + bm - 1) // bm rows of blocks.",
        ),
        Misconception(
            "columns_not_cut",
            change(
                "        columns = n - column\n        if columns > bn:\n            columns = bn\n",
                "        columns = bn\n",
            ),
            source(r"columns = bn\n") & ~source(r"columns = n - column"),
            what="the last column of blocks reaches beside C, into the next row.",
            why="n need not be a multiple of bn.",
            do="columns = n - column, and bn if that is more.",
        ),
        Misconception(
            "one_core",
            change("shared[min(24, blocks(bm, bn))]", "shared[1]"),
            unmet("kernel_blocks") & sign(_one_core),
            what="one core does everything.",
            why="The blocks of C need nothing from each other, and there are 24 cores.",
            do="Launch min(24, blocks) cores, and let core i begin with block i and go on by get_block_num().",
        ),
        Misconception(
            "everybody_everything",
            change(_LOOP, "asc.range((m + bm - 1) // bm * across)"),
            ~source("get_block_idx"),
            what="each core computes all blocks.",
            why="All cores run the same program; only get_block_idx() tells them apart.",
            do="Let the loop go from get_block_idx() on, in steps of get_block_num().",
        ),
        Misconception(
            "rows_not_cut",
            change("        rows = m - row\n        if rows > bm:\n            rows = bm\n", "        rows = bm\n"),
            (fault("kernel.gm_range") | fault("kernel.gm_spare") | fault("kernel.race_blocks"))
            & source(r"rows = bm\n")
            & ~source(r"rows = m - row"),
            what="the last row of blocks reaches below C.",
            why="m need not be a multiple of bm.",
            do="rows = m - row, and bm if that is more.",
        ),
        Misconception(
            "tiny_blocks",
            change("bm, bn = min(fitting, key=lambda base: -(-blocks(*base) // 24) * sum(base))", "bm, bn = 32, 32"),
            slow() & sign(_small_base),
            what="the blocks are too small.",
            why="Small blocks fill the waves, but they read A and B again and again, and each copy has its latency.",
            do="Choose the block for the sizes: the smallest waves * (bm + bn).",
        ),
        Misconception(
            "one_base_for_all",
            change("bm, bn = min(fitting, key=lambda base: -(-blocks(*base) // 24) * sum(base))", "bm, bn = 128, 256"),
            (slow() | unmet("kernel_blocks")) & sign(lambda attempt: _fixed_base(attempt) is not None),
            what="all sizes are cut with the same base block.",
            why="The block that reads the fewest bytes gives few blocks, and most cores wait.",
            do="Choose the block for the sizes: the smallest waves * (bm + bn).",
        ),
        Misconception(
            "fewest_bytes",
            change("-(-blocks(*base) // 24) * sum(base)", "blocks(*base) * sum(base)"),
            slow() | unmet("kernel_blocks"),
            what="the base blocks do not fit the 24 cores.",
            why="Either few blocks leave cores idle, or a last wave is nearly empty, or small blocks read much.",
            do="Minimise waves * (bm + bn), where waves = blocks / 24, rounded up.",
        ),
    ),
)

CHECKS = [WHERE, FIRST, BLOCK, STEPS, KEEP, CORES]
