"""Launches of large sizes: what a day's work with kernels asks for has to be done while one waits."""

import large_kernels as kernels
import numpy as np
import pytest

from cannlab.ascendc.runtime.launcher import detached
from cannlab.machine import machine
from cannlab.soc import soc as chips


def test_matmul_of_512_in_tiles_of_128():
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((512, 512)).astype(np.float16) for _ in range(2))
    z = np.zeros((512, 512), np.float32)
    kernels.matmul_512[16](x, y, z)
    assert not machine().record.faults
    np.testing.assert_allclose(z, x.astype(np.float64) @ y.T.astype(np.float64), rtol=1e-5, atol=1e-3)


@pytest.mark.slow
def test_an_add_over_all_cores():
    x = np.arange(1 << 24, dtype=np.int64).astype(np.float16)
    z = np.zeros_like(x)
    kernels.add[48](x, x, z, len(x))
    assert not machine().record.faults
    np.testing.assert_array_equal(z, x + x)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_matmul_is_timed_without_computing_it(monkeypatch):
    monkeypatch.setenv("CANNLAB_KERNEL_DATA", "off")
    side = kernels.SIDE
    x, y, z = (np.zeros((side, side), np.float16) for _ in range(3))
    with detached(chips.get("Ascend910B1")) as into:
        kernels.matmul[24](x, y, z)
    (result,) = into.results
    assert result.trace.meta["data"] == "off"
    assert result.timing.cores == 24
    # The cube does 4,096 products a cycle at best.
    best = side**3 // 4096 // 24 * 1000 // chips.get("Ascend910B1").vector_mhz
    assert best < result.timing.ns < 4 * best
