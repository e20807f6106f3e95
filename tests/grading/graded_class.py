"""One class of good, clumsy and nasty learners."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trivial

from cannlab.course.grading.run import Summary

COUNT = 3


class Quiet:
    """A watcher that keeps the names."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def begin(self, summary: Summary, done: int) -> None:
        """Nothing to show."""

    def step(self, learner: str) -> None:
        self.names.append(learner)


@dataclass
class Graded:
    """A graded class."""

    submissions: Path
    out: Path
    summary: Summary

    def report(self, learner: str) -> dict[str, Any]:
        """A learner's report."""
        data: dict[str, Any] = json.loads((self.out / "learners" / f"{learner}.json").read_text())
        return data

    def page(self, learner: str) -> str:
        """A learner's page."""
        return (self.out / "learners" / f"{learner}.html").read_text(encoding="utf-8")

    def result(self, learner: str, number: int) -> dict[str, Any]:
        """One result."""
        entry: dict[str, Any] = self.report(learner)["lessons"][0]["exercises"][number]
        return entry


EVIL = '<script>alert("pwned")</script><img src=x onerror=alert(1)>'


def fill_class(submissions: Path) -> Path:
    """The class that most tests look at."""
    right = {number: trivial.right(number) for number in range(COUNT)}
    good = trivial.workbook(right, COUNT, "seed1")
    trivial.hand_in(submissions, "good", good)
    added = "# exercise: 01_trivial.times1\ndef times(values):\n    return [2 + value for value in values]"
    trivial.hand_in(submissions, "wrong", trivial.workbook({0: trivial.right(0), 1: added}, COUNT, "seed2"))
    trivial.hand_in(submissions, "untouched", trivial.workbook({}, COUNT, "seed3"))
    (submissions / "nothing").mkdir(parents=True)
    trivial.hand_in(submissions, "not_json", b"this is no notebook")
    text = json.dumps(good)
    trivial.hand_in(submissions, "bom", b"\xef\xbb\xbf" + text.encode())
    trivial.hand_in(submissions, "crlf", text.replace("\\n", "\\r\\n").encode())
    trivial.hand_in(submissions, "utf16", text.encode("utf-16"))
    trivial.hand_in(submissions, "whole_folder", good, "exercises/basic/01_trivial.ipynb")
    trivial.hand_in(submissions, "whole_folder", trivial.workbook({}, COUNT), "notebooks/basic/01_trivial.ipynb")
    trivial.hand_in(submissions, "whole_folder", trivial.workbook({}, COUNT), "backups/01_trivial.001.ipynb")
    evil = trivial.workbook(
        {
            0: f"# exercise: 01_trivial.times0\ndef times(values):\n    print({EVIL!r})\n    return {EVIL!r}",
            1: f"# exercise: 01_trivial.times1\nraise ValueError({EVIL!r})",
            2: f"# exercise: 01_trivial.times2\n# {EVIL}\ndef times(values):\n    return object()",
        },
        COUNT,
    )
    evil["metadata"]["kernelspec"]["language"] = EVIL
    trivial.hand_in(submissions, "=cmd|' -C calc'!A0 <b>x", evil, f"{EVIL.replace('/', '_')}.ipynb")
    loop = "# exercise: 01_trivial.times0\ndef times(values):\n    while True:\n        pass"
    leave = "# exercise: 01_trivial.times1\nimport os\ndef times(values):\n    os._exit(0)"
    trivial.hand_in(submissions, "hangs", trivial.workbook({0: loop, 1: leave, 2: trivial.right(2)}, COUNT, "seed4"))
    dice = (
        "# exercise: 01_trivial.times0\nimport random\ndef times(values):\n"
        "    return [random.random(), np.random.rand(), object()]"
    )
    trivial.hand_in(submissions, "dice", trivial.workbook({0: dice}, COUNT, "seed1"))
    return submissions
