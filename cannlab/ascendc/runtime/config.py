"""Platforms, backends and kernel types. Source: pyasc 2, 1.1."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

from cannlab.ascendc.lib.placeholders import names_of
from cannlab.soc import soc as chips


class Backend(Enum):
    """Where kernels run. Both are answered by the emulation."""

    Model = "Model"
    NPU = "NPU"


class Platform(Enum):
    """The chips that pyasc has."""

    Ascend910B1 = "Ascend910B1"
    Ascend910B2 = "Ascend910B2"
    Ascend910B2C = "Ascend910B2C"
    Ascend910B3 = "Ascend910B3"
    Ascend910B4 = "Ascend910B4"
    Ascend910B4_1 = "Ascend910B4-1"
    Ascend910_9362 = "Ascend910_9362"
    Ascend910_9372 = "Ascend910_9372"
    Ascend910_9381 = "Ascend910_9381"
    Ascend910_9382 = "Ascend910_9382"
    Ascend910_9391 = "Ascend910_9391"
    Ascend910_9392 = "Ascend910_9392"


class KernelType(IntEnum):
    """Which cores a kernel is compiled for."""

    AIV_ONLY = 0
    AIC_ONLY = 1
    MIX_AIV_HARD_SYNC = 2
    MIX_AIC_HARD_SYNC = 3
    MIX_AIV_1_0 = 4
    MIX_AIC_1_0 = 5
    MIX_AIC_1_1 = 6
    MIX_AIC_1_2 = 7


class Chosen:
    """What set_platform chose; ``backend`` is None before the first call."""

    backend: Backend | None = None
    platform: Platform | None = None
    device: int = 0


def set_platform(
    backend: Backend | str,
    soc_version: Platform | None = None,
    device_id: int | None = None,
    check: Any = True,
) -> None:
    """Choose where kernels run.

    Args:
        backend: Backend.Model (any chip, Ascend910B1 by default) or Backend.NPU (the emulated machine's chip).
        soc_version: the chip; with NPU it must be the one that is there.
        device_id: the device, 0 by default.
        check: look for the runtime; the emulated one is always there.

    Raises:
        ValueError: an unknown backend, or another chip than the device's.
    """
    chosen = Backend(backend)
    if chosen is Backend.NPU:
        here = chips.current().name
        if soc_version is not None and getattr(soc_version, "value", soc_version) != here:
            raise ValueError(
                f"Input soc version {getattr(soc_version, 'value', soc_version)} is different from actual {here}"
            )
        known = [platform for platform in Platform if platform.value == here]
        if not known:
            raise ValueError(
                f"'{here}' is not a valid Platform: set CANNLAB_SOC to one of pyasc's, such as Ascend910B1"
            )
        soc_version = known[0]
    Chosen.backend = chosen
    Chosen.platform = soc_version or Platform.Ascend910B1
    Chosen.device = device_id or 0


def chip() -> Any:
    """The chip that kernels are timed and checked for.

    Raises:
        RuntimeError: the emulated machine's chip is none of pyasc's and no platform was chosen.
    """
    if Chosen.backend is Backend.Model and Chosen.platform is not None:
        return chips.get(Chosen.platform.value)
    here = chips.current()
    if here.name not in {platform.value for platform in Platform}:
        raise RuntimeError(
            f"pyasc has no platform {here.name}: choose one with set_platform(Backend.Model, Platform.Ascend910B1), "
            "or set CANNLAB_SOC"
        )
    return here


__getattr__ = names_of(__name__)
