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
    """Look up a code, a rule's id or a constant; None if unknown.

    For example "107002", "E10016", "memory.use_after_free", "ACL_ERROR_INVALID_PARAM".
    """
    wanted = code.strip()
    if wanted[:1].isalpha() and "." not in wanted:
        wanted = wanted.upper()
    wanted = next((known.code for known in tables.known_codes().values() if known.title == wanted), wanted)
    matching = tuple(rule for rule in tables.rules().values() if rule.id == wanted or wanted in rule.codes.values())
    known = tables.known_codes().get(wanted)
    if not matching and known is None:
        return None
    return Explanation(wanted, matching, known)


def with_word(word: str) -> list[tuple[str, str]]:
    """Rules and codes whose title or name holds a word: (code, or the rule's id if it has none; title)."""
    wanted = word.strip().lower()
    if len(wanted) < 3 or not wanted.isalpha():
        return []
    found = {}
    for rule in tables.rules().values():
        if wanted in rule.title.lower() or wanted in rule.id:
            found[rule.id] = (rule.code_for(tables.cann_version()) or rule.id, f"{rule.title} ({rule.id})")
    for known in tables.known_codes().values():
        if wanted in (known.title or "").lower():
            found[known.code] = (known.code, known.title)
    return sorted(found.values())
