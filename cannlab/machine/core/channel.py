"""Global memory as one core's copies see it: a channel that they share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Channel:
    """The cycles in which the channel is taken.

    Instructions come in the program's order, but a copy that is sent later may start earlier (a copy in beside a
    copy out that still waits for its result). So a copy takes what is free from its start on, and waits for nobody
    who starts after it.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def take(self, start: int, cycles: int, now: int) -> int:
        """Take so many cycles from ``start`` on; gives the cycle at which the last of them ends.

        Args:
            start: when the copy starts; not before ``now``.
            cycles: how long the copy would take alone.
            now: no later call starts before this cycle.
        """
        if not cycles:
            return start
        starts, ends = self._starts, self._ends
        over = bisect_right(ends, now)
        if over:
            del starts[:over], ends[:over]
        first = last = bisect_left(ends, start)
        end = start + cycles
        while last < len(starts) and starts[last] < end:
            end += ends[last] - max(starts[last], start)
            last += 1
        if first < last:
            start = min(start, starts[first])
        # From start to end nothing is free any more.
        starts[first:last] = [start]
        ends[first:last] = [end]
        return end
