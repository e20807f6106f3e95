"""Block numbers and chip properties. Source: pyasc 1.5."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.lib.placeholders import names_of


def get_block_idx() -> PlainValue:
    """Number of the running block (int32)."""
    return PlainValue(d.state("get_block_idx").launch.block, KnownTypes.int32)


def get_block_num() -> PlainValue:
    """How many blocks the launch has (int32)."""
    return PlainValue(d.state("get_block_num").launch.blocks, KnownTypes.int32)


def get_sub_block_idx() -> PlainValue:
    """Which vector core of a group runs (0 in a vector kernel)."""
    d.state("get_sub_block_idx")
    return PlainValue(0, KnownTypes.int64)


def get_sub_block_num() -> PlainValue:
    """Vector cores per group (1 in a vector kernel)."""
    d.state("get_sub_block_num")
    return PlainValue(1, KnownTypes.int64)


def get_task_ratio() -> PlainValue:
    """Vector cores per cube core of the task (1 in a vector kernel)."""
    d.state("get_task_ratio")
    return PlainValue(1, KnownTypes.int64)


def get_data_block_size_in_bytes() -> PlainValue:
    """32."""
    d.state("get_data_block_size_in_bytes")
    return PlainValue(32, KnownTypes.int32)


def get_system_cycle() -> PlainValue:
    """The 50 MHz counter, from the block's simulated time (int64)."""
    launch = d.state("get_system_cycle").launch
    return PlainValue(0 if launch.probing else launch.now_ns() // 20, KnownTypes.int64)


def get_arch_version(core_version: Any) -> None:
    """The version of the core; pyasc 1.1.1 gives it to nobody."""
    d.state("get_arch_version")


def trap() -> None:
    """Stop the core."""
    d.state("trap").launch.stop("kernel.trap")


__getattr__ = names_of(__name__)
