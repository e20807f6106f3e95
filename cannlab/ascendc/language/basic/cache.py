"""Caches: the time model has none, so these calls only take their place in the program. Source: ascend-c 1.2."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.language.basic import dispatch as d
from cannlab.ascendc.language.core.dtype import KnownTypes
from cannlab.ascendc.language.core.enums import CacheLine, DcciDst
from cannlab.ascendc.language.core.ir_value import PlainValue
from cannlab.ascendc.language.core.tensor import GlobalTensor
from cannlab.ascendc.lib.placeholders import names_of


def data_cache_clean_and_invalid(entire_type: CacheLine, dst: GlobalTensor, dcci_dst: DcciDst | None = None) -> None:
    """Scalar writes reach global memory; here they are there at once."""
    d.state("data_cache_clean_and_invalid")
    if not isinstance(dst, GlobalTensor):
        raise TypeError(f"data_cache_clean_and_invalid expects a GlobalTensor, got {type(dst).__name__}")


def data_cache_preload(src: GlobalTensor, cache_offset: Any) -> None:
    """Fetch a line into the scalar unit's cache."""
    d.state("data_cache_preload")


def icache_preload(pre_fetch_len: Any) -> None:
    """Fetch instructions in advance."""
    d.state("icache_preload")


def get_icache_preload_status() -> PlainValue:
    """0: nothing is being fetched (int64)."""
    d.state("get_icache_preload_status")
    return PlainValue(0, KnownTypes.int64)


__getattr__ = names_of(__name__)
