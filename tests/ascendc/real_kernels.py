"""Kernels of the size of real ones, as a good programmer writes them: queues or flags, several cores, tiles, tails."""

import cannlab.ascendc as asc

ROWS = 8
"""Rows of a tile of the kernels that go row by row."""
LANES = 64
"""float32 elements of a repeat."""


@asc.jit
def row_sums(total: asc.LocalTensor, work: asc.LocalTensor, x: asc.LocalTensor, rows: int, width: asc.ConstExpr[int]):
    """The sum of each row of x (rows x width, width a multiple of 64), one after another in total."""
    stride = width // 8
    asc.add(work, x, x[LANES:], LANES, rows, asc.BinaryRepeatParams(1, 1, 1, 8, stride, stride))
    for part in asc.static_range(2, width // LANES):
        asc.add(work, work, x[part * LANES :], LANES, rows, asc.BinaryRepeatParams(1, 1, 1, 8, 8, stride))
    asc.whole_reduce_sum(total, work, LANES, rows, 1, 1, 8)


@asc.jit
def softmax(x: asc.GlobalAddress, z: asc.GlobalAddress, rows: int, width: asc.ConstExpr[int]):
    """Softmax of each row; eight rows a tile, the blocks take the tiles in turn; rows of 128 elements or more."""
    whole = width // LANES
    rest = width % LANES
    stride = width // 8
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    scratch = asc.TBuf(asc.TPosition.VECCALC)
    single = asc.TBuf(asc.TPosition.VECCALC)
    spread = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(in_x, 2, ROWS * width * 4)
    pipe.init_buffer(out_z, 2, ROWS * width * 4)
    pipe.init_buffer(scratch, ROWS * LANES * 4)
    pipe.init_buffer(single, 32)
    pipe.init_buffer(spread, ROWS * 32)
    work = scratch.get(asc.float32)
    one = single.get(asc.float32)
    each = spread.get(asc.float32)
    asc.duplicate(one, 1.0, count=8)
    tiles = (rows + ROWS - 1) // ROWS
    for tile in range(asc.get_block_idx(), tiles, asc.get_block_num()):
        here = rows - tile * ROWS
        if here > ROWS:
            here = asc.number(ROWS, asc.int32)
        a = in_x.alloc_tensor(asc.float32)
        asc.data_copy(a, x_gm[tile * ROWS * width :], count=here * width)
        in_x.enque(a)
        a = in_x.deque(asc.float32)
        b = out_z.alloc_tensor(asc.float32)
        # The largest of each row: its parts over one another, then each repeat to one number.
        asc.max(work, a, a[LANES:], LANES, here, asc.BinaryRepeatParams(1, 1, 1, 8, stride, stride))
        for part in asc.static_range(2, whole):
            asc.max(work, work, a[part * LANES :], LANES, here, asc.BinaryRepeatParams(1, 1, 1, 8, 8, stride))
        if rest > 0:
            asc.max(work, work, a[whole * LANES :], rest, here, asc.BinaryRepeatParams(1, 1, 1, 8, 8, stride))
        asc.whole_reduce_max(one, work, LANES, here, 1, 1, 8, asc.ReduceOrder.ORDER_ONLY_VALUE)
        asc.brcb(each, one, 1, asc.BrcbRepeatParams(1, 8))
        for part in asc.static_range(whole):
            params = asc.BinaryRepeatParams(1, 1, 0, stride, stride, 1)
            asc.sub(b[part * LANES :], a[part * LANES :], each, LANES, here, params)
        if rest > 0:
            params = asc.BinaryRepeatParams(1, 1, 0, stride, stride, 1)
            asc.sub(b[whole * LANES :], a[whole * LANES :], each, rest, here, params)
        asc.exp(b, b, count=here * width)
        in_x.free_tensor(a)
        asc.add(work, b, b[LANES:], LANES, here, asc.BinaryRepeatParams(1, 1, 1, 8, stride, stride))
        for part in asc.static_range(2, whole):
            asc.add(work, work, b[part * LANES :], LANES, here, asc.BinaryRepeatParams(1, 1, 1, 8, 8, stride))
        if rest > 0:
            asc.add(work, work, b[whole * LANES :], rest, here, asc.BinaryRepeatParams(1, 1, 1, 8, 8, stride))
        asc.whole_reduce_sum(one, work, LANES, here, 1, 1, 8)
        asc.brcb(each, one, 1, asc.BrcbRepeatParams(1, 8))
        for part in asc.static_range(whole):
            params = asc.BinaryRepeatParams(1, 1, 0, stride, stride, 1)
            asc.div(b[part * LANES :], b[part * LANES :], each, LANES, here, params)
        if rest > 0:
            params = asc.BinaryRepeatParams(1, 1, 0, stride, stride, 1)
            asc.div(b[whole * LANES :], b[whole * LANES :], each, rest, here, params)
        out_z.enque(b)
        b = out_z.deque(asc.float32)
        asc.data_copy(z_gm[tile * ROWS * width :], b, count=here * width)
        out_z.free_tensor(b)


@asc.jit
def layer_norm(
    x: asc.GlobalAddress,
    gamma: asc.GlobalAddress,
    beta: asc.GlobalAddress,
    z: asc.GlobalAddress,
    rows: int,
    width: asc.ConstExpr[int],
    epsilon: float,
):
    """Layer norm of float16 rows, computed in float32; eight rows a tile; width is a multiple of 64, 128 or more."""
    stride = width // 8
    x_gm = asc.GlobalTensor()
    g_gm = asc.GlobalTensor()
    b_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    g_gm.set_global_buffer(gamma)
    b_gm.set_global_buffer(beta)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    in_g = asc.TQue(asc.TPosition.VECIN, 1)
    in_b = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    wide = asc.TBuf(asc.TPosition.VECCALC)
    squares = asc.TBuf(asc.TPosition.VECCALC)
    scratch = asc.TBuf(asc.TPosition.VECCALC)
    single = asc.TBuf(asc.TPosition.VECCALC)
    spread = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(in_x, 2, ROWS * width * 2)
    pipe.init_buffer(in_g, 1, width * 4)
    pipe.init_buffer(in_b, 1, width * 4)
    pipe.init_buffer(out_z, 2, ROWS * width * 2)
    pipe.init_buffer(wide, ROWS * width * 4)
    pipe.init_buffer(squares, ROWS * width * 4)
    pipe.init_buffer(scratch, ROWS * LANES * 4)
    pipe.init_buffer(single, 32)
    pipe.init_buffer(spread, ROWS * 32)
    v = wide.get(asc.float32)
    s = squares.get(asc.float32)
    work = scratch.get(asc.float32)
    one = single.get(asc.float32)
    each = spread.get(asc.float32)
    asc.duplicate(one, 1.0, count=8)
    g = in_g.alloc_tensor(asc.float32)
    asc.data_copy(g, g_gm, count=width)
    in_g.enque(g)
    g = in_g.deque(asc.float32)
    b = in_b.alloc_tensor(asc.float32)
    asc.data_copy(b, b_gm, count=width)
    in_b.enque(b)
    b = in_b.deque(asc.float32)
    tiles = (rows + ROWS - 1) // ROWS
    for tile in range(asc.get_block_idx(), tiles, asc.get_block_num()):
        here = rows - tile * ROWS
        if here > ROWS:
            here = asc.number(ROWS, asc.int32)
        half = in_x.alloc_tensor(asc.float16)
        asc.data_copy(half, x_gm[tile * ROWS * width :], count=here * width)
        in_x.enque(half)
        half = in_x.deque(asc.float16)
        asc.cast(v, half, asc.RoundMode.CAST_NONE, count=here * width)
        in_x.free_tensor(half)
        row_sums(one, work, v, here, width)
        asc.muls(one, one, 1.0 / width, count=8)
        asc.brcb(each, one, 1, asc.BrcbRepeatParams(1, 8))
        for part in asc.static_range(width // LANES):
            params = asc.BinaryRepeatParams(1, 1, 0, stride, stride, 1)
            asc.sub(v[part * LANES :], v[part * LANES :], each, LANES, here, params)
        asc.mul(s, v, v, count=here * width)
        row_sums(one, work, s, here, width)
        asc.muls(one, one, 1.0 / width, count=8)
        asc.adds(one, one, epsilon, count=8)
        asc.sqrt(one, one, count=8)
        asc.brcb(each, one, 1, asc.BrcbRepeatParams(1, 8))
        for part in asc.static_range(width // LANES):
            at = part * LANES
            asc.div(v[at:], v[at:], each, LANES, here, asc.BinaryRepeatParams(1, 1, 0, stride, stride, 1))
            asc.mul(v[at:], v[at:], g[at:], LANES, here, asc.BinaryRepeatParams(1, 1, 1, stride, stride, 0))
            asc.add(v[at:], v[at:], b[at:], LANES, here, asc.BinaryRepeatParams(1, 1, 1, stride, stride, 0))
        out = out_z.alloc_tensor(asc.float16)
        asc.cast(out, v, asc.RoundMode.CAST_RINT, count=here * width)
        out_z.enque(out)
        out = out_z.deque(asc.float16)
        asc.data_copy(z_gm[tile * ROWS * width :], out, count=here * width)
        out_z.free_tensor(out)
    in_g.free_tensor(g)
    in_b.free_tensor(b)


@asc.jit
def rms_norm(
    x: asc.GlobalAddress, gamma: asc.GlobalAddress, z: asc.GlobalAddress, rows: int, width: int, epsilon: float
):
    """RMS norm, a row at a time, with flags and barriers; the row's scale goes through the scalar unit."""
    x_gm = asc.GlobalTensor()
    g_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    g_gm.set_global_buffer(gamma)
    z_gm.set_global_buffer(z)
    g = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 0, width)
    s = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 16384, width)
    shared = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 32768, 1024)
    one = asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 40960, 8)
    asc.data_copy(g, g_gm, count=width)
    for free in asc.static_range(2):
        asc.set_flag(asc.HardEvent.MTE3_MTE2, free)
    share = (rows + asc.get_block_num() - 1) // asc.get_block_num()
    first = asc.get_block_idx() * share
    last = first + share
    if last > rows:
        last = rows
    for row in range(first, last):
        turn = row % 2
        v = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, 65536 + turn * 16384, width)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, turn)
        asc.data_copy(v, x_gm[row * width :], count=width)
        asc.set_flag(asc.HardEvent.MTE2_V, turn)
        asc.wait_flag(asc.HardEvent.MTE2_V, turn)
        asc.mul(s, v, v, count=width)
        asc.pipe_barrier(asc.PipeID.PIPE_V)
        asc.reduce_sum(one, s, shared, count=width)
        asc.set_flag(asc.HardEvent.V_S, 0)
        asc.wait_flag(asc.HardEvent.V_S, 0)
        mean = one.get_value(0) / width.cast(asc.float32) + epsilon
        one.set_value(0, mean)
        asc.set_flag(asc.HardEvent.S_V, 0)
        asc.wait_flag(asc.HardEvent.S_V, 0)
        asc.sqrt(one, one, 1, 1, asc.UnaryRepeatParams(1, 1, 8, 8))
        asc.set_flag(asc.HardEvent.V_S, 0)
        asc.wait_flag(asc.HardEvent.V_S, 0)
        root = one.get_value(0)
        asc.set_flag(asc.HardEvent.S_V, 1)
        asc.wait_flag(asc.HardEvent.S_V, 1)
        asc.muls(v, v, 1.0 / root, count=width)
        asc.pipe_barrier(asc.PipeID.PIPE_V)
        asc.mul(v, v, g, count=width)
        asc.set_flag(asc.HardEvent.V_MTE3, turn)
        asc.wait_flag(asc.HardEvent.V_MTE3, turn)
        asc.data_copy(z_gm[row * width :], v, count=width)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, turn)
    for free in asc.static_range(2):
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, free)


