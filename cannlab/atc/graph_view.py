"""Seeing a compiled graph: which operators are left, what each costs, which pass made it of which nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cannlab import om as oms
from cannlab import soc as socs
from cannlab.atc import source
from cannlab.machine import cost
from cannlab.om import Format, OmModel
from cannlab.om.model import branches, graphs
from cannlab.profiler.plain_table import Column, PlainTable

if TYPE_CHECKING:
    import onnx

    from cannlab.profiler.timeline import Picture

NO_KERNEL = "no kernel: only the description of the tensor changes"
CONTROL = "no kernel: it chooses which of its branches runs"
FOLDED = "not in the om: a constant, or read by no output"


@dataclass(frozen=True)
class OperatorRow:
    """An operator of the om.

    Attributes:
        number: its position. name, op_type, core_type: as in the om.
        nodes: the ONNX nodes that it stands for; () for one that the compiler put in.
        passes: the passes that made it, in order.
        ns: simulated time. bound_by: what it waits for: "cube", "memory", "vector", "launch".
        bytes_in, bytes_out, bytes_weights: global memory traffic, bytes.
        shape: shape and layout of its first result.
        sources: positions of the operators whose results it reads.
    """

    number: int
    name: str
    op_type: str
    core_type: str
    nodes: tuple[str, ...]
    passes: tuple[str, ...]
    ns: int
    bound_by: str
    bytes_in: int
    bytes_out: int
    bytes_weights: int
    shape: str
    sources: tuple[int, ...]


@dataclass(frozen=True)
class NodeRow:
    """A node of the ONNX model.

    Attributes:
        name, op_type: as in the model.
        operators: positions of the operators that compute it; () if none does.
        passes: the passes that took it, in order.
        fate: the operator's name, or why there is none.
    """

    name: str
    op_type: str
    operators: tuple[int, ...]
    passes: tuple[str, ...]
    fate: str


OPERATOR_COLUMNS = (
    Column("No.", right=True),
    Column("Operator"),
    Column("Type"),
    Column("ONNX nodes"),
    Column("Passes"),
    Column("Result"),
    Column("Time(us)", right=True),
    Column("Share(%)", right=True),
    Column("Bound by"),
    Column("In(KiB)", right=True),
    Column("Out(KiB)", right=True),
    Column("Weights(KiB)", right=True),
)
NODE_COLUMNS = (Column("ONNX node"), Column("Type"), Column("Operator"), Column("Passes"))


@dataclass(frozen=True)
class GraphView:
    """A compiled graph, and the one before if it was given.

    Attributes:
        name: the model. soc: the chip whose times are shown.
        operators: the om's operators, in order. nodes: the ONNX model's nodes, in order; () if it was not given.
        fixed_ns: time of an execution besides its operators.
    """

    name: str
    soc: str
    operators: tuple[OperatorRow, ...]
    nodes: tuple[NodeRow, ...]
    fixed_ns: int

    @property
    def total_ns(self) -> int:
        """Time of all operators, ns."""
        return sum(row.ns for row in self.operators)

    def operator_table(self) -> PlainTable:
        """The operators, with what they cost."""
        whole = max(1, self.total_ns)
        rows = [
            (
                str(row.number),
                row.name,
                row.op_type,
                " + ".join(row.nodes),
                ", ".join(row.passes),
                row.shape,
                f"{row.ns / 1000:.1f}",
                f"{100 * row.ns / whole:.1f}",
                row.bound_by,
                *(f"{size / 1024:.1f}" for size in (row.bytes_in, row.bytes_out, row.bytes_weights)),
            )
            for row in self.operators
        ]
        return PlainTable(OPERATOR_COLUMNS, rows)

    def node_table(self) -> PlainTable:
        """The model's nodes, and what became of them."""
        rows = [(row.name, row.op_type, row.fate, ", ".join(row.passes)) for row in self.nodes]
        return PlainTable(
            NODE_COLUMNS, rows, frozenset(number for number, row in enumerate(self.nodes) if not row.operators)
        )

    def summary(self) -> str:
        """One line: how many nodes became how many operators, and the time."""
        before = f"{len(self.nodes)} ONNX nodes became " if self.nodes else ""
        whole = (self.total_ns + self.fixed_ns) / 1000
        return f"{self.name} on {self.soc}: {before}{len(self.operators)} operators, {whole:.1f} us (simulated)"

    def text(self) -> str:
        """Everything as text."""
        parts = [self.summary(), self.operator_table().text()]
        return "\n".join([*parts, "Node by node:", self.node_table().text()] if self.nodes else parts)

    def to_json(self) -> str:
        """Everything as JSON."""
        data = {
            "model": self.name,
            "soc": self.soc,
            "total_ns": self.total_ns + self.fixed_ns,
            "operators": [_plain(row) for row in self.operators],
            "nodes": [_plain(row) for row in self.nodes],
        }
        return json.dumps(data, indent=2)

    def picture(self) -> Picture:
        """Before and after side by side; the first 60 operators."""
        from cannlab.atc.graph_picture import draw

        return draw(self)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        tables = self.operator_table().html() + (self.node_table().html() if self.nodes else "")
        return PlainTable.note(self.summary()) + tables


