"""``cannlab learn``: start, update, list, next, check, hint, reset, progress."""

from __future__ import annotations

import functools
import os
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cannlab.course.panel import overview
from cannlab.errors import CannlabError

if TYPE_CHECKING:
    from cannlab.course.layout import Layout
    from cannlab.course.learner import Folder
    from cannlab.course.manifest import Exercise, Lesson
    from cannlab.course.progress import Progress, State
    from cannlab.course.result import Result

app = typer.Typer(
    help="The course: copy it, see what is next, check answers.", no_args_is_help=True, add_completion=False
)

_Command = TypeVar("_Command", bound=Callable[..., None])
_NAME = Annotated[str, typer.Argument(help="LESSON.name, as in the cell's first line", metavar="EXERCISE")]


def _reported(command: _Command) -> _Command:
    """Show a mistake of the learner as its diagnosis, and end with status 2."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except CannlabError as problem:
            typer.echo(problem.diagnosis.text(), err=True)
            raise typer.Exit(2) from None

    return run  # type: ignore[return-value]


def main(arguments: Sequence[str]) -> int:
    """Run ``cannlab learn ARGUMENTS``; gives its exit status. Bad usage is raised as Typer's error."""
    return int(app(list(arguments), prog_name="cannlab learn", standalone_mode=False) or 0)


def _layout() -> Layout:
    from cannlab.course import layout

    return layout.find()


def _folder() -> Folder:
    from cannlab.course.learner import Folder

    return Folder.here(_layout())


def _progress() -> Progress:
    """The progress at the working directory. CannlabError (course.outside) if the learner's folder is elsewhere."""
    from cannlab.course.progress import Progress, outside

    elsewhere = outside()
    if elsewhere is not None:
        raise elsewhere
    return Progress.here()


def _state() -> State:
    return _progress().read()


def _shown(path: str) -> str:
    """A path in the learner's folder as it is typed from the working directory."""
    from cannlab.course.progress import folder_near

    root, here = folder_near(), Path.cwd().resolve()
    return path if root is None else os.path.relpath(root / path, here)


def _exercise(layout: Layout, name: str) -> tuple[Exercise, Lesson]:
    from cannlab.course import bundle

    exercise = layout.course.exercise(name)
    lesson = None if exercise is None else layout.course.lesson(exercise.lesson)
    if exercise is None or lesson is None:
        raise bundle.unknown(layout, name)
    return exercise, lesson


def _available(layout: Layout, lesson: Lesson) -> bool:
    return layout.exercise(lesson).is_file()


@app.command()
@_reported
def start(
    folder: Annotated[Path, typer.Argument(help="where your copy of the course goes", metavar="[DIR]")] = Path(
        "cannlab-course"
    ),
) -> None:
    """Copy the lessons and workbooks into a folder of yours. What is there already stays as it is."""
    from cannlab.course.learner import Folder

    started = Folder(folder.resolve(), _layout()).start()
    typer.echo(f"{len(started.made)} notebooks copied to {started.folder}")
    if started.kept:
        typer.echo(f"{len(started.kept)} were there already and were left as they are")
    typer.echo(f"next: cd {folder} && cannlab lab   (or: cannlab learn next)")


@app.command("list")
@_reported
def list_() -> None:
    """Show all lessons and exercises, and what you have passed."""
    layout, state = _layout(), _state()
    for lesson in layout.course.lessons:
        if lesson.later and not _available(layout, lesson):
            continue
        left = "" if _available(layout, lesson) else "  (not in this version yet)"
        done = f"{overview.done(lesson, state)} of {len(lesson.exercises)}" if lesson.exercises else ""
        typer.echo(f"{lesson.id:<20} {lesson.level:<13} {lesson.minutes:>3} min  {done:>7}  {lesson.title}{left}")
        for exercise in lesson.exercises:
            entry = state.exercises.get(exercise.id)
            mark = "+" if entry is not None and entry.passed else "." if entry is not None else " "
            stretch = "  (stretch)" if exercise.stretch else ""
            typer.echo(f"  {mark} {exercise.id:<34} {exercise.title}{stretch}")
    typer.echo("+ passed   . tried")
    coming = [lesson.id for lesson in layout.course.lessons if lesson.later and not _available(layout, lesson)]
    if coming:
        typer.echo(textwrap.fill(f"To come, not in this version: {', '.join(coming)}", 100, subsequent_indent="  "))


@app.command("next")
@_reported
def next_() -> None:
    """Say which exercise comes next and where it is."""
    layout, state = _layout(), _state()
    exercise = overview.following(layout, state)
    if exercise is not None:
        _, lesson = _exercise(layout, exercise.id)
        typer.echo(f"{exercise.id}  {exercise.title}")
        typer.echo(f"  lesson:   {_shown(f'notebooks/{lesson.level}/{lesson.id}.ipynb')}")
        typer.echo(f"  workbook: {_shown(f'exercises/{lesson.level}/{lesson.id}.ipynb')}")
        typer.echo(f"  then:     cannlab learn check {exercise.id}")
        return
    stretch = [
        exercise.id
        for lesson in layout.course.lessons
        if _available(layout, lesson)
        for exercise in lesson.exercises
        if exercise.stretch and not (exercise.id in state.exercises and state.exercises[exercise.id].passed)
    ]
    if stretch:
        word = "exercise" if len(stretch) == 1 else "exercises"
        typer.echo(f"All is passed but the stretch {word}: {', '.join(stretch)}")
        return
    typer.echo("Everything that this version holds is passed. See: cannlab learn list")