TILE = 2048


@asc.jit
def gelu(x: asc.GlobalAddress, z: asc.GlobalAddress, length: int):
    """x * (1 + erf(x / sqrt(2))) / 2 of float32 elements of any number; the tail is copied to the byte."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, 2, TILE * 4)
    pipe.init_buffer(out_z, 2, TILE * 4)
    tiles = (length + TILE - 1) // TILE
    for tile in range(asc.get_block_idx(), tiles, asc.get_block_num()):
        here = length - tile * TILE
        if here > TILE:
            here = asc.number(TILE, asc.int32)
        a = in_x.alloc_tensor(asc.float32)
        pad = asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0)
        asc.data_copy_pad(a, x_gm[tile * TILE :], asc.DataCopyExtParams(1, here * 4, 0, 0, 0), pad)
        in_x.enque(a)
        a = in_x.deque(asc.float32)
        b = out_z.alloc_tensor(asc.float32)
        asc.muls(b, a, 0.7071067811865476, count=here)
        asc.adv.erf(b, b, count=here)
        asc.adds(b, b, 1.0, count=here)
        asc.mul(b, b, a, count=here)
        asc.muls(b, b, 0.5, count=here)
        in_x.free_tensor(a)
        out_z.enque(b)
        b = out_z.deque(asc.float32)
        asc.data_copy_pad(z_gm[tile * TILE :], b, asc.DataCopyExtParams(1, here * 4, 0, 0, 0))
        out_z.free_tensor(b)


@asc.jit
def quantise(x: asc.GlobalAddress, z: asc.GlobalAddress, length: int, scale: float):
    """round(x / scale), kept within -128 and 127, as int8: by way of int32 and half, which hold these exactly."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    whole_numbers = asc.TBuf(asc.TPosition.VECCALC)
    halves = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(in_x, 2, TILE * 4)
    pipe.init_buffer(out_z, 2, TILE)
    pipe.init_buffer(whole_numbers, TILE * 4)
    pipe.init_buffer(halves, TILE * 2)
    number = whole_numbers.get(asc.int32)
    half = halves.get(asc.float16)
    asc.set_deq_scale(1.0)
    tiles = (length + TILE - 1) // TILE
    for tile in range(asc.get_block_idx(), tiles, asc.get_block_num()):
        here = length - tile * TILE
        if here > TILE:
            here = asc.number(TILE, asc.int32)
        a = in_x.alloc_tensor(asc.float32)
        pad = asc.DataCopyPadExtParams(asc.float32, False, 0, 0, 0)
        asc.data_copy_pad(a, x_gm[tile * TILE :], asc.DataCopyExtParams(1, here * 4, 0, 0, 0), pad)
        in_x.enque(a)
        a = in_x.deque(asc.float32)
        b = out_z.alloc_tensor(asc.int8)
        asc.muls(a, a, 1.0 / scale, count=here)
        asc.mins(a, a, 127.0, count=here)
        asc.maxs(a, a, -128.0, count=here)
        asc.cast(number, a, asc.RoundMode.CAST_RINT, count=here)
        asc.cast(half, number, asc.RoundMode.CAST_NONE, count=here)
        asc.cast(b, half, asc.RoundMode.CAST_NONE, count=here)
        in_x.free_tensor(a)
        out_z.enque(b)
        b = out_z.deque(asc.int8)
        asc.data_copy_pad(z_gm[tile * TILE :], b, asc.DataCopyExtParams(1, here, 0, 0, 0))
        out_z.free_tensor(b)


