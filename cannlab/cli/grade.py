"""``cannlab grade``: grade submissions, verify results, make keys.

Exit codes: 0 everything was graded (or verified), 1 something could not be, 2 bad usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.errors import CannlabError, diagnose

if TYPE_CHECKING:
    from cannlab.course.grading.run import Summary

# What was asked for cannot be done as it was asked; anything else that ends a grading gives 1.
_USAGE = frozenset(
    ("usage", "no_submissions", "no_lessons", "out_used", "changed", "key", "no_package", "unreadable_output")
)
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Request:
    """The options as they were typed."""

    submissions: Path | None = None
    out: Path | None = None
    jobs: int | None = None
    seed: str = ""
    resume: bool = False
    lessons: tuple[str, ...] = ()
    sign: Path | None = None
    scheduler: str = ""
    verify: Path | None = None
    key: Path | None = None
    new_key: Path | None = None


def _usage(problem: str) -> CannlabError:
    return CannlabError(diagnose("grading.usage", problem=problem))


def run(request: Request) -> int:
    """Do one of the three things; gives the exit code. Mistakes are printed on standard error."""
    try:
        if request.new_key is not None:
            return _new_key(request)
        if request.verify is not None:
            return _verify(request)
        return _grade(request)
    except CannlabError as error:
        print(error.diagnosis.text(), file=sys.stderr)
        area, _, name = error.diagnosis.rule.partition(".")
        wrong = (area == "grading" and name in _USAGE) or error.diagnosis.rule == "course.unknown_exercise"
        return 2 if wrong else 1


def _new_key(request: Request) -> int:
    if request.submissions or request.out or request.verify:
        raise _usage("--new-key stands alone")
    from cannlab.course.grading.signing import new_key

    assert request.new_key is not None
    public = new_key(request.new_key)
    print(f"secret key: {request.new_key} (keep it; it has no password)")
    print(f"public key: {public} (give it to whoever verifies)")
    print(f"next: cannlab grade SUBMISSIONS --out DIR --sign {request.new_key}")
    return 0


def _verify(request: Request) -> int:
    if request.submissions or request.out:
        raise _usage("--verify takes the folder of results and --key PUB, nothing else")
    if request.key is None:
        raise _usage("--verify needs the instructor's public key: --key PUB")
    from cannlab.course.grading.signing import verify

    assert request.verify is not None
    wrong = verify(request.verify, request.key)
    if wrong:
        problem = "\n  ".join([f"{request.verify} is not as it was signed:", *wrong])
        raise CannlabError(diagnose("grading.not_verified", problem=problem))
    print(f"{request.verify}: every file is as it was signed")
    return 0


def _grade(request: Request) -> int:
    if request.submissions is None or request.out is None:
        raise _usage("give the folder of submissions and --out DIR")
    if request.key is not None:
        raise _usage("--key belongs to --verify; results are signed with --sign KEY")
    from cannlab.course.grading.run import Options, grade

    options = Options(
        request.submissions,
        request.out,
        request.jobs or os.cpu_count() or 1,
        request.seed,
        request.resume,
        request.lessons,
        request.sign,
        request.scheduler,
    )
    start = time.monotonic()
    bar = Bar()
    try:
        summary = grade(options, bar)
    except KeyboardInterrupt:
        bar.close()
        print(f"Interrupted after {bar.done} learners. Go on: the same command with --resume", file=sys.stderr)
        return INTERRUPTED
    finally:
        bar.close()
    _tell(summary, request.out, time.monotonic() - start)
    return 0 if summary.complete else 1


def _tell(summary: Summary, out: Path, seconds: float) -> None:
    again = f" ({summary.resumed} from before)" if summary.resumed else ""
    print(
        f"{summary.learners} learners{again}, {summary.exercises} exercises: "
        f"{summary.passed} of {summary.answers} answers pass, {summary.ungraded} could not be graded; "
        f"seed {summary.seed}; {seconds:.1f} s"
    )
    if summary.strays:
        print(f"not in a learner's folder, not graded: {', '.join(summary.strays[:10])}")
    if summary.missing:
        print(f"this machine lacks layers of isolation: {', '.join(summary.missing)}; see docs/instructors.md")
    print(f"results: {out} (class.html, gradebook.csv, similarity.html, learners/)")


class Bar:
    """The progress: a bar on a terminal, a line for every tenth elsewhere. It is on standard error."""

    def __init__(self) -> None:
        self.done = 0
        self._total = 0
        self._bar: Any = None
        self._task: Any = None

    def begin(self, summary: Summary, done: int) -> None:
        """Say the seed at once: a grading that is interrupted is gone on with by it."""
        self.done, self._total = done, summary.learners
        print(f"seed {summary.seed}; {summary.learners} learners, {summary.exercises} exercises", file=sys.stderr)
        if not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[learner]}"))
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=summary.learners, completed=done, learner="")
        self._bar.start()

    def step(self, learner: str) -> None:
        """One more learner."""
        from rich.markup import escape

        before, self.done = 10 * self.done // self._total, self.done + 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, learner=escape(learner[:40]))
        elif 10 * self.done // self._total > before:
            print(f"{self.done} of {self._total} learners", file=sys.stderr)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
