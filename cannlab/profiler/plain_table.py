"""A table of text for the shell and the notebook, with rows that may be marked."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass

MARK = "#fde2de"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and whether it is set flush right."""

    title: str
    right: bool = False


class PlainTable:
    """Rows of text.

    Args:
        columns: the columns.
        rows: one text for each column.
        marked: numbers of the rows to colour.
    """

    def __init__(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]], marked: frozenset[int] = frozenset()
    ) -> None:
        self.columns, self.rows, self.marked = tuple(columns), [tuple(row) for row in rows], marked

    def text(self) -> str:
        """The table without colours, as wide as its cells."""
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD)
        for column in self.columns:
            table.add_column(Text(column.title), justify="right" if column.right else "left", no_wrap=True)
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        stream = io.StringIO()
        Console(file=stream, width=10_000, color_system=None, legacy_windows=False, force_jupyter=False).print(table)
        return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())

    def html(self) -> str:
        """The table for a notebook."""

        def cell(tag: str, text: str, column: Column) -> str:
            side = "right" if column.right else "left"
            return f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>'

        head = "".join(cell("th", column.title, column) for column in self.columns)
        body = []
        for number, row in enumerate(self.rows):
            style = f' style="background:{MARK}"' if number in self.marked else ""
            cells = "".join(cell("td", text, column) for text, column in zip(row, self.columns, strict=True))
            body.append(f"<tr{style}>{cells}</tr>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    @staticmethod
    def note(text: str) -> str:
        """Text below a table in a notebook."""
        return f"<pre>{html.escape(text)}</pre>"
