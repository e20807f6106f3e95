"""Which unit of the chip runs an operator: AI Core, AI CPU, or none."""

from __future__ import annotations

from dataclasses import dataclass, field

from cannlab.atc import support
from cannlab.atc.errors import AtcError
from cannlab.atc.graph import Graph
from cannlab.atc.wiring import Wiring
from cannlab.errors import Diagnosis, diagnose

AI_CORE = "AI_CORE"
AI_VECTOR_CORE = "AI_VECTOR_CORE"
AI_CPU = "AI_CPU"
LOCAL = "LOCAL"


@dataclass
class Placement:
    """Where each node runs.

    Attributes:
        core_of: node name -> core type; LOCAL for one without a kernel.
        warnings: W11001 for each operator that only the AI CPU takes.
    """

    core_of: dict[str, str] = field(default_factory=dict)
    warnings: list[Diagnosis] = field(default_factory=list)


def place(graph: Graph, family: str, soc_name: str, *, split: bool) -> Placement:
    """Find a kernel for every node, in the types that the graph has now.

    Args:
        graph: lowered, with types.
        family: the chip's family in the support table.
        soc_name: the chip, for messages.
        split: True if the vector units are cores of their own.

    Raises:
        AtcError: rules ``atc.kernel_types``, ``atc.no_engine``, ``atc.engine_unknown`` for each node that nothing
            runs.
    """
    found = Placement()
    refused: list[Diagnosis] = []
    w = Wiring(graph)
    for node in graph.nodes:
        custom = graph.custom(node)
        if custom is not None:
            found.core_of[node.name] = custom.core_type
            continue
        if node.op_type in support.LOCAL and not node.kernel:
            found.core_of[node.name] = LOCAL
            continue
        known = support.of_node(node.domain, node.op_type, node.kernel)
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
            refused.append(diagnose("atc.engine_unknown", name=node.name, op_type=known.ge_type))
        else:
            if types:
                listed = ", ".join(types)
                refused.append(
                    diagnose("atc.kernel_types", op_type=known.ge_type, dtype=name, types=listed, name=node.name)
                )
            refused.append(diagnose("atc.no_engine", name=node.name, op_type=known.ge_type, soc=soc_name))
    if refused:
        raise AtcError(refused)
    return found
