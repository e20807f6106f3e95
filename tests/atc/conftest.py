"""The compiler's tests share their models, and write into a folder of their own."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    """fusion_result.json and check_result.json go into the working directory: never into the checkout."""
    monkeypatch.chdir(tmp_path)
