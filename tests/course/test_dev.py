"""``cannlab dev``: all mistakes at once with file, exercise and line; new lessons; derive, refresh, try."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cannlab.cli import app
from cannlab.course import notebook_file, workbook
from cannlab.course.gates import LessonGates, manifest_gate
from cannlab.course.layout import Layout


def _dev(layout: Layout, *words: str) -> int:
    return app.call(["dev", *words, "--course", str(layout.root)])


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def _edit(path: Path, change: Callable[[Any], object]) -> None:
    notebook = notebook_file.read(path)
    change(notebook)
    notebook_file.write(notebook, path)


def test_check_of_a_sound_course_ends_with_0(tiny: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert _dev(tiny, "check", "--no-outputs") == 0
    assert capsys.readouterr().out == "01_tiny: every gate holds\n"


def test_check_names_everything_at_once_with_file_exercise_and_line(
    copied: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    lesson = copied.course.lessons[0]
    checks = copied.checks(lesson)
    _replace(checks, "gives(lambda values: values[-1])", "gives(lambda values: 0)")
    _replace(checks, '"f": "MTE2"', "")
    _edit(copied.notebook(lesson), lambda n: n.cells[-1].update(source="The end."))
    _edit(copied.exercise(lesson), lambda n: n.cells[0].update(source="# T\n\n5 minutes"))
    line = next(n for n, text in enumerate(checks.read_text().splitlines(), 1) if '"last_only"' in text)
    assert _dev(copied, "check", "01_tiny", "--no-outputs") == 1
    out = capsys.readouterr().out
    assert f"checks/c01_tiny.py: line {line} [01_tiny.total]: wrong answer last_only is not recognised" in out
    assert "[01_tiny.unit]: 4 misconceptions; at least 5" in out
    assert "notebooks/basic/01_tiny.ipynb: the last markdown cell" in out
    assert "exercises/basic/01_tiny.ipynb: is not derived" in out


def test_check_compares_stored_outputs(copied: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    def damage(notebook: Any) -> None:
        cell = next(c for c in notebook.cells if c.cell_type == "code" and c.outputs)
        cell.outputs[0].text = "something else\n"

    _edit(copied.notebook(copied.course.lessons[0]), damage)
    assert _dev(copied, "check", "01_tiny") == 1
    assert "stored 'something else'" in capsys.readouterr().out


def test_check_goes_on_with_a_broken_manifest(copied: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    _edit(copied.notebook(copied.course.lessons[0]), lambda n: n.cells[-1].update(source="The end."))
    _replace(copied.root / "course.toml", "points = 2", "point = 2")
    assert _dev(Layout(copied.root), "check", "--no-outputs") == 1
    out = capsys.readouterr().out
    assert "exercise 01_tiny.pad.point: is not known" in out
    assert "the last markdown cell" in out
    assert "no answer was run" in out


def test_an_unknown_lesson_is_named(tiny: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("check", "01_tyni"), ("derive", "01_tyni"), ("refresh", "01_tyni"), ("mutate", "01_tyni")):
        assert _dev(tiny, *words) == 1
        assert "Did you mean 01_tiny?" in capsys.readouterr().err


# -- new lessons -------------------------------------------------------------------------------------


def test_a_new_lesson_passes_every_gate_of_form_but_those_that_the_author_fills(
    copied: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _dev(copied, "new", "intermediate/12_two_streams") == 0
    assert "cannlab dev check 12_two_streams" in capsys.readouterr().out
    layout = Layout(copied.root)
    lesson = layout.course.lesson("12_two_streams")
    assert lesson is not None
    assert (lesson.title, lesson.level, lesson.minutes, lesson.prerequisites) == (
        "Two streams",
        "intermediate",
        60,
        ("01_tiny",),
    )
    assert manifest_gate(layout) == []
    problems = [str(problem) for problem in LessonGates(layout, lesson).forms()]
    assert len(problems) == 4
    assert all("0 misconceptions; at least 5" in problem for problem in problems)
    assert workbook.is_derived(layout.solution(lesson), layout.exercise(lesson))


def test_the_placeholder_of_a_new_lesson_runs_and_fails(copied: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    _dev(copied, "new", "basic/02_next")
    assert _dev(copied, "check", "02_next", "--no-outputs") == 1
    out = capsys.readouterr().out
    assert "the solution does not pass" in out
    assert "the placeholder does not run" not in out
    assert "the placeholder gives passed" not in out


def test_the_entry_stands_in_its_place_and_nothing_else_of_the_manifest_changes(copied: Layout) -> None:
    path = copied.root / "course.toml"
    path.write_text("# A comment.\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    old = path.read_text(encoding="utf-8")
    for name in ("advanced/30_last", "basic/02_next", "intermediate/10_middle", "basic/00_before"):
        assert _dev(Layout(copied.root), "new", name) == 0
    text = path.read_text(encoding="utf-8")
    ids = [lesson["id"] for lesson in tomllib.loads(text)["lesson"]]
    assert ids == ["00_before", "01_tiny", "02_next", "10_middle", "30_last"]
    assert all(line in text for line in old.splitlines())
    assert text.startswith("# A comment.\n")
    # The first lesson's prerequisites are nobody; the others name the lesson above them.
    course = Layout(copied.root).course
    assert [lesson.prerequisites for lesson in course.lessons] == [(), (), ("01_tiny",), ("02_next",), ("01_tiny",)]


@pytest.mark.parametrize(
    "name",
    ["01_tiny", "basic/01_tiny", "easy/02_x", "basic/2_x", "basic/02_Big", "basic/../02_x", "basic/02_x/y", "basic/"],
)
def test_names_that_cannot_be_used_change_nothing(
    copied: Layout, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    before = {path: path.read_bytes() for path in copied.root.rglob("*") if path.is_file()}
    assert _dev(copied, "new", name) == 1
    assert "No new lesson" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in copied.root.rglob("*") if path.is_file()} == before


def test_a_file_that_exists_is_not_overwritten(copied: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    stray = copied.root / "solutions" / "basic" / "02_next.ipynb"
    stray.write_text("mine", encoding="utf-8")
    assert _dev(copied, "new", "basic/02_next") == 1
    assert "solutions/basic/02_next.ipynb exists" in capsys.readouterr().err
    assert stray.read_text(encoding="utf-8") == "mine"
    assert not (copied.root / "notebooks" / "basic" / "02_next.ipynb").exists()
    assert "02_next" not in (copied.root / "course.toml").read_text(encoding="utf-8")


# -- what author does --------------------------------------------------------------------------------


def test_derive_writes_the_workbook(copied: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    lesson = copied.course.lessons[0]
    before = copied.exercise(lesson).read_bytes()
    copied.exercise(lesson).unlink()
    assert _dev(copied, "derive") == 0
    assert copied.exercise(lesson).read_bytes() == before
    assert "exercises/basic/01_tiny.ipynb" in capsys.readouterr().out


def test_refresh_says_what_changed_and_stores_it(copied: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    path = copied.notebook(copied.course.lessons[0])
    stored = path.read_bytes()
    cell = next(c for c in notebook_file.read(path).cells if c.cell_type == "code" and c.outputs)

    def damage(notebook: Any) -> None:
        next(c for c in notebook.cells if c.id == cell.id).outputs = []

    _edit(path, damage)
    assert _dev(copied, "refresh", "01_tiny") == 0
    assert "stored outputs: nothing" in capsys.readouterr().out
    assert path.read_bytes() == stored


def test_try_shows_what_a_learner_sees(tiny: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _dev(tiny, "try", "01_tiny.unit") == 0
    (tmp_path / "cell.py").write_text('answer = "a"', encoding="utf-8")
    assert _dev(tiny, "try", "01_tiny.unit", str(tmp_path / "cell.py")) == 1
    assert "MTE1 does not multiply" in capsys.readouterr().out
    assert _dev(tiny, "try", "01_tiny.unit", str(tmp_path / "none.py")) == 2
