"""A grading from end to end: read, plan, grade, write, and go on after an interruption."""

from __future__ import annotations

import json
import os
import platform
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from cannlab import __version__
from cannlab.course import layout
from cannlab.course.client import Client
from cannlab.course.grading import journal, report, signing, submissions
from cannlab.course.grading.class_page import ClassPage
from cannlab.course.grading.cluster import DaskPool
from cannlab.course.grading.gradebook import Gradebook
from cannlab.course.grading.journal import Journal
from cannlab.course.grading.lms import Canvas, Moodle, Nbgrader
from cannlab.course.grading.plan import Plan
from cannlab.course.grading.pool import LocalPool, Pool
from cannlab.course.grading.similarity import Similarity
from cannlab.course.grading.submissions import Arrangement, Submission, Submissions
from cannlab.course.grading.worker import MODULE
from cannlab.errors import CannlabError, Diagnosis, diagnose
from cannlab.trace.whole_file import write_whole

LEARNERS = "learners"
_PACKAGES = ("numpy", "onnx", "onnxruntime", "torch")


@dataclass(frozen=True, slots=True)
class Options:
    """What the instructor asked for. ``seed`` and ``lessons`` are chosen if they are empty."""

    submissions: Path
    out: Path
    jobs: int = 1
    seed: str = ""
    resume: bool = False
    lessons: tuple[str, ...] = ()
    sign: Path | None = None
    scheduler: str = ""


@dataclass
class Summary:
    """What came out. ``missing`` names the layers that some answer's process lacked, with why."""

    seed: str
    learners: int = 0
    exercises: int = 0
    passed: int = 0
    answers: int = 0
    ungraded: int = 0
    resumed: int = 0
    strays: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True if everything could be graded."""
        return not self.ungraded and not self.strays


class Watcher(Protocol):
    """Is told how far the grading is."""

    def begin(self, summary: Summary, done: int) -> None:
        """So many learners of ``summary.learners`` are done already."""

    def step(self, learner: str) -> None:
        """One more is done."""


class Output(Protocol):
    """A file of the whole class, made while the reports go by."""

    def add(self, report: Mapping[str, Any]) -> None:
        """One learner, in the order of their names."""

    def close(self, *, keep: bool) -> None:
        """Write the file, or leave nothing behind."""


def grade(options: Options, watcher: Watcher) -> Summary:
    """Grade a folder of submissions into a folder of results.

    Raises:
        CannlabError: grading.usage, no_submissions, no_lessons, course, out_used, out_unwritable, changed, key,
            no_package, scheduler; course.no_course, course.manifest, course.engine.
    """
    key = None if options.sign is None else signing.load_key(options.sign)
    _apart(options.submissions, options.out)
    found = submissions.read(options.submissions)
    lessons = _lessons(options, found)
    resumed = _use(options.out, resume=options.resume)
    header = journal.read(options.out)[0] if resumed else None
    seed = options.seed or str((header or {}).get("seed") or secrets.token_hex(8))
    jobs = 1 if options.scheduler else max(1, min(options.jobs, len(found.all)))
    clients = [Client(MODULE) for _ in range(jobs)]
    try:
        for client in clients:
            client.start()  # they get ready at the same time
        plan = _plan(clients[0], lessons, seed)
        if header is not None:
            _unchanged(header, plan, options.seed)
        (options.out / LEARNERS).mkdir(parents=True, exist_ok=True)
        summary = _grade(options, found, plan, clients, resumed=header is not None, watcher=watcher)
        if key is not None:
            signing.sign(options.out, key)
        (options.out / journal.NAME).unlink()
    except OSError as problem:
        message = problem.strerror or str(problem)
        raise CannlabError(diagnose("grading.out_unwritable", folder=str(options.out), problem=message)) from problem
    finally:
        for client in clients:
            client.kill()
            client.close()
    return summary


# -- before --------------------------------------------------------------------------------------------


def _apart(source: Path, out: Path) -> None:
    """Results must not become a learner's folder, nor learners results."""
    one, other = source.resolve(), out.resolve()
    if one == other or one in other.parents or other in one.parents:
        problem = "the results and the submissions lie in one another; give --out a folder elsewhere"
        raise CannlabError(diagnose("grading.usage", problem=problem))


