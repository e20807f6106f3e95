"""data_copy and data_copy_pad against their definitions."""

import numpy as np
import pytest
from asc_pieces import data, rules, run_on_core, same
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc


def gm(address):
    tensor = asc.GlobalTensor()
    tensor.set_global_buffer(address)
    return tensor


def barrier():
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)


def through(source, target, copy_in, copy_out, size=4096):
    """Fill the UB with 7, copy in, copy out."""

    def body(x, z):
        ub = asc.LocalTensor(asc.DataType(source.dtype.name), asc.TPosition.VECIN, 0, size)
        asc.duplicate(ub, 7, count=size)
        barrier()
        copy_in(ub, gm(x))
        barrier()
        copy_out(gm(z), ub)

    return run_on_core(body, source, target)


@given(seed=st.integers(0, 1 << 30), count=st.integers(8, 600))
@settings(max_examples=15, deadline=None)
def test_count_is_rounded_down_to_32_bytes(seed, count):
    x, z = data(seed, "float32", 640), np.zeros(640, "float32")
    result = through(
        x, z, lambda ub, g: asc.data_copy(ub, g, count=count), lambda g, ub: asc.data_copy(g, ub, count=640)
    )
    moved = count // 8 * 8
    wanted = np.full(640, 7, "float32")
    wanted[:moved] = x[:moved]
    same(result.outputs[1].view("f4"), wanted)
    assert [w.rule for w in result.warnings] == (["kernel.tail_lost"] if count % 8 else [])
    assert rules(result) == []


@given(
    seed=st.integers(0, 1 << 30),
    blocks=st.integers(1, 6),
    length=st.integers(1, 4),
    gaps=st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
@settings(max_examples=15, deadline=None)
def test_strided_blocks(seed, blocks, length, gaps):
    x, z = data(seed, "int16", 2048), np.zeros(2048, "int16")
    result = through(
        x,
        z,
        lambda ub, g: asc.data_copy(ub, g, repeat_params=asc.DataCopyParams(blocks, length, *gaps)),
        lambda g, ub: asc.data_copy(g, ub, count=2048),
    )
    wanted = np.full(2048, 7, "int16")
    for b in range(blocks):
        to, source = b * (length + gaps[1]) * 16, b * (length + gaps[0]) * 16
        wanted[to : to + length * 16] = x[source : source + length * 16]
    same(result.outputs[1].view("i2"), wanted)
    assert rules(result) == []


@given(
    seed=st.integers(0, 1 << 30),
    dtype=st.sampled_from(["int8", "float16", "float32"]),
    blocks=st.integers(1, 5),
    length=st.integers(1, 40),
    source_gap=st.integers(0, 9),
    ub_gap=st.integers(0, 2),
    left=st.integers(0, 7),
    right=st.integers(0, 7),
)
@settings(max_examples=25, deadline=None)
def test_padding(seed, dtype, blocks, length, source_gap, ub_gap, left, right):
    size = np.dtype(dtype).itemsize
    per = 32 // size
    x, z = data(seed, dtype, 1024), np.zeros(4096 // size, dtype)
    copy = asc.DataCopyExtParams(blocks, length * size, source_gap * size, ub_gap)
    pad = asc.DataCopyPadExtParams(asc.DataType(dtype), True, left, right, 3)

    def body(xa, za):
        ub = asc.LocalTensor(asc.DataType(dtype), asc.TPosition.VECIN, 0, 4096 // size)
        asc.data_copy(ub, gm(za), count=4096 // size)
        barrier()
        asc.data_copy_pad(ub, gm(xa), copy, pad)
        barrier()
        asc.data_copy(gm(za), ub, count=4096 // size)

    result = run_on_core(body, x, z)
    wanted = np.zeros(4096 // size, dtype)
    whole = -(-(left + length + right) // per) * per
    for b in range(blocks):
        to, source = b * (whole + ub_gap * per), b * (length + source_gap)
        wanted[to : to + whole] = 3
        wanted[to + left : to + left + length] = x[source : source + length]
    same(result.outputs[1].view(dtype), wanted)
    assert rules(result) == []


def test_filler_without_padding_is_the_first_element():
    x, z = data(1, "float32", 64), np.zeros(16, "float32")
    result = through(
        x,
        z,
        lambda ub, g: asc.data_copy_pad(
            ub, g, asc.DataCopyExtParams(2, 5 * 4, 4, 0), asc.DataCopyPadExtParams(asc.float32)
        ),
        lambda g, ub: asc.data_copy(g, ub, count=16),
    )
    wanted = np.concatenate([x[:5], [x[0]] * 3, x[6:11], [x[6]] * 3]).astype("f4")
    same(result.outputs[1].view("f4"), wanted)


@given(seed=st.integers(0, 1 << 30), blocks=st.integers(1, 4), length=st.integers(1, 30), gap=st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_out_of_the_ub_exact_bytes(seed, blocks, length, gap):
    x, z = data(seed, "float16", 512), np.zeros(512, "float16")
    result = through(
        x,
        z,
        lambda ub, g: asc.data_copy(ub, g, count=512),
        lambda g, ub: asc.data_copy_pad(g, ub, asc.DataCopyExtParams(blocks, length * 2, 0, gap * 2)),
    )
    wanted = np.zeros(512, "float16")
    row = -(-length // 16) * 16
    for b in range(blocks):
        to = b * (length + gap)
        wanted[to : to + length] = x[b * row : b * row + length]
    same(result.outputs[1].view("f2"), wanted)
    assert rules(result) == []


@pytest.mark.parametrize(("kind", "combine"), [("add", np.add), ("max", np.maximum), ("min", np.minimum)])
def test_atomic_writes_of_all_blocks_combine(kind, combine):
    x, z = data(1, "float32", 4 * 64), data(2, "float32", 64)

    def body(xa, za):
        ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
        asc.data_copy(ub, gm(xa + asc.get_block_idx() * 64), count=64)
        barrier()
        getattr(asc, f"set_atomic_{kind}")(asc.float32)
        asc.data_copy(gm(za), ub, count=64)
        asc.set_atomic_none()

    result = run_on_core(body, x, z, blocks=4)
    wanted = z.copy()
    for b in range(4):
        wanted = combine(wanted, x[b * 64 : b * 64 + 64])
    same(result.outputs[1].view("f4"), wanted)
    assert rules(result) == []


def test_scalar_access_and_uninitialised_fill():
    x, z = data(1, "float32", 64), np.zeros(64, "float32")

    def body(xa, za):
        ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, 64)
        asc.data_copy(ub, gm(xa), count=64)
        asc.set_flag(asc.HardEvent.MTE2_S, 0)
        asc.wait_flag(asc.HardEvent.MTE2_S, 0)
        total = asc.number(0.0, asc.float32)
        for i in range(64):
            total = total + ub.get_value(i)
        ub.set_value(3, total)
        gm(za).set_value(5, total)
        asc.set_flag(asc.HardEvent.S_MTE3, 0)
        asc.wait_flag(asc.HardEvent.S_MTE3, 0)
        asc.data_copy(gm(za)[8:], ub, count=8)

    result = run_on_core(body, x, z)
    total = np.float32(0)
    for value in x:
        total += value
    out = result.outputs[1].view("f4")
    assert out[5] == total
    assert out[8 + 3] == total
    assert (out[8:11] == x[:3]).all()
    assert rules(result) == []
