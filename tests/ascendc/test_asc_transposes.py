"""transpose and trans_data_to_5hd against their definitions."""

import numpy as np
import pytest
from asc_pieces import data, ordered, replayed, rules, run_on_core, view
from hypothesis import given, settings
from hypothesis import strategies as st

import cannlab.ascendc as asc
from cannlab.machine.core import KernelFault

P, E = asc.TPosition, asc.HardEvent


def tensor(dtype, at, count, position=P.VECIN):
    return asc.LocalTensor(asc.DataType(dtype), position, at, count)


def through(x, z, call, scratch=65536):
    """x to the UB, the call on (dst, src, tmp), dst to z."""

    def body(xa, za):
        s, t = tensor(x.dtype.name, 0, x.size), tensor(z.dtype.name, 32768, z.size)
        tmp = tensor("uint8", 81920, scratch)
        asc.data_copy(s, view(xa), count=x.size)
        asc.data_copy(t, view(za), count=z.size)
        ordered(E.MTE2_V)
        call(t, s, tmp)
        ordered(E.V_MTE3)
        asc.data_copy(view(za), t, count=z.size)

    result = replayed(run_on_core(body, x, z), x, z)
    assert rules(result) == []
    return result.outputs[1].view(z.dtype)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "float16"])
def test_square(dtype):
    x = data(1, dtype, 256)
    np.testing.assert_array_equal(
        through(x, np.zeros(256, dtype), lambda t, s, tmp: asc.transpose(t, s)).reshape(16, 16), x.reshape(16, 16).T
    )


@given(
    seed=st.integers(0, 1 << 30),
    dtype=st.sampled_from(["int8", "uint8", "int16", "float16", "int32", "float32"]),
    n=st.integers(1, 2),
    c=st.integers(1, 9),
    h=st.integers(1, 4),
    back=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_channels(seed, dtype, n, c, h, back):
    w = 32 // np.dtype(dtype).itemsize
    x = data(seed, dtype, n * c * h * w)
    kind = asc.TransposeType.TRANSPOSE_NHWC2NCHW if back else asc.TransposeType.TRANSPOSE_NCHW2NHWC
    got = through(
        x, np.zeros(x.size, dtype), lambda t, s, tmp: asc.transpose(t, s, tmp, asc.TransposeParamsExt(n, c, h, w, kind))
    )
    wanted = np.zeros((n, h, w, c) if not back else (n, c, h, w), dtype)
    source = x.reshape((n, h, w, c) if back else (n, c, h, w))
    for image in range(n):
        for channel in range(c):
            for row in range(h):
                for column in range(w):
                    if back:
                        wanted[image, channel, row, column] = source[image, row, column, channel]
                    else:
                        wanted[image, row, column, channel] = source[image, channel, row, column]
    np.testing.assert_array_equal(got, wanted.reshape(-1))


def test_sizes_that_transpose_does_not_take():
    x = np.zeros(64, np.float16)
    kind = asc.TransposeType.TRANSPOSE_NCHW2NHWC
    with pytest.raises(KernelFault) as caught:
        through(x, x, lambda t, s, tmp: asc.transpose(t, s, tmp, asc.TransposeParamsExt(1, 2, 3, 3, kind)))
    assert caught.value.diagnosis.rule == "kernel.transpose_size"


def wanted_5hd(source, target, dtype, repeats, dst_step, src_step, dst_high, src_high):
    """source and target: 16 lines each, (16, blocks, elements)."""
    size = np.dtype(dtype).itemsize
    for r in range(repeats):
        at = r if repeats > 1 else 1
        s, t = source[:, at * src_step], target[:, at * dst_step]
        if size == 2:
            t[:] = s.T
        elif size == 4:
            for k in range(16):
                for j in range(8):
                    t[2 * j + k // 8, k % 8] = s[k, j]
        else:
            for k in range(16):
                for j in range(16):
                    t[j, 16 * dst_high + k] = s[k, 16 * src_high + j]
    return target


@given(
    seed=st.integers(0, 1 << 30),
    dtype=st.sampled_from(["int8", "uint8", "int16", "float16", "int32", "float32"]),
    repeats=st.integers(1, 3),
    steps=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    high=st.tuples(st.booleans(), st.booleans()),
    form=st.sampled_from(["tensors", "addresses", "table"]),
)
@settings(max_examples=25, deadline=None)
def test_5hd(seed, dtype, repeats, steps, high, form):
    per, blocks = 32 // np.dtype(dtype).itemsize, 6
    dst_step, src_step = (0, 0) if repeats == 1 else steps
    x, z = (data(seed + k, dtype, 16 * blocks * per) for k in range(2))

    def call(t, s, tmp):
        lines = [[each[k * blocks * per :] for k in range(16)] for each in (t, s)]
        if form != "tensors":
            lines = [[line.get_phy_addr() for line in each] for each in lines]
        if form == "table":
            tables = [tensor("uint64", 98304 + 256 * k, 16, P.VECCALC) for k in range(2)]
            for table, each in zip(tables, lines, strict=True):
                for k in range(16):
                    table.set_value(k, each[k])
            lines = tables
        params = asc.TransDataTo5HDParams(*high, repeats, dst_step, src_step)
        asc.trans_data_to_5hd(*lines, params)

    got = through(x, z, call)
    wanted = wanted_5hd(
        x.reshape(16, blocks, per), z.copy().reshape(16, blocks, per), dtype, repeats, dst_step, src_step, *high
    )
    np.testing.assert_array_equal(got.reshape(16, blocks, per), wanted)
