"""Cores that wait for each other: results, order, races, deadlocks, replay and time."""

import signal
import threading
import time

import numpy as np
import pytest
from asc_pieces import ordered, replayed, rules, run_on_core, view
from cores_kernels import PART, SIZE, chain, in_turn, matmul_leaky, shared_sum, who_am_i

import cannlab.ascendc as asc
from cannlab.ascendc.runtime import config
from cannlab.ascendc.runtime.jit import emulate
from cannlab.ascendc.runtime.launcher import KernelError
from cannlab.machine import core, machine
from cannlab.machine.core.soundness import Unsound, check
from cannlab.trace.kernel import KernelTrace

E = asc.HardEvent
PIPE = asc.PipeID


def ub(at, count=64, dtype=asc.float32):
    return asc.LocalTensor(dtype, asc.TPosition.VECIN, at, count)


def zeros(count, dtype="int32"):
    return np.zeros(count, dtype)


def fault(body, *arrays, **options):
    with pytest.raises(core.KernelFault) as caught:
        run_on_core(body, *arrays, **options)
    return caught.value.diagnosis


# -- kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("soft", [0, 1])
@pytest.mark.parametrize("blocks", [1, 2, 12])
def test_all_blocks_use_the_parts_of_all(blocks, soft):
    x = np.random.default_rng(blocks).standard_normal(blocks * PART).astype("f4")
    work, z = np.zeros_like(x), np.zeros_like(x)
    shared_sum[blocks](x, work, zeros(8 * blocks), z, soft)
    total = np.zeros(PART, "f4")
    for part in (2 * x).reshape(blocks, PART):
        total += part
    np.testing.assert_array_equal(z.reshape(blocks, PART), np.tile(total, (blocks, 1)))
    assert not machine().record.faults


@pytest.mark.parametrize("blocks", [2, 9])
def test_each_block_waits_for_the_one_before(blocks):
    x = np.arange(blocks * PART, dtype="f4")
    z = np.zeros_like(x)
    chain[blocks](x, zeros(8 * blocks), z)
    np.testing.assert_array_equal(z.reshape(blocks, PART), np.cumsum(x.reshape(blocks, PART), axis=0))


def test_blocks_take_turns_so_that_a_sum_of_floats_is_the_same():
    blocks, turns = 6, 3
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((turns * blocks, PART)) * 10.0 ** rng.integers(-3, 4, (turns * blocks, 1))).astype("f4")
    z = zeros(PART, "f4")
    in_turn[blocks](x, zeros(8 * blocks), z, turns)
    wanted = zeros(PART, "f4")
    for row in x:
        wanted += row
    np.testing.assert_array_equal(z, wanted)


def test_vector_cores_go_on_with_what_their_cube_core_made():
    groups = 3
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (groups, SIZE, SIZE)).astype("f2") for _ in range(2))
    work, z = (np.zeros((groups, SIZE, SIZE), "f4") for _ in range(2))
    matmul_leaky[groups](a, b, work, z)
    product = a.astype("f4") @ b.astype("f4")
    np.testing.assert_allclose(z, np.where(product >= 0, product, np.float32(0.1) * product), rtol=1e-6)
    record = machine().record
    task = next(row for row in record.tasks.rows() if record.strings[row["name"]] == "matmul_leaky")
    assert (record.strings[task["core_type"]], task["blocks"]) == ("MIX_AIC", groups)


def test_numbers_of_a_mixed_launch():
    z = zeros(128 * 8)
    result = emulate(who_am_i, 3, z)
    rows = result.outputs[0].view("i4").reshape(128, 8)
    assert [tuple(row[1:5]) for row in rows[:6]] == [(block, 3, block % 2, 2) for block in range(6)]
    assert [tuple(row[1:5]) for row in rows[64:67]] == [(block, 3, 0, 1) for block in range(3)]
    assert result.diagnoses == []


@pytest.mark.parametrize(
    ("kind", "units"),
    [("MIX_AIV_1_0", "AIV"), ("MIX_AIC_1_0", "AIC"), ("MIX_AIC_1_1", "MIX_1_1"), ("AIV_ONLY", "AIV")],
)
def test_kernel_types(kind, units):
    from cannlab.ascendc.runtime.compiler import CompileOptions

    assert CompileOptions(kernel_type=config.KernelType[kind]).cores == units


