"""The interval map: which allocation owns an address."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from cannlab.machine.blocks import Block


class BlockMap:
    """All allocations that are live or remembered, by address. Their intervals never overlap.

    ``by_start`` finds a block by its start address. The sorted list of starts is needed for addresses inside a block
    only; new starts wait in ``_new`` until somebody asks for one.
    """

    def __init__(self) -> None:
        self.by_start: dict[int, Block] = {}
        self._starts: list[int] = []
        self._new: list[int] = []

    def __iter__(self) -> Iterator[Block]:
        return (self.by_start[start] for start in self._sorted())

    def __len__(self) -> int:
        return len(self.by_start)

    def _sorted(self) -> list[int]:
        if self._new:
            # Two runs in order: sorting merges them.
            self._starts.extend(self._new)
            self._starts.sort()
            self._new.clear()
        return self._starts

    def add(self, block: Block) -> None:
        """Enter a new allocation; its place holds no other, or one of the same extent (``clear`` sees to that)."""
        if block.start not in self.by_start:
            self._new.append(block.start)
        self.by_start[block.start] = block

    def clear(self, start: int, end: int) -> None:
        """Forget the remembered allocations that lie in [start, end) or reach into it."""
        starts = self._sorted()
        at = bisect_right(starts, start) - 1
        if at >= 0 and starts[at] + self.by_start[starts[at]].footprint > start:
            del self.by_start[starts.pop(at)]
        at = bisect_right(starts, start)
        while at < len(starts) and starts[at] < end:
            del self.by_start[starts.pop(at)]

    def forget(self, block: Block) -> None:
        """Take an allocation out, if it is still in."""
        if self.by_start.get(block.start) is block:
            starts = self._sorted()
            del self.by_start[block.start]
            del starts[bisect_right(starts, block.start) - 1]

    def find(self, address: int) -> Block | None:
        """The allocation whose memory (its rounded capacity) holds the address."""
        block = self.by_start.get(address)
        if block is not None:
            return block
        block = self.before(address)
        return block if block is not None and address < block.start + block.capacity else None

    def before(self, address: int) -> Block | None:
        """The last allocation that starts at or before the address."""
        starts = self._sorted()
        at = bisect_right(starts, address) - 1
        return self.by_start[starts[at]] if at >= 0 else None

    def overlapping(self, start: int, end: int) -> Block | None:
        """The first allocation that begins inside [start, end)."""
        starts = self._sorted()
        at = bisect_right(starts, start)
        if at < len(starts) and starts[at] < end:
            return self.by_start[starts[at]]
        return None
