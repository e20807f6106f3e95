"""pyproject.toml, requirements.lock and environment.yml say the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
CONDA_NAMES = {"pytorch": "torch"}
BUILD_ONLY = {"hatchling", "editables"}


def _project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _requirements(extra: str | None = None) -> list[Requirement]:
    project = _project()
    texts = project["dependencies"] if extra is None else project["optional-dependencies"][extra]  # type: ignore[index]
    return [Requirement(text) for text in texts]  # type: ignore[union-attr]


def _lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs), "every line of the lock pins one version"
    return {canonicalize_name(name): version for name, version in pairs}


def _conda() -> dict[str, str]:
    lines = (ROOT / "environment.yml").read_text().splitlines()
    found = re.findall(r"^  - ([\w-]+)=([\w.]+)", "\n".join(lines), flags=re.MULTILINE)
    return {canonicalize_name(CONDA_NAMES.get(name, name)): version for name, version in found}


def test_the_lock_holds_every_requirement() -> None:
    lock = _lock()
    for requirement in [*_requirements(), *_requirements("dev")]:
        version = lock.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock: run make lock"
        assert requirement.specifier.contains(Version(version)), f"{requirement} does not admit {version}"


def test_conda_users_get_the_locked_versions() -> None:
    lock, conda = _lock(), _conda()
    direct = {canonicalize_name(requirement.name) for requirement in _requirements()}
    assert set(conda) - BUILD_ONLY == direct
    assert {name: lock[name] for name in conda} == conda


def test_conda_takes_a_cpu_build_of_torch() -> None:
    assert re.search(r"^  - pytorch=[\d.]+=cpu_", (ROOT / "environment.yml").read_text(), flags=re.MULTILINE)


def test_torch_is_pinned_without_a_local_version() -> None:
    assert _lock()["torch"] == "2.13.0"
    (torch,) = [requirement for requirement in _requirements() if requirement.name == "torch"]
    assert torch.specifier.contains("2.99"), "the range in pyproject.toml stays open"


def test_the_package_is_typed_and_licensed() -> None:
    assert (ROOT / "cannlab" / "py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert _project()["license"] == "Apache-2.0"
