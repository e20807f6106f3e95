"""CompileOptions: what the compiler would be told. Source: pyasc 1.1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cannlab.ascendc.lib.placeholders import missing_names
from cannlab.ascendc.runtime.config import KernelType
from cannlab.machine.core.pipes import CUBE_CORE, VECTOR_CORE


@dataclass
class CompileOptions:
    """Options of the compilation; ``auto_sync`` also decides which synchronisation the checks assume."""

    debug: bool = False
    strip_loc: bool = False
    verify_sync: bool = False
    print_ir_before_all: bool = False
    run_passes: bool = True
    kernel_type: KernelType | None = None
    opt_level: int | None = 3
    auto_sync: bool | None = True
    auto_sync_log: str | None = ""
    bisheng_options: tuple[str, ...] | None = None
    always_compile: bool = False
    matmul_cube_only: bool = False
    insert_sync: bool | None = None

    def __post_init__(self) -> None:
        wrong_type = self.kernel_type is not None and not isinstance(self.kernel_type, KernelType)
        if self.opt_level not in (1, 2, 3) or wrong_type:
            raise RuntimeError("Please check input compile option")

    @property
    def cores(self) -> str:
        """Which cores the kernel is compiled for: vector cores unless kernel_type says otherwise."""
        return VECTOR_CORE if self.kernel_type is None else _CORES[self.kernel_type]


_CORES = {
    KernelType.AIV_ONLY: VECTOR_CORE,
    KernelType.AIC_ONLY: CUBE_CORE,
    KernelType.MIX_AIV_HARD_SYNC: VECTOR_CORE,
    KernelType.MIX_AIC_HARD_SYNC: CUBE_CORE,
    KernelType.MIX_AIV_1_0: VECTOR_CORE,
    KernelType.MIX_AIC_1_0: CUBE_CORE,
    KernelType.MIX_AIC_1_1: "MIX_1_1",
    KernelType.MIX_AIC_1_2: "MIX_1_2",
}


def __getattr__(name: str) -> Any:
    return missing_names("asc.runtime.compiler", name)
