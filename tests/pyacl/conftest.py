"""A fresh machine for each test, and pyACL as programs see it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

import cannlab.acl as acl_package
from cannlab.machine import Machine, reset_machine


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CANNLAB_DIAGNOSES", "off")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="acl.util.*deprecated")
        yield
    reset_machine()


@pytest.fixture
def m() -> Machine:
    return reset_machine("Ascend910B1", 2)


@pytest.fixture
def acl(m: Machine):
    """Initialised, with device 0 set."""
    assert acl_package.init() == 0
    assert acl_package.rt.set_device(0) == 0
    return acl_package


@pytest.fixture
def rules(m: Machine):
    """Takes the rules of the faults since the last time it was called."""
    seen = 0

    def take() -> list[str]:
        nonlocal seen
        found = [fault["rule"] for fault in m.record.faults[seen:]]
        seen = len(m.record.faults)
        return found

    return take
