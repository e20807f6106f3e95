"""What the front end refuses. Source: pyasc 4.1 (error text shape)."""

from __future__ import annotations

import ast

from cannlab.errors import Place


class CodegenError(Exception):
    """A kernel that cannot be compiled; the text names file and line and shows the code around.

    Attributes:
        place: the line, counted in the learner's file.
        cause_text: the message alone.
    """

    def __init__(self, message: str, source: Source | None = None, node: ast.AST | None = None) -> None:
        self.cause_text = message
        self.place: Place | None = None
        text = message
        if source is not None and node is not None and hasattr(node, "lineno"):
            line, column = int(node.lineno), int(getattr(node, "col_offset", 0))
            self.place = Place(source.file, line + source.first - 1, source.name)
            text = f"at {self.place.file}:{self.place.line}:{column}:\n{source.excerpt(line, column)}\n{message}"
        super().__init__(text)


class UnsupportedSyntaxError(CodegenError):
    """Python that kernels do not have."""


class Source:
    """The text of a function: where it stands and its lines.

    Args:
        name: the function's name. file: the file's name for a person. first: line of the text's first line in
            the file. lines: the text, dedented.
    """

    def __init__(self, name: str, file: str, first: int, lines: list[str]) -> None:
        self.name, self.file, self.first, self.lines = name, file, first, lines

    def excerpt(self, line: int, column: int) -> str:
        """Three lines before, the line, a caret under it, three lines after."""
        at = line - 1
        before = self.lines[max(at - 3, 0) : at + 1]
        after = self.lines[at + 1 : at + 4]
        return "\n".join([*before, " " * column + "^", *after])
