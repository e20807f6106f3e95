"""Growing tables of integers: what a record is made of."""

from __future__ import annotations

from collections.abc import Iterator
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


_CELL = Struct("=q")


class Table:
    """Rows of int64 under named columns; appending is cheap, reading gives numpy arrays.

    Attributes:
        cells: the rows, one after another, as bytes. Who has no time to lose extends it by what ``packed`` gives.
        packed: the bytes of a row from its values, in the order of the columns; struct.error if they do not fit.
    """

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        row = Struct(f"={len(columns)}q")
        self.cells = bytearray()
        self.packed = row.pack
        self._row = row

    def append(self, *row: int) -> int:
        """Add a row; returns its number."""
        if len(row) != len(self.columns):
            raise ValueError(f"a row of {self.columns} needs {len(self.columns)} values, got {len(row)}")
        number = len(self)
        self.cells += self.packed(*row)
        return number

    def set(self, row: int, column: str, value: int) -> None:
        """Change one cell (a task's times are known only after it ran)."""
        _CELL.pack_into(self.cells, row * self._row.size + self.columns.index(column) * _CELL.size, value)

    def __len__(self) -> int:
        return len(self.cells) // self._row.size

    def rows(self) -> Iterator[dict[str, int]]:
        """Rows as dictionaries, in order."""
        for row in self._row.iter_unpack(bytes(self.cells)):
            yield dict(zip(self.columns, row, strict=True))

    def array(self) -> NDArray[np.int64]:
        """All rows, shape (rows, columns); a copy."""
        import numpy as np

        return np.frombuffer(bytearray(self.cells), np.int64).reshape(-1, len(self.columns))

    def fill(self, values: NDArray[np.int64]) -> None:
        """Replace all rows; ``values`` has shape (rows, columns)."""
        if values.ndim != 2 or values.shape[1] != len(self.columns):
            raise ValueError(f"rows of {self.columns} expected, got shape {values.shape}")
        import numpy as np

        self.cells = bytearray(values.astype(np.int64).tobytes())
