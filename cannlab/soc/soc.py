"""The chips: one table (data/soc.csv) and one frozen class. No other file holds a chip's number."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cannlab.errors import CannlabError, diagnose

DEFAULT_SOC = "Ascend910B1"
DEFAULT_DEVICES = 8


@dataclass(frozen=True, slots=True)
class Soc:
    """One SoC. Sizes in bytes, frequencies in MHz, rates in bytes per cycle per core unless named otherwise.

    Source of the numbers: the CANN 8.1.RC1 platform files; what differs from them, and why, stands in
    ``corrections`` (and a number without a source is called assumed there).
    """

    name: str
    short: str
    arch: str
    ai_cores: int
    cube_cores: int
    vector_cores: int
    cube_mhz: int
    vector_mhz: int
    vector_lanes: int
    """fp16 elements that a vector unit handles per cycle (256 B / 2)."""
    ub_bytes: int
    ub_usable_bytes: int
    """What TPipe hands out; the rest is reserved by the system."""
    l0a_bytes: int
    l0b_bytes: int
    l0c_bytes: int
    l1_bytes: int
    l1_usable_bytes: int
    """What kernels may address; the rest is reserved by the system."""
    bt_bytes: int
    """Bias table; 0 where the chip has none of its own."""
    fb_bytes: int
    """Fixpipe buffer; 0 where the chip has none."""
    l2_bytes: int
    memory_bytes: int
    ddr_gbps: float
    """Bandwidth of the device memory, GB/s (10^9 bytes)."""
    l2_read_rate: int
    l2_write_rate: int
    l1_to_l0a_rate: int
    l1_to_l0b_rate: int
    l1_to_ub_rate: int
    l0c_to_ub_rate: int
    ub_to_l2_rate: int
    ub_to_ddr_rate: int
    ub_to_l1_rate: int
    max_streams: int
    event_ids: int
    """Event ids per pair of pipes (hard events)."""
    corrections: str

    @property
    def split(self) -> bool:
        """True where cube and vector are separate cores (AIC and AIV)."""
        return self.arch in ("dav-c220-cube", "dav-c310")

    @property
    def sparse(self) -> bool:
        """True where the cube multiplies 4:2 sparse matrices. Source: the toolkit's page of MmadWithSparse."""
        return self.arch == "dav-c220-cube"

    @property
    def saturates(self) -> bool:
        """True where fp16 results outside the range become 65504, and undefined ones 0, instead of infinity and NaN.

        Source: torch-npu 3, chips (310, 310P, 310B and 910A saturate; 910B and later keep infinities by default).
        """
        return self.arch in ("dav-m100", "dav-m200", "dav-m300", "dav-c100")

    @property
    def kernel_cores(self) -> int:
        """Cores that a vector kernel's blocks run on at once."""
        return self.vector_cores if self.split else self.ai_cores

    @property
    def matrix_cores(self) -> int:
        """Cores that a cube kernel's blocks run on at once."""
        return self.cube_cores if self.split else self.ai_cores

    @property
    def npu_name(self) -> str:
        """The name that npu-smi prints (``910B1``)."""
        return self.name.removeprefix("Ascend")


def _soc(row: dict[str, str]) -> Soc:
    kib, mib = 1024, 1024 * 1024

    def number(key: str) -> int:
        return int(row[key])

    return Soc(
        name=row["soc"],
        short=row["short"],
        arch=row["aic_arch"],
        ai_cores=number("ai_core_cnt"),
        cube_cores=number("cube_core_cnt"),
        vector_cores=number("vector_core_cnt"),
        cube_mhz=number("cube_freq_MHz"),
        vector_mhz=number("vec_freq_MHz"),
        vector_lanes=number("vec_calc_size"),
        ub_bytes=number("ub_KiB") * kib,
        ub_usable_bytes=number("ub_usable_bytes"),
        l0a_bytes=number("l0a_KiB") * kib,
        l0b_bytes=number("l0b_KiB") * kib,
        l0c_bytes=number("l0c_KiB") * kib,
        l1_bytes=number("l1_KiB") * kib,
        l1_usable_bytes=number("l1_usable_bytes"),
        bt_bytes=number("bt_bytes"),
        fb_bytes=number("fb_bytes"),
        l2_bytes=number("l2_MiB") * mib,
        memory_bytes=number("mem_GiB") * 1024 * mib,
        ddr_gbps=float(row["ddr_GBps"]),
        l2_read_rate=number("l2_rate"),
        l2_write_rate=number("l2_write_rate"),
        l1_to_l0a_rate=number("l1_to_l0a"),
        l1_to_l0b_rate=number("l1_to_l0b"),
        l1_to_ub_rate=number("l1_to_ub"),
        l0c_to_ub_rate=number("l0c_to_ub"),
        ub_to_l2_rate=number("ub_to_l2"),
        ub_to_ddr_rate=number("ub_to_ddr"),
        ub_to_l1_rate=number("ub_to_l1"),
        max_streams=number("streams"),
        event_ids=number("event_ids"),
        corrections=row["corrections"],
    )


@cache
def table() -> dict[str, Soc]:
    """Every known SoC by its name (``Ascend910B1``)."""
    text = (resources.files("cannlab.soc") / "data" / "soc.csv").read_text(encoding="utf-8")
    return {row["soc"]: _soc(row) for row in csv.DictReader(text.splitlines())}


def get(name: str) -> Soc:
    """The SoC of that name.

    Raises:
        CannlabError: rule ``soc.unknown`` for a name that is not in the table.
    """
    found = table().get(name)
    if found is None:
        raise CannlabError(diagnose("soc.unknown", name=name, known=", ".join(table())))
    return found


def current(environ: Mapping[str, str] = os.environ) -> Soc:
    """The SoC that this process emulates: ``CANNLAB_SOC``, Ascend910B1 by default."""
    return get(environ.get("CANNLAB_SOC") or DEFAULT_SOC)


def device_count(environ: Mapping[str, str] = os.environ) -> int:
    """How many devices this process emulates: ``CANNLAB_DEVICES``, 8 by default.

    Raises:
        CannlabError: rule ``soc.device_count`` unless it is a number from 1 to 64.
    """
    text = environ.get("CANNLAB_DEVICES") or str(DEFAULT_DEVICES)
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise CannlabError(diagnose("soc.device_count", value=text))
    return int(text)
