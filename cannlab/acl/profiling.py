"""What profiling keeps in a machine: which way of profiling is on, its sessions, the marks that the program set.

Source: pyacl-semantics 15; runtime documentation, profiling.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.acl.checks import refuse
from cannlab.acl.state import acl_state
from cannlab.machine import node
from cannlab.profiler.msprof_tables import Step, TxEvent
from cannlab.profiler.operands import Described, Place, tensor_cells
from cannlab.profiler.prof_directory import ProfDirectory, Wanted
from cannlab.profiler.window import window

if TYPE_CHECKING:
    from cannlab.machine import Machine, Work
    from cannlab.machine.models import LoadedModel
    from cannlab.machine.tasks import Task

API, TASK_TIME, METRICS, MARKS = 0x1, 0x2, 0x4, 0x80
STEPS, TASK_TIME_L0, TASK_MEMORY = 0x40, 0x800, 0x1000
KNOWN = 0xFFFF | 1 << 24 | 1 << 34 | 1 << 35
"""All ACL_PROF_ bits of acl_prof.h."""
NO_METRICS = 0xFF
METRIC_NAMES = (
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "ResourceConflictRatio",
    "MemoryUB",
    "L2Cache",
    "PipelineExecuteUtilization",
    "MemoryAccess",
)
"""What the file of acl.init calls the groups of AI Core metrics, by aclprofAicoreMetrics."""
_KEY = "acl.prof"


class Mode(Enum):
    """Which way of profiling is on; they exclude each other."""

    OFF = 0
    API = 1
    SUBSCRIPTION = 2
    CONFIGURED = 3


@dataclass
class Session:
    """What one start collects: devices, data types, the time (ns) since which; ``directory`` once it is made."""

    devices: frozenset[int]
    data_types: int
    wanted: Wanted
    start: int
    directory: ProfDirectory | None = None


@dataclass
class StepMarks:
    """One iteration: the tasks that mark its start and its end on a stream."""

    number: int
    tasks: dict[int, Task] = field(default_factory=dict)


@dataclass
class Stamp:
    """A mark that the program can set; ``start`` is when a range began (ns), -1 before."""

    number: int
    message: str = ""
    start: int = -1


@dataclass
class ProfState:
    """Profiling in one machine.

    ``watched`` are the observers of models by model id, ``described`` what is known of each operator that ran.
    ``marks`` and ``steps`` are what the program marked; ``pushed`` the open push ranges by thread; ``ranges`` the open
    ranges by their number.
    """

    mode: Mode = Mode.OFF
    folder: Path = Path()
    directories: int = 0
    sessions: list[Session] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    watched: dict[int, Callable[[int, Work], None]] = field(default_factory=dict)
    described: dict[Place, Described] = field(default_factory=dict)
    marks: list[TxEvent] = field(default_factory=list)
    steps: list[StepMarks] = field(default_factory=list)
    stamps: int = 0
    pushed: dict[int, list[Stamp]] = field(default_factory=lambda: defaultdict(list))
    ranges: dict[int, Stamp] = field(default_factory=dict)

    @property
    def marking(self) -> bool:
        """True while marks are collected."""
        return any(session.data_types & MARKS for session in self.sessions)


def prof_state(m: Machine) -> ProfState:
    """Profiling in this machine."""
    state: ProfState = m.faces.setdefault(_KEY, ProfState())
    return state


def wanted(data_types: int, metrics: int, settings: Mapping[str, Any]) -> Wanted:
    """What the ACL_PROF_ bits ask for."""
    return Wanted(
        api=bool(data_types & API),
        tasks=bool(data_types & (TASK_TIME | TASK_TIME_L0)),
        operators=bool(data_types & TASK_TIME),
        metrics=metrics if data_types & METRICS and metrics != NO_METRICS else None,
        memory=bool(data_types & TASK_MEMORY),
        marks=bool(data_types & MARKS),
        steps=bool(data_types & STEPS),
        settings=dict(settings),
    )


def begin(m: Machine, session: Session) -> None:
    """Collect from now on."""
    prof_state(m).sessions.append(session)
    for model_id, model in acl_state(m).models.items():
        watch(m, model_id, model)


def watch(m: Machine, model_id: int, model: LoadedModel) -> None:
    """Note a model's runs, if anything is collected."""
    state = prof_state(m)
    if not state.sessions or model_id in state.watched:
        return
    # The shapes of a model with gears or open shapes are those of a run, which its tasks do not say.
    tasks = () if model.om.variants or model.om.dynamic else model.om.tasks
    known = {task.name: Described(model_id, tensor_cells(task.inputs, task.outputs)) for task in tasks}
    other, device, described = Described(model_id), model.context.device.index, state.described

    def observe(start: int, work: Work) -> None:
        for operator in work.operators:
            described[Place(device, start, operator.name)] = known.get(operator.name, other)
            start += operator.ns

    model.observers.append(observe)
    state.watched[model_id] = observe


