"""One learner's report: the same data as JSON and as a page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from cannlab.course.grading.page import page, row
from cannlab.course.result import Result
from cannlab.course.result_html import html


def as_json(report: Mapping[str, Any]) -> bytes:
    """The report's data, always the same bytes for the same data."""
    return (json.dumps(report, indent=1, sort_keys=True) + "\n").encode()


def as_html(report: Mapping[str, Any]) -> bytes:
    """The report as a page for the learner."""
    learner = report["learner"]
    stretch = f", and {report['stretch']} stretch points" if report["stretch"] else ""
    parts = [f"<h1>{escape(learner)}</h1>", f"<p>{report['points']} of {report['most']} points{stretch}</p>"]
    parts += [f'<p class="note">Could not be read: {escape(text)}</p>' for text in report["unreadable"]]
    parts += [f'<p class="note">{escape(text)}</p>' for text in report["notes"]]
    rows = [row("lesson", "points", "of", head=True)]
    rows += [row(f"{each['id']} {each['title']}", each["points"], each["most"]) for each in report["lessons"]]
    parts.append(f"<table>{''.join(rows)}</table>")
    for lesson in report["lessons"]:
        parts.append(f"<h2>{escape(lesson['id'])} {escape(lesson['title'])}</h2>")
        parts += [_exercise(entry) for entry in lesson["exercises"]]
    return page(f"{learner}: results", "\n".join(parts))


def _exercise(entry: Mapping[str, Any]) -> str:
    result = Result.from_dict(entry["result"])
    kind = " (stretch)" if entry["stretch"] else ""
    lines = [f"<section>{html(result)}", f"<p>{entry['points']} of {entry['most']} points{kind}</p>"]
    if entry["answer"]:
        place = escape(entry["place"])
        lines.append(f"<details><summary>Your answer ({place})</summary><pre>{escape(entry['answer'])}</pre></details>")
    lines.append(f"<p><small>result {escape(entry['hash'])}</small></p></section>")
    return "\n".join(lines)
