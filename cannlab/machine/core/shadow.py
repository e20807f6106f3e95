"""What is known about every byte of one memory: who wrote it last, who read it since, is it defined.

A cell is a run of bytes with one history. Cells split where an access begins or ends, so histories are
exact to the byte, and a range that is used over and over costs one dictionary look-up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from cannlab.machine.core.queues import Buffer

_MERGE = 16
_KEPT = 16384


class Cell:
    """A run of bytes: ``start`` to ``end``.

    Attributes:
        writer: number of the instruction that wrote it last (-1: nobody).
        writer_pipe: its pipe.
        writer_core: its core.
        readers: lane -> number of its last read since then. A lane is a pipe; in global memory, which all cores share,
            a pipe of a core.
        defined: the bytes hold something the kernel put there.
        owner: the queue buffer that it belongs to.
        atomic: the last write combined with what was there (0: it did not).
        beside: lane -> number of atomic writes that the last one did not know of; None where there are none.
    """

    __slots__ = (
        "atomic",
        "beside",
        "defined",
        "end",
        "owner",
        "readers",
        "start",
        "writer",
        "writer_core",
        "writer_pipe",
    )

    def __init__(self, start: int, end: int, defined: bool) -> None:
        self.start = start
        self.end = end
        self.writer = -1
        self.writer_pipe = 0
        self.writer_core = 0
        self.readers: dict[int, int] = {}
        self.defined = defined
        self.owner: Buffer | None = None
        self.atomic = 0
        self.beside: dict[int, int] | None = None

    def tail(self, at: int) -> Cell:
        """Cut the cell at a byte; the new cell is what lies behind it, with the same history."""
        other = Cell(at, self.end, self.defined)
        other.writer, other.writer_pipe, other.writer_core = self.writer, self.writer_pipe, self.writer_core
        other.readers = dict(self.readers)
        other.owner, other.atomic = self.owner, self.atomic
        other.beside = None if self.beside is None else dict(self.beside)
        self.end = at
        return other


class Shadow:
    """The cells of one memory of ``size`` bytes."""

    def __init__(self, size: int, defined: bool) -> None:
        self._size = size
        self._defined = defined
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._cells = [Cell(0, self._size, self._defined)]
        self._starts = [0]
        self._found: dict[tuple[int, int], list[Cell]] = {}

    def cells(self, start: int, end: int) -> list[Cell]:
        """The cells that make up the bytes from start to end, cut to fit."""
        found = self._found.get((start, end))
        if found is not None and len(found) == 1 and found[0].start == start and found[0].end == end:
            return found
        if end <= start:
            return []
        first = self._cut(start)
        last = self._cut(end)
        found = self._cells[first:last]
        if len(found) == 1:
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[start, end] = found
        return found

    def _cut(self, at: int) -> int:
        """The number of the cell that starts at a byte, after cutting there if need be."""
        number = bisect_left(self._starts, at)
        if (number < len(self._starts) and self._starts[number] == at) or at >= self._size:
            return number
        cell = self._cells[number - 1]
        self._cells.insert(number, cell.tail(at))
        self._starts.insert(number, at)
        return number

    def merge(self, start: int, end: int) -> None:
        """After a write over many cells: they have one history again."""
        first = bisect_right(self._starts, start) - 1
        last = bisect_left(self._starts, end)
        cells = self._cells[first:last]
        if len(cells) < _MERGE or cells[0].start != start or cells[-1].end != end:
            return
        if any(cell.owner is not cells[0].owner for cell in cells):
            return
        for cell in cells:
            cell.start = -1
        whole = Cell(start, end, cells[0].defined)
        whole.writer, whole.writer_pipe, whole.writer_core = cells[0].writer, cells[0].writer_pipe, cells[0].writer_core
        whole.owner, whole.atomic = cells[0].owner, cells[0].atomic
        self._cells[first:last] = [whole]
        self._starts[first:last] = [start]
