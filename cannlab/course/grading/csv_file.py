"""CSV files that a spreadsheet reads as text and numbers, never as formulas; written whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

_FORMULA = ("=", "+", "-", "@")
_BLANK = ("\t", "\r", "\n")


def harmless(value: object) -> str:
    """A cell's text. Text that a spreadsheet would take for a formula gets an apostrophe in front.

    Source: OWASP, "CSV Injection".
    """
    if isinstance(value, (int, float)):
        return str(value)
    text = str(value).encode("utf-8", "backslashreplace").decode()
    starts = text.startswith(_BLANK) or text.lstrip().startswith(_FORMULA)
    return "'" + text if starts else text


class CsvFile:
    """Rows for a file; it gets its name when the block ends without an error."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._file = self._part.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self.row(*header)

    def row(self, *values: object) -> None:
        """One row."""
        self._writer.writerow([harmless(value) for value in values])

    def close(self, *, keep: bool) -> None:
        """Give the file its name, or take it away."""
        self._file.close()
        if keep:
            self._part.replace(self._path)
        else:
            self._part.unlink(missing_ok=True)

    def __enter__(self) -> CsvFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(keep=kind is None)
