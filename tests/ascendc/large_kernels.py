"""Launches of real sizes: an add over all vector cores, and matmuls in large base tiles, with flags."""

import cannlab.ascendc as asc
from cannlab.ascendc.runtime import config

TILE = 4096


@asc.jit
def add(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress, length: int):
    """z = x + y on float16 elements, in tiles that the blocks take in turn."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    in_y = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, 2, TILE * 2)
    pipe.init_buffer(in_y, 2, TILE * 2)
    pipe.init_buffer(out_z, 2, TILE * 2)
    for tile in range(asc.get_block_idx(), length // TILE, asc.get_block_num()):
        a = in_x.alloc_tensor(asc.float16)
        b = in_y.alloc_tensor(asc.float16)
        asc.data_copy(a, x_gm[tile * TILE :], count=TILE)
        asc.data_copy(b, y_gm[tile * TILE :], count=TILE)
        in_x.enque(a)
        in_y.enque(b)
        a = in_x.deque(asc.float16)
        b = in_y.deque(asc.float16)
        c = out_z.alloc_tensor(asc.float16)
        asc.add(c, a, b, count=TILE)
        in_x.free_tensor(a)
        in_y.free_tensor(b)
        out_z.enque(c)
        c = out_z.deque(asc.float16)
        asc.data_copy(z_gm[tile * TILE :], c, count=TILE)
        out_z.free_tensor(c)


BASE_M, BASE_N = 128, 256
"""A base tile of the result fills L0C."""
BASE_K, DEEP = 64, 128
"""k of an mmad, and of what lies in L1 at once."""
SIDE, ACROSS, DOWN = 8192, 3, 8
"""The blocks stand in a grid: 8 strips of 1,024 rows, and 11, 11 and 10 base tiles of columns."""


@asc.jit
def base_tile(
    c: asc.LocalTensor,
    x_gm: asc.GlobalTensor,
    y_gm: asc.GlobalTensor,
    m: asc.ConstExpr[int],
    n: asc.ConstExpr[int],
    k: asc.ConstExpr[int],
    stride: asc.ConstExpr[int],
    deep: asc.ConstExpr[int],
):
    """c (m x n) = rows of x times rows of y, both ``stride`` long: L1 and L0 hold two steps each.

    The flags 0 and 1 of MTE1_MTE2 and M_MTE1 are up before and after.
    """
    for outer in range(stride // deep):
        side = outer % 2
        a1 = asc.LocalTensor(asc.float16, asc.TPosition.A1, side * (m + n) * deep * 2, m * deep)
        b1 = asc.LocalTensor(asc.float16, asc.TPosition.B1, side * (m + n) * deep * 2 + m * deep * 2, n * deep)
        asc.wait_flag(asc.HardEvent.MTE1_MTE2, side)
        asc.data_copy(a1, x_gm[outer * deep :], intri_params=asc.Nd2NzParams(1, m, deep, 0, stride, m, 1, 0))
        asc.data_copy(b1, y_gm[outer * deep :], intri_params=asc.Nd2NzParams(1, n, deep, 0, stride, n, 1, 0))
        asc.set_flag(asc.HardEvent.MTE2_MTE1, side)
        asc.wait_flag(asc.HardEvent.MTE2_MTE1, side)
        for step in asc.static_range(deep // k):
            a2 = asc.LocalTensor(asc.float16, asc.TPosition.A2, step % 2 * m * k * 2, m * k)
            b2 = asc.LocalTensor(asc.float16, asc.TPosition.B2, step % 2 * n * k * 2, n * k)
            asc.wait_flag(asc.HardEvent.M_MTE1, step % 2)
            # As an image of m pixels in one line, by a filter of one pixel: all rows of fractals at once.
            a_image = asc.LoadData3DParamsV2([0, 0, 0, 0], 1, m, deep, k, m, step * k, 0, 1, 1, 1, 1, 1, 1)
            asc.load_data(a2, a1, a_image)
            whole = asc.LoadData2DParams(step * (n * k // 256), n * k // 256, 1, 0, 0, False, 0)
            asc.load_data(b2, b1, whole)
            asc.set_flag(asc.HardEvent.MTE1_M, step % 2)
            asc.wait_flag(asc.HardEvent.MTE1_M, step % 2)
            if step == 0:
                first = asc.MmadParams(m, n, k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=outer == 0)
                asc.mmad(c, a2, b2, first)
            else:
                more = asc.MmadParams(m, n, k, unit_flag=0, cmatrix_source=False, cmatrix_init_val=False)
                asc.mmad(c, a2, b2, more)
            asc.set_flag(asc.HardEvent.M_MTE1, step % 2)
        asc.set_flag(asc.HardEvent.MTE1_MTE2, side)


@asc.jit(kernel_type=config.KernelType.AIC_ONLY)
def matmul(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress):
    """z = x . y transposed, SIDE x SIDE float16, on 24 blocks."""
    block = asc.get_block_idx()
    row = block / ACROSS * (SIDE // DOWN)
    first = block % ACROSS * 11
    tiles = SIDE // BASE_N - first
    if tiles > 11:
        tiles = asc.number(11, asc.int32)
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + row * SIDE)
    y_gm.set_global_buffer(y + first * BASE_N * SIDE)
    z_gm.set_global_buffer(z + (row * SIDE + first * BASE_N))
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, BASE_M * BASE_N)
    for free in asc.static_range(2):
        asc.set_flag(asc.HardEvent.MTE1_MTE2, free)
        asc.set_flag(asc.HardEvent.M_MTE1, free)
    asc.set_flag(asc.HardEvent.FIX_M, 0)
    for down in range(SIDE // DOWN // BASE_M):
        for across in range(tiles):
            asc.wait_flag(asc.HardEvent.FIX_M, 0)
            strip = y_gm[across * BASE_N * SIDE :]
            base_tile(c, x_gm[down * BASE_M * SIDE :], strip, BASE_M, BASE_N, BASE_K, SIDE, DEEP)
            asc.set_flag(asc.HardEvent.M_FIX, 0)
            asc.wait_flag(asc.HardEvent.M_FIX, 0)
            params = asc.FixpipeParamsV220(BASE_N, BASE_M, BASE_M, SIDE, asc.QuantModes.F322F16)
            asc.fixpipe(z_gm[down * BASE_M * SIDE + across * BASE_N :], c, params)
            asc.set_flag(asc.HardEvent.FIX_M, 0)
    asc.wait_flag(asc.HardEvent.FIX_M, 0)
    for free in asc.static_range(2):
        asc.wait_flag(asc.HardEvent.MTE1_MTE2, free)
        asc.wait_flag(asc.HardEvent.M_MTE1, free)


@asc.jit(kernel_type=config.KernelType.AIC_ONLY)
def matmul_512(x: asc.GlobalAddress, y: asc.GlobalAddress, z: asc.GlobalAddress):
    """z = x . y transposed, 512 x 512 float16 to float32, a tile of 128 x 128 in each of 16 blocks."""
    block = asc.get_block_idx()
    row = block / 4 * 128
    column = block % 4 * 128
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + row * 512)
    y_gm.set_global_buffer(y + column * 512)
    z_gm.set_global_buffer(z + (row * 512 + column))
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 128 * 128)
    for free in asc.static_range(2):
        asc.set_flag(asc.HardEvent.MTE1_MTE2, free)
        asc.set_flag(asc.HardEvent.M_MTE1, free)
    base_tile(c, x_gm, y_gm, 128, 128, 64, 512, 128)
    asc.set_flag(asc.HardEvent.M_FIX, 0)
    asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(z_gm, c, asc.FixpipeParamsV220(128, 128, 128, 512))
    for free in asc.static_range(2):
        asc.wait_flag(asc.HardEvent.MTE1_MTE2, free)
        asc.wait_flag(asc.HardEvent.M_MTE1, free)
