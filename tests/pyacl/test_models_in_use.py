"""Models that are unloaded while runs wait, several models and threads at once, leaks of models."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from test_models import VALUES, Program, add_one

from cannlab import om
from cannlab.machine import Machine, reset_machine


@pytest.fixture
def path(tmp_path) -> str:
    om.write(add_one(), tmp_path / "net.om")
    return str(tmp_path / "net.om")


def test_unload_before_the_queued_run(acl, m, path, rules) -> None:
    program, other = Program(acl, path), Program(acl, path)
    stream, _ = acl.rt.create_stream()
    for each in (program, other):
        each.set(VALUES)
        assert acl.mdl.execute_async(each.model, each.inputs, each.outputs, stream) == 0
    assert acl.mdl.unload(program.model) == 0
    assert acl.rt.synchronize_stream(stream) == 507011
    assert rules() == ["model.unloaded_in_use"]
    (fault,) = m.record.faults
    assert fault["others"][0][0] == "unloaded at"
    assert not program.get(0).any()
    assert np.allclose(other.get(0), VALUES + 1, atol=2e-3)


def test_unload_after_the_run(acl, path, rules) -> None:
    program = Program(acl, path)
    stream, _ = acl.rt.create_stream()
    program.set(VALUES)
    acl.mdl.execute_async(program.model, program.inputs, program.outputs, stream)
    acl.rt.synchronize_stream(stream)
    assert acl.mdl.unload(program.model) == 0
    assert np.allclose(program.get(0), VALUES + 1, atol=2e-3)
    assert rules() == []


def run(acl, m: Machine, path: str) -> str:
    """Four threads, each with a model of its own and a stream; one unloads and loads again in between."""
    acl.init()
    acl.rt.set_device(0)
    context, _ = acl.rt.get_context()
    wrong: list[int] = []

    def work(number: int) -> None:
        acl.rt.set_context(context)
        program = Program(acl, path)
        stream, _ = acl.rt.create_stream()
        for step in range(4):
            program.set(VALUES * number + step)
            if step % 2:
                acl.mdl.execute_async(program.model, program.inputs, program.outputs, stream)
                acl.rt.synchronize_stream(stream)
            else:
                acl.mdl.execute(program.model, program.inputs, program.outputs)
            if not np.allclose(program.get(1), 2 * (VALUES * number + step), rtol=2e-3, atol=2e-2):
                wrong.append(number)
        assert acl.mdl.unload(program.model) == 0

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    rows = [row for row in m.record.tasks.rows() if row["kind"] == 6]
    spans = sorted((row["start"], row["end"]) for row in rows)
    assert len(rows) == 16
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    return m.record.digest()


def test_several_models_and_threads(acl, path) -> None:
    run(acl, reset_machine("Ascend910B1", 1), path)


def test_models_that_stay_are_told_with_their_lines(acl, m, path) -> None:
    first, _ = acl.mdl.load_from_file(path)
    acl.mdl.load_from_file(path)
    acl.mdl.load_from_file(path)
    acl.mdl.unload(first)
    acl.finalize()
    found = [fault for fault in m.record.leaks if fault["rule"] == "model.not_unloaded"]
    lines = [fault["where"]["line"] for fault in found]
    assert len(lines) == 2
    assert lines[1] == lines[0] + 1
    assert m.devices[0].memory_used == 0
