"""Kernels with a Matmul object, as a learner writes them."""

import cannlab.ascendc as asc

GM, UB = asc.TPosition.GM, asc.TPosition.VECIN
ND, NZ = asc.CubeFormat.ND, asc.CubeFormat.NZ


@asc.jit
def whole(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    b: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
    kind: asc.ConstExpr[asc.DataType],
    result: asc.ConstExpr[asc.DataType],
    sums: asc.ConstExpr[asc.DataType],
    a_form: asc.ConstExpr[asc.CubeFormat],
    b_form: asc.ConstExpr[asc.CubeFormat],
    c_form: asc.ConstExpr[asc.CubeFormat],
    a_trans: asc.ConstExpr[bool],
    b_trans: asc.ConstExpr[bool],
    biased: asc.ConstExpr[bool],
    atomic: asc.ConstExpr[int],
):
    """z = op(x) . op(y) (+ b) of one core's part, in one call."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    b_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    b_gm.set_global_buffer(b)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    a_type = asc.adv.MatmulType(GM, a_form, kind, a_trans)
    b_type = asc.adv.MatmulType(GM, b_form, kind, b_trans)
    c_type = asc.adv.MatmulType(GM, c_form, result)
    bias_type = asc.adv.MatmulType(GM, ND, sums)
    mm = asc.adv.Matmul(a_type, b_type, c_type, bias_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    if asc.get_block_idx() == 0:
        mm.set_tensor_a(x_gm, a_trans)
        mm.set_tensor_b(y_gm, b_trans)
        if biased:
            mm.set_bias(b_gm)
        mm.iterate_all(z_gm, atomic)
        mm.end()


@asc.jit
def blocks(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
    kind: asc.ConstExpr[asc.DataType],
):
    """z = x . y over a grid of parts, the last ones smaller."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    a_type = asc.adv.MatmulType(GM, ND, kind)
    c_type = asc.adv.MatmulType(GM, ND, asc.float32)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    block = asc.get_block_idx()
    if block < tiling.used_core_num:
        rows = asc.ceildiv(tiling.m, tiling.single_core_m)
        row = block % rows
        column = block // rows
        mm.set_tensor_a(x_gm[row * tiling.single_core_m * tiling.k_a :])
        mm.set_tensor_b(y_gm[column * tiling.single_core_n :])
        tail_m = asc.number(tiling.single_core_m, asc.int32)
        tail_n = asc.number(tiling.single_core_n, asc.int32)
        if (row + 1) * tiling.single_core_m > tiling.m:
            tail_m = tiling.m - row * tiling.single_core_m
        if (column + 1) * tiling.single_core_n > tiling.n:
            tail_n = tiling.n - column * tiling.single_core_n
        mm.set_tail(tail_m, tail_n)
        mm.iterate_all(z_gm[row * tiling.single_core_m * tiling.n + column * tiling.single_core_n :])
        mm.end()


@asc.jit
def leaky(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
):
    """z = leaky_relu(x . y): each base tile comes into the UB, goes through the vector unit and out to its place."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    block = asc.get_block_idx()
    x_gm.set_global_buffer(x + block * tiling.single_core_m * tiling.k_a)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z + block * tiling.single_core_m * tiling.n)
    pipe = asc.TPipe()
    out = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(out, 1, tiling.base_m * tiling.base_n * 4)
    a_type = asc.adv.MatmulType(GM, ND, asc.float16)
    c_type = asc.adv.MatmulType(UB, ND, asc.float32)
    mm = asc.adv.Matmul(a_type, a_type, c_type, matmul_config=asc.adv.get_mdl_config())
    asc.adv.register_matmul(pipe, workspace, mm)
    mm.init(tiling)
    mm.set_tensor_a(x_gm)
    mm.set_tensor_b(y_gm)
    rows = asc.ceildiv(tiling.single_core_m, tiling.base_m)
    with mm.iterate() as i:
        tile = out.alloc_tensor(asc.float32)
        mm.get_tensor_c(tile, 0, True)
        asc.leaky_relu(tile, tile, 0.5, count=tiling.base_m * tiling.base_n)
        out.enque(tile)
        tile = out.deque(asc.float32)
        at = i % rows * tiling.base_m * tiling.n + i // rows * tiling.base_n
        gap = (tiling.n - tiling.base_n) // 8
        asc.data_copy(
            z_gm[at:],
            tile,
            repeat_params=asc.DataCopyParams(tiling.base_m, tiling.base_n // 8, 0, gap),
        )
        out.free_tensor(tile)
    mm.end()


@asc.jit
def tiles(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
):
    """z = x . y, base tile by base tile into their places in global memory."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    a_type = asc.adv.MatmulType(GM, ND, asc.float16)
    c_type = asc.adv.MatmulType(GM, ND, asc.float32)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    if asc.get_block_idx() == 0:
        mm.set_tensor_a(x_gm)
        mm.set_tensor_b(y_gm)
        with mm.iterate():
            mm.get_tensor_c(z_gm)
        mm.end()


