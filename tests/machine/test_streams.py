"""Streams are lazy; events join them; faults surface at the next synchronisation."""

from __future__ import annotations

import pytest

from cannlab.errors import diagnose
from cannlab.machine import Engine, Event, Machine, Stream, TaskFault, Work, reset_machine
from cannlab.trace import TaskKind


@pytest.fixture
def m() -> Machine:
    node = reset_machine("Ascend910B1", 2)
    node.thread.context = node.devices[0].retain()
    return node


def stream_of(m: Machine) -> Stream:
    assert m.thread.context is not None
    return m.thread.context.create_stream()


def work(log: list[str], name: str, ns: int):
    def run() -> Work:
        log.append(name)
        return Work(ns)

    return run


def submit(stream: Stream, log: list[str], name: str, ns: int, engine: Engine = Engine.COMPUTE) -> int:
    return stream.submit(TaskKind.KERNEL, name, work(log, name, ns), engine=engine)


def test_nothing_runs_before_something_waits(m: Machine) -> None:
    log: list[str] = []
    stream = stream_of(m)
    submit(stream, log, "a", 100)
    submit(stream, log, "b", 50)
    assert log == []
    assert stream.synchronize() == 0
    assert log == ["a", "b"]
    assert m.thread.now == 150


def test_synchronising_one_stream_leaves_the_other_alone(m: Machine) -> None:
    log: list[str] = []
    one, two = stream_of(m), stream_of(m)
    submit(one, log, "one", 10)
    submit(two, log, "two", 10)
    two.synchronize()
    assert log == ["two"]


def test_a_wait_drains_exactly_the_prefix_of_the_other_stream(m: Machine) -> None:
    log: list[str] = []
    assert m.thread.context is not None
    one, two = stream_of(m), stream_of(m)
    event = Event(m.thread.context, 0)
    submit(one, log, "before", 1000)
    one.record(event)
    submit(one, log, "after", 1000)
    two.wait(event)
    submit(two, log, "dependent", 10)
    assert two.synchronize() == 0
    assert log == ["before", "dependent"]
    assert m.thread.now == 1010


def test_a_wait_for_an_event_that_was_never_recorded_does_not_hold(m: Machine) -> None:
    log: list[str] = []
    assert m.thread.context is not None
    stream = stream_of(m)
    stream.wait(Event(m.thread.context, 0))
    submit(stream, log, "a", 5)
    assert stream.synchronize() == 0
    assert log == ["a"]
    assert m.thread.now == 5


def test_recording_again_replaces_the_mark(m: Machine) -> None:
    assert m.thread.context is not None
    log: list[str] = []
    stream, other = stream_of(m), stream_of(m)
    event = Event(m.thread.context, 0)
    stream.record(event)
    submit(stream, log, "a", 700)
    stream.record(event)
    other.wait(event)
    other.synchronize()
    assert log == ["a"]
    assert m.thread.now == 700


def test_a_long_chain_of_waits_does_not_recurse(m: Machine) -> None:
    assert m.thread.context is not None
    log: list[str] = []
    one, two = stream_of(m), stream_of(m)
    for step in range(3000):
        here, there = (one, two) if step % 2 else (two, one)
        submit(here, log, "x", 1)
        event = Event(m.thread.context, step)
        here.record(event)
        there.wait(event)
    assert one.synchronize() == 0
    assert len(log) >= 2999


def test_one_engine_runs_one_task_at_a_time_and_two_engines_overlap(m: Machine) -> None:
    log: list[str] = []
    one, two, three = stream_of(m), stream_of(m), stream_of(m)
    submit(one, log, "a", 100)
    submit(two, log, "b", 100)
    submit(three, log, "copy", 150, Engine.H2D)
    for stream in (one, two, three):
        stream.synchronize()
    assert m.thread.now == 200
    rows = {m.record.strings[row["name"]]: (row["start"], row["end"]) for row in m.record.tasks.rows()}
    assert rows == {"a": (0, 100), "b": (100, 200), "copy": (0, 150)}


def test_a_fault_surfaces_once_at_the_next_synchronisation(m: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    log: list[str] = []
    stream = stream_of(m)

    def fail() -> Work:
        raise TaskFault(diagnose("memory.use_after_free", memory="allocation 1"))

    assert stream.submit(TaskKind.KERNEL, "bad", fail, engine=Engine.COMPUTE) == 0
    submit(stream, log, "good", 10)
    assert m.record.faults == []
    assert stream.synchronize() == 507899
    assert log == ["good"]
    assert [fault["rule"] for fault in m.record.faults] == ["memory.use_after_free"]
    assert stream.synchronize() == 0
    assert "Use after free" in capsys.readouterr().err


def test_blocking_launches_fail_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_LAUNCH_BLOCKING", "1")
    monkeypatch.setenv("CANNLAB_DIAGNOSES", "off")
    node = reset_machine("Ascend910B1", 1)
    stream = node.devices[0].retain().create_stream()

    def fail() -> Work:
        raise TaskFault(diagnose("memory.use_after_free", memory="allocation 1"))

    assert stream.submit(TaskKind.KERNEL, "bad", fail, engine=Engine.COMPUTE) == 507899


def test_a_query_completes_what_is_due_so_polling_ends(m: Machine) -> None:
    log: list[str] = []
    stream = stream_of(m)
    submit(stream, log, "a", 5_500)
    polls = 0
    while True:
        with m.call("acl.rt.stream_query"):
            if stream.query():
                break
        polls += 1
        assert polls < 20
    assert polls == 5
    assert log == ["a"]


def test_interrupting_a_task_keeps_the_stream_usable(m: Machine) -> None:
    log: list[str] = []
    stream = stream_of(m)

    def interrupted() -> Work:
        raise KeyboardInterrupt

    stream.submit(TaskKind.KERNEL, "bad", interrupted, engine=Engine.COMPUTE)
    submit(stream, log, "good", 10)
    with pytest.raises(KeyboardInterrupt):
        stream.synchronize()
    assert stream.synchronize() == 0
    assert log == ["good"]
