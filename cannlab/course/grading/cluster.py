"""The same work on a Dask cluster. Losing a worker loses no result: the scheduler gives its work to another.

Files and reports cross as plain data; every worker needs this version of cannlab and of the course.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from cannlab import __version__
from cannlab.course.grading.plan import Plan
from cannlab.course.grading.pool import Done, failed
from cannlab.course.grading.submissions import Submission
from cannlab.course.grading.worker import Work, Worker, load
from cannlab.errors import CannlabError, Diagnosis, diagnose

TRIES = 3
"""How often work is given to the cluster before it is done here."""

WAIT = "15s"
"""How long the scheduler may take to answer."""

_local = threading.local()


def grade_work(plan: dict[str, Any], work: Work) -> dict[str, Any]:
    """On a worker: grade with a checking process of this thread, kept for the next one."""
    wanted = Plan.from_dict(plan)
    worker: Worker | None = getattr(_local, "worker", None)
    if worker is None or worker.plan != wanted:
        if worker is not None:
            worker.close()
        worker = _local.worker = Worker(wanted)
    try:
        return worker.grade(work)
    except CannlabError as problem:
        return {"error": problem.diagnosis.to_dict()}
    except Exception as problem:
        return failed(wanted, work, f"{type(problem).__name__}: {problem}"[:300])


def worker_version() -> str:
    """On a worker: its version of cannlab."""
    return __version__


class DaskPool:
    """The workers of a cluster."""

    def __init__(self, plan: Plan, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise CannlabError(
                diagnose("grading.no_package", feature="--scheduler", package="distributed", extra="dask")
            ) from None
        self._plan = plan
        self._address = address
        try:
            self._client: Any = Client(address, timeout=WAIT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as problem:
            raise self._lost(str(problem) or type(problem).__name__) from None
        try:
            versions = self._client.run(worker_version)
        except Exception as problem:
            self.close()
            raise self._lost(f"its workers cannot run cannlab ({type(problem).__name__}: {problem})"[:300]) from None
        other = sorted({str(version) for version in versions.values() if version != __version__})
        if other or not versions:
            self.close()
            raise self._lost(f"its workers have cannlab {', '.join(other)}" if other else "it has no worker")

    def _lost(self, problem: str) -> CannlabError:
        return CannlabError(diagnose("grading.scheduler", address=self._address, problem=problem))

    def results(self, submissions: Iterable[Submission]) -> Iterator[Done]:
        """Each submission with its report; as many are under way as the cluster has threads, twice."""
        from distributed import as_completed

        plan = self._plan.to_dict()
        source = iter(submissions)
        under_way: dict[str, tuple[Submission, Work, int]] = {}

        def begin(submission: Submission, work: Work, tries: int = 1) -> Any:
            future = self._client.submit(grade_work, plan, work, pure=False)
            under_way[future.key] = (submission, work, tries)
            return future

        room = 2 * max(sum(self._client.nthreads().values()), 1)
        with self._client.as_current():
            waiting = as_completed([begin(submission, load(submission)) for submission in islice(source, room)])
        for future in waiting:
            submission, work, tries = under_way.pop(future.key)
            report = self._report(future)
            future.release()
            if report is None and tries < TRIES:
                waiting.add(begin(submission, work, tries + 1))
                continue
            following = next(source, None)
            if following is not None:
                waiting.add(begin(following, load(following)))
            yield submission, self._here(work) if report is None else report

    def _report(self, future: Any) -> dict[str, Any] | None:
        """A future's report; None if it was lost with its worker. A lost scheduler ends the grading."""
        try:
            report: dict[str, Any] = future.result()
        except Exception as problem:
            # Beside KilledWorker, what Dask raises when a report is lost between its end and its fetching varies.
            if self._client.status != "running":
                raise self._lost(f"{type(problem).__name__}: {problem}"[:300]) from None
            return None
        if "error" in report:
            raise CannlabError(Diagnosis.from_dict(report["error"]))
        return report

    def _here(self, work: Work) -> dict[str, Any]:
        """The report of work that no worker survived, made on this machine."""
        worker = Worker(self._plan)
        try:
            return worker.grade(work)
        finally:
            worker.close()

    def close(self) -> None:
        """Leave the cluster; what is not done is cancelled."""
        self._client.close()
