"""The same class on a Dask cluster: the same bytes, also when a worker is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from graded_class import Graded

from cannlab.course.grading.run import Options, Summary, grade
from cannlab.errors import CannlabError

pytest.importorskip("distributed", reason="--scheduler needs the package distributed: pip install 'cannlab[dask]'")


class Killer:
    """Ends one worker when the first learner is done."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.killed = 0

    def begin(self, summary: Summary, done: int) -> None:
        """Nothing to do yet."""

    def step(self, learner: str) -> None:
        if not self.killed:
            self.killed = next(iter(self.client.run(os.getpid).values()))
            os.kill(self.killed, signal.SIGKILL)


def test_losing_a_worker_loses_no_result_and_changes_no_byte(graded: Graded, tmp_path: Path) -> None:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        killer = Killer(client)
        options = Options(graded.submissions, tmp_path / "out", seed="secret", scheduler=cluster.scheduler_address)
        summary = grade(options, killer)
    assert killer.killed
    assert summary.passed == graded.summary.passed
    for path in sorted(graded.out.rglob("*")):
        if path.is_file():
            assert (tmp_path / "out" / path.relative_to(graded.out)).read_bytes() == path.read_bytes(), path.name


def test_no_scheduler_there_is_said(graded: Graded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cannlab.course.grading.cluster.WAIT", "1s")
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(CannlabError) as error:
            grade(Options(graded.submissions, tmp_path / "out", seed="s", resume=True, scheduler=address), Killer(None))
        assert error.value.diagnosis.rule == "grading.scheduler"
