"""What a code means: the answer of ``cannlab explain CODE``."""

from __future__ import annotations

from dataclasses import dataclass

from cannlab.errors import tables


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code, the rules that give it here, and its entry in the real stack's own tables.

    ``rules`` is empty when the code is known but not emulated; ``known`` is None when only cannlab uses it.
    """

    code: str
    rules: tuple[tables.Rule, ...]
    known: tables.KnownCode | None

    @property
    def emulated(self) -> bool:
        """True if cannlab can raise it."""
        return bool(self.rules)


def explain(code: str) -> Explanation | None:
    """Look up a code ("107002", "E10016") or a rule's id ("memory.use_after_free"); None if unknown."""
    wanted = code.strip()
    if wanted[:1].isalpha() and "." not in wanted:
        wanted = wanted.upper()
    matching = tuple(rule for rule in tables.rules().values() if rule.id == wanted or wanted in rule.codes.values())
    known = tables.known_codes().get(wanted)
    if not matching and known is None:
        return None
    return Explanation(wanted, matching, known)
