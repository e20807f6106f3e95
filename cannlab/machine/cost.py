"""The time model of operators: how long one fused operator takes on a SoC, in whole nanoseconds.

An operator takes as long as its slowest unit plus a launch: ``max(cube, memory, vector) + launch``; a model takes the
sum of its operators plus a fixed part. Source: performance 5 (form, and the parameters of the fit on Ascend310P3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Context, Decimal
from math import prod

from cannlab.machine.work import Operator
from cannlab.om import Cost, OmModel, Task
from cannlab.soc import Soc


@dataclass(frozen=True, slots=True)
class Parameters:
    """The free parameters. All but those called assumed come from the fit in performance 5."""

    cube_efficiency: float = 0.79
    """Share of the cube's peak that a well-shaped product reaches."""
    imbalance_exponent: float = 0.67
    """How much an uneven split of tiles over the cores costs (1: fully, 0: not at all)."""
    memory_efficiency: float = 0.96
    """Share of the device memory's bandwidth that is reached."""
    l2_efficiency: float = 4.5
    """Factor on the L2 bandwidth; above 1 because it also stands for data that never leaves the cores."""
    vector_efficiency: float = 0.115
    """Share of the vector lanes that elementwise work keeps busy."""
    depthwise_efficiency: float = 0.255
    """The same for depthwise convolutions."""
    launch_ns: int = 4_900
    """Time that every operator takes whatever its size, ns."""
    model_ns: int = 41_000
    """Time that every execution of a model takes besides its operators, ns."""
    ai_cpu_ns_per_element: int = 1
    """Assumed: an AI CPU operator's time for each element that it reads or writes, ns."""
    ai_cpu_launch_ns: int = 20_000
    """Assumed: launch of an AI CPU operator, ns."""


DEFAULT = Parameters()

MACS_PER_CYCLE = {1: 8192, 2: 4096, 4: 1024}
"""Multiply-accumulates of one cube per cycle, by element size in bytes (4 bytes: assumed a quarter of fp16)."""
TILE = 128
"""Rows and columns of the piece of a product that one core computes."""
BLOCK_BYTES = 16 * 1024
"""Data below which vector work is not spread over one more core. Assumed."""


def chip(model: OmModel, soc: Soc) -> Soc:
    """What a model may use of a SoC: ``--aicore_num`` leaves fewer cores, ``--buffer_optimize=off_optimize`` no L2."""
    share = model.chip.get("cores", soc.ai_cores)
    if share < soc.ai_cores:
        per_core = soc.vector_cores // soc.cube_cores if soc.split else 1
        vector = share * per_core if soc.split else min(soc.vector_cores, share)
        soc = replace(soc, ai_cores=share, cube_cores=share, vector_cores=max(1, vector))
    return replace(soc, l2_bytes=1) if model.chip.get("l2", 1) == 0 else soc


def _ceil(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _tiles(cube: tuple[int, ...]) -> int:
    batch, m, _, n = cube
    return batch * -(-m // TILE) * -(-n // TILE)


def blocks(cost: Cost, soc: Soc) -> int:
    """On how many cores an operator runs."""
    if cost.cube:
        return min(soc.cube_cores, _tiles(cost.cube))
    return max(1, min(soc.kernel_cores, -(-(cost.bytes_in + cost.bytes_out) // BLOCK_BYTES)))


def _cube_ns(cost: Cost, soc: Soc, parameters: Parameters) -> float:
    if not cost.cube:
        return 0.0
    batch, m, k, n = cost.cube
    macs = batch * _ceil(m, 16) * k * _ceil(n, 16)
    rate = MACS_PER_CYCLE[cost.element_bytes] * soc.cube_cores * soc.cube_mhz / 1000
    tiles = _tiles(cost.cube)
    imbalance = Decimal(_ceil(tiles, soc.cube_cores)) / tiles
    # Decimal, because the power function of the C library differs between machines in the last digit.
    slower = float(Context(prec=17).power(imbalance, Decimal(str(parameters.imbalance_exponent))))
    return macs / rate * slower / parameters.cube_efficiency


def _memory_ns(cost: Cost, soc: Soc, parameters: Parameters) -> float:
    activations = cost.bytes_in + cost.bytes_out
    ddr = soc.ddr_gbps * parameters.memory_efficiency
    l2 = soc.l2_read_rate * soc.cube_cores * soc.cube_mhz / 1000 * parameters.l2_efficiency
    miss = min(1.0, max(0.0, (activations - 0.5 * soc.l2_bytes) / (1.5 * soc.l2_bytes)))
    return (cost.bytes_weights + activations * miss) / ddr + activations * (1 - miss) / l2


def _vector_ns(cost: Cost, soc: Soc, parameters: Parameters) -> float:
    lanes = soc.vector_lanes * 2 / max(2, cost.element_bytes)
    rate = lanes * soc.kernel_cores * soc.vector_mhz / 1000
    efficiency = parameters.depthwise_efficiency if cost.depthwise else parameters.vector_efficiency
    return cost.vector_elements / rate / efficiency


def task_ns(task: Task, soc: Soc, parameters: Parameters = DEFAULT) -> int:
    """How long an operator takes on a SoC, ns, launch included."""
    cost = task.cost
    if cost.fixed_ns:
        return cost.fixed_ns
    if task.core_type == "AI_CPU":
        elements = sum(prod(tensor.dims) for tensor in (*task.inputs, *task.outputs))
        return parameters.ai_cpu_launch_ns + elements * parameters.ai_cpu_ns_per_element
    slowest = max(unit(cost, soc, parameters) for unit in (_cube_ns, _memory_ns, _vector_ns))
    return round(slowest) + parameters.launch_ns


def bound_by(task: Task, soc: Soc, parameters: Parameters = DEFAULT) -> str:
    """Which unit an operator waits for: "cube", "memory", "vector", or "launch" where that takes longest."""
    units = {
        "cube": _cube_ns(task.cost, soc, parameters),
        "memory": _memory_ns(task.cost, soc, parameters),
        "vector": _vector_ns(task.cost, soc, parameters),
        "launch": float(parameters.launch_ns),
    }
    return max(units, key=lambda unit: units[unit])


def operator(task: Task, soc: Soc, parameters: Parameters = DEFAULT) -> Operator:
    """An operator of the om as it runs on a SoC."""
    return Operator(
        name=task.name,
        op_type=task.op_type,
        core_type=task.core_type,
        ns=task_ns(task, soc, parameters),
        blocks=1 if task.core_type == "AI_CPU" else blocks(task.cost, soc),
        bytes=task.cost.bytes,
    )


def operators(model: OmModel, soc: Soc, parameters: Parameters = DEFAULT) -> tuple[Operator, ...]:
    """All operators of a model, in order, with their times on a SoC."""
    return tuple(operator(task, soc, parameters) for task in model.tasks)


def model_ns(model: OmModel, soc: Soc, parameters: Parameters = DEFAULT) -> int:
    """How long one execution of a model takes, ns."""
    return parameters.model_ns + sum(task_ns(task, soc, parameters) for task in model.tasks)
