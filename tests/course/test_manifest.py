"""course.toml: what is read, and that every mistake is reported at once."""

from __future__ import annotations

import pytest

from cannlab.course import manifest
from cannlab.course.layout import Layout
from cannlab.course.manifest import Kind, Level
from cannlab.errors import CannlabError

GOOD = """
[course]
title = "c"
version = "1"

[[lesson]]
id = "01_a"
title = "A"
level = "basic"
minutes = 10

[[lesson.exercise]]
id = "01_a.one"
title = "One"
kind = "code"
points = 3
limits = { cpu = 2, memory = 100 }
preload = ["torch"]

[[lesson]]
id = "02_b"
title = "B"
level = "advanced"
minutes = 20
prerequisites = ["01_a"]
later = true
"""


def test_a_good_manifest_is_read_whole() -> None:
    course, problems = manifest.read(GOOD)
    assert problems == ()
    assert course is not None
    first, second = course.lessons
    assert (first.level, first.minutes, second.level, second.later) == (Level.BASIC, 10, Level.ADVANCED, True)
    one = course.exercise("01_a.one")
    assert one is not None
    assert (one.kind, one.points, one.lesson, one.preload) == (Kind.CODE, 3, "01_a", ("torch",))
    assert (one.limits.cpu, one.limits.memory, one.limits.wall) == (2, 100, manifest.Limits().wall)
    assert second.prerequisites == ("01_a",)


@pytest.mark.parametrize(
    ("old", "new", "place", "text"),
    [
        ('title = "A"', "", "lesson 01_a.title", "missing"),
        ("minutes = 10", 'minutes = "10"', "lesson 01_a.minutes", "whole number"),
        ("minutes = 10", "minutes = 0", "lesson 01_a.minutes", "at least 1"),
        ("points = 3", "points = true", "points", "whole number"),
        ('level = "basic"', 'level = "easy"', "lesson 01_a.level", "basic, intermediate, advanced"),
        ('kind = "code"', 'kind = "essay"', "kind", "must be one of"),
        ("points = 3", "point = 3", "point", "not known"),
        ("cpu = 2", "cpus = 2", "limits.cpus", "not known"),
        ('"01_a.one"', '"02_b.one"', "id", "must be 01_a.NAME"),
        ('["01_a"]', '["00_none"]', "lesson 02_b.prerequisites", "no lesson '00_none'"),
        ('["01_a"]', '["02_b"]', "lesson 02_b.prerequisites", "must stand above"),
        ('id = "02_b"', 'id = "01_a"', "lesson 01_a.id", "twice"),
        ('["torch"]', '["os"]', "preload", "may name"),
    ],
)
def test_each_mistake_is_named_with_its_key(old: str, new: str, place: str, text: str) -> None:
    assert old in GOOD
    _, problems = manifest.read(GOOD.replace(old, new, 1))
    assert any(place in problem.place and text in problem.text for problem in problems), [str(p) for p in problems]


def test_all_mistakes_are_reported_at_once(copied: Layout) -> None:
    text = GOOD.replace('title = "A"', "").replace('kind = "code"', 'kind = "x"').replace("20", "-1")
    (copied.root / "course.toml").write_text(text, encoding="utf-8")
    with pytest.raises(CannlabError) as caught:
        _ = Layout(copied.root).course
    message = str(caught.value)
    assert caught.value.diagnosis.rule == "course.manifest"
    assert "3 problems" in message
    for key in ("lesson 01_a.title", "exercise 01_a.one.kind", "lesson 02_b.minutes"):
        assert key in message


def test_what_is_no_toml_is_one_problem() -> None:
    course, problems = manifest.read("[course\n")
    assert course is None
    assert len(problems) == 1
    assert "TOML" in problems[0].text
