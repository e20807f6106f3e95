"""What a learner calls in a workbook: ``check("ID")``, ``hint("ID")``, ``given("ID")``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cannlab.errors import CannlabError

if TYPE_CHECKING:
    from cannlab.course.hints import Hint
    from cannlab.course.progress import Progress
    from cannlab.course.result import Result


try:
    _START: Path | None = Path.cwd()
except OSError:
    _START = None
"""Where a notebook's kernel started: os.chdir in a cell does not move a learner to another course folder."""


def _progress() -> tuple[Progress, str]:
    """The progress that this notebook counts in, and a remark if it is not that of the learner's own folder."""
    from cannlab.course.progress import Progress, outside

    ipython = sys.modules.get("IPython")
    start = _START if ipython is not None and ipython.get_ipython() is not None else None
    elsewhere = outside(start)
    remark = "" if elsewhere is None else f"{elsewhere.diagnosis.what} What is done here does not count there"
    return Progress.here(start), remark


def _player() -> Any:
    """The module that plays cases, if this is an answer's process."""
    player = sys.modules.get("cannlab.course.player")
    return player if player is not None and player.playing() else None


def _cells() -> list[tuple[int, str]]:
    """The cells that were run in this notebook, oldest first: (number, text as typed)."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return []
    history = getattr(shell.history_manager, "input_hist_raw", None) or shell.user_ns.get("In", [])
    return [(number, source) for number, source in enumerate(history) if source]


def check(exercise: str) -> Result | None:
    """Check the newest cell that was run and that begins with ``# exercise: ID``.

    Args:
        exercise: the id, as in the cell's first line.

    Returns:
        The Result; a notebook shows it. A mistake in the call itself (no such exercise) is a Result with its diagnosis
        too, never a traceback. Inside an answer's own process nothing is checked and None comes back.
    """
    if _player() is not None:
        return None
    from cannlab.course import checking
    from cannlab.course.answer import defined_elsewhere
    from cannlab.course.result import Result, Verdict
    from cannlab.course.workbook import exercise_named

    cells = _cells()
    own = [source for _, source in cells if exercise_named(source) == exercise]
    others = [(f"In [{number}]", source) for number, source in cells if exercise_named(source) != exercise]
    try:
        kept, remark = _progress()
        return checking.check(
            exercise,
            own[-1] if own else None,
            elsewhere=defined_elsewhere(others),
            notes=(remark,) if remark else (),
            progress=kept,
        )
    except CannlabError as problem:
        return Result(exercise, "", Verdict.ERROR, diagnosis=problem.diagnosis)


def hint(exercise: str) -> Hint | None:
    """Show the next hint of an exercise; if there is no such exercise, print why and give None."""
    if _player() is not None:
        return None
    from cannlab.course import hints

    try:
        return hints.next_hint(exercise, _progress()[0])
    except CannlabError as problem:
        print(problem.diagnosis.text(), file=sys.stderr)
        return None


def given(exercise: str) -> dict[str, Any]:
    """The inputs of an exercise's first case as this learner has them, by name.

    A file among them is written into the working folder, and its name is given, as in the check.

    Raises:
        CannlabError: there is no such exercise.
    """
    player = _player()
    if player is not None:
        inputs: dict[str, Any] = player.given(exercise)
        return inputs
    from cannlab.course import bundle, layout
    from cannlab.course.judge import Terms, draw_cases
    from cannlab.course.spec.check import File

    loaded = bundle.load(layout.find(), exercise)
    kept, remark = _progress()
    if remark:
        print(f"cannlab: {remark}: these may be other inputs than yours.", file=sys.stderr)
    terms = Terms(learner=kept.read().learner)
    drawn = draw_cases(loaded.check, loaded.exercise.kind, terms)[0].inputs
    for value in drawn.values():
        if isinstance(value, File):
            Path(value.name).write_bytes(value.data)
    return {name: value.name if isinstance(value, File) else value for name, value in drawn.items()}
