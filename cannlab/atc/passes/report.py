"""What a pass found and did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cannlab.atc.graph import Node


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a pass.

    Attributes:
        nodes: names of the model's nodes that it took.
        into: name of the operator that they are in now; "" if they are gone.
    """

    nodes: tuple[str, ...]
    into: str


@dataclass
class Report:
    """What one pass came to.

    Attributes:
        name: the pass.
        kind: "GraphFusion", "UBFusion", or "Preparation" for what always runs.
        effects: what it did.
        refused: (node, reason) for each match that it let stand.
    """

    name: str
    kind: str
    effects: list[Effect] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def effect_times(self) -> int:
        """How often the pass took effect."""
        return len(self.effects)

    @property
    def match_times(self) -> int:
        """How often its pattern was found."""
        return len(self.effects) + len(self.refused)

    def did(self, into: Node | None, *nodes: Node) -> None:
        """Note an effect: ``nodes`` (and the operator's own) are in ``into`` now, or gone."""
        names = [name for node in (*(() if into is None else (into,)), *nodes) for name in node.sources]
        self.effects.append(Effect(tuple(dict.fromkeys(names)), "" if into is None else into.task))

    def refuse(self, node: Node, reason: str) -> None:
        """Note a match without effect."""
        self.refused.append((node.name, reason))


def merged(reports: Iterable[Report]) -> list[Report]:
    """One report for each pass, of what it came to in the graph and in its branches."""
    found: dict[str, Report] = {}
    for report in reports:
        known = found.setdefault(report.name, Report(report.name, report.kind))
        known.effects += report.effects
        known.refused += report.refused
    return list(found.values())
