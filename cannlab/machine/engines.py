"""The engines of a device and their timelines."""

from __future__ import annotations

from bisect import bisect_left, insort
from enum import IntEnum


class Engine(IntEnum):
    """What a task occupies while it runs."""

    NONE = 0
    COMPUTE = 1
    H2D = 2
    D2H = 3
    DVPP = 4
    VDEC = 5
    VENC = 6


class Timeline:
    """When one engine is busy: disjoint intervals of simulated ns, in order.

    A task gets the earliest free gap at or after its ready time. So an engine is granted by virtual time and
    never by the order in which streams happen to be drained.
    """

    __slots__ = ("_intervals",)

    def __init__(self) -> None:
        self._intervals: list[tuple[int, int]] = []

    def grant(self, ready: int, ns: int) -> int:
        """Occupy ``ns`` nanoseconds from ``ready`` on; returns the start."""
        if ns <= 0:
            return ready
        intervals = self._intervals
        if not intervals or ready > intervals[-1][1]:
            intervals.append((ready, ready + ns))
            return ready
        last_start, last_end = intervals[-1]
        if ready >= last_start:
            intervals[-1] = (last_start, last_end + ns)
            return last_end
        at = bisect_left(intervals, (ready, ready))
        if at and intervals[at - 1][1] > ready:
            at -= 1
        start = ready
        while at < len(intervals):
            begin, end = intervals[at]
            if start + ns <= begin:
                break
            start = max(start, end)
            at += 1
        insort(intervals, (start, start + ns))
        self._join(bisect_left(intervals, (start, start + ns)))
        return start

    def _join(self, at: int) -> None:
        """Merge the interval at ``at`` with neighbours that touch it, so that the list stays short."""
        intervals = self._intervals
        if at + 1 < len(intervals) and intervals[at][1] == intervals[at + 1][0]:
            intervals[at : at + 2] = [(intervals[at][0], intervals[at + 1][1])]
        if at and intervals[at - 1][1] == intervals[at][0]:
            intervals[at - 1 : at + 1] = [(intervals[at - 1][0], intervals[at][1])]
