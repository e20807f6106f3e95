"""No test leaves a trace in the next: environment and activation are put back."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cannlab import activation


@pytest.fixture(autouse=True)
def isolated() -> Iterator[None]:
    before = dict(os.environ)
    activation.deactivate()
    yield
    activation.deactivate()
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
