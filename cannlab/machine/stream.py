"""Streams: tasks in order, run lazily.

Nothing runs at ``submit``. A task runs when something waits for it, so that reading an output early gives the
old bytes and changing an input early changes the result, as it may on hardware.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cannlab.errors import Diagnosis, diagnose
from cannlab.machine.engines import Engine
from cannlab.machine.faults import TaskFault
from cannlab.machine.tasks import NOTHING, EventRecord, Task
from cannlab.machine.work import Work
from cannlab.trace import TaskKind

if TYPE_CHECKING:
    from cannlab.machine.clock import HostThread
    from cannlab.machine.context import Context
    from cannlab.machine.event import Event
    from cannlab.machine.reports import Callback, Subscription


class Stream:
    """A queue of tasks of one context. ``ready`` is the simulated time (ns) at which its last run task ended.

    ``number`` is its id on the device (what a profile shows).
    """

    def __init__(self, context: Context, number: int, *, priority: int = 0, flags: int = 0) -> None:
        self.context = context
        self.number = number
        self.priority = priority
        self.flags = flags
        self.queue: deque[Task] = deque()
        self.ready = 0
        self.fault = 0
        self.stop_on_failure = False
        self.overflow_switch = 0
        self.custom_tag = 0
        self.core_limits: dict[int, int] = {}
        self.subscription: Subscription | None = None
        self.alive = True
        self._machine = context.device.machine

    # -- queueing ------------------------------------------------------------------------------------

    def submit(
        self,
        kind: TaskKind,
        name: str,
        run: Callable[[], Work] | None = None,
        *,
        engine: Engine,
        op_type: str = "",
        core_type: str = "",
        bytes: int = 0,
        blocks: int = 0,
        keep: Iterable[Any] = (),
        after: Task | None = None,
        callback: Callback | None = None,
        marks: Event | None = None,
        ns: int | None = None,
    ) -> int:
        """Queue a task; nothing runs yet.

        Args:
            run: does the data effect when the stream is drained and says how long it takes; it may raise
                :class:`TaskFault`, whose code the next synchronisation returns. None for a task without one.
            engine: what it occupies while it runs.
            bytes: bytes moved. blocks: cores used (block dimension).
            keep: objects that must stay alive until it ran.
            after: a task of another stream that must be done before.
            callback: the host function of a CALLBACK task. marks: the event that captures this task.
            ns: how long it takes, if that is known: who asks while it runs then sees nothing of its effect.

        Returns:
            0; with ASCEND_LAUNCH_BLOCKING=1 the task is waited for at once and its code comes back.
        """
        task = self._task(kind, name, engine)
        if run is not None:
            task.run = run
        task.op_type, task.core_type, task.bytes, task.blocks = op_type, core_type, bytes, blocks
        task.keep = tuple(keep)
        if after is not None:
            task.after = after
        if callback is not None:
            task.callback = callback
        if ns is not None:
            task.ns = ns
        return self._queue(task, marks)

    def _task(self, kind: TaskKind, name: str, engine: Engine) -> Task:
        """A new task of the calling thread, not queued yet."""
        machine = self._machine
        thread = machine.clock.current or machine.clock.thread
        spot = thread.spot or machine.spots.caller(3)
        machine.sequence = thread.last_task = number = machine.sequence + 1
        return Task(self, kind, name, engine, thread.now, (thread.index, number), spot)

    def _queue(self, task: Task, marks: Event | None = None) -> int:
        self.queue.append(task)
        if marks is not None:
            marks.capture = task
        if self._machine.launch_blocking and task.callback is None:
            return self.synchronize()
        return 0

    def record(self, event: Event) -> int:
        """Queue the recording of an event; a second recording replaces the first."""
        machine = self._machine
        thread = machine.clock.current or machine.clock.thread
        machine.sequence = thread.last_task = number = machine.sequence + 1
        spot = thread.spot or machine.spots.caller(2)
        event.capture = task = EventRecord(self, thread.now, (thread.index, number), spot)
        self.queue.append(task)
        return self.synchronize() if machine.launch_blocking else 0

    def wait(self, event: Event) -> int:
        """Queue a wait for what the event captured; an event that was never recorded does not hold the stream."""
        code = self.submit(
            TaskKind.EVENT_WAIT, "EventWait", engine=Engine.NONE, core_type="EVENT_WAIT", after=event.capture
        )
        event.waits = self.queue[-1] if self.queue else None
        return code

    def reset(self, event: Event) -> int:
        """Queue the reset of an event: when the stream comes to it, what the event captured by now is forgotten."""
        captured = event.capture

        def forget() -> Work:
            if event.capture is captured:
                event.capture = None
            return NOTHING

        return self.submit(TaskKind.EVENT_RESET, "EventReset", forget, engine=Engine.NONE, core_type="EVENT_RESET")

    @property
    def last(self) -> Task | None:
        """The task queued last, while it is queued."""
        return self.queue[-1] if self.queue else None

    # -- draining ------------------------------------------------------------------------------------

    def run_until(self, target: Task, due: int | None = None) -> bool:
        """Run, in order, what ``target`` needs (other streams' tasks that its waits name included) and itself.

        Args:
            due: run only tasks that are over by this simulated time (ns), or have started where only the run itself
                shows how long it takes.

        Returns:
            True once ``target`` is done; False if a blocking callback or ``due`` holds it up.
        """
        pending = [target]
        while pending:
            task = pending[-1]
            if task.done:
                pending.pop()
                continue
            head = task.stream.queue[0]
            if head.after is not None and not head.after.done:
                if head.after in pending:
                    # It waits for itself in a circle: nothing ever comes.
                    head.after, head.run = None, partial(_never, head)
                    continue
                pending.append(head.after)
                continue
            if due is not None and not head.stream._due(head, due):
                return False
            if not head.stream._run_head():
                return False
        return True

    def _due(self, task: Task, now: int) -> bool:
        """True if the first task is over at ``now``, as far as one can know; a started one is given its engine."""
        at = task.earliest()
        if at > now:
            return False
        if task.ns is None or self._machine.requested.faults:
            return True
        if task.start < 0:
            task.start = self.context.device.occupy(task.engine, at, task.ns)
        return task.start + task.ns <= now

    def holder(self, target: Task) -> HostThread | None:
        """The host thread that must run the blocking callback which holds up ``target``; None if there is none."""
        head = target.stream.queue[0]
        seen = {head}
        while head.after is not None and not head.after.done and head.after.stream.queue[0] not in seen:
            head = head.after.stream.queue[0]
            seen.add(head)
        subscription = head.stream.subscription
        return subscription.thread if subscription is not None else None

    def _run_head(self) -> bool:
        """Run the first task; False if it is a blocking callback that has not returned yet."""
        task = self.queue[0]
        if task.callback is not None:
            return self._hand_over(task)
        at = task.earliest()
        self.queue.popleft()
        if task.run is None and not self.stop_on_failure and not self._machine.requested.faults:
            # A mark: no work, no time.
            self._machine.record_simple(
                self.context.device.index,
                self.number,
                task.kind,
                task.name,
                "",
                task.core_type,
                task.queued,
                at,
                at,
                0,
                0,
                task.spot,
            )
            task.start = task.end = self.ready = at
            task.done = True
            if task.after is not None:
                task.after = None
            return True
        if self.stop_on_failure and self.context.failed:
            task.start = at
            task.finish(at)
            return True
        try:
            if self._machine.requested.faults:
                self._check_requested(task)
            work = task.run() if task.run is not None else NOTHING
        except TaskFault as fault:
            task.start = at
            task.finish(at)
            self.ready = at
            self.fault = self.fault or fault.code
            self.context.failed = self.context.failed or fault.code
            self._machine.report(self._told(fault.diagnosis, task))
            for listener in self._machine.fault_listeners:
                listener(task, fault.code)
            return True
        except BaseException:
            # Not a fault of the device (Ctrl-C, say): the task is gone, the stream stays usable.
            task.start = at
            task.finish(at)
            raise
        if task.start >= 0:
            at = task.start
        elif work.ns:
            at = self.context.device.occupy(task.engine, at, work.ns)
        task.start = at
        self.ready = end = at + work.ns
        self._machine.record_task(task, at, end, work)
        task.finish(end)
        return True

    def _check_requested(self, task: Task) -> None:
        self._machine.requested.on_task(self.context.device, task.kind, task.core_type, task.name, task.spot.place)

    def _told(self, diagnosis: Diagnosis, task: Task) -> Diagnosis:
        """A fault is told at the line that it names (of a kernel), else at the line that queued the task."""
        queued, here = task.spot.place, self._machine.here().place
        others = diagnosis.others
        if diagnosis.where is None or diagnosis.where == here:
            if here is not None and here != queued:
                others += (("found at", here),)
            return replace(diagnosis, where=queued, others=others)
        if queued is not None and queued != diagnosis.where:
            others += (("queued at", queued),)
        return replace(diagnosis, others=others)

    def _hand_over(self, task: Task) -> bool:
        """Give a callback to the thread that subscribed to this stream."""
        callback = task.callback
        assert callback is not None
        if not callback.delivered:
            task.start = task.earliest()
            if self.subscription is None:
                callback.finish(task.start)
            else:
                self.subscription.deliver(callback, task.start)
        if callback.blocking and not callback.done:
            return False
        self.queue.popleft()
        self.ready = max(task.start, callback.end) if callback.blocking else task.start
        task.finish(self.ready)
        return True

    # -- waiting -------------------------------------------------------------------------------------

    def synchronize(self, timeout: int | None = None) -> int:
        """Wait for every queued task; the host thread's clock moves to the end of the last one.

        Args:
            timeout: simulated ns; None waits for ever.

        Returns:
            0, the code of the first task that failed since the last synchronisation, or 507046 at the timeout.
        """
        target = self.queue[-1] if self.queue else None
        return self._machine.wait_for(self, target, timeout)

    def take_fault(self) -> int:
        """The code of the first task that failed since the last synchronisation; it is reported once."""
        code, self.fault = self.fault, 0
        return code

    def query(self) -> bool:
        """True if everything is complete at the host thread's time; runs what is due by then."""
        now = self._machine.clock.thread.now
        if self.queue:
            self.run_until(self.queue[-1], due=now)
        return not self.queue and self.ready <= now

    def drop(self) -> None:
        """Forget the queued tasks without running them (``destroy_stream_force``)."""
        while self.queue:
            task = self.queue.popleft()
            task.start = self.ready
            if task.callback is not None:
                task.callback.finish(self.ready)
            task.finish(self.ready)


def _never(task: Task) -> Work:
    raise TaskFault(diagnose("runtime.stream_circle", where=task.spot.place, stream=task.stream.number))


def deadlock(stream: Stream) -> TaskFault:
    """The fault of a wait that can never end: a blocking callback that no thread will run."""
    spot = stream.queue[0].spot if stream.queue else None
    return TaskFault(
        diagnose(
            "runtime.callback_never_run",
            where=spot.place if spot is not None else None,
            stream=stream.number,
        )
    )
