"""Plain values of answers: how they are shown, and what is not plain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Foreign:
    """A result that is no plain data: only its type and the start of its repr crossed to the judge."""

    type: str
    text: str


class Missing:
    """The answer gave nothing (it crashed, or the name is not there)."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = Missing()
_LONG_BITS = 1000


def kind_of(value: Any) -> str:
    """What a value is, in words: "an array of float32", "a list", "None"."""
    if value is None or value is MISSING:
        return "None" if value is None else "nothing"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype.name}"
    if isinstance(value, np.generic):
        return f"a {value.dtype.name}"
    if isinstance(value, Foreign):
        return f"an object of type {value.type}"
    names = {bool: "True or False", int: "an int", float: "a float", str: "text", bytes: "bytes"}
    return names.get(type(value), f"a {type(value).__name__}")


def _number(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    if type(value) is int and value.bit_length() > _LONG_BITS:
        return f"an int of {value.bit_length()} bits"
    return str(value)


def show(value: Any, limit: int = 8) -> str:
    """A value in at most one or two lines: arrays by dtype, shape and first elements."""
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1)
        first = " ".join(_number(element) for element in flat[:limit])
        more = " ..." if flat.size > limit else ""
        return f"{value.dtype.name}{list(value.shape)}: {first}{more}"
    if isinstance(value, np.generic):
        return _number(value)
    if isinstance(value, Foreign):
        return f"<{value.type}> {value.text}"[:200]
    if isinstance(value, (float, int)):
        return _number(value)
    if isinstance(value, (str, bytes)) and len(value) > 300:
        return repr(value[:300]) + "..."
    if isinstance(value, dict) and value:
        inside = ", ".join(f"{show(key, 4)}: {show(item, 4)}" for key, item in list(value.items())[:limit])
        return "{" + inside + (", ..." if len(value) > limit else "") + "}"
    if isinstance(value, (list, tuple)) and value:
        inside = ", ".join(show(item, 4) for item in value[:limit])
        inside += ", ..." if len(value) > limit else ""
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    try:
        text = repr(value)
    except ValueError:
        return f"{kind_of(value)} that cannot be shown"
    return text if len(text) <= 300 else text[:300] + "..."
