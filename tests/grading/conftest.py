"""A course of trivial exercises, and a class that is graded once for all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cannlab.course.grading.run import Options, grade

sys.path.insert(0, str(Path(__file__).parent))  # pytest imports no modules beside the tests by itself

import trivial
from graded_class import COUNT, Graded, Quiet, fill_class


@pytest.fixture(scope="session")
def _monkeysession() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory, _monkeysession: pytest.MonkeyPatch) -> Path:
    """The trivial course; every process of the tests finds it."""
    root = trivial.make_course(tmp_path_factory.mktemp("course") / "course", COUNT)
    _monkeysession.setenv("CANNLAB_COURSE", str(root))
    return root


@pytest.fixture(scope="session")
def graded(course: Path, tmp_path_factory: pytest.TempPathFactory) -> Graded:
    """The class, graded with two jobs and the seed "secret"."""
    folder = tmp_path_factory.mktemp("graded")
    submissions = fill_class(folder / "class")
    summary = grade(Options(submissions, folder / "out", 2, "secret"), Quiet())
    return Graded(submissions, folder / "out", summary)
