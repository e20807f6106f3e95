"""A tiny course, a checking process for the whole run, and a place for progress that is not the developer's."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cannlab.course.client import Client
from cannlab.course.layout import Layout
from cannlab.course.result import Result

TINY = Path(__file__).parent / "fixtures" / "tiny"


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the developer's own progress or course."""
    monkeypatch.setenv("CANNLAB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CANNLAB_COURSE", raising=False)


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """One checking process."""
    found = Client()
    yield found
    found.close()


@pytest.fixture
def tiny() -> Layout:
    """The tiny course as it stands."""
    return Layout(TINY)


@pytest.fixture
def copied(tmp_path: Path) -> Layout:
    """The tiny course in a folder that a test may damage."""
    shutil.copytree(TINY, tmp_path / "course")
    return Layout(tmp_path / "course")


@pytest.fixture
def judge(client: Client) -> Callable[..., Result]:
    """``judge(name, source, **terms)`` checks an answer to an exercise of the tiny course."""

    def run(name: str, source: str, **terms: object) -> Result:
        return client.check(TINY, f"01_tiny.{name}", f"# exercise: 01_tiny.{name}\n{source}", terms)

    return run
