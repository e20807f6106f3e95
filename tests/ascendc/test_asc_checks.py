"""Each rule of the hardware with a kernel that breaks it, and clean kernels that break none."""

import re
from pathlib import Path

import numpy as np
import pytest
from add_flags import add_flags
from add_queues import add_queues
from asc_pieces import rules, run_on_core

import cannlab.ascendc as asc
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.errors import tables
from cannlab.machine import core, machine

E = asc.HardEvent
POS = asc.TPosition
HERE = Path(__file__).parent


def gm(address):
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def ub(at, count=64, dtype=asc.float32):
    return asc.LocalTensor(dtype, POS.VECIN, at, count)


def sync(event, identity=0):
    asc.set_flag(event, identity)
    asc.wait_flag(event, identity)


def broken(body, *arrays, **options):
    """Ids of the rules that a piece breaks, a fault included."""
    if not arrays:
        arrays = (np.ones(256, "float32"), np.zeros(256, "float32"))
    try:
        return rules(run_on_core(body, *arrays, **options))
    except core.KernelFault as fault:
        return [fault.diagnosis.rule.removeprefix("kernel.")]


# -- races -------------------------------------------------------------------------------------------


def add_one(x, z, *, skip=()):
    """z = x + 1 with flags; ``skip`` leaves some of them out."""
    a, b = ub(0), ub(256)
    asc.data_copy(a, gm(x), count=64)
    if "in" not in skip:
        sync(E.MTE2_V)
    asc.adds(b, a, 1.0, count=64)
    if "out" not in skip:
        sync(E.V_MTE3)
    asc.data_copy(gm(z), b, count=64)


def test_flags_in_order_are_clean():
    assert broken(add_one) == []
    assert broken(add_one, sync="strict") == []


@pytest.mark.parametrize("skip", ["in", "out"])
@pytest.mark.parametrize("model", ["auto", "strict"])
def test_a_missing_pair_of_flags_is_a_race(skip, model):
    assert broken(lambda x, z: add_one(x, z, skip=(skip,)), sync=model) == ["race"]


def test_a_race_names_pipes_event_and_both_lines():
    def body(x, z):
        add_one(x, z, skip=("in",))

    found = run_on_core(body, np.ones(64, "f4"), np.zeros(64, "f4")).diagnoses[0]
    assert found.facts["event"] == "MTE2_V"
    assert "set_flag(MTE2_V, id)" in found.remedy
    text = (HERE / "test_asc_checks.py").read_text().splitlines()
    assert "asc.adds(b, a" in text[found.where.line - 1]
    assert "asc.data_copy(a, gm(x)" in text[found.others[0][1].line - 1]


def test_refilling_a_buffer_that_may_still_be_read():
    def body(x, z, fixed):
        a, b = ub(0), ub(256)
        for turn in range(2):
            if turn and fixed:
                sync(E.V_MTE2, 1)
            asc.data_copy(a, gm(x)[turn * 64 :], count=64)
            sync(E.MTE2_V)
            if turn:
                sync(E.MTE3_V, 2)
            asc.adds(b, a, 1.0, count=64)
            sync(E.V_MTE3)
            asc.data_copy(gm(z)[turn * 64 :], b, count=64)

    assert broken(lambda x, z: body(x, z, True)) == []
    assert broken(lambda x, z: body(x, z, False)) == ["race"]


def test_the_right_buffer_with_the_wrong_event():
    def body(x, z):
        a = ub(0)
        asc.data_copy(a, gm(x), count=64)
        sync(E.MTE2_V)
        asc.data_copy(gm(z), a, count=64)

    assert broken(body) == ["race"]


def test_waiting_scalar_code_holds_everything_back():
    def body(x, z):
        a = ub(0)
        asc.data_copy(a, gm(x), count=64)
        sync(E.MTE2_S)
        asc.adds(a, a, 1.0, count=64)
        sync(E.V_S)
        asc.data_copy(gm(z), a, count=64)

    assert broken(body, sync="strict") == []


def test_scalar_accesses_are_synchronised_in_auto_only():
    def body(x, z):
        a = ub(0)
        asc.data_copy(a, gm(x), count=64)
        a.get_value(0)
        a.set_value(1, 3.0)
        asc.adds(a, a, 1.0, count=64)
        sync(E.V_MTE3)
        asc.data_copy(gm(z), a, count=64)

    assert broken(body) == []
    assert set(broken(body, sync="strict")) == {"race"}


