"""Specimens of a test-writing exercise in other clothes: what they do stays, how they look is drawn.

A learner's test gets a program to try. If it could tell the programs apart by their text, it would need to try
nothing. So each one carries another program of the other sort, which is never called; and names, constants, the
number of statements and the way conditions are written come from the seed.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.random import Generator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_MOST_ADDED = 5
"""Statements without effect in a function."""


def disguise(source: str, decoy: str, target: str, rng: Generator) -> str:
    """The same program with other local names, details that change nothing, and a second program that does not run.

    Args:
        source: the text of a specimen. It must not look its own names up by text (``locals()["n"]``).
        decoy: the text of another one. It is left out where the two do not go together (a target with a decorator).
        target: the name that the test is given; it stays, as do all parameters, attributes and imported names.
        rng: decides everything.
    """
    real, other = ast.parse(source), ast.parse(decoy)
    names = _Names((real, other), rng)
    together = _go_together(real, other, target)
    called = names.fresh() if together else target
    _dress(real, target, called, names, rng)
    body = real.body
    if together:
        head = next(node for node in body if isinstance(node, ast.FunctionDef) and node.name == called)
        second = names.fresh()
        _dress(other, target, second, names, rng)
        body = real.body + other.body if rng.integers(2) else other.body + real.body
        body.append(_either(target, head, second, rng))
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, []))) + "\n"


def _go_together(one: ast.Module, other: ast.Module, target: str) -> bool:
    """Both targets are plain functions, and no name at the top of one would hide one of the other."""
    heads = [n for tree in (one, other) for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == target]
    if len(heads) != 2 or any(head.decorator_list for head in heads):
        return False
    tops = [_stored(node for node in tree.body if not isinstance(node, _SCOPES)) for tree in (one, other)]
    return not (tops[0] - _own_names(one)) & (tops[1] - _own_names(other))


def _dress(tree: ast.Module, target: str, called: str, names: _Names, rng: Generator) -> None:
    renamed = {name: names.fresh() for name in sorted(_own_names(tree) - {target})}
    _Rename({**renamed, target: called}).visit(tree)
    _Rewrite(rng).visit(tree)
    for function in [node for node in ast.walk(tree) if isinstance(node, _Function)]:
        _pad(function, names, rng)


def _either(target: str, head: ast.FunctionDef, decoy: str, rng: Generator) -> ast.FunctionDef:
    """A function that calls the one of the two programs, by a condition that is always the same."""
    given = head.args
    values: list[ast.expr] = [ast.Name(argument.arg, ast.Load()) for argument in (*given.posonlyargs, *given.args)]
    if given.vararg is not None:
        values.append(ast.Starred(ast.Name(given.vararg.arg, ast.Load()), ast.Load()))
    named = [ast.keyword(argument.arg, ast.Name(argument.arg, ast.Load())) for argument in given.kwonlyargs]
    if given.kwarg is not None:
        named.append(ast.keyword(None, ast.Name(given.kwarg.arg, ast.Load())))

    def call(name: str) -> list[ast.stmt]:
        return [ast.Return(ast.Call(ast.Name(name, ast.Load()), values, named))]

    a, b, modulus = (int(number) for number in rng.integers(11, 1000, 3))
    left = ast.BinOp(ast.BinOp(ast.Constant(a), ast.Mult(), ast.Constant(b)), ast.Mod(), ast.Constant(modulus))
    bound = int(rng.integers(modulus))
    condition = ast.Compare(left, [ast.Lt()], [ast.Constant(bound)])
    real, other = call(head.name), call(decoy)
    branch = ast.If(condition, real, other) if a * b % modulus < bound else ast.If(condition, other, real)
    return ast.FunctionDef(target, given, [branch], [])


def parameters(source: str, target: str) -> list[str]:
    """The parameters of the function that a specimen defines. ValueError if it defines none of this name."""
    try:
        tree = ast.parse(source)
    except SyntaxError as problem:
        raise ValueError(f"is no Python: line {problem.lineno}, {problem.msg}") from None
    found = next((node for node in tree.body if isinstance(node, _Function) and node.name == target), None)
    if found is None:
        raise ValueError(f"defines no function {target}")
    return [argument.arg for argument in _arguments(found)]


def _arguments(function: _Function | ast.Lambda) -> Iterator[ast.arg]:
    given = function.args
    yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
    yield from (argument for argument in (given.vararg, given.kwarg) if argument is not None)


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are assigned to somewhere in these nodes."""
    every = (part for node in nodes for part in ast.walk(node))
    return {part.id for part in every if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _own_names(tree: ast.Module) -> set[str]:
    """Names that the program gives to its variables, functions and classes, and that nothing outside can use."""
    own, kept = _stored([tree]), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            own.add(node.name)
            kept |= {part.name for part in node.body if isinstance(part, _Function)}
            kept |= _stored(part for part in node.body if not isinstance(part, _Function))
        elif isinstance(node, ast.FunctionDef):
            own.add(node.name)
        elif isinstance(node, ast.AsyncFunctionDef | ast.ExceptHandler):
            kept.add(node.name or "")
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            kept |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)):
            kept.add(node.name or "")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            kept |= {argument.arg for argument in _arguments(node)}
    return {name for name in own - kept if not name.startswith("__")}


class _Names:
    """Names of two or three syllables that the programs do not use."""

    def __init__(self, trees: Iterable[ast.Module], rng: Generator) -> None:
        self.rng = rng
        nodes = [node for tree in trees for node in ast.walk(tree)]
        self.used = {node.id for node in nodes if isinstance(node, ast.Name)}
        self.used |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        self.used |= set(keyword.kwlist) | set(keyword.softkwlist) | set(dir(builtins))

    def fresh(self) -> str:
        """A name that was not given before."""
        while True:
            syllables = self.rng.integers(0, (14, 5), (int(self.rng.integers(2, 4)), 2))
            name = "".join("bdfgklmnprstvz"[c] + "aeiou"[v] for c, v in syllables)
            if name not in self.used:
                self.used.add(name)
                return name


class _Rename(ast.NodeTransformer):
    """Other names for variables and functions, everywhere."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.name = self.names.get(node.name, node.name)
        self.generic_visit(node)
        return node

    def visit_Global(self, node: ast.Global) -> ast.Global:
        node.names = [self.names.get(name, name) for name in node.names]
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self.names.get(name, name) for name in node.names]
        return node


class _Rewrite(ast.NodeTransformer):
    """Conditions the other way round: ``a < b`` as ``b > a``, and the branches of an ``if`` exchanged."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng

    def _heads(self) -> bool:
        return bool(self.rng.integers(2))

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        self.generic_visit(node)
        simple = (ast.Name, ast.Constant)
        other = _MIRRORED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if other is None or not isinstance(node.left, simple) or not isinstance(node.comparators[0], simple):
            return node
        return ast.Compare(node.comparators[0], [other()], [node.left]) if self._heads() else node

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        if node.orelse and self._heads():
            return ast.If(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)
        return node


def _pad(function: _Function, names: _Names, rng: Generator) -> None:
    """Leave out the docstring, and put assignments that nobody reads between the statements."""
    body = function.body
    first = body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(body) > 1:
        del body[0]
    for _ in range(int(rng.integers(1, _MOST_ADDED + 1))):
        value = ast.Constant(int(rng.integers(1000)))
        padding = ast.Assign([ast.Name(names.fresh(), ast.Store())], value)
        body.insert(int(rng.integers(len(body))), padding)  # never behind the last one: it may return