@app.command()
@_reported
def check(
    name: Annotated[str, typer.Argument(help="an exercise (LESSON.name) or a whole lesson", metavar="ID|LESSON")],
) -> None:
    """Check the answers in your workbook file. Ends with 0 if all pass, 1 if not, 2 if it could not be done."""

    folder = _folder()
    lesson = folder.layout.course.lesson(name)
    exercises: tuple[Exercise, ...]
    if lesson is None:
        exercise, lesson = _exercise(folder.layout, name)
        exercises = (exercise,)
    else:
        exercises = lesson.exercises
    results: list[Result] = []
    for exercise in exercises:
        if results:
            typer.echo()
        results.append(_check(folder, exercise, lesson))
        typer.echo(results[-1].text())
    if len(exercises) > 1:
        passed = sum(result.passed for result in results)
        typer.echo(f"\n{passed} of {len(results)} exercises of {lesson.id} pass")
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def _check(folder: Folder, exercise: Exercise, lesson: Lesson) -> Result:
    from cannlab.course import checking
    from cannlab.course.result import Result, Verdict

    try:
        answer = folder.answer(exercise, lesson)
    except CannlabError as problem:
        if problem.diagnosis.rule != "course.no_cell":
            raise
        # A deleted cell costs its exercise only.
        return Result(exercise.id, exercise.title, Verdict.FAILED, diagnosis=problem.diagnosis)
    return checking.check(
        exercise.id, answer.source, elsewhere=answer.elsewhere, notes=answer.notes, progress=folder.progress
    )


@app.command()
@_reported
def hint(exercise: _NAME) -> None:
    """Show the next hint of an exercise."""
    from cannlab.course import hints

    typer.echo(hints.next_hint(exercise, _progress()).text())


@app.command()
@_reported
def reset(
    exercise: _NAME,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Put one exercise cell back as it was given. Your workbook is kept in backups/ first."""
    folder = _folder()
    entry, lesson = _exercise(folder.layout, exercise)
    if not yes:
        typer.confirm(f"Replace your cell of {entry.id} by the one that was given?", abort=True)
    backup = folder.reset(entry, lesson)
    typer.echo(f"{entry.id} is as it was given; your workbook before that: {_shown(str(backup))}")
    typer.echo("If it is open in JupyterLab, reload it there: File, Reload Notebook from Disk")


@app.command()
@_reported
def update(
    folder: Annotated[Path | None, typer.Argument(help="your copy of the course", metavar="[DIR]")] = None,
) -> None:
    """Bring your copy to this version of the course. Your answers are carried over; nothing of yours is lost."""
    from cannlab.course import update as updating
    from cannlab.course.learner import Folder

    layout = _layout()
    mine = Folder.here(layout) if folder is None else Folder.at(folder.resolve(), layout)
    report = updating.update(mine)
    typer.echo(report.text())
    if report.problems:
        raise typer.Exit(1)


@app.command()
@_reported
def progress(
    export: Annotated[Path | None, typer.Option("--export", help="write your progress to this file")] = None,
    import_: Annotated[Path | None, typer.Option("--import", help="add the progress in this file to yours")] = None,
) -> None:
    """Show how far you are, and how many minutes are left."""
    from cannlab.course.manifest import Level
    from cannlab.course.progress import Progress

    if import_ is not None:
        _import(import_)
    layout, state = _layout(), _state()
    lessons = [lesson for lesson in layout.course.lessons if _available(layout, lesson)]
    for level in Level:
        own = [lesson for lesson in lessons if lesson.level is level]
        if own:
            _bar(level, own, state)
    _bar("all", lessons, state)
    tried = sum(entry.tries for entry in state.exercises.values())
    seen = sum(entry.hints for entry in state.exercises.values())
    counts = ((tried, "check"), (seen, "hint"))
    typer.echo(", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts))
    if export is not None:
        Progress.here().export(export)
        typer.echo(f"written to {export}; on the other machine: cannlab learn progress --import {export.name}")


def _import(file: Path) -> None:
    """Add a file's progress; a new folder becomes that learner's."""
    from cannlab.course.learner import Folder
    from cannlab.course.progress import NOBODY, Progress, folder_of, loads

    before = Progress.here().read().learner
    state, adopted = Progress.here().take(file)
    root = folder_of()
    if adopted and root is not None:
        Folder(root, _layout()).rename_learner(state.learner)
    elif loads(file.read_text(encoding="utf-8")).learner not in (before, NOBODY):
        typer.echo("note: that file is another learner's, so the numbers of predictions differ from yours")
    typer.echo(f"progress of {file} added")


def _bar(label: str, lessons: list[Lesson], state: State) -> None:
    total = sum(len(lesson.exercises) for lesson in lessons)
    done = sum(overview.done(lesson, state) for lesson in lessons)
    left = sum(overview.minutes_left(lesson, state) for lesson in lessons)
    filled = round(20 * done / total) if total else 0
    typer.echo(f"{label:<13} [{'#' * filled}{'.' * (20 - filled)}] {done} of {total} exercises, {left} minutes left")