def test_a_chain_on_one_pipe_needs_barriers_in_strict_only():
    def body(x, z, barriers):
        a, b, c = ub(0), ub(256), ub(512)
        asc.data_copy(a, gm(x), count=64)
        sync(E.MTE2_V)
        asc.adds(b, a, 1.0, count=64)
        if barriers:
            asc.pipe_barrier(asc.PipeID.PIPE_V)
        asc.adds(c, b, 1.0, count=64)
        sync(E.V_MTE3)
        asc.data_copy(gm(z), c, count=64)

    assert broken(lambda x, z: body(x, z, False)) == []
    assert broken(lambda x, z: body(x, z, False), sync="strict") == ["race_in_pipe"]
    assert broken(lambda x, z: body(x, z, True), sync="strict") == []


def test_interleaved_strides_do_not_touch():
    """Even blocks are filled by a copy while odd blocks are computed."""

    def body(x, z):
        a = ub(0, 512)
        asc.duplicate(a, 0.0, count=512)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(a, gm(x), repeat_params=asc.DataCopyParams(8, 1, 0, 1))
        asc.adds(a[8:], a[8:], 1.0, mask=64, repeat_times=1, repeat_params=asc.UnaryRepeatParams(2, 2, 16, 16))
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(gm(z), a, count=64)

    assert broken(body, sync="strict") == []
    assert broken(lambda x, z: overlapping(x, z)) == ["race"]


def overlapping(x, z):
    a = ub(0, 512)
    asc.duplicate(a, 0.0, count=512)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(a, gm(x), repeat_params=asc.DataCopyParams(8, 1, 0, 1))
    asc.adds(a, a, 1.0, mask=64, repeat_times=1, repeat_params=asc.UnaryRepeatParams(2, 2, 16, 16))
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(gm(z), a, count=64)


def shift_by(x, z, offset):
    """Each block copies 64 elements of x to z, ``offset`` behind its own part."""
    start = asc.get_block_idx() * 64
    a = ub(0)
    asc.data_copy(a, gm(x + start), count=64)
    sync(E.MTE2_MTE3)
    asc.data_copy(gm(z + start + offset), a, count=64)


def test_blocks_on_their_own_parts():
    x, z = np.arange(512, dtype="f4"), np.zeros(512, "f4")
    assert broken(lambda x, z: shift_by(x, z, 0), x, z, blocks=4) == []


def test_blocks_that_write_into_each_other():
    def body(x, z):
        a = ub(0)
        asc.data_copy(a, gm(x + asc.get_block_idx() * 64), count=64)
        sync(E.MTE2_MTE3)
        asc.data_copy(gm(z), a, count=64)

    x, z = np.arange(512, dtype="f4"), np.zeros(512, "f4")
    assert broken(body, x, z, blocks=2) == ["race_blocks"]
    # The same values from every block are no race (the overlapping tail of the last block, for one).
    assert broken(body, np.ones(512, "f4"), z, blocks=2) == []


def test_blocks_that_read_what_another_writes():
    def body(x):
        start = asc.get_block_idx() * 64
        a = ub(0)
        asc.data_copy(a, gm(x + start), count=64)
        sync(E.MTE2_MTE3)
        asc.data_copy(gm(x + start + 64), a, count=64)

    assert "race_blocks" in broken(body, np.arange(512, dtype="f4"), blocks=2)


def test_shared_inputs_are_no_race():
    def body(x, z):
        a = ub(0)
        asc.data_copy(a, gm(x), count=64)
        sync(E.MTE2_MTE3)
        asc.data_copy(gm(z + asc.get_block_idx() * 64), a, count=64)

    assert broken(body, np.ones(64, "f4"), np.zeros(512, "f4"), blocks=8) == []


# -- flags -------------------------------------------------------------------------------------------


def test_wait_without_set_hangs():
    with pytest.raises(core.KernelFault) as caught:
        run_on_core(lambda x: asc.wait_flag(E.MTE2_V, 0), np.zeros(8, "f4"))
    assert caught.value.diagnosis.rule == "kernel.wait_without_set"
    assert caught.value.diagnosis.code == "507014"


