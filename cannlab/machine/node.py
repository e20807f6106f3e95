"""The machine: one emulated node with its devices, memory, clocks and record."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from cannlab import soc as socs
from cannlab.errors import Diagnosis
from cannlab.errors.tables import cann_version
from cannlab.machine import host_threads
from cannlab.machine.calls import Call
from cannlab.machine.clock import Clock, HostThread
from cannlab.machine.device import Device
from cannlab.machine.handles import Handles
from cannlab.machine.memory import Memory
from cannlab.machine.reports import Subscription
from cannlab.machine.requested_faults import VARIABLE, RequestedFaults
from cannlab.machine.spots import Spot, Spots
from cannlab.machine.stream import Stream, deadlock
from cannlab.machine.tasks import Task
from cannlab.machine.work import Work
from cannlab.soc import Soc
from cannlab.trace import KernelTrace, Record, TaskKind

STREAM_TIMEOUT = 507046
"""A wait for a stream ran into its timeout. Source: pyacl-semantics 4."""
_MESSAGES_KEPT = 64


class Machine:
    """An emulated node.

    Attributes:
        soc: the SoC of its devices. devices: the devices.
        record: everything that it did. memory: its memory.
        clock: its host threads. handles: what the faces gave out. faces: what each face keeps here.
        subscriptions: which host thread runs the callbacks of which streams, by thread id.
        requested: the faults that CANNLAB_FAULT asks for.
        sequence: tasks queued so far. callbacks_run: callbacks that have returned.
        launch_blocking: every task is waited for at once (ASCEND_LAUNCH_BLOCKING=1).
        report_listeners: called with every diagnosis.
        default_device: the device of threads that set none, if the configuration names one.
        fault_listeners: called with the task and its code when a task fails.
        leak_finders: each gives a diagnosis for each line that made something which is still there.
    """

    def __init__(self, soc: Soc, devices: int, faults: str = "") -> None:
        self.soc = soc
        self.record = Record(soc.name, devices, cann_version())
        self.clock = Clock()
        self.spots = Spots(self.record)
        self.devices = [Device(self, index) for index in range(devices)]
        self.memory = Memory(self)
        self.handles = Handles()
        self.faces: dict[str, Any] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.requested = RequestedFaults(faults, devices)
        self.sequence = 0
        self.callbacks_run = 0
        self.report_listeners: list[Callable[[Diagnosis], None]] = []
        self.default_device: int | None = None
        self.launch_blocking = os.environ.get("ASCEND_LAUNCH_BLOCKING") == "1"
        self.fault_listeners: list[Callable[[Task, int], None]] = []
        self.leak_finders: list[Callable[[], list[Diagnosis]]] = [self.memory.leaks]
        self._printed: set[str] = set()

    # -- host side -----------------------------------------------------------------------------------

    @property
    def thread(self) -> HostThread:
        """The calling host thread."""
        return self.clock.thread

    def call(self, name: str) -> Call:
        """A host API call, as a context manager: adds its cost to the thread's clock and a row to record.calls."""
        return Call(self, name)

    def here(self) -> Spot:
        """The learner's line of the call in progress."""
        return self.clock.thread.spot or self.spots.caller(2)

    def host_cost(self, us: float) -> None:
        """Declare host work of the program: the calling thread's clock moves on by that many microseconds."""
        if us < 0:
            raise ValueError(f"host_cost needs a time of at least 0 us, got {us}")
        thread = self.clock.thread
        self.clock.enter(thread)
        thread.now += round(us * 1000)
        self.clock.leave(thread)

    def report(self, diagnosis: Diagnosis) -> None:
        """Keep a diagnosis: in the record, for get_recent_err_msg, and once on stderr.

        ``CANNLAB_DIAGNOSES=off`` silences the last.
        """
        self.record.faults.append(diagnosis.to_dict())
        for listener in self.report_listeners:
            listener(diagnosis)
        text = diagnosis.text()
        messages = self.clock.thread.messages
        messages.append(text)
        del messages[:-_MESSAGES_KEPT]
        if os.environ.get("CANNLAB_DIAGNOSES", "").lower() != "off" and text not in self._printed:
            self._printed.add(text)
            print(text, file=sys.stderr, flush=True)

    # -- recording -----------------------------------------------------------------------------------

    def record_task(self, task: Task, start: int, end: int, work: Work) -> None:
        """The rows of a task that has run: itself, then a model's operators with it as parent."""
        stream = task.stream
        if work.operators or work.kernel is not None:
            self.record_work(
                stream.context.device.index,
                stream.number,
                task.kind,
                task.name,
                start,
                end,
                work,
                queued=task.queued,
                spot=task.spot,
                op_type=task.op_type,
                core_type=task.core_type,
                bytes=task.bytes,
                blocks=task.blocks,
            )
            return
        self.record_simple(
            stream.context.device.index,
            stream.number,
            task.kind,
            task.name,
            task.op_type,
            task.core_type,
            task.queued,
            start,
            end,
            task.bytes,
            task.blocks,
            task.spot,
        )

    def record_simple(
        self,
        device: int,
        stream: int,
        kind: TaskKind,
        name: str,
        op_type: str,
        core_type: str,
        queued: int,
        start: int,
        end: int,
        bytes: int,
        blocks: int,
        spot: Spot,
    ) -> None:
        """Append finished work that has no operators and no kernel: one row of record.tasks."""
        tasks, strings = self.record.tasks, self.record.strings
        numbers = strings.numbers
        try:
            called, typed, ran = numbers[name], numbers[op_type], numbers[core_type]
        except KeyError:
            called, typed, ran = strings.number(name), strings.number(op_type), strings.number(core_type)
        file, line, _ = spot
        tasks.cells += tasks.packed(
            device, stream, kind, called, typed, ran, queued, start, end, bytes, blocks, -1, -1, file, line
        )

    def record_work(
        self,
        device: int,
        stream: int,
        kind: TaskKind,
        name: str,
        start: int,
        end: int,
        work: Work,
        *,
        queued: int,
        spot: Spot,
        op_type: str = "",
        core_type: str = "",
        bytes: int = 0,
        blocks: int = 0,
    ) -> int:
        """Append finished work to record.tasks: one row, its kernel trace, its operators. Returns its row."""
        record, number = self.record, self.record.strings.number

        def kept(trace: KernelTrace | None) -> int:
            if trace is None:
                return -1
            record.kernels.append(trace)
            return len(record.kernels) - 1

        row = record.tasks.append(
            device,
            stream,
            kind,
            number(name),
            number(op_type),
            number(core_type),
            queued,
            start,
            end,
            bytes,
            blocks,
            -1,
            kept(work.kernel),
            spot.file,
            spot.line,
        )
        at = start
        for operator in work.operators:
            record.tasks.append(
                device,
                stream,
                TaskKind.OPERATOR,
                number(operator.name),
                number(operator.op_type),
                number(operator.core_type),
                queued,
                at,
                at + operator.ns,
                operator.bytes,
                operator.blocks,
                row,
                kept(operator.kernel),
                spot.file,
                spot.line,
            )
            at += operator.ns
        if work.told is not None:
            work.told(start)
        return row

    # -- waiting -------------------------------------------------------------------------------------

    def wait_for(self, stream: Stream, target: Task | None, timeout: int | None = None) -> int:
        """Make the calling thread wait for a task of ``stream`` (None: for what has already run).

        Returns:
            0, the code of a failed task, or 507046 when ``timeout`` (simulated ns) ends first.
        """
        thread = self.clock.thread
        deadline = None if timeout is None else thread.now + timeout
        while target is not None and not stream.run_until(target):
            ran = self.callbacks_run
            holder = stream.holder(target)
            reachable = holder is not None and holder is not thread and holder.alive
            woken = reachable and self.clock.wait(
                thread,
                lambda seen=ran: thread.now if self.callbacks_run != seen else None,  # type: ignore[misc]
                deadline,
            )
            if not woken and deadline is not None:
                return STREAM_TIMEOUT
            if not woken:
                fault = deadlock(stream)
                self.report(fault.diagnosis)
                stream.drop()
                return fault.code
        end = stream.ready if target is None else target.end
        if deadline is not None and end > deadline:
            thread.now = deadline
            return STREAM_TIMEOUT
        thread.now = max(thread.now, end)
        return stream.take_fault()

    def wait_for_all(self, streams: Iterable[Stream], timeout: int | None = None) -> int:
        """Wait for every task of these streams, running them in order of simulated time."""
        streams = list(streams)
        thread = self.clock.thread
        deadline = None if timeout is None else thread.now + timeout
        self.run_in_order(streams)
        code = 0
        for stream in streams:
            left = None if deadline is None else max(deadline - thread.now, 0)
            code = code or stream.synchronize(left)
            code = code or stream.take_fault()
        return code

    def run_in_order(self, streams: list[Stream]) -> None:
        """Run the queued tasks of several streams by (earliest start, priority of the stream, thread, sequence)."""
        waiting = [stream for stream in streams if stream.queue]
        while waiting:
            head = min(
                (stream.queue[0] for stream in waiting),
                key=lambda task: (task.earliest(), task.stream.priority, *task.order),
            )
            if not head.stream.run_until(head):
                waiting.remove(head.stream)
            waiting = [stream for stream in waiting if stream.queue]

    # -- the end -------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The end of a program's use: run what is queued, report leaks, give freed memory back to the host."""
        for device in self.devices:
            for context in device.contexts:
                self.wait_for_all(context.streams)
        self.report_leaks()
        self.memory.release_freed()

    def report_leaks(self) -> None:
        """Report what the program made and did not destroy; each is reported once."""
        for finder in self.leak_finders:
            for leak in finder():
                self.report(leak)


