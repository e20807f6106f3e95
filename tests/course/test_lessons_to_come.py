"""A notebook says of no lesson that it is to come once it is there."""

import json
import re

import pytest

from cannlab.course import layout

COURSE = layout.find()
HERE = {lesson.id[:2] for lesson in COURSE.course.lessons if not lesson.later}
COMING = re.compile(r"(\d\d)(?:_\w+)?`?(?:,| \()\s*to come")


@pytest.mark.parametrize("folder", ["notebooks", "solutions", "exercises"])
def test_a_lesson_that_is_there_is_not_to_come(folder) -> None:
    stale = [
        (path.name, cell.get("id"), number)
        for path in sorted((COURSE.root / folder).rglob("*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        for number in COMING.findall(json.dumps(cell))
        if number in HERE
    ]
    assert not stale
