"""Which unit of the chip runs an operator: AI Core, AI CPU, or none."""

from __future__ import annotations

from dataclasses import dataclass, field

from cannlab.atc import support
from cannlab.atc.errors import AtcError
from cannlab.atc.graph import Graph, Node
from cannlab.atc.wiring import Wiring
from cannlab.errors import Diagnosis, diagnose
from cannlab.machine import kernels

AI_CORE = "AI_CORE"
AI_VECTOR_CORE = "AI_VECTOR_CORE"
AI_CPU = "AI_CPU"
LOCAL = "LOCAL"


@dataclass
class Placement:
    """Where each node runs.

    Attributes:
        core_of: node name -> core type; LOCAL for one without a kernel.
        warnings: W11001 for each operator that only the AI CPU takes, and those of which that is assumed.
    """

    core_of: dict[str, str] = field(default_factory=dict)
    warnings: list[Diagnosis] = field(default_factory=list)


def place(graph: Graph, family: str, soc_name: str, *, split: bool, vector_only: bool = False) -> Placement:
    """Find a kernel for every node, in the types that the graph has now.

    Args:
        graph: lowered, with types.
        family: the chip's family in the support table.
        soc_name: the chip, for messages.
        split: True if the vector units are cores of their own.
        vector_only: only vector cores may be used (``--core_type=VectorCore``).

    Raises:
        AtcError: rules ``atc.vector_core``, ``atc.kernel_types``, ``atc.no_engine`` for each node that nothing runs,
            ``atc.kernel_not_emulated``.
    """
    found = Placement()
    refused: list[Diagnosis] = []
    for w in map(Wiring, graph.walk()):
        for node in w.nodes():
            if vector_only and node.op_type in support.CUBE and not node.inner:
                refused.append(diagnose("atc.vector_core", name=node.name, op_type=node.op_type))
            _place(w, node, found, refused, family, soc_name, split=split or vector_only)
    refused += [] if refused else _not_to_be_run(graph)
    if refused:
        raise AtcError(refused)
    return found


def _place(
    w: Wiring, node: Node, found: Placement, refused: list[Diagnosis], family: str, soc_name: str, *, split: bool
) -> None:
    custom = w.graph.custom(node)
    if custom is not None:
        found.core_of[node.name] = custom.core_type
        return
    if node.inner:
        return
    if node.branches or (node.known_as in support.LOCAL and not node.kernel):
        found.core_of[node.name] = LOCAL
        return
    known = support.of_node(node.domain, node.known_as, node.kernel)
    assert known is not None
    types = known.cores.get(family, ())
    name = w.kernel_type(node).name
    if name in types:
        cube = node.op_type in support.CUBE
        found.core_of[node.name] = AI_VECTOR_CORE if split and not cube else AI_CORE
    elif known.ai_cpu:
        found.core_of[node.name] = AI_CPU
        found.warnings.append(diagnose("atc.ai_cpu", name=node.name, op_type=known.ge_type, soc=soc_name))
    elif not known.cores:
        found.core_of[node.name] = AI_CPU
        found.warnings.append(diagnose("atc.engine_assumed", name=node.name, op_type=known.ge_type))
    else:
        if types:
            listed = ", ".join(types)
            refused.append(
                diagnose("atc.kernel_types", op_type=known.ge_type, dtype=name, types=listed, name=node.name)
            )
        refused.append(diagnose("atc.no_engine", name=node.name, op_type=known.ge_type, soc=soc_name))


def _not_to_be_run(graph: Graph) -> list[Diagnosis]:
    """Nodes that the executor has no kernel for."""
    found: list[Diagnosis] = []
    for part in graph.walk():
        for node in part.nodes:
            types = tuple(part.dtype(name) if name else 0 for name in node.inputs)
            plain = node.domain == "ai.onnx" and not node.branches and part.custom(node) is None
            plain = plain and not part.is_quantised(node)
            if plain and not kernels.runs(node.to_onnx(), part.opset, types):
                names = ", ".join(part.known_type(name).name for name in node.inputs if name)
                found.append(diagnose("atc.kernel_not_emulated", name=node.name, op_type=node.op_type, types=names))
    return found
