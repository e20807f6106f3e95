"""The learner's folder and ``cannlab learn``: copied, never overwritten, reset one cell at a time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cannlab.cli import learn
from cannlab.course import notebook_file, workbook
from cannlab.course.layout import Layout
from cannlab.course.learner import Folder
from cannlab.course.progress import Progress

TINY = Path(__file__).parent / "fixtures" / "tiny"
PAD = (
    "# exercise: 01_tiny.pad\ndef pad(data):\n"
    "    return np.concatenate([data, np.zeros(-len(data) % BLOCK, data.dtype)])"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A started learner's folder that is the working directory."""
    monkeypatch.setenv("CANNLAB_COURSE", str(TINY))
    assert learn.main(["start", str(tmp_path / "mine")]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def _book(folder: Path) -> Path:
    return folder / "exercises" / "basic" / "01_tiny.ipynb"


def _edit(folder: Path, name: str, source: str) -> None:
    notebook = notebook_file.read(_book(folder))
    cell = next(cell for cell in notebook.cells if workbook.exercise_named(cell.source) == f"01_tiny.{name}")
    cell.source = source
    notebook_file.write(notebook, _book(folder))


def _sources(folder: Path) -> list[str]:
    return [cell.source for cell in notebook_file.read(_book(folder)).cells]


def test_start_copies_lessons_and_workbooks(folder: Path) -> None:
    lesson = Layout(TINY).course.lessons[0]
    assert (folder / "notebooks/basic/01_tiny.ipynb").read_bytes() == Layout(TINY).notebook(lesson).read_bytes()
    own, given = notebook_file.read(_book(folder)), notebook_file.read(Layout(TINY).exercise(lesson))
    assert own.cells == given.cells
    learner = json.loads((folder / "progress.json").read_text())["learner"]
    assert own.metadata.cannlab.learner == learner
    assert len(learner) == 16


def test_starting_again_changes_nothing_of_the_learners(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _edit(folder, "pad", PAD)
    before = _book(folder).read_bytes(), (folder / "progress.json").read_bytes()
    assert learn.main(["start", str(folder)]) == 0
    assert (_book(folder).read_bytes(), (folder / "progress.json").read_bytes()) == before
    assert "2 were there already" in capsys.readouterr().out


def test_start_says_why_a_folder_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANNLAB_COURSE", str(TINY))
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert learn.main(["start", str(tmp_path / "file")]) == 2
    assert (tmp_path / "file").read_text(encoding="utf-8") == "x"


def test_check_passes_and_progress_counts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learn.main(["check", "01_tiny.pad"]) == 1
    assert "Not started" in capsys.readouterr().out
    _edit(folder, "pad", PAD)
    assert learn.main(["check", "01_tiny.pad"]) == 0
    out = capsys.readouterr().out
    assert "PASSED  01_tiny.pad" in out
    assert "multiple of 8" in out
    learn.main(["progress"])
    assert "1 of 4 exercises, 4 minutes left" in capsys.readouterr().out
    learn.main(["next"])
    assert capsys.readouterr().out.startswith("01_tiny.bytes")
    learn.main(["list"])
    assert "+ 01_tiny.pad" in capsys.readouterr().out


def test_a_whole_lesson_is_checked_and_a_deleted_cell_costs_itself(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _edit(folder, "pad", PAD)
    _edit(folder, "unit", "# not an exercise any more")
    assert learn.main(["check", "01_tiny"]) == 1
    out = capsys.readouterr().out
    assert "1 of 4 exercises of 01_tiny pass" in out
    assert "The exercise cell is gone" in out


def test_hints_come_one_after_the_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for expected in ("Hint 1 of 2", "Hint 2 of 2", "Hint 1 of 2"):
        assert learn.main(["hint", "01_tiny.pad"]) == 0
        assert capsys.readouterr().out.startswith(expected)


def test_reset_puts_back_one_cell_and_keeps_a_backup(folder: Path) -> None:
    original = _sources(folder)
    _edit(folder, "pad", PAD)
    _edit(folder, "unit", '# exercise: 01_tiny.unit\nanswer = "a"')
    edited = _book(folder).read_bytes()
    assert learn.main(["reset", "01_tiny.pad", "--yes"]) == 0
    after = _sources(folder)
    assert after != original
    assert [a for a, b in zip(after, original, strict=True) if a != b] == ['# exercise: 01_tiny.unit\nanswer = "a"']
    assert (folder / "backups" / "01_tiny.001.ipynb").read_bytes() == edited
    learn.main(["reset", "01_tiny.pad", "--yes"])
    assert (folder / "backups" / "01_tiny.002.ipynb").exists()


def test_reset_restores_a_deleted_cell_in_its_place(folder: Path) -> None:
    original = _sources(folder)
    notebook = notebook_file.read(_book(folder))
    notebook.cells = [cell for cell in notebook.cells if workbook.exercise_named(cell.source) != "01_tiny.unit"]
    notebook_file.write(notebook, _book(folder))
    assert learn.main(["reset", "01_tiny.unit", "--yes"]) == 0
    assert _sources(folder) == original


def test_reset_asks_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    _edit(folder, "pad", PAD)
    monkeypatch.setattr(typer, "confirm", lambda *_a, **_k: (_ for _ in ()).throw(typer.Abort()))
    with pytest.raises(typer.Abort):
        learn.main(["reset", "01_tiny.pad"])
    assert PAD in _sources(folder)


def _duplicate(notebook: Any) -> None:
    cell = notebook.cells[3]
    assert workbook.exercise_named(cell.source) == "01_tiny.pad"
    notebook.cells.append(notebook_file.node({**cell, "source": PAD, "id": "copy"}))


def test_of_two_cells_the_last_counts_and_that_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = notebook_file.read(_book(folder))
    _duplicate(notebook)
    notebook_file.write(notebook, _book(folder))
    assert learn.main(["check", "01_tiny.pad"]) == 0
    assert "the last one counts" in capsys.readouterr().out


def test_names_of_other_cells_are_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = notebook_file.read(_book(folder))
    extra = {"cell_type": "code", "source": "def helper(x):\n    return x", "id": "mine", "metadata": {}}
    notebook.cells.insert(2, notebook_file.node(extra | {"outputs": [], "execution_count": None}))
    notebook_file.write(notebook, _book(folder))
    _edit(folder, "pad", "# exercise: 01_tiny.pad\ndef pad(data):\n    return helper(data)")
    learn.main(["check", "01_tiny.pad"])
    assert "'helper' is defined only in another of your cells (cell 3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda book: book.write_text("{", encoding="utf-8"), "The workbook cannot be read"),
        (lambda book: book.unlink(), "No workbook here"),
    ],
)
def test_a_damaged_or_missing_workbook_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], damage: Any, message: str
) -> None:
    damage(_book(folder))
    assert learn.main(["check", "01_tiny.pad"]) == 2
    assert message in capsys.readouterr().err


