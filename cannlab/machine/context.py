"""Contexts: who owns streams and events; one is current in each host thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cannlab.machine.stream import Stream

if TYPE_CHECKING:
    from cannlab.machine.device import Device


class Context:
    """A context of a device. The primary one is made by setting the device and is shared by threads.

    ``failed`` is the code of the first failed task (for streams that stop on failure); ``handle`` and
    ``default_handle`` are what a face gave out for it and for its default stream; ``options`` its system parameters.
    """

    def __init__(self, device: Device, *, primary: bool = False) -> None:
        self.device = device
        self.primary = primary
        self.alive = True
        self.failed = 0
        self.handle = 0
        self.default_handle = 0
        self.options: dict[int, int] = {}
        self.streams: list[Stream] = []
        self.default_stream = self.create_stream()

    def create_stream(self, *, priority: int = 0, flags: int = 0) -> Stream:
        """A new stream. The caller checks the device's limit before (``device.streams_left``)."""
        stream = Stream(self, self.device.take_stream_number(), priority=priority, flags=flags)
        self.streams.append(stream)
        return stream

    def destroy_stream(self, stream: Stream) -> None:
        """Forget a stream; the caller has synchronised or dropped it."""
        stream.alive = False
        if stream.subscription is not None:
            stream.subscription.remove(stream)
        self.streams.remove(stream)
        self.device.give_stream_number()

    def destroy(self) -> int:
        """Wait for its tasks and release its streams; returns the code of a task that failed."""
        code = self.device.machine.wait_for_all(self.streams)
        for stream in list(self.streams):
            self.destroy_stream(stream)
        self.alive = False
        self.device.contexts.remove(self)
        return code
