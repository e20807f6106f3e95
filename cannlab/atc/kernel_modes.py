"""In which mode each kernel is compiled: ``--op_precision_mode``, ``--op_select_implmode`` with
``--optypelist_for_implmode``, ``--allow_hf32``.

An operator's name in the file comes before ``--allow_hf32``, that before its type in the file; without a file the list
of ``--op_select_implmode`` counts. Data: ``data/kernel_modes.json``, the lists of CANN 8.1 for the operators that ONNX
models have. Source: documentation of the options, and the order in which the fusion engine reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from cannlab.atc.errors import atc_error
from cannlab.atc.graph import Graph, Node
from cannlab.atc.source import read_file
from cannlab.atc.tasks import ge_type

OPTION = "--op_precision_mode"
PRECISE, FAST, KEEP_HALF = "high_precision", "high_performance", "keep_fp16"
HF32, FULL = "enable_hi_float_32_execution", "enable_float_32_execution"
MODES = frozenset((PRECISE, FAST, KEEP_HALF, HF32, FULL, "support_out_of_bound_index", "super_performance"))
"""What the file may say."""

PRODUCTS = frozenset(
    ("BatchMatMul", "BatchMatMulV2", "Conv2D", "Conv2DTransposeD", "Conv3D", "DepthwiseConv2D", "MatMul", "MatMulV2")
    + ("Conv2DTranspose", "FullyConnection", "GEMM")
)
"""GE types that ``--allow_hf32`` speaks of."""

OF_KERNEL = {
    **dict.fromkeys(
        ("Exp", "Gelu", "LogSoftmaxV2", "ReduceMean", "Sigmoid", "SoftmaxV2", "Sqrt", "Tanh"), (FAST, PRECISE)
    ),
    "LayerNorm": (FAST, PRECISE, KEEP_HALF),
}
"""The modes of kernels that check theirs, by GE type."""


@cache
def _lists() -> Mapping[str, Mapping[str, str]]:
    """The toolkit's lists by the value of ``--op_select_implmode``: GE type -> mode."""
    text = (resources.files("cannlab.atc") / "data" / "kernel_modes.json").read_text(encoding="utf-8")
    return {
        name: {ge: mode for mode, types in modes.items() for ge in types} for name, modes in json.loads(text).items()
    }


@dataclass(frozen=True)
class KernelModes:
    """What the options say.

    Attributes:
        by_name: node of the model -> mode. by_type: GE type -> mode.
        hf32: ``--allow_hf32``; None if it is not given.
        ignored: lines of the file that say nothing, which the real converter passes over too.
    """

    by_name: Mapping[str, str] = field(default_factory=dict)
    by_type: Mapping[str, str] = field(default_factory=lambda: _lists()[FAST])
    hf32: bool | None = None
    ignored: tuple[str, ...] = ()

    def of(self, graph: Graph, leader: Node, members: Sequence[Node]) -> str:
        """The mode of an operator; "" if nothing is said of it.

        Raises:
            AtcError: rule ``atc.kernel_mode`` if its kernel does not have it.
        """
        ge = ge_type(graph, leader)
        names = (name for node in (leader, *members) for name in (node.name, *node.sources))
        mode = next((self.by_name[name] for name in names if name in self.by_name), "")
        if not mode and self.hf32 is not None and ge in PRODUCTS:
            mode = HF32 if self.hf32 else FULL
        mode = mode or self.by_type.get(ge, "")
        known = OF_KERNEL.get(ge, ())
        if mode and known and mode not in known:
            raise atc_error("kernel_mode", op_type=ge, name=leader.name, mode=mode, known=", ".join(known))
        return mode

    def unused(self, graph: Graph) -> tuple[str, ...]:
        """Names in the file that the graph and its branches do not have."""
        present = {name for part in graph.walk() for node in part.nodes for name in (node.name, *node.sources)}
        return tuple(sorted(self.by_name.keys() - present))


def read(path: str, select: str, types: str, allow_hf32: str) -> KernelModes:
    """What the options say; "" for one that is not given.

    Args:
        path: ``--op_precision_mode``. select: ``--op_select_implmode``. types: ``--optypelist_for_implmode``.
        allow_hf32: "true", "false" or "".

    Raises:
        AtcError: rules of :func:`source.read_file`, and ``atc.config_content`` for a file that is no text.
    """
    hf32 = {"true": True, "false": False}.get(allow_hf32)
    if path:
        modes: dict[str, dict[str, str]] = {_BY_NAME: {}, _BY_TYPE: {}}
        ignored = []
        for section, name, mode in _entries(path):
            if name and mode in MODES:
                modes[section].setdefault(name, mode)
            else:
                ignored.append(f"{name}={mode}")
        return KernelModes(modes[_BY_NAME], {**_lists()[FAST], **modes[_BY_TYPE]}, hf32, tuple(ignored))
    listed = [name.strip() for name in types.split(",") if name.strip()]
    if listed and select in (PRECISE, FAST):
        return KernelModes(by_type={**_lists()[FAST], **dict.fromkeys(listed, select)}, hf32=hf32)
    return KernelModes(by_type=_lists()[select or FAST], hf32=hf32)


_BY_NAME, _BY_TYPE = "[ByNodeName]", "[ByOpType]"


def _entries(path: str) -> Iterator[tuple[str, str, str]]:
    """(section, name, mode) of each line; types come first."""
    try:
        text = read_file(path, OPTION).decode("utf-8")
    except UnicodeDecodeError as problem:
        form = "The file holds lines OpType=mode, and [ByNodeName] before lines node=mode."
        raise atc_error(
            "config_content", option=OPTION, path=path, reason="it is not a text file", form=form
        ) from problem
    section = _BY_TYPE
    for line in text.splitlines():
        if line.strip() in (_BY_NAME, _BY_TYPE):
            section = line.strip()
        elif "=" in line and not line.startswith("#"):
            name, _, mode = line.partition("=")
            yield section, name.strip(), mode.strip()
