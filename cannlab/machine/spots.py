"""Finding the learner's line of a call, cheaply.

``places.caller`` builds a Place each time; a program calls the machine thousands of times from a few lines. So
the line is found once for each (code object, instruction) and kept.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import NamedTuple

from cannlab.errors import Place
from cannlab.errors.places import label
from cannlab.trace import Record

_LIMIT = 8192


class Spot(NamedTuple):
    """A line of the learner's code as the record keeps it (string number of the file, line) and as a Place."""

    file: int
    line: int
    place: Place | None


NOWHERE = Spot(0, 0, None)


class Spots:
    """The known lines of one record.

    ``known`` gives the spot by the address of the instruction, which is the id of the code object and the offset in it:
    CPython keeps the instructions inside the code object, so two of them never meet. None where the code is not the
    learner's.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self.known: dict[int, Spot | None] = {}
        self._codes: dict[int, CodeType] = {}

    def caller(self, depth: int = 1) -> Spot:
        """The innermost learner's line, ``depth`` frames out of the caller of this method."""
        frame: FrameType | None = sys._getframe(depth)
        known = self.known
        while frame is not None:
            key = id(frame.f_code) + frame.f_lasti
            try:
                spot = known[key]
            except KeyError:
                spot = self._learn(key, frame)
            if spot is not None:
                return spot
            frame = frame.f_back
        return NOWHERE

    def _learn(self, key: int, frame: FrameType) -> Spot | None:
        if len(self.known) > _LIMIT:
            self.known.clear()
            self._codes.clear()
        # The code object is kept so that its id stays its own.
        code = self._codes.setdefault(id(frame.f_code), frame.f_code)
        name = label(code)
        spot = None
        if name is not None:
            place = Place(name, frame.f_lineno, code.co_name)
            file, line = self._record.place(place)
            spot = Spot(file, line, place)
        self.known[key] = spot
        return spot
