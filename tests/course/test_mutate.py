"""Mutation: which mistakes are made of a cell, which a check lets pass, and how an author accepts one."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from cannlab.cli import app
from cannlab.course import mutate, mutations, notebook_file
from cannlab.course.clients import Clients
from cannlab.course.layout import Layout


def _afters(source: str, kind: str = "") -> list[str]:
    return [mutant.after for mutant in mutations.mutants(source) if kind in ("", mutant.kind)]


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("x = a + b", "operator", ["x = (a - b)"]),
        ("x = f(a * b)", "operator", ["x = f(a // b)", "x = f(a + b)"]),
        ("x += a", "operator", ["x -= a", "x = a"]),
        ("x = a and not b", "operator", ["x = (a or not b)", "x = a and (b)"]),
        ("x = a < b", "comparison", ["x = (a <= b)", "x = (a > b)"]),
        ("x = a in b", "comparison", ["x = (a not in b)"]),
        ("x = 3", "constant", ["x = 4", "x = 2"]),
        ("x = True", "constant", ["x = False"]),
        ("x = 0", "constant", ["x = 1", "x = (-1)"]),
        ("for i in range(n):\n    f(i)", "off by one", ["for i in range(n + 1):", "for i in range(n - 1):"]),
        ("x = a[i:j]", "off by one", ["x = a[(i + 1):j]", "x = a[(i - 1):j]", "x = a[i:(j + 1)]", "x = a[i:(j - 1)]"]),
        ("x = a[:n]", "off by one", ["x = a[1:n]", "x = a[:(n + 1)]", "x = a[:(n - 1)]"]),
        ("f(a, b, c)", "swapped arguments", ["f(b, a, c)", "f(a, c, b)"]),
        ("if a:\n    f()", "negated condition", ["if (not a):"]),
        ("x = [i for i in a if i]", "negated condition", ["x = [i for i in a if (not i)]"]),
        ("def f():\n    return 1", "deleted result", ["return None"]),
        ('c = "atc --a=1 --b=x"', "command word", None),
    ],
)
def test_each_kind_of_mistake_is_made(source: str, kind: str, expected: list[str] | None) -> None:
    found = _afters(source, kind)
    if expected is None:
        assert found == [
            "c = '--a=1 --b=x'",
            "c = 'atc --b=x'",
            "c = 'atc --a=2 --b=x'",
            "c = 'atc --a=0 --b=x'",
            "c = 'atc --a=1'",
        ]
    else:
        assert found == expected


def test_statements_are_deleted_one_by_one_and_definitions_stay() -> None:
    source = 'import os\ndef f(x):\n    """Text."""\n    g(x)\n    return x\n'
    assert [(m.line, m.before) for m in mutations.mutants(source) if m.kind == "deleted statement"] == [(4, "g(x)")]


def test_no_two_mutants_are_the_same_program_and_none_is_the_original() -> None:
    source = "# exercise: a.b\nx = 1  # one\ny = x * x\nz = [a for a in range(3)][0:x]\nprint(f'{x+1} {y}')\n"
    programs = [ast.unparse(ast.parse(mutant.source)) for mutant in mutations.mutants(source)]
    assert len(programs) == len(set(programs)) > 10
    assert ast.unparse(ast.parse(source)) not in programs
    assert "x * x" in source
    assert not any(after == "y = (x * x)" for after in _afters(source))


def test_the_order_is_that_of_the_text_and_the_rest_stays_as_it_is() -> None:
    source = "# exercise: a.b\nx = 1   # é, a comment\n\ny = ('ä', 2)\n"
    found = mutations.mutants(source)
    assert [mutant.line for mutant in found] == sorted(mutant.line for mutant in found)
    for mutant in found:
        lines, new = source.splitlines(), mutant.source.splitlines()
        assert [n for n, (a, b) in enumerate(zip(lines, new, strict=True), 1) if a != b] == [mutant.line]
    assert [m.source for m in mutations.mutants(source)] == [m.source for m in found]
    assert "y = ('ä', 3)" in [mutant.after for mutant in found]


def test_a_cell_that_is_no_python_is_refused() -> None:
    with pytest.raises(SyntaxError):
        mutations.mutants("!atc --help")


def test_marks_are_read_with_their_reason() -> None:
    assert mutations.skips("a = 1  # mutate: skip  any number \nb = 2\nc = 3 # mutate: skip") == {
        1: "any number",
        3: "",
    }


# -- through the checks ------------------------------------------------------------------------------


def _solution(layout: Layout, name: str, source: str) -> None:
    path = layout.solution(layout.course.lessons[0])
    notebook = notebook_file.read(path)
    cell = next(cell for cell in notebook.cells if cell.id == f"{name}-solution")
    cell.source = f"# exercise: 01_tiny.{name}\n{source}"
    notebook_file.write(notebook, path)


def test_the_tiny_course_lets_nothing_pass(tiny: Layout) -> None:
    names = [exercise.id for exercise in tiny.course.exercises()]
    with Clients(2) as clients:
        found = mutate.mutate(tiny, names, clients)
        again = mutate.mutate(tiny, names[2:], clients)
    assert [entry.exercise for entry in found] == names
    assert sum(entry.total for entry in found) >= 20
    assert [str(m) for entry in found for m in entry.survivors] == []
    assert all(entry.caught == entry.total for entry in found)
    assert mutate.report(found[2:]) == mutate.report(again)


def test_a_survivor_is_shown_with_its_line(copied: Layout) -> None:
    """A check whose cases never use the first value does not notice where the sum begins."""
    checks = copied.checks(copied.course.lessons[0])
    text = checks.read_text(encoding="utf-8")
    checks.write_text(
        text.replace("[int(v) for v in rng.integers(1, 1000, n)]", "[0, *map(int, rng.integers(1, 9, n))]")
    )
    _solution(
        copied,
        "total",
        "def total(values):\n    result = 0\n    for value in values[:]:\n        result += value\n    return result",
    )
    with Clients(2) as clients:
        (found,) = mutate.mutate(copied, ["01_tiny.total"], clients)
    assert [(m.line, m.after) for m in found.survivors] == [(4, "for value in values[1:]:")]
    assert found.caught == found.total - 1
    report = mutate.report([found])
    assert "- for value in values[:]:\n    + for value in values[1:]:" in report
    assert "1 survive" in report


SAME = "def total(values):{other}\n    return sum(values[: 10**9]){mark}"


def test_an_equivalent_mutant_is_accepted_by_a_mark(copied: Layout) -> None:
    _solution(copied, "total", SAME.format(other="", mark="  # mutate: skip no list is that long"))
    with Clients(2) as clients:
        (found,) = mutate.mutate(copied, ["01_tiny.total"], clients)
    assert found.survivors == ()
    assert found.problems == ()
    assert {reason for _, reason in found.accepted} == {"no list is that long"}
    assert len(found.accepted) >= 1
    assert "accepted (no list is that long)" in mutate.report([found])


def test_a_mark_without_reason_or_use_is_a_problem(copied: Layout) -> None:
    _solution(copied, "total", SAME.format(other="  # mutate: skip not needed", mark="  # mutate: skip"))
    with Clients(2) as clients:
        (found,) = mutate.mutate(copied, ["01_tiny.total"], clients)
    texts = [str(problem) for problem in found.problems]
    assert any("line 3" in text and "needs a reason" in text for text in texts)
    assert any("line 2" in text and "accepts nothing" in text for text in texts)
    assert found.survivors


def test_an_endless_mutant_is_caught_soon(copied: Layout) -> None:
    source = """def total(values):
    rest, result = list(values), 0
    while rest:
        result += rest.pop()
    return result"""
    _solution(copied, "total", source)
    manifest = copied.root / "course.toml"
    text = manifest.read_text(encoding="utf-8")
    patient = 'title = "Repair the sum"\nlimits = { cpu = 300, wall = 600 }'
    manifest.write_text(text.replace('title = "Repair the sum"', patient), encoding="utf-8")
    copied = Layout(copied.root)
    started = time.monotonic()
    with Clients(2) as clients:
        (found,) = mutate.mutate(copied, ["01_tiny.total"], clients)
    assert found.survivors == ()
    assert time.monotonic() - started < 250  # with the exercise's own limits one endless mutant would take longer


def test_a_solution_that_fails_is_said_instead_of_figures(copied: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    _solution(copied, "total", "def total(values):\n    return 0")
    assert app.call(["dev", "mutate", "01_tiny.total", "--course", str(copied.root)]) == 1
    assert "does not pass its check" in capsys.readouterr().out


def test_the_command_ends_with_0_when_all_are_caught(tiny: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.call(["dev", "mutate", "01_tiny.unit", "--jobs", "1", "--course", str(Path(tiny.root))]) == 0
    assert "1 exercises, 1 mutants: 1 caught, 0 accepted, 0 survive" in capsys.readouterr().out
    assert app.call(["dev", "mutate", "77_none", "--course", str(tiny.root)]) == 1