def _unwatch(m: Machine, state: ProfState) -> None:
    models = acl_state(m).models
    for model_id, observe in state.watched.items():
        if model_id in models:
            models[model_id].observers.remove(observe)
    state.watched.clear()
    state.described.clear()


def make_directory(m: Machine, session: Session, devices: Collection[int]) -> ProfDirectory:
    """The session's directory. Raises Refused ``prof.path`` (100003)."""
    state = prof_state(m)
    state.directories += 1
    try:
        made = ProfDirectory(state.folder, state.directories, m.record, devices, session.wanted)
    except OSError as problem:
        raise refuse(m, "prof.path", folder=state.folder.name, reason=problem.strerror or str(problem)) from None
    session.directory = made
    return made


def close(m: Machine, session: Session) -> None:
    """End a session: run what is due by now, and write its files. Raises Refused ``prof.path`` (100003)."""
    state = prof_state(m)
    state.sessions.remove(session)
    try:
        _finish(m, state, session)
    finally:
        if not state.sessions:
            _unwatch(m, state)


def _finish(m: Machine, state: ProfState, session: Session) -> None:
    end = m.thread.now
    for device in session.devices:
        for context in m.devices[device].contexts:
            for stream in context.streams:
                stream.query()
    part = window(m.record, session.start, end, session.devices)
    if session.directory is None:
        used = {row["device"] for row in part.tasks.rows()}
        make_directory(m, session, used)
    assert session.directory is not None
    marks = [mark for mark in state.marks if session.start <= mark.start < end]
    steps = [step for step in map(_step, state.steps) if session.start <= max(step.start, step.end) < end]
    try:
        session.directory.finish(part, session.start, end, marks, steps, state.described)
    except OSError as problem:
        raise refuse(m, "prof.path", folder=state.folder.name, reason=problem.strerror or str(problem)) from None


def _step(marks: StepMarks) -> Step:
    ends = {tag: task.end for tag, task in marks.tasks.items() if task.done}
    device = next((task.stream.context.device.index for task in marks.tasks.values()), 0)
    return Step(device, marks.number, ends.get(0, 0), ends.get(1, 0))


def mark(m: Machine, kind: str, start: int, message: str) -> None:
    """Keep a mark or a range that ends now."""
    event = TxEvent(os.getpid(), threading.get_native_id(), kind, start, m.thread.now, message)
    prof_state(m).marks.append(event)


def begin_configured(m: Machine, config: Mapping[str, Any]) -> None:
    """Profiling switched on in the file of acl.init: everything from now to acl.finalize, or to the end."""
    state = prof_state(m)
    metrics = config.get("aic_metrics", "PipeUtilization")
    bits = TASK_TIME | METRICS | STEPS
    bits |= API if config.get("ascendcl", "on") == "on" else 0
    bits |= MARKS if config.get("msproftx") == "on" else 0
    bits |= TASK_MEMORY if config.get("task_memory") == "on" else 0
    if config.get("task_time") in ("off", "l0"):
        bits &= ~(TASK_TIME | METRICS)
        bits |= TASK_TIME_L0 if config["task_time"] == "l0" else 0
    # The real default is the folder of the executable: for a Python program that would be Python's own.
    state.folder = Path(config.get("output") or ".").resolve()
    state.mode = Mode.CONFIGURED
    number = METRIC_NAMES.index(metrics) if metrics in METRIC_NAMES else NO_METRICS
    devices = frozenset(range(len(m.devices)))
    begin(m, Session(devices, bits, wanted(bits, number, config), m.thread.now))
    atexit.register(_end_at_exit, m)


def end_configured(m: Machine) -> None:
    """Write what the file of acl.init asked for, if that was not done yet."""
    state = prof_state(m)
    if state.mode is Mode.CONFIGURED:
        atexit.unregister(_end_at_exit)
        state.mode = Mode.OFF
        for session in list(state.sessions):
            close(m, session)


def _end_at_exit(m: Machine) -> None:
    """The end of a program that did not call acl.finalize."""
    if node.present is m:
        with m.call("acl.finalize"):
            end_configured(m)
