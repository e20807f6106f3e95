"""Chaos: races show as wrong numbers, correct kernels give the same ones in every order."""

import numpy as np
import pytest
from add_queues import TILE, add_queues
from asc_pieces import ordered, rules, run_on_core, view
from cores_kernels import PART, SIZE, chain, in_turn, matmul_leaky, shared_sum

import cannlab.ascendc as asc
from cannlab.ascendc.runtime.jit import emulate
from cannlab.machine import core, machine

E = asc.HardEvent
SEEDS = range(12)


def ub(at, count=64, dtype=asc.float32):
    return asc.LocalTensor(dtype, asc.TPosition.VECIN, at, count)


def outcomes(result, *arrays):
    """What the seeds make of a record: how many different outputs, and whether one is the launch's own."""
    found = {tuple(out.tobytes() for out in core.shuffled(result.trace, arrays, seed)) for seed in SEEDS}
    return len(found), tuple(out.tobytes() for out in result.outputs) in found


def ones(count, dtype="f4"):
    return np.ones(count, dtype)


def floats(seed, shape, dtype="f4"):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


X, SYNC, MIXED = floats(0, 4 * PART), np.zeros(32, "i4"), (2, SIZE, SIZE)
CLEAN = {
    "queues": (add_queues, 2, (np.arange(8 * TILE, dtype="f4"), ones(8 * TILE), ones(8 * TILE), 4 * TILE)),
    "barrier": (shared_sum, 4, (X, ones(4 * PART), SYNC, ones(4 * PART), 0)),
    "soft": (shared_sum, 4, (X, ones(4 * PART), SYNC, ones(4 * PART), 1)),
    "chain": (chain, 4, (X, SYNC, ones(4 * PART))),
    "turns": (in_turn, 3, (np.random.default_rng(0).random(6 * PART, "f4"), SYNC, ones(PART), 2)),
    "mixed": (matmul_leaky, 2, (floats(1, MIXED, "f2"), floats(2, MIXED, "f2"), ones(MIXED), ones(MIXED))),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_correct_kernel_gives_the_same_in_every_order(name):
    kernel, blocks, arrays = CLEAN[name]
    result = emulate(kernel, blocks, *arrays)
    assert result.diagnoses == []
    assert outcomes(result, *(array for array in arrays if isinstance(array, np.ndarray))) == (1, True)


def add_one(x, z, missing):
    a, b = ub(0), ub(256)
    for turn in range(2):
        if turn and missing != "V_MTE2":
            asc.wait_flag(E.V_MTE2, 0)
        asc.data_copy(a, view(x)[turn * 64 :], count=64)
        if missing != "MTE2_V":
            ordered(E.MTE2_V)
        if turn and missing != "MTE3_V":
            asc.wait_flag(E.MTE3_V, 0)
        asc.adds(b, a, 1.0, count=64)
        if not turn and missing != "V_MTE2":
            asc.set_flag(E.V_MTE2, 0)
        if missing != "V_MTE3":
            ordered(E.V_MTE3)
        asc.data_copy(view(z)[turn * 64 :], b, count=64)
        if not turn and missing != "MTE3_V":
            asc.set_flag(E.MTE3_V, 0)


@pytest.mark.parametrize("missing", ["", "MTE2_V", "V_MTE2", "V_MTE3", "MTE3_V"])
def test_each_missing_flag_shows_as_wrong_numbers(missing):
    x, z = np.arange(128, dtype="f4"), np.zeros(128, "f4")
    result = run_on_core(lambda x, z: add_one(x, z, missing), x, z)
    assert rules(result) == (["race"] if missing else [])
    different, _ = outcomes(result, x, z)
    assert (different > 1) == bool(missing)


@pytest.mark.parametrize("meet", [True, False])
def test_a_missing_barrier_between_blocks(meet):
    def body(x, z):
        me = asc.get_block_idx()
        a = ub(0)
        asc.data_copy(a, view(x)[me * 64 :], count=64)
        ordered(E.MTE2_V)
        asc.adds(a, a, 1.0, count=64)
        ordered(E.V_MTE3)
        asc.data_copy(view(x)[me * 64 :], a, count=64)
        if meet:
            asc.sync_all()
        ordered(E.MTE3_MTE2)
        asc.data_copy(a, view(x)[(1 - me) * 64 :], count=64)
        ordered(E.MTE2_MTE3)
        asc.data_copy(view(z)[me * 64 :], a, count=64)

    x, z = np.arange(128, dtype="f4"), np.zeros(128, "f4")
    result = run_on_core(body, x, z, blocks=2)
    assert (outcomes(result, x, z)[0] > 1) != meet


def test_the_automatic_synchronisation_holds_in_every_order():
    def body(x, z):
        a = ub(0)
        asc.data_copy(a, view(x), count=64)
        a.set_value(3, 7.0)
        asc.adds(a, a, 1.0, count=64)
        a.set_value(4, 9.0)
        ordered(E.V_MTE3)
        asc.data_copy(view(z), a, count=64)

    x, z = np.arange(64, dtype="f4"), np.zeros(64, "f4")
    auto = run_on_core(body, x, z)
    assert rules(auto) == []
    assert outcomes(auto, x, z) == (1, True)
    strict = run_on_core(body, x, z, sync="strict")
    assert "race" in rules(strict)
    assert outcomes(strict, x, z)[0] > 1


def test_registers_keep_their_order():
    def body(x, z):
        a, b = ub(0, 64, asc.int32), ub(256, 128, asc.float16)
        asc.data_copy(a, view(x), count=64)
        ordered(E.MTE2_V)
        for turn, scale in enumerate((1.0, 2.0)):
            asc.set_deq_scale(scale)
            asc.cast(b[turn * 64 :], a, asc.RoundMode.CAST_NONE, count=64)
        ordered(E.V_MTE3)
        asc.data_copy(view(z), b, count=128)

    x, z = np.arange(64, dtype="i4"), np.zeros(128, "f2")
    result = run_on_core(body, x, z)
    np.testing.assert_array_equal(result.outputs[1].view("f2"), np.concatenate([x, 2 * x]))
    assert outcomes(result, x, z) == (1, True)


@asc.jit
def forgetful(x: asc.GlobalAddress, z: asc.GlobalAddress):
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
    asc.data_copy(tile, x_gm, count=64)
    asc.adds(tile, tile, 1.0, count=64)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(z_gm, tile, count=64)


def test_a_launch_under_chaos_gives_wrong_numbers_and_tells_the_race(monkeypatch):
    x = np.arange(64, dtype="f4")
    seen = set()
    for seed in SEEDS:
        monkeypatch.setenv("CANNLAB_CHAOS", str(seed))
        z = np.zeros(64, "f4")
        forgetful[1](x, z)
        again = np.zeros(64, "f4")
        forgetful[1](x, again)
        np.testing.assert_array_equal(z, again)
        seen.add(np.array_equal(z, x + 1))
    assert seen == {True, False}
    assert {found["rule"] for found in machine().record.faults} == {"kernel.race"}
    monkeypatch.setenv("CANNLAB_CHAOS", "often")
    with pytest.raises(ValueError, match="CANNLAB_CHAOS"):
        forgetful[1](x, z)
