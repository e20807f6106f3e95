"""No test leaves a trace in the next: environment and activation are put back.

Hypothesis draws the same examples on every machine and in every run, and does not ask how fast the machine is;
``HYPOTHESIS_PROFILE=search`` lets it look for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from cannlab import activation

settings.register_profile("same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(autouse=True)
def isolated() -> Iterator[None]:
    before = dict(os.environ)
    activation.deactivate()
    yield
    activation.deactivate()
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
