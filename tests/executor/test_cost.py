"""The time model: what grows, what bounds, and that it is the same everywhere."""

from dataclasses import replace

import onnx_models as models
import pytest

from cannlab import soc
from cannlab.machine import cost
from cannlab.om import Cost, OmTensor, Task


def task(**inputs):
    return Task("t", "Conv2D", "AI_CORE", (), (), (), (), Cost(**inputs))


CHIP = soc.get("Ascend310P3")


def test_launch_is_the_least():
    assert cost.task_ns(task(), CHIP) == 4900
    assert cost.bound_by(task(), CHIP) == "launch"


def test_cube_bound_by_hand():
    """1024 x 1024 x 1024 on 8 cores: 2^30 / (4096 * 8 * 1.06 GHz) / 0.79 ns, 64 tiles spread evenly."""
    ns = cost.task_ns(task(cube=(1, 1024, 1024, 1024)), CHIP)
    assert ns == round(2**30 / (4096 * 8 * 1.06) / 0.79) + 4900
    assert cost.bound_by(task(cube=(1, 1024, 1024, 1024)), CHIP) == "cube"


def test_small_products_leave_cores_idle():
    one_tile = cost.task_ns(task(cube=(1, 128, 4096, 128)), CHIP) - 4900
    eight_tiles = cost.task_ns(task(cube=(1, 1024, 4096, 128)), CHIP) - 4900
    assert eight_tiles < 8 * one_tile
    assert cost.blocks(Cost(cube=(1, 128, 4096, 128)), CHIP) == 1
    assert cost.blocks(Cost(cube=(1, 1024, 4096, 128)), CHIP) == 8


def test_memory_bound_by_hand():
    """100 MB of weights at 0.96 of the bandwidth of the table."""
    ns = cost.task_ns(task(bytes_weights=100_000_000), CHIP)
    assert ns == round(100_000_000 / (CHIP.ddr_gbps * 0.96)) + 4900
    assert cost.bound_by(task(bytes_weights=100_000_000), CHIP) == "memory"


def test_activations_that_outgrow_l2_cost_more_each():
    small, large = CHIP.l2_bytes // 4, CHIP.l2_bytes * 4
    each = [(cost.task_ns(task(bytes_in=size), CHIP) - 4900) / size for size in (small, large)]
    assert each[1] > 3 * each[0]


def test_wider_elements_are_slower():
    half, full = (cost.task_ns(task(vector_elements=10**7, element_bytes=size), CHIP) for size in (2, 4))
    assert full - 4900 == pytest.approx(2 * (half - 4900), rel=1e-3)


def test_more_cores_are_faster():
    work = task(cube=(1, 4096, 4096, 4096))
    assert cost.task_ns(work, soc.get("Ascend910B1")) < cost.task_ns(work, CHIP) / 3


def test_ai_cpu_is_slow():
    tensor = OmTensor("x", 1, 2, (1000, 1000))
    work = replace(task(), core_type="AI_CPU", inputs=(tensor,), outputs=(tensor,))
    assert cost.task_ns(work, CHIP) == 20_000 + 2_000_000


@pytest.mark.parametrize("name", sorted(soc.table()))
def test_every_chip_gives_whole_positive_times(name, tmp_path):
    if name not in ("Ascend310P3", "Ascend910B1"):
        work = task(cube=(1, 500, 500, 500), vector_elements=10**6, bytes_in=10**6)
        assert cost.task_ns(work, soc.get(name)) > 4900
        return
    compiled = models.convert(models.residual(), tmp_path, soc=name)
    operators = cost.operators(compiled, soc.get(name))
    assert [item.name for item in operators] == [item.name for item in compiled.tasks]
    assert all(isinstance(item.ns, int) and item.ns >= 4900 and item.blocks >= 1 for item in operators)
    assert cost.model_ns(compiled, soc.get(name)) == 41_000 + sum(item.ns for item in operators)


def test_costs_of_a_convolution(tmp_path):
    made = models.model(
        [models.node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])],
        {"x": [2, 20, 16, 16]},
        {"y": [2, 24, 8, 8]},
        {"w": models.random(24, 20, 3, 3)},
    )
    conv = next(item for item in models.convert(made, tmp_path).tasks if item.op_type == "Conv2D")
    assert conv.cost.cube == (1, 2 * 8 * 8, 32 * 9, 24)
    assert conv.cost.bytes_in == 2 * 20 * 16 * 16 * 2
    assert conv.cost.bytes_out == 2 * 24 * 8 * 8 * 2
    assert conv.cost.bytes_weights == 24 * 20 * 9 * 2