@asc.jit
def transpose(x: asc.GlobalAddress, z: asc.GlobalAddress, rows: int, columns: asc.ConstExpr[int]):
    """A float16 matrix, both sides multiples of 16: a strip of 16 rows becomes 16 columns of the result."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_x, 2, columns * 32)
    pipe.init_buffer(out_z, 2, columns * 32)
    for strip in range(asc.get_block_idx(), rows // 16, asc.get_block_num()):
        a = in_x.alloc_tensor(asc.float16)
        # The squares of the strip one behind the other.
        for square in asc.static_range(columns // 16):
            params = asc.DataCopyParams(16, 1, columns // 16 - 1, 0)
            asc.data_copy(a[square * 256 :], x_gm[strip * 16 * columns + square * 16 :], params)
        in_x.enque(a)
        a = in_x.deque(asc.float16)
        b = out_z.alloc_tensor(asc.float16)
        for square in asc.static_range(columns // 16):
            asc.transpose(b[square * 256 :], a[square * 256 :])
        in_x.free_tensor(a)
        out_z.enque(b)
        b = out_z.deque(asc.float16)
        asc.data_copy(z_gm[strip * 16 :], b, asc.DataCopyParams(columns, 1, 0, rows // 16 - 1))
        out_z.free_tensor(b)


@asc.jit
def embedding(table: asc.GlobalAddress, indices: asc.GlobalAddress, z: asc.GlobalAddress, count: int, width: int):
    """Rows of a table by their numbers, which the scalar unit reads in global memory; width is at most 1,024."""
    t_gm = asc.GlobalTensor()
    i_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    t_gm.set_global_buffer(table)
    i_gm.set_global_buffer(indices)
    z_gm.set_global_buffer(z)
    for free in asc.static_range(2):
        asc.set_flag(asc.HardEvent.MTE3_MTE2, free)
    for at in range(asc.get_block_idx(), count, asc.get_block_num()):
        turn = at / asc.get_block_num() % 2
        line = asc.LocalTensor(asc.float32, asc.TPosition.VECIN, turn * 4096, width)
        row = i_gm.get_value(at)
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, turn)
        asc.data_copy(line, t_gm[row * width :], count=width)
        asc.set_flag(asc.HardEvent.MTE2_MTE3, turn)
        asc.wait_flag(asc.HardEvent.MTE2_MTE3, turn)
        asc.data_copy(z_gm[at * width :], line, count=width)
        asc.set_flag(asc.HardEvent.MTE3_MTE2, turn)
    for free in asc.static_range(2):
        asc.wait_flag(asc.HardEvent.MTE3_MTE2, free)


@asc.jit
def take_columns(
    x: asc.GlobalAddress, indices: asc.GlobalAddress, z: asc.GlobalAddress, rows: int, width: int, count: int
):
    """Columns of a matrix by their numbers: the same byte offsets gather from each row."""
    x_gm = asc.GlobalTensor()
    i_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    i_gm.set_global_buffer(indices)
    z_gm.set_global_buffer(z)
    pipe = asc.TPipe()
    in_i = asc.TQue(asc.TPosition.VECIN, 1)
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_z = asc.TQue(asc.TPosition.VECOUT, 1)
    pipe.init_buffer(in_i, 1, count * 4)
    pipe.init_buffer(in_x, 2, width * 4)
    pipe.init_buffer(out_z, 2, count * 4)
    numbers = in_i.alloc_tensor(asc.int32)
    asc.data_copy(numbers, i_gm, count=count)
    in_i.enque(numbers)
    numbers = in_i.deque(asc.int32)
    asc.muls(numbers, numbers, 4, count=count)
    offsets = numbers.reinterpret_cast(asc.uint32)
    for row in range(asc.get_block_idx(), rows, asc.get_block_num()):
        a = in_x.alloc_tensor(asc.float32)
        asc.data_copy(a, x_gm[row * width :], count=width)
        in_x.enque(a)
        a = in_x.deque(asc.float32)
        b = out_z.alloc_tensor(asc.float32)
        asc.gather(b, a, offsets, 0, count=count)
        in_x.free_tensor(a)
        out_z.enque(b)
        b = out_z.deque(asc.float32)
        asc.data_copy(z_gm[row * count :], b, count=count)
        out_z.free_tensor(b)
    in_i.free_tensor(numbers)


WIDE = 256
BEST = 32


@asc.jit
def top_k(
    x: asc.GlobalAddress, numbers: asc.GlobalAddress, scores: asc.GlobalAddress, places: asc.GlobalAddress, rows: int
):
    """The 32 largest of each row of 256 and where they stand: sorted by 32, merged by four, then by two."""
    x_gm = asc.GlobalTensor()
    n_gm = asc.GlobalTensor()
    s_gm = asc.GlobalTensor()
    p_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    n_gm.set_global_buffer(numbers)
    s_gm.set_global_buffer(scores)
    p_gm.set_global_buffer(places)
    pipe = asc.TPipe()
    in_n = asc.TQue(asc.TPosition.VECIN, 1)
    in_x = asc.TQue(asc.TPosition.VECIN, 1)
    out_s = asc.TQue(asc.TPosition.VECOUT, 1)
    out_p = asc.TQue(asc.TPosition.VECOUT, 1)
    first = asc.TBuf(asc.TPosition.VECCALC)
    second = asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(in_n, 1, WIDE * 4)
    pipe.init_buffer(in_x, 2, WIDE * 4)
    pipe.init_buffer(out_s, 2, BEST * 4)
    pipe.init_buffer(out_p, 2, BEST * 4)
    pipe.init_buffer(first, WIDE * 8)
    pipe.init_buffer(second, WIDE * 8)
    a = first.get(asc.float32)
    b = second.get(asc.float32)
    n = in_n.alloc_tensor(asc.uint32)
    asc.data_copy(n, n_gm, count=WIDE)
    in_n.enque(n)
    n = in_n.deque(asc.uint32)
    for row in range(asc.get_block_idx(), rows, asc.get_block_num()):
        v = in_x.alloc_tensor(asc.float32)
        asc.data_copy(v, x_gm[row * WIDE :], count=WIDE)
        in_x.enque(v)
        v = in_x.deque(asc.float32)
        asc.sort32(a, v, n, WIDE // 32)
        in_x.free_tensor(v)
        four = asc.MrgSortSrcList(asc.float32, a, a[64:], a[128:], a[192:])
        asc.mrg_sort(b, four, [32, 32, 32, 32], [0, 0, 0, 0], 15, 2)
        two = asc.MrgSortSrcList(asc.float32, b, b[256:])
        asc.mrg_sort(a, two, [128, 128, 0, 0], [0, 0, 0, 0], 3, 1)
        s = out_s.alloc_tensor(asc.float32)
        p = out_p.alloc_tensor(asc.uint32)
        asc.adv.extract(s, p, a, BEST // 32)
        out_s.enque(s)
        out_p.enque(p)
        s = out_s.deque(asc.float32)
        p = out_p.deque(asc.uint32)
        asc.data_copy(s_gm[row * BEST :], s, count=BEST)
        asc.data_copy(p_gm[row * BEST :], p, count=BEST)
        out_s.free_tensor(s)
        out_p.free_tensor(p)
    in_n.free_tensor(n)
