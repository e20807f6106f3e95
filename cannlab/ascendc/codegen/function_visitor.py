"""The front end's own rules: which Python a kernel may hold, and how names live.

The pass walks the syntax tree with what is known at compile time: compile-time values are followed (an
``if`` on one visits the taken branch only), runtime values are known to be runtime, everything else is
unknown and judged leniently, so that what the real front end accepts is never refused here. Source: pyasc 4.1.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from cannlab.ascendc.codegen.errors import CodegenError, Source, UnsupportedSyntaxError
from cannlab.ascendc.language.core.dtype import DataType
from cannlab.ascendc.language.core.ir_value import PassesFailed
from cannlab.ascendc.language.core.range import range as runtime_range
from cannlab.ascendc.language.core.range import static_range
from cannlab.ascendc.lib.placeholders import NotEmulated

ALLOWED_BUILTINS = (
    "dict",
    "float",
    "int",
    "isinstance",
    "issubclass",
    "len",
    "list",
    "range",
    "repr",
    "str",
    "tuple",
    "type",
)
_UNROLLED = 256
_RUNTIME_FUNCTIONS = {
    "get_block_idx": "int32",
    "get_block_num": "int32",
    "get_sub_block_idx": "int64",
    "get_sub_block_num": "int64",
    "get_task_ratio": "int64",
    "ascend_is_aic": "int1",
    "ascend_is_aiv": "int1",
    "gather_mask": "uint64",
    "get_system_cycle": "int64",
    "scalar_get_sff_value": "int64",
    "scalar_get_count_of_value": "int64",
    "scalar_count_leading_zero": "int64",
    "count_bits_cnt_same_as_sign_bit": "int64",
}
_SCALAR_METHODS = ("get_value", "get_size", "get_length", "cast", "ceildiv", "logical_and", "logical_or")
_NUMBERS = (bool, int, float)


@dataclass(frozen=True)
class Known:
    """A compile-time value."""

    value: Any


@dataclass(frozen=True)
class Runtime:
    """A runtime scalar; ``dtype`` is its type's name, "" if not known."""

    dtype: str = ""


@dataclass(frozen=True)
class Unknown:
    """Anything else: a device object, or something the pass does not follow."""


Value = Known | Runtime | Unknown
UNKNOWN = Unknown()


@dataclass
class Block:
    """A runtime ``if`` or loop being visited: the names from outside, what they were, and the loop's counter."""

    kind: str
    outer: dict[str, Value]
    counter: str = ""


@dataclass
class Scope:
    """The names of one function."""

    names: dict[str, Value]
    blocks: list[Block] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    returned: Value = field(default_factory=lambda: Known(None))


