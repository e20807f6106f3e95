"""Host callbacks. Source: pyacl-semantics 7."""

from __future__ import annotations

from typing import Any

from cannlab.acl.binding import api
from cannlab.acl.checks import refuse, take_stream
from cannlab.machine import Engine, Machine
from cannlab.machine.reports import Callback, Subscription
from cannlab.trace import TaskKind


@api("acl.rt.subscribe_report")
def subscribe_report(m: Machine, thread_id: int, stream: int) -> int:
    """subscribe_report(thread_id, stream) -> ret: that thread runs the stream's callbacks."""
    entry = take_stream(m, stream)
    if entry.subscription is not None:
        raise refuse(m, "runtime.stream_subscribed", state="subscribed already")
    known = m.subscriptions.get(thread_id)
    thread = m.clock.by_ident(thread_id)
    if known is not None and known.thread is thread:
        if known.streams and known.streams[0].context.device is not entry.context.device:
            raise refuse(m, "runtime.thread_subscribed", reason="the thread runs callbacks of another device")
    else:
        if thread is None:
            raise refuse(m, "runtime.thread_subscribed", reason="no running thread has that id")
        known = m.subscriptions[thread_id] = Subscription(m, thread)
    known.add(entry)
    return 0


@api("acl.rt.unsubscribe_report")
def unsubscribe_report(m: Machine, thread_id: int, stream: int) -> int:
    """unsubscribe_report(thread_id, stream) -> ret."""
    entry = take_stream(m, stream)
    if entry.subscription is None:
        raise refuse(m, "runtime.stream_subscribed", state="not subscribed")
    if entry.subscription is not m.subscriptions.get(thread_id):
        raise refuse(m, "runtime.thread_subscribed", reason="another thread runs the callbacks of this stream")
    entry.subscription.remove(entry)
    if not m.subscriptions[thread_id].streams:
        del m.subscriptions[thread_id]
    return 0


@api("acl.rt.launch_callback")
def launch_callback(m: Machine, function: Any, data: Any, block: int, stream: int) -> int:
    """launch_callback(fn, data, block_type, stream) -> ret: fn(data) runs in the subscribed thread.

    block_type 1 holds up later tasks of the stream until fn has returned, 0 does not.
    """
    if not callable(function):
        raise TypeError("parameter must be callable")
    target = take_stream(m, stream)
    if block not in (0, 1):
        raise refuse(m, "runtime.bad_block_type", block=block)
    if target.subscription is None:
        raise refuse(m, "runtime.no_subscription")
    callback = Callback(function, data, blocking=block == 1)
    code = target.submit(TaskKind.CALLBACK, "Callback", engine=Engine.NONE, callback=callback)
    m.clock.notify()
    return code


@api("acl.rt.process_report")
def process_report(m: Machine, timeout_ms: int) -> int:
    """process_report(ms) -> ret: runs the callbacks that are ready in this thread; 507012 if none comes in time."""
    if timeout_ms == 0 or timeout_ms < -1:
        raise refuse(m, "runtime.report_timeout", timeout=timeout_ms)
    subscription = m.subscriptions.get(m.thread.ident)
    if subscription is None or subscription.thread is not m.thread:
        raise refuse(m, "runtime.thread_subscribed", reason="no stream is subscribed to the calling thread")
    if subscription.process(None if timeout_ms == -1 else timeout_ms * 1_000_000):
        return 0
    if timeout_ms == -1:
        raise refuse(m, "runtime.report_never_comes")
    return 507012
