"""The example machine is whole, and each thing that can be missing from it is found by check-env."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cannlab.env import compatibility
from cannlab.env.check import check
from cannlab.env.example_machine import PACKAGES, example_machine, sourced
from cannlab.env.findings import Report, State, Status


def found(report: Report, status: Status) -> list[str]:
    return [finding.check for finding in report.findings if finding.status is status]


@pytest.mark.parametrize("cann", ["8.1.RC1", "8.2.RC1"])
def test_nothing_is_wrong_with_it(tmp_path: Path, cann: str) -> None:
    driver = compatibility.driver_for(cann)
    assert driver is not None
    packages = {**PACKAGES, "torch_npu": compatibility.torch_npu_for(cann, "2.5.1") or ""}
    machine = example_machine(tmp_path, cann=cann, driver=driver.driver, firmware=driver.firmware, packages=packages)
    report = check(machine)
    assert report.state is State.REAL
    assert found(report, Status.FAIL) == []
    assert found(report, Status.WARN) == []
    assert report.versions["cann"] == {"version": cann, "emulated": False}


def test_without_a_driver_models_convert_and_nothing_is_broken(tmp_path: Path) -> None:
    report = check(example_machine(tmp_path, driver=""))
    assert (report.state, report.fine) == (State.NO_DRIVER, True)


def test_without_a_toolkit_the_emulation_answers(tmp_path: Path) -> None:
    report = check(example_machine(tmp_path, cann=""))
    assert (report.state, report.fine) == (State.EMULATED, True)
    assert "real.driver" in found(report, Status.NOTE)


def test_a_missing_firmware_file_is_a_warning(tmp_path: Path) -> None:
    report = check(example_machine(tmp_path, firmware=""))
    assert found(report, Status.WARN) == ["real.firmware"]
    assert report.fine


def test_a_new_terminal_does_not_know_the_toolkit(tmp_path: Path) -> None:
    machine = example_machine(tmp_path)
    report = check(replace(machine, environ={"HOME": "/home/user", "PATH": "/usr/bin:/bin"}))
    assert found(report, Status.FAIL) == ["real.set_env"]
    assert report.findings[[f.check for f in report.findings].index("real.set_env")].fix.startswith("source /usr/local")


def test_sourcing_another_toolkit_is_seen(tmp_path: Path) -> None:
    machine = example_machine(tmp_path, older=("8.0.0",))
    old = sourced({"PATH": "/usr/bin"}, "8.0.0")
    assert old["ASCEND_HOME_PATH"] == "/usr/local/Ascend/ascend-toolkit/8.0.0"
    assert old["PATH"].split(":")[0] == "/usr/local/Ascend/ascend-toolkit/8.0.0/bin"
    both = {**machine.environ, "LD_LIBRARY_PATH": old["LD_LIBRARY_PATH"] + ":" + machine.environ["LD_LIBRARY_PATH"]}
    report = check(replace(machine, environ=both))
    assert [finding.rule for finding in report.findings if finding.status is Status.FAIL] == ["env.stale_path"]


def test_every_row_of_the_table_is_handed_out() -> None:
    rows = compatibility.torch_npu_rows()
    assert (rows["2.5.1"].torch, rows["2.5.1"].cann) == ("2.5.1", "8.1.RC1")
    assert all(compatibility.torch_npu_row(version) == row for version, row in rows.items())
    assert "2.13.0" not in {row.torch for row in rows.values()}
