"""Growing tables of integers: what a record is made of."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Strings:
    """Interned strings: a table of text and the number of each. Number 0 is the empty string."""

    def __init__(self, texts: list[str] | None = None) -> None:
        self.texts: list[str] = texts or [""]
        self._numbers = {text: number for number, text in enumerate(self.texts)}

    def number(self, text: str) -> int:
        """The number of a string, which is added if it is new."""
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return known

    def __getitem__(self, number: int) -> str:
        return self.texts[number]


_BATCH = 1024


class Table:
    """Rows of int64 under named columns; appending is cheap, reading gives numpy arrays."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self._width = len(columns)
        self._cells = array("q")
        self._new: list[tuple[int, ...]] = []
        self._count = 0

    def append(self, *row: int) -> int:
        """Add a row; returns its number."""
        if len(row) != self._width:
            raise ValueError(f"a row of {self.columns} needs {self._width} values, got {len(row)}")
        self._new.append(row)
        number = self._count
        self._count = number + 1
        if len(self._new) >= _BATCH:
            self._pack()
        return number

    def _pack(self) -> None:
        """Move the newest rows into the array: done in batches, a row at a time costs twice as much."""
        self._cells.extend(chain.from_iterable(self._new))
        self._new.clear()

    def set(self, row: int, column: str, value: int) -> None:
        """Change one cell (a task's times are known only after it ran)."""
        self._pack()
        self._cells[row * self._width + self.columns.index(column)] = value

    def __len__(self) -> int:
        return self._count

    def rows(self) -> Iterator[dict[str, int]]:
        """Rows as dictionaries, in order."""
        self._pack()
        width = self._width
        for start in range(0, len(self._cells), width):
            yield dict(zip(self.columns, self._cells[start : start + width], strict=True))

    def array(self) -> NDArray[np.int64]:
        """All rows, shape (rows, columns); a copy."""
        import numpy as np

        self._pack()
        return np.array(self._cells, dtype=np.int64).reshape(-1, self._width)

    def fill(self, values: NDArray[np.int64]) -> None:
        """Replace all rows; ``values`` has shape (rows, columns)."""
        if values.ndim != 2 or values.shape[1] != self._width:
            raise ValueError(f"rows of {self.columns} expected, got shape {values.shape}")
        self._cells = array("q", values.astype("<i8").tobytes())
        self._new.clear()
        self._count = len(values)
