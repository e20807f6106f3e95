"""Small mistakes in a solved cell: what a check should notice.

Each mutation changes one place of the text and leaves the rest as it stands, so that the changed line can be shown.
They come in the order of the text, and no two are the same program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SKIP = re.compile(r"#\s*mutate:\s*skip\b[ \t]*(.*)$")
"""On a line: a mutant of this line that survives is accepted, for the reason given."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake. ``line`` counts from 1 in the cell; ``before`` and ``after`` are that line of the text."""

    kind: str
    line: int
    before: str
    after: str
    source: str


@dataclass(frozen=True, slots=True)
class _Edit:
    """Bytes ``start`` to ``end`` of the text give way to ``new``."""

    start: int
    end: int
    new: str
    kind: str


_OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Mult, ast.Div),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
    ast.MatMult: (ast.Mult,),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_KEPT = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Pass,
    ast.Global,
    ast.Nonlocal,
)


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a cell. SyntaxError if the cell is no Python.

    A text that is the same program as the original or as an earlier mutant is left out.
    """
    tree = ast.parse(source)
    original = ast.unparse(tree)
    text = source.encode()
    starts = [0]
    for line in text.splitlines(True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    seen = {original}
    for edit in sorted(_edits(tree, starts), key=lambda e: (e.start, e.end)):
        new = edit.new
        if new.startswith("(") and text[: edit.start].endswith(b"(") and text[edit.end :].startswith(b")"):
            new = new[1:-1]
        changed = (text[: edit.start] + new.encode() + text[edit.end :]).decode()
        try:
            program = ast.unparse(ast.parse(changed))
        except SyntaxError:
            continue
        if program not in seen:
            seen.add(program)
            found.append(_mutant(source, changed, edit, starts))
    return found


def plain(source: str) -> str:
    """The cell with its lines ``!command`` written as Python, so that their words can be changed."""
    return re.sub(r"^!(.+?)\s*$", lambda line: f"get_ipython().system({line.group(1)!r})", source, flags=re.MULTILINE)


def skips(source: str) -> dict[int, str]:
    """Lines that carry ``# mutate: skip REASON``, with the reason."""
    marked = ((number, SKIP.search(line)) for number, line in enumerate(source.splitlines(), 1))
    return {number: match.group(1).strip() for number, match in marked if match is not None}


def _mutant(source: str, changed: str, edit: _Edit, starts: list[int]) -> Mutant:
    line = next(number for number in range(len(starts), 0, -1) if starts[number - 1] <= edit.start)
    before = source.splitlines()[line - 1].strip()
    after = changed.splitlines()[line - 1].strip() if line <= len(changed.splitlines()) else ""
    return Mutant(edit.kind, line, before, after, changed)


def _edits(tree: ast.Module, starts: list[int]) -> Iterator[_Edit]:
    """All edits, of every node of the tree."""

    def replace(node: ast.expr | ast.stmt, new: str, kind: str) -> _Edit:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return _Edit(
            starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset, new, kind
        )

    inside_text = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in inside_text:
            continue  # positions inside an f-string are not those of the text before Python 3.12
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inside_text |= {id(part) for mark in node.decorator_list for part in ast.walk(mark)}
        for make in _MAKERS:
            yield from make(node, replace)
        for body in ("body", "orelse", "finalbody"):
            statements = getattr(node, body, None)
            if isinstance(statements, list):
                yield from _deleted(statements, replace)


_Replace = Callable[[ast.expr | ast.stmt, str, str], _Edit]


def _wrapped(node: ast.expr) -> str:
    """An expression's text, in brackets so that it fits wherever the old one stood."""
    return f"({ast.unparse(node)})"


def _operators(node: ast.AST, replace: _Replace) -> Iterator[_Edit]:
    if isinstance(node, ast.BinOp):
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return
        for operator in _OPERATORS.get(type(node.op), ()):
            yield replace(node, _wrapped(ast.BinOp(node.left, operator(), node.right)), "operator")
    elif isinstance(node, ast.AugAssign):
        for operator in _OPERATORS.get(type(node.op), ()):
            yield replace(node, ast.unparse(ast.AugAssign(node.target, operator(), node.value)), "operator")
        yield replace(node, ast.unparse(ast.Assign([node.target], node.value, lineno=node.lineno)), "operator")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not, ast.Invert)):
        yield replace(node, _wrapped(node.operand), "operator")
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield replace(node, _wrapped(ast.BoolOp(other, node.values)), "operator")


