"""Are cannlab's own functions and classes as they were before the answer ran?

A look from inside the answer's process: it finds what an answer replaced by assignment, which is how it is done in
practice. It proves nothing against an answer that also replaces this; what counts is looked at again by the judge.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType
from typing import Any

_CALLABLE = (FunctionType, type, staticmethod, classmethod, property)


def _places() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, contents) of every loaded module of cannlab and of every class that stands in one."""
    for module_name, module in sorted(sys.modules.items()):
        if module is None or module_name.partition(".")[0] != "cannlab":
            continue
        yield module_name, vars(module)
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == module_name:
                yield f"{module_name}.{name}", vars(value)


class Untouched:
    """The functions, classes, methods and properties that there are now, to compare with later.

    Modules that are loaded in between are left alone.
    """

    def __init__(self) -> None:
        self._before = [
            (place, contents, name, thing, getattr(thing, "__code__", None))
            for place, contents in _places()
            for name, thing in list(contents.items())
            if isinstance(thing, _CALLABLE)
        ]

    def changed(self) -> list[str]:
        """Names of what is no longer what it was."""
        return [
            f"{place}.{name}"
            for place, contents, name, thing, code in self._before
            if contents.get(name) is not thing or (code is not None and thing.__code__ is not code)
        ]


@cache
def original() -> Untouched:
    """What there was at the first call in this process or in the one that it was forked from."""
    return Untouched()
