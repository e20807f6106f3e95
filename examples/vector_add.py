"""Add two vectors on the AI Cores, with queues and double buffering.

    cannlab run examples/vector_add.py

Each core takes an equal part of the vectors and works through it tile by tile: copy in, add, copy out.
"""

import asc
import asc.runtime.config as config
import numpy as np

CORES = 8
TILE = 1024  # elements: 4 KiB of float32
BUFFERS = 2  # two buffers in each queue: the next tile is copied in while this one is added


@asc.jit
def vector_add(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, per_core: asc.ConstExpr[int]):
    start = asc.get_block_idx() * per_core
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + start, per_core)
    y_gm.set_global_buffer(y + start, per_core)
    z_gm.set_global_buffer(z + start, per_core)

    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, BUFFERS)
    in_y = asc.TQue(asc.TPosition.VECIN, BUFFERS)
    out_z = asc.TQue(asc.TPosition.VECOUT, BUFFERS)
    pipe.init_buffer(in_x, BUFFERS, TILE * 4)
    pipe.init_buffer(in_y, BUFFERS, TILE * 4)
    pipe.init_buffer(out_z, BUFFERS, TILE * 4)

    for i in asc.range(per_core // TILE):
        x_tile = in_x.alloc_tensor(asc.float32)
        y_tile = in_y.alloc_tensor(asc.float32)
        asc.data_copy(x_tile, x_gm[i * TILE :], count=TILE)
        asc.data_copy(y_tile, y_gm[i * TILE :], count=TILE)
        in_x.enque(x_tile)
        in_y.enque(y_tile)

        x_ready = in_x.deque(asc.float32)
        y_ready = in_y.deque(asc.float32)
        z_tile = out_z.alloc_tensor(asc.float32)
        asc.add(z_tile, x_ready, y_ready, count=TILE)
        out_z.enque(z_tile)
        in_x.free_tensor(x_ready)
        in_y.free_tensor(y_ready)

        z_ready = out_z.deque(asc.float32)
        asc.data_copy(z_gm[i * TILE :], z_ready, count=TILE)
        out_z.free_tensor(z_ready)


def main(length=1 << 17):
    """Run the kernel on `length` elements and compare with numpy; returns the largest error."""
    config.set_platform(config.Backend.Model)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(length, dtype=np.float32)
    y = rng.standard_normal(length, dtype=np.float32)
    z = np.zeros_like(x)
    vector_add[CORES](x, y, z, length // CORES)
    error = float(np.abs(z - (x + y)).max())
    print(f"{length} elements on {CORES} cores, largest error {error}")
    return error


if __name__ == "__main__":
    main()