def test_replay_and_record_of_waiting_cores():
    for kernel, blocks, arrays in (
        (shared_sum, 5, (np.ones(5 * PART, "f4"), zeros(5 * PART, "f4"), zeros(40), zeros(5 * PART, "f4"), 1)),
        (chain, 4, (np.ones(4 * PART, "f4"), zeros(32), zeros(4 * PART, "f4"))),
        (in_turn, 3, (np.ones(6 * PART, "f4"), zeros(24), zeros(PART, "f4"), 2)),
        (
            matmul_leaky,
            2,
            (*(np.ones((2, SIZE, SIZE), "f2") for _ in range(2)), *(zeros((2, SIZE, SIZE), "f4") for _ in range(2))),
        ),
    ):
        result = emulate(kernel, blocks, *arrays)
        assert result.diagnoses == []
        given = [array for array in arrays if isinstance(array, np.ndarray)]
        replayed(result, *given)
        again = emulate(kernel, blocks, *arrays)
        assert again.trace.words == result.trace.words
        back = KernelTrace.from_arrays(result.trace.to_arrays())
        np.testing.assert_array_equal(core.timing(back).spans, result.timing.spans)


# -- who knows what ----------------------------------------------------------------------------------


def swap(barrier):
    """Each block adds 1 to its part and copies the next block's part out."""

    def body(x, z, *rest):
        me, num = asc.get_block_idx(), asc.get_block_num()
        a = ub(0)
        asc.data_copy(a, view(x)[me * 64 :], count=64)
        ordered(E.MTE2_V)
        asc.adds(a, a, 1.0, count=64)
        ordered(E.V_MTE3)
        asc.data_copy(view(x)[me * 64 :], a, count=64)
        barrier(*rest)
        ordered(E.MTE3_MTE2)
        asc.data_copy(a, view(x)[((me + 1) % num) * 64 :], count=64)
        ordered(E.MTE2_MTE3)
        asc.data_copy(view(z)[me * 64 :], a, count=64)

    return body


def no_barrier(*rest):
    pass


def hard(*rest):
    asc.sync_all()


def soft(sync):
    asc.sync_all(view(sync), ub(4096, 8 * 64, asc.int32))


def flags(*rest):
    asc.cross_core_set_flag(3, 0, PIPE.PIPE_MTE3)
    asc.cross_core_wait_flag(3, 0, PIPE.PIPE_MTE3)


@pytest.mark.parametrize("model", ["auto", "strict"])
@pytest.mark.parametrize("barrier", [hard, soft, flags])
def test_a_barrier_between_writing_and_reading(barrier, model):
    x, z = np.arange(8 * 64, dtype="f4"), zeros(8 * 64, "f4")
    result = run_on_core(swap(barrier), x, z, zeros(64), blocks=8, sync=model)
    assert rules(result) == []
    np.testing.assert_array_equal(result.outputs[1].view("f4"), np.roll(x + 1, -64))
    replayed(result, x, z, zeros(64))


def test_without_a_barrier_it_is_a_race():
    result = run_on_core(swap(no_barrier), np.ones(512, "f4"), zeros(512, "f4"), blocks=8)
    assert set(rules(result)) == {"race_blocks"}


def test_a_flag_carries_only_what_its_pipe_has_done():
    """The set stands on the vector pipe: the copy out on MTE3 may still be under way."""

    def wrong():
        asc.cross_core_set_flag(3, 0, PIPE.PIPE_V)
        asc.cross_core_wait_flag(3, 0, PIPE.PIPE_V)

    result = run_on_core(swap(lambda *rest: wrong()), np.ones(512, "f4"), zeros(512, "f4"), blocks=8)
    assert "race_blocks" in rules(result)


def test_part_of_the_blocks_meet():
    """used_cores: block 2 takes no part, and who reads its bytes races with it."""

    def body(x, z, sync):
        me = asc.get_block_idx()
        a = ub(0)
        asc.data_copy(a, view(x), count=64)
        ordered(E.MTE2_MTE3)
        asc.data_copy(view(z)[me * 64 :], a, count=64)
        if me < 2:
            asc.sync_all(view(sync), ub(4096, 8 * 3, asc.int32), 2)
            ordered(E.MTE3_MTE2)
            asc.data_copy(a, view(z)[other(me) * 64 :], count=64)

    arrays = (np.ones(64, "f4"), zeros(192, "f4"), zeros(24))

    def other(me):
        return 1 - me

    assert rules(run_on_core(body, *arrays, blocks=3)) == []

    def other(me):  # noqa: F811
        return 2

    assert rules(run_on_core(body, *arrays, blocks=3)) == ["race_blocks"]


