"""Video channels: their two streams, their callbacks, their end. Source: pyacl-semantics 12.1, 12.5, 12.6.

A channel has a stream for the codec and one for the callbacks. Each picture is a task of the first and a callback of
the second, which waits for that task and holds up the callbacks after it: so callbacks come in order, one at a time,
while the codec goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cannlab.acl.binding import NotEmulatedError
from cannlab.acl.checks import current_context, refuse
from cannlab.errors import diagnose
from cannlab.machine import Engine, Machine, Work
from cannlab.machine.api_costs import dvpp_ns
from cannlab.machine.reports import Callback, Subscription
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.machine import Context, Stream
    from cannlab.machine.video import MissingCodec

_STREAMS = 2


def missing(m: Machine, problem: MissingCodec) -> NotEmulatedError:
    """The error of a machine without PyAV: hardware has no code for that."""
    return NotEmulatedError(diagnose("media.video_extra", function=m.thread.function, reason=str(problem)).text())


class Channel:
    """An open channel.

    Args:
        unit: "VDEC" or "VENC". thread_id: of the thread that runs the callbacks.

    Attributes:
        codec: the decoder or encoder. closed: the end was sent; nothing more may come.

    Raises:
        Refused: 107002 without context, 207008 without two free streams, ``runtime.thread_subscribed`` (107012) for a
            thread that does not run.
    """

    def __init__(self, m: Machine, unit: str, thread_id: int, codec: Any) -> None:
        context = current_context(m)
        if context.device.streams_left < _STREAMS:
            raise refuse(m, "runtime.stream_limit", device=context.device.index, limit=m.soc.max_streams)
        subscription = _subscription(m, thread_id, context)
        self._m, self._unit, self._thread_id = m, unit, thread_id
        self.context, self.codec, self.closed = context, codec, False
        self._work: Stream = context.create_stream()
        self._calls: Stream = context.create_stream()
        subscription.add(self._calls)

    def send(self, name: str, work: Callable[[], int], call: Callable[[Any], object], *, bytes: int = 0) -> None:
        """Queue one picture.

        Args:
            work: does it and returns the pixels that it handled.
            call: what the report thread runs when it is done; its argument is None.
        """
        unit = self._unit
        self._work.submit(
            TaskKind.OPERATOR,
            name,
            lambda: Work(dvpp_ns(unit, work())),
            engine=Engine[unit],
            op_type=name,
            core_type="DVPP",
            bytes=bytes,
            blocks=1,
        )
        self._calls.submit(
            TaskKind.CALLBACK,
            f"{unit}Callback",
            engine=Engine.NONE,
            after=self._work.last,
            callback=Callback(call, None, blocking=True),
        )
        self._m.clock.notify()

    def close(self) -> int:
        """Wait until every callback has run, and give the streams back; returns the code of the wait."""
        m = self._m
        code = m.wait_for(self._calls, self._calls.last) or m.wait_for(self._work, self._work.last)
        for stream in (self._calls, self._work):
            if stream.alive:
                self.context.destroy_stream(stream)
        known = m.subscriptions.get(self._thread_id)
        if known is not None and not known.streams:
            del m.subscriptions[self._thread_id]
        return code


def _subscription(m: Machine, thread_id: int, context: Context) -> Subscription:
    """The subscription of a thread, made at the first use."""
    known, thread = m.subscriptions.get(thread_id), m.clock.by_ident(thread_id)
    if thread is None:
        raise refuse(m, "runtime.thread_subscribed", reason="no running thread has that id")
    if known is None or known.thread is not thread:
        known = m.subscriptions[thread_id] = Subscription(m, thread)
    if known.streams and known.streams[0].context.device is not context.device:
        raise refuse(m, "runtime.thread_subscribed", reason="the thread runs callbacks of another device")
    return known
