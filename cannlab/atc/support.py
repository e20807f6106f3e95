"""Which ONNX operators ATC knows, and what runs them on each chip.

Data: ``data/op_support.json``, for each operator of a domain: the GE type, the opset versions that have a parser, for
each family of chips with an AI Core kernel the types of its first input (null: not stated), and whether the AI CPU has
one. Source: pyacl-and-atc 4 (CANN 8.1.RC1 tables).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from cannlab.machine import custom_ops
from cannlab.soc import Soc

BUILT_IN = frozenset(("Constant",))
"""Types that the parser itself handles at every opset."""

LOCAL = frozenset(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Shape", "Size", "Dropout"))
"""Types that cost no kernel: they change the description of a tensor, or vanish."""

CUBE = frozenset(("Conv", "ConvTranspose", "MatMul", "Gemm"))
"""Types that run on the cube unit."""

_SPLIT_CUBE = ("ascend910b", "ascend910_93")
_ANY = ("float16", "float32", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


@dataclass(frozen=True, slots=True)
class Support:
    """What is known of one operator.

    Attributes:
        ge_type: GE type.
        opsets: opset versions of its domain that have a parser.
        cores: family of chips -> element types of the first input that the AI Core kernel takes.
        ai_cpu: True if the AI CPU has a kernel.
    """

    ge_type: str
    opsets: frozenset[int]
    cores: Mapping[str, tuple[str, ...]]
    ai_cpu: bool


def _types(family: str, op_type: str, stated: list[str] | None) -> tuple[str, ...]:
    """The element types of a kernel; assumed where the table does not state them."""
    if stated is not None:
        return tuple(stated)
    if op_type in CUBE:
        # Cubes of the first generations multiply fp16 and int8 only.
        return ("float16", "float32", "bfloat16", "int8") if family in _SPLIT_CUBE else ("float16", "int8")
    return (*_ANY, "bfloat16") if family in _SPLIT_CUBE else _ANY


@cache
def table() -> Mapping[str, Support]:
    """All operators by ``type`` (default domain) or ``domain::type``."""
    text = (resources.files("cannlab.atc") / "data" / "op_support.json").read_text(encoding="utf-8")
    found: dict[str, Support] = {}
    for key, entry in json.loads(text).items():
        versions = entry["opsets"]
        opsets = frozenset(versions if entry.get("exact") else range(versions[0], versions[1] + 1))
        cores = {family: _types(family, key, stated) for family, stated in entry["cores"].items()}
        found[key] = Support(entry["ge"], opsets, cores, entry["ai_cpu"])
    return found


def find(domain: str, op_type: str) -> Support | None:
    """What is known of an operator; None if nothing is."""
    return table().get(op_type if domain == "ai.onnx" else f"{domain}::{op_type}")


STANDS_FOR = {
    "LayerNorm": "LayerNormalization",
    "AddLayerNorm": "LayerNormalization",
    "Gelu": "Erf",
    "Sigmoid": "Sigmoid",
    "SoftmaxV2": "Softmax",
    "BNInfer": "BatchNormalization",
    "ConfusionTransposeD": "Transpose",
    "MatMulV2": "MatMul",
}
"""GE types that a fusion pass makes -> the ONNX type whose kernels' element types are taken for theirs."""


def of_node(domain: str, op_type: str, kernel: str = "") -> Support | None:
    """What is known of a node's kernel; ``kernel`` is the GE type that a pass made of it."""
    return find("ai.onnx", STANDS_FOR[kernel]) if kernel in STANDS_FOR else find(domain, op_type)


def has_parser(domain: str, op_type: str, opset: int) -> bool:
    """True if ``domain::opset::type`` is registered, built in or custom. The version must match exactly."""
    if domain == "ai.onnx" and op_type in BUILT_IN:
        return True
    known = find(domain, op_type)
    return (known is not None and opset in known.opsets) or custom_ops.find(domain, op_type, opset) is not None


def unparsed(domain: str, op_type: str) -> tuple[str, str]:
    """The rule that an operator without a parser breaks, without its area, and what to do about it."""
    known = find(domain, op_type)
    if known is not None:
        low, high = min(known.opsets), max(known.opsets)
        do = f"{op_type} is known at opset {low} to {high}: export the model with opset_version=11, 13 or 17."
        return "no_parser_opset", do
    if domain == "ai.onnx" and any(key.lower() == op_type.lower() for key in table()):
        return "no_parser", "the letters of the type differ from the registered one: rename the node's type."
    if "Quantize" in op_type or op_type.startswith("QLinear"):
        return "no_parser_quantised", (
            "convert the float32 model instead. The toolkit's own compression tool (AMCT) quantises it: "
            "its models hold AscendQuant and AscendDequant, which ATC takes."
        )
    return "no_parser", (
        "replace it by standard operators, cut it out of the graph, "
        "or register a kernel for it (cannlab.ascendc.custom_operator.custom_operator)."
    )


def family(soc: Soc) -> str:
    """The family of a chip in the table. The newest family is not in it yet and takes its predecessor's entry."""
    name = soc.short.lower()
    return "ascend910b" if name == "ascend910_95" else name
