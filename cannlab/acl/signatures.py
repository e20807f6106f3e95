"""The signatures of all pyACL functions, from data/functions.tsv.

Columns: the full name; one format letter of ``PyArg_ParseTuple`` for each argument; the least number of arguments;
their names; one letter for each result (p pointer, S text or None, O object, else as in ``Py_BuildValue``); the
names of the results. Source: the method tables and wrappers of the published pyACL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Signature:
    """One function. ``results`` is empty for a function that returns None."""

    name: str
    formats: str
    least: int
    arguments: tuple[str, ...]
    values: str
    results: tuple[str, ...]

    @property
    def module(self) -> str:
        """``acl`` or ``acl.rt``, ``acl.mdl``, ..."""
        return self.name.rpartition(".")[0]

    @property
    def has_code(self) -> bool:
        """True if the last result is a return code."""
        return bool(self.results) and self.results[-1] in ("ret", "err")


@cache
def signatures() -> dict[str, Signature]:
    """All signatures by full name, in the order of the real method tables."""
    text = (resources.files("cannlab.acl") / "data" / "functions.tsv").read_text(encoding="utf-8")
    found = {}
    for line in text.splitlines()[1:]:
        name, formats, least, arguments, values, results = line.split("\t")
        found[name] = Signature(
            name,
            formats,
            int(least),
            tuple(arguments.split(",")) if arguments else (),
            values,
            tuple(results.split(",")) if results else (),
        )
    return found


@cache
def modules() -> dict[str, tuple[str, ...]]:
    """The function names of each module (``acl``, ``acl.rt``, ...)."""
    found: dict[str, list[str]] = {}
    for signature in signatures().values():
        found.setdefault(signature.module, []).append(signature.name.rpartition(".")[2])
    return {module: tuple(names) for module, names in found.items()}
