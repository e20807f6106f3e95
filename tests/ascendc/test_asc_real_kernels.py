"""Kernels of the size of real ones against PyTorch, with every check on."""

import numpy as np
import pytest
import real_kernels as kernels
import real_mixed_kernels as mixed
import torch
from torch.nn import functional

from cannlab.machine import core, machine, reset_machine

TOLERANCE = {np.float32: {"rtol": 2e-6, "atol": 2e-6}, np.float16: {"rtol": 2e-3, "atol": 2e-3}}


def random(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def launched(kernel, blocks, *arguments, **options):
    """Launch; the record gives the same once more, and nothing is told."""
    reset_machine("Ascend910B1", 1)
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    before = [array.copy() for array in arrays]
    kernel[blocks](*arguments, **options)
    assert not machine().record.faults
    trace = machine().record.kernels[-1]
    again = core.replay(trace, before)
    assert again.diagnoses == []
    assert again.warnings == []
    for array, out in zip(arrays, again.outputs, strict=True):
        np.testing.assert_array_equal(out, array.reshape(-1).view(np.uint8))
    return again


def close(got, wanted):
    wanted = wanted.numpy() if isinstance(wanted, torch.Tensor) else wanted
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), **TOLERANCE[got.dtype.type])


@pytest.mark.parametrize(("rows", "width", "blocks"), [(100, 256, 7), (33, 200, 2), (8, 128, 1), (5, 1024, 1)])
def test_softmax(rows, width, blocks):
    x, z = 4 * random(1, rows, width), np.zeros((rows, width), np.float32)
    result = launched(kernels.softmax, blocks, x, z, rows, width)
    close(z, torch.softmax(torch.from_numpy(x), 1))
    assert result.timing.cores == blocks


@pytest.mark.parametrize(("rows", "width", "blocks"), [(60, 512, 5), (9, 128, 2)])
def test_layer_norm(rows, width, blocks):
    x, z = random(2, rows, width, dtype=np.float16) + np.float16(1), np.zeros((rows, width), np.float16)
    gamma, beta = random(3, width), random(4, width)
    launched(kernels.layer_norm, blocks, x, gamma, beta, z, rows, width, 1e-5)
    full = functional.layer_norm(
        torch.from_numpy(x).float(), (width,), torch.from_numpy(gamma), torch.from_numpy(beta), 1e-5
    )
    close(z, full)


@pytest.mark.parametrize("auto_sync", [True, False])
def test_rms_norm(auto_sync):
    rows, width, blocks = 37, 768, 4
    x, z, gamma = random(5, rows, width), np.zeros((rows, width), np.float32), random(6, width)
    launched(kernels.rms_norm, blocks, x, gamma, z, rows, width, 1e-6, auto_sync=auto_sync)
    close(z, functional.rms_norm(torch.from_numpy(x), (width,), torch.from_numpy(gamma), 1e-6))


@pytest.mark.parametrize(("length", "blocks"), [(20_000, 3), (2048, 1), (2049, 2), (5, 1)])
def test_gelu(length, blocks):
    x, z = 3 * random(7, length), np.zeros(length, np.float32)
    launched(kernels.gelu, blocks, x, z, length)
    close(z, functional.gelu(torch.from_numpy(x)))


@pytest.mark.parametrize("length", [9_999, 4096])
def test_quantise(length):
    scale = 0.03125
    x, z = 3 * random(8, length), np.zeros(length, np.int8)
    launched(kernels.quantise, 4, x, z, length, scale)
    wanted = torch.quantize_per_tensor(torch.from_numpy(x), scale, 0, torch.qint8).int_repr().numpy()
    np.testing.assert_array_equal(z, wanted)
    assert {-128, 127} <= set(z.tolist())


@pytest.mark.parametrize(("rows", "columns"), [(96, 80), (16, 256)])
def test_transpose(rows, columns):
    x, z = random(9, rows, columns, dtype=np.float16), np.zeros((columns, rows), np.float16)
    launched(kernels.transpose, 3 if rows > 16 else 1, x, z, rows, columns)
    np.testing.assert_array_equal(z, torch.from_numpy(x).T.numpy())


def test_embedding():
    table, count, width = random(10, 300, 96), 77, 96
    indices = np.random.default_rng(11).integers(0, 300, count).astype(np.int32)
    z = np.zeros((count, width), np.float32)
    launched(kernels.embedding, 5, table, indices, z, count, width)
    np.testing.assert_array_equal(z, functional.embedding(torch.from_numpy(indices), torch.from_numpy(table)).numpy())


def test_take_columns():
    rows, width, count = 40, 320, 128
    x, z = random(12, rows, width), np.zeros((rows, count), np.float32)
    indices = np.random.default_rng(13).integers(0, width, count).astype(np.int32)
    launched(kernels.take_columns, 6, x, indices, z, rows, width, count)
    np.testing.assert_array_equal(z, torch.from_numpy(x)[:, torch.from_numpy(indices).long()].numpy())


def test_top_k():
    rows = 21
    x = random(14, rows, kernels.WIDE)
    numbers = np.arange(kernels.WIDE, dtype=np.uint32)
    scores, places = np.zeros((rows, kernels.BEST), np.float32), np.zeros((rows, kernels.BEST), np.uint32)
    launched(kernels.top_k, 4, x, numbers, scores, places, rows)
    values, where = torch.topk(torch.from_numpy(x), kernels.BEST, dim=1)
    np.testing.assert_array_equal(scores, values.numpy())
    np.testing.assert_array_equal(places, where.numpy())


def test_matmul_with_bias_and_leaky_relu():
    groups, m, n, k = 3, mixed.M, mixed.N, mixed.K
    x, y = random(15, groups * m, k, dtype=np.float16), random(16, k, n, dtype=np.float16)
    bias, z = random(17, n), np.zeros((groups * m, n), np.float32)
    result = launched(mixed.matmul_bias_leaky, groups, x, y, bias, np.zeros_like(z), z, 0.1)
    wanted = torch.from_numpy(x).float() @ torch.from_numpy(y).float() + torch.from_numpy(bias)
    wanted = functional.leaky_relu(wanted, 0.1).numpy()
    np.testing.assert_allclose(z, wanted, rtol=1e-5, atol=1e-4)
    assert {"M", "V", "FIXP"} <= set(result.timing.busy)


@pytest.mark.parametrize(("heads", "tiles"), [(2, 3), (4, 1)])
def test_flash_attention(heads, tiles):
    side = mixed.SIDE
    length = tiles * side
    q, k, v = (random(seed, heads, length, side, dtype=np.float16) for seed in (18, 19, 20))
    z = np.zeros((heads, length, side), np.float16)
    s, o = (np.zeros((heads, side, side), np.float32) for _ in range(2))
    p = np.zeros((heads, side, side), np.float16)
    scale = side**-0.5
    launched(mixed.flash_attention, heads, q, k, v, s, p, o, z, tiles, scale)
    full = (torch.from_numpy(array).float() for array in (q, k, v))
    close(z, functional.scaled_dot_product_attention(*full))
