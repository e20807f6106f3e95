"""Where in the learner's code something happened.

A place never holds an absolute path: it goes into the record of a run, and the record must be the same
on every machine. Code in a notebook cell is called ``cell``.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the learner's code. ``file`` is a base name, or ``cell`` in a notebook."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        inside = f" in {self.function}" if self.function and self.function != "<module>" else ""
        return f"{self.file}, line {self.line}{inside}"


@lru_cache(maxsize=4096)
def label(code: CodeType) -> str | None:
    """The name shown for a code object's file, or None when it is not the learner's code."""
    path = code.co_filename
    if path.startswith(_PACKAGE) and not path.startswith(_PACKAGE + "_course"):
        return None
    if path.startswith(("<frozen", _STDLIB)) or "site-packages" in path:
        return None
    parent = os.path.basename(os.path.dirname(path))
    if parent.startswith("ipykernel_") or path.startswith(("<ipython-input", "<cell")):
        return "cell"
    return os.path.basename(path)


def place_of(frame: FrameType | None) -> Place | None:
    """The innermost frame at or outside ``frame`` that is the learner's, as a Place."""
    while frame is not None:
        name = label(frame.f_code)
        if name is not None:
            return Place(name, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None


def caller() -> Place | None:
    """The innermost line of the learner's code that led here; None when there is none."""
    return place_of(sys._getframe(1))
