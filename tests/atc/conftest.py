"""Compiling writes into the working directory (fusion_result.json, check_result.json): never the checkout."""

import pytest


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
