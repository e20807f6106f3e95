"""White, grey and black list of the mixed precision modes, and ``--modify_mixlist``.

An operator of the white list is lowered, one of the black list is not, all others follow the operator before them.
Data: ``data/precision_lists.json``, by family of chips. Source: pyacl-and-atc 3.6 (operator information of CANN
8.1.RC1, precision_reduce).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.atc.source import read_file
from cannlab.atc.tasks import ge_type


class Colour(Enum):
    """Which list an operator is on."""

    WHITE = "white"
    GREY = "grey"
    BLACK = "black"


@cache
def _table() -> Mapping[str, Mapping[str, frozenset[str]]]:
    text = (resources.files("cannlab.atc") / "data" / "precision_lists.json").read_text(encoding="utf-8")
    return {
        family: {name: frozenset(types) for name, types in lists.items()} for family, lists in json.loads(text).items()
    }


@dataclass(frozen=True)
class Lists:
    """The two lists of a chip, by GE type.

    Attributes:
        white: types that are lowered. black: types that are not.
        missing: types that the user's file takes out of a list on which they are not.
    """

    white: frozenset[str]
    black: frozenset[str]
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, family: str) -> Lists:
        """The chip's own lists."""
        lists = _table().get(family, {})
        return cls(lists.get("white", frozenset()), lists.get("black", frozenset()))

    def colour(self, graph: Graph, node: Node) -> Colour:
        """Which list a node is on."""
        kind = ge_type(graph, node)
        if kind in self.white:
            return Colour.WHITE
        return Colour.BLACK if kind in self.black else Colour.GREY

    def modified(self, path: str) -> Lists:
        """With the changes of a file ``{"black-list": {"to-add": [], "to-remove": []}, "white-list": {...}}``.

        Raises:
            AtcError: rules of :func:`source.read_file`, and ``atc.mixlist``.
        """
        changes = _read(path)
        add = {colour: changes[colour]["to-add"] for colour in ("white-list", "black-list")}
        both = sorted(add["white-list"] & add["black-list"])
        if both:
            raise atc_error("mixlist", path=path, reason=f"{both[0]} is added to both lists")
        drop = {colour: changes[colour]["to-remove"] for colour in ("white-list", "black-list")}
        missing = sorted((drop["white-list"] - self.white) | (drop["black-list"] - self.black))
        white = (self.white - drop["white-list"] - add["black-list"]) | add["white-list"]
        black = (self.black - drop["black-list"] - add["white-list"]) | add["black-list"]
        return Lists(white, black, tuple(missing))


def _read(path: str) -> dict[str, dict[str, frozenset[str]]]:
    def error(reason: str) -> Exception:
        return atc_error("mixlist", path=path, reason=reason)

    try:
        content: Any = json.loads(read_file(path, "--modify_mixlist").decode("utf-8"))
    except (UnicodeDecodeError, ValueError) as problem:
        raise error(f"it is not JSON ({problem})") from problem
    if not isinstance(content, dict):
        raise error("it is not a JSON object")
    found: dict[str, dict[str, frozenset[str]]] = {
        name: {"to-add": frozenset(), "to-remove": frozenset()} for name in ("white-list", "black-list")
    }
    for name, section in content.items():
        if name not in found or not isinstance(section, dict):
            raise error(f"{name!r} is not black-list or white-list with to-add and to-remove in it")
        for action, types in section.items():
            if action not in found[name]:
                raise error(f"{name} holds {action!r}, not to-add or to-remove")
            if not isinstance(types, list) or not all(isinstance(item, str) for item in types):
                raise error(f"{action} of {name} is not a list of operator types")
            found[name][action] = frozenset(types)
    return found