def test_knowledge_is_handed_on():
    """0 tells 1, 1 tells 2: 2 knows what 0 did."""

    def body(z, sync, *, second=True):
        me = asc.get_block_idx()
        a, scratch, flags_gm = ub(0), ub(4096, 8, asc.int32), view(sync)
        if me == 0:
            asc.duplicate(a, 1.0, count=64)
            ordered(E.V_MTE3)
            asc.data_copy(view(z), a, count=64)
            asc.ib_set(flags_gm, scratch, 0, 0)
        if me == 1:
            if second:
                asc.ib_wait(flags_gm, scratch, 0, 0)
            asc.ib_set(flags_gm, scratch, 1, 0)
        if me == 2:
            asc.ib_wait(flags_gm, scratch, 1, 0)
            asc.data_copy(a, view(z), count=64)

    arrays = (zeros(64, "f4"), zeros(24))
    assert rules(run_on_core(body, *arrays, blocks=3)) == []
    cut = run_on_core(lambda z, sync: body(z, sync, second=False), *arrays, blocks=3)
    assert rules(cut) == ["race_blocks"]


def test_atomics_of_all_blocks_are_read_behind_a_barrier_only():
    def body(z, *, meet):
        a = ub(0)
        asc.duplicate(a, 1.0, count=64)
        ordered(E.V_MTE3)
        asc.set_atomic_add(asc.float32)
        asc.data_copy(view(z), a, count=64)
        asc.set_atomic_none()
        if meet == "all":
            asc.sync_all()
        if meet == "pair":
            asc.cross_core_set_flag(1, 1, PIPE.PIPE_MTE3)
            asc.cross_core_wait_flag(1, 1, PIPE.PIPE_MTE3)
        if asc.get_block_idx() == 0:
            ordered(E.MTE3_MTE2)
            asc.data_copy(ub(256), view(z), count=64)

    def found(meet):
        return run_on_core(lambda z: body(z, meet=meet), zeros(64, "f4"), blocks=4)

    assert rules(found("all")) == []
    np.testing.assert_array_equal(found("all").outputs[0].view("f4"), 4)
    assert rules(found("none")) == ["race_blocks"]
    assert rules(found("pair")) == ["race_blocks"]


def test_one_of_two_atomic_writers_is_not_enough():
    """Block 2 waits for the last writer only."""

    def body(z, sync):
        me = asc.get_block_idx()
        a, scratch = ub(0), ub(4096, 8, asc.int32)
        if me < 2:
            asc.duplicate(a, 1.0, count=64)
            ordered(E.V_MTE3)
            asc.set_atomic_add(asc.float32)
            asc.data_copy(view(z), a, count=64)
            asc.set_atomic_none()
        if me == 1:
            asc.ib_set(view(sync), scratch, 1, 0)
        if me == 2:
            asc.ib_wait(view(sync), scratch, 1, 0)
            asc.data_copy(a, view(z), count=64)

    assert rules(run_on_core(body, zeros(64, "f4"), zeros(24), blocks=3)) == ["race_blocks"]


def test_local_buffers_and_flags_of_a_waiting_core_are_its_own():
    def body(x, z):
        me = asc.get_block_idx()
        a = ub(0)
        asc.data_copy(a, view(x)[me * 64 :], count=64)
        asc.set_flag(E.MTE2_MTE3, me)
        asc.sync_all()
        asc.wait_flag(E.MTE2_MTE3, me)
        asc.data_copy(view(z)[me * 64 :], a, count=64)
        asc.sync_all()
        asc.data_copy(a, view(x)[me * 64 :], count=64)

    x = np.arange(256, dtype="f4")
    result = run_on_core(body, x, zeros(256, "f4"), blocks=4)
    assert rules(result) == []
    np.testing.assert_array_equal(result.outputs[1].view("f4"), x)


