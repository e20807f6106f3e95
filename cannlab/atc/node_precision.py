"""Types of single operators: ``--keep_dtype`` and ``--customize_dtypes``.

Both files name operators by name or, as ``OpType::Type``, by GE type, one on a line. Source: documentation of the two
options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import TensorProto

from cannlab.atc import support
from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.atc.source import read_file
from cannlab.atc.tasks import ge_type

_TYPE = "OpType::"
_DTYPES = {
    "float": int(TensorProto.FLOAT),
    "float32": int(TensorProto.FLOAT),
    "float16": int(TensorProto.FLOAT16),
    "bfloat16": int(TensorProto.BFLOAT16),
}
_KERNEL_NAME = {
    int(TensorProto.FLOAT): "float32",
    int(TensorProto.FLOAT16): "float16",
    int(TensorProto.BFLOAT16): "bfloat16",
}


@dataclass(frozen=True)
class Overrides:
    """What the two files say.

    Attributes:
        kept: names and ``OpType::Type`` of operators that keep the model's types.
        given: name or ``OpType::Type`` -> TensorProto.DataType numbers that the operator reads and writes.
    """

    kept: frozenset[str] = frozenset()
    given: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def keeps(self, graph: Graph, nodes: Sequence[Node]) -> bool:
        """True for an operator that keeps the model's types. ``nodes`` are its parts, the leading one first."""
        return bool(self.kept) and any(key in self.kept for node in nodes for key in _keys(graph, node))

    def types(self, graph: Graph, nodes: Sequence[Node], family: str) -> tuple[int, int] | None:
        """The types that the user gives an operator, by its leading part first; a name comes before a type.

        Raises:
            AtcError: rule ``atc.custom_types`` if the operator has no kernel for them on this chip.
        """
        keys = (key for node in nodes for key in _keys(graph, node)) if self.given else ()
        found = next((self.given[key] for key in keys if key in self.given), None)
        if found is None:
            return None
        node = nodes[0]
        known = support.of_node(node.domain, node.known_as, node.kernel)
        types = known.cores.get(family, ()) if known is not None else ()
        for dtype in found:
            if (node.op_type not in support.LOCAL or node.kernel) and _KERNEL_NAME[dtype] not in types:
                listed = ", ".join(types) or "none"
                raise atc_error("custom_types", name=node.name, dtype=_KERNEL_NAME[dtype], types=listed)
        return found

    def unused(self, graph: Graph) -> tuple[str, ...]:
        """Entries that no operator of the graph and its branches answers to."""
        present = {key for part in graph.walk() for node in part.nodes for key in _keys(part, node)}
        return tuple(sorted((self.kept | self.given.keys()) - present))


def _keys(graph: Graph, node: Node) -> Iterator[str]:
    yield from (node.name, *node.sources)
    yield _TYPE + ge_type(graph, node)


def read(keep: str, customize: str) -> Overrides:
    """Read both files; "" is none.

    Raises:
        AtcError: rules of :func:`source.read_file`, and ``atc.dtype_file``.
    """
    kept = frozenset(_lines(keep, "--keep_dtype")) if keep else frozenset[str]()
    given = dict(_customized(customize, line) for line in _lines(customize, "--customize_dtypes")) if customize else {}
    return Overrides(kept, given)


def _lines(path: str, option: str) -> list[str]:
    try:
        text = read_file(path, option).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise atc_error("dtype_file", path=path, reason="it is not a text file") from problem
    return [line for line in (line.strip() for line in text.splitlines()) if line and not line.startswith("#")]


def _customized(path: str, line: str) -> tuple[str, tuple[int, int]]:
    match = re.fullmatch(r"(.+?)::?InputDtype:([\w,]+),OutputDtype:([\w,]+)", line)
    if match is None:
        reason = f"{line!r} is not NAME::InputDtype:a,b,OutputDtype:c or OpType::Type:InputDtype:a,OutputDtype:c"
        raise atc_error("dtype_file", path=path, reason=reason)
    types = []
    for words in match.groups()[1:]:
        names = words.strip(",").split(",")
        unknown = next((name for name in names if name not in _DTYPES), None)
        if unknown is not None:
            raise atc_error("dtype_file", path=path, reason=f"{unknown!r} is not float32, float16 or bfloat16")
        if len(set(names)) != 1:
            raise atc_error(
                "dtype_file", path=path, reason=f"{words} mixes types on one side, which no kernel here takes"
            )
        types.append(_DTYPES[names[0]])
    return match[1], (types[0], types[1])
