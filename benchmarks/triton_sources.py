"""Triton kernels: a vector add, a softmax of rows, a matmul. Imported only where Triton is."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, z, count, BLOCK: tl.constexpr):
    """z = x + y, a block a program."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(z + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax(x, z, columns, BLOCK: tl.constexpr):
    """A row a program."""
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    value = tl.load(x + row * columns + at, mask=mask, other=-float("inf"))
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(z + row * columns + at, power / tl.sum(power, axis=0), mask=mask)


@triton.jit
def matmul(
    a,
    b,
    c,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """c = a . b; the sizes are constants because the interpreter hands others over as arrays, which range refuses."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        right = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))
