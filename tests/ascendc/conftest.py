"""Every test starts with a machine of its own."""

import pytest

from cannlab.machine import reset_machine


@pytest.fixture(autouse=True)
def fresh_machine(monkeypatch):
    monkeypatch.setenv("CANNLAB_DIAGNOSES", "off")
    monkeypatch.delenv("CANNLAB_SOC", raising=False)
    reset_machine("Ascend910B1", 1)
