"""``cannlab dev``: check, new, derive, refresh, try, mutate: the author's commands (docs/authoring.md)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cannlab.course.layout import Layout
    from cannlab.course.manifest import Lesson
    from cannlab.course.problem import Problem

app = typer.Typer(
    help="For authors of lessons: make one, prove its checks, refresh its outputs.",
    no_args_is_help=True,
    add_completion=False,
)
_COURSE = Annotated[Path | None, typer.Option("--course", help="the folder that holds course.toml", metavar="DIR")]
_LESSON = Annotated[
    list[str] | None, typer.Argument(help="lessons (NN_topic); all of them by default", metavar="[LESSON]...")
]
_JOBS = Annotated[int, typer.Option("--jobs", "-j", min=0, help="checking processes; 0: one for each processor")]


def main(arguments: list[str]) -> int:
    """Run ``cannlab dev ARGUMENTS``; gives its exit status. Bad usage is raised as Typer's error."""
    return int(app(list(arguments), prog_name="cannlab dev", standalone_mode=False) or 0)


def _layout(course: Path | None) -> Layout:
    from cannlab.course import layout

    return layout.find(course)


def _lessons(found: Layout, names: list[str] | None) -> list[Lesson]:
    """The lessons of these names, or all that have files. CannlabError for an unknown name."""
    from cannlab.course.gates import missing_files

    if not names:
        every = found.course.lessons
        return [lesson for lesson in every if not lesson.later or not missing_files(found, lesson)]
    return [_lesson(found, name) for name in names]


def _lesson(found: Layout, name: str) -> Lesson:
    from difflib import get_close_matches

    from cannlab.errors import CannlabError, diagnose

    lesson = found.course.lesson(name.rpartition("/")[2])
    if lesson is None:
        close = get_close_matches(name, [known.id for known in found.course.lessons], 1, 0.5)
        near = f" Did you mean {close[0]}?" if close else ""
        raise CannlabError(diagnose("course.no_lesson", name=name, closest=near))
    return lesson


def _jobs(jobs: int) -> int:
    from cannlab.course.clients import default_jobs

    return jobs or default_jobs()


def _tell(problems: list[Problem], fine: str) -> None:
    """All problems and status 1, or one line that all is well."""
    from cannlab.course.problem import listing

    if problems:
        typer.echo(listing(problems))
        raise typer.Exit(1)
    typer.echo(fine)


@app.command()
def check(
    lessons: _LESSON = None,
    outputs: Annotated[
        bool, typer.Option("--outputs/--no-outputs", help="execute the notebooks and compare the stored outputs")
    ] = True,
    jobs: _JOBS = 0,
    course: _COURSE = None,
) -> None:
    """Every gate of these lessons, all mistakes at once. Ends with 0 if there are none, 1 if there are."""
    from cannlab.course import dev_check

    found = _layout(course)
    problems, names = dev_check.problems(found, lessons, _lessons, outputs=outputs, jobs=_jobs(jobs))
    _tell(problems, f"{', '.join(names) or 'no lesson'}: every gate holds")


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="for example intermediate/12_streams", metavar="LEVEL/NN_topic")],
    course: _COURSE = None,
) -> None:
    """Make the files of a new lesson and its entry in course.toml. Nothing that exists is overwritten."""
    from cannlab.course import new_lesson

    found = _layout(course)
    for path in new_lesson.make(found, name):
        typer.echo(f"  {found.shown(path)}")
    lesson = name.rpartition("/")[2]
    typer.echo(f"next: fill in every TODO, then: cannlab dev derive {lesson} && cannlab dev check {lesson}")


@app.command()
def derive(lessons: _LESSON = None, course: _COURSE = None) -> None:
    """Write the learners' workbooks from the solved ones."""
    from cannlab.course import author

    found = _layout(course)
    chosen = _lessons(found, lessons)
    problems = [problem for lesson in chosen for problem in author.derive(found, lesson)]
    _tell(problems, "\n".join(f"  {found.shown(found.exercise(lesson))}" for lesson in chosen))


@app.command()
def refresh(lessons: _LESSON = None, course: _COURSE = None) -> None:
    """Execute lessons and solved workbooks, store their outputs and say what changed."""
    from cannlab.course import author
    from cannlab.course.problem import listing

    found = _layout(course)
    chosen = _lessons(found, lessons)
    failed = False
    for lesson in chosen:
        changes = author.refresh(found, lesson)
        failed = failed or any(change.text.startswith("does not run") for change in changes)
        typer.echo(f"{lesson.id}: {listing(changes) if changes else 'nothing changed'}")
    if failed:
        raise typer.Exit(1)


@app.command("try")
def try_(
    exercise: Annotated[str, typer.Argument(help="LESSON.name", metavar="EXERCISE")],
    file: Annotated[Path | None, typer.Argument(help="a file with the cell's text; the solution by default")] = None,
    course: _COURSE = None,
) -> None:
    """Check one answer and show what a learner would see."""
    from cannlab.course import author

    if file is not None and not file.is_file():
        raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")
    raise typer.Exit(author.attempt(_layout(course), exercise, None if file is None else str(file)))


@app.command()
def mutate(
    names: Annotated[
        list[str] | None, typer.Argument(help="lessons or exercises; all by default", metavar="[LESSON|ID]...")
    ] = None,
    jobs: _JOBS = 0,
    course: _COURSE = None,
) -> None:
    """Put small mistakes into the solutions and list those that a check lets pass. Ends with 1 if there are any."""
    from cannlab.course import mutate as mutation
    from cannlab.course.clients import Clients

    found = _layout(course)
    exercises: list[str] = []
    for name in names or [lesson.id for lesson in _lessons(found, None)]:
        exercises += [name] if "." in name else [exercise.id for exercise in _lesson(found, name).exercises]
    with Clients(_jobs(jobs)) as clients:
        results = mutation.mutate(found, exercises, clients, _progress if sys.stderr.isatty() else None)
    typer.echo(mutation.report(results))
    if any(result.survivors or result.problems for result in results):
        raise typer.Exit(1)


def _progress(done: int, total: int) -> None:
    typer.echo(f"\r{done} of {total} mutants checked" + ("\n" if done == total else ""), err=True, nl=False)
