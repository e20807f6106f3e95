"""``cannlab update``: answers and own cells follow the course, nothing is lost, doing it twice changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cannlab.cli import app, learn
from cannlab.course import notebook_file, workbook
from cannlab.course.layout import Layout
from cannlab.course.learner import Folder
from cannlab.course.update import merge, update

TINY = Path(__file__).parent / "fixtures" / "tiny"
PAD = "# exercise: 01_tiny.pad\ndef pad(data):\n    return data  # mine"
TOTAL = "# exercise: 01_tiny.total\ndef total(values):\n    return sum(values)  # mine"


@pytest.fixture
def course(copied: Layout, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course that a test may change."""
    monkeypatch.setenv("CANNLAB_COURSE", str(copied.root))
    return copied.root


@pytest.fixture
def mine(course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A learner's folder of the course's first version."""
    assert learn.main(["start", str(tmp_path / "mine")]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def _book(root: Path, kind: str = "exercises") -> Path:
    return root / kind / "basic" / "01_tiny.ipynb"


def _edit(path: Path, change: Callable[[Any], object]) -> None:
    notebook = notebook_file.read(path)
    change(notebook)
    notebook_file.write(notebook, path)


def _cell(notebook: Any, name: str) -> Any:
    return next(c for c in notebook.cells if workbook.exercise_named(c.source) == f"01_tiny.{name}")


def _answer(root: Path, name: str, source: str) -> None:
    _edit(_book(root), lambda n: _cell(n, name).update(source=source))


def _own(identifier: str, source: str, kind: str = "code") -> Any:
    extra = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return notebook_file.node({"cell_type": kind, "id": identifier, "metadata": {}, "source": source} | extra)


def _text(root: Path, kind: str = "exercises") -> list[str]:
    return [cell.source for cell in notebook_file.read(_book(root, kind)).cells]


def _everything(root: Path) -> dict[str, bytes]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and path.name != ".progress.lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def test_nothing_to_do_changes_nothing(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _answer(mine, "pad", PAD)
    _edit(_book(mine, "notebooks"), lambda n: n.cells[0].update(source="my own words"))
    before = _everything(mine)
    assert learn.main(["update"]) == 0
    assert _everything(mine) == before
    assert "2 notebooks are up to date" in capsys.readouterr().out


def test_answers_are_carried_into_the_new_version(course: Path, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _answer(mine, "pad", PAD)
    _answer(mine, "total", TOTAL)
    handed = _book(mine).read_bytes()

    def newer(notebook: Any) -> None:
        task = next(n for n, c in enumerate(notebook.cells) if c is _cell(notebook, "total")) - 1
        notebook.cells[task].source += "\n\nThe list may be empty."
        _cell(notebook, "bytes").source += "\n# new"

    _edit(_book(course), newer)
    assert learn.main(["update"]) == 0
    out = capsys.readouterr().out
    texts = _text(mine)
    assert PAD in texts
    assert TOTAL in texts
    assert any("The list may be empty." in text for text in texts)
    assert _cell(notebook_file.read(_book(mine)), "bytes").source.endswith("# new")
    assert "01_tiny.pad: your answer was carried over\n" in out
    assert "01_tiny.total: changed in the course; your answer was carried over" in out
    assert "01_tiny.bytes: changed in the course (you had not begun it)" in out
    assert "01_tiny.unit" not in out
    assert (mine / "backups" / "01_tiny.001.ipynb").read_bytes() == handed
    assert "exercises/basic/01_tiny.ipynb: updated (as it was: backups/01_tiny.001.ipynb)" in out
    assert notebook_file.read(_book(mine)).metadata.cannlab.learner  # it still says whose inputs it was solved with
    before = _everything(mine)
    assert learn.main(["update"]) == 0
    assert _everything(mine) == before


def test_added_and_removed_exercises(course: Path, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _answer(mine, "pad", PAD)
    _answer(mine, "total", TOTAL)

    def newer(notebook: Any) -> None:
        notebook.cells = [cell for cell in notebook.cells if cell is not _cell(notebook, "total")]
        cell = _cell(notebook, "unit")
        cell.source = "# exercise: 01_tiny.device\nanswer = '?'"

    _edit(_book(course), newer)
    assert learn.main(["update"]) == 0
    out = capsys.readouterr().out
    texts = _text(mine)
    assert PAD in texts
    assert texts[-1] == TOTAL
    assert "01_tiny.device: new" in out
    assert "01_tiny.total: not in the course any more; your answer is at the end of the workbook" in out
    assert "01_tiny.unit: not in the course any more\n" in out  # it was not begun: nothing to keep
    assert sum("unit" in text and text.startswith("# exercise") for text in texts) == 0
    # The next version keeps the answer where it is, once.
    _edit(_book(course), lambda n: n.cells[0].update(source=n.cells[0].source + "\n\nThird edition."))
    assert learn.main(["update"]) == 0
    assert _text(mine)[-1] == TOTAL
    assert _text(mine).count(TOTAL) == 1
    assert sum(text.startswith("Answers to exercises") for text in _text(mine)) == 1


def test_own_cells_stay_behind_their_cell_and_changed_ones_are_told(
    course: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def own(notebook: Any) -> None:
        at = notebook.cells.index(_cell(notebook, "bytes"))
        notebook.cells[at + 1 : at + 1] = [_own("one", "x = 1"), _own("two", "a note", "markdown")]
        notebook.cells.insert(0, _own("zero", "first of all", "markdown"))
        notebook.cells[1].source += "\nscribble"

    _edit(_book(mine), own)
    _edit(_book(course), lambda n: n.cells.insert(1, _own("intro", "A new introduction.", "markdown")))
    assert learn.main(["update"]) == 0
    out = capsys.readouterr().out
    texts = _text(mine)
    assert texts[0] == "first of all"
    at = next(n for n, text in enumerate(texts) if text.startswith("# exercise: 01_tiny.bytes"))
    assert texts[at + 1 : at + 3] == ["x = 1", "a note"]
    assert "A new introduction." in texts
    assert not any("scribble" in text for text in texts)
    assert "3 cells of your own carried over" in out
    assert "cell 2 of the course was changed by you" in out
    assert any("scribble" in c.source for c in notebook_file.read(mine / "backups/01_tiny.001.ipynb").cells)


def test_a_lesson_that_was_only_run_is_replaced_and_kept(course: Path, mine: Path) -> None:
    _edit(_book(course, "notebooks"), lambda n: n.cells[-1].update(source="## On real hardware\n\nNew."))
    assert learn.main(["update"]) == 0
    assert _book(mine, "notebooks").read_bytes() == _book(course, "notebooks").read_bytes()
    assert not (mine / "backups").exists()  # it held nothing of the learner's


def test_a_missing_notebook_is_copied_and_a_damaged_one_left_alone(
    course: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _book(mine, "notebooks").unlink()
    _book(mine).write_text("{", encoding="utf-8")
    assert learn.main(["update"]) == 1
    out = capsys.readouterr().out
    assert "notebooks/basic/01_tiny.ipynb: updated\n  new" in out
    assert "The workbook cannot be read" in out
    assert _book(mine).read_text(encoding="utf-8") == "{"


def test_a_lesson_that_moves_to_another_level_takes_its_answers_along(
    course: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _answer(mine, "pad", PAD)
    text = (course / "course.toml").read_text(encoding="utf-8")
    (course / "course.toml").write_text(text.replace('"basic"', '"advanced"'), encoding="utf-8")
    for kind in ("exercises", "notebooks", "solutions"):
        (course / kind / "basic").rename(course / kind / "advanced")
    assert learn.main(["update"]) == 0
    moved = notebook_file.read(mine / "exercises/advanced/01_tiny.ipynb")
    assert _cell(moved, "pad").source == PAD
    assert not _book(mine).exists()
    assert "moved here from exercises/basic/01_tiny.ipynb" in capsys.readouterr().out


def test_a_lesson_that_is_gone_is_left_as_it_is(course: Path, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (course / "course.toml").read_text(encoding="utf-8")
    (course / "course.toml").write_text(text.replace("01_tiny", "01_other"), encoding="utf-8")
    before = _book(mine).read_bytes()
    assert learn.main(["update"]) == 0
    assert "exercises/basic/01_tiny.ipynb: not in the course any more, left as it is" in capsys.readouterr().out
    assert _book(mine).read_bytes() == before


def test_without_the_first_version_answers_are_carried_and_all_is_kept(
    course: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that was made before first versions were kept, or one that was copied without its hidden folder."""
    shutil.rmtree(mine / ".given")
    _answer(mine, "pad", PAD)
    _edit(_book(mine), lambda n: n.cells.append(_own("mine", "y = 2")))
    handed = _book(mine).read_bytes()
    _edit(_book(course), lambda n: n.cells[0].update(source=n.cells[0].source + "\n\nSecond edition."))
    assert learn.main(["update"]) == 0
    assert PAD in _text(mine)
    assert (mine / "backups/01_tiny.001.ipynb").read_bytes() == handed
    assert "in the backup only" in capsys.readouterr().out


def test_an_interrupted_update_goes_on(course: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(mine, "pad", PAD)
    _edit(_book(mine), lambda n: n.cells.append(_own("mine", "y = 2")))
    _edit(_book(course), lambda n: n.cells[0].update(source=n.cells[0].source + "\n\nSecond edition."))
    write = notebook_file.write

    def stops(notebook: Any, path: Path) -> None:
        if ".given" in path.parts:
            raise KeyboardInterrupt
        write(notebook, path)

    monkeypatch.setattr(notebook_file, "write", stops)
    with pytest.raises(KeyboardInterrupt):
        update(Folder(mine, Layout(course)))
    monkeypatch.setattr(notebook_file, "write", write)
    assert learn.main(["update"]) == 0
    texts = _text(mine)
    assert (texts.count(PAD), texts.count("y = 2"), len(texts)) == (1, 1, len(_text(course)) + 1)
    assert not list(mine.rglob("*.part"))


def test_update_of_another_folder_and_of_none(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.call(["update", str(mine)]) == 0
    assert app.call(["update"]) == 0  # the only course folder in here
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    monkeypatch.chdir(empty)
    assert app.call(["update"]) != 0
    assert app.call(["update", str(empty)]) != 0
    assert "cannlab learn start" in capsys.readouterr().err


def test_merging_takes_the_last_of_two_cells() -> None:
    given = notebook_file.read(_book(TINY))
    own = notebook_file.read(_book(TINY))
    own.cells.append(_own("again", PAD))
    merged, notes = merge(given, given, own)
    assert _cell(merged, "pad").source == PAD
    assert any("of 2 cells the last was taken" in note for note in notes)
