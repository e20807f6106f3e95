"""Kernels whose turns and blocks go alike, or almost."""

import cannlab.ascendc as asc

TILE = 32


@asc.jit
def copy_tile(target: asc.GlobalTensor, source: asc.GlobalTensor, queue: asc.TQue):
    """One tile through the UB."""
    tile = queue.alloc_tensor(asc.int32)
    asc.data_copy(tile, source, count=TILE)
    queue.enque(tile)
    tile = queue.deque(asc.int32)
    asc.set_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE3, 0)
    asc.data_copy(target, tile, count=TILE)
    asc.set_flag(asc.HardEvent.MTE3_MTE2, 0)
    asc.wait_flag(asc.HardEvent.MTE3_MTE2, 0)
    queue.free_tensor(tile)


@asc.jit
def numbers(
    x: asc.GlobalAddress,
    z: asc.GlobalAddress,
    first: int,
    turns: int,
    step: int,
    a: int,
    b: int,
    c: int,
    d: int,
    depth: asc.ConstExpr[int],
    per_block: int,
):
    """z takes tiles of x in an order that depends on the turn and on the block in many ways."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z + asc.get_block_idx() * (turns * TILE))
    pipe = asc.TPipe()
    queue = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(queue, depth, TILE * 4)
    at = asc.number(0, asc.int32)
    for i in range(
        first + asc.get_block_idx() * per_block, first + asc.get_block_idx() * per_block + turns * step, step
    ):
        tile = i * a + b
        if i < c:
            tile = i % d
        else:
            if i - tile == 7:
                tile = tile + 1
        if tile / d % 2 == 0:
            tile = tile + (i >> 1)
        tile = tile % 64
        if tile < 0:
            tile = 0 - tile
        copy_tile(z_gm[at * TILE :], x_gm[tile * TILE :], queue)
        at = at + 1


@asc.jit
def straight(x: asc.GlobalAddress, z: asc.GlobalAddress, turns: int, slope: int, start: int, swap: int):
    """z takes tiles of x in steps; odd turns and even ones may be swapped."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    queue = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(queue, 2, TILE * 4)
    for i in range(asc.get_block_idx(), turns, asc.get_block_num()):
        to = i
        if swap > 0:
            to = i + 1 - i % 2 * 2
        copy_tile(z_gm[to * TILE :], x_gm[(start + i * slope) * TILE :], queue)


@asc.jit
def carried(x: asc.GlobalAddress, z: asc.GlobalAddress, turns: int, late: int, mode: asc.ConstExpr[int]):
    """Something of one turn is used in the next one."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    queue = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(queue, 2, TILE * 4)
    before = asc.number(0, asc.int32)
    ping = asc.number(0, asc.int32)
    view = x_gm[0:]
    for i in range(turns):
        if mode == 0:
            copy_tile(z_gm[i * TILE :], x_gm[before * TILE :], queue)
            before = i + 0
        if mode == 1:
            copy_tile(z_gm[i * TILE :], x_gm[ping * TILE :], queue)
            ping = 1 - ping
        if mode == 2:
            copy_tile(z_gm[i * TILE :], view, queue)
            view = x_gm[(turns - i) * TILE :]
        if mode == 3:
            if i == late:
                copy_tile(z_gm[i * TILE :], x_gm[ping * TILE :], queue)
            else:
                copy_tile(z_gm[i * TILE :], x_gm[i * TILE :], queue)
        if mode == 4:
            asc.set_atomic_add(asc.int32)
            copy_tile(z_gm[0:], x_gm[i * TILE :], queue)
            asc.set_atomic_none()
        if mode == 5:
            for j in range(3):
                copy_tile(z_gm[(i * 3 + j) % 64 * TILE :], x_gm[(i + j) * TILE :], queue)
        if mode == 6:
            z_gm.set_value(i, x_gm.get_value(i) + 1)
        if mode == 7:
            # Beyond the argument's end from some turn on.
            copy_tile(z_gm[i * TILE :], x_gm[(i + late) * TILE :], queue)
        if mode == 8:
            z_gm.set_value(i, i)
        if mode == 9:
            copy_tile(z_gm[i * TILE :], x_gm[i * TILE :], queue)
            if i == late:
                asc.printf("turn %d of block %d\n", i, asc.get_block_idx())
        if mode == 11:
            # No instruction at all.
            before = before + 0
        if mode == 10:
            # What is stored in one turn is loaded in the next.
            copy_tile(z_gm[(i + 1) * TILE :], z_gm[i * TILE :], queue)
    copy_tile(z_gm[turns * TILE :], x_gm[before * TILE :], queue)


@asc.jit
def by_block(x: asc.GlobalAddress, z: asc.GlobalAddress, rows: int, across: int, mode: asc.ConstExpr[int]):
    """The blocks stand in a grid, or one of them is another one."""
    block = asc.get_block_idx()
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    if mode == 0:
        z_gm.set_global_buffer(z + (block / across * rows + block % across) * TILE)
        x_gm.set_global_buffer(x + block * TILE)
    pipe = asc.TPipe()
    queue = asc.TQue(asc.TPosition.VECIN, 1)
    pipe.init_buffer(queue, 2, TILE * 4)
    count = asc.number(rows, asc.int32)
    if block == asc.get_block_num() - mode:
        # With mode 1 the last one.
        count = asc.number(1, asc.int32)
    if mode == 2:
        for i in range(block, block + rows):
            copy_tile(z_gm[(i * across) % 64 * TILE :], x_gm[i * TILE :], queue)
    elif mode == 3:
        asc.printf("block %d\n", block)
        copy_tile(z_gm[block * TILE :], x_gm[0:], queue)
    elif mode == 4:
        if x_gm.get_value(block) > 0:
            copy_tile(z_gm[block * TILE :], x_gm[block * TILE :], queue)
    elif mode == 7:
        # A tensor is left in the queue of each block.
        queue.enque(queue.alloc_tensor(asc.int32))
    elif mode == 5:
        # Every block writes the same bytes: a race.
        copy_tile(z_gm[0:], x_gm[block * TILE :], queue)
    else:
        for i in range(count):
            copy_tile(z_gm[i * across * TILE :], x_gm[(block + i) * TILE :], queue)
