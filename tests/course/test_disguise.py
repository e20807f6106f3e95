"""Specimens in other clothes: the same results, another look."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cannlab.course import bundle
from cannlab.course.bundle import Bundle
from cannlab.course.disguise import disguise, parameters
from cannlab.course.judge import Judge, Terms
from cannlab.course.layout import Layout
from cannlab.course.manifest import Exercise, Kind, Lesson, Level
from cannlab.course.runner import runner
from cannlab.course.spec import Check, catches
from cannlab.course.workbook import Part

PROGRAMS = {
    "branches": """
def f(n, *rest, step=1, **more):
    "What it is for."
    total = 0
    for i in range(0, n, step):
        if i % 2 == 0:
            total += i
        elif i > 5:
            total -= 1
        else:
            total += helper(i)
    return total, rest, more
def helper(x):
    return LIMIT if x < LIMIT else x
LIMIT = 3
""",
    "recursion and closures": """
import math
def f(n, *rest, step=1, **more):
    counter = 0
    def walk(k):
        nonlocal counter
        counter += 1
        return 1 if k <= 1 else k * walk(k - step)
    try:
        value = walk(n)
    except RecursionError as problem:
        value = str(problem)
    return [value, counter, math.floor(2.5), (lambda n: n + counter)(1), rest, sorted(more)]
""",
    "classes and globals": """
COUNT = 0
class Box:
    size = 2
    def __init__(self, n):
        self.n = n
    def grow(self, by=1):
        global COUNT
        COUNT += by
        return self.n * self.size + COUNT
def f(n, *rest, step=1, **more):
    box = Box(n)
    return [box.grow(by=step), box.grow(), {key: value for key, value in more.items()}, [r for r in rest if (q := r)]]
""",
}


def _run(source: str) -> list[Any]:
    found: list[Any] = []
    for arguments, named in (((4,), {}), ((9, 1, 2), {"step": 2}), ((0,), {"colour": "red"})):
        space: dict[str, Any] = {}
        exec(source, space)
        found.append(space["f"](*arguments, **named))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(12))
def test_the_program_does_the_same_beside_every_decoy(name: str, seed: int) -> None:
    source = PROGRAMS[name]
    for decoy in PROGRAMS.values():
        other = disguise(source, decoy, "f", np.random.default_rng(seed))
        assert _run(other) == _run(source)
        assert other == disguise(source, decoy, "f", np.random.default_rng(seed))


def test_own_names_texts_and_order_are_drawn_and_parameters_stay() -> None:
    source, decoy = PROGRAMS["branches"], PROGRAMS["classes and globals"]
    texts = [disguise(source, decoy, "f", np.random.default_rng(seed)) for seed in range(20)]
    assert len(set(texts)) == 20
    for text in texts:
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        assert not names & {"total", "helper", "LIMIT", "COUNT", "Box"}
        assert "What it is for" not in text
        assert parameters(text, "f") == ["n", "step", "rest", "more"]


def test_which_program_runs_is_not_told_by_where_it_stands() -> None:
    right, wrong = "def f(a):\n    return a + 1", "def f(a):\n    return a"
    first, branch = set(), set()
    for seed in range(40):
        tree = ast.parse(disguise(right, wrong, "f", np.random.default_rng(seed)))
        programs = [ast.unparse(node.body[-1]) for node in tree.body[:2]]  # type: ignore[attr-defined]
        first.add(programs[0])
        choice = tree.body[-1].body[-1]  # type: ignore[attr-defined]
        live = choice.body if eval(ast.unparse(choice.test)) else choice.orelse
        branch.add(live is choice.body)
    assert first == {"return a + 1", "return a"}
    assert branch == {True, False}


def test_a_kernel_keeps_its_decorator_and_runs_alone() -> None:
    source = "@mark\ndef f(a):\n    b = a\n    return b"
    text = disguise(source, "@mark\ndef f(a):\n    return a + 1", "f", np.random.default_rng(0))
    space: dict[str, Any] = {"mark": lambda function: function}
    exec(text, space)
    assert space["f"](3) == 3
    assert text.count("@mark") == 1


def test_names_that_would_hide_each_other_keep_the_decoy_out() -> None:
    source = "import math as m\ndef f(k):\n    return k + n\nn = 1\ndef g(n):\n    return n"
    decoy = "def f(k):\n    return k + n\nn = 2\ndef g(n):\n    return n"
    space: dict[str, Any] = {}
    exec(disguise(source, decoy, "f", np.random.default_rng(0)), space)
    assert space["f"](1) == 2


@pytest.mark.parametrize(("source", "message"), [("def g(): pass", "no function f"), ("def f(:", "no Python")])
def test_a_program_without_the_target_is_named(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parameters(source, "f")


def test_kernels_can_be_specimens() -> None:
    """A launch with its kernel, right and wrong, beside each other: both are still programs of asc."""
    kinds = Layout(Path(__file__).parent / "fixtures" / "kinds")
    part = bundle.load(kinds, "01_kinds.kernel").part
    wrong = {
        "every block takes the first part": part.solution.replace("asc.get_block_idx() * length", "0 * length"),
        "x is added once": part.solution.replace("asc.muls(c, a, 2.0, count=TILE)", "asc.muls(c, a, 1.0, count=TILE)"),
    }
    assert part.solution not in wrong.values()
    run = catches("test", "launch", right={"twice x and y": part.solution}, wrong=wrong)
    test = """
import numpy as np
def test(launch):
    x, y = np.random.default_rng(0).standard_normal((2, 8192)).astype(np.float32)
    z = np.zeros_like(x)
    launch(x, y, z)
    assert np.allclose(z, 2 * x + y, atol=1e-6)
"""
    exercise = Exercise("l.k", "t", Kind.TEST)
    own = Part("l.k", 1, "pass", part.setup, "", (), "")
    alone = Bundle(Lesson("l", "t", Level.BASIC, 1), exercise, own, Check("l.k", run), "")
    result = Judge(alone, runner()).judge(test, Terms(secret="a"))
    assert (result.right, result.cases) == (9, 9), result.text()
