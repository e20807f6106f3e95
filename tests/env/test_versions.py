"""Version order, the tables, and the emulated versions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cannlab.env import compatibility, versions
from cannlab.env.version_order import is_version, release, version_key

ORDERS = [
    ["8.0.RC1", "8.0.RC3", "8.0.0", "8.1.RC1.alpha001", "8.1.RC1", "8.1.RC2", "8.1.0", "8.2.RC1", "8.5.0", "9.1.0"],
    ["23.0.3", "24.1.rc1", "24.1.rc2", "24.1.rc2.2", "24.1.rc3", "24.1.0", "24.1.0.1", "25.0.rc1", "25.0.rc1.1"],
    ["2.5.1.dev20250619", "2.5.1rc1", "2.5.1", "2.5.1.post1", "2.5.1.post10", "2.10.0"],
    ["7.1.0.5.220", "7.1.0.11.220", "7.3.0.1.231", "7.7.0.1.231"],
]


@pytest.mark.parametrize("order", ORDERS)
def test_order(order: list[str]) -> None:
    mixed = list(order)
    random.Random(7).shuffle(mixed)
    assert sorted(mixed, key=version_key) == order
    assert len({version_key(text) for text in order}) == len(order)


@pytest.mark.parametrize(
    ("one", "other"), [("2.4", "2.4.0"), ("2.13.0+cpu", "2.13.0"), ("8.1.RC1", "8.1.rc1"), ("v1", "1.0")]
)
def test_equal(one: str, other: str) -> None:
    assert version_key(one) == version_key(other)


@pytest.mark.parametrize("text", ["", "unknown", "RC1", "..", "8.1 beta", "x8.1", "[7.0.0", "1..2"])
def test_no_version(text: str) -> None:
    assert not is_version(text)
    with pytest.raises(ValueError, match="is not a version number"):
        version_key(text)


@given(st.lists(st.integers(0, 999), min_size=1, max_size=5), st.lists(st.integers(0, 999), min_size=1, max_size=5))
def test_plain_numbers_compare_as_lists(one: list[int], other: list[int]) -> None:
    width = max(len(one), len(other))
    padded = [numbers + [0] * (width - len(numbers)) for numbers in (one, other)]
    keys = [version_key(".".join(map(str, numbers))) for numbers in (one, other)]
    assert (keys[0] < keys[1]) == (padded[0] < padded[1])


@given(st.text(max_size=20))
def test_any_text_is_a_version_or_refused(text: str) -> None:
    if is_version(text):
        assert version_key(text) == version_key(text.upper())


def test_release() -> None:
    assert release("2.5.1.post1", 2) == (2, 5)
    assert release("9", 2) == (9, 0)
    assert release("8.1.RC1", 3) == (8, 1, 0)


def test_emulated_versions_by_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    assert versions.emulated("8.1").cann == "8.1.RC1"
    assert versions.emulated("8.1").cann_internal == "7.7.0.1.238"
    monkeypatch.setenv("CANNLAB_CANN", "current")
    assert versions.emulated() == versions.emulated("current")
    assert versions.labelled("8.1.RC1") == "8.1.RC1 (emulated)"
    assert versions.labelled("") == "unknown (emulated)"


def test_emulated_versions_are_one_row_of_the_compatibility_list() -> None:
    for name in ("8.1", "current"):
        known = versions.emulated(name)
        row = compatibility.torch_npu_row(known.torch_npu)
        assert row is not None
        assert (row.torch, row.cann) == (known.torch, known.cann)
    driver = compatibility.driver_for("8.1.RC1")
    assert driver is not None
    assert (driver.driver, driver.firmware) == (versions.emulated("8.1").driver, versions.emulated("8.1").firmware)


def test_tables() -> None:
    assert compatibility.torch_npu_for("8.1.RC1", "2.4.0") == "2.4.0.post4"
    assert compatibility.torch_npu_for("8.1.RC1", "2.9.0") is None
    assert compatibility.torch_npu_row("2.5.1+gitabc") == compatibility.TorchNpuRow("2.5.1", "8.1.RC1")
    assert compatibility.torch_npu_row("1.0") is None
    assert compatibility.atc_python("8.1.RC1").holds("3.10")
    assert not compatibility.atc_python("8.1.RC1").holds("3.12")
    assert compatibility.atc_python("9.1.0").holds("3.13")
    assert {p.name: p.below for p in compatibility.atc_packages("8.1.RC1")}["numpy"] == "2"
    assert {p.name: p.below for p in compatibility.atc_packages("8.2.RC1")}["numpy"] == ""
    found = compatibility.torch_python("2.5.1")
    assert found is not None
    assert [found.holds(f"3.{minor}") for minor in (8, 9, 11, 12)] == [False, True, True, False]
