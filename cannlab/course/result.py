"""What a check says: the same in a notebook and in a shell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from cannlab.course.spec.requirements import Fact
from cannlab.errors import Diagnosis


class Verdict(StrEnum):
    """PASSED, FAILED, or ERROR: the check itself could not run (never counts as passed)."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class CaseReport:
    """The first case that fails. ``expected`` is empty when the exercise does not show it."""

    number: int
    inputs: tuple[tuple[str, str], ...] = ()
    expected: str = ""
    got: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class CostReport:
    """Cost against target: all cases added up."""

    got: int
    reference: int
    ratio: float
    target: float
    unit: str


@dataclass(frozen=True, slots=True)
class Result:
    """One check of one answer.

    ``misconception`` is the name of the recognised wrong answer; ``traceback`` holds the learner's own lines only and
    ``stage`` what was running when it raised (answer, call, command); ``picture`` is drawn in characters;
    ``notes`` are remarks (a duplicated cell); ``stamp`` names answer, check, seed and version; ``layers`` says which
    layers were round the answer's process; ``more`` whether grading runs more cases than were shown.
    """

    exercise: str
    title: str
    verdict: Verdict
    cases: int = 0
    right: int = 0
    case: CaseReport | None = None
    diagnosis: Diagnosis | None = None
    misconception: str = ""
    facts: tuple[Fact, ...] = ()
    cost: CostReport | None = None
    traceback: tuple[str, ...] = ()
    stage: str = ""
    printed: str = ""
    picture: str = ""
    points: int = 1
    graded: bool = False
    more: bool = True
    notes: tuple[str, ...] = ()
    hints: int = 0
    hints_seen: int = 0
    explanation: str = ""
    stamp: Mapping[str, str] = field(default_factory=dict)
    layers: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True if the answer passed."""
        return self.verdict is Verdict.PASSED

    @property
    def counted(self) -> str:
        """How many cases are right, in words."""
        if not self.cases:
            return ""
        shown = "cases" if self.graded else "shown cases"
        more = "; more run at grading" if self.more and not self.graded else ""
        return f"{self.right} of {self.cases} {shown}{more}"

    @property
    def hint(self) -> str:
        """The line that offers the next hint; empty when passed."""
        if self.passed or not self.hints:
            return ""
        number = self.hints_seen % self.hints + 1
        name = self.exercise
        return f'Hint {number} of {self.hints}: hint("{name}") in the notebook, cannlab learn hint {name} in a shell.'

    def with_(self, **changes: Any) -> Result:
        """A copy with some fields changed."""
        return replace(self, **changes)

    def text(self) -> str:
        """The whole result for a shell."""
        head = {"passed": "PASSED", "failed": "NOT YET", "error": "NO VERDICT"}[self.verdict]
        lines = [f"{head}  {self.exercise}  {self.title}"]
        if self.counted:
            lines.append(f"  {self.counted}")
        lines += [f"  note: {note}" for note in self.notes]
        if self.case is not None:
            lines += ["", f"  first case that fails: {self.case.number}"]
            lines += [f"    {name} = {value}" for name, value in self.case.inputs]
            pairs = (("expected", self.case.expected), ("got", self.case.got), ("differs at", self.case.where))
            lines += [f"    {label}: {value}" for label, value in pairs if value]
        if self.diagnosis is not None:
            lines += ["", *(f"  {line}" for line in self.diagnosis.text().splitlines())]
        if self.traceback:
            lines += ["", "  in your code:", *(f"    {line}" for line in self.traceback)]
        if self.facts or self.cost is not None:
            lines += ["", "  what the run shows:"]
            lines += [f"    {'+' if fact.ok else '-'} {fact.text}" for fact in self.facts]
        if self.cost is not None:
            lines.append(f"    {self.cost_text()}")
        if self.picture:
            lines += ["", "  when it ran:", *(f"    {line}" for line in self.picture.splitlines())]
        if self.printed and not self.passed:
            lines += ["", "  it printed:", *(f"    {line}" for line in self.printed.splitlines())]
        if self.hint:
            lines += ["", f"  {self.hint}"]
        if self.explanation:
            lines += ["", *(f"  {line}" for line in self.explanation.splitlines())]
        return "\n".join(line.rstrip() for line in lines)

    def cost_text(self) -> str:
        """Cost against target in one line."""
        cost = self.cost
        assert cost is not None
        mark = "+" if cost.ratio <= cost.target else "-"
        return (
            f"{mark} cost {cost.ratio:.2f} times the reference ({cost.got} {cost.unit}), target {cost.target:.2f} times"
        )

    __str__ = text
    __repr__ = text

    def _repr_html_(self) -> str:
        """The whole result for a notebook."""
        from cannlab.course.result_html import html

        return html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data (JSON-ready)."""
        data = {item.name: getattr(self, item.name) for item in fields(self)}
        data["verdict"] = str(self.verdict)
        data["case"] = None if self.case is None else asdict(self.case)
        data["diagnosis"] = None if self.diagnosis is None else self.diagnosis.to_dict()
        data["facts"] = [asdict(fact) for fact in self.facts]
        data["cost"] = None if self.cost is None else asdict(self.cost)
        return data | {"traceback": list(self.traceback), "notes": list(self.notes)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Result:
        """The inverse of :meth:`to_dict`."""
        case = data["case"]
        if case is not None:
            case = CaseReport(**{**case, "inputs": tuple((name, value) for name, value in case["inputs"])})
        changed = {
            "verdict": Verdict(data["verdict"]),
            "case": case,
            "diagnosis": None if data["diagnosis"] is None else Diagnosis.from_dict(data["diagnosis"]),
            "facts": tuple(Fact(**fact) for fact in data["facts"]),
            "cost": None if data["cost"] is None else CostReport(**data["cost"]),
            "traceback": tuple(data["traceback"]),
            "notes": tuple(data["notes"]),
        }
        return cls(**{**data, **changed})
