"""The author's loop: ``python -m cannlab.course.author derive|gates|refresh|outputs|try`` (docs/authoring.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cannlab.course import bundle, layout, notebook_file, outputs, workbook
from cannlab.course.client import client
from cannlab.course.gates import LessonGates, manifest_gate
from cannlab.course.layout import Layout
from cannlab.course.manifest import Lesson
from cannlab.course.problem import Problem, listing
from cannlab.errors import CannlabError


def derive(found: Layout, lesson: Lesson) -> list[Problem]:
    """Write the learner's workbook from the solved one."""
    path = found.solution(lesson)
    try:
        solved = notebook_file.read(path)
    except (OSError, ValueError) as problem:
        return [Problem(found.shown(path), "", str(problem))]
    notebook_file.write(workbook.derive(solved), found.exercise(lesson))
    return list(workbook.parse(solved, found.shown(path)).problems)


def gates(found: Layout, lesson: Lesson) -> list[Problem]:
    """Every gate but the outputs."""
    return LessonGates(found, lesson).all(client())


def refresh(found: Layout, lesson: Lesson) -> list[Problem]:
    """Execute lesson and solved workbook and store their outputs; says what changed."""
    pairs = [(path, found.shown(path)) for path in (found.notebook(lesson), found.solution(lesson))]
    return [problem for path, shown in pairs for problem in outputs.refresh(path, found.root, shown)]


def stored(found: Layout, lesson: Lesson) -> list[Problem]:
    """Lesson and solved workbook reproduce their stored outputs."""
    pairs = [(path, found.shown(path)) for path in (found.notebook(lesson), found.solution(lesson))]
    return [problem for path, shown in pairs for problem in outputs.output_gate(path, found.root, shown, timed=True)]


def attempt(found: Layout, exercise: str, file: str | None) -> int:
    """Check the solution, or the cell in a file."""
    loaded = bundle.load(found, exercise)
    source = loaded.part.solution if file is None else Path(file).read_text(encoding="utf-8")
    result = client().check(found.root, exercise, source)
    print(result.text())
    print("\n".join(f"  {name}: {state}" for name, state in result.layers.items()))
    return 0 if result.passed else 1


_ACTIONS = {"derive": derive, "gates": gates, "refresh": refresh, "outputs": stored}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; gives its exit status: 0 fine, 1 problems, 2 bad usage."""
    parser = argparse.ArgumentParser(prog="python -m cannlab.course.author", description=__doc__)
    parser.add_argument("action", choices=[*_ACTIONS, "try"])
    parser.add_argument("name", help="a lesson (NN_topic), 'all', or with 'try' an exercise (NN_topic.name)")
    parser.add_argument("file", nargs="?", help="with 'try': a file with the cell's text")
    parser.add_argument("--course", type=Path, help="the folder that holds course.toml")
    chosen = parser.parse_args(arguments)
    try:
        found = layout.find(chosen.course)
        if chosen.action == "try":
            return attempt(found, chosen.name, chosen.file)
        lessons = found.course.lessons if chosen.name == "all" else [found.course.lesson(chosen.name)]
        problems = list(manifest_gate(found)) if chosen.action == "gates" else []
        for lesson in lessons:
            if lesson is None:
                raise bundle.unknown(found, chosen.name)
            problems += _ACTIONS[chosen.action](found, lesson)
    except (CannlabError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    if problems and chosen.action == "refresh":
        print(f"changed: {listing(problems)}")
        return 0
    print(listing(problems) if problems else f"{chosen.action} {chosen.name}: nothing to report")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