def test_a_later_block_finds_the_buffers_of_earlier_ones_undefined():
    def body(z):
        a = ub(0)
        if asc.get_block_idx() == 0:
            asc.duplicate(a, 1.0, count=64)
        asc.sync_all()
        asc.pipe_barrier(PIPE.PIPE_ALL)
        if asc.get_block_idx() == 1:
            asc.data_copy(view(z), a, count=64)

    assert rules(run_on_core(body, zeros(64, "f4"), blocks=2)) == ["undefined"]


# -- what goes wrong ---------------------------------------------------------------------------------


def test_a_block_that_never_comes():
    def body(z):
        if asc.get_block_idx() != 3:
            asc.sync_all()

    found = fault(body, zeros(64), blocks=6)
    assert (found.rule, found.code) == ("kernel.deadlock", "507014")
    assert found.facts["count"] == 5
    assert "sync_all" in found.what
    assert "block 3 (AIV) has ended without it" in found.what
    assert found.where is not None


def test_a_launch_that_ends_in_a_deadlock_says_so_at_the_launch():
    @asc.jit
    def stuck(z: asc.GlobalAddress):
        if asc.get_block_idx() == 0:
            asc.cross_core_wait_flag(4, 0, asc.PipeID.PIPE_S)
        z_gm = asc.GlobalTensor()
        z_gm.set_global_buffer(z)

    before = threading.active_count()
    with pytest.raises(KernelError) as caught:
        stuck[2](zeros(64))
    assert "rtStreamSynchronize returned 507014" in str(caught.value)
    assert "flag 4 (mode 0)" in caught.value.diagnosis.what
    assert threading.active_count() == before


def test_two_cores_that_wait_for_each_other():
    def body(z, sync):
        me = asc.get_block_idx()
        asc.ib_wait(view(sync), ub(0, 8, asc.int32), 1 - me, 0)
        asc.ib_set(view(sync), ub(0, 8, asc.int32), me, 0)

    found = fault(body, zeros(64), zeros(16), blocks=2)
    assert found.rule == "kernel.deadlock"
    assert "ib_set of slot 1, event 0" in found.what
    assert "ib_set of slot 0, event 0" in found.what


def test_more_blocks_than_cores():
    def body(z):
        asc.sync_all()

    assert rules(run_on_core(body, zeros(64), blocks=48)) == []
    found = fault(body, zeros(64), blocks=49)
    assert "block 48 (AIV) cannot begin (the chip runs 48 at a time)" in found.what


def test_blocks_beyond_the_cores_may_wait_for_those_that_are_over():
    def body(z, sync):
        me = asc.get_block_idx()
        scratch = ub(0, 8, asc.int32)
        if me > 0:
            asc.ib_wait(view(sync), scratch, me - 1, 0)
        if me < 59:
            asc.ib_set(view(sync), scratch, me, 0)

    result = run_on_core(body, zeros(64), zeros(8 * 60), blocks=60)
    assert rules(result) == []
    starts = [start for _, start, _ in result.timing.blocks]
    assert min(starts[48:]) > max(starts[:48])


def test_the_other_kind_of_core_is_missing():
    found = fault(lambda z: asc.cross_core_wait_flag(1, 2, PIPE.PIPE_S), zeros(64))
    assert "only an AIC can set" in found.what


def test_flags_of_the_wrong_number_or_mode():
    assert fault(lambda z: asc.cross_core_set_flag(11, 0, PIPE.PIPE_S), zeros(64)).rule == "kernel.cross_flag_id"
    for call in (
        lambda z: asc.cross_core_set_flag(1, 3, PIPE.PIPE_S),
        lambda z: asc.cross_core_set_flag(1, 0, PIPE.PIPE_ALL),
    ):
        with pytest.raises(ValueError, match="cross_core_set_flag"):
            run_on_core(call, zeros(64))


def test_a_flag_set_too_often():
    def body(z, times):
        for _ in range(times):
            asc.cross_core_set_flag(1, 0, PIPE.PIPE_S)
        for _ in range(times):
            asc.cross_core_wait_flag(1, 0, PIPE.PIPE_S)

    assert rules(run_on_core(lambda z: body(z, 15), zeros(64))) == []
    assert fault(lambda z: body(z, 16), zeros(64)).rule == "kernel.cross_flag_full"


