"""Kernels that call the operations in the forms that pyasc has: they run here, and ``test_asc_official.py`` compiles
each with the official front end."""

import numpy as np
import pytest

import cannlab.ascendc as asc
from cannlab.ascendc.runtime import config
from cannlab.machine import machine

G = asc.GlobalAddress
VECIN, VECCALC = asc.TPosition.VECIN, asc.TPosition.VECCALC


@asc.jit
def sorting(x: G, y: G):
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    score = asc.LocalTensor(asc.float32, VECIN, 0, 64)
    index = asc.LocalTensor(asc.uint32, VECIN, 1024, 64)
    pairs = asc.LocalTensor(asc.float32, VECIN, 2048, 128)
    merged = asc.LocalTensor(asc.float32, VECIN, 4096, 128)
    tmp = asc.LocalTensor(asc.float32, VECIN, 8192, 128)
    asc.data_copy(score, x_gm, count=64)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.duplicate(index.reinterpret_cast(asc.int32), 7, count=64)
    asc.sort32(pairs, score, index, 2)
    sources = asc.MrgSortSrcList(asc.float32, pairs, pairs[64:])
    asc.mrg_sort(merged, sources, asc.MrgSort4Info([32, 32, 0, 0], False, 3, 1))
    asc.mrg_sort(merged, sources, [32, 32, 0, 0], [0, 0, 0, 0], 3, 1)
    asc.adv.extract(score, index, merged, 2)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y_gm, score, count=64)
    asc.adv.concat(tmp, score, merged, 2)
    asc.sort(pairs, score, index, merged, 2)
    asc.sort(pairs, score, index, merged, 2, is_full_sort=True)


@asc.jit
def transposing(x: G, y: G):
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    a = asc.LocalTensor(asc.float16, VECIN, 0, 256)
    b = asc.LocalTensor(asc.float16, VECCALC, 1024, 256)
    c = asc.LocalTensor(asc.float16, VECCALC, 2048, 256)
    tmp = asc.LocalTensor(asc.uint8, VECCALC, 8192, 16384)
    asc.data_copy(a, x_gm, count=256)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.transpose(b, a)
    asc.transpose(c, b, tmp, asc.TransposeParamsExt(1, 16, 4, 4, asc.TransposeType.TRANSPOSE_NCHW2NHWC))
    to = []
    source = []
    for i in asc.static_range(16):
        to.append(b[i * 16 :])
        source.append(c[i * 16 :])
    asc.trans_data_to_5hd(to, source, asc.TransDataTo5HDParams(False, False, 1, 0, 0))
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y_gm, b, count=256)


@asc.jit
def converting(x: G, y: G):
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    a = asc.LocalTensor(asc.int32, VECIN, 0, 128)
    h = asc.LocalTensor(asc.float16, VECCALC, 1024, 128)
    s = asc.LocalTensor(asc.int16, VECCALC, 2048, 128)
    q = asc.LocalTensor(asc.int8, VECCALC, 4096, 256)
    asc.duplicate(a, 40, count=128)
    asc.set_deq_scale(0.5)
    asc.add_deq_relu(h, a, a, count=128)
    asc.cast_deq(h, a, count=128)
    asc.cast(s, h, asc.RoundMode.CAST_RINT, count=128)
    asc.set_deq_scale(0.5, 1, True)
    asc.cast_deq(q, s, count=128)
    asc.cast_deq(q, s, mask=128, repeat_times=1, repeat_params=asc.UnaryRepeatParams(1, 1, 8, 8))
    asc.adv.quant(q, h, 2.0, 1.0, count=128)
    first = asc.scalar_cast(2.5, asc.int32, asc.RoundMode.CAST_RINT)
    asc.duplicate(a, first, count=128)


@asc.jit
def functions(x: G, y: G):
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    a = asc.LocalTensor(asc.float32, VECIN, 0, 64)
    b = asc.LocalTensor(asc.float32, VECCALC, 1024, 64)
    asc.data_copy(a, x_gm, count=64)
    asc.set_flag(asc.HardEvent.MTE2_V, 0)
    asc.wait_flag(asc.HardEvent.MTE2_V, 0)
    asc.adv.tanh(b, a)
    asc.adv.sin(b, a, count=64)
    asc.adv.exp(b, b, 64, 10)
    asc.adv.power(b, b, b, count=64)
    asc.adv.axpy(b, a, 2.0, 64)
    asc.set_flag(asc.HardEvent.V_MTE3, 0)
    asc.wait_flag(asc.HardEvent.V_MTE3, 0)
    asc.data_copy(y_gm, b, count=64)