def test_set_without_wait_leaks():
    assert broken(lambda x, z: asc.set_flag(E.MTE2_V, 0)) == ["flag_leaked"]


def test_set_twice():
    def body(x, z):
        asc.set_flag(E.MTE2_V, 0)
        asc.set_flag(E.MTE2_V, 0)
        asc.wait_flag(E.MTE2_V, 0)

    assert broken(body) == ["flag_set_twice"]


def test_event_ids():
    assert broken(lambda x, z: sync(E.MTE2_V, 8)) == ["event_id"]
    result = run_on_core(lambda x: sync(E.MTE2_V, 6), np.zeros(8, "f4"))
    assert [w.rule for w in result.warnings] == ["kernel.reserved_event"]
    assert broken(lambda x, z: sync(E.MTE2_V, 5)) == []


def test_barrier_on_the_scalar_pipe():
    assert broken(lambda x, z: asc.pipe_barrier(asc.PipeID.PIPE_S)) == ["barrier_scalar"]


# -- queues ------------------------------------------------------------------------------------------


def queues(x, z, *, skip=(), turns=4, buffers=2, tail=None):
    """z = x + 1 through queues; ``skip`` leaves calls out."""
    pipe = asc.TPipe()
    q_in, q_out = asc.TQue(POS.VECIN, 1), asc.TQue(POS.VECOUT, 1)
    pipe.init_buffer(q_in, buffers, 256)
    pipe.init_buffer(q_out, buffers, 256)
    for turn in range(turns):
        a = q_in.alloc_tensor(asc.float32)
        asc.data_copy(a, gm(x)[turn * 64 :], count=64)
        if "enque" not in skip:
            q_in.enque(a)
        if "use enqueued" in skip:
            asc.adds(a, a, 0.0, count=64)
        if "deque" not in skip:
            a = q_in.deque(asc.float32)
        b = q_out.alloc_tensor(asc.float32)
        asc.adds(b, a, 1.0, count=64)
        q_out.enque(b)
        if "free" not in skip:
            q_in.free_tensor(a)
        if "use freed" in skip:
            asc.adds(b, a, 1.0, count=64)
        b = q_out.deque(asc.float32)
        asc.data_copy(gm(z)[turn * 64 :], b, count=64)
        q_out.free_tensor(b)
        if "free twice" in skip:
            q_out.free_tensor(b)


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize("model", ["auto", "strict"])
def test_queues_are_clean(buffers, model):
    result = run_on_core(
        lambda x, z: queues(x, z, buffers=buffers), np.ones(256, "f4"), np.zeros(256, "f4"), sync=model
    )
    assert rules(result) == []
    assert result.warnings == []
    assert (result.outputs[1].view("f4") == 2).all()


@pytest.mark.parametrize(
    ("skip", "rule", "code"),
    [
        ("free", "queue_empty", "507014"),
        ("enque", "deque_empty", "507014"),
        ("free twice", "free_twice", "507015"),
    ],
)
def test_queue_calls_that_stop_the_kernel(skip, rule, code):
    with pytest.raises(core.KernelFault) as caught:
        run_on_core(lambda x, z: queues(x, z, skip=(skip,)), np.ones(256, "f4"), np.zeros(256, "f4"))
    assert (caught.value.diagnosis.rule, caught.value.diagnosis.code) == (f"kernel.{rule}", code)


@pytest.mark.parametrize(("skip", "rule"), [("use enqueued", "queue_enqueued"), ("use freed", "queue_freed")])
def test_tensors_used_at_the_wrong_time(skip, rule):
    assert rule in broken(lambda x, z: queues(x, z, skip=(skip,)))


def test_no_queue_events_is_a_race():
    assert "race" in broken(lambda x, z: queues(x, z, skip=("enque", "deque"), turns=1))


