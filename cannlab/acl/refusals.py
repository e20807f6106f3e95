"""The TypeError of the C extension, and a note that says which argument it means.

The real text names no argument ("acl.rt.malloc args parse failed"); it stays the message. The note stands below it in
a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cannlab.acl.arguments import CONVERTERS, BadArgument
from cannlab.acl.signatures import Signature

_KINDS = {"s": "text (str)", "f": "a number", "d": "a number"}
_BITS = {"b": 8, "h": 16, "i": 32, "l": 64, "L": 64}


def refused(signature: Signature, arguments: Sequence[Any]) -> TypeError:
    """The error for arguments that the extension does not take."""
    error = TypeError(f"{signature.name} args parse failed")
    error.add_note(_count(signature, len(arguments)) or _first_bad(signature, arguments))
    return error


def _count(signature: Signature, given: int) -> str:
    least, most = signature.least, len(signature.formats)
    if least <= given <= most:
        return ""
    wanted = str(most) if least == most else f"{least} to {most}"
    word = "argument" if most == 1 else "arguments"
    names = f" ({', '.join(signature.arguments)})" if signature.arguments else ""
    return f"{signature.name} takes {wanted} {word}{names}, and {given} {'was' if given == 1 else 'were'} given."


def _first_bad(signature: Signature, arguments: Sequence[Any]) -> str:
    for at, (letter, value) in enumerate(zip(signature.formats, arguments, strict=False)):
        try:
            CONVERTERS[letter](value)
        except BadArgument:
            name = f" ({signature.arguments[at]})" if at < len(signature.arguments) else ""
            if type(value) is int and letter in _BITS:
                return f"argument {at + 1}{name} is out of range: it must fit into {_BITS[letter]} bits."
            return f"argument {at + 1}{name} must be {_KINDS.get(letter, 'an int')}; {_given(value)} was given. " + (
                _remedy(letter, value)
            )
    return ""


def _given(value: Any) -> str:
    if value is None:
        return "None"
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _remedy(letter: str, value: Any) -> str:
    kind = type(value)
    if kind is tuple:
        return "A call that makes something returns it together with its code: write x, ret = ... and pass x."
    if kind is int:
        return "Pass a text in quotes."
    if letter == "s":
        return "It may hold no null character." if kind is str else "Pass a str."
    if letter in ("f", "d"):
        return "Pass a float."
    if kind in (bytes, bytearray):
        return "Pass its address: acl.util.bytes_to_ptr(data)."
    if kind.__name__ == "ndarray":
        return "Pass an address: data = array.tobytes(), then acl.util.bytes_to_ptr(data)."
    if value is None:
        return "Look at the line that should have made it."
    if isinstance(value, float) or hasattr(value, "__index__") or hasattr(value, "__int__"):
        return "Convert it: int(...)."
    return "pyACL takes sizes, pointers and handles as plain ints: pass the int that the acl call gave you."