class FunctionVisitor:
    """Visits one function.

    Args:
        source: its text. tree: its definition. function: the undecorated function (for its globals).
        kernel: True for the kernel itself, False for a nested function.
        active: names of the functions being visited, to find recursion.
        nested: how a nested jit function is recognised and visited: ``nested(callee, args, kwargs, active)``.
    """

    def __init__(
        self,
        source: Source,
        tree: ast.FunctionDef,
        function: FunctionType,
        *,
        kernel: bool,
        active: tuple[str, ...],
        nested: Callable[[Any, list[Value], dict[str, Value], tuple[str, ...]], Value | None],
    ) -> None:
        self._source, self._tree, self._function = source, tree, function
        self._kernel = kernel
        self._active = active
        self._nested = nested
        self._scope = Scope({})
        self._done = False

    def run(self, arguments: Mapping[str, Value]) -> Value:
        """Visit the body with these arguments; gives what the function returns."""
        self._scope = Scope(dict(arguments))
        self._body(self._tree.body, True)
        return self._scope.returned

    # -- refusing -------------------------------------------------------------------------------------

    def _refuse(self, node: ast.AST, message: str) -> UnsupportedSyntaxError:
        return UnsupportedSyntaxError(message, self._source, node)

    def _error(self, node: ast.AST, kind: str, message: str) -> CodegenError:
        return CodegenError(f"{kind}: {message}", self._source, node)

    def _unsupported(self, node: ast.AST, name: str | None = None) -> UnsupportedSyntaxError:
        return self._refuse(node, f"{name or type(node).__name__} syntax is not supported in JIT function")

    # -- statements -----------------------------------------------------------------------------------

    def _body(self, statements: list[ast.stmt], top: bool = False) -> None:
        for statement in statements:
            if self._done:
                return
            method = getattr(self, f"_do_{type(statement).__name__}", None)
            if method is None:
                raise self._unsupported(statement)
            if isinstance(statement, ast.Return):
                self._return(statement, top)
            else:
                method(statement)

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Return(self, node: ast.Return) -> None:
        raise AssertionError("handled by _body")

    def _return(self, node: ast.Return, top: bool) -> None:
        if not top:
            raise self._refuse(node, "Return statement is not allowed in nested blocks")
        if self._kernel and node.value is not None and not _is_none(node.value):
            raise self._refuse(node, "JIT kernel function cannot return objects")
        if node.value is not None:
            self._scope.returned = self._value(node.value)
        self._done = True

    def _do_Expr(self, node: ast.Expr) -> None:
        self._value(node.value)

    def _do_Assert(self, node: ast.Assert) -> None:
        test = self._value(node.test)
        if isinstance(test, Runtime):
            raise self._refuse(
                node, "Assert test turned out to test a runtime value; only compile-time values are allowed"
            )
        if isinstance(test, Known) and not test.value:
            if node.msg is None:
                raise self._error(node, "ValueError", "miss message")
            message = self._value(node.msg)
            raise self._error(node, "AssertionError", str(message.value) if isinstance(message, Known) else "")

    def _do_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) > 1:
            raise self._refuse(node, "Multiple targets are not supported in Assign")
        self._carried(node)
        self._store(node.targets[0], self._value(node.value))

    def _carried(self, node: ast.Assign) -> None:
        """A loop's counter itself becomes what a name from before the loop is in the next turn: pyasc 1.1.1 dies."""
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Name) or not isinstance(value, ast.Name):
            return
        if any(block.counter == value.id and target.id in block.outer for block in self._scope.blocks):
            raise self._refuse(
                node,
                f"'{target.id}' takes the loop counter '{value.id}' itself into the next turn, which pyasc's compiler "
                f"does not survive: write {target.id} = {value.id} + 0",
            )

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, self._value(node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Attribute):
            raise self._refuse(node, "Attribute is not supported as left operand of AugAssign")
        read = (
            ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node.target)
            if isinstance(node.target, ast.Name)
            else node.target
        )
        value = self._binary(node, node.op, self._value(read), self._value(node.value))
        self._store(node.target, value)

    def _store(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._bind(target, target.id, value)
        elif isinstance(target, ast.Tuple):
            for number, element in enumerate(target.elts):
                if not isinstance(element, ast.Name):
                    raise self._refuse(target, "Only a tuple of names can be assigned to")
                part: Value = UNKNOWN
                if isinstance(value, Known) and isinstance(value.value, (tuple, list)) and number < len(value.value):
                    part = _wrapped(value.value[number])
                self._bind(element, element.id, part)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            self._value(target.value)
        else:
            raise self._refuse(target, f"{type(target).__name__} is not supported as a target of Assign")

    def _bind(self, node: ast.AST, name: str, value: Value) -> None:
        names = self._scope.names
        for block in self._scope.blocks:
            if name in block.outer:
                self._rebind(node, name, block, block.outer[name], value)
        names[name] = value
        self._scope.gone.discard(name)

    def _rebind(self, node: ast.AST, name: str, block: Block, old: Value, new: Value) -> None:
        """A name from outside changes inside a runtime block."""
        if isinstance(old, Unknown) or isinstance(new, Unknown):
            return
        before, after = _class_name(old), _class_name(new)
        if before != after:
            raise self._refuse(
                node,
                f"'{name}' was re-assigned to an object with different type: "
                f"initial type is {before}, new type is {after}",
            )
        if isinstance(old, Known) and isinstance(old.value, _NUMBERS) and old != new:
            raise PassesFailed(
                f"'{name}' is a Python number from before this {block.kind} (line {self._line(node)}): "
                "it does not dominate its use; make it a runtime value with asc.number"
            )
        if isinstance(old, Runtime) and isinstance(new, Runtime) and old.dtype and new.dtype and old.dtype != new.dtype:
            raise self._refuse(
                node,
                f"'{name}' was re-assigned to a value with different type: "
                f"initial type is {old.dtype}, new type is {new.dtype}",
            )

    def _line(self, node: ast.AST) -> int:
        return int(getattr(node, "lineno", 1)) + self._source.first - 1

    def _do_If(self, node: ast.If) -> None:
        test = self._value(node.test)
        if isinstance(test, Known):
            self._body(node.body if test.value else node.orelse)
            return
        strict = isinstance(test, Runtime)
        before = dict(self._scope.names)
        after: list[dict[str, Value]] = []
        for branch in (node.body, node.orelse):
            self._scope.names = dict(before)
            if strict:
                self._scope.blocks.append(Block("if", before))
            self._body(branch)
            if strict:
                self._scope.blocks.pop()
            after.append(self._scope.names)
        self._leave(before, after, strict)

    def _leave(self, before: dict[str, Value], after: list[dict[str, Value]], strict: bool) -> None:
        """Names after a block: those from before it; in a block of unknown kind also the new ones."""
        names: dict[str, Value] = {}
        for name, value in before.items():
            values = [branch.get(name, value) for branch in after]
            names[name] = value if all(each == value for each in values) else _joined(values)
        fresh = {name for branch in after for name in branch} - set(before)
        if strict:
            self._scope.gone |= fresh
        else:
            names.update(dict.fromkeys(fresh, UNKNOWN))
        self._scope.names = names

    def _do_For(self, node: ast.For) -> None:
        if node.orelse:
            raise self._refuse(node, "For-else syntax is not supported in JIT function")
        if not isinstance(node.target, ast.Name):
            raise self._refuse(node, "Only a single loop variable is supported in For")
        if not isinstance(node.iter, ast.Call):
            value = self._value(node.iter)
            if isinstance(value, Known):
                raise self._error(
                    node, "AttributeError", f"'{type(value.value).__name__}' object has no attribute 'start'"
                )
            raise self._refuse(node, "For is supported over range, asc.range and asc.static_range only")
        callee = self._value(node.iter.func)
        args = self._arguments(node.iter)[0]
        if isinstance(callee, Known) and callee.value is static_range:
            self._unroll(node, args)
            return
        if isinstance(callee, Known) and callee.value not in (builtins.range, runtime_range):
            raise self._refuse(node, "For is supported over range, asc.range and asc.static_range only")
        if node.iter.keywords:
            raise self._error(node, "TypeError", "range() takes no keyword arguments")
        if len(args) == 3 and isinstance(args[2], Known) and isinstance(args[2].value, int) and args[2].value <= 0:
            raise self._refuse(
                node,
                f"range with step {args[2].value} is not supported in JIT function: the loop counts upwards and would "
                "never run; loop upwards and compute the index",
            )
        kinds = [arg.dtype for arg in args if isinstance(arg, Runtime) and arg.dtype and arg.dtype[0] != "f"]
        for arg in args:
            if isinstance(arg, Known) and not isinstance(arg.value, (int, float)):
                raise self._error(node, "TypeError", f"range expects numbers, got {type(arg.value).__name__}")
        self._runtime_loop(node.body, node.target.id, Runtime(kinds[0] if kinds else "int32"), "loop")

    def _runtime_loop(self, body: list[ast.stmt], variable: str | None, kind: Value, name: str) -> None:
        before = dict(self._scope.names)
        self._scope.blocks.append(Block(name, before, variable or ""))
        if variable is not None:
            self._scope.names[variable] = kind
        self._body(body)
        self._scope.blocks.pop()
        after = self._scope.names
        if variable is not None and variable not in before:
            after.pop(variable, None)
            self._scope.gone.add(variable)
        elif variable is not None:
            after[variable] = before[variable]
        self._leave(before, [after], True)

    def _unroll(self, node: ast.For, args: list[Value]) -> None:
        bounds = []
        for arg in args:
            if isinstance(arg, Runtime) or (isinstance(arg, Known) and not isinstance(arg.value, int)):
                kind = "PlainValue" if isinstance(arg, Runtime) else type(arg.value).__name__
                raise self._error(node, "TypeError", f"static_range expects compile-time integers, got {kind}")
            bounds.append(arg)
        assert isinstance(node.target, ast.Name)
        if not all(isinstance(arg, Known) for arg in bounds):
            self._bind(node.target, node.target.id, UNKNOWN)
            self._body(node.body)
            return
        for value in range(*(arg.value for arg in bounds if isinstance(arg, Known)))[:_UNROLLED]:
            self._bind(node.target, node.target.id, Known(value))
            self._body(node.body)

    def _do_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self._refuse(node, "While-else syntax is not supported in JIT function")
        test = self._value(node.test)
        if isinstance(test, Known) and isinstance(test.value, _NUMBERS):
            raise PassesFailed(
                f"the condition of while (line {self._line(node)}) is a Python number: "
                "use runtime values (asc.number) or for"
            )
        self._runtime_loop(node.body, None, UNKNOWN, "loop")

    def _do_With(self, node: ast.With) -> None:
        for item in node.items:
            value = self._value(item.context_expr)
            if not isinstance(value, Unknown):
                kind = _class_name(value)
                raise self._error(node, "AttributeError", f"'{kind}' object has no attribute '__enter__'")
        call = node.items[0].context_expr
        iterates = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "iterate"
        if len(node.items) > 1 or not iterates:
            raise self._refuse(node, "With is supported for one matmul.iterate() only")
        variable = node.items[0].optional_vars
        if variable is not None and not isinstance(variable, ast.Name):
            raise self._refuse(node, "Only a single loop variable is supported in With")
        name = None if variable is None else variable.id
        self._runtime_loop(node.body, name, Runtime("int32"), "loop")

    def _do_Break(self, node: ast.Break) -> None:
        raise self._unsupported(node)

    def _do_Continue(self, node: ast.Continue) -> None:
        raise self._unsupported(node)

    # -- expressions ----------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Value:
        method = getattr(self, f"_of_{type(node).__name__}", None)
        if method is None:
            raise self._unsupported(node)
        found = method(node)
        assert isinstance(found, (Known, Runtime, Unknown))
        return found

    def _of_Constant(self, node: ast.Constant) -> Value:
        return Known(node.value)

    def _of_Name(self, node: ast.Name) -> Value:
        name = node.id
        if name in self._scope.names:
            return self._scope.names[name]
        if name in self._scope.gone:
            raise self._error(node, "NameError", f"{name} is not defined")
        if name in self._function.__globals__:
            return Known(self._function.__globals__[name])
        if name in ALLOWED_BUILTINS or name in ("True", "False", "None"):
            return Known(getattr(builtins, name))
        raise self._error(node, "NameError", f"{name} is not defined")

    def _of_Attribute(self, node: ast.Attribute) -> Value:
        base = self._value(node.value)
        if not isinstance(base, Known):
            return UNKNOWN
        try:
            return Known(getattr(base.value, node.attr))
        except (AttributeError, NotImplementedError) as problem:
            raise self._error(node, type(problem).__name__, str(problem)) from None

    def _of_Tuple(self, node: ast.Tuple) -> Value:
        values = [self._value(element) for element in node.elts]
        if all(isinstance(value, Known) for value in values):
            return Known(tuple(value.value for value in values if isinstance(value, Known)))
        return UNKNOWN

    def _of_List(self, node: ast.List) -> Value:
        for element in node.elts:
            self._value(element)
        return UNKNOWN

    def _of_JoinedStr(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self._value(part.value)
        return UNKNOWN

    def _of_Subscript(self, node: ast.Subscript) -> Value:
        base = self._value(node.value)
        index: Value = UNKNOWN
        if isinstance(node.slice, ast.Slice):
            for part in (node.slice.lower, node.slice.upper, node.slice.step):
                if part is not None:
                    self._value(part)
        else:
            index = self._value(node.slice)
        if isinstance(base, Known) and isinstance(index, Known):
            try:
                return _wrapped(base.value[index.value])
            except (LookupError, TypeError) as problem:
                raise self._error(node, type(problem).__name__, str(problem)) from None
        return UNKNOWN

    def _of_BinOp(self, node: ast.BinOp) -> Value:
        return self._binary(node, node.op, self._value(node.left), self._value(node.right))

    def _binary(self, node: ast.AST, sign: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(left, Known) and isinstance(right, Known):
            try:
                return Known(_OPERATORS[type(sign)](left.value, right.value))
            except Exception as problem:
                raise self._error(node, type(problem).__name__, str(problem)) from None
        if isinstance(left, Runtime) or isinstance(right, Runtime):
            if isinstance(left, Unknown) or isinstance(right, Unknown):
                return UNKNOWN
            if isinstance(sign, ast.Pow):
                raise self._error(node, "NotImplementedError", "** is not supported for runtime values")
            return left if isinstance(left, Runtime) else right
        return UNKNOWN

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self._value(node.operand)
        if isinstance(node.op, ast.Not):
            if isinstance(value, Known):
                raise self._error(
                    node, "AttributeError", f"'{type(value.value).__name__}' object has no attribute 'logical_not'"
                )
            return Runtime("int1")
        if isinstance(value, Known):
            try:
                return Known(_UNARY[type(node.op)](value.value))
            except Exception as problem:
                raise self._error(node, type(problem).__name__, str(problem)) from None
        if isinstance(node.op, ast.Invert) and isinstance(value, Runtime):
            raise self._error(node, "NotImplementedError", "~ is not supported for runtime values")
        return value if isinstance(value, Runtime) and not value.dtype.startswith("float") else UNKNOWN

    def _of_BoolOp(self, node: ast.BoolOp) -> Value:
        if len(node.values) > 2:
            raise self._refuse(
                node, "Chained boolean operators are not supported: group them in pairs with parentheses"
            )
        left, right = (self._value(value) for value in node.values)
        if isinstance(left, Known) and isinstance(right, Known):
            name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
            raise self._error(node, "AttributeError", f"'{type(left.value).__name__}' object has no attribute '{name}'")
        return Runtime("int1")

    def _of_Compare(self, node: ast.Compare) -> Value:
        if len(node.ops) > 1:
            raise self._refuse(node, "Chained comparisons are not supported: compare in pairs and combine with and")
        left, right = self._value(node.left), self._value(node.comparators[0])
        sign = node.ops[0]
        if isinstance(sign, (ast.In, ast.NotIn)):
            raise self._error(node, "NotImplementedError", "in is not supported in JIT function")
        if isinstance(sign, (ast.Is, ast.IsNot)):
            if isinstance(left, Known) and isinstance(right, Known):
                same = left.value is right.value
                return Known(same if isinstance(sign, ast.Is) else not same)
            if isinstance(left, Unknown) or isinstance(right, Unknown):
                return UNKNOWN
            return Known(isinstance(sign, ast.IsNot))
        if isinstance(left, Known) and isinstance(right, Known):
            try:
                return Known(_COMPARE[type(sign)](left.value, right.value))
            except Exception as problem:
                raise self._error(node, type(problem).__name__, str(problem)) from None
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return UNKNOWN
        kind = left.dtype if isinstance(left, Runtime) else right.dtype if isinstance(right, Runtime) else ""
        if kind.startswith("uint"):
            raise PassesFailed(
                f"unsigned comparison (line {self._line(node)}): the operand must be signless-integer-like; "
                "cast to int64"
            )
        return Runtime("int1")

    def _of_IfExp(self, node: ast.IfExp) -> Value:
        self._value(node.test)
        first, second = self._value(node.body), self._value(node.orelse)
        kinds = [_kind(value) for value in (first, second)]
        if kinds[0] and kinds[1] and kinds[0] != kinds[1]:
            raise self._refuse(
                node, f"Both sides of a conditional expression must have one type: {kinds[0]} and {kinds[1]}"
            )
        return Runtime(kinds[0] or kinds[1])

    def _arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        args, kwargs = [], {}
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                raise self._refuse(node, "Starred arguments are not supported in JIT function")
            args.append(self._value(arg))
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self._refuse(node, "Keyword unpacking is not supported in JIT function")
            kwargs[keyword.arg] = self._value(keyword.value)
        return args, kwargs

    def _of_Call(self, node: ast.Call) -> Value:
        callee = self._value(node.func)
        args, kwargs = self._arguments(node)
        if not isinstance(callee, Known):
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if attribute == "cast" and args and isinstance(args[0], Known) and isinstance(args[0].value, DataType):
                return Runtime(args[0].value.name)
            return Runtime() if attribute in _SCALAR_METHODS else UNKNOWN
        function = callee.value
        if isinstance(function, NotEmulated):
            raise self._error(node, "NotImplementedError", function.text())
        if callable(getattr(function, "fn", None)) and isinstance(getattr(function, "name", None), str):
            if function.name in self._active:
                raise self._error(node, "KeyError", f"'{function.name}'")
            try:
                found = self._nested(function, args, kwargs, (*self._active, function.name))
            except TypeError as problem:
                raise self._error(node, "TypeError", str(problem)) from None
            return UNKNOWN if found is None else found
        values = [*args, *kwargs.values()]
        known = all(isinstance(value, Known) for value in values)
        if function in (int, float) and any(isinstance(value, Runtime) for value in values):
            raise self._error(
                node,
                "TypeError",
                f"{function.__name__}() argument must be a string or a real number, not 'PlainValue': use .cast(dtype)",
            )
        owner = getattr(function, "__self__", None)
        pure = function in _PURE or isinstance(owner, (DataType, str, tuple)) or _name(function) == "ceildiv"
        if pure and known:
            try:
                return Known(
                    function(
                        *(value.value for value in args if isinstance(value, Known)),
                        **{key: value.value for key, value in kwargs.items() if isinstance(value, Known)},
                    )
                )
            except Exception as problem:
                raise self._error(node, type(problem).__name__, str(problem)) from None
        return self._result(function, args, kwargs)

    def _result(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        name = _name(function)
        if name == "number":
            kind = args[1] if len(args) > 1 else kwargs.get("dtype")
            return Runtime(kind.value.name if isinstance(kind, Known) and isinstance(kind.value, DataType) else "")
        if name == "ceildiv":
            return Runtime()
        if name in _RUNTIME_FUNCTIONS and not isinstance(function, type):
            return Runtime(_RUNTIME_FUNCTIONS[name])
        return UNKNOWN


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _wrapped(value: Any) -> Value:
    return value if isinstance(value, (Known, Runtime, Unknown)) else Known(value)


def _class_name(value: Value) -> str:
    return type(value.value).__name__ if isinstance(value, Known) else "PlainValue"


def _kind(value: Value) -> str:
    """Element type of a number as the runtime value it becomes ("" if not known)."""
    if isinstance(value, Runtime):
        return value.dtype
    if isinstance(value, Known) and isinstance(value.value, _NUMBERS):
        return {bool: "int1", int: "int32", float: "float32"}[type(value.value)]
    return ""


def _joined(values: list[Value]) -> Value:
    if all(isinstance(value, Runtime) for value in values):
        kinds = {value.dtype for value in values if isinstance(value, Runtime)}
        return Runtime(kinds.pop() if len(kinds) == 1 else "")
    return UNKNOWN


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "")) if not isinstance(function, ModuleType) else ""


_PURE = (len, isinstance, issubclass, int, float, str, tuple, type, repr)
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.BitAnd: lambda a, b: a & b,
    ast.MatMult: lambda a, b: a @ b,
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: +a,
    ast.Invert: lambda a: ~a,
}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def referenced(tree: ast.FunctionDef, globals_: Mapping[str, Any]) -> list[Any]:
    """Functions that the text refers to by a global name or a dotted path, in order."""
    found: list[Any] = []
    called: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in called:
            path: list[str] = []
            part: ast.expr = node
            while isinstance(part, ast.Attribute):
                path.append(part.attr)
                part = part.value
                called.add(id(part))
            if not isinstance(part, ast.Name) or part.id not in globals_:
                continue
            value = globals_[part.id]
            for attribute in reversed(path):
                value = getattr(value, attribute, None)
            if isinstance(value, (FunctionType, BuiltinFunctionType, np.ufunc)):
                found.append(value)
    return found
