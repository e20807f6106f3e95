"""The order of version numbers as CANN, its driver and Python packages write them.

``8.1.RC1.alpha001 < 8.1.RC1 < 8.1.0 = 8.1 < 8.1.1``; ``24.1.rc2 < 24.1.rc2.2 < 24.1.rc3 < 24.1.0``;
``2.5.1.dev1 < 2.5.1rc1 < 2.5.1 < 2.5.1.post1``. What follows a plus (``2.5.1+cpu``) does not count.
"""

from __future__ import annotations

import re

_RANKS = {"dev": -4, "alpha": -3, "a": -3, "beta": -2, "b": -2, "rc": -1, "c": -1, "post": 2, "sp": 2, "spc": 2}
_TOKEN = re.compile(r"(\d+)|([a-z]+)")
_SHAPE = re.compile(r"v?\d+(\.\w+)*([-+].*)?")

_ZERO = (1, 0)
_LENGTH = 24
"""A version is followed by zeros: 8.1 is 8.1.0.0, and 8.1.RC1 lies below that."""

Key = tuple[tuple[int, int], ...]


def is_version(text: str) -> bool:
    """True if the text looks like a version number at all."""
    return _SHAPE.fullmatch(text.strip().lower()) is not None


def version_key(text: str) -> Key:
    """A key to compare versions by.

    Raises:
        ValueError: the text is no version number.
    """
    if not is_version(text):
        raise ValueError(f"{text!r} is not a version number")
    plain = text.strip().lower().removeprefix("v").split("+")[0]
    parts: list[tuple[int, int]] = []
    rank: int | None = None
    for digits, word in _TOKEN.findall(plain):
        if word:
            if rank is not None:
                parts.append((rank, 0))
            rank = _RANKS.get(word, -4)
        else:
            parts.append((1 if rank is None else rank, int(digits)))
            rank = None
    if rank is not None:
        parts.append((rank, 0))
    return (*parts, *(_ZERO for _ in range(_LENGTH - len(parts))))


def release(text: str, numbers: int) -> tuple[int, ...]:
    """The first ``numbers`` numbers of a version: ``release("2.5.1.post1", 2)`` is ``(2, 5)``."""
    found = [value for rank, value in version_key(text) if rank == 1][:numbers]
    return (*found, *(0 for _ in range(numbers - len(found))))
