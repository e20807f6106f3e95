"""Each gate can fail, and says where and why."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cannlab.course import author, notebook_file, workbook
from cannlab.course.client import Client
from cannlab.course.gates import LessonGates, manifest_gate, missing_files
from cannlab.course.layout import Layout


def _problems(layout: Layout, *gates: str) -> list[str]:
    found = LessonGates(layout, layout.course.lessons[0])
    return [str(problem) for problem in [*found.broken, *(p for name in gates for p in getattr(found, name)())]]


def _edit(path: Path, change: Callable[[Any], object]) -> None:
    notebook = notebook_file.read(path)
    change(notebook)
    notebook_file.write(notebook, path)


def _cell(notebook: Any, identifier: str) -> Any:
    return next(cell for cell in notebook.cells if cell.id == identifier)


def _solution(layout: Layout, change: Callable[[Any], object]) -> None:
    """Change the solved workbook and derive the learner's again."""
    lesson = layout.course.lessons[0]
    _edit(layout.solution(lesson), change)
    solved = notebook_file.read(layout.solution(lesson))
    notebook_file.write(workbook.derive(solved), layout.exercise(lesson))


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_tiny_course_passes_every_gate(tiny: Layout, client: Client) -> None:
    assert manifest_gate(tiny) == []
    assert missing_files(tiny, tiny.course.lessons[0]) == []
    assert [str(p) for p in LessonGates(tiny, tiny.course.lessons[0]).all(client)] == []


def test_missing_and_unreadable_files_are_named_all_at_once(copied: Layout) -> None:
    lesson = copied.course.lessons[0]
    copied.notebook(lesson).write_text("{", encoding="utf-8")
    copied.exercise(lesson).unlink()
    _replace(copied.checks(lesson), "CHECKS = [", "1 / 0\nCHECKS = [")
    found = _problems(copied)
    assert len(found) == 3
    assert any("cannot be read" in text for text in found)
    assert any("is missing" in text for text in found)
    assert any("cannot be loaded: line " in text and "ZeroDivisionError" in text for text in found)


def test_files_that_no_lesson_names(copied: Layout) -> None:
    (copied.root / "notebooks" / "basic" / "99_stray.ipynb").write_text("{}", encoding="utf-8")
    (copied.root / "checks" / "c99_stray.py").write_text("", encoding="utf-8")
    assert len(manifest_gate(copied)) == 2


def test_the_learners_workbook_must_be_the_derived_one(copied: Layout) -> None:
    path = copied.exercise(copied.course.lessons[0])
    path.write_bytes(path.read_bytes() + b"\n")
    (found,) = _problems(copied, "derived")
    assert "author derive 01_tiny" in found


def test_a_leaked_line_is_found_with_its_cell(copied: Layout) -> None:
    line = "return np.concatenate([data, np.zeros(-len(data) % BLOCK, data.dtype)])"
    _solution(copied, lambda n: _cell(n, "pad-task").update(source=f"Do it:\n\n    {line}"))
    (found,) = _problems(copied, "leaks")
    assert "cell 3 [01_tiny.pad]" in found
    assert line in found


@pytest.mark.parametrize(
    ("cell", "source", "text"),
    [
        ("hello", "%bash ls", "unknown magic %bash"),
        ("hello", "%%timeit\nx = 1", "unknown magic %timeit"),
        ("hello", "!rm -rf x", "!rm: only"),
        ("hello", "x = !ls", "!ls: only"),
        ("hello", "print?", "unknown magic %pinfo"),
    ],
)
def test_unknown_magics_and_commands(copied: Layout, cell: str, source: str, text: str) -> None:
    _edit(copied.notebook(copied.course.lessons[0]), lambda n: _cell(n, cell).update(source=source))
    (found,) = _problems(copied, "cells")
    assert text in found
    assert "cell 2" in found


def test_known_magics_pass(copied: Layout) -> None:
    source = "%load_ext cannlab\n%matplotlib inline\n!atc --help\n!npu-smi info"
    _edit(copied.notebook(copied.course.lessons[0]), lambda n: _cell(n, "hello").update(source=source))
    assert _problems(copied, "cells") == []


