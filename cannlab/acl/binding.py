"""From a signature and a thin body to a function that behaves like the real builtin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from types import CodeType
from typing import Any, TypeVar

from cannlab.acl.arguments import CONVERTERS, BadArgument
from cannlab.acl.not_emulated import reason
from cannlab.acl.refusals import refused as bad_arguments
from cannlab.acl.signatures import Signature, modules, signatures
from cannlab.machine import TaskFault, machine
from cannlab.machine import node as nodes
from cannlab.machine.api_costs import call_ns

Body = TypeVar("Body", bound=Callable[..., Any])

_bodies: dict[str, Callable[..., Any]] = {}
_empty: dict[str, Callable[[], Any]] = {}

_ZEROS: dict[str, Any] = {"S": None, "s": "", "f": 0.0, "d": 0.0, "O": None}


_PLAIN = {"k": 64, "K": 64, "I": 32, "H": 16, "B": 8, "b": 8, "h": 15, "i": 31, "l": 63, "L": 63}
"""How many bits a non-negative int has at most that an integer letter takes as it is."""


_ABSENT = object()
"""The default of a parameter: an argument that was not given."""

_ASK_FOR_ERRORS = ("acl.rt.get_last_error", "acl.rt.peek_at_last_error")
"""Functions whose code is an answer and no failure."""


class NotEmulatedError(NotImplementedError):
    """A function of pyACL that cannlab knows but does not emulate yet."""


def api(name: str, *, empty: Callable[[], Any] | None = None) -> Callable[[Body], Body]:
    """Say that a function is the body of the pyACL function ``name``.

    The body gets the machine and the converted arguments and gives what the real function gives. A
    :class:`TaskFault` that it raises is reported, and its code is returned with zeros for the other results.

    Args:
        empty: makes the value of an object result in that case (``dict`` for a dims getter).
    """

    def register(body: Body) -> Body:
        if name not in signatures() or name in _bodies:
            raise ValueError(f"{name} is not a function of pyACL, or has a body already")
        _bodies[name] = body
        if empty is not None:
            _empty[name] = empty
        return body

    return register


def is_emulated(name: str) -> bool:
    """True if the pyACL function of that full name has a body."""
    return name in _bodies


def fill(module: str, namespace: dict[str, Any]) -> list[str]:
    """Put every function of an acl module into its namespace; returns their names."""
    import_module("cannlab.acl.functions")
    names = list(modules()[module])
    for name in names:
        namespace[name] = _function(signatures()[f"{module}.{name}"])
    return names


def _function(signature: Signature) -> Callable[..., Any]:
    body = _bodies.get(signature.name)
    if body is None:
        function = _missing(signature)
    else:
        function = _bound(signature, body)
        function.__doc__ = body.__doc__
    function.__name__ = function.__qualname__ = signature.name.rpartition(".")[2]
    function.__module__ = signature.module
    return function


def _parser(signature: Signature) -> Callable[[tuple[Any, ...]], Sequence[Any]]:
    """Checks and converts the arguments of one function."""
    converters = [CONVERTERS[letter] for letter in signature.formats]
    least, most = signature.least, len(converters)
    # Non-negative ints that fit every letter of the signature need no conversion: nearly all calls.
    widths = [_PLAIN.get(letter, 0) for letter in signature.formats]

    def parse(arguments: tuple[Any, ...]) -> Sequence[Any]:
        if not most:
            # The real function never looks at its tuple.
            return ()
        if not least <= len(arguments) <= most:
            raise bad_arguments(signature, arguments)
        for value, bits in zip(arguments, widths):  # noqa: B905
            if not bits or type(value) is not int or value >> bits:
                break
        else:
            return arguments
        try:
            return [convert(value) for convert, value in zip(converters, arguments, strict=False)]
        except BadArgument:
            raise bad_arguments(signature, arguments) from None

    return parse


def _missing(signature: Signature) -> Callable[..., Any]:
    parse = _parser(signature)
    why = reason(signature.name) or "do without it here"

    def function(*arguments: Any) -> Any:
        parse(arguments)
        raise NotEmulatedError(
            f"{signature.name} is not emulated: {why}; python -m cannlab.acl.surface lists what is emulated"
        )

    return function


_CALL = """
def function({parameters}):
    {parse}
    node = nodes.present or machine()
    clock = node.clock
    try:
        thread = clock.local.thread
    except AttributeError:
        thread = clock.thread
    clock.acquire()
    clock.current = thread
    outer, outer_function = thread.spot, thread.function
    if outer is not None:
        thread.nested += 1
    elif clock.crowd:
        clock.take_turn(thread)
    frame = getframe(1)
    spot = node.spots.known.get(id(frame.f_code) + frame.f_lasti) or node.spots.caller(2)
    thread.function, thread.spot = name, spot
    start = thread.now
    thread.now = start + cost
    code = 0
    try:
        result = body(node{values})
        {code}
        return result
    except TaskFault as fault:
        node.report(fault.diagnosis)
        code = thread.last_error = fault.code
        return refused(code)
    finally:
        thread.spot = outer
        record = node.record
        file, line, _ = spot
        try:
            number = record.strings.numbers[name]
        except KeyError:
            number = record.strings.number(name)
        calls = record.calls
        calls.cells += calls.packed(thread.index, number, start, thread.now, code, file, line)
        if clock.crowd or outer is not None:
            thread.function = outer_function
            clock.leave(thread)
        else:
            clock.release()
