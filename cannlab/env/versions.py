"""The versions that the emulation answers with. They are the emulator's answers, not what is installed.

Whatever shows one of them to a person uses :func:`labelled`, so that no emulated version passes for a real one.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cannlab.errors import tables


@dataclass(frozen=True, slots=True)
class EmulatedVersions:
    """One row of data/versions.toml. A field is "" where no source gives the value.

    Attributes:
        cann: toolkit version (``8.1.RC1``).
        cann_internal: version of the toolkit's parts in their version.info (``7.7.0.1.238``).
        cann_branch: the toolkit's inner version (``V100R001C21SPC001B238``).
        torch: PyTorch release that ``torch_npu`` belongs to.
        torch_npu: version of torch_npu.
        driver: driver version, which npu-smi prints.
        firmware: firmware version.
    """

    cann: str
    cann_internal: str
    cann_branch: str
    torch: str
    torch_npu: str
    driver: str
    firmware: str


@cache
def _table() -> dict[str, EmulatedVersions]:
    text = (resources.files("cannlab.env") / "data" / "versions.toml").read_text(encoding="utf-8")
    return {name: EmulatedVersions(**row) for name, row in tomllib.loads(text).items()}


def emulated(cann: str | None = None) -> EmulatedVersions:
    """The versions for one value of ``CANNLAB_CANN`` ("8.1" or "current"); this process's by default.

    Raises:
        KeyError: ``cann`` is neither.
    """
    return _table()[cann or tables.cann_version()]


def labelled(version: str) -> str:
    """The version as a person may read it: ``8.1.RC1 (emulated)``."""
    return f"{version or 'unknown'} (emulated)"
