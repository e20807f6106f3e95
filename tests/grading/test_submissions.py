"""The folder of submissions: arrangements, links, strange names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trivial

from cannlab.course.grading import submissions
from cannlab.course.grading.submissions import Arrangement, report_name
from cannlab.course.layout import Layout
from cannlab.errors import CannlabError

BOOK = trivial.workbook({}, 1)


def test_one_folder_per_learner(tmp_path: Path) -> None:
    trivial.hand_in(tmp_path, "b", BOOK)
    trivial.hand_in(tmp_path, "a", BOOK, "exercises/basic/01_trivial.ipynb")
    trivial.hand_in(tmp_path, "a", BOOK, "exercises/.ipynb_checkpoints/01_trivial-checkpoint.ipynb")
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "loose.ipynb").write_text("{}")
    found = submissions.read(tmp_path)
    assert found.arrangement is Arrangement.FOLDERS
    assert [each.learner for each in found.all] == ["a", "b"]
    assert [each.name for each in found.all[0].notebooks] == ["exercises/basic/01_trivial.ipynb"]
    assert found.strays == ("loose.ipynb",)


def test_nbgraders_layouts(tmp_path: Path) -> None:
    path = trivial.hand_in(tmp_path / "course" / "submitted", "ann", BOOK, "ps1/01_trivial.ipynb")
    (path.parent / "timestamp.txt").write_text("2026-11-30 12:00:00 UTC\n")
    (tmp_path / "course" / "nbgrader_config.py").write_text("c = get_config()")
    for folder in (tmp_path / "course", tmp_path / "course" / "submitted"):
        found = submissions.read(folder)
        assert found.arrangement is Arrangement.NBGRADER
        assert [each.learner for each in found.all] == ["ann"]
        assert found.all[0].timestamp("ps1/01_trivial.ipynb") == "2026-11-30 12:00:00 UTC"


def test_submitted_alone_is_nbgraders_and_a_learner_of_that_name_stays_one(tmp_path: Path) -> None:
    trivial.hand_in(tmp_path / "copied" / "submitted", "ann", BOOK, "ps1/01_trivial.ipynb")
    trivial.hand_in(tmp_path / "copied" / "submitted", "bob", BOOK, "ps1/01_trivial.ipynb")
    (tmp_path / "copied" / ".cache").mkdir()
    found = submissions.read(tmp_path / "copied")
    assert (found.arrangement, [each.learner for each in found.all]) == (Arrangement.NBGRADER, ["ann", "bob"])
    trivial.hand_in(tmp_path / "one", "submitted", BOOK)
    assert [each.learner for each in submissions.read(tmp_path / "one").all] == ["submitted"]
    trivial.hand_in(tmp_path / "class", "submitted", BOOK, "exercises/01_trivial.ipynb")
    trivial.hand_in(tmp_path / "class", "zoe", BOOK)
    assert [each.learner for each in submissions.read(tmp_path / "class").all] == ["submitted", "zoe"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    trivial.hand_in(tmp_path / "subs", "good", BOOK)
    trivial.hand_in(tmp_path / "subs", "thief", BOOK, "own.ipynb")
    thief = tmp_path / "subs" / "thief"
    (thief / "taken.ipynb").symlink_to(tmp_path / "subs" / "good" / "01_trivial.ipynb")
    (thief / "folder").symlink_to(tmp_path / "subs" / "good")
    (tmp_path / "subs" / "linked").symlink_to(tmp_path / "subs" / "good")
    os.mkfifo(thief / "pipe.ipynb")
    found = submissions.read(tmp_path / "subs")
    names = {each.learner: [item.name for item in each.notebooks] for each in found.all}
    assert names == {"good": ["01_trivial.ipynb"], "thief": ["own.ipynb"]}
    assert len(found.all[1].notes) == 3
    assert found.strays == ("linked",)


def test_strange_names_get_reports_of_their_own(tmp_path: Path) -> None:
    names = ["Ann", "ann", "a:b", "a?b", "x" * 250, "..ok", "dots.", "\u00e4 \u00f6", "new\nline"]
    taken: set[str] = set()
    stems = [report_name(name, taken) for name in names]
    assert stems[0] == "Ann"
    assert stems[7] == "\u00e4 \u00f6"
    assert len({stem.casefold() for stem in stems}) == len(names)
    assert all(len(stem.encode()) <= 140 and not set('<>:"/\\|?*\n') & set(stem) for stem in stems)
    for name in names:
        (tmp_path / name).mkdir(exist_ok=True)
    bad = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(bad)
    learners = [each.learner for each in submissions.read(tmp_path).all]
    assert "\\xff\\xfe" in learners
    assert "new\\nline" in learners
    assert "..ok" not in learners  # hidden


def test_an_empty_or_missing_folder_is_said(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "no"):
        with pytest.raises(CannlabError) as error:
            submissions.read(folder)
        assert error.value.diagnosis.rule == "grading.no_submissions"


def test_lessons_are_known_by_cells_and_by_file_names(course: Path, tmp_path: Path) -> None:
    layout = Layout(course)
    trivial.hand_in(tmp_path / "a", "x", BOOK, "my homework.ipynb")
    assert submissions.lessons_handed_in(submissions.read(tmp_path / "a"), layout.course) == ("01_trivial",)
    trivial.hand_in(tmp_path / "b", "x", b"not json", "01_trivial.ipynb")
    assert submissions.lessons_handed_in(submissions.read(tmp_path / "b"), layout.course) == ("01_trivial",)
    trivial.hand_in(tmp_path / "c", "x", trivial.notebook([trivial.cell("code", "x = 1")]), "other.ipynb")
    assert submissions.lessons_handed_in(submissions.read(tmp_path / "c"), layout.course) == ()