def test_another_queues_event_does_not_hide_a_bypassed_one():
    """x never goes through enque and deque; y's event happens to order it, as copies run in order."""

    def body(x, z):
        pipe = asc.TPipe()
        q_x, q_y, q_z = asc.TQue(POS.VECIN, 1), asc.TQue(POS.VECIN, 1), asc.TQue(POS.VECOUT, 1)
        for queue in (q_x, q_y, q_z):
            pipe.init_buffer(queue, 1, 256)
        a, b = q_x.alloc_tensor(asc.float32), q_y.alloc_tensor(asc.float32)
        asc.data_copy(a, gm(x), count=64)
        asc.data_copy(b, gm(x), count=64)
        q_y.enque(b)
        b = q_y.deque(asc.float32)
        c = q_z.alloc_tensor(asc.float32)
        asc.add(c, a, b, count=64)
        q_z.enque(c)
        c = q_z.deque(asc.float32)
        asc.data_copy(gm(z), c, count=64)
        for queue, tensor in ((q_x, a), (q_y, b), (q_z, c)):
            queue.free_tensor(tensor)

    assert broken(body) == ["queue_bypassed"]


def test_a_tensor_of_another_queue():
    def body(x, z):
        pipe = asc.TPipe()
        one, two = asc.TQue(POS.VECIN, 1), asc.TQue(POS.VECIN, 1)
        pipe.init_buffer(one, 1, 256)
        pipe.init_buffer(two, 1, 256)
        two.enque(one.alloc_tensor(asc.float32))

    assert broken(body) == ["foreign_tensor"]


def test_more_tensors_than_the_depth():
    def body(x, z):
        pipe = asc.TPipe()
        queue = asc.TQue(POS.VECIN, 1)
        pipe.init_buffer(queue, 2, 256)
        for _ in range(2):
            queue.enque(queue.alloc_tensor(asc.float32))
        for _ in range(2):
            queue.free_tensor(queue.deque(asc.float32))

    assert broken(body) == ["queue_depth"]


def test_a_result_left_in_the_queue():
    def body(x, z):
        pipe = asc.TPipe()
        queue = asc.TQue(POS.VECOUT, 1)
        pipe.init_buffer(queue, 2, 256)
        queue.enque(queue.alloc_tensor(asc.float32))

    assert broken(body) == ["queue_left"]


def test_buffers_and_live_tensors_are_limited():
    def many(x, z):
        pipe = asc.TPipe()
        for _ in range(65):
            pipe.init_buffer(asc.TQue(POS.VECIN, 1), 1, 32)

    def live(x, z):
        pipe = asc.TPipe()
        for _ in range(9):
            queue = asc.TQue(POS.VECIN, 1)
            pipe.init_buffer(queue, 1, 32)
            queue.alloc_tensor(asc.float32)

    assert broken(many) == ["too_many_buffers"]
    assert broken(live) == ["live_tensors"]


def test_a_queue_bind_gets_no_buffers():
    """As in pyasc 1.1.1: init_buffer takes a TQue, of a TPipe as of a pool."""

    def of_a_pipe(x, z):
        asc.TPipe().init_buffer(asc.TQueBind(POS.VECIN, POS.VECOUT, 1), 2, 256)

    def of_a_pool(x, z):
        pool = asc.TBufPool(POS.VECIN)
        asc.TPipe().init_buf_pool(pool, 1024)
        pool.init_buffer(asc.TQueBind(POS.VECIN, POS.VECOUT, 1), 2, 256)

    for body in (of_a_pipe, of_a_pool):
        with pytest.raises(RuntimeError, match="No viable candidates were found to dispatch init_buffer"):
            broken(body)


def test_pure_copies_through_one_queue():
    def body(x, z, flags=True):
        pipe = asc.TPipe()
        queue = asc.TQue(POS.VECIN, 1)
        pipe.init_buffer(queue, 2, 256)
        for turn in range(4):
            a = queue.alloc_tensor(asc.float32)
            asc.data_copy(a, gm(x)[turn * 64 :], count=64)
            queue.enque(a)
            a = queue.deque(asc.float32)
            if flags:
                asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
                asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
            asc.data_copy(gm(z)[turn * 64 :], a, count=64)
            asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)
            asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)
            queue.free_tensor(a)

    assert broken(body, sync="strict") == []
    # The queue's own events are those of the vector unit.
    assert broken(lambda x, z: body(x, z, flags=False), sync="strict") == ["race"]


