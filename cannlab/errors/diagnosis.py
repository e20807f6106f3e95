"""A diagnosis: what the real stack would answer, and one more sentence that says why.

A diagnosis is a value. Its wording stands in ``data/rules/*.toml``; the place that finds a mistake gives
the rule's id and the facts, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cannlab.errors import tables
from cannlab.errors.places import Place


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One broken rule.

    Attributes:
        rule: id of the rule, ``area.name`` (the key in ``data/rules``).
        code: the code that the real stack gives for it, as text ("107002", "E10016"); "" if it has none.
        title: the rule's short name.
        what: what was done, with the facts of this case.
        why: the rule of the hardware or toolkit that it breaks.
        remedy: what to do instead.
        where: the line of the learner's code, if there is one.
        others: other lines that matter, each with its part ("allocated at", "freed at").
        facts: the facts that ``what`` was made from (plain numbers and strings).
    """

    rule: str
    code: str
    title: str
    what: str
    why: str
    remedy: str
    where: Place | None = None
    others: tuple[tuple[str, Place], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The message for a person: it ends with what to do next."""
        head = f"[{self.code}] {self.title}" if self.code else self.title
        lines = [f"{head}: {self.what}"]
        if self.where is not None:
            lines.append(f"  at {self.where}")
        lines += [f"  {part} {place}" for part, place in self.others]
        lines += [f"  rule: {self.why}", f"  do: {self.remedy}"]
        return "\n".join(lines)

    __str__ = text

    def to_dict(self) -> dict[str, Any]:
        """Plain data (JSON-ready)."""

        def plain(place: Place | None) -> dict[str, Any] | None:
            return None if place is None else {"file": place.file, "line": place.line, "function": place.function}

        return {
            "rule": self.rule,
            "code": self.code,
            "title": self.title,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
            "where": plain(self.where),
            "others": [[part, plain(place)] for part, place in self.others],
            "facts": dict(self.facts),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Diagnosis:
        """The inverse of :meth:`to_dict`."""
        where = data["where"]
        return cls(
            rule=data["rule"],
            code=data["code"],
            title=data["title"],
            what=data["what"],
            why=data["why"],
            remedy=data["remedy"],
            where=None if where is None else Place(**where),
            others=tuple((part, Place(**place)) for part, place in data["others"]),
            facts=data["facts"],
        )


def diagnose(
    rule: str,
    *,
    where: Place | None = None,
    others: tuple[tuple[str, Place], ...] = (),
    cann: str | None = None,
    **facts: Any,
) -> Diagnosis:
    """Build the diagnosis of a broken rule from its facts.

    Args:
        rule: id in ``data/rules``; KeyError if there is none (a mistake of ours, not of the learner).
        where: the learner's line; give ``places.caller()`` or a recorded place.
        others: other places that matter.
        cann: CANN version whose code is wanted; the emulated version by default.
        facts: values for the placeholders of the rule's texts.
    """
    entry = tables.rule(rule)
    return Diagnosis(
        rule=rule,
        code=entry.code_for(cann or tables.cann_version()),
        title=entry.title,
        what=entry.what.format_map(facts),
        why=entry.rule.format_map(facts),
        remedy=entry.remedy.format_map(facts),
        where=where,
        others=others,
        facts=facts,
    )


class CannlabError(Exception):
    """An error that carries its diagnosis. ``str(error)`` is the diagnosis' text."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        super().__init__(diagnosis.text())
        self.diagnosis = diagnosis

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.diagnosis,))