def test_a_flag_that_nobody_waits_for():
    result = run_on_core(lambda z: asc.cross_core_set_flag(1, 0, PIPE.PIPE_S), zeros(64), blocks=2)
    assert rules(result) == ["cross_flag_leaked"]


def test_one_vector_core_of_two_forgets_to_wait():
    @asc.jit(kernel_type=config.KernelType.MIX_AIC_1_2)
    def forgets(z: asc.GlobalAddress):
        if asc.ascend_is_aic():
            asc.cross_core_set_flag(1, 2, asc.PipeID.PIPE_FIX)
        else:
            if asc.get_sub_block_idx() == 0:
                asc.cross_core_wait_flag(1, 2, asc.PipeID.PIPE_MTE2)

    assert rules(emulate(forgets, 1, zeros(64))) == ["cross_flag_leaked"]


@pytest.mark.parametrize("value", [1, -1])
def test_a_workspace_that_is_not_zero(value):
    sync = np.full(16, value, "i4")
    for call in (
        lambda z, s: asc.sync_all(view(s), ub(0, 16, asc.int32)),
        lambda z, s: asc.notify_next_block(view(s), ub(0, 24, asc.int32)),
    ):
        assert "sync_workspace" in rules(run_on_core(call, zeros(64), sync, blocks=2))


def test_workspaces_that_are_too_small():
    soft_sync = lambda count, dtype: lambda z, s: asc.sync_all(view(s), ub(0, count, dtype))  # noqa: E731
    assert fault(soft_sync(8, asc.int32), zeros(64), zeros(16), blocks=2).rule == "kernel.tensor_range"
    assert fault(soft_sync(192, asc.int32), zeros(64), zeros(4), blocks=24).rule == "kernel.gm_range"
    assert fault(soft_sync(16, asc.float32), zeros(64), zeros(16), blocks=2).rule == "kernel.dtype"
    too_many = lambda z, s: asc.sync_all(view(s), ub(0, 16, asc.int32), 3)  # noqa: E731
    assert fault(too_many, zeros(64), zeros(16), blocks=2).rule == "kernel.sync_cores"
    with pytest.raises(TypeError, match="GlobalTensor"):
        run_on_core(lambda z, s: asc.sync_all(ub(0), ub(0)), zeros(64), zeros(16))


def test_what_pyasc_cannot_pass_on():
    for call in (
        lambda z, s: asc.sync_all(is_aiv_only=False),
        lambda z, s: asc.ib_set(view(s), ub(0, 8, asc.int32), 0, 0, False),
    ):
        with pytest.raises(TypeError, match="is_aiv_only"):
            run_on_core(call, zeros(64), zeros(16))


def test_a_vector_instruction_on_a_cube_core():
    @asc.jit(kernel_type=config.KernelType.MIX_AIC_1_2)
    def everywhere(z: asc.GlobalAddress):
        tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
        asc.duplicate(tile, 1.0, count=64)

    with pytest.raises(core.KernelFault) as caught:
        emulate(everywhere, 1, zeros(64))
    assert caught.value.diagnosis.rule == "kernel.core_kind"


def test_a_fault_in_one_core_ends_all():
    def body(z):
        me = asc.get_block_idx()
        if me == 2:
            asc.trap()
        asc.sync_all()

    before = threading.active_count()
    for _ in range(3):
        assert fault(body, zeros(64), blocks=5).rule == "kernel.trap"
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_what_a_body_raises_comes_out_whichever_core_raised_it():
    for who in (0, 1, 3):

        def body(z, who=who):
            asc.sync_all()
            if asc.get_block_idx() == who:
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            run_on_core(body, zeros(64), blocks=4)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.parametrize("endless", [0, 2])
def test_ctrl_c_ends_a_launch_whose_cores_wait(endless):
    def body(z):
        me = asc.get_block_idx()
        if me == endless:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            while True:
                pass
        asc.sync_all()

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_on_core(body, zeros(64), blocks=3)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert rules(run_on_core(swap(hard), np.ones(128, "f4"), zeros(128, "f4"), blocks=2)) == []


# -- time --------------------------------------------------------------------------------------------