def in_place(x, z, depth=0, deque=True, enque=True):
    pipe = asc.TPipe()
    into, out = asc.TQue(POS.VECIN, depth), asc.TQue(POS.VECOUT, depth)
    pipe.init_buffer(into, 2, 256)
    pipe.init_buffer(out, 1, 256)
    a, b, c = (asc.LocalTensor(asc.float32) for _ in range(3))
    into.alloc_tensor(a)
    into.alloc_tensor(b)
    for number, each in enumerate((a, b)):
        asc.data_copy(each, gm(x)[number * 64 :], count=64)
        if enque:
            into.enque(each)
    assert not into.has_tensor_in_que().value
    assert not into.vacant_in_que().value
    # In place it is the tensor that says which one comes out, not the order.
    for number in (1, 0):
        each = (a, b)[number]
        into.deque(each)
        out.alloc_tensor(c)
        asc.adds(c, each, 1.0, count=64)
        into.free_tensor(each)
        out.enque(c)
        out.deque(c)
        asc.data_copy(gm(z)[number * 64 :], c, count=64)
        out.free_tensor(c)


def test_a_queue_of_depth_0_hands_tensors_on_in_place():
    assert broken(in_place, sync="strict") == []
    assert broken(lambda x, z: in_place(x, z, enque=False)) == ["deque_empty"]


def test_the_forms_of_a_queue_go_with_its_depth():
    assert broken(lambda x, z: in_place(x, z, depth=1)) == ["queue_in_place"]

    def returned(x, z):
        pipe = asc.TPipe()
        queue = asc.TQue(POS.VECIN, 0)
        pipe.init_buffer(queue, 1, 256)
        a = queue.alloc_tensor(asc.float32)
        asc.data_copy(a, gm(x), count=64)
        queue.enque(a)
        queue.deque(asc.float32)

    assert broken(returned) == ["queue_in_place"]


def test_a_tensor_that_is_never_given_back_is_told():
    def body(x, z, free=False, reset=False):
        pipe = asc.TPipe()
        into, out = asc.TQue(POS.VECIN, 1), asc.TQue(POS.VECOUT, 1)
        pipe.init_buffer(into, 1, 256)
        pipe.init_buffer(out, 1, 256)
        a = into.alloc_tensor(asc.float32)
        asc.data_copy(a, gm(x), count=64)
        into.enque(a)
        a = into.deque(asc.float32)
        b = out.alloc_tensor(asc.float32)
        asc.adds(b, a, 1.0, count=64)
        out.enque(b)
        b = out.deque(asc.float32)
        asc.data_copy(gm(z), b, count=64)
        if free:
            into.free_tensor(a)
            out.free_tensor(b)
        if reset:
            pipe.reset()

    def warned(body):
        result = run_on_core(body, np.zeros(256, np.float32), np.zeros(256, np.float32))
        assert not result.diagnoses
        return [each.rule for each in result.warnings]

    assert warned(body) == ["kernel.queue_unfreed"] * 2
    assert warned(lambda x, z: body(x, z, free=True)) == []
    assert warned(lambda x, z: body(x, z, reset=True)) == []


# -- places and sizes --------------------------------------------------------------------------------


def test_the_ub_is_limited():
    def body(x, z):
        pipe = asc.TPipe()
        pipe.init_buffer(asc.TQue(POS.VECIN, 1), 2, 90 * 1024)
        pipe.init_buffer(asc.TQue(POS.VECOUT, 1), 2, 2 * 1024)

    assert broken(body) == []

    def double(x, z):
        pipe = asc.TPipe()
        pipe.init_buffer(asc.TQue(POS.VECIN, 1), 2, 93 * 1024)

    assert broken(double) == ["ub_overflow"]
    assert broken(lambda x, z: asc.LocalMemAllocator().alloc(POS.VECIN, asc.float32, 50000)) == ["ub_overflow"]


def test_alignment():
    def vector(x, z):
        a = ub(0, 128)
        asc.duplicate(a, 0.0, count=128)
        asc.adds(a[64:], a[1:], 1.0, count=8)

    def copied(x, z):
        asc.data_copy(ub(0, 128)[4:], gm(x), count=8)

    assert broken(vector) == ["alignment"]
    assert broken(copied) == ["alignment"]


def test_reductions_need_their_element_only():
    def body(x, z):
        a = ub(0, 128)
        asc.duplicate(a, 1.0, count=128)
        asc.whole_reduce_sum(a[65:], a, 64, 1, 1, 1, 8)

    assert broken(body) == []


