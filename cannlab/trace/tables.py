"""Growing tables of integers: what a record is made of."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Strings:
    """Interned strings: a table of text and the number of each. Number 0 is the empty string."""

    def __init__(self, texts: list[str] | None = None) -> None:
        self.texts: list[str] = texts or [""]
        self.numbers = {text: number for number, text in enumerate(self.texts)}
        """The number of each known text; :meth:`number` also adds new ones."""

    def number(self, text: str) -> int:
        """The number of a string, which is added if it is new."""
        known = self.numbers.get(text)
        if known is None:
            known = self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return known

    def __getitem__(self, number: int) -> str:
        return self.texts[number]


BATCH = 1024
"""So many new rows are moved into the array at once: a row at a time costs several times as much."""


class Table:
    """Rows of int64 under named columns; appending is cheap, reading gives numpy arrays.

    ``new`` are the rows that are not in the array yet. Who has no time to lose appends tuples of the right width to it
    and calls :meth:`pack` once it holds ``BATCH`` of them.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._width = len(columns)
        self._cells = array("q")
        self._batch = Struct(f"={BATCH * self._width}q")
        self.new: list[tuple[int, ...]] = []

    def append(self, *row: int) -> int:
        """Add a row; returns its number."""
        if len(row) != self._width:
            raise ValueError(f"a row of {self.columns} needs {self._width} values, got {len(row)}")
        number = len(self)
        self.new.append(row)
        if len(self.new) >= BATCH:
            self.pack()
        return number

    def pack(self) -> None:
        """Move the newest rows into the array."""
        cells = chain.from_iterable(self.new)
        if len(self.new) == BATCH:
            # Three times as fast as the array's own way.
            self._cells.frombytes(self._batch.pack(*cells))
        else:
            self._cells.extend(cells)
        self.new.clear()

    def set(self, row: int, column: str, value: int) -> None:
        """Change one cell (a task's times are known only after it ran)."""
        self.pack()
        self._cells[row * self._width + self.columns.index(column)] = value

    def __len__(self) -> int:
        return len(self._cells) // self._width + len(self.new)

    def rows(self) -> Iterator[dict[str, int]]:
        """Rows as dictionaries, in order."""
        self.pack()
        width = self._width
        for start in range(0, len(self._cells), width):
            yield dict(zip(self.columns, self._cells[start : start + width], strict=True))

    def array(self) -> NDArray[np.int64]:
        """All rows, shape (rows, columns); a copy."""
        import numpy as np

        self.pack()
        return np.array(self._cells, dtype=np.int64).reshape(-1, self._width)

    def fill(self, values: NDArray[np.int64]) -> None:
        """Replace all rows; ``values`` has shape (rows, columns)."""
        if values.ndim != 2 or values.shape[1] != self._width:
            raise ValueError(f"rows of {self.columns} expected, got shape {values.shape}")
        self._cells = array("q", values.astype("<i8").tobytes())
        self.new.clear()