present: Machine | None = None
"""This process's machine, once there is one; :func:`machine` makes it."""


begun: list[Callable[[Machine], None]] = []
"""Who wants to know of each new machine of this process."""


def machine() -> Machine:
    """This process's machine; made at the first use from ``CANNLAB_SOC`` and ``CANNLAB_DEVICES``."""
    return present if present is not None else reset_machine()


def reset_machine(soc: str | None = None, devices: int | None = None, faults: str | None = None) -> Machine:
    """Forget everything and start a new machine.

    Args:
        soc: name of the SoC; ``CANNLAB_SOC`` (default Ascend910B1) if None.
        devices: how many; ``CANNLAB_DEVICES`` (default 8) if None.
        faults: what goes wrong on request (``requested_faults``); ``CANNLAB_FAULT`` if None.

    Raises:
        CannlabError: ``soc.unknown``, ``soc.device_count`` or ``runtime.fault_grammar``.
    """
    global present
    chosen = socs.current() if soc is None else socs.get(soc)
    count = socs.device_count() if devices is None else devices
    host_threads.install(lambda: present.clock if present is not None else None)
    if present is None:
        atexit.register(_report_leaks)
    present = Machine(chosen, count, os.environ.get(VARIABLE, "") if faults is None else faults)
    for told in begun:
        told(present)
    return present


def _report_leaks() -> None:
    """Report the leaks of a program that forgot to finalize."""
    if present is not None:
        present.report_leaks()