def test_past_the_end_of_a_tensor():
    assert broken(lambda x, z: asc.duplicate(ub(0, 64), 0.0, count=65)) == ["tensor_range"]
    assert broken(lambda x, z: asc.data_copy(ub(0, 64), gm(x), count=72)) == ["tensor_range"]
    assert broken(lambda x, z: ub(0, 64).get_value(64)) == ["tensor_range"]
    masked = asc.UnaryRepeatParams()
    assert broken(lambda x, z: asc.adds(ub(0), ub(256), 1.0, 64, 2, masked)) == ["tensor_range"]


def test_past_the_end_of_the_ub():
    size = 192 * 1024
    assert broken(lambda x, z: asc.duplicate(ub(size - 128, 64), 0.0, count=64)) == ["local_range"]


def test_past_the_end_of_an_argument():
    far = np.zeros(64, "f4")
    assert broken(lambda x: asc.data_copy(ub(0, 512), gm(x), count=512), far) == ["gm_range"]
    assert broken(lambda x: asc.data_copy(ub(0), gm(x + (-8)), count=64), far) == ["gm_range"]
    result = run_on_core(lambda x: asc.data_copy(ub(0, 128), gm(x), count=72), far)
    assert rules(result) == []
    assert [w.rule for w in result.warnings] == ["kernel.gm_spare"]


def test_masks_and_repeats():
    p = asc.BinaryRepeatParams()

    def call(mask, repeats=1):
        def body(x, z):
            a = ub(0, 8192)
            asc.duplicate(a, 0.0, count=8192)
            asc.add(a, a, a, mask=mask, repeat_times=repeats, repeat_params=p)

        return body

    assert broken(call(64)) == []
    assert broken(call(65)) == ["mask"]
    assert broken(call(0)) == ["mask"]
    assert broken(call([0, 0])) == ["mask_empty"]
    assert broken(call([1, 1])) == ["mask"]
    with pytest.raises(TypeError, match="repeat_times=128"):
        broken(call(64, 128))
    assert broken(call(64, asc_number_128)) == []


asc_number_128 = PlainValue(128, asc.int32)


def test_partial_overlap():
    def body(step, count=128):
        def piece(x, z):
            a = ub(0, 512)
            asc.duplicate(a, 0.0, count=512)
            asc.adds(a[step:], a[256:], 1.0, count=count)

        return piece

    assert broken(body(256)) == []
    assert broken(body(264)) == ["alias"]
    assert broken(body(248)) == ["alias"]
    assert broken(body(256 - 64)) == []
    assert broken(body(0)) == []


def test_undefined_bytes():
    def reads(x, z):
        asc.reduce_sum(ub(0), ub(256), ub(512), count=64)

    def copies_out(x, z):
        asc.data_copy(gm(z), ub(0), count=64)

    def tail_used(x, z):
        """Only 40 elements are copied in, 64 are computed, 64 are copied out."""
        a, b = ub(0), ub(256)
        asc.data_copy(a, gm(x), count=40)
        sync(E.MTE2_V)
        asc.adds(b, a, 1.0, count=64)
        sync(E.V_MTE3)
        asc.data_copy(gm(z), b, count=64)

    def tail_dropped(x, z):
        """The same, but only what is defined is copied out: correct, if wasteful."""
        a, b = ub(0), ub(256)
        asc.data_copy(a, gm(x), count=40)
        sync(E.MTE2_V)
        asc.adds(b, a, 1.0, count=64)
        asc.mul(b, b, a, mask=64, repeat_times=1, repeat_params=asc.BinaryRepeatParams())
        sync(E.V_MTE3)
        asc.data_copy(gm(z), b, count=40)

    assert broken(reads) == ["undefined"]
    assert broken(copies_out) == ["undefined"]
    assert broken(tail_used) == ["undefined"]
    assert broken(tail_dropped) == []
    assert broken(lambda x, z: ub(0).get_value(3)) == ["undefined"]


