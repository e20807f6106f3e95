"""The judge: draws the cases, has the answer run elsewhere, compares here, and says what is wrong.

It fails closed: an answer passes only if its process ended by itself, every case came back whole and each one is
right.
"""

from __future__ import annotations

import hashlib
import io
import re
import signal
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cannlab import __version__
from cannlab.course import answer as answers
from cannlab.course import job as jobs
from cannlab.course import wire
from cannlab.course.bundle import Bundle
from cannlab.course.disguise import disguise
from cannlab.course.kernel_replay import Refused, Replay, Replayed, arrays, machine_replay, other_values
from cannlab.course.manifest import Kind, Limits
from cannlab.course.patience import TooLong, within
from cannlab.course.record_audit import doubt
from cannlab.course.result import CaseReport, CostReport, Result, Verdict
from cannlab.course.runner import Outcome, Runner
from cannlab.course.spec.attempt import Attempt, CaseRun, Ending, Frame, Raised
from cannlab.course.spec.check import Check, Misconception, Solution
from cannlab.course.spec.compare import Difference
from cannlab.course.spec.requirements import Fact
from cannlab.course.spec.run import Specimen
from cannlab.course.values import MISSING, kind_of, show
from cannlab.errors import Diagnosis, diagnose
from cannlab.machine.core.launch import WARNINGS
from cannlab.soc import soc as chips
from cannlab.trace import KernelTrace, Record

_LINES, _FIRST, _LONG = 20, 5, 200
"""Printed text is shown whole up to 20 lines, else its first 5; a line up to 200 characters."""
_WIDE = 80
"""A list or dictionary whose text is longer is shown one entry a line."""
_MESSAGE = 2000
_MOST_FAULTS = 200
_MOST_FACTS = 30
_LARGEST_RECORD = 1 << 29
_PATIENCE = 2
"""How much longer than the answer's processor time the judge computes on what came back: a kernel is replayed twice."""
_PRIVATE = (Kind.PREDICTION, Kind.CHOICE)


@dataclass(frozen=True, slots=True)
class Terms:
    """How an answer is judged.

    ``learner`` seeds what differs from learner to learner; ``secret`` is the grader's seed, empty when a learner
    checks; ``elsewhere`` maps names that the learner's other cells define to where. ``seconds`` lowers the exercise's
    limits of time (0: as the manifest says).
    """

    learner: str = "cannlab"
    secret: str = ""
    elsewhere: Mapping[str, str] | None = None
    compare_placeholder: bool = True
    seconds: int = 0

    @property
    def grading(self) -> bool:
        """True for an instructor's run."""
        return bool(self.secret)


def draw_cases(check: Check, kind: Kind, terms: Terms) -> list[CaseRun]:
    """The cases of a check with their inputs, from its seed. What depends on the learner stays the learner's."""
    private = kind in _PRIVATE
    seed = terms.learner if private or not terms.grading else terms.secret
    rounds = check.grading_rounds if terms.grading and not private else 1
    if check.run.specimens:
        return _specimens(check, seed, rounds, terms.grading)
    cases: list[CaseRun] = []
    for turn in range(rounds):
        for index, size in enumerate(check.sizes):
            rng = _rng(check.exercise, seed, turn, index)
            cases.append(CaseRun(len(cases) + 1, size, check.draw(rng, size)))
    return cases


def _specimens(check: Check, seed: str, rounds: int, grading: bool) -> list[CaseRun]:
    """The programs that a learner's test tries: which ones, in which order, and how they look is the seed's.

    A test that counts its calls, or knows the programs by their text, must not know which is which.
    """
    rng = _rng(check.exercise, seed, "specimens")
    drawn: list[tuple[Specimen, str]] = []
    for kind in check.run.specimens:
        shown = kind.programs if grading or len(kind.programs) == 1 else kind.programs[:-1]
        order = rng.permutation(len(shown))
        drawn += [(kind, shown[order[turn % len(order)]]) for turn in range(rounds)]
    cases: list[CaseRun] = []
    for index in rng.permutation(len(drawn)):
        kind, program = drawn[index]
        decoys = [text for other, text in drawn if other.right is not kind.right] or [program]
        text = disguise(program, decoys[rng.integers(len(decoys))], check.run.target, rng)
        cases.append(CaseRun(len(cases) + 1, kind.title, {"specimen": text}))
    return cases


def graded_limits(limits: Limits, check: Check) -> Limits:
    """The limits of an instructor's run: as much for every round as a learner's run has for its only one.

    The clock has twice the room, so that on a busy machine the processor time decides, which is always the same.
    """
    return limits.times(check.grading_rounds, patience=2)


