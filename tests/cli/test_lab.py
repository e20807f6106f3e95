"""``cannlab lab`` opens the learner's folder at the lesson that comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

from cannlab.cli import lab
from cannlab.course.progress import Progress


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Runs ``lab.run`` without JupyterLab; holds the command and the folder it would have used."""
    seen: dict[str, object] = {}

    class Server:
        def __init__(self, command: list[str]) -> None:
            seen["command"] = command

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(lab.subprocess, "Popen", Server)
    monkeypatch.chdir(tmp_path)
    return seen


def _page(seen: dict[str, object]) -> str:
    command = seen["command"]
    assert isinstance(command, list)
    return next((word.partition("/lab/tree/")[2] for word in command if "default_url" in word), "")


def test_the_first_time_a_copy_is_made_and_the_first_lesson_opens(started: dict[str, object], tmp_path: Path) -> None:
    assert lab.run(None, browser=False, port=None) == 0
    assert _page(started) == "notebooks/basic/01_stack.ipynb"
    assert (tmp_path / "cannlab-course" / _page(started)).is_file()


def test_the_next_lesson_opens_once_the_first_is_done(
    started: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.run(None, browser=False, port=None)
    folder = tmp_path / "cannlab-course"
    from cannlab.course.layout import find

    with Progress(folder).change() as state:
        for exercise in find().course.exercises():
            if exercise.lesson == "01_stack" and not exercise.stretch:
                state.entry(exercise.id).passed = True
    monkeypatch.chdir(folder)
    lab.run(None, browser=False, port=None)
    assert _page(started) == "notebooks/basic/02_acl_first.ipynb"


def test_a_folder_without_lessons_opens_as_it_is(started: dict[str, object], tmp_path: Path) -> None:
    lab.run(tmp_path, browser=False, port=None)
    assert _page(started) == ""
