"""Block numbers and chip properties. Source: pyasc 1.5."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.language.core.moving import Moving
from cannlab.ascendc.lib.placeholders import names_of
from cannlab.machine.core.pipes import VECTOR_CORE


def get_block_idx() -> PlainValue:
    """Number of the running block (int32)."""
    state = d.state("get_block_idx")
    if state.blocks is not None:
        return Moving(state.launch.block, {state.blocks: state.blocks.period}, KnownTypes.int32)
    return PlainValue(state.launch.block, KnownTypes.int32)


def get_block_num() -> PlainValue:
    """How many blocks the launch has (int32)."""
    return PlainValue(d.state("get_block_num").launch.blocks, KnownTypes.int32)


def get_sub_block_idx() -> PlainValue:
    """Which vector core of its AI core runs (int64); 0 outside mixed kernels."""
    return PlainValue(d.state("get_sub_block_idx").launch.unit.sub, KnownTypes.int64)


def _ratio(name: str) -> tuple[int, bool]:
    launch = d.state(name).launch
    mine = [unit.kind for unit in launch.units if unit.group == launch.unit.group]
    return max(mine.count(VECTOR_CORE), 1), launch.cores == VECTOR_CORE


def get_sub_block_num() -> PlainValue:
    """Vector cores per AI core (uint64); 1 outside mixed kernels."""
    return PlainValue(_ratio("get_sub_block_num")[0], KnownTypes.uint64)


def get_task_ratio() -> PlainValue:
    """Vector cores per cube core of the task (int64), as a vector core sees it; 1 on a cube core."""
    count, vector = _ratio("get_task_ratio")
    return PlainValue(count if vector else 1, KnownTypes.int64)


def get_data_block_size_in_bytes() -> PlainValue:
    """32."""
    d.state("get_data_block_size_in_bytes")
    return PlainValue(32, KnownTypes.int32)


def get_system_cycle() -> PlainValue:
    """The 50 MHz counter, from the block's simulated time (int64)."""
    launch = d.state("get_system_cycle").launch
    return PlainValue(launch.now_ns() // 20, KnownTypes.int64)


def get_program_counter() -> PlainValue:
    """Where the program is (int64): four times the line. The device's addresses are others, and grow with it too."""
    return PlainValue(4 * d.state("get_program_counter").launch.line()[1], KnownTypes.int64)


def get_arch_version(core_version: Any) -> None:
    """The version of the core; pyasc 1.1.1 gives it to nobody."""
    d.state("get_arch_version")


def trap() -> None:
    """Stop the core."""
    d.state("trap").launch.stop("kernel.trap")


__getattr__ = names_of(__name__)
