"""What the cube core does for a Matmul object: the instructions, base tile by base tile.

A base tile of C is made in L0C from tiles of A and B: global memory to L1 (ND to NZ), L1 to L0A and L0B in steps of
base_k, mmad, and fixpipe out. Tiles of L1 that come again are kept. L1, L0A, L0B and L0C are used in turns where the
tiling has room for two, with flags between the pipes. Source: pyasc 7.9, 8 (Matmul object), 3 (TCubeTiling).

Simplified: a tile in L1 is one base tile high (step_m and step_n only count for the room), and L1 is forgotten after
each call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cannlab.machine.core.access import extents
from cannlab.machine.core.cube import (
    DEQF16,
    F322F16,
    NO_QUANT,
    QF322B8_PRE,
    REQ8,
    VDEQF16,
    VQF322B8_PRE,
    VREQ8,
)
from cannlab.machine.core.dtypes import CODES, SIZES, pack
from cannlab.machine.core.floats import to_bits
from cannlab.machine.core.fractals import FRACTAL, ROWS, up
from cannlab.machine.core.layout import signed
from cannlab.machine.core.opcodes import BY_NAME
from cannlab.machine.core.pipes import BLOCK, HardEvent, Pipe, Space

_MOST_REPEAT = 255
_BIAS_ID, _TABLE_ID, _WORD_ID = 4, 2, 0
_SET, _WAIT, _BARRIER, _HF32 = (BY_NAME[name].number for name in ("set_flag", "wait_flag", "pipe_barrier", "set_hf32"))


class Matrix(NamedTuple):
    """A matrix in global memory.

    Attributes:
        allocation, offset: where it begins, in bytes.
        dtype: element type.
        nz: fractals instead of rows.
        turned: it is stored transposed.
        ld: elements of a stored row; of NZ the stored rows.
        scalar: no matrix in memory: every element is this.
    """

    allocation: int
    offset: int
    dtype: str
    nz: bool
    turned: bool
    ld: int
    scalar: float | None = None


class Problem(NamedTuple):
    """A single core's matmul and how it is cut.

    Attributes:
        a, b: left and right matrix. bias: a row of n elements.
        m, n, k: extents. base_m, base_n, base_k: a base tile.
        step_a, step_b: base_k steps that a tile in L1 is long. slots_a, slots_b: such tiles in L1.
        deep, out: tiles in L0A and L0B, in L0C.
        by_n: base tiles go along n first.
        word, words: quantisation: one word, or where a word for each column is (allocation, byte).
        hf32: 0 off, 1 to nearest, 2 towards zero.
    """

    a: Matrix
    b: Matrix
    bias: Matrix | None
    m: int
    n: int
    k: int
    base_m: int
    base_n: int
    base_k: int
    step_a: int
    step_b: int
    slots_a: int
    slots_b: int
    deep: int
    out: int
    by_n: bool
    word: int | None = None
    words: tuple[int, int] | None = None
    hf32: int = 0

    @property
    def rows(self) -> int:
        """Base tiles along m."""
        return -(-self.m // self.base_m)

    @property
    def columns(self) -> int:
        """Base tiles along n."""
        return -(-self.n // self.base_n)

    def tiles(self) -> list[tuple[int, int]]:
        """(row, column) of the base tiles in order."""
        if self.by_n:
            return [(i, j) for i in range(self.rows) for j in range(self.columns)]
        return [(i, j) for j in range(self.columns) for i in range(self.rows)]

    def extent(self, i: int, j: int) -> tuple[int, int]:
        """Rows and columns of a base tile."""
        return min(self.base_m, self.m - i * self.base_m), min(self.base_n, self.n - j * self.base_n)


class Target(NamedTuple):
    """Where C goes in global memory.

    Attributes:
        allocation, offset, dtype, nz: as of a matrix. ld: elements of a row; of NZ the rows.
        dense: a base tile is written by itself, its rows one after another.
        atomic: 0 replace, 1 add, 2 max, 3 min.
    """

    allocation: int
    offset: int
    dtype: str
    nz: bool
    ld: int
    dense: bool
    atomic: int


def edge(code: int) -> int:
    """Rows and columns in which a tile is rounded up: 16, of 8-bit types 32."""
    return 32 if SIZES[code] == 1 else ROWS


def tile_bytes(base: int, length: int, dtype: str) -> int:
    """Bytes that a tile of so many rows and columns may take in L1 or L0."""
    code = CODES[dtype]
    return up(base, edge(code)) * up(length, edge(code)) * SIZES[code]


def mode_of(accumulated: str, result: str, problem: Problem) -> int | None:
    """The fixpipe mode between the types; None where there is none."""
    vector, scalar = problem.words is not None, problem.word is not None
    if accumulated == result:
        return NO_QUANT
    if accumulated == "float32" and result == "float16":
        return F322F16
    if not vector and not scalar:
        return None
    table = {
        ("int32", "float16"): (DEQF16, VDEQF16),
        ("int32", "int8"): (REQ8, VREQ8),
        ("int32", "uint8"): (REQ8, VREQ8),
        ("float32", "int8"): (QF322B8_PRE, VQF322B8_PRE),
        ("float32", "uint8"): (QF322B8_PRE, VQF322B8_PRE),
    }
    pair = table.get((accumulated, result))
    return None if pair is None else pair[vector]


class Cube:
    """Issues a request's instructions on the running cube core.

    Args:
        launch: where they go. line: file and line that they belong to. start: first byte of L1 that is free.
    """

    def __init__(self, launch: Any, line: tuple[int, int], start: int = 0) -> None:
        self._launch, self._line = launch, line
        self._start = start
        self._pending: set[tuple[HardEvent, int]] = set()
        self._turn = self._out = 0

    # -- instructions ---------------------------------------------------------------------------------

    def _go(
        self, name: str, pipe: Pipe, types: tuple[int, ...], imm: tuple[int, ...], *places: tuple[int, int]
    ) -> None:
        """An instruction; each operand is as long as the immediates reach."""
        row = BY_NAME[name]
        dtype = pack(*types)
        sizes = extents(row.number, dtype, imm)
        operands = tuple((*place, size or 0) for place, size in zip(places, sizes, strict=True))
        self._launch.apply(row.number, int(pipe), dtype, *self._line, imm, operands)

    def _set(self, event: HardEvent, identity: int) -> None:
        self._launch.apply(_SET, int(_pipes(event)[0]), 0, *self._line, (int(event), identity), ())

    def _wait(self, event: HardEvent, identity: int) -> None:
        self._launch.apply(_WAIT, int(_pipes(event)[1]), 0, *self._line, (int(event), identity), ())

    def _then(self, event: HardEvent, identity: int) -> None:
        """The second pipe goes on behind the first."""
        self._set(event, identity)
        self._wait(event, identity)

    def _give(self, event: HardEvent, identity: int) -> None:
        """A buffer is free once the first pipe is here; whoever takes it next waits."""
        self._set(event, identity)
        self._pending.add((event, identity))

    def _take(self, event: HardEvent, identity: int) -> None:
        if (event, identity) in self._pending:
            self._pending.discard((event, identity))
            self._wait(event, identity)

    def _behind(self, pipe: Pipe) -> None:
        """The pipe's next instruction meets bytes of the one before. The compiler's automatic synchronisation knows."""
        if self._launch.sync == "strict":
            self._launch.apply(_BARRIER, int(pipe), 0, *self._line, (int(pipe),), ())

    def settle(self) -> None:
        """No flag is left up."""
        for event, identity in sorted(self._pending):
            self._wait(event, identity)
        self._pending.clear()

    # -- whole requests -------------------------------------------------------------------------------

    def run(self, problem: Problem, target: Target, tiles: list[tuple[int, int]]) -> None:
        """Make base tiles and write them."""
        self._begin(problem)
        if problem.hf32:
            self._hf32(problem.hf32)
        dense = 0
        size = SIZES[CODES[target.dtype]]
        for i, j in tiles:
            self._tile(problem, i, j)
            self._write(problem, target, i, j, dense)
            rows, columns = problem.extent(i, j)
            dense += rows * columns * size
        if problem.hf32:
            self._hf32(0)
        self.settle()

    def _hf32(self, mode: int) -> None:
        self._launch.apply(_HF32, int(Pipe.S), 0, *self._line, (mode,), ())

    def _begin(self, p: Problem) -> None:
        left = tile_bytes(p.base_m, p.step_a * p.base_k, p.a.dtype)
        right = tile_bytes(p.base_n, p.step_b * p.base_k, p.b.dtype)
        self._left = _Side(
            self, p.a, True, p.base_m, p.m, p, p.step_a, [self._start + left * s for s in range(p.slots_a)], 0
        )
        at = self._start + (0 if p.a.scalar is not None else left * p.slots_a)
        self._right = _Side(self, p.b, False, p.base_n, p.n, p, p.step_b, [at + right * s for s in range(p.slots_b)], 2)
        self._bias_at = at + (0 if p.b.scalar is not None else right * p.slots_b)
        self._words_at = self._bias_at + up(p.base_n * 4, BLOCK)
        self._zero = tile_bytes(p.base_m, p.base_k, p.a.dtype), tile_bytes(p.base_n, p.base_k, p.b.dtype)

    def _tile(self, p: Problem, i: int, j: int) -> None:
        """A base tile of C in L0C."""
        rows, columns = p.extent(i, j)
        result = accumulator(p.a.dtype)
        codes = (CODES[result], CODES[p.a.dtype], CODES[p.b.dtype])
        place = self._out % p.out
        at = place * up(p.base_m, ROWS) * up(p.base_n, ROWS) * 4
        if p.bias is not None:
            self._bias(p.bias, j * p.base_n, columns)
        self._take(HardEvent.FIX_M, place)
        for step in range(-(-p.k // p.base_k)):
            count = min(p.base_k, p.k - step * p.base_k)
            turn = self._turn % p.deep
            self._turn += 1
            self._left.bring(i, step)
            self._right.bring(j, step)
            self._take(HardEvent.M_MTE1, turn)
            self._left.load(i, step, rows, count, turn * self._zero[0])
            self._right.load(j, step, columns, count, turn * self._zero[1])
            self._left.leave(i, step)
            self._right.leave(j, step)
            self._then(HardEvent.MTE1_M, turn)
            # A single row would be read as a plain vector; the second row's sums go nowhere.
            imm = (max(rows, 2), columns, count)
            three = (
                (int(Space.L0C), at),
                (int(Space.L0A), turn * self._zero[0]),
                (int(Space.L0B), turn * self._zero[1]),
            )
            if step:
                self._behind(Pipe.M)
                self._go("mmad_accumulate", Pipe.M, codes, imm, *three)
            elif p.bias is not None:
                self._go("mmad_bias", Pipe.M, (*codes, codes[0]), imm, *three, (int(Space.BIAS), 0))
                self._give(HardEvent.M_MTE1, _TABLE_ID)
            else:
                self._go("mmad", Pipe.M, codes, imm, *three)
            self._give(HardEvent.M_MTE1, turn)
        self._then(HardEvent.M_FIX, place)

    def _bias(self, bias: Matrix, first: int, count: int) -> None:
        """A part of the bias into the bias table."""
        code = CODES[bias.dtype]
        at = bias.offset + first * SIZES[code]
        self._take(HardEvent.MTE1_MTE2, _BIAS_ID)
        # One row of fractals one high: the elements, and zeros up to 32 bytes.
        imm = (1, 1, count, 0, count, 1, 1, 0)
        l1 = (int(Space.L1), self._bias_at)
        self._go("data_copy_nd2nz", Pipe.MTE2, (code, code), imm, l1, (bias.allocation, at))
        self._then(HardEvent.MTE2_MTE1, _BIAS_ID)
        self._take(HardEvent.M_MTE1, _TABLE_ID)
        size = up(count * SIZES[code], BLOCK)
        self._go("data_copy", Pipe.MTE1, (code, code), (1, size, 0, 0, 0), (int(Space.BIAS), 0), l1)
        self._give(HardEvent.MTE1_MTE2, _BIAS_ID)

    def _write(self, p: Problem, t: Target, i: int, j: int, dense: int) -> None:
        """A base tile out of L0C."""
        rows, columns = p.extent(i, j)
        place = self._out % p.out
        self._out += 1
        high = up(max(rows, 2), ROWS)
        source = (int(Space.L0C), place * up(p.base_m, ROWS) * up(p.base_n, ROWS) * 4)
        result, code = accumulator(p.a.dtype), CODES[t.dtype]
        mode = mode_of(result, t.dtype, p)
        assert mode is not None
        size = SIZES[code]
        if t.nz:
            wide = 32 if size == 1 else 16
            total = up(rows, ROWS) if t.dense else t.ld
            at = 0 if t.dense else (j * p.base_n // wide * total + i * p.base_m) * wide * size
            stride = total * wide * size // BLOCK
        else:
            stride = columns if t.dense else t.ld
            at = 0 if t.dense else (i * p.base_m * t.ld + j * p.base_n) * size
        at += dense if t.dense else 0
        word = 0 if p.word is None else p.word
        imm = (columns, rows, high, stride, mode, signed(word), 1, 0, 0, 0, int(not t.nz), 0, t.atomic)
        target = (t.allocation, t.offset + at)
        codes = (code, CODES[result])
        if p.words is None or mode in (NO_QUANT, F322F16):
            self._go("fixpipe", Pipe.FIXP, codes, imm, target, source)
        else:
            words = CODES["uint64"]
            self._take(HardEvent.FIX_MTE2, _WORD_ID)
            copied = (1, up(columns * 8, BLOCK), 0, 0, 0)
            l1 = (int(Space.L1), self._words_at)
            first = (p.words[0], p.words[1] + j * p.base_n * 8)
            self._go("data_copy", Pipe.MTE2, (words, words), copied, l1, first)
            self._then(HardEvent.MTE2_FIX, _WORD_ID)
            self._go("fixpipe_vector", Pipe.FIXP, (*codes, words), imm, target, source, l1)
            self._give(HardEvent.FIX_MTE2, _WORD_ID)
        self._give(HardEvent.FIX_M, place)


class _Side:
    """A or B on its way into L0A or L0B."""

    def __init__(
        self,
        cube: Cube,
        matrix: Matrix,
        left: bool,
        base: int,
        extent: int,
        problem: Problem,
        step: int,
        slots: list[int],
        first: int,
    ) -> None:
        self._cube, self._matrix, self._is_left = cube, matrix, left
        self._base, self._extent, self._k, self._base_k, self._step = base, extent, problem.k, problem.base_k, step
        self._slots, self._first = slots, first
        self._held: dict[tuple[int, int], int] = {}
        self._next = 0
        self._code = CODES[matrix.dtype]
        self._size = SIZES[self._code]
        self._c0 = BLOCK // self._size
        self._space = int(Space.L0A if left else Space.L0B)
        # Stored with k along the rows: A transposed, B as it is.
        self._k_down = matrix.turned is left

    def bring(self, tile: int, step: int) -> None:
        """The tile is in L1."""
        if self._matrix.scalar is not None or step % self._step:
            return
        key = (tile, step // self._step)
        slot = self._held.get(key)
        if slot is None:
            slot = self._next
            self._next = (slot + 1) % len(self._slots)
            self._held = {each: where for each, where in self._held.items() if where != slot}
            self._held[key] = slot
            self._cube._take(HardEvent.MTE1_MTE2, self._first + slot)
            self._copy(*key, self._slots[slot])
            self._cube._then(HardEvent.MTE2_MTE1, self._first + slot)
        else:
            self._cube._take(HardEvent.MTE1_MTE2, self._first + slot)

    def leave(self, tile: int, step: int) -> None:
        """After the last step of a tile of L1 it may be overwritten."""
        last = (step + 1) % self._step == 0 or (step + 1) * self._base_k >= self._k
        if self._matrix.scalar is None and last:
            self._cube._give(HardEvent.MTE1_MTE2, self._first + self._held[tile, step // self._step])

    def _part(self, tile: int, chunk: int) -> tuple[int, int]:
        """Extent along m or n, and along k, of a tile in L1."""
        length = self._step * self._base_k
        return min(self._base, self._extent - tile * self._base), min(length, self._k - chunk * length)

    def _copy(self, tile: int, chunk: int, at: int) -> None:
        """Global memory to L1, as NZ."""
        matrix, size, c0 = self._matrix, self._size, self._c0
        wide, long = self._part(tile, chunk)
        first, first_k = tile * self._base, chunk * self._step * self._base_k
        rows, columns, row, column = (long, wide, first_k, first) if self._k_down else (wide, long, first, first_k)
        codes = (self._code, self._code)
        l1 = (int(Space.L1), at)
        if matrix.nz:
            high = up(rows, ROWS)
            source = matrix.offset + (column // c0 * matrix.ld + row) * BLOCK
            imm: tuple[int, ...] = (-(-columns // c0), high * BLOCK, (matrix.ld - high) * BLOCK, 0, 0)
            self._cube._go("data_copy", Pipe.MTE2, codes, imm, l1, (matrix.allocation, source))
            return
        source = matrix.offset + (row * matrix.ld + column) * size
        if self._squares_down:
            # 16 rows after 16 rows, so that the two fractals of a square lie side by side.
            across = up(columns, ROWS)
            whole = rows // ROWS
            if whole:
                imm = (whole, ROWS, columns, ROWS * matrix.ld, matrix.ld, ROWS, 1, ROWS * across)
                self._cube._go("data_copy_nd2nz", Pipe.MTE2, codes, imm, l1, (matrix.allocation, source))
            if rows % ROWS:
                imm = (1, rows % ROWS, columns, 0, matrix.ld, ROWS, 1, 0)
                l1 = (int(Space.L1), at + whole * ROWS * across * size)
                rest = source + whole * ROWS * matrix.ld * size
                self._cube._go("data_copy_nd2nz", Pipe.MTE2, codes, imm, l1, (matrix.allocation, rest))
            return
        imm = (1, rows, columns, 0, matrix.ld, self._high(rows), 1, 0)
        self._cube._go("data_copy_nd2nz", Pipe.MTE2, codes, imm, l1, (matrix.allocation, source))

    @property
    def _squares_down(self) -> bool:
        """float32, transposed, to L0A."""
        return self._k_down and self._is_left and self._size == 4

    def _high(self, rows: int) -> int:
        """Rows of a column block in L1."""
        if rows == 1 and not self._k_down and self._is_left:
            return 1
        return up(rows, 32 if self._k_down and self._size == 1 else ROWS)

    def load(self, tile: int, step: int, wide: int, count: int, to: int) -> None:
        """L1 to L0A or L0B: one step of base_k."""
        if self._matrix.scalar is not None:
            fractals = up(wide, ROWS) // ROWS * (up(count, ROWS) // self._c0)
            imm: tuple[int, ...] = (1, fractals, 0, FRACTAL, to_bits(self._matrix.scalar))
            self._cube._go("init_const_value", Pipe.MTE1, (self._code,), imm, (self._space, to))
            return
        chunk = step // self._step
        at = self._slots[self._held[tile, chunk]]
        inside = step % self._step * self._base_k
        long = self._part(tile, chunk)[1]
        if not self._k_down:
            if self._is_left:
                self._image(
                    at, to, self._high(wide) if not self._matrix.nz else up(wide, ROWS), long, inside, count, wide
                )
            else:
                self._plain(at, to, wide, inside, count)
        elif not self._is_left and self._size > 1:
            self._image(at, to, up(long, ROWS), wide, inside, count, wide)
        elif self._size == 2:
            self._turned(at, to, wide, long, inside, count)
        else:
            self._squares(at, to, wide, long, inside, count)

    def _image(self, at: int, to: int, high: int, across: int, inside: int, count: int, wide: int) -> None:
        """NZ as an image one pixel high, to columns: A as it is, B transposed on the way."""
        columns, rows, k, m = (count, up(wide, ROWS), inside, 0) if self._is_left else (wide, count, 0, inside)
        right = int(not self._is_left)
        imm = (0, 0, 0, 0, 1, high, up(across, self._c0), columns, rows, k, m, 1, 1, 1, 1, 1, 1, right, 0)
        self._move("load_data_3d", imm, to, at)

    def _plain(self, at: int, to: int, wide: int, inside: int, count: int) -> None:
        """B stored transposed: NZ in L1 is what L0B holds."""
        high = up(wide, ROWS) // ROWS
        start, left, done = inside // self._c0 * high, -(-count // self._c0) * high, 0
        while left:
            repeat = min(left, _MOST_REPEAT)
            self._move("load_data", (start + done, repeat, 1, 0, 0, 0), to + done * FRACTAL, at)
            left, done = left - repeat, done + repeat

    def _turned(self, at: int, to: int, wide: int, long: int, inside: int, count: int) -> None:
        """A of 16 bits stored transposed: each fractal is transposed."""
        steps = -(-count // ROWS)
        for row in range(-(-wide // ROWS)):
            start = row * (up(long, ROWS) // ROWS) + inside // ROWS
            self._move("load_data", (start, steps, 1, 0, 1, 0), to + row * steps * FRACTAL, at)

    def _squares(self, at: int, to: int, wide: int, long: int, inside: int, count: int) -> None:
        """Square blocks, transposed: A stored transposed (8 and 32 bits), B as it is (8 bits)."""
        name, steps = "load_data_with_transpose", -(-count // self._c0)
        if self._size == 4:
            across = up(wide, ROWS) // ROWS
            for row in range(across):
                if row and count % ROWS:
                    self._cube._behind(Pipe.MTE1)
                imm = (inside // ROWS * across + row, -(-count // ROWS), across, 1, 0, 0)
                self._move(name, imm, to + row * steps * FRACTAL, at)
        elif self._is_left:
            for row in range(-(-wide // 32)):
                imm = (row * (up(long, 32) // 32) + inside // 32, steps, 1, 0, steps - 1, 0)
                self._move(name, imm, to + 2 * row * steps * FRACTAL, at)
        else:
            for part in range(steps):
                if part and wide % 32:
                    self._cube._behind(Pipe.MTE1)
                imm = (inside // 32 + part, -(-wide // 32), up(long, 32) // 32, 1, 0, 0)
                self._move(name, imm, to + part * (up(wide, ROWS) // ROWS) * FRACTAL, at)

    def _move(self, name: str, imm: tuple[int, ...], to: int, at: int) -> None:
        self._cube._go(name, Pipe.MTE1, (self._code, self._code), imm, (self._space, to), (int(Space.L1), at))


def accumulator(dtype: str) -> str:
    """The element type of sums in L0C."""
    return "int32" if dtype == "int8" else "float32"


def _pipes(event: HardEvent) -> tuple[Pipe, Pipe]:
    from cannlab.machine.core.pipes import EVENT_PIPES

    return EVENT_PIPES[event]
