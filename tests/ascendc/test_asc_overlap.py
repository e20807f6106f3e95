"""What two buffers hide: the slowest pipe of a kernel with queues never stops."""

import numpy as np
import pytest

import cannlab.ascendc as asc
from cannlab.ascendc.runtime.jit import emulate

TILE = 4096
COUNT = 40 * TILE


@asc.jit
def add_often(
    x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, buffers: asc.ConstExpr[int], rounds: int
):
    x_gm, y_gm, z_gm = asc.GlobalTensor(), asc.GlobalTensor(), asc.GlobalTensor()
    x_gm.set_global_buffer(x, COUNT)
    y_gm.set_global_buffer(y, COUNT)
    z_gm.set_global_buffer(z, COUNT)
    pipe = asc.TPipe()
    in_x, in_y = asc.TQue(asc.TPosition.VECIN, 1), asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, buffers, TILE * 2)
    pipe.init_buffer(in_y, buffers, TILE * 2)
    pipe.init_buffer(out_z, buffers, TILE * 2)
    for i in asc.range(COUNT // TILE):
        a, b = in_x.alloc_tensor(asc.float16), in_y.alloc_tensor(asc.float16)
        asc.data_copy(a, x_gm[i * TILE :], count=TILE)
        asc.data_copy(b, y_gm[i * TILE :], count=TILE)
        in_x.enque(a)
        in_y.enque(b)
        a, b = in_x.deque(asc.float16), in_y.deque(asc.float16)
        c = out_z.alloc_tensor(asc.float16)
        for _ in asc.range(rounds):
            asc.add(c, a, b, count=TILE)
        out_z.enque(c)
        in_x.free_tensor(a)
        in_y.free_tensor(b)
        c = out_z.deque(asc.float16)
        asc.data_copy(z_gm[i * TILE :], c, count=TILE)
        out_z.free_tensor(c)


def timing(buffers, rounds):
    arrays = (np.ones(COUNT, np.float16), np.ones(COUNT, np.float16), np.zeros(COUNT, np.float16))
    return emulate(add_often, 1, *arrays, buffers, rounds).timing


@pytest.mark.parametrize(("rounds", "pipe"), [(3, "MTE2"), (20, "V")])
def test_two_buffers_keep_the_slowest_pipe_busy(rounds, pipe):
    one, two = timing(1, rounds), timing(2, rounds)
    assert two.busy[pipe] > 0.95 * (two.ns - two.launch_ns)
    assert one.busy[pipe] < 0.85 * (one.ns - one.launch_ns)


def test_a_computation_shorter_than_the_copies_hides_behind_them():
    short, long = timing(2, 1), timing(2, 3)
    more = long.busy["V"] - short.busy["V"]
    assert more > 1.5 * short.busy["V"]
    assert long.ns - short.ns < 0.2 * more
