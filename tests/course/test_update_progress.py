"""Progress that goes to another machine: the best of both, checks added up once, never lowered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cannlab.cli import learn
from cannlab.course import notebook_file
from cannlab.course.progress import Entry, Progress, State, dumps, loads

TINY = Path(__file__).parent / "fixtures" / "tiny"


def _state(folder: str, **entries: Entry) -> State:
    return State("me", dict(entries), folder)


def test_the_best_result_wins_and_checks_add_up() -> None:
    here = _state("here", a=Entry(True, 3, 1), b=Entry(False, 2, 2))
    here.take(_state("there", a=Entry(False, 4, 2), b=Entry(True, 1, 0), c=Entry(True, 1, 1)))
    assert here.exercises["a"].passed
    assert (here.exercises["a"].tries, here.exercises["a"].hints) == (7, 2)
    assert here.exercises["b"].passed
    assert (here.exercises["b"].tries, here.exercises["c"].tries) == (3, 1)


def test_taking_the_same_twice_or_back_again_counts_once() -> None:
    here, there = _state("here", a=Entry(False, 3)), _state("there", a=Entry(False, 4))
    here.take(there)
    once = dumps(here)
    here.take(there)
    assert dumps(here) == once
    there.take(here)
    there.exercises["a"].attempts += 1
    here.take(there)
    assert (here.exercises["a"].tries, there.exercises["a"].tries) == (8, 8)


ENTRIES = st.builds(
    Entry,
    st.booleans(),
    st.integers(0, 9),
    st.integers(0, 9),
    st.dictionaries(st.sampled_from("pqr"), st.integers(0, 9)),
)
STATES = st.builds(
    State, st.just("me"), st.dictionaries(st.sampled_from("abc"), ENTRIES), st.sampled_from(["p", "q", "r"])
)


@settings(max_examples=200, deadline=None)
@given(STATES, STATES)
def test_nothing_is_ever_lowered(here: State, there: State) -> None:
    before, theirs = loads(dumps(here)), loads(dumps(there))
    here.take(there)
    again = dumps(here)
    here.take(there)
    assert dumps(here) == again
    for other in (before, theirs):
        for name, entry in other.exercises.items():
            now = here.exercises[name]
            assert now.passed >= entry.passed
            assert now.hints >= entry.hints
            if other is before:
                assert now.tries >= entry.tries


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("CANNLAB_COURSE", str(TINY))
    for name in ("one", "two"):
        assert learn.main(["start", str(tmp_path / name)]) == 0
    return tmp_path / "one", tmp_path / "two"


def _learner(folder: Path) -> str:
    return Progress(folder).read().learner


def test_export_and_import(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = folders
    with Progress(one).change() as state:
        state.exercises["01_tiny.pad"] = Entry(True, 5, 1)
    monkeypatch.chdir(one)
    assert learn.main(["progress", "--export", "out.json"]) == 0
    assert json.loads((one / "out.json").read_text())["exercises"]["01_tiny.pad"]["passed"] is True
    monkeypatch.chdir(two)
    capsys.readouterr()
    assert _learner(two) != _learner(one)
    assert learn.main(["progress", "--import", str(one / "out.json")]) == 0
    out = capsys.readouterr().out
    assert "1 of 4 exercises" in out
    assert "5 checks, 1 hint" in out
    # An unused folder becomes the learner's: the answers to predictions depend on who asks.
    assert _learner(two) == _learner(one)
    book = notebook_file.read(two / "exercises/basic/01_tiny.ipynb")
    assert book.metadata.cannlab.learner == _learner(one)
    assert learn.main(["progress", "--import", str(one / "out.json")]) == 0
    assert "5 checks, 1 hint" in capsys.readouterr().out


def test_a_folder_in_use_keeps_its_learner_and_says_so(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = folders
    own = _learner(two)
    with Progress(two).change() as state:
        state.entry("01_tiny.unit").attempts = 1
    monkeypatch.chdir(two)
    assert learn.main(["progress", "--import", str(one / "progress.json")]) == 0
    assert _learner(two) == own
    assert "another learner's" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        None,
        "{",
        "[]",
        '{"learner": "x"}',
        '{"learner": "x", "exercises": {"a": {"passed": 1}}}',
        '{"learner": "x", "exercises": {"a": {"attempts": -1}}}',
        '{"learner": "x", "exercises": {"a": {"attempts": "many"}}}',
        '{"learner": "x", "exercises": {"a": {"points": 3}}}',
    ],
)
def test_what_is_no_progress_is_refused_and_changes_nothing(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    one, _ = folders
    monkeypatch.chdir(one)
    if text is not None:
        Path("in.json").write_text(text, encoding="utf-8")
    before = Path("progress.json").read_bytes()
    assert learn.main(["progress", "--import", "in.json"]) == 2
    assert "No progress in this file" in capsys.readouterr().err
    assert Path("progress.json").read_bytes() == before


def test_an_export_that_cannot_be_written_says_so(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folders[0])
    assert learn.main(["progress", "--export", "no/such/folder.json"]) == 2
    assert "Progress not written" in capsys.readouterr().err
