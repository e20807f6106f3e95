"""A whole matmul on the cube, as a learner writes it: blocks over m and n, base tiles, k in steps, queues."""

import cannlab.ascendc as asc
from cannlab.ascendc.runtime import config

BASE_M, BASE_N, BASE_K = 32, 64, 64
M = N = K = 512


@asc.jit(kernel_type=config.KernelType.AIC_ONLY)
def matmul(
    x: asc.GlobalAddress,
    yt: asc.GlobalAddress,
    bias: asc.GlobalAddress,
    z: asc.GlobalAddress,
    relu: asc.ConstExpr[bool],
):
    """z (M x N) = x (M x K) . yt (N x K) transposed + bias, one base tile of z in each block."""
    block = asc.get_block_idx()
    row = block // (N // BASE_N) * BASE_M
    column = block % (N // BASE_N) * BASE_N
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    b_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x + row * K)
    y_gm.set_global_buffer(yt + column * K)
    b_gm.set_global_buffer(bias + column)
    z_gm.set_global_buffer(z + (row * N + column))

    pipe = asc.TPipe()
    in_a1 = asc.TQue(asc.TPosition.A1, 2)
    in_b1 = asc.TQue(asc.TPosition.B1, 2)
    in_c1 = asc.TQue(asc.TPosition.C1, 1)
    in_a2 = asc.TQue(asc.TPosition.A2, 2)
    in_b2 = asc.TQue(asc.TPosition.B2, 2)
    in_c2 = asc.TQue(asc.TPosition.C2, 1)
    out_c = asc.TQue(asc.TPosition.CO1, 1)
    pipe.init_buffer(in_a1, 2, BASE_M * BASE_K * 2)
    pipe.init_buffer(in_b1, 2, BASE_N * BASE_K * 2)
    pipe.init_buffer(in_c1, 1, BASE_N * 4)
    pipe.init_buffer(in_a2, 2, BASE_M * BASE_K * 2)
    pipe.init_buffer(in_b2, 2, BASE_N * BASE_K * 2)
    pipe.init_buffer(in_c2, 1, BASE_N * 4)
    pipe.init_buffer(out_c, 1, BASE_M * BASE_N * 4)

    c1 = in_c1.alloc_tensor(asc.float32)
    asc.data_copy(c1, b_gm, count=BASE_N)
    in_c1.enque(c1)
    c1 = in_c1.deque(asc.float32)
    c2 = in_c2.alloc_tensor(asc.float32)
    asc.data_copy(c2, c1, count=BASE_N)
    in_c2.enque(c2)
    in_c1.free_tensor(c1)
    c2 = in_c2.deque(asc.float32)

    c = out_c.alloc_tensor(asc.float32)
    for step in asc.range(K // BASE_K):
        a1 = in_a1.alloc_tensor(asc.float16)
        b1 = in_b1.alloc_tensor(asc.float16)
        a_params = asc.Nd2NzParams(1, BASE_M, BASE_K, 0, K, BASE_M, 1, 0)
        b_params = asc.Nd2NzParams(1, BASE_N, BASE_K, 0, K, BASE_N, 1, 0)
        asc.data_copy(a1, x_gm[step * BASE_K :], intri_params=a_params)
        asc.data_copy(b1, y_gm[step * BASE_K :], intri_params=b_params)
        in_a1.enque(a1)
        in_b1.enque(b1)

        a1 = in_a1.deque(asc.float16)
        b1 = in_b1.deque(asc.float16)
        a2 = in_a2.alloc_tensor(asc.float16)
        b2 = in_b2.alloc_tensor(asc.float16)
        for i in asc.static_range(BASE_M // 16):
            # A row of fractals: one fractal of each column block of A1.
            row_params = asc.LoadData2DParams(i, BASE_K // 16, BASE_M // 16, 0, 0, False, 0)
            asc.load_data(a2[i * BASE_K * 16 :], a1, row_params)
        whole = asc.LoadData2DParams(0, BASE_N * BASE_K // 256, 1, 0, 0, False, 0)
        asc.load_data(b2, b1, whole)
        in_a1.free_tensor(a1)
        in_b1.free_tensor(b1)
        in_a2.enque(a2)
        in_b2.enque(b2)

        a2 = in_a2.deque(asc.float16)
        b2 = in_b2.deque(asc.float16)
        if step == 0:
            first = asc.MmadParams(BASE_M, BASE_N, BASE_K, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True)
            asc.mmad(c, a2, b2, c2, first)
        else:
            more = asc.MmadParams(BASE_M, BASE_N, BASE_K, unit_flag=0, cmatrix_source=False, cmatrix_init_val=False)
            asc.mmad(c, a2, b2, more)
        in_a2.free_tensor(a2)
        in_b2.free_tensor(b2)
    in_c2.free_tensor(c2)
    out_c.enque(c)
    c = out_c.deque(asc.float32)
    asc.fixpipe(z_gm, c, asc.FixpipeParamsV220(BASE_N, BASE_M, BASE_M, N, relu_en=relu))
    out_c.free_tensor(c)
