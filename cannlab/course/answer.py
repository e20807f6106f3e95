"""An answer as text: magics replaced, compared with the placeholder, its names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

_MAGIC = re.compile(r"^\s*[%!?]|=\s*[%!]|\?\s*$", re.MULTILINE)
_MOST_MAGICS = 100
_LONGEST = 64 * 1024


def to_python(source: str) -> str:
    """A cell as plain Python: ``%`` and ``!`` lines become calls of get_ipython()."""
    source = source.lstrip("\ufeff").replace("\r\n", "\n")
    if "%" not in source and "!" not in source and "?" not in source:
        return source
    if len(_MAGIC.findall(source)) > _MOST_MAGICS or len(source) > _LONGEST:
        # Replacing them takes time by the square: what has more is no answer, and Python says what is wrong with it.
        return source
    from IPython.core.inputtransformer2 import TransformerManager

    return str(TransformerManager().transform_cell(source))


def syntax_problem(source: str) -> tuple[int, str] | None:
    """The line and message of a cell that is no Python; None if it is."""
    try:
        compile(source, "<cell>", "exec", dont_inherit=True)
    except SyntaxError as problem:
        return problem.lineno or 1, problem.msg or "invalid syntax"
    except (ValueError, RecursionError, MemoryError) as problem:
        return 1, str(problem) or "nested too deep"
    return None


def same(one: str, other: str) -> bool:
    """True if two cells are the same code (comments, spaces and blank lines do not count)."""

    def shape(source: str) -> str:
        try:
            return ast.dump(ast.parse(to_python(source)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return "\n".join(line.strip() for line in source.splitlines() if line.strip())

    return shape(one) == shape(other)


def defined_names(source: str) -> set[str]:
    """The names that a cell defines at its top level."""
    try:
        tree = ast.parse(to_python(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        else:
            stores = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            names |= {name.id for name in stores}
    return names


def defined_elsewhere(cells: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Which names other cells define: name -> the cell's label. ``cells`` gives (label, source)."""
    found: dict[str, str] = {}
    for label, source in cells:
        for name in defined_names(source):
            found[name] = label
    return found
