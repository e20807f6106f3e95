"""Opaque handles: what a face gives to a program instead of an object."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from cannlab.machine.spots import Spot

_FIRST = 0xA000_0000_0000_0010
_STEP = 0x40
_REMEMBERED = 4096

T = TypeVar("T")


class Handles:
    """Handles and their objects. A handle is never an address, so the two cannot be confused; none is used twice."""

    def __init__(self) -> None:
        self._next = _FIRST
        self.objects: dict[int, object] = {}
        """What each open handle stands for."""
        self._made: dict[int, Spot] = {}
        self._closed: OrderedDict[int, tuple[type, Spot]] = OrderedDict()

    def open(self, item: object, made: Spot | None = None) -> int:
        """A new handle for an object. ``made`` says where, if the program has to destroy it itself."""
        handle = self._next
        self._next += _STEP
        self.objects[handle] = item
        if made is not None:
            self._made[handle] = made
        return handle

    def left(self) -> list[tuple[object, Spot]]:
        """What the program made and did not destroy, in the order of making; each is given once."""
        found = [(self.objects[handle], made) for handle, made in self._made.items()]
        self._made.clear()
        return found

    def get(self, handle: int, kind: type[T]) -> T | None:
        """The object of that handle if it is of that kind."""
        item = self.objects.get(handle)
        return item if isinstance(item, kind) else None

    def any(self, handle: int) -> object | None:
        """The object of that handle, of whatever kind."""
        return self.objects.get(handle)

    def close(self, handle: int, spot: Spot) -> None:
        """The object is gone; where it was destroyed is remembered."""
        item = self.objects.pop(handle, None)
        if item is not None:
            self._made.pop(handle, None)
            self._closed[handle] = (type(item), spot)
            if len(self._closed) > _REMEMBERED:
                self._closed.popitem(last=False)

    def closed(self, handle: int) -> tuple[type, Spot] | None:
        """Kind and place of a destroyed handle, if it is remembered."""
        return self._closed.get(handle)
