"""The judge: draws the cases, has the answer run elsewhere, compares here, and says what is wrong.

It fails closed: an answer passes only if its process ended by itself, every case came back whole and each one is
right.
"""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cannlab import __version__
from cannlab.course import answer as answers
from cannlab.course import job as jobs
from cannlab.course import wire
from cannlab.course.bundle import Bundle
from cannlab.course.kernel_replay import Replay, machine_replay
from cannlab.course.manifest import Kind, Limits
from cannlab.course.result import CaseReport, CostReport, Result, Verdict
from cannlab.course.runner import Outcome, Runner
from cannlab.course.spec.attempt import Attempt, CaseRun, Ending, Frame, Raised
from cannlab.course.spec.check import Check, Misconception, Solution
from cannlab.course.spec.compare import Difference
from cannlab.course.spec.requirements import Fact
from cannlab.course.values import MISSING, kind_of, show
from cannlab.errors import Diagnosis, diagnose
from cannlab.machine.core.launch import WARNINGS
from cannlab.trace import Record

_LINES, _FIRST, _LONG = 20, 5, 200
"""Printed text is shown whole up to 20 lines, else its first 5; a line up to 200 characters."""
_WIDE = 80
"""A list or dictionary whose text is longer is shown one entry a line."""
_PRIVATE = (Kind.PREDICTION, Kind.CHOICE)


@dataclass(frozen=True, slots=True)
class Terms:
    """How an answer is judged.

    ``learner`` seeds what differs from learner to learner; ``secret`` is the grader's seed, empty when a learner
    checks; ``elsewhere`` maps names that the learner's other cells define to where.
    """

    learner: str = "cannlab"
    secret: str = ""
    elsewhere: Mapping[str, str] | None = None
    compare_placeholder: bool = True

    @property
    def grading(self) -> bool:
        """True for an instructor's run."""
        return bool(self.secret)


def draw_cases(check: Check, kind: Kind, terms: Terms) -> list[CaseRun]:
    """The cases of a check with their inputs, from its seed. What depends on the learner stays the learner's."""
    if check.run.specimens:
        inputs = [{"specimen": source} for _, source, _ in check.run.specimens]
        return [CaseRun(n, None, given) for n, given in enumerate(inputs, 1)]
    private = kind in _PRIVATE
    seed = terms.learner if private or not terms.grading else terms.secret
    rounds = check.grading_rounds if terms.grading and not private else 1
    cases: list[CaseRun] = []
    for turn in range(rounds):
        for index, size in enumerate(check.sizes):
            text = f"{check.exercise}/{seed}/{turn}/{index}".encode()
            rng = np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:16], "little"))
            cases.append(CaseRun(len(cases) + 1, size, check.draw(rng, size)))
    return cases


def graded_limits(limits: Limits, check: Check) -> Limits:
    """The limits of an instructor's run: as much for every round as a learner's run has for its only one.

    The clock has twice the room, so that on a busy machine the processor time decides, which is always the same.
    """
    return limits.times(check.grading_rounds, patience=2)


def _beginning(printed: str) -> str:
    """What a program printed, from the beginning; how many lines were left out."""
    lines = printed.splitlines()
    kept = lines if len(lines) <= _LINES else lines[:_FIRST]
    shown = [line if len(line) <= _LONG else f"{line[:_LONG]}..." for line in kept]
    left = len(lines) - len(kept)
    return "\n".join([*shown, f"... {left} more lines"] if left else shown)


def _input(name: str, value: Any) -> list[tuple[str, str]]:
    """An input as it is shown: (name, text); several pairs for a long list or dictionary."""
    text = show(value)
    if len(text) <= _WIDE or not isinstance(value, (list, dict)):
        return [(name, text)]
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    pairs = [(f"{name}[{key!r}]", show(item)) for key, item in entries]
    return pairs[:_LINES] + ([("...", f"{len(pairs) - _LINES} more")] if len(pairs) > _LINES else [])


def _copy(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in inputs.items()}


def _raised(data: Any) -> Raised:
    frames = [Frame(int(line), str(function)[:100], str(text)[:200]) for line, function, text in data["frames"][:20]]
    return Raised(
        str(data["type"])[:100], str(data["message"])[:2000], str(data["part"]), str(data["name"])[:200], tuple(frames)
    )


