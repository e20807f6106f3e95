"""Signs: what a misconception is recognised by. Join them with ``&``, ``|`` and ``~``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cannlab.course.spec.attempt import Attempt, Ending
from cannlab.course.spec.compare import Compare, exact
from cannlab.course.values import MISSING


@dataclass(frozen=True, slots=True)
class Sign:
    """A question about an attempt. An error in it counts as no: a sign never ends a check."""

    ask: Callable[[Attempt], bool]

    def __call__(self, attempt: Attempt) -> bool:
        try:
            return bool(self.ask(attempt))
        except Exception:
            # The answer may be anything; a sign that trips over it has not recognised it.
            return False

    def __and__(self, other: Callable[[Attempt], bool]) -> Sign:
        return Sign(lambda attempt: self(attempt) and bool(other(attempt)))

    def __or__(self, other: Callable[[Attempt], bool]) -> Sign:
        return Sign(lambda attempt: self(attempt) or bool(other(attempt)))

    def __invert__(self) -> Sign:
        return Sign(lambda attempt: not self(attempt))


def sign(ask: Callable[[Attempt], bool]) -> Sign:
    """A sign of your own: any question about the attempt (``a.cases``, ``a.tree``, ``a.normal``, ``a.ending``)."""
    return Sign(ask)


def option(name: str, test: Callable[[str], bool] = lambda value: True) -> Sign:
    """The command has this option, and its value passes a test."""
    start = f"--{name}="
    return Sign(
        lambda attempt: any(
            word.startswith(start) and test(word[len(start) :]) for case in attempt.cases for word in case.arguments
        )
    )


def says(text: str) -> Sign:
    """The console shows this text."""
    return Sign(lambda attempt: any(text in case.printed for case in attempt.cases))


def gives(wrong: Callable[..., Any], compare: Compare | None = None) -> Sign:
    """Every result is what this wrong formula gives; ``wrong(**inputs)``. At least one case must have failed."""
    how = compare or exact(dtype=False)

    def ask(attempt: Attempt) -> bool:
        done = [case for case in attempt.cases if case.got is not MISSING]
        return (
            bool(done)
            and any(case.difference is not None for case in done)
            and all(how.same(case.got, wrong(**case.inputs)) for case in done)
        )

    return Sign(ask)


def got(test: Callable[..., bool]) -> Sign:
    """Some failed case's result satisfies ``test(result, **inputs)``."""

    def ask(attempt: Attempt) -> bool:
        return any(case.got is not MISSING and test(case.got, **case.inputs) for case in attempt.failed)

    return Sign(ask)


def fault(rule: str) -> Sign:
    """The machine reported this rule as broken ("memory.double_free")."""
    return Sign(lambda attempt: rule in attempt.fault_rules)


def raises(type_name: str, text: str = "") -> Sign:
    """A case ended with this exception ("ZeroDivisionError"), its message containing ``text``."""

    def ask(attempt: Attempt) -> bool:
        errors = [case.raised for case in attempt.cases if case.raised is not None]
        return any(error.type == type_name and text in error.message for error in errors)

    return Sign(ask)


def ends(ending: Ending | str) -> Sign:
    """The answer's process ended so: "timeout", "exited", "killed", "memory", "flood"."""
    return Sign(lambda attempt: attempt.ending == ending)


def unmet(name: str) -> Sign:
    """The requirement of this name failed in some case."""
    return Sign(lambda attempt: any(f.name == name and not f.ok for case in attempt.cases for f in case.facts))


def slow() -> Sign:
    """The answer costs more than the target."""

    def ask(attempt: Attempt) -> bool:
        ratio, target = attempt.cost_ratio, attempt.cost_target
        return ratio is not None and target is not None and ratio > target

    return Sign(ask)


def lets_pass(title: str) -> Sign:
    """The learner's test passes on a program of this kind (the title in ``catches``)."""
    return _says("passes", title)


def refuses(title: str) -> Sign:
    """The learner's test fails on a program of this kind (the title in ``catches``)."""
    return _says("fails", title)


def _says(word: str, title: str) -> Sign:
    def ask(attempt: Attempt) -> bool:
        return any(c.size == title and isinstance(c.got, list) and c.got[:1] == [word] for c in attempt.cases)

    return Sign(ask)


def fails_where(test: Callable[..., bool]) -> Sign:
    """Exactly the cases whose inputs satisfy ``test(**inputs)`` fail, and there is one (tails, boundaries)."""

    def ask(attempt: Attempt) -> bool:
        return bool(attempt.failed) and all(bool(test(**case.inputs)) is not case.passed for case in attempt.cases)

    return Sign(ask)


def source(pattern: str) -> Sign:
    """The code matches this regular expression. It is searched in one spelling: no comments, single quotes."""
    compiled = re.compile(pattern)
    return Sign(lambda attempt: compiled.search(attempt.normal) is not None)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def calls(name: str, at_least: int = 1) -> Sign:
    """The code contains calls of ``name`` ("acl.rt.free", or its last part "free")."""

    def ask(attempt: Attempt) -> bool:
        dotted = [_dotted(node.func) for node in ast.walk(attempt.tree) if isinstance(node, ast.Call)]
        return sum(text == name or text.endswith(f".{name}") for text in dotted) >= at_least

    return Sign(ask)