def _use(out: Path, *, resume: bool) -> bool:
    """True if an interrupted grading is to be gone on with. CannlabError (grading.out_used) if the folder is taken."""
    if journal.exists(out):
        if resume:
            return True
        problem, remedy = "holds an interrupted grading", "Go on with it by --resume, or give another --out."
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        if out.is_dir() and (out / signing.BOOK).is_file():
            problem = "holds a complete grading"
            remedy = "Read it there, or give another --out to grade anew."
        else:
            problem, remedy = "is not empty", "Give --out a new folder."
    else:
        return False
    raise CannlabError(diagnose("grading.out_used", folder=str(out), problem=problem, remedy=remedy))


def _lessons(options: Options, found: Submissions) -> tuple[str, ...]:
    """The lessons to grade: those named, else those of which somebody handed in a workbook."""
    course = layout.find().course
    if options.lessons:
        return tuple(dict.fromkeys(options.lessons))
    lessons = submissions.lessons_handed_in(found, course)
    if not lessons:
        example = next((lesson.id for lesson in course.lessons if lesson.exercises), "LESSON")
        folder = submissions.printable(str(options.submissions))
        raise CannlabError(diagnose("grading.no_lessons", folder=folder, example=example))
    return lessons


def _plan(client: Client, lessons: tuple[str, ...], seed: str) -> Plan:
    """The plan, made in a checking process: it runs the course's check files."""
    root = str(layout.find().root) if os.environ.get("CANNLAB_COURSE") else ""
    reply = client.ask({"what": "plan", "root": root, "lessons": list(lessons)})
    if "error" in reply:
        raise CannlabError(Diagnosis.from_dict(reply["error"]))
    return Plan.from_dict({**reply, "root": root, "seed": seed})


def _header(plan: Plan) -> dict[str, Any]:
    return {
        "format": 1,
        "version": __version__,
        "seed": plan.seed,
        "lessons": [lesson.id for lesson in plan.lessons],
        "plan": plan.digest,
    }


def _unchanged(header: Mapping[str, Any], plan: Plan, seed: str) -> None:
    """CannlabError (grading.changed) if the results would not be those of an uninterrupted grading."""
    now = _header(plan)
    names = {"format": "version of cannlab", "version": "version of cannlab", "seed": "seed"}
    names |= {"lessons": "choice of lessons", "plan": "version of the course"}
    for name, what in names.items():
        if header.get(name) != now[name] and (name != "seed" or seed):
            raise CannlabError(diagnose("grading.changed", what=what))


# -- grading -------------------------------------------------------------------------------------------


def _grade(
    options: Options, found: Submissions, plan: Plan, clients: list[Client], *, resumed: bool, watcher: Watcher
) -> Summary:
    folder = options.out / LEARNERS
    done = _done(options.out, found) if resumed else set()
    _clear(folder, found)
    log = Journal(options.out, None if resumed else _header(plan))
    summary = Summary(plan.seed, len(found.all), len(plan.exercises), resumed=len(done), strays=found.strays)
    watcher.begin(summary, len(done))
    try:
        pending = [submission for submission in found.all if submission.learner not in done]
        if pending:
            pool: Pool = DaskPool(plan, options.scheduler) if options.scheduler else LocalPool(plan, clients)
            try:
                for submission, data in pool.results(pending):
                    _write(folder, log, submission, data)
                    watcher.step(submission.learner)
            finally:
                pool.close()
    finally:
        log.close()
    _finish(options.out, found, plan, summary)
    return summary


def _write(folder: Path, log: Journal, submission: Submission, data: dict[str, Any]) -> None:
    """A learner's report, and then the line that says so."""
    text, shown = report.as_json(data), report.as_html(data)
    write_whole(folder / f"{submission.report}.json", text)
    write_whole(folder / f"{submission.report}.html", shown)
    digests = {name: submissions.file_digest(folder / f"{submission.report}.{name}") for name in ("json", "html")}
    log.add({"learner": submission.learner, "files": submission.digest(), **digests})


