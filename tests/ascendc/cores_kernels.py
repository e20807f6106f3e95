"""Kernels whose cores wait for each other, as a learner writes them."""

import cannlab.ascendc as asc
from cannlab.ascendc.runtime import config

PART = 64
TYPES = config.KernelType


@asc.jit
def load(tensor: asc.LocalTensor, source: asc.GlobalTensor, count: int):
    asc.data_copy(tensor, source, count=count)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)


@asc.jit
def store(target: asc.GlobalTensor, tensor: asc.LocalTensor, count: int):
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(target, tensor, count=count)


@asc.jit
def shared_sum(x: asc.GlobalAddress, work: asc.GlobalAddress, sync: asc.GlobalAddress, z: asc.GlobalAddress, soft: int):
    """Every block doubles its part, then adds up the parts of all blocks."""
    block = asc.get_block_idx()
    x_gm = asc.GlobalTensor()
    work_gm = asc.GlobalTensor()
    sync_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    work_gm.set_global_buffer(work)
    sync_gm.set_global_buffer(sync)
    z_gm.set_global_buffer(z)
    mine = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, PART)
    total = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, PART * 4, PART)
    scratch = asc.LocalTensor(asc.int32, asc.TPosition.VECCALC, 4096, 8 * 64)
    load(mine, x_gm[block * PART :], PART)
    asc.muls(mine, mine, 2.0, count=PART)
    store(work_gm[block * PART :], mine, PART)
    if soft == 1:
        asc.sync_all(sync_gm, scratch)
    else:
        asc.sync_all()
    asc.duplicate(total, 0.0, count=PART)
    for other in range(asc.get_block_num()):
        load(mine, work_gm[other * PART :], PART)
        asc.add(total, total, mine, count=PART)
        asc.set_flag(asc.HardEvent.V_MTE2, 1)
        asc.wait_flag(asc.HardEvent.V_MTE2, 1)
    store(z_gm[block * PART :], total, PART)


@asc.jit
def chain(x: asc.GlobalAddress, sync: asc.GlobalAddress, z: asc.GlobalAddress):
    """A prefix sum over the blocks: each waits for the result of the one before it."""
    block = asc.get_block_idx()
    x_gm = asc.GlobalTensor()
    sync_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    sync_gm.set_global_buffer(sync)
    z_gm.set_global_buffer(z)
    mine = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, PART)
    before = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, PART * 4, PART)
    scratch = asc.LocalTensor(asc.int32, asc.TPosition.VECCALC, 4096, 8)
    load(mine, x_gm[block * PART :], PART)
    if block > 0:
        asc.ib_wait(sync_gm, scratch, block - 1, 0)
        load(before, z_gm[(block - 1) * PART :], PART)
        asc.add(mine, mine, before, count=PART)
    store(z_gm[block * PART :], mine, PART)
    if block + 1 < asc.get_block_num():
        asc.ib_set(sync_gm, scratch, block, 0)


@asc.jit
def in_turn(x: asc.GlobalAddress, sync: asc.GlobalAddress, z: asc.GlobalAddress, turns: int):
    """All blocks add into the same place, in the order of their numbers, so that the sum is the same each time."""
    block = asc.get_block_idx()
    x_gm = asc.GlobalTensor()
    sync_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    sync_gm.set_global_buffer(sync)
    z_gm.set_global_buffer(z)
    tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, PART)
    scratch = asc.LocalTensor(asc.int32, asc.TPosition.VECCALC, 4096, 8 * 65)
    for turn in range(turns):
        load(tile, x_gm[(turn * asc.get_block_num() + block) * PART :], PART)
        asc.wait_pre_block(sync_gm, scratch)
        asc.set_atomic_add(asc.float32)
        store(z_gm, tile, PART)
        asc.set_atomic_none()
        asc.notify_next_block(sync_gm, scratch)


SIZE = 32


@asc.jit(kernel_type=TYPES.MIX_AIC_1_2)
def matmul_leaky(a: asc.GlobalAddress, b: asc.GlobalAddress, work: asc.GlobalAddress, z: asc.GlobalAddress):
    """Each cube core multiplies two 32 x 32 matrices; its two vector cores take half of the result each."""
    work_gm = asc.GlobalTensor()
    work_gm.set_global_buffer(work)
    if asc.ascend_is_aic():
        group = asc.get_block_idx()
        a_gm = asc.GlobalTensor()
        b_gm = asc.GlobalTensor()
        a_gm.set_global_buffer(a + group * (SIZE * SIZE))
        b_gm.set_global_buffer(b + group * (SIZE * SIZE))
        a1 = asc.LocalTensor(asc.float16, asc.TPosition.A1, 0, SIZE * SIZE)
        b1 = asc.LocalTensor(asc.float16, asc.TPosition.B1, 4096, SIZE * SIZE)
        a2 = asc.LocalTensor(asc.float16, asc.TPosition.A2, 0, SIZE * SIZE)
        b2 = asc.LocalTensor(asc.float16, asc.TPosition.B2, 0, SIZE * SIZE)
        c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, SIZE * SIZE)
        to_nz = asc.Nd2NzParams(1, SIZE, SIZE, 0, SIZE, SIZE, 1, 0)
        asc.data_copy(a1, a_gm, intri_params=to_nz)
        asc.data_copy(b1, b_gm, intri_params=to_nz)
        asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
        asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
        for row in asc.static_range(SIZE // 16):
            asc.load_data(a2[row * SIZE * 16 :], a1, asc.LoadData2DParams(row, SIZE // 16, SIZE // 16, 0, 0, False, 0))
            asc.load_data(b2[row * SIZE * 16 :], b1, asc.LoadData2DParams(row, SIZE // 16, SIZE // 16, 0, 0, True, 0))
        asc.set_flag(asc.HardEvent.MTE1_M, 0)
        asc.wait_flag(asc.HardEvent.MTE1_M, 0)
        asc.mmad(
            c,
            a2,
            b2,
            asc.MmadParams(SIZE, SIZE, SIZE, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True),
        )
        asc.set_flag(asc.HardEvent.M_FIX, 0)
        asc.wait_flag(asc.HardEvent.M_FIX, 0)
        asc.fixpipe(work_gm[group * SIZE * SIZE :], c, asc.FixpipeParamsV220(SIZE, SIZE, SIZE, SIZE))
        asc.cross_core_set_flag(2, 2, asc.PipeID.PIPE_FIX)
    else:
        asc.cross_core_wait_flag(2, 2, asc.PipeID.PIPE_MTE2)
        z_gm = asc.GlobalTensor()
        z_gm.set_global_buffer(z)
        half = SIZE * SIZE // 2
        start = asc.get_block_idx() * half
        tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, SIZE * SIZE // 2)
        load(tile, work_gm[start:], half)
        asc.leaky_relu(tile, tile, 0.1, count=half)
        store(z_gm[start:], tile, half)


@asc.jit(kernel_type=TYPES.MIX_AIC_1_2)
def who_am_i(z: asc.GlobalAddress):
    """Each core writes down what it sees: kind, block, blocks, sub-block, sub-blocks, ratio."""
    z_gm = asc.GlobalTensor()
    z_gm.set_global_buffer(z)
    row = asc.get_block_idx()
    if asc.ascend_is_aic():
        row = row + 64
    z_gm[row * 8 :].set_value(1, asc.get_block_idx())
    z_gm[row * 8 :].set_value(2, asc.get_block_num())
    z_gm[row * 8 :].set_value(3, asc.get_sub_block_idx().cast(asc.int32))
    z_gm[row * 8 :].set_value(4, asc.get_task_ratio().cast(asc.int32))