@asc.jit
def system(x: G, y: G):
    y_gm = asc.GlobalTensor()
    y_gm.set_global_buffer(y)
    start = asc.get_system_cycle()
    asc.set_atomic_type(asc.float32)
    asc.set_store_atomic_config(asc.AtomicDtype.ATOMIC_F32, asc.AtomicOp.ATOMIC_SUM)
    asc.set_atomic_none()
    asc.icache_preload(2)
    asc.data_cache_preload(y_gm, 0)
    asc.data_cache_clean_and_invalid(asc.CacheLine.SINGLE_CACHE_LINE, y_gm, asc.DcciDst.CACHELINE_OUT)
    y_gm.set_value(0, asc.scalar_get_sff_value(8, 1).cast(asc.int32))
    y_gm.set_value(1, asc.scalar_count_leading_zero(1).cast(asc.int32))
    asc.get_system_cycle() - start


@asc.jit(kernel_type=config.KernelType.AIC_ONLY)
def cube_forms(x: G, y: G):
    x_gm = asc.GlobalTensor()
    y_gm = asc.GlobalTensor()
    x_gm.set_global_buffer(x)
    y_gm.set_global_buffer(y)
    a1 = asc.LocalTensor(asc.float32, asc.TPosition.A1, 0, 256)
    a2 = asc.LocalTensor(asc.float32, asc.TPosition.A2, 0, 1024)
    b2 = asc.LocalTensor(asc.float32, asc.TPosition.B2, 0, 1024)
    c = asc.LocalTensor(asc.float32, asc.TPosition.CO1, 0, 256)
    asc.set_hf32_mode(True)
    asc.set_hf32_mode(False)
    asc.data_copy(a1, x_gm, intri_params=asc.Nd2NzParams(1, 16, 16, 0, 16, 16, 1, 0))
    asc.set_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.wait_flag(asc.HardEvent.MTE2_MTE1, 0)
    asc.load_data(a2, a1, params=asc.LoadData2DParams(repeat_times=2, src_stride=1))
    asc.load_data_with_transpose(b2, a1, asc.LoadData2dTransposeParams(0, 1, 1, 0, 0, 0))
    asc.load_data(
        a2[512:], a1, asc.LoadData3DParamsV2((0, 0, 0, 0), 4, 4, 16, 16, 16, 0, 0, 1, 1, 1, 1, 1, 1, False, 0)
    )
    asc.init_const_value(a1, asc.InitConstValueParams(1, 2, 0, 1.0))
    asc.set_flag(asc.HardEvent.MTE1_M, 0)
    asc.wait_flag(asc.HardEvent.MTE1_M, 0)
    asc.mmad(c, a2, b2, asc.MmadParams(16, 16, 16, unit_flag=0, cmatrix_source=False, cmatrix_init_val=True))
    asc.mmad(c, a2, b2, params=asc.MmadParams(16, 16, 16, True, 0, False, False, False))
    asc.set_flag(asc.HardEvent.M_FIX, 0)
    asc.wait_flag(asc.HardEvent.M_FIX, 0)
    asc.fixpipe(y_gm, c, params=asc.FixpipeParamsV220(16, 16, 16, 16), config=asc.FixpipeConfig.cfg_nz())
    asc.set_fix_pipe_pre_quant_flag(0)
    asc.data_copy(
        y_gm, c, intri_params=asc.DataCopyCO12DstParams(16, 16, 16, 16, asc.QuantModes.NoQuant, 0, False, True)
    )


CASES = {
    sorting: "f4",
    transposing: "f2",
    converting: "f4",
    functions: "f4",
    system: "f4",
    cube_forms: "f4",
}


@pytest.mark.parametrize("kernel", CASES, ids=lambda kernel: kernel.name)
def test_runs(kernel):
    rng = np.random.default_rng(1)
    x = rng.uniform(0.1, 1, 256).astype(CASES[kernel])
    y = np.zeros_like(x)
    kernel[1](x, y)
    assert not [fault for fault in machine().record.faults if fault["rule"] != "kernel.undefined"]
    if kernel is sorting:
        np.testing.assert_array_equal(y[:64], np.sort(x[:64])[::-1])
    if kernel is cube_forms:
        matrix = x.reshape(16, 16).astype(np.float64)
        np.testing.assert_allclose(y.reshape(16, 16), 2 * matrix @ matrix, rtol=1e-5)
