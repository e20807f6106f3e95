"""A result as HTML for a notebook: no script, readable on light and dark, nothing hidden that matters."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cannlab.course.result import Result

COLOURS = {"passed": "#1a7f37", "failed": "#b35900", "error": "#6e5494"}
"""Of a verdict's word, on a light page."""
DARK = {"#1a7f37": "#3fb950", "#b35900": "#f0883e", "#6e5494": "#b794e0"}
"""The same on a dark page."""
_WORDS = {"passed": "Passed", "failed": "Not yet", "error": "No verdict"}
_CODE = "font-family:monospace;white-space:pre-wrap;margin:0"


def markdown(text: str) -> str:
    """Markdown of the course as HTML; HTML inside it stays text."""
    from markdown_it import MarkdownIt

    return str(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def _rows(pairs: list[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><td style="text-align:left;padding:1px 12px 1px 0;vertical-align:top">{escape(name)}</td>'
        f'<td style="text-align:left;padding:1px 0"><code>{escape(value)}</code></td></tr>'
        for name, value in pairs
    )
    return f'<table style="margin:2px 0 6px 0">{cells}</table>'


def _case(result: Result) -> list[str]:
    case = result.case
    if case is None:
        return []
    pairs = [*case.inputs, ("expected", case.expected), ("got", case.got), ("differs at", case.where)]
    return [
        f'<div style="margin-top:6px">First case that fails: {case.number}</div>',
        _rows([(name, value) for name, value in pairs if value]),
    ]


def _diagnosis(result: Result) -> list[str]:
    found = result.diagnosis
    if found is None:
        return []
    head = f"[{found.code}] {found.title}" if found.code else found.title
    places = [f"at {found.where}"] if found.where is not None else []
    places += [f"{part} {place}" for part, place in found.others]
    lines = [f"<div><b>{escape(head)}:</b> {escape(found.what)}</div>"]
    lines += [f'<div style="{_CODE}">{escape(place)}</div>' for place in places]
    lines += [f"<div>{escape(found.why)}</div>", f"<div><b>Do:</b> {escape(found.remedy)}</div>"]
    return [f'<div style="margin:6px 0">{"".join(lines)}</div>']


def _facts(result: Result) -> list[str]:
    entries = [("\u2713" if fact.ok else "\u2717", fact.text) for fact in result.facts]
    if result.cost is not None:
        mark, _, rest = result.cost_text().partition(" ")
        entries.append(("\u2713" if mark == "+" else "\u2717", rest))
    if not entries:
        return []
    items = "".join(f"<div>{mark} {escape(text)}</div>" for mark, text in entries)
    return [f'<div style="margin:6px 0"><div>What the run shows:</div>{items}</div>']


def _block(title: str, lines: str) -> str:
    return f'<div style="margin:6px 0"><div>{escape(title)}</div><pre style="{_CODE}">{escape(lines)}</pre></div>'


def html(result: Result) -> str:
    """The result as one HTML block."""
    colour = COLOURS[result.verdict]
    counted = f" \u00b7 {escape(result.counted)}" if result.counted else ""
    parts = [
        f'<div><b style="color:{colour}">{_WORDS[result.verdict]}</b> \u00b7 <code>{escape(result.exercise)}</code>'
        f" {escape(result.title)}{counted}</div>"
    ]
    parts += [f"<div>Note: {escape(note)}</div>" for note in result.notes]
    parts += _case(result) + _diagnosis(result)
    if result.traceback:
        parts.append(_block("In your code:", "\n".join(result.traceback)))
    parts += _facts(result)
    if result.picture:
        parts.append(_block("When it ran:", result.picture))
    if result.printed and not result.passed:
        parts.append(_block("It printed:", result.printed))
    if result.hint:
        parts.append(f'<div style="margin-top:6px">{escape(result.hint)}</div>')
    if result.explanation:
        body = markdown(result.explanation)
        parts.append(f'<details open style="margin-top:6px"><summary>Explanation</summary>{body}</details>')
    style = f"border-left:4px solid {colour};padding:4px 12px;margin:4px 0;line-height:1.4"
    return f'<div style="{style}">{"".join(parts)}</div>'