def test_windows_line_ends_and_a_byte_order_mark_do_not_matter(folder: Path) -> None:
    _edit(folder, "pad", PAD.replace("\n", "\r\n"))
    _book(folder).write_text("\ufeff" + _book(folder).read_text(encoding="utf-8"), encoding="utf-8")
    assert learn.main(["check", "01_tiny.pad"]) == 0


def test_unknown_names_and_other_folders_end_with_2(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn.main(["check", "01_tiny.pda"]) == 2
    assert "Did you mean 01_tiny.pad?" in capsys.readouterr().err
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("CANNLAB_HOME", str(tmp_path / "another home"))
    assert learn.main(["check", "01_tiny.pad"]) == 2
    assert "cannlab learn start" in capsys.readouterr().err


def test_open_stretch_exercises_are_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    course = tmp_path / "stretched"
    shutil.copytree(TINY, course)
    manifest = (course / "course.toml").read_text(encoding="utf-8")
    (course / "course.toml").write_text(manifest.replace('kind = "repair"', 'kind = "repair"\nstretch = true'), "utf-8")
    monkeypatch.setenv("CANNLAB_COURSE", str(course))
    with Progress(folder).change() as state:
        for name in ("pad", "bytes", "unit"):
            state.entry(f"01_tiny.{name}").passed = True
    capsys.readouterr()
    learn.main(["next"])
    assert capsys.readouterr().out == "All is passed but the stretch exercise: 01_tiny.total\n"


def test_above_the_course_folder_its_progress_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _edit(folder, "pad", PAD)
    monkeypatch.chdir(folder.parent)
    assert learn.main(["check", "01_tiny.pad"]) == 0
    learn.main(["hint", "01_tiny.bytes"])
    capsys.readouterr()
    learn.main(["progress"])
    out = capsys.readouterr().out
    assert "1 of 4 exercises" in out
    assert "1 check, 1 hint" in out
    learn.main(["next"])
    assert "workbook: mine/exercises/basic/01_tiny.ipynb" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["list"], ["next"], ["progress"], ["check", "01_tiny.pad"], ["hint", "01_tiny.pad"]])
def test_elsewhere_the_course_folder_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    capsys.readouterr()
    assert learn.main(words) == 2
    err = capsys.readouterr().err
    assert "You are not in your course folder" in err
    assert f"cd {folder}" in err


def test_of_two_course_folders_the_usual_name_wins_and_others_are_asked_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learn.main(["start", str(tmp_path / "second")])
    monkeypatch.chdir(tmp_path)
    assert learn.main(["next"]) == 2
    assert "mine or second" in capsys.readouterr().err
    learn.main(["start", str(tmp_path / "cannlab-course")])
    assert learn.main(["next"]) == 0
    assert "cannlab-course/exercises" in capsys.readouterr().out


def test_the_answer_of_the_file_is_read_only(folder: Path) -> None:
    before = _book(folder).read_bytes()
    layout = Layout(TINY)
    lesson = layout.course.lessons[0]
    answer = Folder(folder, layout).answer(lesson.exercises[0], lesson)
    assert workbook.exercise_named(answer.source) == "01_tiny.pad"
    assert _book(folder).read_bytes() == before
