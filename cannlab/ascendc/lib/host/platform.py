"""PlatformAscendC: what the tiling asks of the chip. Source: pyasc 3."""

from __future__ import annotations

from typing import Any

from cannlab.ascendc.runtime.config import chip
from cannlab.soc import soc as chips
from cannlab.soc.soc import Soc


class PlatformAscendC:
    """A chip, for the constructors of the tilings; made by ``get_ascendc_platform()``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) != 1 or kwargs or not isinstance(args[0], Soc):
            raise TypeError(
                "PlatformAscendC is made by get_ascendc_platform() or PlatformAscendCManager.get_instance()"
            )
        self.soc_: Soc = args[0]


class PlatformAscendCManager:
    """Hands out platforms."""

    @staticmethod
    def get_instance(soc_version: str | None = None) -> PlatformAscendC:
        """The platform of the current chip, or of a named one.

        Raises:
            CannlabError: rule ``soc.unknown`` for a name that is not in the table.
        """
        return PlatformAscendC(chip() if soc_version is None else chips.get(soc_version))


def get_ascendc_platform() -> PlatformAscendC:
    """The platform of the current chip."""
    return PlatformAscendCManager.get_instance()