def _done(out: Path, found: Submissions) -> set[str]:
    """The learners whose reports are there, whole, and made from the files as they are now."""
    _, entries = journal.read(out)
    done = set()
    for submission in found.all:
        entry = entries.get(submission.learner)
        if entry is None or entry.get("files") != submission.digest():
            continue
        files = {name: out / LEARNERS / f"{submission.report}.{name}" for name in ("json", "html")}
        if all(path.is_file() and submissions.file_digest(path) == entry.get(name) for name, path in files.items()):
            done.add(submission.learner)
    return done


def _clear(folder: Path, found: Submissions) -> None:
    """Remove reports of nobody, and what an interruption left half-written."""
    wanted = {f"{submission.report}.{name}" for submission in found.all for name in ("json", "html")}
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()


# -- after ---------------------------------------------------------------------------------------------


def _reports(out: Path, found: Submissions) -> Iterator[tuple[Submission, dict[str, Any]]]:
    for submission in found.all:
        data = json.loads((out / LEARNERS / f"{submission.report}.json").read_bytes())
        yield submission, data


def _finish(out: Path, found: Submissions, plan: Plan, summary: Summary) -> None:
    """The files of the class, in one pass over the reports in the order of the learners' names."""
    nbgrader = found.arrangement is Arrangement.NBGRADER
    makers: tuple[Callable[[], Output], ...] = (
        lambda: Gradebook(out, plan),
        lambda: Canvas(out, plan),
        lambda: Moodle(out, plan),
        lambda: Nbgrader(out, plan, folders=nbgrader),
        lambda: ClassPage(out, plan),
        lambda: Similarity(out, plan),
    )
    layers: dict[str, Counter[str]] = {}
    learners: dict[str, Any] = {}
    with ExitStack() as stack:
        outputs: list[Output] = []
        for make in makers:
            output = make()
            outputs.append(output)
            stack.push(lambda kind, *_, output=output: output.close(keep=kind is None))
        for submission, data in _reports(out, found):
            for output in outputs:
                output.add(data)
            learners[submission.learner] = _count(data, summary, layers, submission.report)
    summary.missing = tuple(
        sorted(f"{layer} ({state})" for layer, states in layers.items() for state in states if state != "on")
    )
    _book(out, found, plan, summary, layers, learners)


def _count(data: Mapping[str, Any], summary: Summary, layers: dict[str, Counter[str]], name: str) -> dict[str, Any]:
    """Count one report; gives what grading.json keeps of it."""
    hashes = {}
    for lesson in data["lessons"]:
        for entry in lesson["exercises"]:
            hashes[entry["exercise"]] = entry["hash"]
            summary.answers += bool(entry["answer"])
            summary.passed += entry["result"]["verdict"] == "passed"
            for layer, state in entry["result"]["layers"].items():
                layers.setdefault(layer, Counter())[state] += 1
    summary.ungraded += data["ungraded"]
    return {"report": name, "points": data["points"], "ungraded": data["ungraded"], "results": hashes}


def _versions() -> dict[str, str]:
    """The versions that a result may depend on."""
    found = {"cannlab": __version__, "python": platform.python_version(), "machine": platform.machine()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _book(
    out: Path,
    found: Submissions,
    plan: Plan,
    summary: Summary,
    layers: Mapping[str, Mapping[str, int]],
    learners: Mapping[str, Any],
) -> None:
    """grading.json: what was graded with what, and the hash of every result and every file."""
    names = [Gradebook.NAME, Canvas.NAME, Moodle.NAME, Nbgrader.NAME, ClassPage.NAME, *Similarity.NAMES]
    names += [f"{LEARNERS}/{each.report}.{kind}" for each in found.all for kind in ("html", "json")]
    data = {
        "format": 1,
        "versions": _versions(),
        "course": {"title": plan.title, "version": plan.course, "digest": plan.digest},
        "seed": plan.seed,
        "arrangement": str(found.arrangement),
        "lessons": {lesson.id: lesson.points for lesson in plan.lessons},
        "checks": {exercise.id: exercise.digest for exercise in plan.exercises},
        "layers": {layer: dict(states) for layer, states in layers.items()},
        "passed": summary.passed,
        "answers": summary.answers,
        "ungraded": summary.ungraded,
        "strays": list(found.strays),
        "learners": learners,
        "files": {name: submissions.file_digest(out / name) for name in names},
    }
    write_whole(out / signing.BOOK, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode())
