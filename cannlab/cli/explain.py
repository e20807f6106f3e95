"""``cannlab explain CODE``: what a code means and what to do."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from string import Formatter

from cannlab.errors import diagnose, tables
from cannlab.errors.explain import Explanation, with_word
from cannlab.errors.explain import explain as look_up

_WIDTH = 100
_UNPUBLISHED = re.compile(r"\b(learner-problems|onnx-rules|pyacl-and-atc|pyacl-semantics|ascend-c|pyasc|real-inputs)\b")
"""Sources that name the authors' own notes, which a learner cannot read."""
_LIKE = 0.65
"""From which similarity on (0 to 1) a code is offered for a mistyped one."""


def _plain(template: str) -> str:
    """A rule's text without the facts of a case: each placeholder becomes its name in capitals.

    One that stands right behind a word or another placeholder is an addition that some cases have: it is left out.
    """
    plain = ""
    for text, name, _, _ in Formatter().parse(template):
        plain += text
        if name is not None and not re.search(r"[A-Za-z0-9.]$", plain):
            plain += name.upper()
    return plain


def _width() -> int:
    """Columns of a text: those of the terminal, up to 100; 100 where the output is no terminal."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    return max(40, min(columns, _WIDTH))


def _filled(text: str, indent: int) -> str:
    return textwrap.fill(text, _width(), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _paragraph(title: str, text: str) -> str:
    return _filled(f"{title:<9}{text}", 9)


def _lesson(identifier: str) -> str:
    """A lesson's id, with a remark if it is not written yet."""
    from cannlab.course import layout
    from cannlab.errors import CannlabError

    try:
        found = layout.find()
        lesson = found.course.lesson(identifier)
        coming = lesson is not None and lesson.later and not found.exercise(lesson).is_file()
    except CannlabError:
        coming = False
    return f"lesson {identifier[:2]}, to come ({identifier})" if coming else identifier


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
        yield _paragraph("lesson", _lesson(rule.lesson))
        others = {version: code for version, code in rule.codes.items() if code and code != found.code}
        if others:
            yield _paragraph("code", ", ".join(f"{code} in CANN {version}" for version, code in others.items()))
        if not _UNPUBLISHED.search(rule.source):
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
        yield _filled(f"  {code:<8} {'; '.join(f'{rule.title} ({rule.id})' for rule in raised[code])}", 11)
    yield ""
    yield "Rules without a code in the real stack:"
    for rule in rules.values():
        if not any(rule.codes.values()):
            yield _filled(f"  {rule.id}: {rule.title}", 11)
    yield ""
    yield "Known, not emulated:"
    for code, known in tables.known_codes().items():
        if code not in raised:
            yield _filled(f"  {code:<8} {_entry(known)}", 11)


def run(code: str | None, list_all: bool) -> int:
    """Print one explanation, or the list. Returns 0, or 1 for an unknown code."""
    if list_all:
        print("\n".join(list_lines()))
        return 0
    assert code is not None
    found = look_up(code)
    if found is None and (listed := with_word(code)):
        print(f"{len(listed)} titles hold {code.strip()!r}; cannlab explain CODE says more:")
        print("\n".join(_filled(f"  {name:<8} {title}", 11) for name, title in listed))
        return 0
    if found is None:
        near = near_codes(code.strip())
        hint = f"; near it: {', '.join(near)}" if near else ""
        print(diagnose("cli.unknown_code", code=code, near=hint).text(), file=sys.stderr)
        return 1
    print("\n".join(explanation_lines(found)))
    return 0
