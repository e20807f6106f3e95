"""A vector add with addresses and flags: two sets of buffers, every dependence between pipes written out."""

import cannlab.ascendc as asc

TILE = 1024
BYTES = TILE * 4


@asc.jit
def add_flags(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, length: int):
    """z = x + y on ``length`` float32 elements per block, a multiple of TILE."""
    start = asc.get_block_idx() * length
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + start, length)
    y_gm.set_global_buffer(y + start, length)
    z_gm.set_global_buffer(z + start, length)

    # Both sets of buffers are free at the start: say so once, so that the first waits pass.
    for free in asc.static_range(2):
        asc.set_flag(asc.HardEvent.V_MTE2, free)
        asc.set_flag(asc.HardEvent.MTE3_V, free)
    for i in range(length // TILE):
        turn = i % 2
        base = turn * 3 * BYTES
        x_ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, base, TILE)
        y_ub = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, base + BYTES, TILE)
        z_ub = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, base + 2 * BYTES, TILE)
        asc.wait_flag(asc.HardEvent.V_MTE2, turn)
        asc.data_copy(x_ub, x_gm[i * TILE :], count=TILE)
        asc.data_copy(y_ub, y_gm[i * TILE :], count=TILE)
        asc.set_flag(asc.HardEvent.MTE2_V, turn)
        asc.wait_flag(asc.HardEvent.MTE2_V, turn)
        asc.wait_flag(asc.HardEvent.MTE3_V, turn)
        asc.add(z_ub, x_ub, y_ub, count=TILE)
        asc.set_flag(asc.HardEvent.V_MTE2, turn)
        asc.set_flag(asc.HardEvent.V_MTE3, turn)
        asc.wait_flag(asc.HardEvent.V_MTE3, turn)
        asc.data_copy(z_gm[i * TILE :], z_ub, count=TILE)
        asc.set_flag(asc.HardEvent.MTE3_V, turn)
    for free in asc.static_range(2):
        asc.wait_flag(asc.HardEvent.V_MTE2, free)
        asc.wait_flag(asc.HardEvent.MTE3_V, free)
