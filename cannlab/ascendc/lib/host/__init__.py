"""asc.lib.host: tiling on the host. Source: pyasc 3."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.lib.host.enums import (
    CubeFormat,
    DataType,
    DequantType,
    MatrixMadType,
    MatrixTraverse,
    ScheduleType,
    TPosition,
)
from cannlab.ascendc.lib.host.platform import PlatformAscendC, PlatformAscendCManager, get_ascendc_platform
from cannlab.ascendc.lib.host.tiling import (
    BatchMatmulTiling,
    MatmulApiTiling,
    MatmulApiTilingBase,
    MatmulConfigParams,
    MultiCoreMatmulTiling,
)
from cannlab.ascendc.lib.placeholders import missing_names

__all__ = [
    "BatchMatmulTiling",
    "CubeFormat",
    "DataType",
    "DequantType",
    "MatmulApiTiling",
    "MatmulApiTilingBase",
    "MatmulConfigParams",
    "MatrixMadType",
    "MatrixTraverse",
    "MultiCoreMatmulTiling",
    "PlatformAscendC",
    "PlatformAscendCManager",
    "ScheduleType",
    "TPosition",
    "get_ascendc_platform",
]


def __getattr__(name: str) -> Any:
    return missing_names("asc.lib.host", name)
