"""``cannlab explain CODE``: what a code means and what to do."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from string import Formatter

from cannlab.errors import diagnose, tables
from cannlab.errors.explain import Explanation
from cannlab.errors.explain import explain as look_up

_WIDTH = 100
_LIKE = 0.65
"""From which similarity on (0 to 1) a code is offered for a mistyped one."""


def _plain(template: str) -> str:
    """A rule's text without the facts of a case: each placeholder becomes its name in angle brackets."""
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(f"<{name.replace('_', ' ')}>")
    return "".join(parts)


def _paragraph(title: str, text: str) -> str:
    indent = " " * 9
    return textwrap.fill(f"{title:<9}{text}", _WIDTH, subsequent_indent=indent, break_long_words=False)


def _entry(known: tables.KnownCode) -> str:
    """Title and class; some codes have no class in the tables."""
    return f"{known.title} ({known.kind.strip()})" if known.kind else known.title


def explanation_lines(found: Explanation) -> Iterator[str]:
    """The explanation for a person."""
    title = f": {_entry(found.known)}" if found.known else ""
    yield f"{found.code}{title}"
    if not found.emulated:
        yield ""
        yield "cannlab knows this code and does not raise it: what leads to it is not emulated."
        yield "Its description stands in the CANN documentation of your release; search for the code."
    for rule in found.rules:
        yield ""
        yield f"{rule.title}  ({rule.id})"
        yield _paragraph("what", _plain(rule.what))
        yield _paragraph("rule", _plain(rule.rule))
        for cause in rule.causes:
            yield _paragraph("cause", cause)
        yield _paragraph("do", _plain(rule.remedy))
        yield _paragraph("lesson", rule.lesson)
        others = {version: code for version, code in rule.codes.items() if code and code != found.code}
        if others:
            yield _paragraph("code", ", ".join(f"{code} in CANN {version}" for version, code in others.items()))
        yield _paragraph("source", rule.source)


def near_codes(code: str, count: int = 5) -> list[str]:
    """Known codes and rule ids that resemble a mistyped one, the nearest first; codes that cannlab raises go first."""
    from difflib import SequenceMatcher

    rules = tables.rules()
    raised = {*rules, *(value for rule in rules.values() for value in rule.codes.values() if value)}
    matcher = SequenceMatcher(b=code.lower(), autojunk=False)
    scored = []
    for name in raised | set(tables.known_codes()):
        matcher.set_seq1(name.lower())
        if matcher.real_quick_ratio() > _LIKE and matcher.ratio() > _LIKE:
            scored.append((-matcher.ratio(), name not in raised, name))
    return [name for _, _, name in sorted(scored)[:count]]


def list_lines() -> Iterator[str]:
    """All codes: those that cannlab raises first, then the other known ones."""
    rules = tables.rules()
    raised: dict[str, list[tables.Rule]] = {}
    for rule in rules.values():
        for code in dict.fromkeys(rule.codes.values()):
            if code:
                raised.setdefault(code, []).append(rule)
    yield "Raised by cannlab:"
    for code in sorted(raised, key=lambda code: (not code.isdecimal(), len(code) if code.isdecimal() else 0, code)):
        yield f"  {code:<8} {'; '.join(f'{rule.title} ({rule.id})' for rule in raised[code])}"
    yield ""
    yield "Rules without a code in the real stack:"
    for rule in rules.values():
        if not any(rule.codes.values()):
            yield f"  {rule.id}: {rule.title}"
    yield ""
    yield "Known, not emulated:"
    for code, known in tables.known_codes().items():
        if code not in raised:
            yield f"  {code:<8} {_entry(known)}"


def run(code: str | None, list_all: bool) -> int:
    """Print one explanation, or the list. Returns 0, or 1 for an unknown code."""
    if list_all:
        print("\n".join(list_lines()))
        return 0
    assert code is not None
    found = look_up(code)
    if found is None:
        near = near_codes(code.strip())
        hint = f"; near it: {', '.join(near)}" if near else ""
        print(diagnose("cli.unknown_code", code=code, near=hint).text(), file=sys.stderr)
        return 1
    print("\n".join(explanation_lines(found)))
    return 0