def _part(blob: bytes, entry: Any) -> bytes:
    at, size = entry
    if type(at) is not int or type(size) is not int or at < 0 or size < 0 or at + size > len(blob):
        raise wire.BrokenFrame("a length points outside the frame")
    return blob[at : at + size]


def _fill(case: CaseRun, message: Mapping[str, Any], blob: bytes) -> None:
    """Take over what came back of a case. BrokenFrame if it cannot be read."""
    try:
        if "raised" in message:
            case.raised = _raised(message["raised"])
        else:
            case.got = wire.untree(message["got"], blob)
        case.printed = str(message.get("printed", ""))
        case.arguments = tuple(str(word) for word in message.get("arguments", ()))
        status = message.get("status")
        case.status = status if type(status) is int else None
        if "record" in message:
            case.record = Record.from_bytes(_part(blob, message["record"]))
            case.faults = tuple(dict(fault) for fault in case.record.faults)
        case.files = {str(name): _part(blob, entry) for name, entry in message.get("files", {}).items()}
    except (KeyError, TypeError, ValueError, AttributeError, MemoryError, RecursionError) as problem:
        raise wire.BrokenFrame("a case that cannot be read") from problem


class Judge:
    """Judges answers to one exercise."""

    def __init__(self, bundle: Bundle, runner: Runner, replay: Replay = machine_replay) -> None:
        self.bundle = bundle
        self.check = bundle.check
        self.exercise = bundle.exercise
        self.runner = runner
        self.replay = replay
        self.setup = tuple(answers.to_python(cell) for cell in bundle.part.setup)
        self.limits = self.exercise.limits

    # -- running -----------------------------------------------------------------------------------

    def judge(self, source: str, terms: Terms | None = None) -> Result:
        """The verdict on one answer."""
        terms = terms or Terms()
        code = answers.to_python(source)
        stamp = self._stamp(source, terms)
        wrong = answers.syntax_problem(code)
        if wrong is not None:
            diagnosis = diagnose("course.syntax", line=wrong[0], message=wrong[1])
            return self._result(Verdict.FAILED, terms, diagnosis=diagnosis, stamp=stamp)
        cases = draw_cases(self.check, self.exercise.kind, terms)
        self.limits = graded_limits(self.exercise.limits, self.check) if terms.grading else self.exercise.limits
        outcome = self._run(code, cases)
        attempt = Attempt(code, cases[: len(outcome.cases)], outcome.ending)
        for case, (message, blob) in zip(attempt.cases, outcome.cases, strict=True):
            try:
                _fill(case, message, blob)
            except wire.BrokenFrame:
                attempt.cases, attempt.ending = attempt.cases[: case.number - 1], Ending.BROKEN
                break
        self._expect(cases)
        for case in attempt.cases:
            self._examine(case)
        cost = self._cost(attempt, cases) if len(attempt.cases) == len(cases) else None
        return self._verdict(source, attempt, outcome, cases, cost, terms, stamp)

    def _run(self, code: str, cases: list[CaseRun]) -> Outcome:
        inputs = [case.inputs for case in cases]
        return self.runner.run(jobs.make(self.exercise.id, self.setup, code, self.check.run, inputs, self.limits))

    def _expect(self, cases: list[CaseRun]) -> None:
        """What each case should give."""
        reference = self.check.reference
        if self.check.run.specimens:
            for case, (_, _, right) in zip(cases, self.check.run.specimens, strict=True):
                case.expected = "passes" if right else "fails"
        elif isinstance(reference, Solution):
            for case, solved in zip(cases, self._solved(cases), strict=True):
                case.expected = solved.got
        elif reference is not None:
            for case in cases:
                case.expected = reference(**_copy(case.inputs))

    def _solved(self, cases: list[CaseRun]) -> list[CaseRun]:
        """The solved cell's runs of the same inputs. RuntimeError if the course's own solution fails."""
        runs = [CaseRun(case.number, case.size, case.inputs) for case in cases]
        outcome = self._run(answers.to_python(self.bundle.part.solution), runs)
        if len(outcome.cases) != len(runs):
            raise RuntimeError(f"the solution of {self.exercise.id} ended with {outcome.ending}: {outcome.setup}")
        for run, (message, blob) in zip(runs, outcome.cases, strict=True):
            _fill(run, message, blob)
            if run.raised is not None:
                raise RuntimeError(f"the solution of {self.exercise.id} raised {run.raised.type}: {run.raised.message}")
            if self.check.run.how == "kernel":
                self._replay(run)
        return runs

    # -- looking at a case -------------------------------------------------------------------------

    def _examine(self, case: CaseRun) -> None:
        """Replay, compare, and read the requirements of one case."""
        allowed = WARNINGS.union(self.check.faults)
        case.faults = tuple(fault for fault in case.faults if fault.get("rule") not in allowed)
        if case.raised is None and self.check.run.how == "kernel":
            self._replay(case)
        if case.raised is None and case.expected is not MISSING:
            case.difference = self._difference(case)
        if case.raised is None:
            case.facts = tuple(self._fact(requirement, case) for requirement in self.check.must)

    def _difference(self, case: CaseRun) -> Difference | None:
        if not self.check.run.specimens:
            return self.check.compare.difference(case.got, case.expected)
        title, _, right = self.check.run.specimens[case.number - 1]
        plain = isinstance(case.got, list) and len(case.got) == 2
        outcome, message = case.got if plain else ("", "")
        if outcome == case.expected:
            return None
        rule = "course.false_alarm" if right else "course.not_caught"
        facts = {"specimen": title, "message": str(message)}
        return Difference(rule, "", f"the test {case.expected}", f"the test {outcome}", facts)

    @staticmethod
    def _fact(requirement: Any, case: CaseRun) -> Fact:
        """A requirement's fact. One that trips over what an answer left is not fulfilled."""
        try:
            fact: Fact = requirement(case)
        except Exception as problem:
            return Fact("unreadable", False, f"the run cannot be read ({type(problem).__name__})", "Check again.")
        return fact

    def _replay(self, case: CaseRun) -> None:
        """Replace a kernel's result by what its record gives on the judge's own inputs."""
        case.got = MISSING
        launches = [] if case.record is None else case.record.kernels
        if not launches:
            name = self.check.run.name
            case.raised = Raised("", "", "no_launch", name)
            return
        arrays = {name: value.copy() for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
        try:
            replayed = self.replay(launches[-1], list(arrays.values()))
        except (ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError) as problem:
            case.raised = Raised(type(problem).__name__, f"the launch cannot be replayed: {problem}", "launch")
            return
        after = dict(zip(arrays, replayed.arguments, strict=False))
        out = self.check.run.out
        case.got = after.get(out[0], MISSING) if len(out) == 1 else {name: after.get(name) for name in out}
        known = {fault.get("rule") for fault in case.faults}
        found = (d.to_dict() for d in replayed.diagnoses if d.rule not in known and d.rule not in self.check.faults)
        case.faults = (*case.faults, *found)
        case.replay_ns = replayed.ns

    def _cost(self, attempt: Attempt, cases: list[CaseRun]) -> CostReport | None:
        """Cost against the solved cell's, in the same run."""
        target = self.check.cost
        if target is None or any(case.raised is not None for case in attempt.cases):
            return None
        got = sum(target.of(case) for case in attempt.cases)
        reference = sum(target.of(case) for case in self._solved(cases))
        ratio = got / reference if reference else (1.0 if not got else float("inf"))
        attempt.cost_ratio, attempt.cost_target = ratio, target.ratio
        return CostReport(got, reference, ratio, target.ratio, target.unit)

    # -- the verdict -------------------------------------------------------------------------------

    def _verdict(
        self,
        source: str,
        attempt: Attempt,
        outcome: Outcome,
        cases: list[CaseRun],
        cost: CostReport | None,
        terms: Terms,
        stamp: dict[str, str],
    ) -> Result:
        right = sum(case.passed for case in attempt.cases)
        whole = attempt.ending is Ending.FINISHED and len(attempt.cases) == len(cases)
        cheap = self.check.cost is None or (cost is not None and cost.ratio <= cost.target)
        common: dict[str, Any] = {
            "cases": len(cases),
            "right": right,
            "facts": self._facts(attempt, whole),
            "cost": cost,
            "stamp": stamp,
            "layers": outcome.layers,
        }
        if attempt.ending is Ending.SETUP:
            return self._result(Verdict.ERROR, terms, diagnosis=self._setup_failed(outcome), **common)
        if whole and right == len(cases) and cheap:
            return self._result(Verdict.PASSED, terms, explanation=self.bundle.part.explanation, **common)
        first = next((case for case in attempt.cases if not case.passed), None)
        seen = next((m for m in self.check.misconceptions if m.seen(attempt)), None)
        placeholder = terms.compare_placeholder and answers.same(source, self.bundle.part.placeholder)
        if placeholder and self.exercise.kind is not Kind.REPAIR:
            diagnosis = diagnose("course.not_started", exercise=self.exercise.id)
            return self._result(Verdict.FAILED, terms, diagnosis=diagnosis, **common | {"facts": (), "cost": None})
        if seen is not None:
            diagnosis = self._misconception(seen, attempt)
        else:
            diagnosis = self._diagnose(attempt, outcome, cost, first, terms)
        raised = None if first is None else first.raised
        ended_early = None if whole else cases[min(len(attempt.cases), len(cases) - 1)]
        return self._result(
            Verdict.FAILED,
            terms,
            diagnosis=diagnosis,
            misconception="" if seen is None else seen.name,
            case=self._report(first or ended_early),
            traceback=() if raised is None else _traceback(raised),
            stage="" if raised is None else raised.part,
            printed=_beginning(first.printed if first is not None else outcome.printed),
            **common,
        )

    def _result(self, verdict: Verdict, terms: Terms, **fields: Any) -> Result:
        exercise = self.exercise
        return Result(
            exercise.id,
            exercise.title,
            verdict,
            points=exercise.points,
            graded=terms.grading,
            more=exercise.kind not in _PRIVATE,
            hints=len(self.bundle.part.hints),
            **fields,
        )

    def _stamp(self, source: str, terms: Terms) -> dict[str, str]:
        seed = terms.secret or terms.learner
        return {
            "answer": hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest(),
            "check": self.bundle.digest,
            "seed": hashlib.sha256(f"{self.exercise.id}/{seed}".encode()).hexdigest()[:16],
            "version": __version__,
        }

    @staticmethod
    def _facts(attempt: Attempt, whole: bool) -> tuple[Fact, ...]:
        """One fact for each requirement: the first case's that does not hold, else the last case's.

        Only what does not hold if some case crashed: a program that did not get to its end has shown no success.
        """
        crashed = not whole or any(case.raised is not None for case in attempt.cases)
        chosen: dict[int, Fact] = {}
        for case in attempt.cases:
            for index, fact in enumerate(case.facts):
                if fact.text and not (crashed and fact.ok) and (index not in chosen or chosen[index].ok):
                    chosen[index] = fact
        return tuple(chosen[index] for index in sorted(chosen))

    def _report(self, case: CaseRun | None) -> CaseReport | None:
        if case is None:
            return None
        if self.check.run.specimens:
            return CaseReport(case.number, (("program", self.check.run.specimens[case.number - 1][0]),))
        inputs = tuple(pair for name, value in case.inputs.items() for pair in _input(name, value))
        if case.difference is None:
            return CaseReport(case.number, inputs) if inputs else None
        hidden = self.exercise.kind in _PRIVATE
        expected = "" if hidden else show(case.expected)
        return CaseReport(case.number, inputs, expected, show(case.got), "" if hidden else case.difference.where)

    def _misconception(self, seen: Misconception, attempt: Attempt) -> Diagnosis:
        if seen.fault and not seen.what:
            found = next(f for case in attempt.cases for f in case.faults if f.get("rule") == seen.fault)
            return Diagnosis.from_dict(found)
        return diagnose(
            "course.misconception",
            what=seen.what,
            why=seen.why,
            do=seen.do,
            name=seen.name,
            exercise=self.exercise.id,
        )

    def _setup_failed(self, outcome: Outcome) -> Diagnosis:
        error = outcome.setup or {}
        return diagnose(
            "course.setup_failed",
            exercise=self.exercise.id,
            type=str(error.get("type", "an error")),
            message=str(error.get("message", "")),
        )

    def _diagnose(
        self, attempt: Attempt, outcome: Outcome, cost: CostReport | None, first: CaseRun | None, terms: Terms
    ) -> Diagnosis:
        """The general diagnosis, when no misconception is recognised."""
        if first is None and attempt.ending is not Ending.FINISHED:
            return self._ended(attempt, outcome)
        if first is None:
            assert cost is not None
            return diagnose(
                "course.cost",
                ratio=f"{cost.ratio:.2f}",
                target=f"{cost.target:.2f}",
                got=cost.got,
                reference=cost.reference,
                unit=cost.unit,
            )
        if first.faults and (first.raised is None or first.raised.type != "NameError"):
            # What the machine saw is the cause of an error that followed from it.
            return _machine_diagnosis(first.faults[0])
        if first.raised is not None:
            return self._error(first, first.raised, terms.elsewhere or {})
        if first.difference is not None:
            return self._wrong(first, first.difference)
        fact = next(fact for fact in first.facts if not fact.ok)
        return diagnose("course.requirement", text=fact.text[:1].upper() + fact.text[1:], do=fact.do)

    def _ended(self, attempt: Attempt, outcome: Outcome) -> Diagnosis:
        limits = self.limits
        number = signal.Signals(outcome.status).name if outcome.ending is Ending.KILLED else ""
        ending = attempt.ending
        if ending is Ending.KILLED and outcome.status == signal.SIGXFSZ:
            ending = Ending.TOO_BIG
        return diagnose(
            f"course.{ending}",
            case=len(attempt.cases) + 1,
            seconds=limits.cpu if ending is Ending.CPU else limits.wall,
            kib=limits.output,
            mib=limits.memory if ending is Ending.MEMORY else limits.result,
            status=outcome.status,
            signal=outcome.status,
            name=number,
        )

    def _error(self, case: CaseRun, raised: Raised, elsewhere: Mapping[str, str]) -> Diagnosis:
        limits = self.limits
        if raised.type == "NameError" and raised.name in elsewhere:
            return diagnose("course.other_cell", name=raised.name, cell=elsewhere[raised.name])
        if raised.part == "name":
            return diagnose("course.missing_name", name=raised.name)
        if raised.part == "word":
            return diagnose("course.command_word", got=raised.message, wanted=raised.name)
        if raised.part == "quotes":
            return diagnose("course.command_quotes", message=raised.message)
        if raised.part == "no_text":
            return diagnose("course.command_text", name=raised.name, got=raised.message)
        if raised.part == "too_big":
            return diagnose("course.too_big", mib=limits.result)
        if raised.part == "no_launch":
            return diagnose("course.no_launch", name=raised.name)
        if raised.type == "MemoryError":
            return diagnose("course.memory", mib=limits.memory, case=case.number)
        if raised.type == "SystemExit":
            return diagnose("course.exited", status=raised.message, case=case.number)
        if raised.type == "PermissionError" and "Operation not permitted" in raised.message:
            return diagnose("course.process", message=raised.message)
        if raised.part == "call" and raised.type == "TypeError" and not raised.frames:
            arguments = ", ".join(case.inputs)
            return diagnose("course.signature", name=raised.name, arguments=arguments, message=raised.message)
        return diagnose("course.raised", type=raised.type, message=raised.message)

    def _wrong(self, case: CaseRun, difference: Difference) -> Diagnosis:
        facts = {"tolerance": self.check.compare.tolerance, "summary": ""} | difference.facts
        if self.exercise.kind in _PRIVATE:
            facts = {"name": self.check.run.name, "got": show(case.got), "exercise": self.exercise.id}
            if difference.rule in ("course.wrong_type", "course.foreign"):
                wanted = kind_of(case.expected)
                return diagnose("course.wrong_type", expected=wanted, got=kind_of(case.got), at="")
            return diagnose("course.wrong_answer", tolerance=self.check.compare.tolerance, **facts)
        return diagnose(difference.rule, **facts)


def _machine_diagnosis(fault: Mapping[str, Any]) -> Diagnosis:
    """A diagnosis from an answer's record; a damaged one is named as such."""
    try:
        return Diagnosis.from_dict(fault)
    except (KeyError, TypeError, ValueError):
        return diagnose("course.broken_reply", case=1)


def _traceback(raised: Raised) -> tuple[str, ...]:
    """The learner's lines on the way to an error, then the error."""
    lines = []
    for frame in raised.frames:
        inside = "" if frame.function == "<module>" else f", in {frame.function}"
        lines.append(f"cell, line {frame.line}{inside}")
        lines.append(f"    {frame.text}")
    if lines:
        message = raised.message.partition("\n")[0]
        lines.append(f"{raised.type}: {message}" if message else raised.type)
    return tuple(lines)
