"""A check: a few declarative lines about one exercise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cannlab.course.spec.attempt import Attempt, CaseRun
from cannlab.course.spec.compare import Compare, exact
from cannlab.course.spec.pictures import Picture
from cannlab.course.spec.requirements import Requirement, simulated_time
from cannlab.course.spec.run import Run, read

if TYPE_CHECKING:
    from numpy.random import Generator

Inputs = dict[str, Any]


class Solution:
    """Marks a reference: what the solved cell gives on the same inputs, run in a process of its own."""

    def __repr__(self) -> str:
        return "SOLUTION"


SOLUTION = Solution()


@dataclass(frozen=True, slots=True)
class File:
    """An input that is a file: it lies in the case's folder; the answer gets its name."""

    name: str
    data: bytes

    def __repr__(self) -> str:
        return f"{self.name} ({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class Change:
    """A wrong cell as a change of the solved one: each old text (which must be there) gives way to the new."""

    pairs: tuple[tuple[str, str], ...]

    def apply(self, solution: str) -> str:
        """The wrong cell. ValueError if an old text is not in the solution or nothing changes."""
        text = solution
        for old, new in self.pairs:
            if old not in text:
                raise ValueError(f"the solution has no {old!r}")
            text = text.replace(old, new)
        if text == solution:
            raise ValueError("the change changes nothing")
        return text


def change(*texts: str) -> Change:
    """``change(old, new, old, new, ...)``: a wrong cell made from the solution. Every occurrence is replaced."""
    if len(texts) < 2 or len(texts) % 2:
        raise ValueError("change(old, new, ...) takes pairs")
    return Change(tuple(zip(texts[::2], texts[1::2], strict=True)))


@dataclass(frozen=True, slots=True)
class Misconception:
    """A plausible wrong answer and the diagnosis that it must get.

    Attributes:
        name: short, unique in the exercise ("bytes_for_elements").
        wrong: the wrong cell: its whole text, or ``change(...)`` of the solution.
        when: recognises the misconception in an attempt; the first one of the check that is true gives the
            diagnosis, so the specific ones stand before the general ones.
        what: what the learner did ("the length is counted in elements.").
        why: the rule ("acl.rt.memcpy counts bytes.").
        do: what to do ("Multiply by the item size: data.nbytes.").
        fault: instead of what, why and do: a rule that the machine itself finds; the machine's diagnosis
            (with the learner's line) is shown. ``when`` is then that fault, unless given.
    """

    name: str
    wrong: str | Change
    when: Callable[[Attempt], bool] | None = None
    what: str = ""
    why: str = ""
    do: str = ""
    fault: str = ""

    def seen(self, attempt: Attempt) -> bool:
        """True if the attempt shows this misconception."""
        if self.when is not None:
            return bool(self.when(attempt))
        return bool(self.fault) and self.fault in attempt.fault_rules

    def source(self, solution: str) -> str:
        """The wrong cell; ValueError if the change does not fit the solution."""
        return self.wrong.apply(solution) if isinstance(self.wrong, Change) else self.wrong.strip("\n")


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost target: at most ``ratio`` times what the solved cell costs on the same inputs in the same run.

    ``of`` gives a case's cost as a whole number (simulated_time, device_time, bytes_copied); costs of all cases
    are added. Never compare with a number of ns: the time model changes.
    """

    ratio: float
    of: Callable[[CaseRun], int] = simulated_time
    unit: str = "ns"


def _nothing(rng: Generator, size: Any) -> Inputs:
    return {}


@dataclass(frozen=True)
class Check:
    """How one exercise is checked.

    Attributes:
        exercise: its id.
        run: how to get a result (call, read, printed, command, kernel, catches).
        draw: ``draw(rng, size)`` gives the inputs of a case by name. Distinct random values, no symmetric or
            constant data. The generator is seeded by exercise, learner (or the grader's secret) and case.
        sizes: one case for each entry: small, around every boundary, odd, one large.
        reference: ``reference(**inputs)``, SOLUTION, or None when only ``must`` decides. It must not run torch.
        compare: how results are compared.
        must: what else must hold, read from the case (record, output, files, status).
        faults: rules that the machine may report without the case failing.
        cost: the cost target.
        picture: drawn of the first failing case, where seeing helps: streams(), pipes().
        misconceptions: at least five.
        grading_rounds: how often each size is drawn when an instructor grades.
    """

    exercise: str
    run: Run
    draw: Callable[[Generator, Any], Inputs] = _nothing
    sizes: tuple[Any, ...] = (None,)
    reference: Callable[..., Any] | Solution | None = None
    compare: Compare = field(default_factory=exact)
    must: tuple[Requirement, ...] = ()
    faults: tuple[str, ...] = ()
    cost: Cost | None = None
    picture: Picture | None = None
    misconceptions: tuple[Misconception, ...] = ()
    grading_rounds: int = 3


def choice(exercise: str, *, right: str, options: Mapping[str, tuple[str, str, str]], name: str = "answer") -> Check:
    """A check of a choice: the learner sets ``answer = "b"``.

    Args:
        exercise: the id.
        right: the right letter (or word).
        options: every wrong letter with its diagnosis (what, why, do).
        name: the variable.
    """

    def chose(letter: str) -> Callable[[Attempt], bool]:
        def seen(attempt: Attempt) -> bool:
            return any(
                isinstance(case.got, str) and case.got.strip().lower() == letter.lower() for case in attempt.cases
            )

        return seen

    misconceptions = [
        Misconception(
            f"chose_{letter}", f'# exercise: {exercise}\n{name} = "{letter}"', chose(letter), what=what, why=why, do=do
        )
        for letter, (what, why, do) in options.items()
    ]
    return Check(
        exercise, read(name), reference=lambda: right, compare=Compare(words=True), misconceptions=tuple(misconceptions)
    )
