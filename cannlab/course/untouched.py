"""Are cannlab's own functions and classes as they were before the answer ran?

A look from inside the answer's process: it finds what an answer replaced by assignment, which is how it is done in
practice. It proves nothing against an answer that also replaces this; what counts is looked at again by the judge.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

_CALLABLE = (FunctionType, type, staticmethod, classmethod, property)


def _parts() -> Iterator[tuple[str, Any, Any]]:
    """(name, the thing, what it does) of every function, class, method and property of the loaded cannlab modules."""
    for module_name, module in sorted(sys.modules.items()):
        if module is None or module_name.partition(".")[0] != "cannlab":
            continue
        for name, value in list(vars(module).items()):
            if not isinstance(value, _CALLABLE):
                continue
            yield f"{module_name}.{name}", value, getattr(value, "__code__", None)
            if type(value) is type and value.__module__ == module_name:
                for inner, method in list(vars(value).items()):
                    if isinstance(method, _CALLABLE):
                        yield f"{module_name}.{name}.{inner}", method, getattr(method, "__code__", None)


class Untouched:
    """What there is now, to compare with later. Modules that are loaded in between are left alone."""

    def __init__(self) -> None:
        self._before = {name: (thing, code) for name, thing, code in _parts()}

    def changed(self) -> list[str]:
        """Names of what is no longer what it was."""
        now = {name: (thing, code) for name, thing, code in _parts()}
        found = []
        for name, (thing, code) in self._before.items():
            there, does = now.get(name, (None, None))
            if there is not thing or does is not code:
                found.append(name)
        return found