def _plain(row: OperatorRow | NodeRow) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(row).items()}


def view(
    om: str | os.PathLike[str] | OmModel,
    before: str | os.PathLike[str] | onnx.ModelProto | None = None,
    *,
    soc: str | None = None,
) -> GraphView:
    """Look at a compiled graph.

    Args:
        om: the om, or its path.
        before: the ONNX model that it was compiled from, or its path.
        soc: the chip whose times are wanted; the om's own by default.

    Raises:
        OmError: rules of ``om.read``. AtcError: rules of ``source.load``.
    """
    import onnx

    compiled = om if isinstance(om, OmModel) else oms.read(om)
    model = before if before is None or isinstance(before, onnx.ModelProto) else source.load(os.fspath(before))
    chip = socs.get(soc or compiled.soc)
    operators = _operators(compiled, chip)
    nodes = () if model is None else tuple(_nodes(compiled, model, operators))
    return GraphView(compiled.name, chip.name, operators, nodes, cost.model_ns(compiled, chip) - _sum(operators))


def _sum(operators: Sequence[OperatorRow]) -> int:
    return sum(row.ns for row in operators)


def _operators(om: OmModel, chip: socs.Soc) -> tuple[OperatorRow, ...]:
    writer: dict[str, int] = {}
    free = _free(om)
    rows = []
    for number, task in enumerate(om.tasks):
        lowered = set(task.lowered)
        passes = [fusion.name for fusion in om.fusions if fusion.into in lowered]
        first = task.outputs[0] if task.outputs else None
        sources = {
            writer[free.get(item.name, item.name)] for item in task.inputs if free.get(item.name, item.name) in writer
        }
        rows.append(
            OperatorRow(
                number=number,
                name=task.name,
                op_type=task.op_type,
                core_type=task.core_type,
                nodes=task.nodes,
                passes=tuple(dict.fromkeys(passes)),
                ns=cost.task_ns(task, chip),
                bound_by=cost.bound_by(task, chip),
                bytes_in=task.cost.bytes_in,
                bytes_out=task.cost.bytes_out,
                bytes_weights=task.cost.bytes_weights,
                shape="" if first is None else f"{'x'.join(map(str, first.dims))} {Format(first.format).name}",
                sources=tuple(sorted(sources)),
            )
        )
        writer.update((tensor.name, number) for tensor in task.outputs)
    return tuple(rows)


def _free(om: OmModel) -> dict[str, str]:
    """What nodes without a kernel write -> the tensor that an operator wrote."""
    tasks = {node for task in om.tasks for node in task.lowered}
    found: dict[str, str] = {}
    for node in _all_nodes(om.graph()):
        inner = branches(node)
        for index, name in enumerate(node.output):
            if inner:
                found[name] = inner["then_branch"].output[index].name
            elif node.name not in tasks and node.input:
                found[name] = found.get(node.input[0], node.input[0])
    return found


def _all_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of a model, those of its branches after the others."""
    return [node for part in graphs(model.graph) for node in part.node]


def _nodes(om: OmModel, model: onnx.ModelProto, operators: Sequence[OperatorRow]) -> list[NodeRow]:
    lowered = {node.name: node for node in _all_nodes(om.graph())}
    unnamed = 0
    rows = []
    for node in _all_nodes(model):
        name = node.name
        if not name:  # numbered as the parser numbers them
            name, unnamed = f"{node.op_type}_{unnamed}", unnamed + 1
        where = tuple(row.number for row in operators if name in row.nodes)
        passes = tuple(dict.fromkeys(fusion.name for fusion in om.fusions if name in fusion.nodes))
        if where:
            fate = ", ".join(operators[number].name for number in where)
        elif name in lowered:
            fate = CONTROL if branches(lowered[name]) else NO_KERNEL
        else:
            fate = f"removed by {passes[-1]}" if passes else FOLDED
        rows.append(NodeRow(name, node.op_type, where, passes, fate))
    return rows


def netron(path: str | os.PathLike[str], *, browse: bool = True) -> tuple[str, int]:
    """Show an ONNX model, or an om's lowered graph, in Netron (``pip install netron``); returns the server's address.

    Raises:
        ModuleNotFoundError: Netron is not installed.
        OmError: rules of ``om.read`` for an om.
    """
    import netron as viewer

    name = os.fspath(path)
    with open(name, "rb") as file:
        compiled = file.read(8) == oms.container.MAGIC
    if not compiled:
        return viewer.start(name, browse=browse)  # type: ignore[no-any-return]
    # Netron does not know the om; what is in it is an ONNX graph.
    data = oms.read(name).graph(weights=True).SerializeToString()
    return viewer.serve(os.path.basename(name) + ".onnx", data, browse=browse)  # type: ignore[no-any-return]