@asc.jit
def from_ub(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
    x_count: asc.ConstExpr[int],
    y_count: asc.ConstExpr[int],
    z_count: asc.ConstExpr[int],
):
    """z = (2 x) . y + 1, all three through the UB."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    block = asc.get_block_idx()
    x_gm.set_global_buffer(x + block * x_count)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z + block * z_count)
    pipe = asc.TPipe()
    x_in = asc.TQue(asc.TPosition.VECIN, 1)
    y_in = asc.TQue(asc.TPosition.VECIN, 1)
    z_out = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(x_in, 1, x_count * 2)
    pipe.init_buffer(y_in, 1, y_count * 2)
    pipe.init_buffer(z_out, 1, z_count * 4)
    a_type = asc.adv.MatmulType(UB, ND, asc.float16)
    c_type = asc.adv.MatmulType(UB, ND, asc.float32)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    a = x_in.alloc_tensor(asc.float16)
    asc.data_copy(a, x_gm, count=x_count)
    x_in.enque(a)
    b = y_in.alloc_tensor(asc.float16)
    asc.data_copy(b, y_gm, count=y_count)
    y_in.enque(b)
    a = x_in.deque(asc.float16)
    b = y_in.deque(asc.float16)
    asc.muls(a, a, 2.0, count=x_count)
    mm.set_tensor_a(a)
    mm.set_tensor_b(b)
    c = z_out.alloc_tensor(asc.float32)
    mm.iterate_all(c)
    mm.end()
    asc.adds(c, c, 1.0, count=z_count)
    z_out.enque(c)
    c = z_out.deque(asc.float32)
    asc.data_copy(z_gm, c, count=z_count)
    z_out.free_tensor(c)
    x_in.free_tensor(a)
    y_in.free_tensor(b)


@asc.jit
def quantised(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    words: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
    result: asc.ConstExpr[asc.DataType],
    word: asc.ConstExpr[int],
):
    """int8 . int8, scaled by one word (0: by one for each column)."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    w_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    w_gm.set_global_buffer(words)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    a_type = asc.adv.MatmulType(GM, ND, asc.int8)
    c_type = asc.adv.MatmulType(GM, ND, result)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    if asc.get_block_idx() == 0:
        if word == 0:
            mm.set_quant_vector(w_gm)
        else:
            mm.set_quant_scalar(word)
        mm.set_tensor_a(x_gm)
        mm.set_tensor_b(y_gm)
        mm.iterate_all(z_gm)
        mm.end()


@asc.jit
def batch(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
    a_count: asc.ConstExpr[int],
    b_count: asc.ConstExpr[int],
):
    """Several matmuls in one call."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    normal = asc.LayoutMode.NORMAL
    a_type = asc.adv.MatmulType(GM, ND, asc.float16, False, normal)
    c_type = asc.adv.MatmulType(GM, ND, asc.float32, False, normal)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    if asc.get_block_idx() == 0:
        mm.set_tensor_a(x_gm)
        mm.set_tensor_b(y_gm)
        mm.iterate_batch(z_gm, a_count, b_count, False)
        mm.end()


@asc.jit
def later(
    x: asc.GlobalAddress,
    y: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
    waits: asc.ConstExpr[bool],
):
    """Asks without waiting, then adds 1 to the first row of the result."""
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    row = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(row, 64)
    a_type = asc.adv.MatmulType(GM, ND, asc.float16)
    c_type = asc.adv.MatmulType(GM, ND, asc.float32)
    mm = asc.adv.Matmul(a_type, a_type, c_type)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    if asc.get_block_idx() == 0:
        mm.set_tensor_a(x_gm)
        mm.set_tensor_b(y_gm)
        mm.iterate_all(z_gm, 0, False, False, True)
        if waits:
            mm.wait_iterate_all()
        line = row.get(asc.float32)
        asc.data_copy(line, z_gm, count=16)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.adds(line, line, 1.0, count=16)
        asc.pipe_barrier(asc.PipeID.PIPE_ALL)
        asc.data_copy(z_gm, line, count=16)
        mm.end()


@asc.jit
def filled(
    x: asc.GlobalAddress,
    z: asc.GlobalAddress,
    workspace: asc.GlobalAddress,
    tiling: asc.adv.TCubeTiling,
):
    """z = x . (a matrix of ones)."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    a_type = asc.adv.MatmulType(GM, ND, asc.float16)
    c_type = asc.adv.MatmulType(GM, ND, asc.float32)
    config = asc.adv.get_normal_config()
    mm = asc.adv.Matmul(a_type, a_type, c_type, matmul_config=config)
    asc.adv.register_matmul(pipe, workspace, mm, tiling)
    if asc.get_block_idx() == 0:
        mm.set_tensor_a(x_gm)
        mm.set_tensor_b(1)
        mm.iterate_all(z_gm)
        mm.end()
