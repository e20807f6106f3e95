"""The mixed class is graded once for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import attacks
import pytest
from mixed_class import Graded, grade_everybody

from cannlab.course.client import Client
from cannlab.course.job import make
from cannlab.course.manifest import Limits
from cannlab.course.runner import runner
from cannlab.course.spec import call


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    """The graded class."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANNLAB_COURSE", str(attacks.COURSE))
        return grade_everybody(tmp_path_factory.mktemp("graded"))


@pytest.fixture(scope="session")
def layers() -> dict[str, str]:
    """What this machine has: layer -> "on" or "missing: why"."""
    found = runner().run(make("a.b", (), "def f(): return 1", call("f"), [{}], Limits())).layers
    assert found
    return found


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """One checking process, as a learner has it."""
    found = Client()
    yield found
    found.close()
