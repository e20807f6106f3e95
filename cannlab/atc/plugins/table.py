"""The rules of the plugins, from ``data/plugins.toml``; what an entry may say stands at the top of that file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from types import CodeType
from typing import Any

STAGES = ("parse", "expand", "io", "shape", "kernel")
SHAPED = frozenset(
    ("rank", "dims", "dtype_of", "constant", "signed", "types", "shapes", "differ_in_shape", "last_axis", "uneven_same")
    + ("whole_scales", "nearest_as_deployed", "range_goes_wrong_way", "reshape_fits")
    + ("window_in_padding",)
)
"""What a condition can ask only when the types of the node's inputs are known."""

_PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry.

    Attributes:
        op_type: ONNX type that it is for.
        when: the condition.
        refuse: the stage that refuses the node; "" if it does not.
        drop: attributes that are dropped.
        set: attributes that are set.
        deploy: name of a rewriting in :mod:`cannlab.atc.plugins.deploy`.
        note: True if the node stays as it is and the user is told.
        exact: True for a rewriting that changes no number.
        cann: the CANN version that it belongs to; "" for every one.
        about: the attribute or input that it is about.
        says: what the plugin does; expressions stand in braces.
        do: what to do about it.
        shaped: True if it needs the types of the node's inputs.
    """

    op_type: str
    when: CodeType
    refuse: str = ""
    drop: tuple[str, ...] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    deploy: str = ""
    note: bool = False
    exact: bool = False
    cann: str = ""
    about: str = ""
    says: str = ""
    do: str = ""
    shaped: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """All rules.

    Attributes:
        rules: by operator, in the order in which they are looked at.
        limits: inputs and outputs that the GE operator has, where ONNX allows more.
    """

    rules: Mapping[str, tuple[Rule, ...]]
    limits: Mapping[str, tuple[int, int]]


def expressions(says: str) -> list[str]:
    """The expressions in a sentence."""
    return _PLACE.findall(says)


def filled(says: str, value: Any) -> str:
    """A sentence with ``value(expression)`` in place of each expression."""
    return _PLACE.sub(lambda found: str(value(found[1])), says)


def _rule(op_type: str, entry: Mapping[str, Any]) -> Rule:
    text = entry.get("when", "True")
    code = compile(text, f"<{op_type}>", "eval")
    asked = {
        name for part in (text, *expressions(entry.get("says", ""))) for name in compile(part, "", "eval").co_names
    }
    return Rule(
        op_type=op_type,
        when=code,
        refuse=entry.get("refuse", ""),
        drop=tuple(entry.get("drop", ())),
        set=entry.get("set", {}),
        deploy=entry.get("deploy", ""),
        note=entry.get("note", False),
        exact=entry.get("exact", False),
        cann=entry.get("cann", ""),
        about=entry.get("about", ""),
        says=entry.get("says", ""),
        do=entry.get("do", ""),
        shaped=bool(asked & SHAPED),
    )


@cache
def table() -> Table:
    """The table."""
    text = (resources.files("cannlab.atc") / "data" / "plugins.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    limits = {op_type: (most[0], most[1]) for op_type, most in data.pop("limits").items()}
    return Table({op: tuple(_rule(op, entry) for entry in entries) for op, entries in data.items()}, limits)
