"""One device: its memory capacity, contexts, engines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cannlab.machine.context import Context
from cannlab.machine.engines import Engine, Timeline

if TYPE_CHECKING:
    from cannlab.machine.node import Machine

MAX_EVENTS = 65536
"""Events per device. Source: pyacl-semantics 6 (65535 on the 910)."""


class Device:
    """An emulated device.

    Attributes:
        memory_total, memory_used: bytes of its HBM or DDR.
        references: how many set_device calls are not yet reset.
        primary: the context that set_device made, while there is one.
        peers: devices whose memory it may use. lost: it no longer answers.
        core_limits: how many cores of a kind programs may use, where that was limited.
        watches_overflow: somebody wants to know of overflows. overflowed: there was one since that was last reset.
    """

    def __init__(self, machine: Machine, index: int) -> None:
        self.machine = machine
        self.index = index
        self.soc = machine.soc
        self.memory_total = machine.soc.memory_bytes
        self.memory_used = 0
        self.references = 0
        self.primary: Context | None = None
        self.contexts: list[Context] = []
        self.streams = 0
        self.events = 0
        self.event_numbers = 0
        self.peers: set[int] = set()
        self.core_limits: dict[int, int] = {}
        self.lost = False
        self.watches_overflow = False
        self.overflowed = False
        self._stream_numbers = 0
        self._timelines = [Timeline() for _ in Engine]

    @property
    def memory_free(self) -> int:
        """Bytes that can still be allocated."""
        return self.memory_total - self.memory_used

    @property
    def max_events(self) -> int:
        """The limit of events. Source: pyacl-semantics 6."""
        return MAX_EVENTS - 1 if self.soc.short == "Ascend910" else MAX_EVENTS

    @property
    def streams_left(self) -> int:
        """How many more streams fit (default streams count)."""
        return self.soc.max_streams - self.streams

    def take_stream_number(self) -> int:
        """The id of a new stream."""
        self.streams += 1
        self._stream_numbers += 1
        return self._stream_numbers - 1

    def give_stream_number(self) -> None:
        """A stream is gone."""
        self.streams -= 1

    def create_context(self, *, primary: bool = False) -> Context:
        """A new context with its default stream."""
        context = Context(self, primary=primary)
        self.contexts.append(context)
        return context

    def default_context(self) -> Context:
        """The primary context, made at the first use and counted for nobody."""
        if self.primary is None:
            self.primary = self.create_context(primary=True)
        return self.primary

    def retain(self) -> Context:
        """Count one more user of the primary context; makes it at the first use."""
        self.references += 1
        return self.default_context()

    def release(self, *, force: bool = False) -> int:
        """Count one user less; at 0 (or when forced) wait for the tasks and destroy the primary context."""
        self.references = 0 if force else self.references - 1
        if self.references > 0 or self.primary is None:
            return 0
        primary, self.primary = self.primary, None
        return primary.destroy()

    def occupy(self, engine: Engine, ready: int, ns: int) -> int:
        """Grant an engine for ``ns`` from ``ready`` on; returns the start (ns)."""
        return self._timelines[engine].grant(ready, ns) if engine else ready