def _comparisons(node: ast.AST, replace: _Replace) -> Iterator[_Edit]:
    if not isinstance(node, ast.Compare):
        return
    for place, operator in enumerate(node.ops):
        for other in _COMPARISONS.get(type(operator), ()):
            ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
            yield replace(node, _wrapped(ast.Compare(node.left, ops, node.comparators)), "comparison")


def _constants(node: ast.AST, replace: _Replace) -> Iterator[_Edit]:
    if not isinstance(node, ast.Constant):
        return
    value = node.value
    if isinstance(value, bool):
        yield replace(node, repr(not value), "constant")
    elif isinstance(value, (int, float)):
        for step in (1, -1):
            new = value + step
            yield replace(node, f"({new!r})" if new < 0 else repr(new), "constant")
    elif isinstance(value, str):
        yield from (replace(node, repr(text), "command word") for text in _commands(value))


def _commands(text: str) -> Iterator[str]:
    """A command line without one of its words, and with one of its numbers changed by one."""
    words = text.split()
    if sum(word.startswith("-") for word in words) < 2:
        return
    for place, word in enumerate(words):
        yield " ".join([*words[:place], *words[place + 1 :]])
        for number in re.finditer(r"(?<![\w.])\d+(?![\w.])", word):
            for step in (1, -1):
                new = f"{word[: number.start()]}{int(number.group()) + step}{word[number.end() :]}"
                yield " ".join([*words[:place], new, *words[place + 1 :]])


def _ranges(node: ast.AST, replace: _Replace) -> Iterator[_Edit]:
    """Off by one where no constant stands: arguments of range, bounds of slices, indices."""
    bounds: list[ast.expr] = []
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        bounds = list(node.args) if name in ("range", "arange", "static_range") else []
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Load, ast.Store)):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if isinstance(part, ast.Slice):
                bounds += [bound for bound in (part.lower, part.upper) if bound is not None]
                yield from _open_ends(node, part, replace)
            elif not isinstance(part, ast.Constant):
                bounds.append(part)
    for bound in bounds:
        if isinstance(bound, (ast.Constant, ast.Starred)):
            continue
        for operator in (ast.Add(), ast.Sub()):
            yield replace(bound, _wrapped(ast.BinOp(bound, operator, ast.Constant(1))), "off by one")


def _open_ends(node: ast.Subscript, part: ast.Slice, replace: _Replace) -> Iterator[_Edit]:
    """An open end of a slice, one element short."""
    if part.step is not None or node.slice is not part:
        return
    changed = []
    if part.lower is None:
        changed.append(ast.Slice(ast.Constant(1), part.upper))
    if part.upper is None:
        changed.append(ast.Slice(part.lower, ast.UnaryOp(ast.USub(), ast.Constant(1))))
    for new in changed:
        yield replace(node, ast.unparse(ast.Subscript(node.value, new, node.ctx)), "off by one")


def _arguments(node: ast.AST, replace: _Replace) -> Iterator[_Edit]:
    if not isinstance(node, ast.Call):
        return
    for place in range(len(node.args) - 1):
        args = list(node.args)
        args[place], args[place + 1] = args[place + 1], args[place]
        if not any(isinstance(arg, ast.Starred) for arg in args[place : place + 2]):
            yield replace(node, ast.unparse(ast.Call(node.func, args, node.keywords)), "swapped arguments")


def _conditions(node: ast.AST, replace: _Replace) -> Iterator[_Edit]:
    tests: list[ast.expr] = []
    if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        tests = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        yield replace(test, _wrapped(ast.UnaryOp(ast.Not(), test)), "negated condition")


def _returns(node: ast.AST, replace: _Replace) -> Iterator[_Edit]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield replace(node, "return None", "deleted result")


def _deleted(statements: list[ast.stmt], replace: _Replace) -> Iterator[_Edit]:
    """Each statement left out; text for readers and definitions stay."""
    for statement in statements:
        if not isinstance(statement, ast.stmt) or isinstance(statement, (*_KEPT, ast.Return)):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        yield replace(statement, "pass", "deleted statement")


_MAKERS = (_operators, _comparisons, _constants, _ranges, _arguments, _conditions, _returns)
