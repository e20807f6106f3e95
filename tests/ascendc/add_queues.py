"""A vector add with queues: TPipe hands out the buffers, enque and deque carry the synchronisation."""

import cannlab.ascendc as asc

TILE = 1024
BUFFERS = 2


@asc.jit
def add_queues(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, length: int):
    """z = x + y on ``length`` float32 elements per block, a multiple of TILE."""
    start = asc.get_block_idx() * length
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + start, length)
    y_gm.set_global_buffer(y + start, length)
    z_gm.set_global_buffer(z + start, length)

    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    in_y = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, BUFFERS, TILE * 4)
    pipe.init_buffer(in_y, BUFFERS, TILE * 4)
    pipe.init_buffer(out_z, BUFFERS, TILE * 4)

    for i in range(length // TILE):
        copy_in(x_gm, in_x, i)
        copy_in(y_gm, in_y, i)
        compute(in_x, in_y, out_z)
        copy_out(z_gm, out_z, i)


@asc.jit
def copy_in(source: asc.GlobalTensor, queue: asc.TQue, i: int):
    tile = queue.alloc_tensor(asc.float32)
    asc.data_copy(tile, source[i * TILE :], count=TILE)
    queue.enque(tile)


@asc.jit
def compute(in_x: asc.TQue, in_y: asc.TQue, out_z: asc.TQue):
    x = in_x.deque(asc.float32)
    y = in_y.deque(asc.float32)
    z = out_z.alloc_tensor(asc.float32)
    asc.add(z, x, y, count=TILE)
    out_z.enque(z)
    in_x.free_tensor(x)
    in_y.free_tensor(y)


@asc.jit
def copy_out(target: asc.GlobalTensor, queue: asc.TQue, i: int):
    z = queue.deque(asc.float32)
    asc.data_copy(target[i * TILE :], z, count=TILE)
    queue.free_tensor(z)
