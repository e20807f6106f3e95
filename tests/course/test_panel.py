"""What the panel shows and does, without a browser (test_panel_browser.py has one)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cannlab.cli import learn
from cannlab.course import notebook_file, workbook
from cannlab.course.layout import Layout
from cannlab.course.panel.overview import hint_counts, overview
from cannlab.course.progress import Entry, Progress, State

TINY = Layout(Path(__file__).parent / "fixtures" / "tiny")
PAD = "# exercise: 01_tiny.pad\ndef pad(data):\n    return data"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CANNLAB_COURSE", str(TINY.root))
    assert learn.main(["start", str(tmp_path / "mine")]) == 0
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def _state(**entries: Entry) -> State:
    return State("me", {f"01_tiny.{name}": entry for name, entry in entries.items()})


def test_the_overview_says_what_is_done_what_is_next_and_how_long_it_takes() -> None:
    state = _state(pad=Entry(True, 2, 1), bytes=Entry(False, 1), unit=Entry(False, 0, 3))
    found = overview(TINY, state, Path("/somewhere"), hint_counts(TINY))
    assert (found["done"], found["total"], found["minutes"], found["next"]) == (1, 4, 4, "01_tiny.bytes")
    (lesson,) = found["lessons"]
    assert (lesson["done"], lesson["minutes"], lesson["level"]) == (1, 4, "basic")
    states = [(e["id"].partition(".")[2], e["state"], e["tries"], e["seen"]) for e in lesson["exercises"]]
    assert states == [
        ("pad", "passed", 2, 1),
        ("bytes", "tried", 1, 0),
        ("unit", "open", 0, 3),
        ("total", "open", 0, 0),
    ]
    assert lesson["exercises"][0]["hints"] == 2


def test_checks_made_in_another_folder_count_as_tried() -> None:
    found = overview(TINY, _state(pad=Entry(elsewhere={"x": 2})), None, {})
    assert found["lessons"][0]["exercises"][0]["state"] == "tried"
    assert found["folder"] == ""


def test_when_all_is_passed_nothing_is_next() -> None:
    state = _state(**{name: Entry(True, 1) for name in ("pad", "bytes", "unit", "total")})
    found = overview(TINY, state, None, {})
    assert (found["next"], found["minutes"], found["done"]) == (None, 0, 4)


def test_the_start_page_shows_the_panel_first_and_is_the_learners_then(folder: Path) -> None:
    page = notebook_file.read(folder / "start.ipynb")
    assert page.cells[0].source == "from cannlab import panel\n\npanel()"
    (folder / "start.ipynb").write_text("mine", encoding="utf-8")
    assert learn.main(["start", str(folder)]) == 0
    assert (folder / "start.ipynb").read_text(encoding="utf-8") == "mine"


# -- the widget's own side ---------------------------------------------------------------------------


class Sent(list[dict[str, Any]]):
    """What the panel sends to the browser."""


@pytest.fixture
def panel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    from cannlab import panel as show

    made = show()
    sent = Sent()
    monkeypatch.setattr(made, "send", lambda content, buffers=None: sent.append(content))
    made.sent = sent
    return made


def _exercise(panel: Any, name: str) -> dict[str, Any]:
    return next(e for e in panel.state["lessons"][0]["exercises"] if e["id"] == f"01_tiny.{name}")


def test_a_hint_is_sent_as_html_and_counts(panel: Any) -> None:
    panel._message(panel, {"kind": "hint", "exercise": "01_tiny.pad"}, [])
    (answer,) = panel.sent
    assert (answer["kind"], answer["exercise"], answer["title"]) == (
        "hint",
        "01_tiny.pad",
        "Hint 1 of 2 for 01_tiny.pad",
    )
    assert answer["html"].startswith("<p>")
    assert _exercise(panel, "pad")["seen"] == 1


def test_a_reset_puts_the_cell_back_and_names_the_backup(panel: Any, folder: Path) -> None:
    book = folder / "exercises/basic/01_tiny.ipynb"
    notebook = notebook_file.read(book)
    cell = next(c for c in notebook.cells if workbook.exercise_named(c.source) == "01_tiny.pad")
    given, cell.source = cell.source, PAD
    notebook_file.write(notebook, book)
    with Progress(folder).change() as state:
        state.exercises["01_tiny.pad"] = Entry(True, 3)
    panel.refresh()
    assert _exercise(panel, "pad")["state"] == "passed"
    panel._message(panel, {"kind": "reset", "exercise": "01_tiny.pad"}, [])
    (answer,) = panel.sent
    assert answer["kind"] == "done"
    assert "backups/01_tiny.001.ipynb" in answer["text"]
    assert _exercise(panel, "pad")["state"] == "open"
    now = notebook_file.read(book)
    assert next(c for c in now.cells if workbook.exercise_named(c.source) == "01_tiny.pad").source == given


def test_a_request_that_cannot_be_met_is_told_and_changes_nothing(panel: Any, folder: Path) -> None:
    before = (folder / "progress.json").read_bytes()
    for kind in ("hint", "reset"):
        panel._message(panel, {"kind": kind, "exercise": "01_tiny.none"}, [])
    panel._message(panel, {"kind": "format", "exercise": "01_tiny.pad"}, [])
    assert [answer["kind"] for answer in panel.sent] == ["problem", "problem"]
    assert "no exercise" in panel.sent[0]["text"]
    assert (folder / "progress.json").read_bytes() == before


def test_the_panel_follows_the_progress_file(panel: Any, folder: Path) -> None:
    with Progress(folder).change() as state:
        state.entry("01_tiny.unit").passed = True
    panel.refresh()
    assert panel.state["done"] == 1
    (folder / "progress.json").write_text("{", encoding="utf-8")
    panel.refresh()
    assert panel.state["done"] == 1
    assert "1 of 4 exercises" in repr(panel)


def test_the_panel_costs_nothing_until_it_is_shown() -> None:
    code = "import sys, cannlab, cannlab.cli.learn; print([n for n in ('anywidget', 'ipywidgets') if n in sys.modules])"
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
