"""Memory does not grow with the number of submissions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trivial
from graded_class import Quiet

from cannlab.course.grading.run import Options, grade

LEARNERS = 600


class Watch(Quiet):
    """Notes the memory of this process as learners get done."""

    def __init__(self) -> None:
        super().__init__()
        self.mib: dict[int, float] = {}

    def step(self, learner: str) -> None:
        super().step(learner)
        if len(self.names) % 100 == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.mib[len(self.names)] = pages * os.sysconf("SC_PAGESIZE") / (1 << 20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_COURSE", str(trivial.make_course(tmp_path / "course", 1)))
    submissions = trivial.make_class(tmp_path / "class", LEARNERS, 1)
    watch = Watch()
    summary = grade(Options(submissions, tmp_path / "out", 2, "s"), watch)
    assert summary.passed == LEARNERS
    assert watch.mib[LEARNERS] - watch.mib[100] < 8, watch.mib
