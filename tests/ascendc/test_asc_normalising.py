"""softmax and rmsnorm over rows, in kernels with automatic tensors and with queues."""

import numpy as np
import pytest
from asc_pieces import run_on_core

import cannlab.ascendc as asc
from cannlab.ascendc.runtime.jit import emulate


@asc.jit
def softmax_rows(
    x: asc.GlobalAddress,
    z: asc.GlobalAddress,
    rows: asc.ConstExpr[int],
    columns: asc.ConstExpr[int],
    tiling: asc.adv.SoftmaxTiling,
):
    """Each block takes so many rows."""
    x_gm = asc.GlobalTensor()
    z_gm = asc.GlobalTensor()
    at = asc.get_block_idx() * rows * columns
    x_gm.set_global_buffer(x + at)
    z_gm.set_global_buffer(z + at)
    src = asc.LocalTensorAuto(asc.float32, (rows, columns))
    total = asc.LocalTensorAuto(asc.float32, (rows, 8))
    top = asc.LocalTensorAuto(asc.float32, (rows, 8))
    dst = asc.LocalTensorAuto(asc.float32, (rows, columns))
    asc.data_copy(src, x_gm, count=rows * columns)
    shape = asc.array(asc.uint32, [rows, columns])
    src.set_shape_info(asc.ShapeInfo(shape))
    asc.adv.softmax(dst, total, top, src, tiling)
    asc.data_copy(z_gm, dst, count=rows * columns)


def softmax_of(x):
    x = x.astype("f8")
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_softmax_in_a_kernel():
    x = np.random.default_rng(1).standard_normal((32, 64)).astype("f4") * 5
    z = np.zeros_like(x)
    result = emulate(softmax_rows, 4, x, z, 8, 64, asc.adv.SoftmaxTiling())
    assert not result.diagnoses
    np.testing.assert_allclose(result.outputs[1].view("f4").reshape(x.shape), softmax_of(x), rtol=1e-6, atol=1e-9)


def ub(dtype, at, count):
    return asc.LocalTensor(dtype, asc.TPosition.VECIN, at, count)


def piece(arrays, call):
    """Arrays into the UB, the call, all of them out."""

    def body(*addresses):
        tensors, at = [], 0
        for array, address in zip(arrays, addresses, strict=True):
            gm = asc.GlobalTensor()
            gm.set_global_buffer(address)
            tensors.append((ub(asc.DataType(array.dtype.name), at, array.size), gm))
            at += -(-array.nbytes // 32) * 32
        for (tensor, gm), array in zip(tensors, arrays, strict=True):
            asc.data_copy(tensor, gm, count=array.size)
        asc.set_flag(asc.HardEvent.MTE2_V, 0)
        asc.wait_flag(asc.HardEvent.MTE2_V, 0)
        call(*[tensor for tensor, _ in tensors])
        asc.set_flag(asc.HardEvent.V_MTE3, 0)
        asc.wait_flag(asc.HardEvent.V_MTE3, 0)
        for (tensor, gm), array in zip(tensors, arrays, strict=True):
            asc.data_copy(gm, tensor, count=array.size)

    result = run_on_core(body, *arrays)
    assert not result.diagnoses
    return [out.view(array.dtype).reshape(array.shape) for out, array in zip(result.outputs, arrays, strict=True)]


@pytest.mark.parametrize("sums", ["float16", "float32"])
def test_sums_and_maxima_fill_a_block_of_each_row(sums):
    x = (np.random.default_rng(2).standard_normal((4, 32)) * 3).astype("f2")
    fields = {"src_m": 4, "src_k": 32}
    block = np.zeros((4, 32 // np.dtype(sums).itemsize), sums)
    dst, total, top, _ = piece(
        [np.zeros_like(x), block, block.copy(), x],
        lambda d, s, m, v: asc.adv.softmax(d, s, m, v, asc.adv.SoftmaxTiling(**fields)),
    )
    np.testing.assert_allclose(dst, softmax_of(x), rtol=2e-3, atol=1e-6)
    np.testing.assert_array_equal(top, np.broadcast_to(x.max(axis=1, keepdims=True), top.shape).astype(sums))
    wanted = np.exp(x.astype("f8") - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(total, np.broadcast_to(wanted, total.shape), rtol=1e-3)


def test_what_pads_a_row_does_not_count():
    x = np.random.default_rng(3).standard_normal((3, 16)).astype("f4")
    x[:, 13:] = 1000

    def call(dst, total, top, src):
        shape, real = asc.array(asc.uint32, [3, 16]), asc.array(asc.uint32, [3, 13])
        src.set_shape_info(asc.ShapeInfo(shape, real))
        asc.adv.softmax(dst, total, top, src, asc.adv.SoftmaxTiling())

    before = np.full_like(x, 7)
    block = np.zeros((3, 8), "f4")
    dst = piece([before, block, block.copy(), x], call)[0]
    np.testing.assert_allclose(dst[:, :13], softmax_of(x[:, :13]), rtol=1e-6)
    np.testing.assert_array_equal(dst[:, 13:], 7)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-6), ("float16", 2e-3)])
@pytest.mark.parametrize("real", [32, 27])
def test_rmsnorm(dtype, rtol, real):
    rng = np.random.default_rng(4)
    x, gamma = rng.standard_normal((6, 32)).astype(dtype), rng.standard_normal(32).astype(dtype)
    tiling = asc.adv.RmsNormTiling(b_length=2, s_length=3, h_length=32, original_h_length=real)
    dst = piece([np.zeros_like(x), x, gamma], lambda d, v, g: asc.adv.rmsnorm(d, v, g, 0.5, tiling))[0]
    wide = x[:, :real].astype("f8")
    wanted = wide / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + 0.5) * gamma[:real].astype("f8")
    np.testing.assert_allclose(dst[:, :real], wanted, rtol=rtol, atol=1e-3 if dtype == "float16" else 0)
    np.testing.assert_array_equal(dst[:, real:], 0)


def test_shapes_that_cannot_be():
    x = np.zeros((2, 12), "f4")
    block = np.zeros((2, 8), "f4")
    for fields in ({}, {"src_m": 2, "src_k": 12}):
        with pytest.raises(ValueError, match="softmax"):
            piece(
                [x, block, block, x],
                lambda d, s, m, v, fields=fields: asc.adv.softmax(d, s, m, v, asc.adv.SoftmaxTiling(**fields)),
            )


def test_the_form_that_is_missing():
    x, block = np.zeros((2, 16), "f4"), np.zeros((2, 8), "f4")
    tiling = asc.adv.SoftmaxTiling(src_m=2, src_k=16)
    with pytest.raises(NotImplementedError, match="data_format_nz"):
        piece([x, block, block, x], lambda d, s, m, v: asc.adv.softmax(d, s, m, v, tiling, data_format_nz=True))