def _rng(*names: object) -> np.random.Generator:
    """A generator that these names seed."""
    text = "/".join(map(str, names)).encode()
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text).digest()[:16], "little"))


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
            case.record = _record(_part(blob, message["record"]))
            case.faults = tuple(_fault(fault) for fault in case.record.faults[:_MOST_FAULTS])
        case.files = {str(name): _part(blob, entry) for name, entry in message.get("files", {}).items()}
    except Exception as problem:
        # Whatever goes wrong while a stranger's data is read is the stranger's doing.
        raise wire.BrokenFrame("a case that cannot be read") from problem


def _record(data: bytes) -> Record:
    """The record of a case. ValueError if it is none, or one that unpacks to more than any run leaves."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > _LARGEST_RECORD:
            raise ValueError("a record that is too large")
    return Record.from_bytes(data)


def _fault(data: Mapping[str, Any]) -> dict[str, Any]:
    """A diagnosis of an answer's machine, as plain data of bounded size. KeyError, TypeError, ... if it is none."""
    found = Diagnosis.from_dict(data)
    facts = {
        str(name)[:_MESSAGE]: value[:_MESSAGE] if isinstance(value, str) else value
        for name, value in list(found.facts.items())[:_MOST_FACTS]
        if value is None or isinstance(value, (str, int, float))
    }
    plain = replace(found, facts=facts).to_dict()
    return plain | {name: str(plain[name])[:_MESSAGE] for name in ("rule", "code", "title", "what", "why", "remedy")}


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
        self._references: list[CaseRun] = []

    # -- running -----------------------------------------------------------------------------------

    def judge(self, source: str, terms: Terms | None = None) -> Result:
        """The verdict on one answer."""
        terms = terms or Terms()
        stamp = self._stamp(source, terms)
        self.limits = graded_limits(self.exercise.limits, self.check) if terms.grading else self.exercise.limits
        try:
            return self._judge(source, terms, stamp)
        except TooLong:
            diagnosis = diagnose("course.too_heavy", seconds=_PATIENCE * self.limits.cpu)
            return self._result(Verdict.FAILED, terms, diagnosis=diagnosis, stamp=stamp)

    def _judge(self, source: str, terms: Terms, stamp: dict[str, str]) -> Result:
        with within(_PATIENCE * self.limits.cpu):
            code = answers.to_python(source)
            wrong = answers.syntax_problem(code)
        if wrong is not None:
            diagnosis = diagnose("course.syntax", line=wrong[0], message=wrong[1])
            return self._result(Verdict.FAILED, terms, diagnosis=diagnosis, stamp=stamp)
        cases = draw_cases(self.check, self.exercise.kind, terms)
        with within(_PATIENCE * self.limits.cpu):
            outcome = self._run(code, cases, terms.seconds)
            attempt = Attempt(code, cases[: len(outcome.cases)], outcome.ending)
            for case, (message, blob) in zip(attempt.cases, outcome.cases, strict=True):
                try:
                    _fill(case, message, blob)
                except wire.BrokenFrame:
                    attempt.cases, attempt.ending = attempt.cases[: case.number - 1], Ending.BROKEN
                    break
        for case in attempt.cases:
            case.touched = outcome.touched
        self._expect(cases)
        with within(_PATIENCE * self.limits.cpu):
            for case in attempt.cases:
                self._examine(case, terms)
        cost = self._cost(attempt, cases) if len(attempt.cases) == len(cases) else None
        with within(_PATIENCE * self.limits.cpu):
            return self._verdict(source, attempt, outcome, cases, cost, terms, stamp)

    def _run(self, code: str, cases: list[CaseRun], seconds: int = 0) -> Outcome:
        inputs = [case.inputs for case in cases]
        exercise, limits = self.exercise, self.limits
        if seconds:
            limits = replace(limits, cpu=min(limits.cpu, seconds), wall=min(limits.wall, seconds))
        made = jobs.make(exercise.id, self.setup, code, self.check.run, inputs, limits, exercise.preload)
        return self.runner.run(made)

    def _expect(self, cases: list[CaseRun]) -> None:
        """What each case should give."""
        reference = self.check.reference
        if self.check.run.specimens:
            right = {kind.title for kind in self.check.run.specimens if kind.right}
            for case in cases:
                case.expected = "passes" if case.size in right else "fails"
        elif isinstance(reference, Solution):
            self._references = self._solved(cases)
            for case, solved in zip(cases, self._references, strict=True):
                case.expected = solved.got
        elif reference is not None:
            for case in cases:
                case.expected = reference(**_copy(case.inputs))

    def _sets_up(self, cases: list[CaseRun]) -> bool:
        """True if the course's own setup and solution run on these cases."""
        try:
            return bool(self._solution(cases))
        except RuntimeError:
            return False

    def _solved(self, cases: list[CaseRun]) -> list[CaseRun]:
        """The solved cell's runs of the same inputs, replayed if they are kernels."""
        runs = self._solution(cases)
        if self.check.run.how == "kernel":
            for run in runs:
                self._replay(run)
                if run.refused is not None:
                    raise RuntimeError(f"the solution of {self.exercise.id} is refused: {run.refused.what}")
        return runs

    def _solution(self, cases: list[CaseRun]) -> list[CaseRun]:
        """The solved cell's runs of the same inputs. RuntimeError if the course's own solution fails."""
        runs = [CaseRun(case.number, case.size, case.inputs) for case in cases]
        outcome = self._run(answers.to_python(self.bundle.part.solution), runs)
        if len(outcome.cases) != len(runs):
            raise RuntimeError(f"the solution of {self.exercise.id} ended with {outcome.ending}: {outcome.setup}")
        for run, (message, blob) in zip(runs, outcome.cases, strict=True):
            _fill(run, message, blob)
            if run.raised is not None:
                raise RuntimeError(f"the solution of {self.exercise.id} raised {run.raised.type}: {run.raised.message}")
        return runs

    # -- looking at a case -------------------------------------------------------------------------

    def _examine(self, case: CaseRun, terms: Terms) -> None:
        """Replay, compare, and read the requirements of one case."""
        allowed = WARNINGS.union(self.check.faults)
        case.faults = tuple(fault for fault in case.faults if fault.get("rule") not in allowed)
        if case.raised is None:
            self._disbelieve(case)
        claimed = case.got
        if case.raised is None and self.check.run.how == "kernel":
            self._replay(case)
        if case.raised is not None or case.refused is not None:
            return
        if case.expected is not MISSING:
            case.difference = self._difference(case)
            if self.check.run.how == "kernel":
                self._origin(case, claimed, terms)
        if case.refused is None:
            case.facts = tuple(self._fact(requirement, case) for requirement in self.check.must)

    @staticmethod
    def _disbelieve(case: CaseRun) -> None:
        """Refuse a case whose process changed the emulator, or whose record no run can give."""
        if case.touched:
            case.raised = Raised("", case.touched[0], "touched")
            return
        if case.record is not None:
            try:
                found = doubt(case.record)
            except Exception as problem:
                # The record is a stranger's: whatever reading it trips over is the stranger's doing.
                found = f"tables that do not fit together ({type(problem).__name__})"
            if found:
                case.raised = Raised("", found, "record")

    def _difference(self, case: CaseRun) -> Difference | None:
        if not self.check.run.specimens:
            return self.check.compare.difference(case.got, case.expected)
        plain = isinstance(case.got, list) and len(case.got) == 2
        outcome, message = case.got if plain else ("", "")
        if outcome == case.expected:
            return None
        rule = "course.false_alarm" if case.expected == "passes" else "course.not_caught"
        facts = {"specimen": case.size, "message": str(message)}
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
            case.refused = diagnose("course.no_launch", name=self.check.run.name)
            return
        try:
            found = self._launch(launches[-1], case.inputs)
        except Refused as problem:
            case.refused = problem.diagnosis
            return
        case.got = self._written(found)
        known = {fault.get("rule") for fault in case.faults}
        new = (d.to_dict() for d in found.diagnoses if d.rule not in known and d.rule not in self.check.faults)
        case.faults = (*case.faults, *new)
        case.replay_ns, case.kernel = found.ns, found.facts

    def _launch(self, trace: KernelTrace, inputs: Mapping[str, Any]) -> Replayed:
        run = self.check.run
        return self.replay(trace, _copy(inputs), run.soc or chips.current().name, run.sync)

    def _written(self, found: Replayed) -> Any:
        out = self.check.run.out
        if len(out) == 1:
            return found.arguments.get(out[0], MISSING)
        return {name: found.arguments.get(name) for name in out}

    def _origin(self, case: CaseRun, claimed: Any, terms: Terms) -> None:
        """Where a kernel's result comes from: refused if the host made it, if the answer's own arrays do not show it,
        or if it holds for these values only. What the answer claims can only harm it.
        """
        run, same = self.check.run, self.check.compare.same
        names = ", ".join(arrays(case.inputs))
        out = ", ".join(run.out)
        if case.difference is not None:
            if not case.faults and same(claimed, case.expected):
                case.refused = diagnose("course.kernel_elsewhere", name=out, names=names)
            return
        if not same(claimed, case.expected):
            case.refused = diagnose("course.kernel_order", name=out, names=names)
            return
        if not run.from_data:
            return
        assert case.record is not None
        rng = _rng(self.exercise.id, terms.secret or terms.learner, "other values", case.number)
        inputs = other_values(case.inputs, self.check.draw(rng, case.size), rng, run.out)
        found = self._launch(case.record.kernels[-1], inputs)
        if not same(self._written(found), self._wanted(case, inputs)):
            case.refused = diagnose("course.kernel_fixed", name=out)

    def _wanted(self, case: CaseRun, inputs: dict[str, Any]) -> Any:
        """What a kernel should give on other values than the case's."""
        reference = self.check.reference
        if not isinstance(reference, Solution):
            assert reference is not None
            return reference(**_copy(inputs))
        solved = self._references[case.number - 1].record
        assert solved is not None
        return self._written(self._launch(solved.kernels[-1], inputs))

    def _cost(self, attempt: Attempt, cases: list[CaseRun]) -> CostReport | None:
        """Cost against the solved cell's, in the same run."""
        target = self.check.cost
        if target is None or any(case.raised is not None or case.refused is not None for case in attempt.cases):
            return None
        try:
            got = sum(target.of(case) for case in attempt.cases)
        except Exception:
            # As in _fact: what an answer left cannot be read, so nothing is known of its cost.
            attempt.ending = Ending.BROKEN
            return None
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
        if attempt.ending is Ending.SETUP and self._sets_up(cases):
            # The setup runs: it was the answer that broke it, or that only said so.
            attempt.ending = outcome.ending = Ending.BROKEN
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
            picture=self._picture(first or (attempt.cases[-1] if whole else None)),
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
            return CaseReport(case.number, (("program", str(case.size)),))
        inputs = tuple(pair for name, value in case.inputs.items() for pair in _input(name, value))
        if case.difference is None:
            return CaseReport(case.number, inputs) if inputs else None
        hidden = self.exercise.kind in _PRIVATE
        expected = "" if hidden else show(case.expected)
        return CaseReport(case.number, inputs, expected, show(case.got), "" if hidden else case.difference.where)

    def _picture(self, case: CaseRun | None) -> str:
        """The first failing case as a picture, if the check asks for one and the case came to its end."""
        if self.check.picture is None or case is None or case.raised is not None:
            return ""
        try:
            return self.check.picture(case)
        except Exception:
            # As in _fact: the record is a stranger's, and what cannot be drawn is left out.
            return ""

    def _misconception(self, seen: Misconception, attempt: Attempt) -> Diagnosis:
        if seen.fault and not seen.what:
            refused = next((c.refused for c in attempt.cases if c.refused and c.refused.rule == seen.fault), None)
            if refused is not None:
                return refused
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
        if first.refused is not None:
            return first.refused
        if first.faults and (first.raised is None or first.raised.type != "NameError"):
            # What the machine saw is the cause of an error that followed from it.
            return _machine_diagnosis(first.faults[0])
        if first.raised is not None:
            return self._error(first, first.raised, terms.elsewhere or {})
        if first.difference is not None:
            return self._wrong(first, first.difference)
        fact = next(fact for fact in first.facts if not fact.ok)
        # Without a reference nobody has said that the result is right.
        rule = "course.not_fulfilled" if self.check.reference is None else "course.requirement"
        return diagnose(rule, text=fact.text[:1].upper() + fact.text[1:], do=fact.do)

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
        if raised.part == "touched":
            return diagnose("course.touched", name=raised.message)
        if raised.part == "record":
            return diagnose("course.altered_record", found=raised.message)
        if raised.part == "no_text":
            return diagnose("course.command_text", name=raised.name, got=raised.message)
        if raised.part == "too_big":
            return diagnose("course.too_big", mib=limits.result)
        if raised.type == "MemoryError":
            return diagnose("course.memory", mib=limits.memory, case=case.number)
        if raised.type == "SystemExit":
            return diagnose("course.exited", status=raised.message, case=case.number)
        if raised.type == "PermissionError" and "Operation not permitted" in raised.message:
            return diagnose("course.process", message=raised.message)
        if raised.type == "PermissionError" and "Permission denied" in raised.message:
            # The name only: where things lie on the machine that judges is nobody's business.
            named = re.search(r"'(?:[^']*/)?([^'/]+)/?'", raised.message)
            return diagnose("course.closed_file", name=named.group(1) if named else "a file")
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