def test_tags_and_kernel_of_a_lesson(copied: Layout) -> None:
    def damage(notebook: Any) -> None:
        _cell(notebook, "hello").metadata["tags"] = ["solution", "raises-exception"]
        notebook.metadata.kernelspec.name = "ir"

    _edit(copied.notebook(copied.course.lessons[0]), damage)
    found = _problems(copied, "cells")
    assert len(found) == 2
    assert any("unknown tag 'solution'" in text for text in found)
    assert any("python3" in text for text in found)


def test_minutes_prerequisites_and_the_last_section(copied: Layout) -> None:
    def damage(notebook: Any) -> None:
        notebook.cells[0].source = "# T\n\n5 minutes"
        notebook.cells[-1].source = "The end."

    lesson = copied.course.lessons[0]
    _edit(copied.notebook(lesson), damage)
    _solution(copied, lambda n: n.cells[0].update(source="# T\n\n6 minutes"))
    found = _problems(copied, "texts")
    assert len(found) == 3
    for text in ("after nothing", "On real hardware", "'5 minutes'"):
        assert any(text in problem for problem in found)


def test_manifest_workbook_and_checks_must_agree(copied: Layout) -> None:
    _replace(copied.root / "course.toml", 'id = "01_tiny.unit"', 'id = "01_tiny.other"')
    found = _problems(Layout(copied.root), "agreement")
    assert len(found) == 4
    assert any("lacks this exercise" in text and "01_tiny.other" in text for text in found)
    assert any("course.toml lacks" in text and "01_tiny.unit" in text for text in found)


def test_four_exercises_at_least(copied: Layout) -> None:
    text = (copied.root / "course.toml").read_text(encoding="utf-8")
    (copied.root / "course.toml").write_text(text[: text.rindex("[[lesson.exercise]]")], encoding="utf-8")
    assert any("at least 4" in problem for problem in _problems(Layout(copied.root), "agreement"))


def test_declarations_must_be_complete(copied: Layout) -> None:
    path = copied.checks(copied.course.lessons[0])
    _replace(path, 'do="Add zeros at the end.",', 'do="",')
    _replace(path, '"as_it_is",', '"cut_instead",')
    _replace(path, "        reference=lambda values: sum(values),\n", "")
    found = _problems(copied, "declarations")
    assert any("cut_instead needs what, why and do" in text for text in found)
    assert any("two misconceptions are named cut_instead" in text for text in found)
    assert any("[01_tiny.total]" in text and "nothing is judged" in text for text in found)


def test_five_misconceptions_at_least(copied: Layout) -> None:
    path = copied.checks(copied.course.lessons[0])
    _replace(path, '"f": "MTE2"', "")
    (found,) = _problems(copied, "declarations")
    assert "4 misconceptions; at least 5" in found
    assert "01_tiny.unit" in found


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "checks",
            "def split(n, cores):\n    base = n // cores",
            "def split(n, units):\n    base = n // 2",
            "themselves apart",
        ),
        (
            "checks",
            '_BACKWARDS = "def split',
            '_BACKWARDS = "def parts',
            "'a split whose long parts come last' defines no",
        ),
        ("checks", "        wrong={\n", "        wrong={}, right2={\n", "cannot be loaded"),
        ("course.toml", 'kind = "test"', 'kind = "code"', "kind = 'test' in course.toml"),
        ("course.toml", 'kind = "code"', 'kind = "kernel"', "kind = 'kernel' in course.toml asks for run=kernel(...)"),
    ],
)
def test_the_programs_of_a_test_and_the_kind_must_fit(
    tmp_path: Path, file: str, old: str, new: str, message: str
) -> None:
    shutil.copytree(Path(__file__).parent / "fixtures" / "kinds", tmp_path / "kinds")
    layout = Layout(tmp_path / "kinds")
    _replace(layout.checks(layout.course.lessons[0]) if file == "checks" else layout.root / file, old, new)
    found = _problems(Layout(tmp_path / "kinds"), "declarations")
    assert any(message in text for text in found), found


# -- proofs: one damage each, on the exercise that shows it --------------------------------------------------