def test_a_barrier_ends_when_the_slowest_has_come():
    def body(z, *, slow):
        a = ub(0)
        asc.duplicate(a, 1.0, count=64)
        if asc.get_block_idx() == slow:
            for _ in range(100):
                asc.adds(a, a, 1.0, count=64)
        asc.sync_all()

    def times(slow):
        result = run_on_core(lambda z: body(z, slow=slow), zeros(64), blocks=4)
        return result.timing

    quick, first, last = times(-1), times(0), times(3)
    assert first.ns == last.ns > quick.ns + 1000
    ends = [end for _, _, end in last.blocks]
    assert max(ends) - min(ends) < 20


def test_waiting_is_paid_once_per_flag_and_memory_is_slower():
    def time_of(barrier):
        return run_on_core(swap(barrier), np.ones(512, "f4"), zeros(512, "f4"), zeros(64), blocks=8).timing.ns

    assert time_of(no_barrier) < time_of(flags) <= time_of(hard) < time_of(soft)


def test_waiting_is_no_work_in_the_timeline():
    from cannlab.profiler.kernel_spans import kernel_spans

    groups = 2
    arrays = [
        *(np.ones((groups, SIZE, SIZE), "f2") for _ in range(2)),
        *(zeros((groups, SIZE, SIZE), "f4") for _ in "ab"),
    ]
    spans = kernel_spans(emulate(matmul_leaky, groups, *arrays).trace)
    assert not {span.name for span in spans} & {"cross_core_wait_flag", "cross_core_set_flag", "block_pause"}
    assert {span.core for span in spans if span.pipe == "M"} == {0, 3}
    assert {span.core for span in spans if span.pipe == "V"} == {1, 2, 4, 5}
    product = max(span.end for span in spans if span.pipe == "FIXP" and span.core == 0)
    assert min(span.start for span in spans if span.pipe == "V" and span.core in (1, 2)) > product


def test_kernels_without_waits_start_no_thread(monkeypatch):
    import _thread

    monkeypatch.setattr(_thread, "start_new_thread", lambda *_: pytest.fail("a thread was started"))
    result = run_on_core(lambda z: asc.duplicate(ub(0), 1.0, count=64), zeros(64), blocks=3)
    assert not any(entry.op == 201 for entry in result.trace)


# -- records -----------------------------------------------------------------------------------------


def altered(trace, change):
    made = KernelTrace(trace.meta)
    for number, entry in enumerate(trace):
        for each in change(number, entry):
            made.append(each)
    return made


def test_records_that_no_launch_makes():
    x, z, sync = np.ones(128, "f4"), zeros(128, "f4"), zeros(16)
    result = run_on_core(swap(soft), x, z, sync, blocks=2)
    check(result.trace)

    def without(op):
        return altered(result.trace, lambda number, entry: [] if entry.op == op else [entry])

    with pytest.raises(Unsound, match="inside block"):
        check(without(201))
    with pytest.raises(ValueError, match="no core has released"):
        core.replay(without(187), [x, z, sync])
    with pytest.raises(Unsound, match="another core's name"):
        check(
            altered(
                result.trace,
                lambda number, entry: [entry._replace(immediates=(0, 1)) if entry.op == 187 else entry],
            )
        )
    cut = altered(result.trace, lambda number, entry: [entry] if number < len(result.trace) // 2 else [])
    with pytest.raises(Unsound):
        check(cut)
    odd = altered(result.trace, lambda number, entry: [entry._replace(operands=()) if entry.op == 188 else entry])
    with pytest.raises(Unsound):
        check(odd)


def test_a_record_with_more_cores_at_work_than_the_chip_has():
    """A launch would have ended in a deadlock; its record cannot exist."""
    made = KernelTrace(run_on_core(hard, zeros(64), blocks=2).trace.meta | {"blocks": 49})
    for block in range(49):
        made.add(200, block, 0, 0, 0, 0, (block, 49), ())
        made.add(185, block, 5, 0, 0, 0, (), ())
        if block < 48:
            made.add(201, block, 0, 0, 0, 0, (), ())
    for block in (48, *range(48)):
        made.add(186, block, 0, 0, 0, 0, (), ())
    check(made)
    with pytest.raises(ValueError, match="cores of the chip"):
        core.replay(made, [zeros(64)])
