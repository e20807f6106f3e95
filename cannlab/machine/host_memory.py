"""Host memory that programs hand over by address: known owners first, else a safe look."""

from __future__ import annotations

import sys
import weakref
from bisect import bisect_right, insort
from collections import OrderedDict
from typing import Any

from cannlab.machine.probe import accessible

KEPT = 64
"""How many owners without weak references (bytes) are kept alive at most."""
REMEMBERED = 256
"""How many ranges of owners that are gone are remembered at most."""


class HostRange:
    """A range of host memory and the object that owns it. ``gone`` once the owner no longer exists."""

    __slots__ = ("_kept", "_weak", "end", "gone", "start", "type_name")

    def __init__(self, start: int, size: int, owner: Any) -> None:
        self.start = start
        self.end = start + size
        self.type_name = type(owner).__name__
        self.gone = False
        self._kept: Any = None
        self._weak: weakref.ref[Any] | None = None

    def owner(self) -> Any:
        """The owner, or None."""
        return self._weak() if self._weak is not None else self._kept

    def abandoned(self) -> bool:
        """True if the program itself no longer holds the owner (only this table may still do)."""
        if self.gone:
            return True
        # One reference is ours, one is the argument of getrefcount.
        return self._weak is None and self._kept is not None and sys.getrefcount(self._kept) <= 2


class HostMemory:
    """The ranges that numpy_to_ptr and bytes_to_ptr handed out."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: dict[int, HostRange] = {}
        self._kept: OrderedDict[int, HostRange] = OrderedDict()
        self._gone: OrderedDict[int, HostRange] = OrderedDict()
        self._dead: list[HostRange] = []

    def add(self, address: int, size: int, owner: Any) -> None:
        """Register memory that ``owner`` keeps. A weak reference is held where that is possible."""
        self._sweep()
        known = self._ranges.get(address)
        if known is not None and known.end == address + size and known.owner() is owner and not known.gone:
            return
        for stale in self._overlapping(address, address + size):
            self._remove(stale)
        entry = HostRange(address, size, owner)
        try:
            # The callback may run at any moment, inside any bookkeeping: it only leaves a note.
            entry._weak = weakref.ref(owner, lambda _, entry=entry: self._note(entry))  # type: ignore[misc]
        except TypeError:
            entry._kept = owner
            self._kept[address] = entry
            if len(self._kept) > KEPT:
                self._remove(next(iter(self._kept.values())))
        insort(self._starts, address)
        self._ranges[address] = entry

    def find(self, address: int) -> HostRange | None:
        """The registered range that holds the address."""
        self._sweep()
        found = self._ranges.get(address)
        if found is None:
            at = bisect_right(self._starts, address) - 1
            if at >= 0:
                found = self._ranges[self._starts[at]]
                if address >= found.end:
                    found = None
        return found

    def accessible(self, address: int, size: int, *, write: bool) -> bool:
        """True if the host can read (and write) that memory; the memory is not dereferenced blindly."""
        return accessible(address, size, write=write)

    def _note(self, entry: HostRange) -> None:
        entry.gone = True
        self._dead.append(entry)

    def _sweep(self) -> None:
        """Move ranges whose owner is gone to the remembered ones, of which there are a bounded number."""
        while self._dead:
            entry = self._dead.pop()
            if self._ranges.get(entry.start) is not entry:
                continue
            self._gone[entry.start] = entry
            if len(self._gone) > REMEMBERED:
                self._remove(next(iter(self._gone.values())))

    def _overlapping(self, start: int, end: int) -> list[HostRange]:
        at = max(bisect_right(self._starts, start) - 1, 0)
        found = []
        while at < len(self._starts) and self._starts[at] < end:
            entry = self._ranges[self._starts[at]]
            if entry.end > start or entry.start == start:
                found.append(entry)
            at += 1
        return found

    def _remove(self, entry: HostRange) -> None:
        if self._ranges.get(entry.start) is entry:
            del self._ranges[entry.start]
            del self._starts[bisect_right(self._starts, entry.start) - 1]
        self._kept.pop(entry.start, None)
        self._gone.pop(entry.start, None)
