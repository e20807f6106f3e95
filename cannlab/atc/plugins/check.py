"""Applying the plugins' rules to the nodes of a graph."""

from __future__ import annotations

from typing import Any

from cannlab.atc.errors import AtcError, atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.atc.plugins import deploy
from cannlab.atc.plugins.facts import Facts, NotKnown
from cannlab.atc.plugins.table import Rule, filled, table
from cannlab.errors import Diagnosis, diagnose, tables
from cannlab.soc import Soc


class Plugins:
    """The plugins at work on one conversion.

    Attributes:
        notes: what the user should know of nodes that were converted into something else.
    """

    def __init__(self, soc: Soc) -> None:
        self.soc = soc
        self.notes: list[Diagnosis] = []
        self._done: set[tuple[str, int]] = set()
        """Names of nodes, and numbers of the rules that were applied to them."""
        self._unjudged: dict[tuple[str, int], Diagnosis] = {}
        """The same of rules that would change numbers and ask for something that is not known yet."""
        self._made: set[str] = set()
        """Names of nodes that a rewriting made: no rule is for them."""

    def copy(self) -> Plugins:
        """The same for another copy of the graph (a gear)."""
        made = Plugins(self.soc)
        made.notes, made._done, made._made = list(self.notes), set(self._done), set(self._made)
        return made

    def parse(self, graph: Graph) -> None:
        """What the plugins do before shapes are known, node by node.

        Raises:
            AtcError: rules ``atc.plugin_refuses``, ``atc.plugin_io`` for the first node that is refused.
        """
        for node in list(graph.nodes):
            self._limits(graph, node)
            self._apply(graph, node, shaped=False)

    def settle(self, graph: Graph) -> bool:
        """The same where types of inputs are known. True if a node was changed: types must be inferred again.

        Raises:
            AtcError: rules ``atc.plugin_refuses``, ``atc.plugin_shape``, ``atc.kernel_refuses``.
        """
        changed = [self._apply(graph, node, shaped=True) for node in list(graph.nodes)]
        return any(changed)

    def note_unjudged(self) -> None:
        """Add a note for each rule that shapes which stay open leave undecided: the node is computed as ONNX says."""
        self.notes += self._unjudged.values()

    def _apply(self, graph: Graph, node: Node, *, shaped: bool) -> bool:
        if node.domain != "ai.onnx" or node.name in self._made or graph.custom(node) is not None:
            return False
        facts = Facts(graph, node, self.soc)
        changed = False
        for number, rule in enumerate(table().rules.get(node.op_type, ())):
            key = (node.name, number)
            if rule.shaped != shaped or key in self._done or (rule.cann and rule.cann != tables.cann_version()):
                continue
            holds = self._holds(rule, facts)
            self._unjudged.pop(key, None)
            if holds is None and rule.deploy and not rule.exact:
                self._unjudged[key] = diagnose("atc.not_judged", name=node.name, op_type=node.op_type, about=rule.about)
            if not holds:
                continue
            if rule.refuse:
                raise AtcError(self._refusal(rule, facts))
            self._done.add(key)
            if not rule.exact:
                self.notes.append(self._diagnosis("deployed", rule, facts))
            changed |= self._deploy(rule, graph, node)
            if rule.deploy:
                break
        return changed

    @staticmethod
    def _holds(rule: Rule, facts: Facts) -> bool | None:
        """Whether a rule is for a node; None if that is not known yet."""
        try:
            return bool(eval(rule.when, {"__builtins__": {}}, facts))
        except NotKnown:
            return None

    def _deploy(self, rule: Rule, graph: Graph, node: Node) -> bool:
        for name in rule.drop:
            node.attributes.pop(name, None)
        for name, value in rule.set.items():
            node.set(name, value)
        if rule.deploy:
            at = graph.nodes.index(node)
            made = deploy.BY_NAME[rule.deploy](graph, node)
            graph.nodes[at : at + 1] = made
            self._made.update(item.name for item in made)
        return bool(rule.drop or rule.set or rule.deploy)

    def _diagnosis(self, name: str, rule: Rule, facts: Facts) -> Diagnosis:
        def value(text: str) -> Any:
            return eval(text, {"__builtins__": {}}, facts)

        return diagnose(
            f"atc.{name}",
            name=facts.node.name,
            op_type=facts.node.op_type,
            about=rule.about,
            says=filled(rule.says, value),
            do=rule.do,
        )

    def _refusal(self, rule: Rule, facts: Facts) -> list[Diagnosis]:
        if rule.refuse == "io":
            return [self._diagnosis("plugin_io", rule, facts)]
        if rule.refuse == "shape":
            return [self._diagnosis("plugin_shape", rule, facts)]
        if rule.refuse == "kernel":
            no_engine = diagnose("atc.no_engine", name=facts.node.name, op_type=facts.node.op_type, soc=self.soc.name)
            return [self._diagnosis("kernel_refuses", rule, facts), no_engine]
        stage = "one to many graph failed for op" if rule.refuse == "expand" else "parse failed for op"
        frame = diagnose("atc.parse_frame", text=f"{stage} {facts.node.name}")
        return [self._diagnosis("plugin_refuses", rule, facts), frame]

    def _limits(self, graph: Graph, node: Node) -> None:
        most = table().limits.get(node.op_type)
        if node.domain != "ai.onnx" or most is None or graph.custom(node) is not None:
            return
        facts = Facts(graph, node, self.soc)
        for side, count, there in (("input", most[0], facts.given), ("output", most[1], facts.used)):
            beyond = [index for index in range(count, len(getattr(node, f"{side}s"))) if there(index)]
            if beyond:
                says = f"{side} {beyond[0]} has no counterpart: the operator has {count} {side}s here"
                do = f"disconnect the {side}, or export at another opset."
                about = f"{side} {beyond[0]}"
                raise atc_error("plugin_io", name=node.name, op_type=node.op_type, about=about, says=says, do=do)
