"""Mutation of the solutions: which small mistakes a check lets pass.

Every mutant of a solved cell is checked like a learner's answer. One that passes survives: the check needs another
case or requirement, or the mutant is the same program in other words, which the author says on its line:
``# mutate: skip REASON``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from cannlab.course import bundle, mutations
from cannlab.course.client import Client
from cannlab.course.clients import Clients
from cannlab.course.layout import Layout
from cannlab.course.mutations import Mutant
from cannlab.course.problem import Problem
from cannlab.course.result import Verdict

_PATIENCE = 3.0
"""A mutant may take so many times as long as the solution before it counts as caught."""


@dataclass(frozen=True)
class Mutated:
    """What became of an exercise's mutants.

    Attributes:
        exercise: its id.
        total: mutants that were checked.
        survivors: those that pass the check.
        accepted: those that pass on a line that the author marked, with the reason.
        problems: what the author must put right before the figures mean anything.
    """

    exercise: str
    total: int = 0
    survivors: tuple[Mutant, ...] = ()
    accepted: tuple[tuple[Mutant, str], ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def caught(self) -> int:
        """Mutants that the check refuses."""
        return self.total - len(self.survivors) - len(self.accepted)


@dataclass(frozen=True)
class _Job:
    exercise: str
    mutant: Mutant
    seconds: int


def mutate(
    layout: Layout, exercises: Iterable[str], clients: Clients, progress: Callable[[int, int], object] | None = None
) -> list[Mutated]:
    """Check every mutant of these exercises' solutions.

    Args:
        layout: the course.
        exercises: their ids.
        clients: the checking processes to use.
        progress: called as ``progress(done, all)``.

    Raises:
        CannlabError: there is no such exercise, or a checking process was lost.
    """
    names = list(exercises)
    prepared = list(clients.each(lambda client, name: _prepare(layout, client, name), names))
    jobs = [job for found in prepared for job in found.jobs]
    passed: list[bool | str] = []
    for outcome in clients.each(lambda client, job: _survives(layout.root, client, job), jobs):
        passed.append(outcome)
        if progress is not None:
            progress(len(passed), len(jobs))
    outcomes = iter(passed)
    return [found.finish([next(outcomes) for _ in found.jobs]) for found in prepared]


@dataclass(frozen=True)
class _Prepared:
    """An exercise with its mutants."""

    exercise: str
    file: str
    cell: int
    skips: dict[int, str]
    jobs: tuple[_Job, ...]
    problems: tuple[Problem, ...] = ()

    def finish(self, outcomes: list[bool | str]) -> Mutated:
        """Sort the mutants into caught, accepted and surviving."""
        survivors: list[Mutant] = []
        accepted: list[tuple[Mutant, str]] = []
        problems = list(self.problems)
        for job, outcome in zip(self.jobs, outcomes, strict=True):
            mutant = job.mutant
            if isinstance(outcome, str):
                problems.append(self.problem(mutant.line, f"a mutant could not be checked: {outcome}"))
            elif outcome and self.skips.get(mutant.line):
                accepted.append((mutant, self.skips[mutant.line]))
            elif outcome:
                survivors.append(mutant)
        used = {mutant.line for mutant, _ in accepted}
        for line, reason in self.skips.items():
            if not reason:
                problems.append(self.problem(line, "'# mutate: skip' needs a reason"))
            elif line not in used:
                problems.append(self.problem(line, "'# mutate: skip' accepts nothing: no mutant of this line survives"))
        return Mutated(self.exercise, len(self.jobs), tuple(survivors), tuple(accepted), tuple(problems))

    def problem(self, line: int, text: str) -> Problem:
        """A problem on a line of the solution."""
        return Problem(self.file, f"solution of cell {self.cell}, line {line}", text, self.exercise)


def _prepare(layout: Layout, client: Client, exercise: str) -> _Prepared:
    loaded = bundle.load(layout, exercise)
    solution = loaded.part.solution
    file = layout.shown(layout.solution(loaded.lesson))
    client.check(layout.root, exercise, solution)  # the first check of a process pays for imports
    started = time.monotonic()
    result = client.check(layout.root, exercise, solution)
    seconds = math.ceil(1 + _PATIENCE * (time.monotonic() - started))
    ready = _Prepared(exercise, file, loaded.part.cell, mutations.skips(solution), ())
    if not result.passed:
        problem = Problem(
            file, f"cell {loaded.part.cell}", "the solution does not pass its check: mend it first", exercise
        )
        return _Prepared(exercise, file, loaded.part.cell, {}, (), (problem,))
    try:
        found = mutations.mutants(mutations.plain(solution))
    except SyntaxError as wrong:
        # A cell with other magics: there is nothing that Python's grammar could take apart.
        return _Prepared(exercise, file, ready.cell, {}, (), (ready.problem(wrong.lineno or 1, "is no plain Python"),))
    jobs = tuple(_Job(exercise, mutant, seconds) for mutant in found)
    return _Prepared(exercise, file, ready.cell, ready.skips, jobs)


def _survives(root: Path, client: Client, job: _Job) -> bool | str:
    """True if the mutant passes; a text if there is no verdict."""
    result = client.check(root, job.exercise, job.mutant.source, {"seconds": job.seconds})
    if result.verdict is Verdict.ERROR:
        return "" if result.diagnosis is None else result.diagnosis.what
    return result.passed


def report(found: list[Mutated]) -> str:
    """What the author reads: surviving mutants with their line, then the total."""
    lines: list[str] = []
    for entry in found:
        lines.append(f"{entry.exercise}: {entry.total} mutants, {entry.caught} caught, {len(entry.survivors)} survive")
        for mutant in entry.survivors:
            lines += [f"  line {mutant.line}, {mutant.kind}:", f"    - {mutant.before}", f"    + {mutant.after}"]
        for mutant, reason in entry.accepted:
            lines.append(f"  line {mutant.line}, {mutant.kind}, accepted ({reason}): {mutant.after}")
        lines += [f"  {problem}" for problem in entry.problems]
    totals = [
        sum(values)
        for values in zip(*((e.total, e.caught, len(e.accepted), len(e.survivors)) for e in found), strict=True)
    ]
    everything, caught, accepted, survive = totals or [0, 0, 0, 0]
    lines.append(
        f"{len(found)} exercises, {everything} mutants: {caught} caught, {accepted} accepted, {survive} survive"
    )
    if survive:
        lines.append("add a case or a requirement that tells each survivor from the solution,")
        lines.append("or mark its line in the solution if it is the same program: # mutate: skip REASON")
    return "\n".join(lines)
