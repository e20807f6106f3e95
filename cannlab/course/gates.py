"""The gates: what must be true of a lesson before it belongs to the course. Each gives all problems at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cannlab.course import manifest, notebook_file, workbook
from cannlab.course.answer import to_python
from cannlab.course.bundle import load_checks
from cannlab.course.client import Client
from cannlab.course.disguise import parameters
from cannlab.course.layout import Layout
from cannlab.course.manifest import Exercise, Kind, Lesson
from cannlab.course.problem import Problem
from cannlab.course.result import Result, Verdict
from cannlab.course.spec.check import Check
from cannlab.course.stand_in import MAGICS, PROGRAMS
from cannlab.course.workbook import Part, Workbook
from cannlab.errors.tables import rules

LEAST_EXERCISES = 4
LEAST_MISCONCEPTIONS = 5
_RUNS = {Kind.KERNEL: "kernel", Kind.COMMAND: "command", Kind.TEST: "catches"}
"""Kinds that are judged in one way only: a kernel that is merely called would not be replayed."""
_SHORT = 12
_SHELL = frozenset({*PROGRAMS, "cannlab"})
_MAGIC = re.compile(r"get_ipython\(\)\.run_(?:line|cell)_magic\('([^']*)'")
_COMMAND = re.compile(r"get_ipython\(\)\.(?:system|getoutput)\('\s*([^\s']*)")


def missing_files(layout: Layout, lesson: Lesson) -> list[Path]:
    """The files of a lesson that do not exist."""
    return [path for path in layout.files(lesson).values() if not path.is_file()]


def manifest_gate(layout: Layout) -> list[Problem]:
    """course.toml itself, and files that no lesson of it names."""
    course, problems = manifest.read((layout.root / "course.toml").read_text(encoding="utf-8"))
    if course is None:
        return list(problems)
    found = list(problems)
    for kind in ("notebooks", "solutions", "exercises"):
        expected = {getattr(layout, name)(lesson) for name in (_METHODS[kind],) for lesson in course.lessons}
        for path in sorted((layout.root / kind).rglob("*.ipynb")):
            if path not in expected and ".ipynb_checkpoints" not in path.parts:
                found.append(Problem(layout.shown(path), "", "no lesson of course.toml has this file"))
    checks = {layout.checks(lesson) for lesson in course.lessons}
    folder = next(iter(checks)).parent if checks else layout.root / "checks"
    for path in sorted(folder.glob("c[0-9]*.py")):
        if path not in checks:
            found.append(Problem(layout.shown(path), "", "no lesson of course.toml has this file"))
    return found


_METHODS = {"notebooks": "notebook", "solutions": "solution", "exercises": "exercise"}


class LessonGates:
    """All gates of one lesson. Files are read once; a file that cannot be read is a problem of its own."""

    def __init__(self, layout: Layout, lesson: Lesson, least: int = LEAST_EXERCISES) -> None:
        self.layout = layout
        self.lesson = lesson
        self.least = least
        self.paths = layout.files(lesson)
        self.shown = {name: layout.shown(path) for name, path in self.paths.items()}
        self.broken: list[Problem] = []
        self.notebooks = {name: self._notebook(name) for name in ("lesson", "solution", "workbook")}
        self.checks, problems = self._checks()
        self.broken += problems
        solved = self.notebooks["solution"]
        self.workbook = Workbook("", (), ()) if solved is None else workbook.parse(solved, self.shown["solution"])

    def _notebook(self, name: str) -> Any:
        try:
            return notebook_file.read(self.paths[name])
        except FileNotFoundError:
            self.broken.append(Problem(self.shown[name], "", "is missing"))
        except (OSError, ValueError) as problem:
            self.broken.append(Problem(self.shown[name], "", f"cannot be read: {problem}"))
        return None

    def _checks(self) -> tuple[dict[str, Check], list[Problem]]:
        if not self.paths["checks"].is_file():
            return {}, [Problem(self.shown["checks"], "", "is missing")]
        return load_checks(self.paths["checks"], self.shown["checks"])

    def all(self, client: Client) -> list[Problem]:
        """Every gate but the comparison of stored outputs (see outputs.py)."""
        return [*self.forms(), *self.proofs(client)]

    def forms(self) -> list[Problem]:
        """Every gate that runs no answer."""
        gates: tuple[Callable[[], list[Problem]], ...] = (
            self.structure,
            self.agreement,
            self.texts,
            self.cells,
            self.derived,
            self.leaks,
            self.declarations,
        )
        return [*self.broken, *(problem for gate in gates for problem in gate())]

    # -- files -------------------------------------------------------------------------------------

    def structure(self) -> list[Problem]:
        """The solved workbook's cells: tags, order, first lines, metadata."""
        return list(self.workbook.problems)

    def agreement(self) -> list[Problem]:
        """Manifest, workbook and checks name the same exercises in the same order; there are enough of them."""
        wanted = [exercise.id for exercise in self.lesson.exercises]
        found: list[Problem] = []
        if len(wanted) < self.least:
            text = f"{len(wanted)} exercises; a workbook has at least {self.least}"
            found.append(Problem("course.toml", f"lesson {self.lesson.id}", text))
        for name, have in (("solution", [part.id for part in self.workbook.parts]), ("checks", list(self.checks))):
            if have == wanted:
                continue
            for exercise in wanted:
                if exercise not in have:
                    found.append(Problem(self.shown[name], "", "lacks this exercise of course.toml", exercise))
            for exercise in have:
                if exercise not in wanted:
                    found.append(Problem(self.shown[name], "", "has an exercise that course.toml lacks", exercise))
            if sorted(have) == sorted(wanted):
                found.append(Problem(self.shown[name], "", f"another order than course.toml: {', '.join(have)}"))
        return found

    def texts(self) -> list[Problem]:
        """Title, minutes, what comes before, and the last section."""
        found: list[Problem] = []
        lesson, solved = self.notebooks["lesson"], self.notebooks["solution"]
        for name, notebook in (("lesson", lesson), ("solution", solved)):
            if notebook is None:
                continue
            first = notebook.cells[0] if notebook.cells else None
            if first is None or first.cell_type != "markdown" or not first.source.startswith("# "):
                found.append(Problem(self.shown[name], "cell 1", "must be markdown that begins with '# Title'"))
            elif f"{self.lesson.minutes} minutes" not in first.source:
                text = f"must say '{self.lesson.minutes} minutes', as course.toml does"
                found.append(Problem(self.shown[name], "cell 1", text))
            elif name == "lesson":
                for needed in self.lesson.prerequisites or ("after nothing",):
                    if needed not in first.source:
                        found.append(Problem(self.shown[name], "cell 1", f"must name what comes before: {needed}"))
        if lesson is not None:
            prose = [cell.source for cell in lesson.cells if cell.cell_type == "markdown"]
            if not prose or not re.search(r"^#+ On real hardware", prose[-1], re.M):
                found.append(Problem(self.shown["lesson"], "", "the last markdown cell must be '## On real hardware'"))
        return found

    def cells(self) -> list[Problem]:
        """Only known tags and magics; the kernel is python3; every code cell is Python."""
        found: list[Problem] = []
        for name in ("lesson", "solution"):
            notebook = self.notebooks[name]
            if notebook is None:
                continue
            if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
                found.append(Problem(self.shown[name], "metadata", "kernelspec.name must be python3"))
            for number, cell in enumerate(notebook.cells, 1):
                place = f"cell {number}"
                if name == "lesson":
                    for tag in workbook.tags(cell):
                        if tag not in workbook.KNOWN_TAGS or tag in frozenset(workbook.Tag):
                            found.append(Problem(self.shown[name], place, f"unknown tag {tag!r}"))
                if cell.cell_type == "code":
                    found += [Problem(self.shown[name], place, text) for text in _code_problems(cell.source)]
        return found

    def derived(self) -> list[Problem]:
        """The learner's workbook is what the solved one gives today, byte for byte."""
        if self.notebooks["solution"] is None or self.notebooks["workbook"] is None:
            return []
        if workbook.is_derived(self.paths["solution"], self.paths["workbook"]):
            return []
        return [
            Problem(
                self.shown["workbook"],
                "",
                f"is not derived from the solved one: python -m cannlab.course.author derive {self.lesson.id}",
            )
        ]

    def leaks(self) -> list[Problem]:
        """No line of a solution, hint or explanation stands in the learner's workbook."""
        derived, solved = self.notebooks["workbook"], self.notebooks["solution"]
        if derived is None or solved is None:
            return []
        found: list[Problem] = []
        shown = [(number, _lines(cell.source)) for number, cell in enumerate(derived.cells, 1)]
        setup = {line for part in self.workbook.parts for cell in part.setup for line in _lines(cell)}
        for part in self.workbook.parts:
            allowed = setup | set(_lines(part.placeholder))
            secret = {line for line in _lines(part.solution) if len(line) >= _SHORT} - allowed
            secret |= {line for text in (*part.hints, part.explanation) for line in _lines(text) if len(line) >= 40}
            for number, lines in shown:
                for line in sorted(secret.intersection(lines)):
                    text = f"shows a line of the solution, a hint or the explanation: {line!r}"
                    found.append(Problem(self.shown["workbook"], f"cell {number}", text, part.id))
        return found

    # -- checks ------------------------------------------------------------------------------------

    def declarations(self) -> list[Problem]:
        """Each check says enough: a way to judge, and at least five misconceptions with names and full texts."""
        found: list[Problem] = []
        kinds = {exercise.id: exercise.kind for exercise in self.lesson.exercises}
        for check in self.checks.values():

            def problem(text: str, check: Check = check, name: str = "") -> None:
                found.append(Problem(self.shown["checks"], self._line(check.exercise, name), text, check.exercise))

            if check.reference is None and not check.must and not check.run.specimens:
                problem("neither a reference nor a requirement: nothing is judged")
            kind, how = kinds.get(check.exercise), check.run.how
            if kind in _RUNS and how != _RUNS[kind]:
                problem(f"kind = {str(kind)!r} in course.toml asks for run={_RUNS[kind]}(...), not {how}(...)")
            elif how == "catches" and kind is not Kind.TEST:
                problem("run=catches(...) asks for kind = 'test' in course.toml")
            for text in _specimen_problems(check):
                problem(text)
            if not check.sizes:
                problem("sizes is empty: no case would run")
            if len(check.misconceptions) < LEAST_MISCONCEPTIONS:
                problem(f"{len(check.misconceptions)} misconceptions; at least {LEAST_MISCONCEPTIONS} are needed")
            names = [entry.name for entry in check.misconceptions]
            for name in sorted({name for name in names if names.count(name) > 1}):
                problem(f"two misconceptions are named {name}")
            for entry in check.misconceptions:
                if entry.fault and entry.fault not in rules():
                    problem(f"misconception {entry.name}: there is no rule {entry.fault}", name=entry.name)
                if not entry.fault and entry.when is None:
                    problem(f"misconception {entry.name} needs when= or fault=", name=entry.name)
                texts = (entry.what, entry.why, entry.do)
                if not (entry.fault and not any(texts)) and not all(text.endswith(".") for text in texts):
                    text = f"misconception {entry.name} needs what, why and do, each ending with a full stop"
                    problem(text, name=entry.name)
        return found

    def proofs(self, client: Client, *, own: bool = True, wrong: bool = True) -> list[Problem]:
        """``own``: the placeholder fails, the solution passes; ``wrong``: every wrong answer gets its own diagnosis.

        The wrong answers take five times as long as the rest.
        """
        return [
            problem
            for exercise in self.lesson.exercises
            for problem in self.prove(client, exercise, own=own, wrong=wrong)
        ]

    def prove(self, client: Client, exercise: Exercise, *, own: bool = True, wrong: bool = True) -> list[Problem]:
        """The proofs of one exercise."""
        part, check = self.workbook.part(exercise.id), self.checks.get(exercise.id)
        if part is None or check is None:
            return []
        proof = _Proof(self.layout, exercise, part, check, client)
        found = [*(proof.own() if own else ()), *(proof.told() if wrong else ())]
        return [
            Problem(self.shown["checks"], self._line(exercise.id, name), text, exercise.id)
            if name
            else Problem(self.shown["solution"], f"cell {part.cell}", text, exercise.id)
            for name, text in found
        ]

    def _line(self, exercise: str, name: str = "") -> str:
        """Where a check, or a misconception of it, stands in the file of checks; "" if its text is made elsewhere."""
        lines = self.paths["checks"].read_text(encoding="utf-8").splitlines()
        head = next((n for n, line in enumerate(lines) if f'"{exercise}"' in line), None)
        if head is None:
            return ""
        if name:
            inside = next((n for n in range(head, len(lines)) if f'"{name}"' in lines[n]), None)
            head = head if inside is None else inside
        return f"line {head + 1}"


