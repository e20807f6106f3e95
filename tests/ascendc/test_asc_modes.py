"""Launches without checks and without data: what they leave out, and what they must not."""

import numpy as np
import pytest
from add_queues import add_queues
from asc_pieces import ordered, rules, run_on_core, view
from cores_kernels import shared_sum

import cannlab.ascendc as asc
from cannlab.ascendc.runtime.launcher import KernelError
from cannlab.course.kernel_replay import Refused, machine_replay
from cannlab.machine import core, machine, reset_machine
from cannlab.machine.core import modes
from cannlab.machine.core.soundness import Unsound, check

P, E = asc.TPosition, asc.HardEvent
CHECKS, DATA = "CANNLAB_KERNEL_CHECKS", "CANNLAB_KERNEL_DATA"
N = 1 << 14


def launch(blocks=4):
    """A vector add on a machine of its own: x, y, z and its record and time."""
    reset_machine("Ascend910B1", 1)
    rng = np.random.default_rng(5)
    x, y = rng.random(N, dtype="f4"), rng.random(N, dtype="f4")
    z = np.full(N, 7, "f4")
    add_queues[blocks](x, y, z, N // blocks)
    return (x, y, z), machine().record.kernels[-1]


def raced(x):
    """A vector operation that does not wait for its copy, and a flag that nobody waits for."""
    ub = asc.LocalTensor(asc.float32, P.VECIN, 0, 64)
    asc.data_copy(ub, view(x), count=64)
    asc.adds(ub, ub, 1.0, count=64)
    asc.set_flag(E.V_MTE3, 0)
    asc.wait_flag(E.V_MTE3, 0)
    asc.data_copy(view(x), ub, count=64)
    asc.set_flag(E.MTE3_V, 1)


def test_without_checks_numbers_and_time_are_the_same(monkeypatch):
    (_, _, wanted), whole = launch()
    monkeypatch.setenv(CHECKS, "off")
    (x, y, z), trace = launch()
    np.testing.assert_array_equal(z, wanted)
    np.testing.assert_array_equal(z, x + y)
    assert trace.meta["checks"] == "off"
    assert "data" not in trace.meta
    assert "checks" not in whole.meta
    assert list(trace) == list(whole)
    assert core.timing(trace).ns == core.timing(whole).ns


def test_without_checks_a_race_passes_and_a_replay_finds_it(monkeypatch):
    x = np.arange(64, dtype="f4")
    assert set(rules(run_on_core(raced, x, sync="strict"))) == {"flag_leaked", "race"}
    time = run_on_core(raced, x, sync="strict").timing.ns
    monkeypatch.setenv(CHECKS, "off")
    quiet = run_on_core(raced, x, sync="strict")
    assert rules(quiet) == []
    assert quiet.timing.ns == time
    np.testing.assert_array_equal(quiet.outputs[0].view("f4"), x + 1)
    check(quiet.trace)
    again = core.replay(quiet.trace, [x])
    assert set(rules(again)) == {"flag_leaked", "race"}
    assert "checks" not in again.trace.meta


@pytest.mark.parametrize("sync", ["auto", "strict"])
def test_without_checks_memory_is_still_safe(monkeypatch, sync):
    monkeypatch.setenv(CHECKS, "off")

    def beyond(x):
        ub = asc.LocalTensor(asc.float32, P.VECIN, 0, 4096)
        asc.data_copy(ub, view(x), count=4096)

    def above(x):
        asc.duplicate(asc.LocalTensor(asc.float32, P.VECIN, 1 << 20, 64), 1.0, count=64)

    for body, rule in ((beyond, "kernel.gm_range"), (above, "kernel.local_range")):
        with pytest.raises(core.KernelFault) as caught:
            run_on_core(body, np.zeros(64, "f4"), sync=sync)
        assert caught.value.diagnosis.rule == rule


def test_without_checks_the_time_counts_the_automatic_waits(monkeypatch):
    def body(x):
        ub = asc.LocalTensor(asc.float32, P.VECIN, 0, 64)
        asc.data_copy(ub, view(x), count=64)
        ub.set_value(0, ub.get_value(1) + 1.0)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.sync_all()
        ordered(E.S_MTE3)
        asc.data_copy(view(x), ub, count=64)

    x = np.arange(64, dtype="f4")
    whole = run_on_core(body, x)
    assert rules(whole) == []
    monkeypatch.setenv(CHECKS, "off")
    quiet = run_on_core(body, x)
    np.testing.assert_array_equal(quiet.timing.spans, whole.timing.spans)
    np.testing.assert_array_equal(quiet.outputs[0], whole.outputs[0])


@pytest.mark.parametrize("soft", [0, 1])
@pytest.mark.parametrize("off", [CHECKS, DATA])
def test_cores_that_wait_for_each_other(monkeypatch, soft, off):
    blocks = 6

    def run():
        reset_machine("Ascend910B1", 1)
        x = np.arange(blocks * 64, dtype="f4")
        z, work, flags = np.zeros_like(x), np.zeros_like(x), np.zeros(blocks * 8, "i4")
        shared_sum[blocks](x, work, flags, z, soft)
        return z, core.timing(machine().record.kernels[-1])

    z, time = run()
    monkeypatch.setenv(off, "off")
    other, again = run()
    np.testing.assert_array_equal(other, z if off == CHECKS else 0 * z)
    assert again.ns == time.ns


def test_without_data_nothing_is_touched_and_the_time_is_the_same(monkeypatch):
    (*_, _), whole = launch()
    monkeypatch.setenv(DATA, "off")
    (_, _, z), trace = launch()
    np.testing.assert_array_equal(z, np.full(N, 7, "f4"))
    assert trace.meta["data"] == "off"
    assert "checks" not in trace.meta
    assert list(trace) == list(whole)
    assert core.timing(trace).ns == core.timing(whole).ns


def test_without_data_scalars_are_0_and_checks_go_on(monkeypatch):
    seen = []

    def body(x):
        ub = asc.LocalTensor(asc.float32, P.VECIN, 0, 64)
        seen.append(view(x).get_value(3).value)
        seen.append(ub.get_value(0).value)

    monkeypatch.setenv(DATA, "off")
    result = run_on_core(body, np.full(64, 5, "f4"))
    assert seen == [0.0] * 4
    assert result.outputs == []
    assert rules(result) == ["undefined"]
    assert rules(run_on_core(raced, np.zeros(64, "f4"), sync="strict")) != []


def test_offsets_of_a_gather_are_no_matter_without_data(monkeypatch):
    def body(x):
        table, found = (asc.LocalTensor(asc.float32, P.VECIN, at, 64) for at in (0, 256))
        at = asc.LocalTensor(asc.uint32, P.VECIN, 512, 64)
        asc.data_copy(table, view(x), count=64)
        asc.data_copy(at.reinterpret_cast(asc.float32), view(x)[64:], count=64)
        ordered(E.MTE2_V)
        asc.gather(found, table, at, 0, count=64)

    monkeypatch.setenv(DATA, "off")
    assert rules(run_on_core(body, np.full(128, np.nan, "f4"))) == []


def test_a_record_without_data_is_not_replayed(monkeypatch):
    monkeypatch.setenv(DATA, "off")
    (x, y, z), trace = launch()
    with pytest.raises(Unsound, match="without data"):
        check(trace)
    with pytest.raises(ValueError, match="CANNLAB_KERNEL_DATA"):
        core.replay(trace, [x, y, z])
    with pytest.raises(ValueError, match="CANNLAB_KERNEL_DATA"):
        core.shuffled(trace, [x, y, z], 1)
    with pytest.raises(Refused, match="record") as caught:
        machine_replay(trace, {"x": x, "y": y, "z": z}, "Ascend910B1")
    assert caught.value.diagnosis.rule == "course.kernel_record"


def test_the_judge_replays_a_record_without_checks_in_full(monkeypatch):
    x = np.arange(64, dtype="f4")
    monkeypatch.setenv(CHECKS, "off")
    quiet = run_on_core(raced, x, sync="strict")
    judged = machine_replay(quiet.trace, {"x": x}, "Ascend910B1", "strict")
    assert {found.rule for found in judged.diagnoses} == {"kernel.race", "kernel.flag_leaked"}
    np.testing.assert_array_equal(judged.arguments["x"], x + 1)


def test_a_stopped_core_stops_without_data_too(monkeypatch):
    monkeypatch.setenv(DATA, "off")
    monkeypatch.setenv(CHECKS, "off")
    reset_machine("Ascend910B1", 1)
    short = np.zeros(1024, "f4")
    with pytest.raises(KernelError) as caught:
        add_queues[1](short, short.copy(), short.copy(), 4096)
    assert caught.value.diagnosis.rule == "kernel.gm_range"


def test_an_unknown_mode_is_refused():
    assert modes.current({}) == modes.Mode(True, True)
    assert modes.current({CHECKS: "OFF", DATA: "on"}) == modes.Mode(False, True)
    with pytest.raises(ValueError, match="CANNLAB_KERNEL_DATA is 'no': set it to on or off"):
        modes.current({DATA: "no"})
