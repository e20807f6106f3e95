"""The models of the compiler's tests serve here too; what the compiler reports goes into the test's own folder."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "atc"))


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
