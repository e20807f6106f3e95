"""The interval map: which allocation owns an address."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator

from cannlab.machine.blocks import Block


class BlockMap:
    """All allocations that are live or remembered, by address. Their intervals never overlap."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._blocks: dict[int, Block] = {}

    def __iter__(self) -> Iterator[Block]:
        return (self._blocks[start] for start in self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, block: Block) -> None:
        """Enter a new allocation; remembered ones that its memory overlaps are forgotten."""
        start, end = block.start, block.start + block.footprint
        starts = self._starts
        old = self._blocks.get(start)
        self._blocks[start] = block
        if old is not None and old.footprint == block.footprint:
            return
        if old is None:
            insort(starts, start)
        at = bisect_right(starts, start)
        while at < len(starts) and starts[at] < end:
            del self._blocks[starts.pop(at)]
        at = bisect_right(starts, start) - 2
        if at >= 0:
            before = self._blocks[starts[at]]
            if before.start + before.footprint > start:
                del self._blocks[starts.pop(at)]

    def forget(self, block: Block) -> None:
        """Take an allocation out, if it is still in."""
        if self._blocks.get(block.start) is block:
            del self._blocks[block.start]
            del self._starts[bisect_right(self._starts, block.start) - 1]

    def find(self, address: int) -> Block | None:
        """The allocation whose memory (its rounded capacity) holds the address."""
        block = self._blocks.get(address)
        if block is not None:
            return block
        block = self.before(address)
        return block if block is not None and address < block.start + block.capacity else None

    def before(self, address: int) -> Block | None:
        """The last allocation that starts at or before the address."""
        at = bisect_right(self._starts, address) - 1
        return self._blocks[self._starts[at]] if at >= 0 else None

    def overlapping(self, start: int, end: int) -> Block | None:
        """The first allocation that begins inside [start, end)."""
        at = bisect_right(self._starts, start)
        if at < len(self._starts) and self._starts[at] < end:
            return self._blocks[self._starts[at]]
        return None
