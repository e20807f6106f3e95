"""What the judge knows of one answer: each case's run, and the whole."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cannlab.course.values import MISSING

if TYPE_CHECKING:
    from cannlab.course.spec.compare import Difference
    from cannlab.course.spec.kernels import KernelFacts
    from cannlab.course.spec.requirements import Fact
    from cannlab.errors import Diagnosis
    from cannlab.trace import Record


class Ending(StrEnum):
    """How the answer's process ended."""

    FINISHED = "finished"
    TIMEOUT = "timeout"
    CPU = "cpu"
    MEMORY = "memory"
    EXITED = "exited"
    KILLED = "killed"
    FLOOD = "flood"
    TOO_BIG = "too_big"
    BROKEN = "broken_reply"
    HEAVY = "too_heavy"
    SETUP = "setup_failed"


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of the learner's code on the way to an error."""

    line: int
    function: str
    text: str


@dataclass(frozen=True, slots=True)
class Raised:
    """An error that ended a case. ``frames`` are the learner's lines only, outermost first.

    ``part``: "answer" (the cell), "call" (the call of the asked function), "name" (the name is missing), "command".
    """

    type: str
    message: str
    part: str = "answer"
    name: str = ""
    frames: tuple[Frame, ...] = ()


@dataclass
class CaseRun:
    """One case and what the answer made of it.

    Attributes:
        number: counted from 1.
        size: the entry of ``sizes`` that it was drawn for; with ``catches`` the title of the program's kind.
        inputs: what ``draw`` gave.
        expected: what the reference gave (MISSING if the check has no reference).
        got: the answer's result as plain data; MISSING if there is none.
        raised: the error that ended the case.
        printed: what the case printed (cut at 64 KiB).
        status: exit status of a command.
        record: the record of the case's machine; None if the machine was not used.
        files: files of the case's folder that the check asked for.
        arguments: the words of a command line.
        kernel: facts of a kernel's replayed launch.
        refused: why a kernel's launch was not accepted.
        touched: functions and classes of cannlab that the answer replaced.
    """

    number: int
    size: Any
    inputs: Mapping[str, Any]
    expected: Any = MISSING
    got: Any = MISSING
    raised: Raised | None = None
    printed: str = ""
    status: int | None = None
    record: Record | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    difference: Difference | None = None
    facts: tuple[Fact, ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    replay_ns: int | None = None
    kernel: KernelFacts | None = None
    refused: Diagnosis | None = None
    touched: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True if the result is right, every requirement holds and the machine found no fault."""
        return (
            self.raised is None
            and self.refused is None
            and self.difference is None
            and not self.faults
            and all(fact.ok for fact in self.facts)
        )


@dataclass
class Attempt:
    """One answer with all its cases. ``source`` is the cell as Python (magics replaced)."""

    source: str
    cases: list[CaseRun]
    ending: Ending = Ending.FINISHED
    cost_ratio: float | None = None
    cost_target: float | None = None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the answer (empty if it is no Python)."""
        try:
            return ast.parse(self.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ast.Module(body=[], type_ignores=[])

    @cached_property
    def normal(self) -> str:
        """The answer's code in one spelling: no comments, single quotes, one space round operators."""
        try:
            return ast.unparse(self.tree)
        except RecursionError:
            return self.source

    @property
    def failed(self) -> list[CaseRun]:
        """The cases that ran and failed."""
        return [case for case in self.cases if not case.passed]

    @property
    def fault_rules(self) -> set[str]:
        """Ids of all rules that the machine saw broken."""
        refused = {case.refused.rule for case in self.cases if case.refused is not None}
        return refused | {str(fault["rule"]) for case in self.cases for fault in case.faults}
