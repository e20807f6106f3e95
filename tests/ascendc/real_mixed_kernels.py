"""Real kernels of cube and vector cores together: a matmul with what follows it, and attention."""

import cannlab.ascendc as asc
from cannlab.ascendc.runtime import config

M, N, K = 64, 128, 192
"""What a group of matmul_bias_leaky multiplies: M x K by K x N, in steps of 64 along k."""
STEP = 64


@asc.jit(kernel_type=config.KernelType.MIX_AIC_1_2)
def matmul_bias_leaky(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    bias: asc.GlobalAddress,
    work: asc.GlobalAddress,
    z: asc.GlobalAddress,
    slope: float,
):
    """leaky_relu(x . y + bias): each cube core has M rows of x, its two vector cores halve the result."""
    w_gm = asc.GlobalTensor()
    w_gm.set_global_buffer(work)
    if asc.ascend_is_aic():
        group = asc.get_block_idx()
        x_gm = asc.GlobalTensor()
        y_gm = asc.GlobalTensor()
        b_gm = asc.GlobalTensor()
        x_gm.set_global_buffer(x + group * (M * K))
        y_gm.set_global_buffer(y)
        b_gm.set_global_buffer(bias)
        c1 = asc.LocalTensor(asc.float32, asc.TPosition.C1, 262144, N)
        c2 = asc.LocalTensor(asc.float32, asc.TPosition.C2, 0, N)
        c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, M * N)
        asc.data_copy(c1, b_gm, count=N)
        asc.set_flag(asc.HardEvent.MTE2_MTE1, 2)
        asc.wait_flag(asc.HardEvent.MTE2_MTE1, 2)
        asc.data_copy(c2, c1, count=N)
        for turn in asc.static_range(2):
            asc.set_flag(asc.HardEvent.MTE1_MTE2, turn)
            asc.set_flag(asc.HardEvent.M_MTE1, turn)
        for step in asc.static_range(K // STEP):
            turn = step % 2
            a1 = asc.LocalTensor(asc.float16, asc.TPosition.A1, turn * 32768, M * STEP)
            b1 = asc.LocalTensor(asc.float16, asc.TPosition.B1, 65536 + turn * 32768, STEP * N)
            a2 = asc.LocalTensor(asc.float16, asc.TPosition.A2, turn * 16384, M * STEP)
            b2 = asc.LocalTensor(asc.float16, asc.TPosition.B2, turn * 32768, STEP * N)
            asc.wait_flag(asc.HardEvent.MTE1_MTE2, turn)
            a_params = asc.Nd2NzParams(1, M, STEP, 0, K, M, 1, 0)
            b_params = asc.Nd2NzParams(1, STEP, N, 0, N, STEP, 1, 0)
            asc.data_copy(a1, x_gm[step * STEP :], intri_params=a_params)
            asc.data_copy(b1, y_gm[step * STEP * N :], intri_params=b_params)
            asc.set_flag(asc.HardEvent.MTE2_MTE1, turn)
            asc.wait_flag(asc.HardEvent.MTE2_MTE1, turn)
            asc.wait_flag(asc.HardEvent.M_MTE1, turn)
            for row in asc.static_range(M // 16):
                params = asc.LoadData2DParams(row, STEP // 16, M // 16, 0, 0, False, 0)
                asc.load_data(a2[row * STEP * 16 :], a1, params)
            for row in asc.static_range(STEP // 16):
                params = asc.LoadData2DParams(row, N // 16, STEP // 16, 0, 0, True, 0)
                asc.load_data(b2[row * N * 16 :], b1, params)
            asc.set_flag(asc.HardEvent.MTE1_MTE2, turn)
            asc.set_flag(asc.HardEvent.MTE1_M, turn)
            asc.wait_flag(asc.HardEvent.MTE1_M, turn)
            if step == 0:
                fresh = asc.MmadParams(M, N, STEP, unit_flag=0, cmatrix_source=True, cmatrix_init_val=False)
                asc.mmad(c, a2, b2, c2, fresh)
            else:
                more = asc.MmadParams(M, N, STEP, unit_flag=0, cmatrix_source=False, cmatrix_init_val=False)
                asc.mmad(c, a2, b2, more)
            asc.set_flag(asc.HardEvent.M_MTE1, turn)
        for turn in asc.static_range(2):
            asc.wait_flag(asc.HardEvent.MTE1_MTE2, turn)
            asc.wait_flag(asc.HardEvent.M_MTE1, turn)
        asc.set_flag(asc.HardEvent.M_FIX, 0)
        asc.wait_flag(asc.HardEvent.M_FIX, 0)
        asc.fixpipe(w_gm[group * M * N :], c, asc.FixpipeParamsV220(N, M, M, N))
        asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_FIX)
    else:
        asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE2)
        z_gm = asc.GlobalTensor()
        z_gm.set_global_buffer(z)
        start = asc.get_block_idx() * (M * N // 2)
        tile = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, M * N // 2)
        asc.data_copy(tile, w_gm[start:], count=M * N // 2)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        asc.leaky_relu(tile, tile, slope, count=M * N // 2)
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        asc.data_copy(z_gm[start:], tile, count=M * N // 2)


SIDE = 64
"""Rows of a tile of queries, of keys and of values, and the size of a head."""


@asc.jit
def multiply(target: asc.GlobalTensor, x: asc.GlobalTensor, y: asc.GlobalTensor, across: asc.ConstExpr[bool]):
    """target = x . y of SIDE x SIDE in float16, or x . y transposed; all of the cube core's pipes in order."""
    a1 = asc.LocalTensor(asc.float16, asc.TPosition.A1, 0, SIDE * SIDE)
    b1 = asc.LocalTensor(asc.float16, asc.TPosition.B1, 16384, SIDE * SIDE)
    a2 = asc.LocalTensor(asc.float16, asc.TPosition.A2, 0, SIDE * SIDE)
    b2 = asc.LocalTensor(asc.float16, asc.TPosition.B2, 0, SIDE * SIDE)
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, SIDE * SIDE)
    to_nz = asc.Nd2NzParams(1, SIDE, SIDE, 0, SIDE, SIDE, 1, 0)
    asc.data_copy(a1, x, intri_params=to_nz)
    asc.data_copy(b1, y, intri_params=to_nz)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    for row in asc.static_range(SIDE // 16):
        params = asc.LoadData2DParams(row, SIDE // 16, SIDE // 16, 0, 0, False, 0)
        asc.load_data(a2[row * SIDE * 16 :], a1, params)
    if across:
        asc.load_data(b2, b1, asc.LoadData2DParams(0, SIDE * SIDE // 256, 1, 0, 0, False, 0))
    else:
        for row in asc.static_range(SIDE // 16):
            params = asc.LoadData2DParams(row, SIDE // 16, SIDE // 16, 0, 0, True, 0)
            asc.load_data(b2[row * SIDE * 16 :], b1, params)
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    asc.mmad(c, a2, b2, asc.MmadParams(SIDE, SIDE, SIDE, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True))
    asc.set_flag(asc.HardEvent.M_FIX, 0)
    asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(target, c, asc.FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE))
    # The next product begins when this one has left the buffers.
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)


@asc.jit
def products(
    q_gm: asc.GlobalTensor,
    k_gm: asc.GlobalTensor,
    v_gm: asc.GlobalTensor,
    s_gm: asc.GlobalTensor,
    p_gm: asc.GlobalTensor,
    o_gm: asc.GlobalTensor,
    tiles: int,
):
    """The cube core's part of flash_attention."""
    for row in range(tiles):
        for column in range(tiles):
            multiply(s_gm, q_gm[row * SIDE * SIDE :], k_gm[column * SIDE * SIDE :], True)
            asc.cross_core_set_flag(0, 2, asc.PipeID.PIPE_FIX)
            asc.cross_core_wait_flag(1, 2, asc.PipeID.PIPE_MTE2)
            times_values(o_gm, p_gm, v_gm[column * SIDE * SIDE :])
            asc.cross_core_set_flag(2, 2, asc.PipeID.PIPE_FIX)


@asc.jit
def times_values(target: asc.GlobalTensor, p: asc.GlobalTensor, v: asc.GlobalTensor):
    """The product of the weights and the values."""
    a1 = asc.LocalTensor(asc.float16, asc.TPosition.A1, 32768, SIDE * SIDE)
    b1 = asc.LocalTensor(asc.float16, asc.TPosition.B1, 49152, SIDE * SIDE)
    a2 = asc.LocalTensor(asc.float16, asc.TPosition.A2, 16384, SIDE * SIDE)
    b2 = asc.LocalTensor(asc.float16, asc.TPosition.B2, 16384, SIDE * SIDE)
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 32768, SIDE * SIDE)
    to_nz = asc.Nd2NzParams(1, SIDE, SIDE, 0, SIDE, SIDE, 1, 0)
    asc.data_copy(a1, p, intri_params=to_nz)
    asc.data_copy(b1, v, intri_params=to_nz)
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    for row in asc.static_range(SIDE // 16):
        params = asc.LoadData2DParams(row, SIDE // 16, SIDE // 16, 0, 0, False, 0)
        asc.load_data(a2[row * SIDE * 16 :], a1, params)
        across = asc.LoadData2DParams(row, SIDE // 16, SIDE // 16, 0, 0, True, 0)
        asc.load_data(b2[row * SIDE * 16 :], b1, across)
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    asc.mmad(c, a2, b2, asc.MmadParams(SIDE, SIDE, SIDE, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True))
    asc.set_flag(asc.HardEvent.M_FIX, 0)
    asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(target, c, asc.FixpipeParamsV220(SIDE, SIDE, SIDE, SIDE))
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)


@asc.jit
def weights(
    s_gm: asc.GlobalTensor,
    p_gm: asc.GlobalTensor,
    o_gm: asc.GlobalTensor,
    z_gm: asc.GlobalTensor,
    tiles: int,
    scale: float,
):
    """The vector core's part of flash_attention: the running maximum and sum of each row, and the result so far."""
    s = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, SIDE * SIDE)
    o = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 16384, SIDE * SIDE)
    total = asc.LocalTensor(asc.float32, asc.TPosition.VECOUT, 32768, SIDE * SIDE)
    p = asc.LocalTensor(asc.float16, asc.TPosition.VECOUT, 49152, SIDE * SIDE)
    half = asc.LocalTensor(asc.float16, asc.TPosition.VECOUT, 57344, SIDE * SIDE)
    top = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 65536, SIDE)
    before = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 66048, SIDE)
    sums = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 66560, SIDE)
    more = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 67072, SIDE)
    each = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 67584, SIDE * 8)
    by_row = asc.BinaryRepeatParams(1, 1, 0, 8, 8, 1)
    spread = asc.BrcbRepeatParams(1, 8)
    for row in range(tiles):
        asc.duplicate(top, -60000.0, count=SIDE)
        asc.duplicate(sums, 0.0, count=SIDE)
        asc.duplicate(total, 0.0, count=SIDE * SIDE)
        for _column in range(tiles):
            asc.cross_core_wait_flag(0, 2, asc.PipeID.PIPE_MTE2)
            asc.data_copy(s, s_gm, count=SIDE * SIDE)
            asc.set_flag(asc.HardEvent.MTE2_V, 0)
            asc.wait_flag(asc.HardEvent.MTE2_V, 0)
            asc.muls(s, s, scale, count=SIDE * SIDE)
            asc.adds(before, top, 0.0, count=SIDE)
            asc.whole_reduce_max(more, s, SIDE, SIDE, 1, 1, 8, asc.ReduceOrder.ORDER_ONLY_VALUE)
            asc.max(top, top, more, count=SIDE)
            asc.brcb(each, top, SIDE // 8, spread)
            asc.sub(s, s, each, SIDE, SIDE, by_row)
            asc.exp(s, s, count=SIDE * SIDE)
            asc.cast(p, s, asc.RoundMode.CAST_RINT, count=SIDE * SIDE)
            asc.set_flag(asc.HardEvent.V_MTE3, 0)
            asc.wait_flag(asc.HardEvent.V_MTE3, 0)
            asc.data_copy(p_gm, p, count=SIDE * SIDE)
            asc.set_flag(asc.HardEvent.MTE3_V, 0)
            asc.cross_core_set_flag(1, 2, asc.PipeID.PIPE_MTE3)
            # While the cube core multiplies: how much of what there is still counts.
            asc.whole_reduce_sum(more, s, SIDE, SIDE, 1, 1, 8)
            asc.sub(before, before, top, count=SIDE)
            asc.exp(before, before, count=SIDE)
            asc.mul(sums, sums, before, count=SIDE)
            asc.add(sums, sums, more, count=SIDE)
            asc.brcb(each, before, SIDE // 8, spread)
            asc.mul(total, total, each, SIDE, SIDE, by_row)
            asc.wait_flag(asc.HardEvent.MTE3_V, 0)
            asc.cross_core_wait_flag(2, 2, asc.PipeID.PIPE_MTE2)
            asc.data_copy(o, o_gm, count=SIDE * SIDE)
            asc.set_flag(asc.HardEvent.MTE2_V, 1)
            asc.wait_flag(asc.HardEvent.MTE2_V, 1)
            asc.add(total, total, o, count=SIDE * SIDE)
            # What was read may be overwritten.
            asc.set_flag(asc.HardEvent.V_MTE2, 0)
            asc.wait_flag(asc.HardEvent.V_MTE2, 0)
        asc.brcb(each, sums, SIDE // 8, spread)
        asc.div(total, total, each, SIDE, SIDE, by_row)
        asc.cast(half, total, asc.RoundMode.CAST_RINT, count=SIDE * SIDE)
        asc.set_flag(asc.HardEvent.V_MTE3, 1)
        asc.wait_flag(asc.HardEvent.V_MTE3, 1)
        asc.data_copy(z_gm[row * SIDE * SIDE :], half, count=SIDE * SIDE)
        asc.set_flag(asc.HardEvent.MTE3_V, 1)
        asc.wait_flag(asc.HardEvent.MTE3_V, 1)


@asc.jit(kernel_type=config.KernelType.MIX_AIC_1_1)
def flash_attention(
    q: asc.GlobalAddress,
    k: asc.GlobalAddress,
    v: asc.GlobalAddress,
    s: asc.GlobalAddress,
    p: asc.GlobalAddress,
    o: asc.GlobalAddress,
    z: asc.GlobalAddress,
    tiles: int,
    scale: float,
):
    """softmax(q . k transposed * scale) . v of a head for each AI core, float16, by tiles, with flags between cores."""
    head = asc.get_block_idx()
    s_gm = asc.GlobalTensor()
    p_gm = asc.GlobalTensor()
    o_gm = asc.GlobalTensor()
    s_gm.set_global_buffer(s + head * (SIDE * SIDE))
    p_gm.set_global_buffer(p + head * (SIDE * SIDE))
    o_gm.set_global_buffer(o + head * (SIDE * SIDE))
    start = head * tiles * (SIDE * SIDE)
    if asc.ascend_is_aic():
        q_gm = asc.GlobalTensor()
        k_gm = asc.GlobalTensor()
        v_gm = asc.GlobalTensor()
        q_gm.set_global_buffer(q + start)
        k_gm.set_global_buffer(k + start)
        v_gm.set_global_buffer(v + start)
        products(q_gm, k_gm, v_gm, s_gm, p_gm, o_gm, tiles)
    else:
        z_gm = asc.GlobalTensor()
        z_gm.set_global_buffer(z + start)
        weights(s_gm, p_gm, o_gm, z_gm, tiles, scale)
