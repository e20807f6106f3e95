"""A kernel's syntax tree, rewritten so that plain Python runs it with the meaning it has on the device.

Loops over ``range`` count in runtime ints, ``and``/``or``/``not`` work on runtime values without a short
circuit, ``while`` keeps the condition's values from before the loop, conditional expressions give runtime
values. File and line numbers stay those of the learner's code.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from types import FunctionType
from typing import Any

_HELPERS = "__asc__"


class _Rewrite(ast.NodeTransformer):
    def _call(self, name: str, args: list[ast.expr], node: ast.AST) -> ast.expr:
        function = ast.Attribute(value=ast.Name(id=_HELPERS, ctx=ast.Load()), attr=name, ctx=ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(func=function, args=args, keywords=[]), node))

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call):
            node.iter = self._call("loop", [node.iter.func, *node.iter.args], node.iter)
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        """``with matmul.iterate() as i:`` is a loop over base tiles."""
        self.generic_visit(node)
        item = node.items[0]
        target = item.optional_vars or ast.Name(id=f"__with_{node.lineno}_{node.col_offset}", ctx=ast.Store())
        made = ast.For(target=target, iter=self._call("turns", [item.context_expr], node), body=node.body, orelse=[])
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_While(self, node: ast.While) -> ast.AST:
        reads = any(isinstance(part, (ast.Call, ast.Subscript)) for part in ast.walk(node.test))
        names = sorted({part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)})
        self.generic_visit(node)
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=name) for name in names],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[ast.Name(id=name, ctx=ast.Load()) for name in names],
        )
        condition = ast.Lambda(args=arguments, body=node.test)
        watch = self._call("watch", [condition, ast.Constant(value=reads)], node.test)
        name = f"__while_{node.lineno}_{node.col_offset}"
        before = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=watch)
        again = ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[], keywords=[])
        loop = ast.While(test=again, body=node.body, orelse=[])
        for made in (before, loop):
            ast.copy_location(made, node)
            ast.fix_missing_locations(made)
        return [before, loop]  # type: ignore[return-value]

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        return self._call("both" if isinstance(node.op, ast.And) else "either", node.values, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._call("negate", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return self._call("chosen", [node], node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)


class _Probe(_Rewrite):
    """As above, for the pass that visits everything once: both branches of an ``if`` are entered."""

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        name = f"__if_{node.lineno}_{node.col_offset}"
        made: list[ast.stmt] = [ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=node.test)]
        for helper, body in (("then", node.body), ("otherwise", node.orelse)):
            if body:
                test = self._call(helper, [ast.Name(id=name, ctx=ast.Load())], node.test)
                made.append(ast.If(test=test, body=body, orelse=[]))
        for each in made:
            ast.fix_missing_locations(ast.copy_location(each, node))
        return made

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        sides: list[ast.expr] = [ast.Lambda(args=nothing, body=side) for side in (node.body, node.orelse)]
        return self._call("chosen", [node.test, *sides], node)


def rewrite(
    function: FunctionType, tree: ast.FunctionDef, first: int, helpers: Any, probe: bool = False
) -> Callable[..., Any]:
    """The function that runs a kernel's body.

    Args:
        function: the undecorated kernel; its globals are used live.
        tree: its definition, line numbers from 1.
        first: line of the definition's first line in the file.
        helpers: what the rewritten code calls (loop, watch, both, either, negate, chosen).
        probe: rewrite for the pass that visits everything once (helpers: codegen.probe).
    """
    made = (_Probe if probe else _Rewrite)().visit(copy.deepcopy(tree))
    made.decorator_list = []
    made.returns = None
    parameters = made.args
    for argument in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs):
        argument.annotation = None
    parameters.defaults, parameters.kw_defaults = [], [None] * len(parameters.kwonlyargs)
    outer = ast.parse(f"def __outer__({_HELPERS}):\n    pass\n")
    definition = outer.body[0]
    assert isinstance(definition, ast.FunctionDef)
    leave = ast.Return(value=ast.Name(id=made.name, ctx=ast.Load()))
    definition.body = [made, leave]
    ast.increment_lineno(made, first - 1)
    ast.fix_missing_locations(outer)
    code = compile(outer, function.__code__.co_filename, "exec")
    namespace: dict[str, Any] = {}
    exec(code, function.__globals__, namespace)
    result: Callable[..., Any] = namespace["__outer__"](helpers)
    return result
