"""asc.lib.host: the tiling's values come back, and every cut meets the documented limits."""

import numpy as np
import pytest

import cannlab.ascendc as asc
from cannlab.ascendc.lib import host

NAMES = list(asc.adv.TCubeTiling.struct_fields)
GM, ND, HALF = host.TPosition.GM, host.CubeFormat.ND, host.DataType.DT_FLOAT16


def up(value, unit):
    return -(-value // unit) * unit


def made(m, n, k, kind=HALF, kind_of=host.MultiCoreMatmulTiling):
    tiling = kind_of(host.get_ascendc_platform())
    assert tiling.set_a_type(GM, ND, kind, False) == 0
    assert tiling.set_b_type(GM, ND, kind, False) == 0
    assert tiling.set_c_type(GM, ND, host.DataType.DT_FLOAT) == 0
    assert tiling.set_org_shape(m, n, k) == 0
    assert tiling.set_shape(m, n, k) == 0
    assert tiling.set_buffer_space(-1, -1, -1) == 0
    return tiling


def filled(tiling):
    struct = asc.adv.TCubeTiling()
    assert tiling.get_tiling(struct) == 0
    return struct


def test_the_struct_has_the_real_fields_in_order():
    assert len(NAMES) == 49
    assert NAMES[:8] == ["used_core_num", "m", "n", "k_a", "k_b", "single_core_m", "single_core_n", "single_core_k"]
    assert NAMES[-1] == "batch_num"
    assert len(asc.adv.TCubeTiling().pack()) == 49 * 4
    assert len(asc.adv.SoftmaxTiling.struct_fields) == 16
    assert len(asc.adv.RmsNormTiling.struct_fields) == 12


@pytest.mark.parametrize("kind", [HALF, host.DataType.DT_FLOAT, host.DataType.DT_INT8])
@pytest.mark.parametrize("seed", range(12))
def test_every_cut_keeps_the_limits(kind, seed):
    rng = np.random.default_rng(seed)
    m, n, k = (int(each) for each in np.exp(rng.uniform(0, np.log(6000), 3)) + 1)
    dim, bias = int(rng.integers(1, 49)), bool(rng.integers(2))
    tiling = made(m, n, k, kind)
    tiling.set_dim(dim)
    tiling.enable_bias(bias)
    t = filled(tiling)
    size = {HALF: 2, host.DataType.DT_FLOAT: 4}.get(kind, 1)
    edge = 32 if size == 1 else 16
    assert (t.m, t.n, t.k_a, t.k_b, t.is_bias) == (m, n, k, k, bias)
    assert t.used_core_num == -(-m // t.single_core_m) * -(-n // t.single_core_n) <= dim
    assert t.single_core_k == k
    assert t.base_m % 16 == t.base_n % 16 == t.base_k % edge == 0
    assert up(t.base_m, edge) * t.base_k * size * t.db_l0a <= 64 * 1024
    assert up(t.base_n, edge) * t.base_k * size * t.db_l0b <= 64 * 1024
    assert t.base_m * t.base_n * 4 * t.db_l0c <= 128 * 1024
    assert not bias or t.base_n * 4 <= 1024
    l1 = (t.base_m * t.depth_a1 + t.base_n * t.depth_b1) * t.base_k * size + bias * t.base_n * 4
    assert l1 <= 512 * 1024
    assert t.depth_a1 in (t.step_k_a, 2 * t.step_k_a)
    assert t.step_m == t.step_n == 1
    assert tiling.get_core_num()[0] == t.used_core_num
    assert tiling.get_single_shape() == (t.single_core_m, t.single_core_n, t.single_core_k)
    assert (tiling.get_base_m(), tiling.get_base_n(), tiling.get_base_k()) == (t.base_m, t.base_n, t.base_k)


def test_the_published_cut_of_a_large_matmul():
    """8192 in every direction on 24 cores: base tiles of 128 x 256 x 64, four steps of k in L1, 24 parts."""
    tiling = made(8192, 8192, 8192)
    tiling.set_dim(24)
    t = filled(tiling)
    assert (t.base_m, t.base_n, t.base_k) == (128, 256, 64)
    assert (t.used_core_num, t.step_k_a, t.step_k_b) == (24, 4, 4)


def test_what_is_set_comes_back():
    tiling = made(256, 256, 256)
    tiling.set_dim(8)
    tiling.set_single_shape(128, 64, -1)
    t = filled(tiling)
    assert (t.single_core_m, t.single_core_n, t.single_core_k) == (128, 64, 256)
    assert tiling.get_core_num() == (8, 2, 4)
    assert t.used_core_num == 8


def test_a_fixed_base_tile():
    tiling = made(128, 128, 64)
    assert tiling.set_fix_split(32, 16, 16) == 0
    t = filled(tiling)
    assert (t.base_m, t.base_n, t.base_k) == (32, 16, 16)
    assert tiling.set_fix_split(0, 16, 16) == -1
    assert tiling.set_fix_split(512, 512, -1) == 0
    before = t.pack()
    assert tiling.get_tiling(t) == -1
    assert t.pack() == before


def test_layouts_and_batches():
    tiling = made(32, 32, 32, kind_of=host.BatchMatmulTiling)
    tiling.set_a_layout(1, 2, 3, 4, 5)
    tiling.set_b_layout(6, 7, 8, 9, 10)
    tiling.set_c_layout(11, 12, 13, 14, 15)
    tiling.set_batch_num(3)
    t = filled(tiling)
    assert [getattr(t, f"a_layout_info_{each}") for each in "bsngd"] == [1, 2, 3, 4, 5]
    assert [getattr(t, f"b_layout_info_{each}") for each in "bsngd"] == [6, 7, 8, 9, 10]
    assert [getattr(t, f"c_layout_info_{each}") for each in ("b", "s1", "n", "g", "s2")] == [11, 12, 13, 14, 15]
    assert t.batch_num == 3
    assert tiling.set_batch_num(0) == -1


def test_k_over_cores_only_when_asked_for():
    tiling = made(64, 64, 8192)
    tiling.set_dim(16)
    assert filled(tiling).single_core_k == 8192
    tiling.enable_multi_core_split_k(True)
    t = filled(tiling)
    assert t.single_core_k < 8192
    assert t.used_core_num <= 16


def test_values_that_are_not_taken():
    tiling = made(64, 64, 64)
    assert tiling.set_a_type(GM, ND, host.DataType.DT_STRING, False) == -1
    assert tiling.set_dim(0) == -1
    assert tiling.set_shape(0, 1, 1) == -1
    assert tiling.set_org_shape(64, -1, 64) == -1
    assert tiling.set_buffer_space(1 << 30) == -1
    with pytest.raises(TypeError, match="get_ascendc_platform"):
        host.MatmulApiTiling(3)
    with pytest.raises(TypeError, match="TCubeTiling"):
        tiling.get_tiling({})


def test_less_memory_gives_smaller_tiles():
    large, small = made(512, 512, 512), made(512, 512, 512)
    assert small.set_buffer_space(64 * 1024, 32 * 1024) == 0
    a, b = filled(large), filled(small)
    assert b.base_m * b.base_n * 4 <= 32 * 1024 < a.base_m * a.base_n * 4
    assert (b.base_m * b.depth_a1 + b.base_n * b.depth_b1) * b.base_k * 2 <= 64 * 1024