def _specimen_problems(check: Check) -> Iterator[str]:
    """What a test-writing exercise's programs lack: right ones, wrong ones, the target with the same parameters."""
    kinds = check.run.specimens
    if kinds and len({kind.right for kind in kinds}) < 2:
        yield "a test needs right programs to pass on and wrong ones to fail on"
    signatures: dict[tuple[str, ...], str] = {}
    for kind in kinds:
        for program in kind.programs:
            try:
                signatures.setdefault(tuple(parameters(program, check.run.target)), kind.title)
            except ValueError as wrong:
                yield f"a program of {kind.title!r} {wrong}"
    if len(signatures) > 1:
        yield f"programs tell themselves apart by their parameters: {', '.join(map(repr, signatures.values()))}"


def _lines(source: str) -> list[str]:
    return [" ".join(line.split()) for line in source.splitlines() if line.strip() and not line.strip().startswith("#")]


def _code_problems(source: str) -> Iterator[str]:
    python = to_python(source)
    for magic in _MAGIC.findall(python):
        if magic not in MAGICS:
            yield f"unknown magic %{magic} (known: {', '.join(sorted(MAGICS))})"
    for command in _COMMAND.findall(python):
        if command not in _SHELL:
            yield f"!{command}: only {', '.join(sorted(_SHELL))} run in every learner's notebook"


