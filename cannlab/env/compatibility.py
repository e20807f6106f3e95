"""What fits what on real machines: the rows of data/compatibility.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cannlab.env.version_order import release, version_key


@dataclass(frozen=True, slots=True)
class DriverRow:
    """The driver and firmware released beside a toolkit."""

    cann: str
    driver: str
    firmware: str


@dataclass(frozen=True, slots=True)
class PythonRange:
    """First and last Python (``3.9``) that something runs on."""

    first: str
    last: str

    def holds(self, python: str) -> bool:
        """True if a Python version (``3.11``) lies in the range."""
        return version_key(self.first) <= version_key(python) <= version_key(self.last)


@dataclass(frozen=True, slots=True)
class AtcPackage:
    """A package that ATC's operator compiler imports. ``below``: the first version that breaks it ("" if none)."""

    name: str
    below: str


@dataclass(frozen=True, slots=True)
class TorchNpuRow:
    """The PyTorch release and the CANN that one torch_npu belongs to."""

    torch: str
    cann: str


@cache
def _data() -> dict[str, object]:
    text = (resources.files("cannlab.env") / "data" / "compatibility.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _rows(name: str) -> list[dict[str, str]]:
    rows = _data()[name]
    assert isinstance(rows, list)
    return rows


def _table(name: str) -> dict[str, dict[str, str]]:
    table = _data()[name]
    assert isinstance(table, dict)
    return table


def driver_for(cann: str) -> DriverRow | None:
    """The row of a toolkit version; None if the table has none."""
    return next((DriverRow(**row) for row in _rows("driver") if row["cann"].lower() == cann.lower()), None)


def atc_python(cann: str) -> PythonRange:
    """The Python range of the toolkit's own Python parts: the newest row that is not newer than ``cann``."""
    rows = sorted(_rows("atc_python"), key=lambda row: version_key(row["cann"]))
    fitting = [row for row in rows if _reached(cann, row["cann"])] or rows[:1]
    return PythonRange(fitting[-1]["first"], fitting[-1]["last"])


def _reached(cann: str, base: str) -> bool:
    """True if ``cann`` belongs to the release ``base`` (release candidates included) or a later one."""
    return release(cann, 2) >= release(base, 2)


def atc_packages(cann: str) -> tuple[AtcPackage, ...]:
    """The packages that ATC of this toolkit imports."""

    def below(row: dict[str, str]) -> str:
        until = row.get("below_until")
        return "" if until and _reached(cann, until) else row.get("below", "")

    return tuple(AtcPackage(row["name"], below(row)) for row in _rows("atc_package"))


def torch_npu_row(version: str) -> TorchNpuRow | None:
    """The row of a torch_npu version (a local part such as ``+gitabc`` does not count); None if unknown."""
    row = _table("torch_npu").get(version.split("+")[0])
    return None if row is None else TorchNpuRow(**row)


def torch_npu_rows() -> dict[str, TorchNpuRow]:
    """All rows: torch_npu version -> the PyTorch release and the CANN it belongs to."""
    return {version: TorchNpuRow(**row) for version, row in _table("torch_npu").items()}


def torch_npu_for(cann: str, torch: str) -> str | None:
    """The newest torch_npu for a CANN and a PyTorch release; None if the table has none."""
    fitting = [
        version
        for version, row in _table("torch_npu").items()
        if row["cann"].lower() == cann.lower() and row["torch"] == torch.split("+")[0]
    ]
    return max(fitting, key=version_key, default=None)


def torch_python(torch: str) -> PythonRange | None:
    """The Python range of a PyTorch release that torch_npu follows; None if the table has none."""
    row = _table("torch_python").get(torch.split("+")[0])
    return None if row is None else PythonRange(**row)