"""
"""What every emulated function does around its body: the steps of ``machine.calls.Call``, written out so that a call
costs few microseconds, and the conversion of the arguments, written out where all of them are integers."""


def _written_parse(signature: Signature) -> tuple[str, str, str]:
    """The parameters, the source lines that convert the arguments, and the words that pass them on."""
    count = len(signature.formats)
    widths = [_PLAIN.get(letter) for letter in signature.formats]
    if not count:
        # The real function never looks at its tuple.
        return "*arguments", "pass", ""
    if signature.least < count or None in widths:
        return "*arguments", "values = parse(arguments)", ", *values"
    names = ", ".join(f"a{at}" for at in range(count))
    # What is left of a negative number by a shift is negative, so one question is enough for both limits.
    other = " or ".join(f"type(a{at}) is not int or a{at} >> {bits}" for at, bits in enumerate(widths))
    lines = (
        f"if more or {other}:",
        f"    {names}, = parse(tuple(given for given in ({names}, *more) if given is not absent))",
    )
    # Defaults and a rest instead of a tuple: who passes the right number of arguments pays for no packing.
    parameters = ", ".join(f"a{at}=absent" for at in range(count)) + ", /, *more"
    return parameters, "\n    ".join(lines), f", {names}"


def _written_code(signature: Signature) -> str:
    """The source lines that take the return code out of the result."""
    if not signature.has_code:
        return "pass"
    lines = ["code = result" if len(signature.results) == 1 else "code = result[-1]"]
    if signature.name not in _ASK_FOR_ERRORS:
        lines += ["if code:", "    thread.last_error = code"]
    return "\n        ".join(lines)


@cache
def _compiled(parameters: str, parse: str, values: str, code: str) -> CodeType:
    """The code of a call; functions with the same kinds of arguments and results share it."""
    return compile(_CALL.format(parameters=parameters, parse=parse, values=values, code=code), __file__, "exec")


def _bound(signature: Signature, body: Callable[..., Any]) -> Callable[..., Any]:
    zeros = tuple(_ZEROS.get(letter, 0) for letter in signature.values)
    empty = _empty.get(signature.name)

    def refused(code: int) -> Any:
        """What the real function gives with a failure code."""
        results = [empty() if empty is not None and letter == "O" else zero
                   for letter, zero in zip(signature.values, zeros, strict=True)]  # fmt: skip
        if signature.has_code:
            results[-1] = code
        if not results:
            return None
        return results[0] if len(results) == 1 else tuple(results)

    parameters, parse, values = _written_parse(signature)
    names: dict[str, Any] = {
        "absent": _ABSENT,
        "TaskFault": TaskFault,
        "body": body,
        "cost": call_ns(signature.name),
        "getframe": sys._getframe,
        "machine": machine,
        "name": signature.name,
        "nodes": nodes,
        "parse": _parser(signature),
        "refused": refused,
    }
    exec(_compiled(parameters, parse, values, _written_code(signature)), names)
    bound: Callable[..., Any] = names["function"]
    # A code object of its own: what the interpreter learns about one function's globals is wrong for another's.
    bound.__code__ = bound.__code__.replace(co_name=signature.name.rpartition(".")[2])
    return bound


def listing(names: list[str]) -> list[str]:
    """What ``dir`` of an acl module shows: the real names only."""
    return sorted([*names, "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__"])
