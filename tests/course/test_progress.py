"""Progress: one readable file that two processes may change at once."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cannlab.course.progress import FILE, NOBODY, Progress, folder_of
from cannlab.errors import CannlabError

ROOT = Path(__file__).parents[2]
LOOP = """
import sys
from pathlib import Path
from cannlab.course.progress import Progress
progress = Progress(Path(sys.argv[1]))
for number in range(40):
    with progress.change() as state:
        state.entry(f"{sys.argv[2]}.{number}").attempts += 1
        state.entry("shared").attempts += 1
"""


def test_two_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(tmp_path), name], env=environment) for name in ("a", "b")
    ]
    assert [process.wait() for process in running] == [0, 0]
    state = Progress(tmp_path).read()
    assert state.entry("shared").attempts == 80
    assert len(state.exercises) == 81


def test_the_file_is_readable_and_whole(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    with progress.change() as state:
        state.entry("a.b").passed = True
    data = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    assert data["exercises"] == {"a.b": {"passed": True, "attempts": 0, "hints": 0}}
    assert data["learner"] == NOBODY
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_an_error_inside_a_change_changes_nothing(tmp_path: Path) -> None:
    progress = Progress(tmp_path)
    with progress.change() as state:
        state.entry("a.b")
    with contextlib.suppress(ZeroDivisionError), progress.change() as state:
        state.entry("a.c")
        state.exercises["a.c"].attempts = 1 // 0
    assert list(progress.read().exercises) == ["a.b"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"learner": "x"}', '{"learner": "x", "exercises": {"a": {"odd": 1}}}']
)
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(CannlabError) as caught, Progress(tmp_path).change():
        pass
    assert caught.value.diagnosis.rule == "course.progress_damaged"
    assert FILE in str(caught.value)
    assert (tmp_path / FILE).read_text(encoding="utf-8") == text


def test_the_nearest_folder_is_the_learners(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('{"learner": "x", "exercises": {}}', encoding="utf-8")
    inside = tmp_path / "exercises" / "basic"
    inside.mkdir(parents=True)
    assert folder_of(inside) == tmp_path.resolve()
    assert Progress.here().path == Path(os.environ["CANNLAB_HOME"]) / FILE