def _proofs(layout: Layout, client: Client, name: str) -> list[str]:
    gates = LessonGates(Layout(layout.root), layout.course.lessons[0])
    gates.lesson = type(gates.lesson)(
        **{
            field: getattr(gates.lesson, field)
            for field in ("id", "title", "level", "minutes", "prerequisites", "later")
        },
        exercises=tuple(e for e in gates.lesson.exercises if e.id == f"01_tiny.{name}"),
    )
    return [str(problem) for problem in gates.proofs(client)]


def test_a_placeholder_that_passes(copied: Layout, client: Client) -> None:
    solved = "# exercise: 01_tiny.total\ndef total(values):\n    return sum(values)"
    _solution(copied, lambda n: _cell(n, "total-exercise").update(source=solved))
    (found,) = _proofs(copied, client, "total")
    assert "the placeholder gives passed" in found


def test_a_placeholder_that_does_not_run(copied: Layout, client: Client) -> None:
    _solution(copied, lambda n: _cell(n, "total-exercise").update(source="# exercise: 01_tiny.total\n1 / 0"))
    assert any("the placeholder does not run" in text for text in _proofs(copied, client, "total"))


def test_a_solution_that_fails(copied: Layout, client: Client) -> None:
    def damage(notebook: Any) -> None:
        cell = _cell(notebook, "total-solution")
        cell.source = cell.source.replace("return result", "return result + (len(values) == 50)")

    _solution(copied, damage)
    found = _proofs(copied, client, "total")
    assert sum("the solution does not pass" in text for text in found) == 1


def test_a_wrong_answer_that_passes(copied: Layout, client: Client) -> None:
    path = copied.checks(copied.course.lessons[0])
    _replace(
        path, 'change("result += value", "result = value")', 'change("result += value", "result = value + result")'
    )
    found = _proofs(copied, client, "total")
    assert any("wrong answer last_only gives passed" in text for text in found)


def test_a_wrong_answer_with_anothers_diagnosis(copied: Layout, client: Client) -> None:
    path = copied.checks(copied.course.lessons[0])
    _replace(path, "gives(lambda values: sum(values[1:]))", "lambda attempt: True")
    found = _proofs(copied, client, "total")
    assert any("wrong answer last_only is taken for first_left_out" in text for text in found)


def test_a_wrong_answer_that_nobody_recognises(copied: Layout, client: Client) -> None:
    path = copied.checks(copied.course.lessons[0])
    _replace(path, "gives(lambda values: None)", "gives(lambda values: 0)")
    found = _proofs(copied, client, "total")
    assert any("wrong answer prints is not recognised: course.wrong_type" in text for text in found)


def test_a_change_that_no_longer_fits(copied: Layout, client: Client) -> None:
    _replace(copied.checks(copied.course.lessons[0]), 'change("return result", "print(result)")', 'change("zzz", "y")')
    assert any("misconception prints: the solution has no 'zzz'" in text for text in _proofs(copied, client, "total"))


# -- the author's commands -----------------------------------------------------------------------------------


def test_derive_then_gates(copied: Layout, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # The proofs are tested above; here it is the command that counts.
    monkeypatch.setattr(LessonGates, "proofs", lambda self, client: [])
    course = ["--course", str(copied.root)]
    copied.exercise(copied.course.lessons[0]).unlink()
    assert author.main(["derive", "01_tiny", *course]) == 0
    assert workbook.is_derived(copied.solution(copied.course.lessons[0]), copied.exercise(copied.course.lessons[0]))
    capsys.readouterr()
    _replace(copied.checks(copied.course.lessons[0]), '"f": "MTE2"', "")
    assert author.main(["gates", "01_tiny", *course]) == 1
    out = capsys.readouterr().out
    assert "1 problem:" in out
    assert "checks/c01_tiny.py: line " in out
    assert "[01_tiny.unit]: 4 misconceptions" in out
    assert author.main(["gates", "77_none", *course]) == 2


def test_try_shows_a_result(tiny: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert author.main(["try", "01_tiny.unit", "--course", str(tiny.root)]) == 0
    (tmp_path / "cell.py").write_text('answer = "a"', encoding="utf-8")
    assert author.main(["try", "01_tiny.unit", str(tmp_path / "cell.py"), "--course", str(tiny.root)]) == 1
    assert "MTE1 does not multiply" in capsys.readouterr().out
