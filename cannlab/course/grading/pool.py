"""Who grades: some checking processes of this machine, each driven by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from cannlab.course.client import Client
from cannlab.course.grading.plan import Plan
from cannlab.course.grading.submissions import Submission
from cannlab.course.grading.worker import Work, Worker, load
from cannlab.errors import CannlabError

Done = tuple[Submission, dict[str, Any]]


class Pool(Protocol):
    """Grades submissions, in whatever order they get done."""

    def results(self, submissions: Iterable[Submission]) -> Iterator[Done]:
        """Each submission with its report. Few are held at a time."""

    def close(self) -> None:
        """Stop at once; what is not done stays undone."""


def failed(plan: Plan, work: Work, problem: str) -> dict[str, Any]:
    """The report of a learner whose grading broke down: no points, and it says so."""
    return Nothing(plan).grade(
        Work(work.learner, work.report, (), work.notes, (*work.unreadable, f"grading broke down: {problem}"))
    )


class Nothing(Worker):
    """A worker that finds no answer in anything, and needs no process for that."""

    def _collect(self, work: Work) -> dict[str, Any]:
        return {"answers": {}, "missing": {}, "notes": [], "unreadable": [], "learners": []}


def grade_one(worker: Worker, submission: Submission) -> dict[str, Any]:
    """One report; a mistake of ours costs this learner's report only, and is named in it."""
    work = Work(submission.learner, submission.report, (), submission.notes, ())
    try:
        work = load(submission)
        return worker.grade(work)
    except CannlabError:
        raise
    except Exception as problem:
        return failed(worker.plan, work, f"{type(problem).__name__}: {problem}"[:300])


class LocalPool:
    """Checking processes of this machine."""

    def __init__(self, plan: Plan, clients: Sequence[Client]) -> None:
        self._workers = [Worker(plan, client) for client in clients]
        self._stop = threading.Event()

    def results(self, submissions: Iterable[Submission]) -> Iterator[Done]:
        """Each submission with its report."""
        source = iter(submissions)
        lock = threading.Lock()
        # Bounded: a slow disk holds the graders back instead of filling memory.
        done: queue.Queue[Done | Exception | None] = queue.Queue(2 * len(self._workers))

        def run(worker: Worker) -> None:
            try:
                while not self._stop.is_set():
                    with lock:
                        submission = next(source, None)
                    if submission is None:
                        break
                    done.put((submission, grade_one(worker, submission)))
            except Exception as problem:
                done.put(problem)
            finally:
                worker.close()
                done.put(None)

        threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in self._workers]
        for thread in threads:
            thread.start()
        running = len(threads)
        while running:
            item = done.get()
            if item is None:
                running -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                yield item

    def close(self) -> None:
        """Stop: the processes end, whoever waits for them too."""
        self._stop.set()
        for worker in self._workers:
            worker.client.kill()