def test_a_fresh_tensor_of_a_queue_holds_nothing():
    def body(x, z):
        pipe = asc.TPipe()
        queue = asc.TQue(POS.VECIN, 1)
        pipe.init_buffer(queue, 1, 256)
        for turn in range(2):
            a = queue.alloc_tensor(asc.float32)
            if not turn:
                asc.data_copy(a, gm(x), count=64)
            queue.enque(a)
            a = queue.deque(asc.float32)
            asc.reduce_sum(ub(1024), a, ub(2048), count=64)
            queue.free_tensor(a)

    assert broken(body) == ["undefined"]


def test_compare_leaves_a_tail_out():
    def body(x, z):
        a = ub(0, 128)
        asc.duplicate(a, 0.0, count=128)
        asc.compare(ub(1024, 64, asc.uint8), a, a, asc.CMPMODE.EQ, count=70)

    result = run_on_core(body, np.zeros(8, "f4"), np.zeros(8, "f4"))
    assert [w.rule for w in result.warnings] == ["kernel.compare_tail"]


def test_what_the_chip_lacks():
    assert broken(lambda x, z: asc.scatter()) == ["not_on_chip"]
    assert broken(lambda x, z: asc.trap()) == ["trap"]


# -- whole kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [add_queues, add_flags], ids=lambda k: k.name)
@pytest.mark.parametrize("auto_sync", [True, False])
@pytest.mark.parametrize("blocks", [1, 8])
def test_the_examples_are_clean(kernel, auto_sync, blocks):
    count = blocks * 4096
    rng = np.random.default_rng(blocks)
    x, y = rng.random(count, dtype="f4"), rng.random(count, dtype="f4")
    z = np.zeros(count, "f4")
    kernel[blocks](x, y, z, 4096, auto_sync=auto_sync)
    np.testing.assert_array_equal(z, x + y)
    assert machine().record.faults == []


@asc.jit
def add_any_length(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, n: int):
    """Any length: whole tiles by the blocks in turn, the last piece by data_copy_pad."""
    tile = 256
    pipe = asc.TPipe()
    in_q = asc.TQue(asc.TPosition.VECIN, 1)
    out_q = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_q, 4, 1024)
    pipe.init_buffer(out_q, 2, 1024)
    tiles = asc.ceildiv(n, tile)
    for i in range(asc.get_block_idx(), tiles, asc.get_block_num()):
        left = n - i * tile
        if left > tile:
            left = asc.number(256, asc.int32)
        one_tile(in_q, out_q, x + i * tile, y + i * tile, z + i * tile, left)


@asc.jit
def one_tile(in_q, out_q, x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, left):
    length = asc.DataCopyExtParams(1, left * 4, 0, 0)
    pad = asc.DataCopyPadExtParams(asc.float32)
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    a = in_q.alloc_tensor(asc.float32)
    asc.data_copy_pad(a, x_gm, length, pad)
    in_q.enque(a)
    a = in_q.deque(asc.float32)
    b = in_q.alloc_tensor(asc.float32)
    asc.data_copy_pad(b, y_gm, length, pad)
    in_q.enque(b)
    b = in_q.deque(asc.float32)
    c = out_q.alloc_tensor(asc.float32)
    asc.add(c, a, b, count=left)
    out_q.enque(c)
    in_q.free_tensor(a)
    in_q.free_tensor(b)
    c = out_q.deque(asc.float32)
    asc.data_copy_pad(z_gm, c, length)
    out_q.free_tensor(c)


@pytest.mark.parametrize("n", [1, 7, 255, 256, 257, 1000, 3001])
@pytest.mark.parametrize("blocks", [1, 3])
def test_tails_by_data_copy_pad_are_clean(n, blocks):
    rng = np.random.default_rng(n)
    x, y, z = rng.random(n, dtype="f4"), rng.random(n, dtype="f4"), np.zeros(n, "f4")
    add_any_length[blocks](x, y, z, n)
    np.testing.assert_array_equal(z, x + y)
    assert machine().record.faults == []


def test_every_rule_is_raised_somewhere_in_the_package():
    """No rule without a place that raises it, and no place without a rule."""
    package = HERE.parents[1] / "cannlab"
    text = "".join(path.read_text() for part in ("machine/core", "ascendc") for path in (package / part).rglob("*.py"))
    used = set(re.findall(r"\"(kernel\.[a-z_]+)\"", text))
    known = {rule for rule in tables.rules() if rule.startswith("kernel.")}
    assert used == known