class _Proof:
    """Runs an exercise's own answers through its check."""

    def __init__(self, layout: Layout, exercise: Exercise, part: Part, check: Check, client: Client) -> None:
        self.layout = layout
        self.exercise = exercise
        self.part = part
        self.check = check
        self.client = client

    def run(self, source: str, **terms: Any) -> Result:
        return self.client.check(self.layout.root, self.exercise.id, source, {"compare_placeholder": False} | terms)

    def own(self) -> Iterator[tuple[str, str]]:
        """("", what is wrong) of the placeholder and the solution."""
        for text in (*self.placeholder(), *self.solution()):
            yield "", text

    def told(self) -> Iterator[tuple[str, str]]:
        """(misconception, what is wrong) of the wrong answers."""
        for entry in self.check.misconceptions:
            for text in self.wrong(entry):
                yield entry.name, text

    def placeholder(self) -> Iterator[str]:
        result = self.run(self.part.placeholder)
        if result.verdict is not Verdict.FAILED:
            yield f"the placeholder gives {result.verdict}, not failed{_why(result)}"
        if result.stage == "answer" or (result.diagnosis is not None and result.diagnosis.rule == "course.syntax"):
            yield f"the placeholder does not run{_why(result)}"
        if result.passed:
            return
        seen = self.run(self.part.placeholder, compare_placeholder=True)
        if seen.diagnosis is None:
            yield "the placeholder fails without a diagnosis"
        if seen.traceback and self.exercise.kind is not Kind.REPAIR:
            yield "the placeholder shows a traceback"

    def solution(self) -> Iterator[str]:
        for label, terms in (
            ("", {}),
            (" for another learner", {"learner": "gate"}),
            (" when graded", {"secret": "gate"}),
        ):
            result = self.run(self.part.solution, **terms)
            if not result.passed:
                yield f"the solution does not pass{label}{_why(result)}"
                return  # the other runs would say the same again

    def wrong(self, entry: Any) -> Iterator[str]:
        try:
            source = entry.source(self.part.solution)
        except ValueError as problem:
            yield f"misconception {entry.name}: {problem}"
            return
        for label, terms in (("", {}), (" for another learner", {"learner": "gate"})):
            result = self.run(source, **terms)
            if result.verdict is not Verdict.FAILED:
                yield f"wrong answer {entry.name} gives {result.verdict}{label}{_why(result)}"
                return
            elif result.misconception != entry.name:
                taken = f"is taken for {result.misconception}" if result.misconception else "is not recognised"
                yield f"wrong answer {entry.name} {taken}{label}{_why(result)}"
                return


def _why(result: Result) -> str:
    """The diagnosis in one line, for an author."""
    found = result.diagnosis
    lines = "" if found is None else f": {found.rule}: {found.what}"
    where = "" if not result.traceback else f" ({'; '.join(line.strip() for line in result.traceback[-3:])})"
    return (lines + where)[:400]
