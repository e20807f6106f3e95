"""A record, replayed, gives what the live launch gave: outputs, diagnoses and time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannlab.machine import core
from cannlab.machine.core import layout
from cannlab.machine.core.dtypes import CODES, pack
from cannlab.machine.core.floats import to_bits
from cannlab.machine.core.opcodes import BY_NAME, ROWS
from cannlab.soc import get
from cannlab.trace import KernelTrace

F = CODES["float32"]
V, MTE2, MTE3 = 1, 4, 5
TILE = 256


def op(name):
    return BY_NAME[name].number


@st.composite
def programs(draw):
    """Instructions on four tensors of 64 floats in the UB and two arguments; some programs race."""
    steps = []
    for _ in range(draw(st.integers(1, 20))):
        kind = draw(st.sampled_from(["in", "out", "vector", "scalar", "masked", "sync", "barrier", "store", "queue"]))
        at = [(-1, 256 * draw(st.integers(0, 3)), TILE) for _ in range(3)]
        far = 256 * draw(st.integers(0, 3))
        if kind == "in":
            steps.append((op("data_copy"), MTE2, 0, (1, TILE, 0, 0, 0), (at[0], (0, far, TILE))))
        elif kind == "out":
            steps.append((op("data_copy"), MTE3, 0, (1, TILE, 0, 0, 0), ((1, far, TILE), at[0])))
        elif kind == "vector":
            name = draw(st.sampled_from(["add", "mul", "max", "fused_mul_add"]))
            steps.append((op(name), V, pack(F, F, F), (layout.COUNT, 64), tuple(at)))
        elif kind == "scalar":
            scalar = to_bits(draw(st.floats(-3, 3, width=32)))
            steps.append((op("adds"), V, pack(F, F), (layout.COUNT, 64, scalar), tuple(at[:2])))
        elif kind == "masked":
            mask = draw(st.integers(1, (1 << 63) - 1))
            imm = (layout.MASK, 1, mask, 0, 1, 1, 1, 8, 8, 8)
            steps.append((op("add"), V, pack(F, F, F), imm, tuple(at)))
        elif kind == "sync":
            event = int(draw(st.sampled_from([core.HardEvent.MTE2_V, core.HardEvent.V_MTE3, core.HardEvent.MTE3_MTE2])))
            steps.append((op("set_flag"), 0, 0, (event, 0), ()))
            steps.append((op("wait_flag"), 0, 0, (event, 0), ()))
        elif kind == "barrier":
            steps.append((op("pipe_barrier"), 0, 0, (-1,), ()))
        elif kind == "store":
            value = int(np.float32(draw(st.floats(-3, 3, width=32))).view("u4"))
            steps.append((op("set_value"), 0, F, (value,), ((-1, at[0][1], 4),)))
    return steps


def execute(steps, inputs, blocks, sync):
    def body(launch):
        for number, pipe, dtype, imm, operands in steps:
            launch.issue(number, pipe, dtype, imm, operands)

    return core.run("random", body, inputs, blocks, soc=get("Ascend910B1"), sync=sync)


def inputs_of(seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(256).astype("f4"), rng.standard_normal(256).astype("f4")]


@given(
    steps=programs(), seed=st.integers(0, 1 << 30), blocks=st.integers(1, 3), sync=st.sampled_from(["auto", "strict"])
)
@settings(max_examples=60, deadline=None)
def test_replay_equals_the_live_launch(steps, seed, blocks, sync):
    inputs = inputs_of(seed)
    live = execute(steps, inputs, blocks, sync)
    kept = KernelTrace.from_arrays(live.trace.to_arrays())
    again = core.replay(kept, inputs)
    for a, b in zip(live.outputs, again.outputs, strict=True):
        np.testing.assert_array_equal(a, b)
    assert [d.to_dict() for d in live.diagnoses] == [d.to_dict() for d in again.diagnoses]
    assert [d.to_dict() for d in live.warnings] == [d.to_dict() for d in again.warnings]
    assert live.timing.ns == again.timing.ns
    assert live.timing.busy == again.timing.busy
    np.testing.assert_array_equal(live.timing.spans, again.timing.spans)
    alone = core.timing(kept)
    assert alone.ns == live.timing.ns
    np.testing.assert_array_equal(alone.spans, live.timing.spans)
    assert again.trace.words == live.trace.words
    assert again.trace.meta == live.trace.meta


@given(steps=programs(), seed=st.integers(0, 1 << 30))
@settings(max_examples=20, deadline=None)
def test_replay_on_other_inputs_equals_a_launch_on_them(steps, seed):
    trace = execute(steps, inputs_of(seed), 2, "auto").trace
    other = inputs_of(seed + 1)
    wanted = execute(steps, other, 2, "auto")
    for a, b in zip(wanted.outputs, core.replay(trace, other).outputs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_record_names_no_path_and_no_wall_time():
    trace = execute([(op("pipe_barrier"), 0, 0, (-1,), ())], inputs_of(1), 1, "auto").trace
    assert trace.meta["files"] == ["test_core_replay.py"]
    assert trace.to_arrays()["words"].dtype == np.int64


def test_inputs_that_do_not_fit():
    trace = execute([], inputs_of(1), 1, "auto").trace
    with pytest.raises(ValueError, match="1024"):
        core.replay(trace, [np.zeros(3, "f4")] * 2)


def test_queue_events_replay():
    def body(launch):
        queue = launch.queue_init(9, 4, 1, 1, [(-1, 0, 256), (-1, 256, 256)])
        out = launch.queue_init(10, 1, 5, 1, [(-1, 512, 256)])
        for turn in range(4):
            a = launch.queue_alloc(queue)
            launch.issue(op("data_copy"), MTE2, 0, (1, 256, 0, 0, 0), ((-1, a.start, 256), (0, 256 * turn, 256)))
            launch.queue_enque(a)
            launch.queue_deque(queue)
            b = launch.queue_alloc(out)
            imm = (layout.COUNT, 64, to_bits(2.0))
            launch.issue(op("muls"), V, pack(F, F), imm, ((-1, b.start, 256), (-1, a.start, 256)))
            launch.queue_enque(b)
            launch.queue_free(a)
            launch.queue_deque(out)
            launch.issue(op("data_copy"), MTE3, 0, (1, 256, 0, 0, 0), ((1, 256 * turn, 256), (-1, b.start, 256)))
            launch.queue_free(b)

    inputs = inputs_of(5)
    live = core.run("queues", body, inputs, 1, soc=get("Ascend910B1"), sync="strict")
    assert live.diagnoses == []
    again = core.replay(live.trace, inputs)
    assert (again.outputs[1].view("f4") == inputs[0] * 2).all()
    assert again.timing.ns == live.timing.ns
    assert again.diagnoses == []


def test_numbers_of_operations_are_fixed():
    """They are part of the record's format."""
    fixed = {"add": 1, "abs": 40, "adds": 60, "duplicate": 80, "cast": 82, "compare": 100, "whole_reduce_sum": 120}
    fixed |= {
        "data_copy": 150,
        "data_copy_pad": 151,
        "set_value": 160,
        "get_value": 161,
        "set_flag": 180,
        "block_start": 200,
    }
    assert {name: BY_NAME[name].number for name in fixed} == fixed
    assert all(row.number == number for number, row in ROWS.items())
