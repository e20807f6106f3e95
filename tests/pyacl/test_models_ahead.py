"""Runs in other streams are computed ahead, and nobody can tell."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from test_models import VALUES, Program, add_one

from cannlab import om
from cannlab.machine import ahead


class Two:
    """Two models in two streams, each filled through pinned memory in its stream; counts what was computed ahead."""

    def __init__(self, acl, m, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acl, self.m = acl, m
        self.used: list[bool] = []
        take = ahead.Ahead.results

        def counted(begun, inputs):
            found = take(begun, inputs)
            self.used.append(found is not None)
            return found

        monkeypatch.setattr(ahead, "LEAST_SECONDS", -1.0)
        monkeypatch.setattr(ahead.Ahead, "results", counted)
        self.programs = [Program(acl, path), Program(acl, path)]
        self.streams = [acl.rt.create_stream()[0] for _ in range(2)]
        self.hosts = [acl.rt.malloc_host(128)[0] for _ in range(2)]

    def queue(self, number: int, values: np.ndarray) -> None:
        program, host, stream = self.programs[number], self.hosts[number], self.streams[number]
        self.fill(number, values)
        assert self.acl.rt.memcpy_async(program.pointers[0], 128, host, 128, 1, stream) == 0
        assert self.acl.mdl.execute_async(program.model, program.inputs, program.outputs, stream) == 0

    def fill(self, number: int, values: np.ndarray) -> None:
        self.m.memory.view(self.hosts[number], 128)[:] = values.astype(np.float32).tobytes()

    def wait(self, number: int) -> int:
        return self.acl.rt.synchronize_stream(self.streams[number])

    def good(self, number: int, values: np.ndarray) -> bool:
        return np.allclose(self.programs[number].get(0), values + 1, atol=2e-3)


@pytest.fixture
def two(acl, m, tmp_path, monkeypatch) -> Two:
    om.write(add_one(), tmp_path / "net.om")
    return Two(acl, m, str(tmp_path / "net.om"), monkeypatch)


def test_the_next_run_of_the_other_stream_is_computed_ahead(two) -> None:
    two.queue(0, VALUES)
    two.queue(1, VALUES * 2)
    assert two.wait(0) == 0
    assert not two.programs[1].get(0).any()
    assert two.wait(1) == 0
    assert two.used == [True]
    assert two.good(0, VALUES)
    assert two.good(1, VALUES * 2)


def test_an_input_that_changes_in_between_counts(two) -> None:
    two.queue(0, VALUES)
    two.queue(1, VALUES * 2)
    two.wait(0)
    two.fill(1, VALUES * 3)
    assert two.wait(1) == 0
    assert two.used == [False]
    assert two.good(1, VALUES * 3)


def test_an_input_that_a_wait_holds_up_is_not_guessed(two, acl) -> None:
    event, _ = acl.rt.create_event()
    two.queue(0, VALUES)
    acl.rt.record_event(event, two.streams[0])
    acl.rt.stream_wait_event(two.streams[1], event)
    two.queue(1, VALUES * 2)
    two.wait(0)
    two.wait(1)
    assert two.good(1, VALUES * 2)


def test_freed_memory_is_still_found(two, acl, rules) -> None:
    two.queue(0, VALUES)
    two.queue(1, VALUES * 2)
    two.wait(0)
    acl.rt.free(two.programs[1].pointers[0])
    assert two.wait(1) == 507899
    assert rules()[-1] == "memory.use_after_free"


def test_no_host_thread_of_the_program_is_made(two, m) -> None:
    before = len(m.clock.threads), threading.active_count(), m.clock.crowd
    for step in range(6):
        two.queue(step % 2, VALUES * step)
    two.wait(0)
    two.wait(1)
    assert (len(m.clock.threads), threading.active_count(), m.clock.crowd) == before
    assert any(two.used)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_finds_no_lock_taken(two) -> None:
    two.queue(0, VALUES)
    two.queue(1, VALUES * 2)
    two.wait(0)
    child = os.fork()
    if child == 0:
        os._exit(0 if two.wait(1) == 0 and two.good(1, VALUES * 2) else 1)
    assert os.waitpid(child, 0)[1] == 0
